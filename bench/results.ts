import { arch, cpus, platform, release } from 'node:os';

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
  readonly series: Series;
}

export interface Results {
  machine: string;
  versions: string;
  /** Sections by name. */
  sections: Record<string, SectionResults>;
}

export function describeMachine(pinned: boolean): string {
  const model = cpus()[0]?.model.trim() ?? 'unknown processor';
  const how = pinned ? '' : '; processes could NOT be pinned, so figures are not comparable';
  return `${cpus().length} × ${model}, ${platform()} ${release().split('-')[0]} ${arch()}${how}`;
}

/** Adds the readings of one round. */
export function record(series: Series, name: string, target: string, figures: Figures): void {
  series[name] ??= {};
  series[name][target] ??= {};
  const kinds = series[name][target];
  for (const [kind, figure] of Object.entries(figures)) kinds[kind] = [...(kinds[kind] ?? []), figure];
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
  return { median: sorted.length % 2 === 1 ? upper : (upper + (sorted[middle - 1] as number)) / 2, low, high };
}

/** Spread of one kind of reading, or null when it was not measured. */
export function reading(
  results: SectionResults | undefined,
  series: string,
  target: string,
  kind: string,
): Spread | null {
  return spreadOf(results?.series[series]?.[target]?.[kind] ?? []);
}

/**
 * Two targets compared within each round, where they ran seconds apart under the same conditions.
 * @param combine makes one figure of the two of a round: their quotient unless given
 * @param kind of figure: CPU unless given
 * @returns the spread over the rounds
 */
export function compared(
  results: SectionResults | undefined,
  [seriesA, targetA]: readonly [series: string, target: string],
  [seriesB, targetB]: readonly [series: string, target: string],
  combine: (a: number, b: number) => number = (a, b) => a / b,
  kind = 'cpu',
): Spread | null {
  const a = results?.series[seriesA]?.[targetA]?.[kind] ?? [];
  const b = results?.series[seriesB]?.[targetB]?.[kind] ?? [];
  const rounds = Math.min(a.length, b.length);
  return spreadOf(Array.from({ length: rounds }, (_, i) => combine(a[i] as number, b[i] as number)));
}

/**
 * What the gateway adds to the latency of a round, divided by what the do-nothing proxy adds; over both stands what
 * is there without either. A round in which the gateway alone adds something counts as infinitely more.
 */
export function addedRatio(results: SectionResults | undefined, series: string, kind: string): Spread | null {
  const of = (target: string): readonly number[] => results?.series[series]?.[target]?.[kind] ?? [];
  const [direct, proxy, gateway] = [of('direct'), of('proxy'), of('gateway')];
  const rounds = direct.map((base, i) => [(gateway[i] ?? Number.NaN) - base, (proxy[i] ?? Number.NaN) - base] as const);
  return spreadOf(rounds.filter((added) => Math.max(...added) > 0).map(([own, added]) => own / Math.max(0, added)));
}
