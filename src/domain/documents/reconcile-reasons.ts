import { listCost, type Prices, type Rate } from '../pricing/prices.ts';
import { absolute, type Exact, formatExact, ONE, parseExact } from './exact-amount.ts';
import type { BilledCall, CostFacts, Reconciliation } from './reconcile.ts';

/** Why a bill is another one than the ledger expects, in the order in which they are tried. */
export type Reason =
  | 'missing here'
  | 'missing there'
  | 'other tokens'
  | 'another tier'
  | 'another length'
  | "an hour's cache writes"
  | 'other hours'
  | 'an older or newer price'
  | 'rate of exchange'
  | 'rounding'
  | 'unexplained';

/** A part of the difference of one day and model. */
export interface ReasonSum {
  /** Of the billing time zone. */
  readonly day: string;
  /** Internal model name. */
  readonly model: string;
  readonly reason: Reason;
  readonly calls: number;
  /** What the upstream billed more because of it; below 0: less. Exact decimal text. */
  readonly eur: string;
}

/** What a call should cost, in EUR as exact decimal text. */
export function expectedCost(
  call: Pick<BilledCall, 'promptTokens' | 'completionTokens' | 'at'>,
  facts: CostFacts,
): string {
  return formatExact(costBy(facts.prices[facts.held] as Prices, call, facts));
}

type Tokens = Pick<BilledCall, 'promptTokens' | 'completionTokens' | 'at'>;

const FEMTO = ONE / 10n ** 15n;

/** @param length the length that chooses the rate; default: that of the prompt */
function costBy(
  list: Prices,
  { promptTokens: prompt, completionTokens: completion, at }: Tokens,
  { tier, counts }: Pick<CostFacts, 'tier' | 'counts'>,
  length = prompt,
): Exact {
  return listCost(list, { prompt, completion, at, tier }, counts, { length }) * FEMTO;
}

/** What a call would cost if the upstream saw one fact otherwise. */
function* alternatives(tokens: Tokens, facts: CostFacts): Generator<readonly [Reason, Exact]> {
  const { prices, held, counts } = facts;
  const now = prices[held] as Prices;
  const { rates } = now;
  const withRates = (some: readonly Rate[]): Prices => ({ ...now, rates: some });
  for (const tier of new Set([null, ...rates.map((rate) => rate.tier)]))
    yield ['another tier', costBy(now, tokens, { ...facts, tier })];
  for (const length of [0, ...rates.flatMap(({ over }) => (over === null ? [] : over + 1))])
    yield ['another length', costBy(now, tokens, facts, length)];
  for (const cacheWriteHour of [0, counts.cacheWrite ?? 0])
    yield [
      "an hour's cache writes",
      costBy(now, tokens, { ...facts, counts: { ...counts, cacheWriteHour } }),
    ];
  const always = rates.map((rate) => ({ ...rate, hours: null }));
  for (const some of [rates.filter(({ hours }) => hours === null), always])
    yield ['other hours', costBy(withRates(some), tokens, facts)];
  for (const other of prices) yield ['an older or newer price', costBy(other, tokens, facts)];
}

/**
 * Says why each call was billed otherwise than expected: the first reason by which its cost is the billed one. The sums
 * together are the difference, to the last digit.
 * @param rate EUR for one unit of the file's costs, as decimal text
 * @param dayOf the day of an instant
 */
