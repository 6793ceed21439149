import { LRUCache } from 'lru-cache';
import type { Clock } from '../domain/ports.ts';

/** After so many failures within a window, attempts are refused until it ends. */
type Limit = { readonly failures: number; readonly windowMs: number };

/**
 * Counts failures per subject, in memory of this process: a failed sign-in writes nothing. An
 * attempt counts before its outcome is known, so that a burst of attempts is limited as well.
 */
export class Throttle {
  readonly #limit: Limit;
  readonly #clock: Clock;
  /** Bounded: beyond this number the subjects that were used least recently are forgotten. */
  readonly #windows = new LRUCache<string, { count: number; readonly until: number }>({ max: 100_000 });

  constructor(limit: Limit, clock: Clock) {
    this.#limit = limit;
    this.#clock = clock;
  }

  /** Seconds until another attempt is allowed; 0 when it is allowed now. */
  closedFor(subject: string): number {
    const window = this.#windows.get(subject);
    const now = this.#clock();
    if (window === undefined || window.until <= now || window.count < this.#limit.failures) return 0;
    return Math.ceil((window.until - now) / 1000);
  }

  attempt(subject: string): void {
    const window = this.#windows.get(subject);
    const now = this.#clock();
    if (window !== undefined && window.until > now) window.count++;
    else this.#windows.set(subject, { count: 1, until: now + this.#limit.windowMs });
  }

  /** Takes back an attempt that succeeded or could not be decided. */
  forgive(subject: string): void {
    const window = this.#windows.get(subject);
    if (window !== undefined && window.count > 0) window.count--;
  }
}
