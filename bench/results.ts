/** Kind of figure ("cpu") → figure. */
export type Figures = Readonly<Record<string, number>>;

/** Series ("100 streams") → target → kind → a reading per round: the n-th readings of all belong to round n. */
export type Series = Record<string, Record<string, Record<string, number[]>>>;

/** What one section measured. */
export interface SectionResults {
  /** Date of the run, "2026-11-21". */
  readonly taken: string;
  readonly rounds: number;
  /** Seconds for which each target was measured in a round. */
  readonly seconds: number;
  /** Circumstances that a reader needs. */
  readonly notes: readonly string[];
  /** Where it was measured, and with which versions: sections are measured on different days. */
  readonly machine: string;
  readonly versions: string;
  readonly series: Series;
}

export interface Results {
  /** Sections by name. */
  sections: Record<string, SectionResults>;
}

/** Adds the readings of one round. */
export function record(series: Series, name: string, target: string, figures: Figures): void {
  series[name] ??= {};
  series[name][target] ??= {};
  const kinds = series[name][target];
  for (const [kind, figure] of Object.entries(figures))
    kinds[kind] = [...(kinds[kind] ?? []), figure];
}

/** Median, lowest and highest of some readings. */
export interface Spread {
  readonly median: number;
  readonly low: number;
  readonly high: number;
}

export function spreadOf(values: readonly number[]): Spread | null {
  const sorted = [...values].sort((a, b) => a - b);
  const [low, high] = [sorted[0], sorted.at(-1)];
  if (low === undefined || high === undefined) return null;
  const middle = sorted.length >> 1;
  const upper = sorted[middle] as number;
  return {
    median: sorted.length % 2 === 1 ? upper : (upper + (sorted[middle - 1] as number)) / 2,
    low,
    high,
  };
}

/** Where readings are. The kind is CPU unless given. */
export type Place = readonly [series: string, target: string, kind?: string];

/** Spread of one kind of reading, or null when it was not measured. */
export function reading(results: SectionResults | undefined, ...place: Place): Spread | null {
  return spreadOf(roundsOf(results, place).flat());
}

/**
 * Two readings compared within each round, where they were taken seconds apart under the same conditions.
 * @param combine makes one figure of the two of a round: their quotient unless given
 * @returns the spread over the rounds
 */
export function compared(
  results: SectionResults | undefined,
  one: Place,
  other: Place,
  combine: (a: number, b: number) => number = (a, b) => a / b,
): Spread | null {
  return spreadOf(inEachRound(results, one, other, combine));
}

/** What `compared` makes a spread of: a figure for each round. */
export function inEachRound(
  results: SectionResults | undefined,
  one: Place,
  other: Place,
  combine: (a: number, b: number) => number,
): number[] {
  return roundsOf(results, one, other).map(([a, b]) => combine(a as number, b as number));
}

/**
 * What the gateway adds to the latency of a round, divided by what the do-nothing proxy adds; over both stands what
 * is there without either. A round in which the gateway alone adds something counts as infinitely more.
 */
export function addedRatio(
  results: SectionResults | undefined,
  series: string,
  kind: string,
): Spread | null {
  const places = ['direct', 'proxy', 'gateway'].map((target): Place => [series, target, kind]);
  const added = roundsOf(results, ...places).map(([direct = 0, proxy = 0, own = 0]) => [
    own - direct,
    proxy - direct,
  ]);
  const some = added.filter((both) => Math.max(...both) > 0) as [number, number][];
  return spreadOf(some.map(([own, proxy]) => own / Math.max(0, proxy)));
}

/** The readings of each round side by side, of the rounds that have them all. */
function roundsOf(results: SectionResults | undefined, ...places: readonly Place[]): number[][] {
  const all = places.map(
    ([series, target, kind = 'cpu']) => results?.series[series]?.[target]?.[kind] ?? [],
  );
  const rounds = Math.min(...all.map(({ length }) => length));
  return Array.from({ length: rounds }, (_, round) =>
    all.map((readings) => readings[round] as number),
  );
}
