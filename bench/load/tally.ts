import { createHistogram, type RecordableHistogram } from 'node:perf_hooks';

/** What one run saw. Times are histograms of nanoseconds. */
export interface Tally {
  /** When counting began (performance.now()). Of an exchange that started earlier, only events and errors count. */
  readonly from: number;
  /** Exchanges that ended as they should: status 2xx, and streams with their last event. */
  done: number;
  events: number;
  readonly statuses: Map<number, number>;
  /** Failures by their text. */
  readonly errors: Map<string, number>;
  readonly latency: RecordableHistogram;
  readonly firstEvent: RecordableHistogram;
}

export function newTally(): Tally {
  const [latency, firstEvent] = [createHistogram(), createHistogram()];
  const from = performance.now();
  return { from, done: 0, events: 0, statuses: new Map(), errors: new Map(), latency, firstEvent };
}

/** Adds one to what a map counts of a key. */
export function count<K>(counts: Map<K, number>, key: K, more = 1): void {
  counts.set(key, (counts.get(key) ?? 0) + more);
}

/** A tally as plain values. */
export type Summary = Readonly<ReturnType<typeof summarize>>;

/** Times in milliseconds; 0 when nothing was timed. */
export function summarize({ done, events, statuses, errors, latency, firstEvent }: Tally) {
  const at = (times: RecordableHistogram, percent: number): number =>
    times.count === 0 ? 0 : times.percentile(percent) / 1e6;
  return {
    done,
    events,
    statuses: Object.fromEntries(statuses),
    errors: Object.fromEntries(errors),
    p50: at(latency, 50),
    p99: at(latency, 99),
    firstEventP50: at(firstEvent, 50),
    firstEventP99: at(firstEvent, 99),
  };
}
