import { GatewayError } from '../domain/errors.ts';
import { type Femto, parseEur } from '../domain/money.ts';
import type { LedgerStore } from '../domain/ports.ts';
import type { SpendTable } from './spend.ts';
import type { Timing } from './timing.ts';

const POLL_MS = 250; // how old another replica's spend may be while this one writes; the contract allows one second
const IDLE_POLL_MS = 850; // the same while this one writes nothing and is told of no change
const PATIENCE_MS = 2000; // how long a request waits for its company's spend

export interface SpendReaderOptions {
  readonly store: LedgerStore;
  readonly table: SpendTable;
  readonly timing: Timing;
  /** The billing month of an instant. */
  readonly monthOf: (at: number) => string;
  /** Whether the database answered last time. */
  readonly isAvailable: () => boolean;
  /** Called when a request waits for a figure. */
  readonly onRequest: () => void;
}

/** Requests that wait for the spend of one company in one month. */
interface Waiting {
  readonly companyId: string;
  readonly month: string;
  readonly promise: Promise<Femto>;
  readonly settle: (error: GatewayError | null) => void;
}

/**
 * Reads spend from the database into the table: figures that requests wait for, and figures that
 * other replicas and the application changed. The writer calls it between batches (see SpendTable).
 */
export class SpendReader {
  readonly #options: SpendReaderOptions;
  #waiting: Waiting[] = [];
  #cursor: string | null = null;
  #polledAt = Number.NEGATIVE_INFINITY;
  #pollMs = IDLE_POLL_MS;
  /** The latest month the database was read in. */
  #polledMonth = '';

  constructor(options: SpendReaderOptions) {
    this.#options = options;
  }

  get isWanted(): boolean {
    return this.#waiting.length > 0;
  }

  /** When the next poll is due, in milliseconds of `uptime`. */
  get dueAt(): number {
    return this.#polledAt + this.#pollMs;
  }

  /** Rows were written: others may be writing too. */
  hurry(): void {
    this.#pollMs = POLL_MS;
  }

  /** Somebody else looked at the database. @param changed whether any company's spend may have changed */
  heard(changed: boolean): void {
    if (this.#pollMs !== IDLE_POLL_MS) return;
    if (changed) this.#pollMs = 0;
    else if (Number.isFinite(this.#polledAt)) this.#polledAt = this.#options.timing.uptime();
  }

  /** The figure once it is read. Rejects with GatewayError 503 when that takes longer than PATIENCE_MS. */
  request(companyId: string, month: string): Promise<Femto> {
    const same = this.#waiting.find((waiting) => waiting.companyId === companyId && waiting.month === month);
    if (same !== undefined) return same.promise;
    const { table, timing, isAvailable, onRequest } = this.#options;
    const { promise, resolve, reject } = Promise.withResolvers<Femto>();
    const settle = (error: GatewayError | null): void => {
      cancel();
      this.#waiting = this.#waiting.filter((waiting) => waiting.promise !== promise);
      // a month that began while the database was away began at zero: a company served until midnight is served on
      if (error !== null && this.#mayAssume(companyId, month)) table.assume(companyId, month);
      const spent = table.get(companyId, month);
      if (spent !== undefined) resolve(spent);
      else reject(error ?? new GatewayError('service_unavailable'));
    };
    const cancel = timing.after(PATIENCE_MS, () => settle(new GatewayError('service_unavailable')));
    this.#waiting.push({ companyId, month, promise, settle });
    if (!isAvailable() && this.#mayAssume(companyId, month)) settle(new GatewayError('service_unavailable'));
    else onRequest();
    return promise;
  }

  /** Reads what requests wait for, and what was assumed. @throws as the store does */
  async answer(): Promise<void> {
    const { table } = this.#options;
    const waiting = [...this.#waiting]; // more may come while these are read
    const wanted = [...waiting, ...table.assumed()];
    if (wanted.length === 0) return;
    const companies = new Set(wanted.map(({ companyId }) => companyId));
    const months = new Set(wanted.map(({ month }) => month));
    const found = await this.#read([...companies], [...months]);
    for (const { companyId, month } of wanted) table.set(companyId, month, found.get(`${companyId} ${month}`) ?? 0n);
    for (const { settle } of waiting) settle(null);
  }

  /** Reads what others have spent, if it is time, and forgets past months. @throws as the store does */
  async poll(): Promise<void> {
    const { store, table, timing, monthOf } = this.#options;
    const now = timing.uptime();
    const month = monthOf(timing.now());
    if (now < this.dueAt && month <= this.#polledMonth) return;
    this.#pollMs = IDLE_POLL_MS; // before reading: what is heard meanwhile may not be in it
    const { cursor, sums } = await store.changedSpend(this.#cursor);
    for (const { companyId, month, eur } of sums) table.refresh(companyId, month, parseEur(eur));
    this.#cursor = cursor;
    if (month > this.#polledMonth) await this.#beginMonth(month);
    table.prune(month);
    this.#polledAt = now;
  }

  /** The database failed: refuses the requests that wait, and polls as soon as the database is back. */
  fail(): void {
    this.#polledAt = Number.NEGATIVE_INFINITY;
    for (const { settle } of this.#waiting) settle(new GatewayError('service_unavailable'));
  }

  /** Reads a new month's figures for all companies at once, so that no request has to wait for them. */
  async #beginMonth(month: string): Promise<void> {
    const { table } = this.#options;
    const companies = table.unread(month);
    const found = companies.length > 0 ? await this.#read(companies, [month]) : null;
    for (const id of companies) table.set(id, month, found?.get(`${id} ${month}`) ?? 0n);
    this.#polledMonth = month;
  }

  async #read(companies: readonly string[], months: readonly string[]): Promise<Map<string, Femto>> {
    const sums = await this.#options.store.spend(companies, months);
    return new Map(sums.map(({ companyId, month, eur }) => [`${companyId} ${month}`, parseEur(eur)]));
  }

  /** Whether the month began while the database was away, for a company served before. */
  #mayAssume(companyId: string, month: string): boolean {
    return month > this.#polledMonth && this.#polledMonth !== '' && this.#options.table.knows(companyId);
  }
}
