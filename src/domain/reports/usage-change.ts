import { type Femto, formatEur, parseEur } from '../pricing/money.ts';
import { costOf, type Prices, type Rate, type SomeCounts } from '../pricing/prices.ts';
import * as schema from '../settings/schema.ts';
import { sumUsage, type UsageSums } from '../usage.ts';

/**
 * Explains why two costs differ: by more calls, longer calls, more of them cached, other rates, dearer models and changed
 * prices. The parts are exact decimals, and their sum is the difference to the last digit.
 *
 * For each model m, before (b) and after (a), with n calls, cost e, and v: what its tokens cost at the reference price,
 * which is the price in force when the time before ended, or the first one since. N is the sum of all n.
 *
 *   e.b ─> v.b ──────> n.b tokens grown to N.a calls ─> n.a calls as long as before ─> v.a ──────> e.a
 *              more calls                     dearer models                     longer calls
 *   changed prices = (e.a - v.a) - (e.b - v.b), which is nothing where no price changed
 *
 *   more calls     = N.a × v.b / N.b - v.b          every model gets the same share of the calls as before
 *   dearer models  = n.a × v.b / n.b - N.a × v.b / N.b      the calls go to other models
 *   longer calls   = v.a - n.a × v.b / n.b          a call of the model has more tokens, or more of the dear kind
 *
 * Where parts such as tokens of the cache have prices of their own, d is what they cost less or more than input and output,
 * p the prompt tokens, and longer calls are without what a changed share of them makes; r likewise is what the rates of
 * calls cost more than the base price, apart for each condition: for the tier, then for the hours, then for the length,
 * each what it adds to the price of those before:
 *
 *   more cached    = d.a - p.a × d.b / p.b          what is read from the cache, or of another such part, is another share
 *   other tiers    = r.a - p.a × r.b / p.b          other calls are served by a tier; likewise begun in dear hours, or long
 *
 * Each step is rounded to a whole femto-EUR, and a part is the difference of two steps: so nothing gets lost. A model
 * without calls before has no length to compare, so all of it is dearer models; without any calls before, all is more calls.
 */

/** The sums of some calls. */
export const SUMS = schema.object({
  requests: schema.count,
  prompt_tokens: schema.count,
  completion_tokens: schema.count,
  cost_eur: schema.sum,
});

export const DIFFERENCE = schema.described(
  schema.string,
  'EUR as exact decimal text; negative: it became less',
);

/** Two times, and why they differ. */
export const CHANGE = schema.object({
  before: SUMS,
  after: SUMS,
  more_calls_eur: DIFFERENCE,
  longer_calls_eur: DIFFERENCE,
  more_cached_eur: schema.described(
    DIFFERENCE,
    'another share of the tokens is read from a cache, written to it, or of another part, where these have prices',
  ),
  other_tiers_eur: schema.described(
    DIFFERENCE,
    'another share of the calls has a rate of its model by the tier that served it',
  ),
  other_hours_eur: schema.described(
    DIFFERENCE,
    'likewise by its hour, in what that adds to the tier',
  ),
  other_lengths_eur: schema.described(
    DIFFERENCE,
    'likewise by the length of its prompt, in what that adds to both',
  ),
  dearer_models_eur: DIFFERENCE,
  changed_prices_eur: DIFFERENCE,
  difference_eur: schema.described(DIFFERENCE, 'the sum of the parts, to the last digit'),
});
export type ExplainedChange = schema.Value<typeof CHANGE>;
export type ChangeParts = Omit<ExplainedChange, 'before' | 'after'>;

/** What is compared: the calls of one model, of all that a price is for. */
export interface ComparedModel {
  readonly before: UsageSums;
  readonly after: UsageSums;
  /** null: no price is known. Its costs count as they are then, and none as a change of prices. */
  readonly reference: Prices | null;
  /** Units of parts with prices of their own; absent: no price asks for them. */
  readonly counts?: { readonly before: SomeCounts; readonly after: SomeCounts };
  /** Of these calls those that had a rate, by rates that the reference has too. */
  readonly rated?: readonly RatedCalls[];
}

/** Calls that had a rate, and what the reference has as that. */
export interface RatedCalls extends Omit<UsageSums, 'cost_eur'> {
  readonly time: 'before' | 'after';
  readonly rate: Rate;
  readonly counts: SomeCounts;
}

/** Parts that are there only where prices ask for them: of parts with prices of their own, and of each condition of rates. */
const SOMETIMES = [
  'more_cached_eur',
  'other_tiers_eur',
  'other_hours_eur',
  'other_lengths_eur',
] as const;

/** The parts in their order on pages and in commands. */
export const PARTS = [
  'more_calls_eur',
  'longer_calls_eur',
  ...SOMETIMES,
  'dearer_models_eur',
  'changed_prices_eur',
] as const;

/** The parts that tell something: without prices of cached input, or rates, there is no part of them. */
export function partsAmong(changes: readonly ChangeParts[]): (typeof PARTS)[number][] {
  return PARTS.filter(
    (part) =>
      !(SOMETIMES as readonly string[]).includes(part) ||
      changes.some((each) => each[part] !== '0'),
  );
}

