import { type Logger, reasonOf } from '../../log.ts';
import type { Database } from '../connection/pool.ts';
import type { Follower } from './change-feed.ts';

const APPLY_MS = 2000;

/**
 * Brings the price columns of `models` up to date when a date has passed (apply_due_prices in
 * sql/schema/models.sql). Every gateway does so, and whichever is first does it for all. It asks the database
 * only after a change of a model, and when a date that it knows has come: nothing while no price is to come.
 */
export class PriceDates implements Follower {
  readonly #db: Database;
  readonly #log: Logger;
  /** Milliseconds since the start of the process: the clock of the machine may be wrong, the database's counts. */
  readonly #uptime: () => number;
  /** When to ask again. */
  #dueAt = Number.NEGATIVE_INFINITY;
  #asking: Promise<void> | null = null;
  #failing = false;

  constructor(db: Database, log: Logger, uptime: () => number = () => performance.now()) {
    this.#db = db;
    this.#log = log;
    this.#uptime = uptime;
  }

  changed(kind: string): void {
    // a company that is opened again may have prices that came while it was closed
    if (kind === 'model' || kind === 'company' || kind === 'all')
      this.#dueAt = Number.NEGATIVE_INFINITY;
  }

  missed(): void {
    this.#dueAt = Number.NEGATIVE_INFINITY;
  }

  polled(): void {
    if (this.#asking !== null || this.#uptime() < this.#dueAt) return;
    this.#asking = this.#apply().finally(() => {
      this.#asking = null;
    });
  }

  /** Resolves when the last query is done. */
  async close(): Promise<void> {
    await this.#asking;
  }

  async #apply(): Promise<void> {
    this.#dueAt = Number.POSITIVE_INFINITY;
    try {
      const [{ seconds }] = await this.#db.run(
        APPLY_MS,
        (sql) => sql<[{ seconds: number | null }]>`select apply_due_prices() as seconds`,
      );
      if (seconds !== null) this.#dueAt = Math.min(this.#dueAt, this.#uptime() + seconds * 1000);
      this.#failing = false;
    } catch (error) {
      this.#dueAt = Number.NEGATIVE_INFINITY; // the next poll tries again
      if (!this.#failing)
        this.#log.warn({ reason: reasonOf(error) }, 'prices: models cannot be brought up to date');
      this.#failing = true;
    }
  }
}
