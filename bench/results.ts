import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { arch, cpus, platform, release } from 'node:os';

/** Readings of one kind by one program, one per round: the n-th readings of all belong to round n. */
export type Readings = Record<string, number[]>;

/** What one section measured: series ("100 streams") → program → kind ("cpu") → readings. */
export interface Section {
  /** Date of the run, "2026-11-21". */
  readonly taken: string;
  readonly rounds: number;
  /** Seconds each program was measured in a round. */
  readonly seconds: number;
  /** Versions and circumstances a reader needs. */
  readonly notes: readonly string[];
  readonly series: Record<string, Record<string, Readings>>;
}

export interface Results {
  machine: string;
  versions: string;
  sections: Record<string, Section>;
}

/** Earlier results; sections not run again keep theirs. */
export function loadResults(path: string): Results {
  if (!existsSync(path)) return { machine: '', versions: '', sections: {} };
  return JSON.parse(readFileSync(path, 'utf8')) as Results;
}

export function saveResults(path: string, results: Results): void {
  writeFileSync(path, `${JSON.stringify(results, null, 1)}\n`);
}

export function describeMachine(pinned: boolean): string {
  const model = cpus()[0]?.model.trim() ?? 'unknown processor';
  const how = pinned ? '' : '; processes could NOT be pinned, so figures are not comparable';
  return `${cpus().length} × ${model}, ${platform()} ${release().split('-')[0]} ${arch()}${how}`;
}

/** Collects the readings of a section while it runs. */
export class Recorder {
  readonly series: Section['series'] = {};

  add(series: string, program: string, readings: Readonly<Record<string, number>>): void {
    this.series[series] ??= {};
    this.series[series][program] ??= {};
    const kinds = this.series[series][program];
    for (const kind in readings) {
      kinds[kind] ??= [];
      kinds[kind].push(readings[kind] as number);
    }
  }
}

/** Median, lowest and highest of some readings. */
export interface Spread {
  readonly median: number;
  readonly low: number;
  readonly high: number;
}

export function spreadOf(values: readonly number[]): Spread | null {
  if (values.length === 0) return null;
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const median =
    sorted.length % 2 === 1
      ? (sorted[middle] as number)
      : ((sorted[middle - 1] as number) + (sorted[middle] as number)) / 2;
  return { median, low: sorted[0] as number, high: sorted[sorted.length - 1] as number };
}

/** Spread of one kind of reading of a section, or null when it was not measured. */
export function reading(section: Section | undefined, series: string, program: string, kind: string): Spread | null {
  return spreadOf(section?.series[series]?.[program]?.[kind] ?? []);
}

/**
 * Two programs compared within each round, where they ran seconds apart under the same conditions:
 * the spread of the rounds' quotients (or whatever `combine` makes of the two).
 */
export function compared(
  section: Section | undefined,
  [seriesA, programA]: readonly [string, string],
  [seriesB, programB]: readonly [string, string],
  kind: string,
  combine: (a: number, b: number) => number = (a, b) => a / b,
): Spread | null {
  const a = section?.series[seriesA]?.[programA]?.[kind] ?? [];
  const b = section?.series[seriesB]?.[programB]?.[kind] ?? [];
  const rounds = Math.min(a.length, b.length);
  return spreadOf(Array.from({ length: rounds }, (_, i) => combine(a[i] as number, b[i] as number)));
}
