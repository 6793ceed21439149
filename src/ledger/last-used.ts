import type { LedgerStore } from '../domain/ports.ts';
import type { KeyMemory } from './spend.ts';
import type { Timing } from './timing.ts';

const STORE_MS = 10_000; // how old last_used_at may be
const MAX_KEYS = 3000; // in one statement, which takes some 100 ms; 100,000 took 2 s, which is the deadline

/** Stores from time to time when keys were last used. */
export class LastUsed {
  readonly #store: LedgerStore;
  readonly #timing: Timing;
  /** Keys used since the last time. */
  #used: KeyMemory[] = [];
  /** Keys of the last time that are not stored yet. */
  #remaining: KeyMemory[] = [];
  #storedAt = 0;

  constructor(store: LedgerStore, timing: Timing) {
    this.#store = store;
    this.#timing = timing;
  }

  /** @param at milliseconds since the epoch */
  note(key: KeyMemory, at: number): void {
    if (key.usedAt === 0) this.#used.push(key);
    key.usedAt = at;
  }

  /** Stores the times of MAX_KEYS keys, if it is time; of all keys with `final`. @throws as the store does */
  async store(final: boolean): Promise<void> {
    do {
      if (this.#remaining.length === 0) {
        const now = this.#timing.uptime();
        if (this.#used.length === 0 || (!final && now - this.#storedAt < STORE_MS)) return;
        this.#remaining = this.#used;
        this.#used = [];
        this.#storedAt = now;
      }
      await this.#store.touchKeys(this.#remaining.splice(-MAX_KEYS).map(takeUse));
    } while (final);
  }
}

/** The id of a key and when it was last used; from now on the key counts as not used. */
function takeUse(key: KeyMemory): [keyId: string, at: number] {
  const at = key.usedAt;
  key.usedAt = 0;
  return [key.keyId, at];
}
