import type { Assistant } from './assistant.ts';
import type { Company } from './company.ts';
import type { ApiKey } from './key.ts';
import type { Femto } from './money.ts';
import type { UsageRecord } from './usage.ts';

/**
 * What the gateway needs of the floors below it. A value already in memory is returned
 * as it is, a missing one as a promise: a hit costs no microtask.
 */
export type Now<T> = T | Promise<T>;

/** Keys, companies and assistants. Rejects with GatewayError 503 when they cannot be looked up. */
export interface Directory {
  /** The live key with this SHA-256 digest (hex); null when unknown or revoked. */
  key(digest: string): Now<ApiKey | null>;
  company(id: string): Now<Company | null>;
  /** An assistant of this company that is eligible for the API; null otherwise (spec section 2.6). */
  assistant(id: string, companyId: string): Now<Assistant | null>;
}

/** Where metering goes and what the budget gate reads. */
export interface Ledger {
  /** Femto-EUR a company spent in a month, in-app chat included, own unwritten records included. */
  spent(companyId: string, month: string): Now<Femto>;
  /**
   * Takes a finished record; never throws (spec section 8, rule 5).
   * @param waiter told once when the record survives the death of the process, so that the
   * last bytes of an answer leave only then; told at once where that cannot be had
   */
  book(record: UsageRecord, waiter: BookingWaiter | null): void;
}

/** Who holds back the end of an answer until it is booked. */
export interface BookingWaiter {
  onBooked(): void;
}

/** What the ledger asks of the database. Each call rejects with an error whose `unavailable` says whether to try again. */
export interface LedgerStore {
  /**
   * Inserts records (JSON objects as `serializeRecord` writes them), each at most once ever,
   * and returns per company and month what was really inserted. All or nothing.
   */
  insert(records: readonly string[]): Promise<MonthSum[]>;
  /** Sets one record aside that can never be inserted, with the reason. */
  setAside(record: string, reason: string): Promise<void>;
  /** The month's spend, API and chat, of the given companies. */
  spend(companyIds: readonly string[], months: readonly string[]): Promise<MonthSum[]>;
  /** All figures that may have changed since the cursor, and the next cursor; null starts now. */
  changedSpend(cursor: string | null): Promise<{ cursor: string; sums: MonthSum[] }>;
  /** When each key was last used, milliseconds since the epoch. */
  touchKeys(lastUsed: ReadonlyMap<string, number>): Promise<void>;
}

export interface MonthSum {
  readonly companyId: string;
  readonly month: string;
  /** EUR as decimal text. */
  readonly eur: string;
}

/** Milliseconds since the epoch. */
export type Clock = () => number;
