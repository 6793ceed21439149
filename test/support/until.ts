import { setTimeout as pause } from 'node:timers/promises';

/** Between two looks: grows while the wait is long, since a look may cost as much as a request. */
const PAUSE_MS = { first: 5, growth: 1.2, longest: 40 };
/** Far longer than anything awaited takes on a busy machine, and shorter than the timeout of a test. */
const DEADLINE_MS = process.env.FAULTS === 'long' ? 300_000 : 120_000;

/**
 * Polls until a condition holds: for whatever no event tells of.
 * @param look gives the condition, or the value that `holds` judges
 * @param what is awaited, as the error tells it
 * @returns the value that held
 * @throws when none did before the deadline
 */
export async function until<T>(
  look: () => T | Promise<T>,
  what: string,
  holds: (value: T) => boolean = Boolean,
): Promise<T> {
  const deadline = performance.now() + DEADLINE_MS;
  for (
    let pauseMs = PAUSE_MS.first;
    ;
    pauseMs = Math.min(pauseMs * PAUSE_MS.growth, PAUSE_MS.longest)
  ) {
    const value = await look();
    if (holds(value)) return value;
    if (performance.now() > deadline) {
      const last = JSON.stringify(value)?.slice(0, 1000);
      throw new Error(`waited ${DEADLINE_MS / 1000} s for this: ${what}. Seen last: ${last}`);
    }
    await pause(pauseMs);
  }
}
