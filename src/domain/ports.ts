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
  /** Takes a finished record; never throws and never waits (spec section 8, rule 5). */
  book(record: UsageRecord): void;
}

/** Milliseconds since the epoch. */
export type Clock = () => number;
