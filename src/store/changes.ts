import type { Logger } from '../log.ts';
import type { Database, Listening, Sql } from './database.ts';
import { inlined, serverIdentity } from './server.ts';

/** Keeps something in memory that the change feed keeps true. Its methods never throw and never wait. */
export interface Follower {
  /**
   * A change was committed. May come twice: by notification and by poll.
   * @param kind 'key', 'company', 'model', 'assistant' or 'all' (sql/0001_gateway.sql)
   * @param subject what the change is about: a digest in hex or an id; '' for shared models and 'all'
   */
  changed(kind: string, subject: string): void;
  /** Changes may have been missed, of whatever kind. */
  missed(): void;
  /** The database answered, and every change it had was passed on. */
  polled(): void;
}

export interface ChangesOptions {
  /** Milliseconds from one poll to the next; bounds how late a change is when no notification arrives. Default 750. */
  readonly pollMs?: number;
  /**
   * Seconds the rows of the feed are kept at least, and an interruption may last before the
   * follower must doubt everything; the same for all replicas. Default one hour.
   */
  readonly keepSeconds?: number;
  /** Told at every poll whether any company's spend may have changed since the poll before. */
  readonly onSpend?: (changed: boolean) => void;
}

/** Follows the feed until closed, through every loss of the database. */
export function openChanges(db: Database, follower: Follower, log: Logger, options: ChangesOptions = {}): Changes {
  return new Changes(db, follower, log, options);
}

const CHANNEL = 'tollgate';
const POLL_DEADLINE_MS = 1000;
const TRIM_DEADLINE_MS = 2000;
const TRIM_ROWS = 5000; // per poll, so that it never takes long
const TRIM_SLACK_SECONDS = 60; // more than any poll lasts
const MOST_CHANGES = 10_000; // beyond it, dropping everything is cheaper than naming them

/** What one look at the database found. */
interface Look {
  /** `xmin:xmax:running,…`: which transactions had finished. */
  readonly snapshot: string;
  /** Which server and database (server.ts). */
  readonly server: string;
  /** The database's clock, seconds. */
  readonly at: number;
}

/** What it found new. */
interface Found {
  /** Kind and subject. */
  readonly changes: readonly [string, string][];
  /** Figures of spend are among it. */
  readonly spent: boolean;
}

/**
 * The change feed. A notification is fast but may get lost (connection down, transaction
 * pooler); the rows of `changes` are certain but have to be asked for. So both:
 *
 *   commit ── NOTIFY ──────────────> follower        milliseconds, if it arrives
 *        └─── row in changes ─ poll ─> follower       at most pollMs and a query later, always
 *
 * The poll passes on a second time what was notified: that costs the follower one more load
 * per change, and nothing has to decide whether a notification was the right one.
 *
 * A poll is most of what an idle gateway costs, so there is only this one: it finds out for
 * the ledger, too, whether there is spend to read.
 */
export class Changes {
  /** Counters for metrics; plain fields, read only outside. */
  polls = 0;
  failures = 0;
  applied = 0;
  gaps = 0;
  /** Whether the last poll succeeded, and whether notifications arrive. */
  available = false;
  listening = false;

  readonly #db: Database;
  readonly #follower: Follower;
  readonly #log: Logger;
  readonly #pollMs: number;
  readonly #keepSeconds: number;
  readonly #onSpend: (changed: boolean) => void;
  readonly #listener: Listening;
  readonly #running: Promise<void>;
  #closed = false;
  #trimming: Promise<void> | null = null;
  /** A poll is wanted at once; what ends the rest before it. */
  #wanted = false;
  #wake = (): void => {};
  /** The look up to which every change was passed on; null before the first. */
  #last: Look | null = null;
  /** An old look: rows of transactions that had finished by then are trimmed once it is old enough. */
  #horizon: Look | null = null;

