import { GatewayError } from '../domain/errors.ts';
import { type Calendar, isOfDay, monthOfDay } from '../domain/month.ts';
import { type Femto, parseEur } from '../domain/pricing/money.ts';
import type { ReaderOptions } from './reader-options.ts';
import type { SpendTable } from './spend.ts';

const POLL_MS = 400; // how old another gateway's spend may be while this one writes; the contract allows one second
const IDLE_POLL_MS = 850; // the same while this one writes nothing and is told of no change
const PATIENCE_MS = 2000; // how long a request waits for the spend of its company or key
const MAX_READ = 1000; // figures in one statement; those of 1,000 keys are sums over some 50,000 rows

interface SpendReaderOptions extends ReaderOptions {
  readonly table: SpendTable;
  readonly calendar: Pick<Calendar, 'date'>;
}

/** The spend of one company, key or end user in one month, or on one day. */
interface Figure {
  /** See MonthSpend. */
  readonly id: string;
  readonly month: string;
}

/** Requests that wait for a figure. */
interface Waiting extends Figure {
  /** The figure is read at once: no batch can change it, and a poll will tell what others change later. */
  atOnce: boolean;
  readonly promise: Promise<Femto>;
  readonly settle: (error: GatewayError | null) => void;
}

/**
 * Reads spend from the database into the table: what requests wait for, and what other gateways and the application
 * changed. A company's change has those of its keys read again that are in use: idle ones cost nothing. The ledger
 * calls it between batches (see SpendTable), except for figures that no batch can change: those are read at once.
 */
export class SpendReader {
  readonly #options: SpendReaderOptions;
  /** By id and month. */
  readonly #waiting = new Map<string, Waiting>();
  #isReading = false;
  /** Polls so far. */
  #polls = 0;
  #cursor: string | null = null;
  #polledAt = Number.NEGATIVE_INFINITY;
  #pollMs = IDLE_POLL_MS;
  /** The latest day the database was read on. */
  #polledDay = '';

  constructor(options: SpendReaderOptions) {
    this.#options = options;
  }

  /** A request waits for a figure that is to be read between batches. */
  get isWanted(): boolean {
    return this.#wanted(false).length > 0;
  }

  /** When the next poll is due, in milliseconds of `uptime`. */
  get dueAt(): number {
    return this.#polledAt + this.#pollMs;
  }

