import { GatewayError } from '../domain/errors.ts';
import { type Femto, parseEur } from '../domain/money.ts';
import type { ReaderOptions } from './reader-options.ts';
import type { SpendTable } from './spend.ts';

const POLL_MS = 400; // how old another gateway's spend may be while this one writes; the contract allows one second
const IDLE_POLL_MS = 850; // the same while this one writes nothing and is told of no change
const PATIENCE_MS = 2000; // how long a request waits for the spend of its company or key
const MAX_READ = 1000; // figures in one statement; those of 1,000 keys are sums over some 50,000 rows

interface SpendReaderOptions extends ReaderOptions {
  readonly table: SpendTable;
  /** The billing month of an instant. */
  readonly monthOf: (at: number) => string;
}

/** Requests that wait for the spend of one company or key in one month. */
interface Waiting {
  /** See MonthSpend. */
  readonly id: string;
  readonly month: string;
  readonly promise: Promise<Femto>;
  readonly settle: (error: GatewayError | null) => void;
}

/**
 * Reads spend from the database into the table: figures that requests wait for, and figures that other gateways and
 * the application changed. When that of a company changed, those of its keys in use are read again, so that many idle
 * keys with budgets cost nothing. The ledger calls it between batches (see SpendTable).
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

  /** The next poll is due, or a month has begun. */
  get isDue(): boolean {
    const { timing, monthOf } = this.#options;
    return timing.uptime() >= this.dueAt || monthOf(timing.now()) > this.#polledMonth;
  }

  /** Rows were written, so others may be writing too. */
  pollSoon(): void {
    this.#pollMs = POLL_MS;
  }

  /** The change feed has looked at the database. @param changed whether any company's spend may have changed */
  heard(changed: boolean): void {
    if (this.#pollMs !== IDLE_POLL_MS) return;
    if (changed) this.#pollMs = 0;
    else if (Number.isFinite(this.#polledAt)) this.#polledAt = this.#options.timing.uptime();
  }

  /** The figure once it is read. Rejects with GatewayError 503 when that takes longer than PATIENCE_MS. */
  request(id: string, month: string): Promise<Femto> {
    const same = this.#waiting.find((waiting) => waiting.id === id && waiting.month === month);
    if (same !== undefined) return same.promise;
    const { table, timing, isAvailable, onRequest } = this.#options;
    const { promise, resolve, reject } = Promise.withResolvers<Femto>();
    const settle = (error: GatewayError | null): void => {
      cancel();
      this.#waiting = this.#waiting.filter((waiting) => waiting.promise !== promise);
      // a month that begins while the database is away begins at zero for those whose earlier month is known
      if (error !== null && table.get(id, month) === undefined && this.#mayAssume(id, month)) table.assume(id, month);
      const spent = table.get(id, month); // a figure in doubt serves where it cannot be read again
      if (spent !== undefined) resolve(spent);
      else reject(error ?? new GatewayError('service_unavailable'));
    };
    const cancel = timing.after(PATIENCE_MS, () => settle(new GatewayError('service_unavailable')));
    this.#waiting.push({ id, month, promise, settle });
    const serves = table.get(id, month) !== undefined || this.#mayAssume(id, month);
    if (!isAvailable() && serves) settle(new GatewayError('service_unavailable'));
    else onRequest();
    return promise;
  }

  /** Reads what requests wait for, and what was assumed. @throws as the store does */
  async answer(): Promise<void> {
    const waiting = [...this.#waiting]; // more may come while these are read
    const wanted = [...waiting, ...this.#options.table.assumed()];
    if (wanted.length === 0) return;
    await this.#readInto(wanted);
    for (const { settle } of waiting) settle(null);
  }

  /** Reads what others have spent, if it is time, and forgets past months. @throws as the store does */
  async poll(): Promise<void> {
    const { store, table, timing, monthOf } = this.#options;
    if (!this.isDue) return;
    const now = timing.uptime();
    const month = monthOf(timing.now());
    this.#pollMs = IDLE_POLL_MS; // before reading: what is heard meanwhile may not be in it
    const { cursor, sums } = await store.changedSpend(this.#cursor);
    for (const { id, month, eur } of sums) table.refresh(id, month, parseEur(eur));
    await this.#readInto(table.doubtKeys(sums));
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
    await this.#readInto(this.#options.table.unread(month).map((id) => ({ id, month })));
    this.#polledMonth = month;
  }

  /** Reads figures into the table. */
  async #readInto(wanted: readonly { readonly id: string; readonly month: string }[]): Promise<void> {
    const { store, table } = this.#options;
    for (let from = 0; from < wanted.length; from += MAX_READ) {
      const some = wanted.slice(from, from + MAX_READ);
      const ids = new Set(some.map(({ id }) => id));
      const months = new Set(some.map(({ month }) => month));
      const sums = await store.spend([...ids], [...months]);
      const found = new Map(sums.map(({ id, month, eur }) => [`${id} ${month}`, parseEur(eur)]));
      for (const { id, month } of some) table.set(id, month, found.get(`${id} ${month}`) ?? 0n);
    }
  }

  /** Whether zero may stand for the figure: the month began while the database was away, and an earlier one is known. */
  #mayAssume(id: string, month: string): boolean {
    return month > this.#polledMonth && this.#polledMonth !== '' && this.#options.table.knows(id);
  }
}
