import { mayTakePlace } from '../domain/fair-share.ts';
import { dayOf } from '../domain/iso.ts';
import type { EndedRequest, Trail, TrailStore } from '../domain/ports.ts';
import { reasonOf } from '../log.ts';
import { IdleInterval } from '../runtime/idle-interval.ts';
import { BLOCK_BYTES, TrailRows } from './rows.ts';

interface TrailOptions {
  readonly store: TrailStore;
  /** How many days are kept; 0: none, and nothing is added. */
  readonly days: number;
  readonly log: {
    warn(fields: object, text: string): void;
    info(fields: object, text: string): void;
  };
  /** How long requests wait for others to share their statement; milliseconds. */
  readonly gatherMs?: number;
}

const GATHER_MS = 1000;
const HOUR_MS = 3_600_000;
/** Blocks that may wait for the database: 16 MiB, some 60,000 requests. What finds no room is dropped. */
const MAX_BLOCKS = 32;
const MAX_FREE = 2;
const CLOSE_MS = 2000;
/**
 * Requests without a company or a key that works, kept in a second, and at once: any stranger makes them, those with a
 * revoked key among them, and each is a row for days.
 */
const STRANGERS = 20;
const STRANGERS_AT_ONCE = 1000;

/**
 * Writes the trail (sql/schema/requests.sql) beside the ledger and never in its way: about once a second, in one
 * statement, asleep while there are no requests. Nothing waits for it. What the database does not take is kept in
 * memory up to a bound and dropped beyond it; what a process that is killed holds is lost.
 *
 *   add ─> [block] full, or a second later ─> [block] [block] … ─> one statement each ─> request_trail, request_hours
 */
export class TrailWriter implements Trail {
  /** Counters for metrics: requests. */
  written = 0;
  dropped = 0;
  readonly #options: TrailOptions;
  readonly #interval: IdleInterval;
  readonly #hourly: NodeJS.Timeout;
  #rows = new TrailRows();
  /** Blocks on their way, the oldest first. */
  readonly #waiting: TrailRows[] = [];
  readonly #free: TrailRows[] = [];
  #writing: Promise<void> | null = null;
  /** There is room for rows of these days. */
  #kept: readonly [first: string, last: string] = ['', ''];
  /** Old days and hours are due to be dropped. */
  #trims = true;
  #failing = false;
  #closed = false;
  /** Requests of strangers that may be kept now, and when that was counted; milliseconds since the epoch. */
  #strangers = 0;
  #countedAt = Number.NEGATIVE_INFINITY;
  /** Blocks that each company filled since some had to wait: a flood of one leaves room. '': of no company. */
  readonly #filled = new Map<string, number>();

  constructor(options: TrailOptions) {
    this.#options = options;
    this.#interval = new IdleInterval(options.gatherMs ?? GATHER_MS, () => this.#tick());
    // a gateway without requests drops old days too
    this.#hourly = setInterval(() => {
      this.#trims = true;
      this.#interval.wake();
    }, HOUR_MS).unref();
    this.#interval.wake();
  }

  add(request: EndedRequest, ms: number, added: number, firstEvent: number): void {
    const isStranger = request.companyId === null || request.reply.status === 401;
    if (this.#closed || (isStranger && !this.#takesStranger(request.at)))
      return void this.dropped++;
    if (this.#rows.count === 0) this.#interval.wake();
    const isLate = this.#waiting.length > 1;
    const company = request.companyId ?? '';
    const filled = isLate ? (this.#filled.get(company) ?? 0) : 0;
    if (isLate && !mayTakePlace(filled, this.#waiting.length, MAX_BLOCKS))
      return void this.dropped++;
    let bytes = this.#rows.add(request, ms, added, firstEvent);
    if (bytes === 0) {
      this.#send();
      bytes = this.#rows.add(request, ms, added, firstEvent);
    }
    if (isLate) this.#filled.set(company, filled + bytes / BLOCK_BYTES);
  }

  #takesStranger(at: number): boolean {
    const ms = at - this.#countedAt;
    // requests end in another order than they came in; an hour back, the clock was set
    if (ms > 0 || ms < -HOUR_MS) {
      this.#strangers = Math.min(
        STRANGERS_AT_ONCE,
        this.#strangers + (Math.max(0, ms) / 1000) * STRANGERS,
      );
      this.#countedAt = at;
    }
    if (this.#strangers < 1) return false;
    this.#strangers--;
    return true;
  }

  /** Writes what waits, trying for CLOSE_MS at most. */
  async close(): Promise<void> {
    this.#closed = true;
    clearInterval(this.#hourly);
    this.#interval.rest();
    if (this.#rows.count > 0) this.#send();
    const { promise: late, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, CLOSE_MS).unref();
    await Promise.race([this.#writeAll(), late]);
    clearTimeout(timer);
    for (const { count } of this.#waiting.splice(0)) this.dropped += count;
  }

  async #writeAll(): Promise<void> {
    await this.#writing; // it may be past the blocks
    if (this.#waiting.length > 0) this.#write();
    await this.#writing;
  }

  #tick(): boolean {
    // while the database is away blocks are filled to their end
    if (this.#rows.count > 0 && this.#waiting.length === 0) this.#send();
    else if (this.#waiting.length > 0 || this.#trims) this.#write();
    return this.#writing !== null;
  }

  #send(): void {
    this.#waiting.push(this.#rows);
    this.#rows = this.#free.pop() ?? new TrailRows();
    this.#write();
  }

  #write(): void {
    this.#writing ??= this.#writeWaiting().finally(() => {
      this.#writing = null;
    });
  }

  /** Writes blocks until there are none, or the database is away: then the next tick tries again. */
  async #writeWaiting(): Promise<void> {
    try {
      for (let rows = this.#waiting[0]; rows !== undefined; rows = this.#waiting[0]) {
        await this.#insert(rows);
        if (this.#waiting[0] === rows) this.#waiting.shift(); // unless closing gave it up meanwhile
        if (rows.reusable && this.#free.length < MAX_FREE) {
          rows.empty();
          this.#free.push(rows);
        }
      }
      this.#filled.clear();
      if (this.#trims && !this.#closed) await this.#trim();
      if (this.#failing) this.#options.log.info({}, 'requests: the trail is written again');
      this.#failing = false;
    } catch (error) {
      this.#warn(error);
    }
  }

  /** Rejects where the database is away. Rows that it refuses are dropped. */
  async #insert(rows: TrailRows): Promise<void> {
    const { store, days } = this.#options;
    const [first, last] = rows.days;
    try {
      if (first < this.#kept[0] || last > this.#kept[1]) {
        await store.keep(days, first, last);
        this.#kept = [first, last];
      }
      await store.insert(rows.close());
      this.written += rows.count;
    } catch (error) {
      rows.reusable = false;
      if ((error as { unavailable?: unknown }).unavailable !== false) throw error;
      this.#warn(error);
      this.dropped += rows.count;
      this.#kept = ['', '']; // somebody may have removed a day
    }
  }

  async #trim(): Promise<void> {
    const { store, days } = this.#options;
    const today = dayOf(Date.now());
    await store.keep(days, today, today);
    this.#trims = await store.trimHours();
  }

  /** Logs when writing begins to fail. */
  #warn(error: unknown): void {
    if (!this.#failing)
      this.#options.log.warn({ reason: reasonOf(error) }, 'requests: the trail cannot be written');
    this.#failing = true;
  }
}
