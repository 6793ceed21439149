import { setTimeout as sleep } from 'node:timers/promises';
import { GatewayError } from '../domain/errors.ts';
import { type Femto, parseEur } from '../domain/money.ts';
import type { BookingWaiter, Clock, Ledger, LedgerStore, MonthSum, Now } from '../domain/ports.ts';
import { serializeRecord, type UsageRecord } from '../domain/usage.ts';
import { Spend } from './spend.ts';

export interface LedgerOptions {
  readonly store: LedgerStore;
  readonly clock: Clock;
  /** The billing month of an instant. */
  readonly monthOf: (at: number) => string;
  readonly log: { warn(fields: object, text: string): void; error(fields: object, text: string): void };
}

const MAX_BATCH = 2000; // records in one statement
const FLUSH_MS = 100; // how long a record waits for company
const POLL_MS = 250; // how old another replica's spend may be; the contract allows one second
const TOUCH_MS = 10_000; // how old last_used_at may be
const BACKOFF_MS = 500; // pause after the database failed
const LOAD_PATIENCE_MS = 2000; // how long a request waits for its company's spend

interface Queued {
  readonly companyId: string;
  readonly month: string;
  readonly cost: Femto;
  readonly json: string;
}

interface Load {
  readonly companyId: string;
  readonly month: string;
  readonly promise: Promise<Femto>;
  readonly settle: (error: GatewayError | null) => void;
}

/**
 * Metering off the response path (spec section 8): records queue in memory, one loop
 * writes them in batches and reads the spend between batches. Everything that touches
 * the database happens in that loop, one thing at a time: see Spend for why.
 */
export class BatchLedger implements Ledger {
  readonly #options: LedgerOptions;
  readonly #spend = new Spend();
  #queue: Queued[] = [];
  #loads: Load[] = [];
  #lastUsed = new Map<string, number>();
  #cursor: string | null = null;
  #polledAt = 0;
  #touchedAt = 0;
  #wake: (() => void) | null = null;
  #closing = false;
  #abandoned = false;
  #running: Promise<void> | null = null;
  /** Records settled, and of these set aside, since the start. */
  settled = 0;
  setAside = 0;
  /** Since when the oldest record waits, milliseconds since the epoch; null when none does. */
  waitingSince: number | null = null;
  available = true;

  constructor(options: LedgerOptions) {
    this.#options = options;
  }

  start(): void {
    this.#running ??= this.#run();
  }

  /** Records not yet in the database. */
  get backlog(): number {
    return this.#queue.length;
  }

  spent(companyId: string, month: string): Now<Femto> {
    return this.#spend.get(companyId, month) ?? this.#load(companyId, month);
  }

