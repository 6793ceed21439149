import type { Assistant } from './assistant.ts';
import type { Company } from './company.ts';
import type { GatewayError } from './errors.ts';
import type { Channel, Delivery } from './event.ts';
import type { ApiKey, EndUser, Payer } from './key.ts';
import type { LimitKind, LimitsLeft } from './limits.ts';
import type { Femto } from './pricing/money.ts';
import type { BookedCall, KeyUsage, Outcome, UsageRecord } from './usage.ts';

/** A value in memory is returned as it is, any other as a promise: a hit costs no microtask. */
export type MaybeAsync<T> = T | Promise<T>;

/** Keys, companies, assistants and end users. Rejects with GatewayError 503 when they cannot be looked up. */
export interface Directory {
  /** The key with this SHA-256 digest (hex), also one that expired or was revoked; null when unknown. */
  key(digest: string): MaybeAsync<ApiKey | null>;
  /** The key with this digest if it is in memory, perhaps outdated; else null. Reads nothing. */
  keyInMemory(digest: string): ApiKey | null;
  /** The company of a key found here. */
  company(id: string): MaybeAsync<Company | null>;
  /** An assistant of this company that is eligible for the API; null otherwise (spec section 2.6). */
  assistant(id: string, companyId: string): MaybeAsync<Assistant | null>;
  /** The person of this name behind the keys of a company; a new one where there is none. null: the company takes none. */
  endUser(companyId: string, name: string): MaybeAsync<EndUser | null>;
}

/** Metering, and the spend that the budget gate reads. */
export interface Ledger {
  /** Femto-EUR that the company of a key spent in a month, including in-app chat and records not yet in the database. */
  spentOf(payer: Payer, month: string): MaybeAsync<Femto>;
  /** Femto-EUR that a key with a budget of its own spent in a month, including records not yet in the database. */
  spentByKey(payer: Payer, month: string): MaybeAsync<Femto>;
  /** The same on a day, "2026-11-28", for calls that are booked with it: of the company of a key, or of the key itself. */
  spentOnDay(payer: Payer, day: string, whose: 'company' | 'key'): MaybeAsync<Femto>;
  /** The same of an end user of a key with an allowance in a month. */
  spentByEndUser(payer: Payer, month: string, endUser: EndUser): MaybeAsync<Femto>;
  /**
   * The usage of a key in a month. Records of this gateway count at once, those of others a second later. Rejects with
   * GatewayError 503 when the database cannot be asked.
   */
  usageOf(payer: Payer, month: string): MaybeAsync<KeyUsage>;
  /**
   * Takes a finished record; never throws (spec section 8, rule 5).
   * @param listener called once the record survives the death of the process (or as soon as possible
   * where there is no spool), so that the last bytes of an answer leave only then
   */
  book(record: UsageRecord, listener: BookingListener | null): void;
  /**
   * Reserves what a request of a strict company can cost at most, until it is booked or released.
   * Rejects with GatewayError 503 when the database cannot be asked.
   */
  reserve(reservation: Reservation): Promise<Fit>;
  /** Ends the reservation of a request that leaves no record. */
  release(requestId: string): void;
}

/** Booked calls, one by one. */
export interface Calls {
  /**
   * The ledger row of a request of this key; null when there is none, a second later. `months` are those it may be in.
   * Rejects with GatewayError 503 when the database cannot be asked or too many wait, 429 when too many of this key do.
   */
  find(payer: Payer, requestId: string, months: readonly string[]): Promise<BookedCall | null>;
}

/** Whether a request fits the budgets that reserve; else the name of what refuses it where the company's month does not. */
export type Fit = boolean | 'day' | 'end_user';

/** The most that one request of a strict company can cost. */
export interface Reservation {
  readonly requestId: string;
  readonly companyId: string;
  readonly month: string;
  /** "2026-11-28"; absent: no budget of a day is to hold. */
  readonly day?: string;
  /** The key and its end user where the key gives these an allowance; absent: none is to hold. */
  readonly keyId?: string;
  readonly endUserId?: string;
  readonly amount: Femto;
  /** Whether it cannot cost more; false when the request does not limit its answer. */
  readonly bounded: boolean;
}

/** Holds back the end of an answer until its record is booked. */
export interface BookingListener {
  onBooked(): void;
  /** `onBooked` threw: a fault of the gateway. */
  onThrown(error: unknown): void;
}

/** Limits of requests, tokens and calls at once, over all gateways (contract section 5). */
export interface Limiter {
  /**
   * Counts a request of a key. @returns null where no limit applies; a promise where units have to be leased first
   * @throws GatewayError 429, also as a rejection
   */
  enter(key: ApiKey, company: Company): MaybeAsync<Hold | null>;
  /**
   * The units that a key has left of its limits. Asks the database, or tells what this gateway knows if the database is
   * away.
   * @param isFresh the database told a moment ago: do not ask again
   */
  left(key: ApiKey, company: Company, isFresh: boolean): Promise<LimitsLeft>;
}

