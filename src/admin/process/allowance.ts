import { LRUCache } from 'lru-cache';
import type { Clock } from '../../domain/ports.ts';

const PER_SECOND = 20;
const BURST = 100;
const AT_ONCE = 16; // so that slow forms of one stranger take at most 16 MiB
/** Most subjects of each kind; the least recently used are forgotten. With `max` their memory would be taken at once. */
const SUBJECTS = { maxSize: 50_000, sizeCalculation: () => 1 };

interface Bucket {
  tokens: number;
  filledAt: number;
  /** Requests being answered. */
  open: number;
}

/**
 * How many requests for pages each address and each session may make: token buckets in memory. A
 * session counts once the pages found it valid, so that made-up cookies gain nothing.
 */
export class Allowance {
  readonly #clock: Clock;
  readonly #addresses = new LRUCache<string, Bucket>(SUBJECTS);
  readonly #sessions = new LRUCache<string, Bucket>(SUBJECTS);

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Notes a valid session. */
  admit(session: string): void {
    if (!this.#sessions.has(session))
      this.#sessions.set(session, { tokens: BURST, filledAt: this.#clock(), open: 0 });
  }

  /**
   * Takes one request from the allowance of the session, or else of the address.
   * @returns to be called when it is answered; null: none is left
   */
  take(address: string, session: string | null): (() => void) | null {
    const now = this.#clock();
    const known =
      (session === null ? undefined : this.#sessions.get(session)) ?? this.#addresses.get(address);
    const bucket = known ?? { tokens: BURST, filledAt: now, open: 0 };
    if (known === undefined) this.#addresses.set(address, bucket);
    bucket.tokens = Math.min(
      BURST,
      bucket.tokens + (Math.max(0, now - bucket.filledAt) / 1000) * PER_SECOND,
    );
    bucket.filledAt = now;
    if (bucket.tokens < 1 || bucket.open >= AT_ONCE) return null;
    bucket.tokens--;
    bucket.open++;
    return () => {
      bucket.open--;
    };
  }
}