  book(record: UsageRecord, waiter: BookingWaiter | null): void {
    const { companyId, month, keyId, at } = record.admission;
    this.#spend.add(companyId, month, record.cost);
    this.#queue.push({ companyId, month, cost: record.cost, json: serializeRecord(record) });
    this.#lastUsed.set(keyId, at);
    this.waitingSince ??= this.#options.clock();
    if (this.#queue.length >= MAX_BATCH) this.#wakeUp();
    waiter?.onBooked(); // no spool: a record in memory is all there is
  }

  /**
   * Writes what is queued and stops.
   * @param patienceMs how long to go on while the database fails
   * @returns the number of records that could not be written
   */
  async close(patienceMs: number): Promise<number> {
    this.#closing = true;
    this.#wakeUp();
    const giveUp = new AbortController();
    await Promise.race([this.#running, sleep(patienceMs, undefined, { signal: giveUp.signal }).catch(() => {})]);
    giveUp.abort();
    this.#abandoned = true;
    return this.#queue.length;
  }

  async #run(): Promise<void> {
    while (!this.#abandoned && (!this.#closing || this.#queue.length > 0)) {
      try {
        await this.#flush();
        await this.#answerLoads();
        await this.#poll();
        if (this.#queue.length >= MAX_BATCH || this.#loads.length > 0) continue;
        this.available = true;
        if (!this.#closing) await this.#rest(FLUSH_MS);
      } catch (error) {
        if (this.available) {
          this.#options.log.warn({ reason: reasonOf(error) }, 'ledger: the database is away; records wait');
        }
        this.available = false;
        this.#polledAt = 0; // a batch may have been committed although its answer was lost: read again at once
        this.#refuseLoads();
        await this.#rest(BACKOFF_MS);
      }
    }
    await this.#touchKeys(true).catch(() => {});
  }

  /** Writes one batch, if any record waits. */
  async #flush(): Promise<void> {
    if (this.#queue.length === 0) return;
    const batch = this.#queue.slice(0, MAX_BATCH);
    await this.#write(batch);
    this.waitingSince = this.#queue.length === 0 ? null : this.#options.clock();
  }

  /** All or nothing; a batch the database refuses is halved until the bad records stand alone. */
  async #write(batch: readonly Queued[]): Promise<void> {
    try {
      this.#settle(batch, await this.#options.store.insert(batch.map((queued) => queued.json)));
    } catch (error) {
      if (isUnavailable(error)) throw error;
      if (batch.length === 1) return await this.#putAside(batch[0] as Queued, reasonOf(error));
      const half = batch.length >> 1;
      await this.#write(batch.slice(0, half));
      await this.#write(batch.slice(half));
    }
  }

  async #putAside(bad: Queued, reason: string): Promise<void> {
    await this.#options.store.setAside(bad.json, reason);
    this.setAside += 1;
    this.#options.log.error({ reason }, 'ledger: a record was refused by the database and set aside');
    this.#settle([bad], []);
  }

  /** The first records of the queue are dealt with. */
  #settle(batch: readonly Queued[], inserted: readonly MonthSum[]): void {
    this.#queue = this.#queue.slice(batch.length);
    for (const { companyId, month, cost } of batch) this.#spend.settle(companyId, month, cost, 0n);
    for (const { companyId, month, eur } of inserted) this.#spend.settle(companyId, month, 0n, parseEur(eur));
    this.settled += batch.length;
  }

  #load(companyId: string, month: string): Promise<Femto> {
    const waiting = this.#loads.find((load) => load.companyId === companyId && load.month === month);
    if (waiting !== undefined) return waiting.promise;
    const { promise, resolve, reject } = Promise.withResolvers<Femto>();
    const patience = setTimeout(() => settle(new GatewayError('service_unavailable')), LOAD_PATIENCE_MS);
    const settle = (error: GatewayError | null): void => {
      clearTimeout(patience);
      this.#loads = this.#loads.filter((load) => load.promise !== promise);
      // a month that began while the database was away began at zero: a company served
      // until midnight is served on
      if (error !== null && this.#spend.knows(companyId)) this.#spend.assume(companyId, month);
      const spent = this.#spend.get(companyId, month);
      if (spent !== undefined) resolve(spent);
      else reject(error ?? new GatewayError('service_unavailable'));
    };
    this.#loads.push({ companyId, month, promise, settle });
    this.#wakeUp();
    return promise;
  }

  async #answerLoads(): Promise<void> {
    const wanted = [...this.#loads, ...this.#spend.assumed()];
    if (wanted.length === 0) return;
    const companies = [...new Set(wanted.map((load) => load.companyId))];
    const months = [...new Set(wanted.map((load) => load.month))];
    const sums = await this.#options.store.spend(companies, months);
    const found = new Map(sums.map(({ companyId, month, eur }) => [`${companyId} ${month}`, parseEur(eur)]));
    for (const { companyId, month } of wanted) {
      this.#spend.set(companyId, month, found.get(`${companyId} ${month}`) ?? 0n);
    }
    for (const load of wanted) if ('settle' in load) load.settle(null);
  }

  #refuseLoads(): void {
    for (const load of this.#loads) load.settle(new GatewayError('service_unavailable'));
  }

  /** Reads what other replicas and the application have spent, and forgets what is over. */
  async #poll(): Promise<void> {
    const now = this.#options.clock();
    if (now >= this.#polledAt && now - this.#polledAt < POLL_MS) return;
    const { cursor, sums } = await this.#options.store.changedSpend(this.#cursor);
    for (const { companyId, month, eur } of sums) this.#spend.refresh(companyId, month, parseEur(eur));
    this.#cursor = cursor;
    this.#polledAt = now;
    this.#spend.prune(this.#options.monthOf(now));
    await this.#touchKeys(false);
  }

  async #touchKeys(final: boolean): Promise<void> {
    const now = this.#options.clock();
    if (this.#lastUsed.size === 0 || (!final && Math.abs(now - this.#touchedAt) < TOUCH_MS)) return;
    const lastUsed = this.#lastUsed;
    this.#lastUsed = new Map();
    this.#touchedAt = now;
    await this.#options.store.touchKeys(lastUsed);
  }

  #rest(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  #wakeUp(): void {
    this.#wake?.();
    this.#wake = null;
  }
}

function isUnavailable(error: unknown): boolean {
  return (error as { unavailable?: boolean }).unavailable !== false;
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