  /** The next poll is due, or a day has begun. */
  get isDue(): boolean {
    const { timing, calendar } = this.#options;
    return timing.uptime() >= this.dueAt || calendar.date(timing.now()) > this.#polledDay;
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
    const name = `${id} ${month}`;
    const same = this.#waiting.get(name);
    if (same !== undefined) return same.promise;
    const { table, timing, isAvailable, onRequest } = this.#options;
    const { promise, resolve, reject } = Promise.withResolvers<Femto>();
    const settle = (error: GatewayError | null): void => {
      cancel();
      this.#waiting.delete(name);
      // a month that begins while the database is away begins at zero for those whose earlier month is known
      if (error !== null && table.get(id, month) === undefined && this.#mayAssume(id, month))
        table.assume(id, month);
      const spent = table.get(id, month); // a figure in doubt serves where it cannot be read again
      if (spent !== undefined) resolve(spent);
      else reject(error ?? new GatewayError('service_unavailable'));
    };
    const cancel = timing.after(PATIENCE_MS, () => settle(new GatewayError('service_unavailable')));
    const atOnce = this.#polls > 0 && table.isUntouched(id, month);
    this.#waiting.set(name, { id, month, atOnce, promise, settle });
    const serves = table.get(id, month) !== undefined || this.#mayAssume(id, month);
    if (!isAvailable() && serves) settle(new GatewayError('service_unavailable'));
    else if (atOnce) void this.#readAtOnce();
    else onRequest();
    return promise;
  }

  /** Reads what requests wait for, and what was assumed. @throws as the store does */
  async answer(): Promise<void> {
    const waiting = this.#wanted(false); // more may come while these are read
    const wanted = [...waiting, ...this.#options.table.assumed()];
    if (wanted.length === 0) return;
    await this.#readInto(wanted);
    for (const { settle } of waiting) settle(null);
  }

  /** Reads what others have spent, if it is time, and forgets past months. @throws as the store does */
  async poll(): Promise<void> {
    const { store, table, timing, calendar } = this.#options;
    if (!this.isDue) return;
    const now = timing.uptime();
    const day = calendar.date(timing.now());
    this.#pollMs = IDLE_POLL_MS; // before reading: what is heard meanwhile may not be in it
    const { cursor, sums } = await store.changedSpend(this.#cursor);
    this.#polls++;
    await this.#readInto(table.changed(sums));
    this.#cursor = cursor;
    if (day > this.#polledDay) await this.#begin(day);
    table.prune(day);
    this.#polledAt = now;
  }

  /** A batch failed: refuses the requests that wait for one, and polls as soon as the database takes batches again. */
  fail(): void {
    this.#polledAt = Number.NEGATIVE_INFINITY;
    for (const { settle } of this.#wanted(false)) settle(new GatewayError('service_unavailable'));
  }

  #wanted(atOnce: boolean): Waiting[] {
    return [...this.#waiting.values()].filter((waiting) => waiting.atOnce === atOnce);
  }

  /** Reads the figures of which no record of this process waits for the database, also while it takes no batch. */
  async #readAtOnce(): Promise<void> {
    if (this.#isReading) return;
    this.#isReading = true;
    for (;;) {
      const wanted = this.#wanted(true);
      if (wanted.length === 0) break;
      const { table, onRequest } = this.#options;
      const polls = this.#polls;
      const before = wanted.map(({ id, month }) => table.get(id, month));
      try {
        const figures = await this.#read(wanted);
        if (polls !== this.#polls) continue; // what the poll told of them may be missing here
        // an earlier call that ended meanwhile may be in the figure, and pending too: that is read between batches
        for (const [at, waiting] of wanted.entries()) {
          const { id, month } = waiting;
          waiting.atOnce = table.isUntouched(id, month) && table.get(id, month) === before[at];
        }
        const read = wanted.filter(({ atOnce }) => atOnce);
        this.#keep(read, figures);
        for (const { settle } of read) settle(null);
        if (read.length < wanted.length) onRequest();
      } catch {
        for (const { settle } of wanted) settle(new GatewayError('service_unavailable'));
      }
    }
    this.#isReading = false;
  }

  /** Reads the figures of a new day or month for all companies at once, so that no request has to wait for them. */
  async #begin(day: string): Promise<void> {
    await this.#readInto(this.#options.table.unread(day));
    this.#polledDay = day;
  }

  /** Reads figures into the table. */
  async #readInto(wanted: readonly Figure[]): Promise<void> {
    this.#keep(wanted, await this.#read(wanted));
  }

  #keep(wanted: readonly Figure[], figures: ReadonlyMap<string, Femto>): void {
    for (const { id, month } of wanted)
      this.#options.table.set(id, month, figures.get(`${id} ${month}`) ?? 0n);
  }

  /** @returns figures by id and month; none where nothing was spent. @throws as the store does */
  async #read(wanted: readonly Figure[]): Promise<Map<string, Femto>> {
    const figures = new Map<string, Femto>();
    for (let from = 0; from < wanted.length; from += MAX_READ) {
      const some = wanted.slice(from, from + MAX_READ);
      for (const [month, those] of Map.groupBy(some, (each) => each.month)) {
        const sums = await this.#options.store.spend(
          [...new Set(those.map(({ id }) => id))],
          [month],
        );
        for (const { id, eur } of sums) figures.set(`${id} ${month}`, parseEur(eur));
      }
    }
    return figures;
  }

  /** Whether zero may stand for the figure: month or day began while the database was away, and an earlier one is known. */
  #mayAssume(id: string, month: string): boolean {
    const polled = isOfDay(id) ? this.#polledDay : monthOfDay(this.#polledDay);
    return this.#polledDay !== '' && month > polled && this.#options.table.knows(id);
  }
}
