import type { Assistant } from './assistant.ts';
import type { Company } from './company.ts';
import type { ApiKey, Payer } from './key.ts';
import type { Femto } from './money.ts';
import type { UsageRecord } from './usage.ts';

/**
 * What the gateway needs of the floors below it. A value already in memory is returned
 * as it is, a missing one as a promise: a hit costs no microtask.
 */
export type MaybeAsync<T> = T | Promise<T>;

/** Keys, companies and assistants. Rejects with GatewayError 503 when they cannot be looked up. */
export interface Directory {
  /** The live key with this SHA-256 digest (hex); null when unknown or revoked. */
  key(digest: string): MaybeAsync<ApiKey | null>;
  /** The company of a key found here. */
  companyOf(key: ApiKey): MaybeAsync<Company | null>;
  /** An assistant of this company that is eligible for the API; null otherwise (spec section 2.6). */
  assistant(id: string, companyId: string): MaybeAsync<Assistant | null>;
}

/** Where metering goes and what the budget gate reads. */
export interface Ledger {
  /** Femto-EUR the company of a key spent in a month, in-app chat included, own unwritten records included. */
  spentOf(payer: Payer, month: string): MaybeAsync<Femto>;
  /**
   * Takes a finished record; never throws (spec section 8, rule 5).
   * @param waiter told once when the record survives the death of the process, so that the
   * last bytes of an answer leave only then; told at once where that cannot be had
   */
  book(record: UsageRecord, waiter: BookingListener | null): void;
  /**
   * Sets aside what a request of a strict company can cost at most, until it is booked or released.
   * @returns whether it fits the budget
   * Rejects with GatewayError 503 when the database cannot be asked.
   */
  reserve(reservation: Reservation): Promise<boolean>;
  /** The request leaves no record: what was reserved for it is free again. */
  release(requestId: string): void;
}

/** What one request of a strict company can cost. */
export interface Reservation {
  readonly requestId: string;
  readonly companyId: string;
  readonly month: string;
  readonly amount: Femto;
  /** Whether it cannot cost more: false where the request does not bound its answer. */
  readonly bounded: boolean;
}

/** Who holds back the end of an answer until it is booked. */
export interface BookingListener {
  onBooked(): void;
}

/** What the ledger asks of the database. Each call rejects with an error whose `unavailable` says whether to try again. */
export interface LedgerStore {
  /**
   * Inserts records (a JSON array of objects as RecordWriter writes them), each at most once ever,
   * and returns per company and month what was really inserted. All or nothing. The seal it
   * leaves is chained to the same writer's seal before. The bytes must stay as they are until it
   * has succeeded, or for good where it fails.
   * @param total what all of them cost together, for who knows the sums of it; null asks for them anyway
   * @returns "all" when just that was inserted: no cost is negative, so it was every record that costs anything
   */
  insert(writer: string, records: Buffer, total: Femto | null): Promise<MonthSum[] | 'all'>;
  /** Sets records aside that can never be inserted, each once, with the reason. */
  setAside(refused: readonly RefusedRecord[]): Promise<void>;
  /** The month's spend, API and chat, of the given companies. */
  spend(companyIds: readonly string[], months: readonly string[]): Promise<MonthSum[]>;
  /** All figures that may have changed since the cursor, and the next cursor; null starts now. */
  changedSpend(cursor: string | null): Promise<{ cursor: string; sums: readonly MonthSum[] }>;
  /** When each key was last used, milliseconds since the epoch; a key read anew meanwhile may be in it twice. */
  touchKeys(lastUsed: readonly (readonly [keyId: string, at: number])[]): Promise<void>;
  /** Makes those reservations that fit their budgets, for as long as the lease; returns their request ids. */
  reserve(owner: string, leaseSeconds: number, wanted: readonly Reservation[]): Promise<ReadonlySet<string>>;
  /** Ends reservations; renews the lease of others. */
  keepReservations(ended: readonly string[], renewed: readonly string[], leaseSeconds: number): Promise<void>;
}

/** A record that the database can never take. */
export interface RefusedRecord {
  readonly record: string;
  readonly reason: string;
}

export interface MonthSum {
  readonly companyId: string;
  readonly month: string;
  /** EUR as decimal text. */
  readonly eur: string;
}

/** Milliseconds since the epoch. */
export type Clock = () => number;
