import { setImmediate } from 'node:timers/promises';
import { type Logger, reasonOf } from '../../log.ts';
import {
  CLOCK,
  literal,
  SERVER_IDENTITY,
  SPEND_CURSOR,
  spentSince,
} from '../connection/expressions.ts';
import type { Database, Listening, Sql } from '../connection/pool.ts';

/** What changes are of (sql/schema/gateways.sql). */
export const CHANGE_KINDS = ['key', 'company', 'model', 'assistant', 'end_user', 'all'] as const;

/** Whatever the change feed keeps up to date. Its methods never throw and never wait. */
export interface Follower {
  /**
   * A change was committed. Called once for most: after 10,000 others or a failover it may be called again.
   * @param kind one of CHANGE_KINDS
   * @param subject what the change is about: a digest in hex or an id, or up to a hundred with commas between them; '' for
   *   shared models and 'all'
   */
  changed(kind: string, subject: string): void;
  /** Changes of any kind may have been missed. */
  missed(): void;
  /** A poll succeeded, and every change it found was passed on. */
  polled(): void;
}

export interface ChangeFeedOptions {
  /** Milliseconds between polls: how late a change without notification is at most. Default 750. */
  readonly pollMs?: number;
  /** Seconds the feed's rows are kept, the same for all gateways; after a longer gap all is in doubt. Default KEPT_SECONDS. */
  readonly keepSeconds?: number;
  /** Called at every poll with whether any company's spend may have changed since the poll before. */
  readonly onSpend?: (changed: boolean) => void;
}

/** How long rows of the feed are kept, those of spend too, unless a test says otherwise. */
export const KEPT_SECONDS = 3600;
const CHANNEL = 'tollgate';
const POLL_DEADLINE_MS = 1000;
const TRIM_DEADLINE_MS = 2000;
const TRIM_ROWS = 5000; // per poll, so that it is quick
const TRIM_MARGIN_SECONDS = 60; // longer than any poll
const MAX_CHANGES = 10_000; // for more, dropping everything is cheaper
const PASSED_AT_ONCE = 20; // of a hundred subjects each: a millisecond

/** The state of the database at a poll. */
interface Snapshot {
  /** Tells which transactions had finished: `xmin:xmax:running,…`. */
  readonly snapshot: string;
  /** The cursor of `spentSince`. */
  readonly spend: string;
  /** Which server and database (SERVER_IDENTITY). */
  readonly server: string;
  /** The database's clock, seconds. */
  readonly at: number;
}

/** The news since the last poll: changes, and whether any company's spend changed. */
interface News extends Snapshot {
  readonly changes: readonly [id: number, kind: string, subject: string][];
  readonly spent: boolean;
}

/**
 * Follows the change feed until closed, through every loss of the database. Notifications are fast but may get
 * lost (connection down, transaction pooler); the rows of `changes` are reliable but have to be polled:
 *
 *   commit ── NOTIFY ──────────────> follower        milliseconds, if it arrives
 *        └─── row in changes ─ poll ─> follower       at most pollMs and a query later, always
 *
 * The second of the two passes nothing on. Polls are most of what an idle gateway costs, so this one
 * also tells the ledger whether there is spend to read.
 */
export class ChangeFeed {
  /** Polls that succeeded. */
  polls = 0;
  /** Whether the last poll succeeded, and whether notifications arrive. */
  available = false;
  listening = false;

  readonly #db: Database;
  /** Told of everything in their order. */
  readonly #followers: readonly Follower[];
  readonly #log: Logger;
  readonly #options: Required<ChangeFeedOptions>;
  readonly #listener: Listening;
  readonly #running: Promise<void>;
  #closed = false;
  #trimming: Promise<void> | null = null;
  #isDue = false;
  /** Ids of the changes passed on lately. */
  readonly #passed = new Set<number>();
  #wake = (): void => {};
  /** Every change up to here was passed on; null before the first poll. */
  #last: Snapshot | null = null;
  /** An earlier poll: rows of transactions that had finished by then are deleted once it is old enough. */
  #horizon: Snapshot | null = null;

