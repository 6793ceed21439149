import { createHistogram, type RecordableHistogram } from 'node:perf_hooks';

/** What one run saw. Times are histograms of nanoseconds. */
export interface Tally {
  /** When counting began (performance.now()). Of an exchange that started earlier, no time and no status counts. */
  readonly from: number;
  /** Exchanges that ended as they should, whenever they started: status 2xx, and streams with their last event. */
  done: number;
  events: number;
  readonly statuses: Map<number, number>;
  /** Failures by their text. */
  readonly errors: Map<string, number>;
  readonly latency: RecordableHistogram;
  readonly firstEvent: RecordableHistogram;
  /** Between two packets of one stream. */
  readonly gap: RecordableHistogram;
}

export function newTally(): Tally {
  const [latency, firstEvent, gap] = [createHistogram(), createHistogram(), createHistogram()];
  const from = performance.now();
  return {
    from,
    done: 0,
    events: 0,
    statuses: new Map(),
    errors: new Map(),
    latency,
    firstEvent,
    gap,
  };
}

/** Adds one to what a map counts of a key. */
export function count<K>(counts: Map<K, number>, key: K, more = 1): void {
  counts.set(key, (counts.get(key) ?? 0) + more);
}

/** A tally as plain values. */
export type Summary = Readonly<ReturnType<typeof summarize>>;

/** Times in milliseconds; NaN, which JSON writes as null, when nothing was timed. */
export function summarize({ done, events, statuses, errors, latency, firstEvent, gap }: Tally) {
  return {
    done,
    events,
    statuses: Object.fromEntries(statuses),
    errors: Object.fromEntries(errors),
    ...timesOf(latency),
    firstEvent: timesOf(firstEvent),
    gap: timesOf(gap),
  };
}

function timesOf(times: RecordableHistogram) {
  const at = (percent: number): number =>
    times.count === 0 ? Number.NaN : times.percentile(percent) / 1e6;
  return { p50: at(50), p99: at(99), p999: at(99.9), max: at(100) };
}