export function reasonsOf(
  { same, differing, missing, extra }: Reconciliation,
  rate: string,
  dayOf: (at: number) => string,
): ReasonSum[] {
  const factor = parseExact(rate);
  const sums = new Map<
    string,
    { day: string; model: string; reason: Reason; calls: number; eur: Exact }
  >();
  const add = ({ at, model }: BilledCall, reason: Reason, eur: Exact): void => {
    if (eur === 0n) return;
    const day = dayOf(at);
    const key = `${day} ${model} ${reason}`;
    const sum = sums.get(key) ?? { day, model, reason, calls: 0, eur: 0n };
    sums.set(key, { ...sum, calls: sum.calls + 1, eur: sum.eur + eur });
  };
  const billedOf = ({ cost }: BilledCall): Exact | null =>
    cost === null ? null : (parseExact(cost) * factor) / ONE;
  const pairs = [...same, ...differing];
  const step = (stepOf([...pairs.map(({ upstream }) => upstream), ...missing]) * factor) / ONE;
  for (const call of missing) add(call, 'missing here', billedOf(call) ?? 0n);
  for (const call of extra)
    add(call, 'missing there', call.cost === null ? 0n : -parseExact(call.cost));
  const open: Open[] = [];
  const agreed = new Set<string>(); // days of which a bill agrees at the rate that was given
  for (const { upstream, ledger } of pairs) {
    const billed = billedOf(upstream);
    if (billed === null || ledger.cost === null) continue;
    const expected = parseExact(ledger.cost);
    const near = (cost: Exact) => absolute(billed - cost) <= step;
    const found = explain(upstream, ledger, expected, near);
    if (found === null) {
      open.push({ ledger, billed, expected });
      continue;
    }
    if (expected !== 0n) agreed.add(dayOf(ledger.at));
    let before = expected;
    for (const [reason, cost] of found) {
      add(ledger, reason, cost - before);
      before = cost;
    }
    add(ledger, 'rounding', billed - before);
  }
  for (const [day, calls] of Map.groupBy(open, ({ ledger }) => dayOf(ledger.at))) {
    const ratio = agreed.has(day) ? null : ratioOf(calls, step);
    for (const { ledger, billed, expected } of calls) {
      const exchanged = ratio === null ? expected : (expected * ratio) / ONE;
      add(ledger, 'rate of exchange', exchanged - expected);
      add(ledger, ratio === null ? 'unexplained' : 'rounding', billed - exchanged);
    }
  }
  return [...sums.values()]
    .sort((a, b) => (`${a.day} ${a.model}` < `${b.day} ${b.model}` ? -1 : 1))
    .map(({ eur, ...sum }) => ({ ...sum, eur: formatExact(eur) }));
}

interface Open {
  readonly ledger: BilledCall;
  readonly billed: Exact;
  readonly expected: Exact;
}

/** The reasons of a call with the cost after each; empty: it is as expected; null: none explains it. */
function explain(
  upstream: BilledCall,
  ledger: BilledCall,
  expected: Exact,
  near: (cost: Exact) => boolean,
): readonly (readonly [Reason, Exact])[] | null {
  const { facts } = ledger;
  if (near(expected)) return [];
  if (facts === null) return null;
  const theirs = { ...upstream, at: ledger.at };
  const isOther =
    theirs.promptTokens !== ledger.promptTokens ||
    theirs.completionTokens !== ledger.completionTokens;
  const counted = isOther ? costBy(facts.prices[facts.held] as Prices, theirs, facts) : expected;
  const before: (readonly [Reason, Exact])[] = isOther ? [['other tokens', counted]] : [];
  if (near(counted)) return before;
  for (const [reason, cost] of alternatives(theirs, facts))
    if (near(cost)) return [...before, [reason, cost]];
  return null;
}

/** The step of the finest amount of a bill: half of it is rounding, all of it where it cuts off. */
function stepOf(calls: readonly BilledCall[]): Exact {
  let decimals = 0;
  for (const { cost } of calls) decimals = Math.max(decimals, cost?.split('.')[1]?.length ?? 0);
  return ONE / 10n ** BigInt(decimals);
}

/** The one ratio of all calls to what they should cost, of two calls at least with costs of their own; null: there is none. */
function ratioOf(calls: readonly Open[], step: Exact): Exact | null {
  const priced = calls.filter(({ expected }) => expected > 0n);
  const [first] = priced.toSorted((a, b) => (a.expected > b.expected ? -1 : 1));
  if (first === undefined || new Set(priced.map(({ expected }) => expected)).size < 2) return null;
  const ratio = (first.billed * ONE) / first.expected;
  const isOne = calls.every(
    ({ billed, expected }) => absolute(billed - (expected * ratio) / ONE) <= step * 2n,
  );
  return isOne ? ratio : null;
}
