import t from 'tap';
import { MOST_OVER, parsePrices, ratedPrices, rateOf } from '../../../src/domain/pricing/prices.ts';
import {
  mistakesOf,
  parseRates,
  type RateTexts,
  rateName,
  tierOf,
  tiersOf,
} from '../../../src/domain/pricing/rates.ts';

const PRICE = { input: '0.002', output: '0.01' };
const NIGHT = '22:00-06:00 UTC';
const now = Date.parse('2026-11-28T12:00:00Z');
const night = Date.parse('2026-11-28T23:00:00Z');
const nameOf = (rates: readonly RateTexts[], prompt: number, tier: string | null, at = now) =>
  rateOf(parseRates(rates), { at, tier }, prompt)?.prices.rate ?? null;

t.test('a length holds above its limit, for the whole call', async (t) => {
  const rates = [
    { over: 200_000, ...PRICE },
    { over: 272_000, ...PRICE },
  ];
  t.equal(nameOf(rates, 200_000, null), null);
  t.equal(nameOf(rates, 200_001, null), 'over 200000');
  t.equal(nameOf(rates, 272_000, null), 'over 200000');
  t.equal(nameOf(rates, 272_001, null), 'over 272000', 'the highest limit that is passed');
});

t.test('the rate with the most conditions wins', async (t) => {
  const rates = [
    { over: 272_000, ...PRICE },
    { tier: 'priority', ...PRICE },
    { tier: 'priority', over: 272_000, ...PRICE },
    { hours: NIGHT, ...PRICE },
    { tier: 'priority', hours: NIGHT, ...PRICE },
  ];
  t.equal(nameOf(rates, 1, 'priority'), 'priority');
  t.equal(nameOf(rates, 300_000, 'priority'), 'priority over 272000');
  t.equal(nameOf(rates, 1, 'priority', night), `priority ${NIGHT}`);
  t.equal(nameOf(rates, 300_000, 'priority', night), 'priority over 272000', 'two each: the limit');
  t.equal(nameOf(rates, 1, 'flex', night), NIGHT);
  t.equal(nameOf(rates, 1, null), null);
});

t.test('the standard tier has many names, and is the base price', async (t) => {
  for (const told of ['auto', 'default', 'standard', 'standard_only', null, undefined, '', 5, {}])
    t.equal(tierOf(told), null);
  t.equal(tierOf('priority'), 'priority');
  t.strictSame([...tiersOf(parsePrices('1', '2'))], []);
  const rates = parseRates([
    { tier: 'flex', ...PRICE },
    { tier: 'flex', over: 5, ...PRICE },
    { over: 5, ...PRICE },
  ]);
  t.strictSame([...tiersOf(parsePrices('1', '2', {}, rates))], ['flex']);
});

t.test('a model without rates has its own prices, the same object', async (t) => {
  const prices = parsePrices('1', '2');
  t.equal(ratedPrices(prices, { at: now, tier: 'priority' }, 1e9), prices);
});

t.test('what is wrong with rates is told by rate and member', async (t) => {
  const members = (rates: readonly RateTexts[], base = {}) =>
    mistakesOf(rates, { ...PRICE, ...base }, now).map(({ at, member }) => `${at} ${member}`);
  t.strictSame(members([{ ...PRICE }]), ['0 over'], 'no condition');
  t.strictSame(members([{ over: 5, ...PRICE }], { cache_read: '0.0002' }), ['0 cache_read']);
  t.strictSame(members([{ over: 5, ...PRICE, cache_read: null }], { cache_read: '0.0002' }), []);
  t.strictSame(members([{ tier: 'default', ...PRICE }]), ['0 tier']);
  t.strictSame(members([{ tier: 'Priority Plus', ...PRICE }]), ['0 tier']);
  t.strictSame(members([{ hours: 'at night', ...PRICE }]), ['0 hours']);
  t.strictSame(members([{ hours: '01:00-02:00 Mars/Olympus', ...PRICE }]), ['0 hours']);
});

t.test('two rates that could win at once are refused', async (t) => {
  const isRefused = (...rates: Partial<RateTexts>[]) =>
    mistakesOf(
      rates.map((rate) => ({ ...rate, ...PRICE })),
      PRICE,
      now,
    ).length > 0;
  t.ok(isRefused({ over: 5 }, { over: 5 }), 'the same limit');
  t.ok(isRefused({ tier: 'flex' }, { tier: 'flex' }));
  t.ok(isRefused({ tier: 'flex' }, { hours: NIGHT }), 'a tier and a window');
  t.notOk(isRefused({ tier: 'flex' }, { hours: NIGHT }, { tier: 'flex', hours: NIGHT }));
  t.notOk(isRefused({ over: 5 }, { over: 6 }), 'the higher limit');
  t.notOk(isRefused({ over: 5 }, { tier: 'flex' }), 'the limit');
  t.notOk(isRefused({ tier: 'flex' }, { tier: 'priority' }));
  t.ok(isRefused({ hours: NIGHT }, { hours: '23:00-01:00 UTC' }));
  t.notOk(isRefused({ hours: NIGHT }, { hours: '06:00-10:00 UTC' }));
  t.ok(isRefused({ over: 5, tier: 'flex' }, { over: 5, hours: NIGHT }));
  t.notOk(
    isRefused(
      { over: 5, tier: 'flex' },
      { over: 5, hours: NIGHT },
      { over: 5, tier: 'flex', hours: NIGHT },
    ),
  );
});

t.test('a rate whose hours another program wrote wrongly is left out, and named', async (t) => {
  const unread: string[] = [];
  const rates = parseRates(
    [
      { hours: '01:00-02:00 Mars/Olympus', ...PRICE },
      { over: 5, ...PRICE },
    ],
    (name) => unread.push(name),
  );
  t.equal(rates.length, 1);
  t.strictSame(unread, ['01:00-02:00 Mars/Olympus']);
});

t.test('the longest name of a rate has room in a ledger row', async (t) => {
  const days = Array.from({ length: 7 }, () => 'Mon-Sun').join();
  const windows = Array.from({ length: 12 }, (_, n) => `${n + 10}:00-${n + 10}:59`).join();
  const hours = `${days} ${windows} ${'Z'.repeat(64)}`;
  t.ok(hours.length <= 300, 'what the schema takes');
  t.ok(rateName({ over: MOST_OVER, tier: 'a'.repeat(64), hours }).length <= 400);
});
