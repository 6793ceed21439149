import type { LedgerStore } from '../domain/ports.ts';
import type { KeyMemory } from './spend.ts';
import type { Timing } from './timing.ts';

const STORE_MS = 10_000; // how old `last_used_at` may be
const MAX_KEYS = 3000; // in one statement, which takes some 100 ms; 100,000 took 2 s, which is the deadline

/** When keys were last used, on its way to the database. */
export class LastUsed {
  readonly #store: Pick<LedgerStore, 'touchKeys'>;
  readonly #timing: Timing;
  /** Keys used since `#due` was filled. */
  #used: KeyMemory[] = [];
  /** Keys whose times are being stored, some in each statement. */
  #due: KeyMemory[] = [];
  #filledAt = 0;

  constructor(store: Pick<LedgerStore, 'touchKeys'>, timing: Timing) {
    this.#store = store;
    this.#timing = timing;
  }

  /** Whether every time is in the database. */
  get isEmpty(): boolean {
    return this.#used.length + this.#due.length === 0;
  }

  /** @param at milliseconds since the epoch */
  note(key: KeyMemory, at: number): void {
    if (key.usedAt === 0) this.#used.push(key);
    key.usedAt = at;
  }

  /** Stores the times of MAX_KEYS keys, if it is time; with `final` those of all keys. @throws as the store does */
  async store(final: boolean): Promise<void> {
    do {
      if (this.#due.length === 0) {
        const now = this.#timing.uptime();
        if (this.#used.length === 0 || (!final && now - this.#filledAt < STORE_MS)) return;
        this.#due = this.#used;
        this.#used = [];
        this.#filledAt = now;
      }
      const keys = this.#due.splice(-MAX_KEYS);
      const lastUsed = keys.map(({ keyId, usedAt }) => [keyId, usedAt] as const);
      for (const key of keys) key.usedAt = 0; // from now on the key counts as not used
      try {
        await this.#store.touchKeys(lastUsed);
      } catch (error) {
        keys.forEach((key, n) => {
          if (key.usedAt === 0) this.note(key, (lastUsed[n] as (typeof lastUsed)[number])[1]); // else it was used meanwhile
        });
        throw error;
      }
    } while (final);
  }
}
