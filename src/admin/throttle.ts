import { LRUCache } from 'lru-cache';
import type { Clock } from '../domain/ports.ts';

/** How many failures within a window close the door until the window ends. */
export interface Limit {
  readonly failures: number;
  readonly windowMs: number;
}

/**
 * Counts failures per subject. In memory, per replica: a failed sign-in costs no write, and
 * hashing one password at a time bounds what several replicas together allow. Counting an
 * attempt before its outcome is known keeps a burst from slipping through side by side.
 */
export class Throttle {
  readonly #limit: Limit;
  readonly #clock: Clock;
  // bounded: whoever invents a hundred thousand subjects forgets only the oldest ones
  readonly #windows = new LRUCache<string, { count: number; readonly until: number }>({ max: 100_000 });

  constructor(limit: Limit, clock: Clock) {
    this.#limit = limit;
    this.#clock = clock;
  }

  /** Seconds until the subject may try again; 0 when it may now. */
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

  /** The attempt was none: it succeeded, or was never made. */
  forgive(subject: string): void {
    const window = this.#windows.get(subject);
    if (window !== undefined && window.count > 0) window.count--;
  }
}