/** Explains each model, in the order given, and all together. The lines add up to the total, part by part. */
export function explainChange<T extends ComparedModel>(
  models: readonly T[],
): { readonly total: ExplainedChange; readonly lines: readonly (T & ChangeParts)[] } {
  const count = (time: 'before' | 'after') =>
    models.reduce((sum, model) => sum + BigInt(model[time].requests), 0n);
  const [before, after] = [count('before'), count('after')];
  const lines = models.map((model) => ({ ...model, ...partsOf(model, before, after) }));
  return { total: addChanges(lines), lines };
}

/** The sum of some changes. */
export function addChanges(changes: readonly ExplainedChange[]): ExplainedChange {
  const sums = [...PARTS, 'difference_eur' as const].map((part) => {
    const sum = changes.reduce((all, each) => all + parseEur(each[part]), 0n);
    return [part, formatEur(sum)];
  });
  return {
    before: sumUsage(changes.map(({ before }) => before)),
    after: sumUsage(changes.map(({ after }) => after)),
    ...(Object.fromEntries(sums) as ChangeParts),
  };
}

/** @param before all calls, and @param after all calls, of every model */
function partsOf(model: ComparedModel, before: bigint, after: bigint): ChangeParts {
  const [cost, newCost] = [parseEur(model.before.cost_eur), parseEur(model.after.cost_eur)];
  const [worth, shares] = worthOf(model, 'before');
  const [newWorth, newShares] = worthOf(model, 'after');
  const [calls, newCalls] = [BigInt(model.before.requests), BigInt(model.after.requests)];
  const grown = before === 0n ? newWorth : divide(after * worth, before);
  const [prompt, newPrompt] = [
    BigInt(model.before.prompt_tokens),
    BigInt(model.after.prompt_tokens),
  ];
  const asBefore = (of: Femto, now: Femto) =>
    prompt === 0n ? now : divide(newPrompt * of, prompt);
  const others = newShares.map((now, at) => now - asBefore(shares[at] as Femto, now));
  const longer = others.reduce((rest, each) => rest - each, newWorth);
  const moved = before === 0n || calls === 0n ? newWorth : divide(newCalls * worth, calls);
  return {
    more_calls_eur: formatEur(grown - worth),
    longer_calls_eur: formatEur(longer - moved),
    ...(Object.fromEntries(
      SOMETIMES.map((part, at) => [part, formatEur(others[at] as Femto)]),
    ) as Pick<ChangeParts, (typeof SOMETIMES)[number]>),
    dearer_models_eur: formatEur(moved - grown),
    changed_prices_eur: formatEur(newCost - newWorth - (cost - worth)),
    difference_eur: formatEur(newCost - cost),
  };
}

/** What calls cost at the reference price, and how much of that each of SOMETIMES makes: below 0 where it makes them cheaper. */
function worthOf(
  { reference, counts, rated = [], ...model }: ComparedModel,
  time: 'before' | 'after',
): [worth: Femto, shares: readonly Femto[]] {
  if (reference === null) return [parseEur(model[time].cost_eur), SOMETIMES.map(() => 0n)];
  const full = costOfAll(reference, model[time]);
  const base = counts === undefined ? full : costOfAll(reference, model[time], counts[time]);
  const calls = rated.filter((each) => each.time === time);
  const byCondition = [0, 1, 2].map((condition) =>
    calls.reduce((sum, { rate, counts, ...each }) => {
      const prices = stepsOf(reference, rate);
      const [was, is] = [prices[condition], prices[condition + 1]] as [Prices, Prices];
      return sum + costOfAll(is, each, counts) - costOfAll(was, each, counts);
    }, 0n),
  );
  return [byCondition.reduce((sum, each) => sum + each, base), [base - full, ...byCondition]];
}

/** The base price, what holds for the tier of a rate alone, for that and its hours, and the rate. */
function stepsOf(reference: Prices, { tier, hours, prices }: Rate): Prices[] {
  const held = (of: string | undefined) => (each: Rate) =>
    each.over === null && each.tier === tier && each.hours?.text === of;
  const ofTier = reference.rates.find(held(undefined))?.prices ?? reference;
  const ofHours = reference.rates.find(held(hours?.text))?.prices ?? ofTier;
  return [reference, ofTier, ofHours, prices];
}

/** The cost of the sums of some calls: that of a call itself counts once for each. */
function costOfAll(
  prices: Prices,
  { requests, prompt_tokens, completion_tokens }: Omit<UsageSums, 'cost_eur'>,
  counts?: SomeCounts,
): Femto {
  const of = costOf(prices, prompt_tokens, completion_tokens, counts);
  return of + (BigInt(requests - 1) * prices.request) / 1000n;
}

/** The nearest whole number; halves go away from zero. @param divisor above 0 */
function divide(dividend: bigint, divisor: bigint): bigint {
  const half = dividend < 0n ? -divisor : divisor;
  return (2n * dividend + half) / (2n * divisor);
}
