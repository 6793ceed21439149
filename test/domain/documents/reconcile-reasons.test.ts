import t from 'tap';
import { formatExact, parseExact } from '../../../src/domain/documents/exact-amount.ts';
import type {
  BilledCall,
  CostFacts,
  Reconciliation,
} from '../../../src/domain/documents/reconcile.ts';
import {
  expectedCost,
  type ReasonSum,
  reasonsOf,
} from '../../../src/domain/documents/reconcile-reasons.ts';
import { parsePrices } from '../../../src/domain/pricing/prices.ts';
import { parseRates } from '../../../src/domain/pricing/rates.ts';

const RATES = parseRates([
  { over: 1000, input: '2', output: '6', cache_write: '3', cache_write_1h: '4' },
  { tier: 'priority', input: '5', output: '9', cache_write: '6', cache_write_1h: '7' },
  {
    hours: 'Mon-Fri 01:00-04:00 UTC',
    input: '3.5',
    output: '4.5',
    cache_write: '6',
    cache_write_1h: '7',
  },
]);
const NOW = parsePrices('1', '4', { cache_write: '1.25', cache_write_1h: '2' }, RATES);
const OLD = parsePrices('0.7', '4', { cache_write: '1.25', cache_write_1h: '2' });
const NOON = Date.parse('2026-10-21T12:00:00Z');
const dayOf = (at: number) => new Date(at).toISOString().slice(0, 10);
let calls = 0;

/** A call of the ledger, and the bill of it. @param billed null: as expected */
function pair(billed: string | null, more: Partial<BilledCall & CostFacts> = {}, theirs = {}) {
  const { prices = [NOW, OLD], held = 0, tier = null, counts = {}, ...call } = more;
  const facts: CostFacts = { prices, held, tier, counts };
  const name = `call ${calls++}`;
  const tokens = { promptTokens: 1000, completionTokens: 100, at: NOON, model: 'm', ...call };
  const none = { name, requestId: name, charged: null, companyId: null, facts: null };
  const ledger: BilledCall = { ...none, ...tokens, cost: expectedCost(tokens, facts), facts };
  return { ledger, upstream: { ...none, ...tokens, cost: billed ?? ledger.cost, ...theirs } };
}

const found = (some: Partial<Reconciliation>, rate = '1'): ReasonSum[] => {
  const all = { same: [], differing: [], missing: [], extra: [], ...some };
  const reasons = reasonsOf(all, rate, dayOf);
  const exact = (call: BilledCall) => parseExact(call.cost ?? '0');
  const billed = [...all.same, ...all.differing]
    .map(({ upstream }) => upstream)
    .concat(all.missing);
  const ours = [...all.same, ...all.differing].map(({ ledger }) => ledger).concat(all.extra);
  const sum = (of: BilledCall[]) => of.reduce((total, call) => total + exact(call), 0n);
  const difference = (sum(billed) * parseExact(rate)) / parseExact('1') - sum(ours);
  const explained = reasons.reduce((total, { eur }) => total + parseExact(eur), 0n);
  t.equal(formatExact(explained), formatExact(difference), 'the reasons add up to the difference');
  return reasons;
};
const one = (...of: Parameters<typeof pair>) =>
  found({ same: [pair(...of)] }).map(({ reason, calls, eur }) => `${reason} ${calls} ${eur}`);

t.test('each reason, planted', async (t) => {
  t.strictSame(one(null), []);
  t.strictSame(one('5.9'), ['another tier 1 4.5'], 'priority, which the ledger has as standard');
  t.strictSame(one('1.4', { tier: 'priority' }), ['another tier 1 -4.5']);
  t.strictSame(one('2.6'), ['another length 1 1.2'], '"1000 and more"');
  t.strictSame(one('1.401', { promptTokens: 1001 }), ['another length 1 -1.201']);
  const counts = { cacheWrite: 800, cacheWriteHour: 800 };
  t.strictSame(one('1.6', { counts }), ["an hour's cache writes 1 -0.6"]);
  t.strictSame(one('2.2', { counts: { cacheWrite: 800 } }), ["an hour's cache writes 1 0.6"]);
  t.strictSame(one('3.95'), ['other hours 1 2.55']);
  t.strictSame(one('1.1'), ['an older or newer price 1 -0.3']);
  t.strictSame(one('1.4004', { completionTokens: 100, promptTokens: 1000 }, {}), [
    'unexplained 1 0.0004',
  ]);
  t.strictSame(one('77'), ['unexplained 1 75.6']);
});

t.test('rounding is to the decimals of the bill', async (t) => {
  const same = [
    pair('1.40', { promptTokens: 999, completionTokens: 100 }),
    pair('1.41', { promptTokens: 1000 }),
  ];
  t.strictSame(
    found({ same: [pair('1.4', { promptTokens: 998 }), pair('1.41')] }).map(
      ({ reason, eur }) => `${reason} ${eur}`,
    ),
    ['rounding 0.012'],
  );
  t.strictSame(
    found({ same }).map(({ reason }) => reason),
    ['rounding'],
  );
});

t.test('calls missing on one side, and other tokens, with another tier too', async (t) => {
  const [missing, extra] = [pair('3').upstream, pair(null).ledger];
  const differing = [
    pair('1.3', {}, { promptTokens: 900, completionTokens: 100 }),
    pair('5.45', {}, { promptTokens: 910, completionTokens: 100 }),
  ];
  t.strictSame(
    found({ missing: [missing], extra: [extra], differing }).map(
      ({ reason, eur }) => `${reason} ${eur}`,
    ),
    ['missing here 3', 'missing there -1.4', 'other tokens -0.19', 'another tier 4.14'].map(
      (each) => each,
    ),
  );
});

t.test('a rate of exchange is what all calls of a day have in common', async (t) => {
  const other = Date.parse('2026-10-22T12:00:00Z');
  const same = [
    pair('1.54'),
    pair('0.77', { promptTokens: 300 }),
    pair('1.4', { at: other }),
    pair('0.78', { promptTokens: 300, at: other }),
  ];
  t.strictSame(found({ same }), [
    { day: '2026-10-21', model: 'm', reason: 'rate of exchange', calls: 2, eur: '0.21' },
    { day: '2026-10-22', model: 'm', reason: 'unexplained', calls: 1, eur: '0.08' },
  ]);
  t.strictSame(
    found({ same: [pair('1.4000'), pair('0.7000', { promptTokens: 300 })] }, '1.1').map(
      ({ reason }) => reason,
    ),
    ['rate of exchange'],
  );
});

t.test('random bills: the reasons always add up', async (t) => {
  const seed = Number(process.env.FUZZ_SEED ?? Date.now() % 1_000_000);
  t.comment(`FUZZ_SEED=${seed}`);
  let state = seed + 1;
  const random = (below: number) => {
    state = (state * 48271) % 2147483647;
    return state % below;
  };
  for (let n = 0; n < 200; n++) {
    const some = Array.from({ length: random(6) + 1 }, () =>
      pair(
        random(3) === 0 ? null : `${random(9)}.${random(1000)}`,
        {
          promptTokens: random(2000),
          completionTokens: random(300),
          at: NOON + random(3) * 86_400_000,
          counts: { cacheWrite: random(200), cacheWriteHour: random(100) },
        },
        random(2) === 0 ? {} : { promptTokens: random(2000) },
      ),
    );
    found({ differing: some, missing: [pair('0.5').upstream], extra: [pair(null).ledger] }, '0.9');
  }
  t.pass();
});