/** The units that one request holds of its limits. */
export interface Hold {
  /** Whether tokens are limited. */
  readonly countsTokens: boolean;
  /**
   * Reserves the tokens of a call.
   * @param completion the most that may be generated; null: the request does not limit it
   * @throws GatewayError 429, also as a rejection
   */
  reserve(prompt: number, completion: number | null): MaybeAsync<void>;
  /** The call is over. @param tokens that it used; 0 when it cost nothing */
  settle(tokens: number): void;
  /** The request is over. Tokens that were reserved but not settled are free again. May be called twice. */
  end(): void;
}

/** What a gateway wants of one limit (sql/schema/limits.sql). */
export interface AskedUnits {
  readonly subject: string;
  readonly kind: LimitKind;
  readonly limit: number;
  /** Units to lease. */
  readonly want: number;
  /** Units that were used without a lease. */
  readonly owed: number;
  /** Units returned, with the age of their lease in seconds; below 0: used without a lease so long ago. */
  readonly back: readonly (readonly [age: number, units: number])[];
  /** Calls in flight; 0 for other kinds. */
  readonly held: number;
}

export interface LeasedUnits {
  readonly subject: string;
  readonly kind: LimitKind;
  /** Units leased; for calls all slots of this gateway. */
  readonly granted: number;
  /** The units that all gateways leased in each of the last seconds, the oldest first. */
  readonly units: readonly number[];
  /** Slots of other gateways. */
  readonly others: number;
}

/** The limiter's part of the database. Calls reject when it is away. */
export interface LimitStore {
  /**
   * @param gateway names the run of a gateway that asks
   * @param leaseSeconds after which slots are free again unless they are asked for anew
   * @returns what was leased, and how many gateways lease
   */
  lease(
    gateway: string,
    leaseSeconds: number,
    asked: readonly AskedUnits[],
  ): Promise<{ readonly gateways: number; readonly leased: readonly LeasedUnits[] }>;
  /** Deletes what no longer counts. */
  trim(): Promise<void>;
}

/** The ledger's part of the database. Calls reject with an error whose `unavailable` says whether to try again. */
export interface LedgerStore {
  /**
   * Inserts a JSON array of records, each at most once ever, and seals them (sql/schema/seals.sql). All
   * or nothing. The bytes must not change until it has succeeded, or ever if it fails.
   * @param total femto-EUR of all of them, if the caller knows the sums it consists of
   * @returns the cost inserted per company and month; "all" when it adds up to `total`
   */
  insert(writer: string, records: Buffer, total: Femto | null): Promise<MonthSum[] | 'all'>;
  /** Stores records that can never be inserted, each once, with the reason. */
  setAside(refused: readonly RefusedRecord[]): Promise<void>;
  /** The spend of companies, keys and end users in the given months or on days, without those that spent nothing. @param ids see MonthSum */
  spend(ids: readonly string[], months: readonly string[]): Promise<MonthSum[]>;
  /** All figures of companies that may have changed since the cursor, and the next cursor; null starts now. */
  changedSpend(cursor: string | null): Promise<{ cursor: string; sums: readonly MonthSum[] }>;
  /** The usage of each key in a month, without keys that used nothing. */
  keyUsage(
    keys: readonly KeyAndMonth[],
  ): Promise<(KeyAndMonth & Omit<KeyUsage, 'cost'> & { readonly eur: string })[]>;
  /** The rows of calls, those of other keys left out. */
  calls(wanted: readonly WantedCall[]): Promise<BookedCall[]>;
  /** Stores when keys were last used, milliseconds since the epoch. A key may occur twice. */
  touchKeys(lastUsed: readonly (readonly [keyId: string, at: number])[]): Promise<void>;
  /** Makes those reservations that fit their budgets; they expire after the lease. @returns true for the ids of these */
  reserve(
    writer: string,
    leaseSeconds: number,
    wanted: readonly Reservation[],
  ): Promise<ReadonlyMap<string, Fit>>;
  /** Ends some reservations and renews the lease of others; makes those of them again that expired and were deleted. */
  keepReservations(
    writer: string,
    ended: readonly string[],
    renewed: readonly Reservation[],
    leaseSeconds: number,
  ): Promise<void>;
}

/** A record that the database can never take. */
export interface RefusedRecord {
  readonly record: string;
  readonly reason: string;
}

/** The spend of a company in a month or on a day, API and chat, or of one of its keys, or in a month of an end user of a key. */
export interface MonthSum {
  /**
   * The id of the company; of a key, its company's id, a slash and its line (see Payer). For a day "//day" or "/day" follows; for an end
   * user of the key a slash and their id.
   */
  readonly id: string;
  /** Its first day; or the day. */
  readonly month: string;
  /** EUR as decimal text. */
  readonly eur: string;
}

/** A key in a billing month. */
export interface KeyAndMonth {
  readonly keyId: string;
  readonly companyId: string;
  readonly month: string;
}

