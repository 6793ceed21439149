import fc from 'fast-check';
import t from 'tap';
import { formatDecimal, formatEur, parseEur, writeEur } from '../../../src/domain/pricing/money.ts';
import { costOf, mostCost, parsePrices } from '../../../src/domain/pricing/prices.ts';

t.test(
  'cost is (prompt / 1000) × input price + (completion / 1000) × output price, to the last digit',
  async (t) => {
    const prices = parsePrices('0.00015', '0.0006');
    t.equal(formatEur(costOf(prices, 1000, 1000)), '0.00075');
    t.equal(formatEur(costOf(prices, 1, 0)), '0.00000015');
    t.equal(formatEur(costOf(prices, 7, 3)), '0.00000285');
    t.equal(formatEur(costOf(parsePrices('0.000000000001', '0'), 1, 0)), '0.000000000000001');
    t.equal(formatEur(costOf(parsePrices('2.5', '10'), 646, 0)), '1.615');
  },
);

t.test(
  'cost agrees with whole-number arithmetic on the decimals, for any prices and counts',
  async () => {
    const price = fc.tuple(fc.bigInt(0n, 999_999n), fc.bigInt(0n, 10n ** 12n - 1n));
    const count = fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER });
    fc.assert(
      fc.property(price, price, count, count, ([iw, id], [ow, od], prompt, completion) => {
        const text = (whole: bigint, decimals: bigint): string =>
          `${whole}.${decimals.toString().padStart(12, '0')}`;
        const expected =
          BigInt(prompt) * (iw * 10n ** 12n + id) + BigInt(completion) * (ow * 10n ** 12n + od); // in 10^-15 EUR
        const cost = costOf(parsePrices(text(iw, id), text(ow, od)), prompt, completion);
        return cost === expected && parseEur(formatEur(cost)) === expected;
      }),
    );
  },
);

t.test(
  'cached input: a cost is the sum of its parts, and without a price it is the input price',
  async (t) => {
    const cost = (...prices: Parameters<typeof parsePrices>) =>
      formatEur(costOf(parsePrices(...prices), 87_000, 1000, { cached: 80_000, cacheWrite: 5000 }));
    t.equal(cost('0.002', '0.01'), '0.184');
    t.equal(cost('0.002', '0.01', { cache_read: '0.0002' }), '0.04');
    t.equal(cost('0.002', '0.01', { cache_read: '0.0002', cache_write: '0.0025' }), '0.0425');
    t.equal(cost('0.002', '0.01', { cache_write: '0.0025' }), '0.1865');
    t.equal(cost('0.002', '0.01', { cache_read: '0', cache_write: '0' }), '0.014', '0 is a price');
    const prices = parsePrices('0.002', '0.01', { cache_read: '0.0002', cache_write: '0.0025' });
    t.equal(formatEur(costOf(prices, 87_000, 1000)), '0.184', 'not told');
    t.equal(formatEur(costOf(prices, 87_000, 1000, { cached: null, cacheWrite: null })), '0.184');
    t.equal(formatEur(mostCost(prices, 1000, 1000)), '0.0125', 'the dearest of the three');
    t.equal(
      formatEur(
        mostCost(
          parsePrices('0.002', '0.01', { cache_read: '0', cache_write: '0.001' }),
          1000,
          1000,
        ),
      ),
      '0.012',
    );
    t.equal(formatEur(mostCost(parsePrices('0', '0', { cache_read: '3' }), 1000, 1000)), '3');
  },
);

t.test('amounts read and print as Postgres writes them', async (t) => {
  for (const text of ['0', '12', '0.5', '-0.000000000000001', '123456789.123456789012345']) {
    t.equal(formatEur(parseEur(text)), text);
  }
  t.equal(formatEur(parseEur('1.500')), '1.5');
  t.equal(
    formatEur(parseEur('0.1234567890123459')),
    '0.123456789012345',
    'digits beyond the 15th are cut off',
  );
  for (const text of ['', '1e3', 'NaN', '1,5', ' 1', '.5'])
    t.throws(() => parseEur(text), RangeError);
});

t.test(
  'an amount has the text of a bigint with a point in it, as a string and in bytes',
  async () => {
    const edge = fc
      .tuple(fc.bigInt(0n, 9_007_199n), fc.constantFrom(-1n, 0n, 1n))
      .map(([n, more]) => n * 10n ** 9n + more);
    const small = fc.bigInt(0n, BigInt(Number.MAX_SAFE_INTEGER));
    const round = fc
      .tuple(fc.bigInt(0n, 20n), fc.integer({ min: 0, max: 17 }))
      .map(([n, zeros]) => n * 10n ** BigInt(zeros));
    const amount = fc.oneof(edge, small, round, fc.bigInt(), fc.constant(2n ** 53n));
    fc.assert(
      fc.property(amount, (amount) => {
        const bytes = Buffer.alloc(400);
        const end = writeEur(bytes, 5, amount);
        const text = formatDecimal(amount, 15);
        return bytes.toString('latin1', 5, end) === text && formatEur(amount) === text;
      }),
      { numRuns: 2000 },
    );
  },
);
