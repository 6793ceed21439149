import fc from 'fast-check';
import t from 'tap';
import { formatEur, parseEur } from '../../../src/domain/pricing/money.ts';
import { COST_PARTS, type CostPart, PARTS } from '../../../src/domain/pricing/parts.ts';
import {
  chargedParts,
  costOf,
  mostCost,
  parsePrices,
  partsWithin,
  pricesToBound,
  ratedPrices,
  type SomeCounts,
} from '../../../src/domain/pricing/prices.ts';
import { parseRates } from '../../../src/domain/pricing/rates.ts';

t.test('a part without a price costs what it is among', async (t) => {
  const cost = (others: Partial<Record<CostPart, string>>, counts: SomeCounts) =>
    formatEur(costOf(parsePrices('0.002', '0.01', others), 100_000, 1000, counts));
  const counts = { cached: 80_000, cacheWrite: 10_000, cacheWriteHour: 6000 };
  t.equal(cost({}, counts), '0.21');
  t.equal(cost({ cache_write: '0.0025' }, counts), '0.215', 'an hour costs what minutes cost');
  t.equal(cost({ cache_write: '0.0025', cache_write_1h: '0.004' }, counts), '0.224');
  t.equal(cost({ cache_write_1h: '0.004' }, counts), '0.222', 'minutes cost the input price');
  t.equal(cost({ reasoning: '0.02' }, { reasoning: 600 }), '0.216');
  t.equal(
    cost({ audio_input: '0.02', audio_output: '0.1' }, { audioPrompt: 1000, audioCompletion: 10 }),
    '0.2289',
  );
  t.equal(cost({ request: '5' }, {}), '0.215', 'for 1000 calls');
  t.equal(cost({ search_unit: '2' }, { searchUnits: 3 }), '0.216');
});

t.test('counts beyond their whole are cut, the later parts first', async (t) => {
  const prices = parsePrices('1', '2', {
    cache_read: '0.1',
    cache_write: '1.25',
    cache_write_1h: '2',
    audio_input: '3',
    reasoning: '4',
  });
  const tokens = { prompt: 100, completion: 10 };
  const fits = { cached: 50, cacheWrite: 30, cacheWriteHour: 30, audioPrompt: 20, reasoning: 10 };
  t.equal(partsWithin(prices, tokens, fits), fits, 'the same object');
  t.match(partsWithin(prices, tokens, { ...fits, audioPrompt: 21 }), { audioPrompt: 20 });
  t.match(partsWithin(prices, tokens, { ...fits, cached: 90 }), {
    cached: 90,
    cacheWrite: 10,
    cacheWriteHour: 10,
    audioPrompt: 0,
  });
  t.match(partsWithin(prices, tokens, { ...fits, reasoning: 11 }), { reasoning: 10 });
  t.match(
    partsWithin(parsePrices('1', '2'), tokens, { cached: 90, cacheWrite: 101 }),
    { cached: 90, cacheWrite: null },
    'without a price a count that cannot be is left out',
  );
  t.match(partsWithin(prices, { prompt: null, completion: null }, { cached: 900 }), {
    cached: 900,
  });
});

const price = fc.bigInt(0n, 10n ** 12n).map((n) => formatEur(n * 1000n));
const count = fc.option(fc.nat(2000));
const others = Object.fromEntries(
  COST_PARTS.filter((part) => part !== 'input' && part !== 'output').map((part) => [
    part,
    fc.option(price),
  ]),
);
const anyPrices = fc
  .tuple(price, price, fc.record(others) as fc.Arbitrary<Partial<Record<CostPart, string | null>>>)
  .map((texts) => parsePrices(...texts));
const anyCounts = fc.record({
  cached: count,
  cacheWrite: count,
  cacheWriteHour: count,
  audioPrompt: count,
  imagePrompt: count,
  reasoning: count,
  audioCompletion: count,
  imageCompletion: count,
  searchUnits: count,
});

t.test('a cost is the sum of its parts, whose units are all tokens', async () => {
  fc.assert(
    fc.property(
      anyPrices,
      anyCounts,
      fc.nat(2000),
      fc.nat(2000),
      (prices, told, prompt, completion) => {
        const tokens = { prompt, completion };
        const counts = partsWithin(prices, tokens, told);
        const cost = costOf(prices, prompt, completion, counts);
        if (cost < 0n || cost > mostCost(prices, prompt, completion, told.searchUnits ?? 0))
          return false;
        const parts = chargedParts(prices, tokens, counts);
        if (parts === null) return true;
        const sum = parts.reduce(
          (all, { units, price }) => all + (BigInt(units) * parseEur(price)) / 1000n,
          0n,
        );
        const within = (side: string) =>
          parts
            .filter(({ part }) => PARTS[part].within === side)
            .reduce((all, { units }) => all + units, 0);
        return (
          sum === cost &&
          within('prompt') === prompt &&
          within('completion') === completion &&
          parts.every(({ units }) => units > 0)
        );
      },
    ),
  );
});

t.test('the most that a call can cost is that of the dearest rate it can still get', async (t) => {
  const rates = parseRates([
    { over: 1000, input: '2', output: '3' },
    { tier: 'priority', input: '10', output: '10' },
    { tier: 'flex', input: '0.5', output: '0.5' },
    { hours: '22:00-06:00 UTC', input: '4', output: '4' },
    { tier: 'priority', hours: '22:00-06:00 UTC', input: '20', output: '20' },
    { tier: 'flex', hours: '22:00-06:00 UTC', input: '2', output: '2' },
  ]);
  const prices = parsePrices('1', '2', {}, rates);
  const day = Date.parse('2026-11-28T12:00:00Z');
  const most = (tier: string | null, prompt: number, completion: number, at = day) =>
    formatEur(mostCost(pricesToBound(prices, { at, tier }), prompt, completion));
  t.equal(most(null, 1000, 0), '1', 'not that of a tier that nobody asked for');
  t.equal(most(null, 1001, 0), '2.002');
  t.equal(most('priority', 1000, 0), '10');
  t.equal(most('flex', 1000, 0), '1', 'the answer may say that it was served as standard');
  t.equal(most(null, 1000, 0, Date.parse('2026-11-28T23:00:00Z')), '4');
});

t.test('no call costs more than the most that it could', async () => {
  const rates = fc
    .array(
      fc.record({
        over: fc.option(fc.nat(1500)),
        tier: fc.constantFrom(null, 'priority', 'flex'),
        input: price,
        output: price,
      }),
      { maxLength: 5 },
    )
    .map((all) =>
      parseRates(
        all.map(({ over, tier, ...texts }) => ({
          ...texts,
          ...(over !== null && { over }),
          ...(tier !== null && { tier }),
        })),
      ),
    );
  fc.assert(
    fc.property(
      price,
      price,
      rates,
      fc.nat(2000),
      fc.nat(2000),
      fc.constantFrom(null, 'priority', 'flex'),
      fc.boolean(),
      fc.double({ min: 0, max: 1, noNaN: true }),
      (input, output, all, prompt, completion, tier, isServed, share) => {
        const prices = parsePrices(input, output, {}, all);
        const most = mostCost(pricesToBound(prices, { at: 0, tier }), prompt, completion);
        const told = Math.floor(prompt * share);
        const rated = ratedPrices(prices, { at: 0, tier: isServed ? tier : null }, told);
        return costOf(rated, told, completion) <= most;
      },
    ),
  );
});
