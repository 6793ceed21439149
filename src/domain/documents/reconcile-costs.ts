import { absolute, type Exact, formatExact, ONE, parseExact } from './exact-amount.ts';
import type { BilledCall, Reconciliation } from './reconcile.ts';

/** Both sides of a model's calls. Amounts are exact decimal text in EUR; null: not known. */
export interface ModelTotals {
  /** Internal model name. */
  readonly model: string;
  readonly upstream_calls: number;
  readonly ledger_calls: number;
  readonly upstream_tokens: number;
  readonly ledger_tokens: number;
  /** The upstream's bill: the cost column of its file × the rate. null: a call of the file has no cost. */
  readonly billed_eur: string | null;
  /** The expected cost: the ledger's tokens × the model's cost price of the day. null: a call has no cost price. */
  readonly expected_eur: string | null;
  readonly difference_eur: string | null;
  /** The charge to the companies. */
  readonly charged_eur: string;
}

/**
 * Sums up both sides by model, the largest difference first.
 * @param rate EUR for one unit of the file's costs, as decimal text
 */
export function totalsByModel(
  { same, differing, missing, extra }: Reconciliation,
  rate: string,
): ModelTotals[] {
  const pairs = [...same, ...differing];
  const upstream = Map.groupBy(
    [...pairs.map((pair) => pair.upstream), ...missing],
    ({ model }) => model,
  );
  const ledger = Map.groupBy([...pairs.map((pair) => pair.ledger), ...extra], ({ model }) => model);
  const factor = parseExact(rate);
  const totals = [...new Set([...upstream.keys(), ...ledger.keys()])].map((model) => {
    const [theirs, ours] = [upstream.get(model) ?? [], ledger.get(model) ?? []];
    const cost = sumOf(theirs.map((call) => call.cost));
    const billed = cost === null ? null : (cost * factor) / ONE;
    const expected = sumOf(ours.map((call) => call.cost));
    const difference = billed === null || expected === null ? null : billed - expected;
    return { model, theirs, ours, billed, expected, difference };
  });
  const size = ({ difference }: { difference: Exact | null }) =>
    difference === null ? 0n : absolute(difference);
  return totals
    .sort((a, b) =>
      size(a) === size(b) ? (a.model < b.model ? -1 : 1) : size(a) > size(b) ? -1 : 1,
    )
    .map(({ model, theirs, ours, billed, expected, difference }) => ({
      model,
      upstream_calls: theirs.length,
      ledger_calls: ours.length,
      upstream_tokens: tokensOf(theirs),
      ledger_tokens: tokensOf(ours),
      billed_eur: shown(billed),
      expected_eur: shown(expected),
      difference_eur: shown(difference),
      charged_eur: formatExact(sumOf(ours.map((call) => call.charged)) ?? 0n),
    }));
}

/** Whether an amount is more than another one, whatever its sign. Both are decimal text. */
export function exceeds(amount: string | null, limit: string): boolean {
  return amount !== null && absolute(parseExact(amount)) > parseExact(limit);
}

/** The sum of some amounts; null when one of them is not known. */
function sumOf(amounts: readonly (string | null)[]): Exact | null {
  let sum = 0n;
  for (const amount of amounts) {
    if (amount === null) return null;
    sum += parseExact(amount);
  }
  return sum;
}

function tokensOf(calls: readonly BilledCall[]): number {
  return calls.reduce(
    (sum, { promptTokens, completionTokens }) => sum + promptTokens + completionTokens,
    0,
  );
}

function shown(amount: Exact | null): string | null {
  return amount === null ? null : formatExact(amount);
}