/** A call that is looked for, and the billing months it may be in. */
export interface WantedCall {
  readonly payer: Payer;
  readonly requestId: string;
  readonly months: readonly string[];
}

/** Keeps what became of requests. */
export interface Trail {
  /**
   * Takes a request that is over; never throws and never waits.
   * @param ms from its head to its end @param added milliseconds that the gateway itself took
   * @param firstEvent milliseconds until a stream began; NaN for other answers
   */
  add(request: EndedRequest, ms: number, added: number, firstEvent: number): void;
}

/** A request that is over, as the trail takes it. */
export interface EndedRequest {
  /** When it came, milliseconds since the epoch: the time in its id. */
  readonly at: number;
  readonly reply: {
    readonly requestId: string;
    /** The status sent; 0: none. */
    readonly status: number;
    /** The error that was sent, or that ended a stream. */
    readonly failure:
      | (Pick<GatewayError, 'name' | 'code' | 'param'> & Partial<Pick<GatewayError, 'setting'>>)
      | null;
  };
  readonly endpoint: string;
  readonly companyId: string | null;
  readonly keyId: string | null;
  /** The model asked for: the caller's text. */
  readonly asked: string | null;
  /** The slug of the model that was found. */
  readonly slug: string | null;
  /** The call, once a model was admitted. */
  readonly meter: {
    /** null: the client left before the call was booked. */
    readonly outcome: Outcome | null;
    readonly tokens: { readonly prompt: number; readonly completion: number } | null;
    /** In EUR, as decimal text. */
    readonly cost: string | null;
    readonly failure: UpstreamFailure | null;
  } | null;
}

/** Why the upstream failed: its status, null where it gave none, and its own words without keys and prompts. */
export interface UpstreamFailure {
  readonly status: number | null;
  readonly reason: string;
}

/** The trail's part of the database. Calls reject with an error whose `unavailable` says whether to try again. */
export interface TrailStore {
  /**
   * Inserts a JSON array of requests, each at most once, and counts those that are new by the hour. All or nothing.
   * The bytes must not change until it has succeeded, or ever if it fails.
   */
  insert(rows: Buffer): Promise<void>;
  /**
   * Makes room for the days that rows are about to come for, and drops days that are too old.
   * @param days how many to keep
   * @param first of the days to come, and the last of them: "2026-11-22", in UTC
   */
  keep(days: number, first: string, last: string): Promise<void>;
  /** Deletes some of the hours that are too old. @returns whether there are more */
  trimHours(): Promise<boolean>;
}

/** The events' part of the database. */
export interface EventStore {
  /** Takes the lease where nobody has it, or renews it. @returns whether this holder has it now */
  lease(holder: string, seconds: number): Promise<boolean>;
  /** Ends the lease of this holder. */
  release(holder: string): Promise<void>;
  /**
   * Writes a budget alert for every threshold of the present month that a budget newly reached. If it reached several
   * at once, only the highest is sent. Then writes a delivery of every new event for each receiver.
   * @param cursor of the look before: only later spend is looked at; null: all spend
   */
  look(cursor: string | null, receivers: EventReceivers): Promise<EventLook>;
  /**
   * Writes an alert for every threshold that the budget of a cost centre newly reached, as `look` does for others, and for
   * end users.
   * @param cursor of the look before: only companies with later spend are looked at; null: all that have such budgets
   * @returns the next cursor; null: no cost centre has a budget, and no end user
   */
  lookAtCostCenters(cursor: string | null): Promise<string | null>;
  /**
   * Writes what is unusual today of some companies.
   * @param after the last company of the look before; null: from the first
   * @returns the last company; null: there is no further one
   */
  lookAtUnusual(after: string | null): Promise<string | null>;
  /**
   * Deliveries of a channel that are due, the longest waiting first; beyond the limit those of the same messages.
   * @param operators of the receivers: of all other addresses only those that are still a receiver's
   */
  due(channel: Channel, limit: number, operators: readonly string[]): Promise<Delivery[]>;
  delivered(delivery: Delivery): Promise<void>;
  /** @param pause seconds until the next attempt; null: there is none @param reason short, without secrets */
  failed(delivery: Delivery, reason: string, pause: number | null): Promise<void>;
  /** Deletes events that are too old. */
  trim(): Promise<void>;
}

/** The receivers of new events. */
export interface EventReceivers {
  readonly webhook: boolean;
  /** Budget alerts alone, to owners and administrators of the company. */
  readonly email: boolean;
  /** Addresses that get every e-mail besides. */
  readonly operators: readonly string[];
}

export interface EventLook {
  readonly cursor: string;
  /** Budget alerts that were written. */
  readonly reached: number;
  /** Deliveries that were written. */
  readonly told: number;
  /** Deliveries that were given up, by channel. */
  readonly dead: Readonly<Record<Channel, number>>;
}

/** Milliseconds since the epoch. */
export type Clock = () => number;
