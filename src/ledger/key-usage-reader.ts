import { GatewayError } from '../domain/errors.ts';
import { mayTakePlace } from '../domain/fair-share.ts';
import type { KeyAndMonth, MaybeAsync } from '../domain/ports.ts';
import { parseEur } from '../domain/pricing/money.ts';
import type { RecordCost } from '../domain/record.ts';
import type { KeyUsage } from '../domain/usage.ts';
import { KeyMonth } from './key-month.ts';
import type { ReaderOptions } from './reader-options.ts';
import type { KeyMemory } from './spend.ts';

const KEPT_MS = 1000; // how long sums serve before they are read again
const PAUSE_MS = 50; // between two readings
const PATIENCE_MS = 2000; // how long a request waits
const MAX_WAITING = 500; // keys read in one statement

/** Requests that wait for the usage of one key in one month. */
interface Waiting extends KeyAndMonth {
  readonly key: KeyMemory;
  readonly promise: Promise<KeyUsage>;
  readonly settle: (usage: KeyUsage | null) => void;
}

/**
 * Reads what keys used in a month: all keys that are asked for in one statement, each at most once a second. The
 * ledger calls it between batches, when each record is either in the database or among those that wait.
 */
export class KeyUsageReader {
  readonly #options: ReaderOptions;
  readonly #waiting = new Map<string, Waiting>();
  #readAt = Number.NEGATIVE_INFINITY;

  constructor(options: ReaderOptions) {
    this.#options = options;
  }

  /** When the next reading is due, in milliseconds of `uptime`. */
  get dueAt(): number {
    return this.#waiting.size === 0 ? Number.POSITIVE_INFINITY : this.#readAt + PAUSE_MS;
  }

  /** Rejects with GatewayError 503 when the database cannot be asked, or too many ask. */
  request(key: KeyMemory, month: string): MaybeAsync<KeyUsage> {
    const { timing, isAvailable, onRequest } = this.#options;
    const { keyId, companyId, used } = key;
    if (used !== null && used.month === month && timing.uptime() - used.readAt < KEPT_MS)
      return used;
    const name = nameOf({ keyId, companyId, month });
    const same = this.#waiting.get(name);
    if (same !== undefined) return same.promise;
    const { promise, resolve, reject } = Promise.withResolvers<KeyUsage>();
    const ofCompany = [...this.#waiting.values()].filter(
      (waiting) => waiting.companyId === companyId,
    ).length;
    if (!isAvailable() || !mayTakePlace(ofCompany, this.#waiting.size, MAX_WAITING)) {
      reject(new GatewayError('service_unavailable'));
      return promise;
    }
    const settle = (usage: KeyUsage | null): void => {
      cancel();
      this.#waiting.delete(name);
      if (usage === null) reject(new GatewayError('service_unavailable'));
      else resolve(usage);
    };
    const cancel = timing.after(PATIENCE_MS, () => settle(null));
    this.#waiting.set(name, { key, keyId, companyId, month, promise, settle });
    onRequest();
    return promise;
  }

  /** Reads what requests wait for. @param pending records not yet in the database; @throws as the store does */
  async answer(pending: Iterable<RecordCost>): Promise<void> {
    const { store, timing } = this.#options;
    const waiting = [...this.#waiting.values()];
    this.#readAt = timing.uptime();
    const months = new Map<string, KeyMonth>();
    for (const wanted of waiting) {
      const month = new KeyMonth(wanted.month);
      months.set(nameOf(wanted), month);
      wanted.key.used = month; // from now on it counts what is booked
    }
    for (const record of pending) months.get(nameOf(record))?.add({ requests: 1, ...record });
    for (const { eur, ...sums } of await store.keyUsage(waiting)) {
      months.get(nameOf(sums))?.add({ ...sums, cost: parseEur(eur) });
    }
    for (const wanted of waiting) {
      const month = months.get(nameOf(wanted)) as KeyMonth;
      month.readAt = timing.uptime();
      wanted.settle(month);
    }
  }

  /** The database failed: refuses the requests that wait. */
  fail(): void {
    for (const { settle } of this.#waiting.values()) settle(null);
  }
}

function nameOf({ companyId, keyId, month }: KeyAndMonth): string {
  return `${companyId} ${keyId} ${month}`;
}
