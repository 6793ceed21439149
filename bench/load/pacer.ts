import { parentPort, workerData } from 'node:worker_threads';

/** What the thread below gets. */
export interface Pace {
  readonly perSecond: number;
  /** Gaps are exponentially distributed (Poisson arrivals) instead of all the same. */
  readonly random: boolean;
}

// A thread that sleeps until the next request is due: timers of Node have steps of a millisecond, which would be the
// largest part of a latency. Posts the instants that have come, in milliseconds of the machine's monotonic clock.
const { perSecond, random } = workerData as Pace;
const mean = 1000 / perSecond;
const never = new Int32Array(new SharedArrayBuffer(4));
const now = (): number => Number(process.hrtime.bigint()) / 1e6;
const gap = (): number => (random ? -Math.log(1 - Math.random()) * mean : mean);

for (let due = now() + gap(); ; ) {
  const wait = due - now();
  if (wait > 0) Atomics.wait(never, 0, 0, wait);
  const dues: number[] = [];
  for (const until = now(); due <= until; due += gap()) dues.push(due);
  if (dues.length > 0) parentPort?.postMessage(dues);
}