  constructor(db: Database, follower: Follower, log: Logger, options: ChangesOptions) {
    this.#db = db;
    this.#follower = follower;
    this.#log = log;
    this.#pollMs = options.pollMs ?? 750;
    this.#keepSeconds = options.keepSeconds ?? 3600;
    this.#onSpend = options.onSpend ?? (() => {});
    this.#listener = db.listen(CHANNEL, {
      onNotice: (payload) => {
        const colon = payload.indexOf(':');
        this.#pass(payload.slice(0, colon), payload.slice(colon + 1));
      },
      onReady: () => {
        this.listening = true;
        this.#wanted = true; // there may be what came while nobody listened
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
      this.#wanted = false;
      await this.#poll();
      if (!this.#wanted && !this.#closed) await this.#rest();
    }
  }

  async #poll(): Promise<void> {
    try {
      const { changes, spent, ...look } = await this.#db.run(POLL_DEADLINE_MS, (sql) =>
        lookAt(sql, this.#last?.snapshot ?? null),
      );
      const gap = this.#last === null || !follows(this.#last, look, this.#keepSeconds);
      this.#onSpend(spent || gap);
      if (gap) {
        this.gaps++;
        this.#follower.missed();
      }
      this.#last = look;
      if (changes.length > MOST_CHANGES) this.#pass('all', '');
      else for (const [kind, subject] of changes) this.#pass(kind, subject);
      this.polls++;
      if (!this.available) this.#log.info('change feed: following');
      this.available = true;
      this.#follower.polled();
      this.#trim(look);
    } catch (error) {
      this.failures++;
      if (this.available && !this.#closed)
        this.#log.warn({ reason: (error as Error).message }, 'change feed: interrupted');
      this.available = false;
    }
  }

  #pass(kind: string, subject: string): void {
    this.applied++;
    this.#follower.changed(kind, subject);
  }

  /**
   * Deletes rows every replica has seen or will know it has missed: those of transactions
   * finished more than `keepSeconds` ago. `created_at` would not do: it is when a transaction
   * began, and one that ran for hours would lose its rows in the moment it commits.
   */
  #trim(look: Look): void {
    const horizon = this.#horizon;
    if (horizon === null || horizon.server !== look.server) {
      this.#horizon = look;
      return;
    }
    if (this.#trimming !== null || look.at - horizon.at <= this.#keepSeconds + TRIM_SLACK_SECONDS) return;
    this.#trimming = this.#db
      .run(
        TRIM_DEADLINE_MS,
        (sql) => sql`
          delete from changes where id in (
            select id from changes where xid < pg_snapshot_xmin(${horizon.snapshot}::pg_snapshot)
            limit ${TRIM_ROWS} for update skip locked)`,
      )
      .then(({ count }) => {
        if (count < TRIM_ROWS) this.#horizon = look;
      })
      .catch((error: Error) => {
        this.#log.warn({ reason: error.message }, 'change feed: could not delete old rows');
        this.#horizon = look; // not again before another hour
      })
      .finally(() => {
        this.#trimming = null;
      });
  }

  #rest(): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, this.#pollMs);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}

/**
 * What changed since a snapshot, and the snapshot to ask with next time.
 *
 * Rows are told apart by the transaction that wrote them, not by their id: ids are given out
 * before the commit, so a row may become visible after one with a higher id was read, and
 * "id > the last one seen" would miss it for ever. The previous snapshot says exactly which
 * transactions had finished by then; the rows of all others are new. So each row is passed
 * on once, however long some transaction keeps the oldest running id from moving on.
 */
async function lookAt(sql: Sql, since: string | null): Promise<Look & Found> {
  // one statement, so that the rows and the new snapshot are of the same instant
  const [row] = await sql<[Look & Found]>`
    select pg_current_snapshot()::text as snapshot,
      ${serverIdentity(sql)} as server,
      extract(epoch from now())::float8 as at,
      (select coalesce(json_agg(json_build_array(kind, subject)), '[]')
       from (select distinct kind, subject from changes
             where xid >= pg_snapshot_xmin(${inlined(sql, since)}::pg_snapshot) -- for the index
               and not pg_visible_in_snapshot(xid, ${inlined(sql, since)}::pg_snapshot)
             limit ${inlined(sql, `${MOST_CHANGES + 1}`)}) as fresh) as changes,
      exists (select from monthly_spend
              where changed_xid >= pg_snapshot_xmin(${inlined(sql, since)}::pg_snapshot)
                and not pg_visible_in_snapshot(changed_xid, ${inlined(sql, since)}::pg_snapshot)) as spent`;
  return row;
}

/** Whether a look continues the history of the one before it, with no row trimmed in between. */
function follows(before: Look, look: Look, keepSeconds: number): boolean {
  // a restart may be a failover or a restore: transactions we saw may never have happened,
  // and their ids be given out anew
  return look.server === before.server && xmax(look) >= xmax(before) && look.at - before.at <= keepSeconds;
}

function xmax({ snapshot }: Look): bigint {
  return BigInt(snapshot.split(':')[1] as string);
}
