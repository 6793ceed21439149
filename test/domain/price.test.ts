import fc from 'fast-check';
import t from 'tap';
import { readDay, readPrice } from '../../src/domain/field.ts';
import { type Model, modelAt } from '../../src/domain/model.ts';
import { priceIn, readMoment, readPriceIn } from '../../src/domain/price.ts';
import { formatEur, parseEur } from '../../src/domain/pricing/money.ts';
import { parsePrices } from '../../src/domain/pricing/prices.ts';

t.test('a price per million is the one per thousand with the point moved', async (t) => {
  for (const [perThousand, perMillion] of [
    ['0', '0'],
    ['0.000000000001', '0.000000001'],
    ['999999.999999999999', '999999999.999999999'],
    ['0.0025', '2.5'],
    ['12', '12000'],
    ['0.15', '150'],
    ['1.0001', '1000.1'],
  ] as const) {
    t.equal(priceIn('1M', perThousand), perMillion);
    t.equal(readPriceIn('1M')(perMillion), perThousand);
  }
  t.equal(readPriceIn('1M')('002.50'), '0.0025');
  t.equal(priceIn('1k', '0.50'), '0.5');
});

t.test('there and back changes no digit', async () => {
  const digits = fc.string({ unit: fc.constantFrom(...'0123456789'), maxLength: 12 });
  fc.assert(
    fc.property(fc.nat(999_999), digits, (whole, fraction) => {
      const price = formatEur(parseEur(fraction === '' ? `${whole}` : `${whole}.${fraction}`));
      const perMillion = priceIn('1M', price);
      return (
        readPriceIn('1M')(perMillion) === price &&
        parseEur(perMillion) === parseEur(price) * 1000n &&
        readPrice(price) === price
      );
    }),
    { numRuns: 500 },
  );
});

t.test('what is no price per million is refused', async (t) => {
  for (const text of ['', '-1', '1e3', '1,5', '.5', '1.', '1000000000', '0.0000000001', ' 1'])
    t.throws(() => readPriceIn('1M')(text), /must be EUR per 1,000,000 tokens/, text);
});

t.test('a moment is a day or an instant', async (t) => {
  t.same(readMoment('2027-01-31'), { day: '2027-01-31' });
  t.same(readMoment('2027-01-31T00:00:00+01:00'), { at: new Date('2027-01-30T23:00:00Z') });
  t.throws(() => readMoment('2027-02-30'), /must be/);
  t.equal(readDay('2027-01-31'), '2027-01-31');
  for (const text of ['2027-02-30', 'today', '2027-01-31T00:00:00Z'])
    t.throws(() => readDay(text), /must be a date/);
});

t.test('of several prices to come the one of the instant is taken', async (t) => {
  const base = {
    slug: 'm',
    upstream: 'u',
    kind: 'chat',
    euHosted: true,
    acceptsTokens: false,
    created: 0,
  } as const;
  const third: Model = { ...base, prices: parsePrices('3', '3'), next: null };
  const second: Model = {
    ...base,
    prices: parsePrices('2', '2'),
    next: { from: 2000.5, model: third },
  };
  const first: Model = {
    ...base,
    prices: parsePrices('1', '1'),
    next: { from: 1000, model: second },
  };
  t.same(
    [0, 999, 1000, 2000, 2001, 1e15].map((at) => modelAt(first, at).prices.texts.input),
    ['1', '1', '2', '2', '3', '3'],
  );
});
