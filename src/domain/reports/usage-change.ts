import { type Femto, formatEur, parseEur } from '../pricing/money.ts';
import { costOf, type Prices, type SomeCounts } from '../pricing/prices.ts';
import * as schema from '../settings/schema.ts';
import { sumUsage, type UsageSums } from '../usage.ts';

/**
 * Explains why two costs differ: by more calls, longer calls, more of them cached, dearer models and changed prices. The
 * parts are exact decimals, and their sum is the difference to the last digit.
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
 * Where tokens of the cache have a price, d is what they cost less or more than the input price, p the prompt tokens, and
 * longer calls are without what a changed share of them makes:
 *
 *   more cached    = d.a - p.a × d.b / p.b          what is read from the cache, or written to it, is another share
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
    'another share of the prompt tokens is read from a cache, or written to it, where these have a price',
  ),
  dearer_models_eur: DIFFERENCE,
  changed_prices_eur: DIFFERENCE,
  difference_eur: schema.described(DIFFERENCE, 'the sum of the five parts, to the last digit'),
});
export type ExplainedChange = schema.Value<typeof CHANGE>;
export type ChangeParts = Omit<ExplainedChange, 'before' | 'after'>;

/** What is compared: the calls of one model, of all that a price is for. */
export interface ComparedModel {
  readonly before: UsageSums;
  readonly after: UsageSums;
  /** null: no price is known. Its costs count as they are then, and none as a change of prices. */
  readonly reference: Prices | null;
  /** Tokens of the cache; absent: no price asks for them. */
  readonly cache?: { readonly before: SomeCounts; readonly after: SomeCounts };
}

/** The parts in their order on pages and in commands. */
export const PARTS = [
  'more_calls_eur',
  'longer_calls_eur',
  'more_cached_eur',
  'dearer_models_eur',
  'changed_prices_eur',
] as const;

/** The parts that tell something: without prices of cached input there is no part of it. */
export function partsAmong(changes: readonly ChangeParts[]): (typeof PARTS)[number][] {
  return PARTS.filter(
    (part) => part !== 'more_cached_eur' || changes.some((each) => each[part] !== '0'),
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
  const sum = (of: keyof ChangeParts) =>
    formatEur(changes.reduce((all, each) => all + parseEur(each[of]), 0n));
  return {
    before: sumUsage(changes.map(({ before }) => before)),
    after: sumUsage(changes.map(({ after }) => after)),
    more_calls_eur: sum('more_calls_eur'),
    longer_calls_eur: sum('longer_calls_eur'),
    more_cached_eur: sum('more_cached_eur'),
    dearer_models_eur: sum('dearer_models_eur'),
    changed_prices_eur: sum('changed_prices_eur'),
    difference_eur: sum('difference_eur'),
  };
}

/** @param before all calls, and @param after all calls, of every model */
function partsOf(model: ComparedModel, before: bigint, after: bigint): ChangeParts {
  const [cost, newCost] = [parseEur(model.before.cost_eur), parseEur(model.after.cost_eur)];
  const [worth, cheaper] = worthOf(model, 'before');
  const [newWorth, newCheaper] = worthOf(model, 'after');
  const [calls, newCalls] = [BigInt(model.before.requests), BigInt(model.after.requests)];
  const grown = before === 0n ? newWorth : divide(after * worth, before);
  const [prompt, newPrompt] = [
    BigInt(model.before.prompt_tokens),
    BigInt(model.after.prompt_tokens),
  ];
  const asCached = prompt === 0n ? newCheaper : divide(newPrompt * cheaper, prompt);
  const moved = before === 0n || calls === 0n ? newWorth : divide(newCalls * worth, calls);
  return {
    more_calls_eur: formatEur(grown - worth),
    longer_calls_eur: formatEur(newWorth - newCheaper + asCached - moved),
    more_cached_eur: formatEur(newCheaper - asCached),
    dearer_models_eur: formatEur(moved - grown),
    changed_prices_eur: formatEur(newCost - newWorth - (cost - worth)),
    difference_eur: formatEur(newCost - cost),
  };
}

/** What tokens cost at the reference price, and how much of that the cache makes: it is below 0 where it makes them cheaper. */
function worthOf(
  { reference, cache, ...model }: ComparedModel,
  time: 'before' | 'after',
): [worth: Femto, cheaper: Femto] {
  const { prompt_tokens, completion_tokens, cost_eur } = model[time];
  if (reference === null) return [parseEur(cost_eur), 0n];
  const full = costOf(reference, prompt_tokens, completion_tokens);
  const worth =
    cache === undefined ? full : costOf(reference, prompt_tokens, completion_tokens, cache[time]);
  return [worth, worth - full];
}

/** The nearest whole number; halves go away from zero. @param divisor above 0 */
function divide(dividend: bigint, divisor: bigint): bigint {
  const half = dividend < 0n ? -divisor : divisor;
  return (2n * dividend + half) / (2n * divisor);
}