  constructor(
    db: Database,
    followers: readonly Follower[],
    log: Logger,
    options: ChangeFeedOptions,
  ) {
    this.#db = db;
    this.#followers = followers;
    this.#log = log;
    this.#options = { pollMs: 750, keepSeconds: KEPT_SECONDS, onSpend: () => {}, ...options };
    this.#listener = db.listen(CHANNEL, {
      onNotice: (payload) => {
        const [first, last] = [payload.indexOf(':'), payload.lastIndexOf(':')];
        this.#pass(
          Number(payload.slice(last + 1)),
          payload.slice(0, first),
          payload.slice(first + 1, last),
        );
      },
      onReady: () => {
        this.listening = true;
        this.#isDue = true; // something may have been sent while nobody listened
        this.#wake();
      },
      onLost: () => {
        this.listening = false;
      },
    });
    this.#running = this.#run();
  }

  /** Resolves when the last query is done. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#wake();
    this.#listener.close();
    this.listening = false;
    await this.#running;
    await this.#trimming;
  }

  async #run(): Promise<void> {
    while (!this.#closed) {
      this.#isDue = false;
      await this.#poll();
      if (!this.#isDue && !this.#closed) await this.#sleep();
    }
  }

  async #poll(): Promise<void> {
    try {
      const { changes, spent, ...now } = await this.#db.run(POLL_DEADLINE_MS, (sql) =>
        readNews(sql, this.#last),
      );
      if (this.#closed) return;
      const gap = this.#last === null || !continues(this.#last, now, this.#options.keepSeconds);
      this.#options.onSpend(spent || gap);
      if (gap) {
        this.#passed.clear(); // another server uses the same ids
        for (const each of this.#followers) each.missed();
      }
      this.#last = now;
      if (changes.length > MAX_CHANGES) this.#tell('all', '');
      else await this.#passAll(changes);
      this.polls++;
      if (!this.available) this.#log.info('change feed: following');
      this.available = true;
      for (const each of this.#followers) each.polled();
      this.#trim(now);
    } catch (error) {
      if (this.available && !this.#closed)
        this.#log.warn({ reason: reasonOf(error) }, 'change feed: interrupted');
      this.available = false;
    }
  }

  /** Passes changes on, some in each turn of the event loop. */
  async #passAll(changes: News['changes']): Promise<void> {
    for (const [i, change] of changes.entries()) {
      if (i % PASSED_AT_ONCE === PASSED_AT_ONCE - 1) await setImmediate();
      this.#pass(...change);
    }
  }

  /**
   * Passes a change on, once. A second time would forget values that were read since, and that might not be readable
   * any more.
   */
  #pass(id: number, kind: string, subject: string): void {
    if (this.#passed.has(id)) return;
    if (this.#passed.size >= MAX_CHANGES) this.#passed.clear();
    this.#passed.add(id);
    this.#tell(kind, subject);
  }

  #tell(kind: string, subject: string): void {
    for (const each of this.#followers) each.changed(kind, subject);
  }

  /**
   * Deletes rows of transactions that finished more than `keepSeconds` ago. Not by `created_at`, which is when
   * a transaction began: one that ran for hours would lose its rows the moment it commits.
   */
  #trim(now: Snapshot): void {
    const horizon = this.#horizon;
    if (horizon === null || horizon.server !== now.server) {
      this.#horizon = now;
      return;
    }
    if (
      this.#trimming !== null ||
      now.at - horizon.at <= this.#options.keepSeconds + TRIM_MARGIN_SECONDS
    )
      return;
    this.#trimming = this.#db
      .run(TRIM_DEADLINE_MS, async (sql) => {
        const { count } = await sql`
          delete from changes where id in (
            select id from changes where xid < pg_snapshot_xmin(${horizon.snapshot}::pg_snapshot)
            limit ${TRIM_ROWS} for update skip locked)`;
        const [oldest = ''] = horizon.spend.split(' ');
        const [more] = await sql<{ xid: string }[]>`
          select xid::text from spend_changes where xid < ${oldest}::xid8 order by xid offset ${TRIM_ROWS} limit 1`;
        const spend = await sql`delete from spend_changes where xid < ${more?.xid ?? oldest}::xid8`;
        return Math.max(count, spend.count);
      })
      .then((count) => {
        if (count < TRIM_ROWS) this.#horizon = now;
      })
      .catch((error) => {
        this.#log.warn({ reason: reasonOf(error) }, 'change feed: could not delete old rows');
        this.#horizon = now; // tries again in an hour
      })
      .finally(() => {
        this.#trimming = null;
      });
  }

  async #sleep(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, this.#options.pollMs);
    this.#wake = resolve;
    await promise;
    clearTimeout(timer);
  }
}

/**
 * The changes since a snapshot, and the next snapshot. New rows are those of transactions that had not finished at the
 * snapshot; their ids do not tell, because a row may become visible after one with a higher id was read.
 */
async function readNews(sql: Sql, last: Snapshot | null): Promise<News> {
  const since = last?.snapshot ?? null;
  const before = `pg_snapshot_xmin(${literal(since)}::pg_snapshot)`; // for the indexes
  const seen = (xid: string): string =>
    `pg_visible_in_snapshot(${xid}, ${literal(since)}::pg_snapshot)`;
  // One statement, so that the rows and the new snapshot are of the same instant. As one text: the driver makes a
  // promise of each part of a tagged statement, which was a third of what a poll costs an idle gateway.
  const [row] = await sql.unsafe<[News]>(`
    select pg_current_snapshot()::text as snapshot,
      ${SERVER_IDENTITY} as server,
      ${CLOCK} as at,
      ${SPEND_CURSOR} as spend,
      (select coalesce(json_agg(json_build_array(id, kind, subject)), '[]')
       from (select id, kind, subject from changes where xid >= ${before} and not ${seen('xid')}
             limit ${MAX_CHANGES + 1}) as fresh) as changes,
      coalesce((${spentSince(last?.spend ?? null, 'true')} order by xid limit 1), false) as spent`);
  return row;
}

/** Whether a snapshot continues the history of the one before it, with no row deleted in between. */
function continues(before: Snapshot, now: Snapshot, keepSeconds: number): boolean {
  // after a failover or a restore, transactions we saw may never have happened and their ids be used again
  return (
    now.server === before.server && xmax(now) >= xmax(before) && now.at - before.at <= keepSeconds
  );
}

function xmax({ snapshot }: Snapshot): bigint {
  return BigInt(snapshot.split(':')[1] as string);
}
