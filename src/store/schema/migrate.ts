import { setTimeout as sleep } from 'node:timers/promises';
import { duration } from '../../domain/wording/start-notice.ts';
import { DatabaseUnavailable, SchemaRefused } from '../connection/errors.ts';
import type { Database, Sql } from '../connection/pool.ts';
import { changeTables } from './distribution.ts';
import { type Migration, numberOf, readMigrations, SQL_DIRECTORY } from './files.ts';

/** This program cannot use the database; the message is for the operator. Nothing was changed. */
export class MigrationRefused extends SchemaRefused {}

interface MigrateOptions {
  readonly billingTimezone: string;
  readonly directory?: string;
  /** The last file to apply; default: the newest of this program. */
  readonly upTo?: string;
  /** Milliseconds for all files; Infinity: no limit. Default: twelve hours, for gateways that start. */
  readonly limitMs?: number;
  /** Takes messages about long steps: which file is running, and which session it waits for. */
  readonly onProgress?: (text: string) => void;
}

const LIMIT_MS = 12 * 3_600_000;
const TOLD_FIRST_MS = 3000;
const TOLD_AGAIN_MS = 60_000;
/**
 * How long a file waits for a lock. Whoever needs the table queues behind it, and a look-up of a key has two seconds
 * (directory.ts). After one second Postgres ends an autovacuum that is in the way.
 */
export const LOCK_MS = 1500;
export const LOCKED = ['55P03', '40P01']; // others have locks: the file can be applied later
const LOOK_MS = 1000;
const LOOK_MOST_MS = 60_000;
const HELD_MS = 300_000; // until the next attempt, though those who had locks are not done
const CHECK_MS = 10_000;
const RESET_MS = 120_000;
/** Instants at which two zones are compared: one in winter and one in summer. */
const CLOCKS = ['2026-01-31T22:30:00Z', '2026-07-31T22:30:00Z'];

/**
 * Brings the database to this version, one transaction and lock for the baseline and for each file of sql/migrations;
 * sql/upgrades.md describes upgrades.
 * A file with `-- needs NNNN` in its head keeps programs without file NNNN out. Makes partitions and repairs restores.
 * @returns the names of the files this call applied
 * @throws MigrationRefused when a file changed since it was applied, the database needs a newer program, has another
 * encoding, language or isolation level than we need, or the billing zone differs
 * @throws DatabaseUnavailable, DatabaseRefused
 */
export async function migrate(
  db: Database,
  {
    billingTimezone,
    directory = SQL_DIRECTORY,
    upTo,
    limitMs = LIMIT_MS,
    onProgress = () => {},
  }: MigrateOptions,
): Promise<string[]> {
  const files = readMigrations(directory).filter(({ name }) => upTo === undefined || name <= upTo);
  const done: string[] = [];
  const end = performance.now() + limitMs;
  let pending = await db.run(CHECK_MS, async (sql) => {
    await requireUsable(sql);
    return pendingOf(sql, files);
  });
  const progress = startProgress(onProgress);
  let lockedSince: number | undefined;
  let unseen = 0; // attempts that failed by locks which nobody was seen to have
  try {
    while (pending.length > 0) {
      try {
        pending = await db.transaction(Math.max(1, end - performance.now()), async (sql) => {
          progress.now('waiting for another program that changes the tables of this database');
          await sql`select pg_advisory_xact_lock(hashtext('tollgate migrations'))`;
          pending = await pendingOf(sql, files);
          const [next, ...later] = pending;
          if (next === undefined) return [];
          progress.now(`${next.name} is running`);
          await boundLocks(sql, LOCK_MS);
          await apply(sql, next);
          done.push(next.name);
          return later;
        });
        lockedSince = undefined;
        unseen = 0;
      } catch (error) {
        if (!(error instanceof DatabaseUnavailable && LOCKED.includes(error.code))) throw error;
        lockedSince ??= performance.now();
        const holders = await db.run(CHECK_MS, holdersOf);
        const names = holders.map(({ name }) => name).join(', ') || 'others';
        progress.now(
          `${pending[0]?.name} is waiting for ${names} to be done with its tables`,
          lockedSince,
        );
        if (holders.length > 0)
          await untilOver(db, holders, Math.min(end, performance.now() + HELD_MS));
        else await sleep(Math.min(LOOK_MS * 2 ** unseen++, LOOK_MOST_MS)); // on a worker of a Citus, or over already
        if (performance.now() > end) throw error;
      }
    }
  } finally {
    progress.end();
  }
  await db.transaction(CHECK_MS, (sql) => setBillingTimezone(sql, billingTimezone));
  await ensurePartitions(db);
  await forgetOtherCluster(db);
  return done;
}

/** How long this transaction waits for a lock, on each server where the database has several. */
export async function boundLocks(sql: Sql, ms: number): Promise<void> {
  await sql`set local citus.propagate_set_commands = 'local'`; // means nothing to a Postgres without Citus
  await sql.unsafe(`set local lock_timeout = ${ms}`);
}

async function apply(sql: Sql, { name, text, hash, needs }: Migration): Promise<void> {
  await sql`create table if not exists schema_migrations (
    name text primary key, sha256 text not null, applied_at timestamptz not null default now(), needs text)`;
  await changeTables(sql, async () => {
    // the path of functions that the file makes "from current": this schema, whatever "$user" is, and temporary tables last
    await sql`select set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true)
      where current_schema() is not null`;
    await sql.unsafe(text);
    await sql`insert into schema_migrations (name, sha256, needs) values (${name}, ${hash}, ${needs})`;
  });
}

/**
 * Checks the encoding, because bounds of texts count characters of UTF-8, the language, in which "INSERT" must be
 * "insert" in small letters, the isolation level: a strict budget is passed where a gateway that waited for a lock
 * does not see what another one reserved meanwhile, that triggers fire, and that nobody else's schema stands before ours.
 * @throws MigrationRefused
 */
export async function requireUsable(sql: Sql): Promise<void> {
  const [{ encoding, level, triggers, role, database, dotless, version, foreign }] = await sql<
    [
      Record<'encoding' | 'level' | 'triggers' | 'role' | 'database', string> & {
        dotless: boolean;
        version: number;
        /** A schema that is named like the user and belongs to somebody else, in words. */
        foreign: string | null;
      },
    ]
  >`
    select current_setting('server_encoding') as encoding, current_setting('transaction_isolation') as level,
      current_setting('session_replication_role') as triggers, quote_ident(session_user) as role, quote_ident(current_database()) as database,
      lower('I') <> 'i' as dotless, current_setting('server_version_num')::integer as version,
      (select format('schema %I of the database belongs to %s', nspname, nspowner::regrole) from pg_namespace
        where nspname = current_user and nspname = any(current_schemas(false))
          and not pg_has_role(current_user, nspowner, 'MEMBER')) as foreign`;
  if (encoding !== 'UTF8') {
    throw new MigrationRefused(
      `the encoding of the database is ${encoding}, which cannot hold all texts: make another one with "create database NAME template template0 encoding 'UTF8'"; what this one holds comes into it by "tollgate database backup" and "restore"`,
    );
  }
  if (dotless) {
    const provider = version >= 150_000 ? ' locale_provider libc' : '';
    throw new MigrationRefused(
      `the database makes "ı" of "I" in small letters, as Turkish does, and names in its tables would not be found: make another one with "create database NAME template template0 encoding 'UTF8'${provider} locale 'C.UTF-8'"`,
    );
  }
  if (!['read committed', 'read uncommitted'].includes(level)) {
    throw new MigrationRefused(
      `the database begins transactions at "${level}", where budgets would be passed and records could not be booked: run "alter role ${role} in database ${database} set default_transaction_isolation = 'read committed'"`,
    );
  }
  if (foreign !== null) {
    throw new MigrationRefused(
      `the ${foreign}, whose tables would stand for ours: drop it, or run "alter role ${role} in database ${database} set search_path = public"`,
    );
  }
  if (triggers === 'replica') {
    throw new MigrationRefused(
      `triggers are off (session_replication_role is replica), so calls would not be counted and changes not announced: let an administrator of the server run "alter role ${role} in database ${database} set session_replication_role = origin"`,
    );
  }
}

/** Names the running step once it has lasted three seconds, and then every minute. */
function startProgress(tell: (text: string) => void) {
  let timer: NodeJS.Timeout | undefined;
  const end = () => clearTimeout(timer);
  return {
    end,
    now(text: string, since = performance.now()): void {
      end();
      const say = (): void => {
        tell(`${text}, for ${duration((performance.now() - since) / 1000)} so far`);
        timer = setTimeout(say, TOLD_AGAIN_MS);
      };
      timer = setTimeout(say, TOLD_FIRST_MS);
    },
  };
}

/** Transactions that have used our tables for longer than a file waits for them, such as a dump. */
async function holdersOf(sql: Sql): Promise<{ id: string; name: string }[]> {
  // a role that may not see when a transaction began sees no instant
  return sql<{ id: string; name: string }[]>`
    select l.virtualtransaction as id,
      format('%s (process %s%s)', coalesce(nullif(a.application_name, ''), a.backend_type), a.pid, ' of user ' || a.usename) as name
    from pg_locks l join pg_stat_activity a using (pid)
    where l.granted and l.database = (select oid from pg_database where datname = current_database())
      and coalesce(pg_partition_root(l.relation), l.relation)::regclass::text = any(${await ownTables(sql)})
      and coalesce(a.xact_start < clock_timestamp() - make_interval(secs => ${LOCK_MS / 1000}), true)
    group by 1, 2`;
}

/** Resolves when these transactions are over, or at an instant. An attempt before would hold up whoever needs the tables. */
async function untilOver(
  db: Database,
  holders: readonly { id: string }[],
  at: number,
): Promise<void> {
  let present: readonly { id: string }[];
  do {
    await sleep(LOOK_MS);
    present = await db.run(CHECK_MS, holdersOf);
  } while (
    performance.now() < at &&
    present.some(({ id }) => holders.some((holder) => holder.id === id))
  );
}

/**
 * The names of the files that migrating would apply; changes nothing.
 * @throws MigrationRefused as migrate does; DatabaseUnavailable
 */
export async function pendingMigrations(
  db: Database,
  directory = SQL_DIRECTORY,
): Promise<string[]> {
  const files = readMigrations(directory);
  const pending = await db.run(CHECK_MS, (sql) => pendingOf(sql, files));
  return pending.map(({ name }) => name);
}

/** Whether this program has a file. */
export function isKnownMigration(name: string): boolean {
  return readMigrations(SQL_DIRECTORY).some((migration) => migration.name === name);
}

/** The files that a database has, in their order. */
export async function appliedMigrations(sql: Sql): Promise<string[]> {
  return (await readApplied(sql)).map(({ name }) => name);
}

interface Applied {
  readonly name: string;
  readonly sha256: string;
  readonly needs: string | null;
}

/** What schema_migrations says, in the order of the files. */
async function readApplied(sql: Sql): Promise<Applied[]> {
  // by a look into pg_class: behind a lock to_regclass may still answer from the session's cache of before
  const [table] = await sql<[{ exists: boolean }]>`select exists (
    select 1 from pg_class where relname = 'schema_migrations' and pg_table_is_visible(oid)) as exists`;
  if (!table.exists) return [];
  return sql<Applied[]>`select name, sha256, needs from schema_migrations order by name`;
}

/**
 * The tables that the files of this program make and the database has, referenced ones first; without partitions,
 * and without those that a crash of the server empties.
 */
export async function ownTables(sql: Sql): Promise<string[]> {
  const texts = readMigrations(SQL_DIRECTORY).map(({ text }) => text);
  const names = texts.flatMap((text) =>
    [...text.matchAll(/^create table (\w+) \(/gm)].map(([, name]) => name as string),
  );
  const rows = await sql<{ name: string }[]>`
    select name from unnest(${names}::text[]) with ordinality as t (name, place)
    where exists (select 1 from pg_class c where c.oid = to_regclass(name) and c.relkind in ('r', 'p')) order by place`;
  return rows.map(({ name }) => name);
}

/**
 * Makes the ledger's partitions of the coming months when fewer than three are left. Does not wait long for
 * a ledger that is being read: until the next start, the default partition takes the rows.
 */
async function ensurePartitions(db: Database): Promise<void> {
  try {
    await db.transaction(CHECK_MS, async (sql) => {
      await boundLocks(sql, 1000);
      await sql`select ensure_api_usage_partitions(date_trunc('month', now())::date, 15)
        where to_regclass('api_usage_' || to_char(now() + interval '3 months', 'YYYY_MM')) is null`;
    });
  } catch (error) {
    if (!(error instanceof DatabaseUnavailable)) throw error;
  }
}

/** @param migrations files of this program @throws MigrationRefused */
async function pendingOf(sql: Sql, migrations: readonly Migration[]): Promise<Migration[]> {
  const rows = await readApplied(sql);
  const applied = new Map(rows.map((row) => [row.name, row.sha256]));
  const newest = numberOf(migrations.at(-1)?.name ?? '');
  const tooNew = rows.findLast(
    ({ name, needs }) =>
      needs !== null && needs > newest && !migrations.some((file) => file.name === name),
  );
  if (tooNew !== undefined) {
    throw new MigrationRefused(
      `the database is newer than this program: ${tooNew.name} was applied to it, and only programs that have file ${tooNew.needs} can run with it; run the newer version`,
    );
  }
  for (const { name, hash } of migrations) {
    const before = applied.get(name);
    if (before !== undefined && before !== hash) {
      throw new MigrationRefused(
        `${name} changed after it was applied to this database: restore the file, or run the version that applied it; a database of an unreleased commit is not taken over by others (sql/upgrades.md)`,
      );
    }
  }
  return migrations.filter(({ name }) => !applied.has(name));
}

/**
 * Sets the zone where it is another. Refuses to once there is usage, whose months would change their meaning, and while
 * a gateway runs, which would go on counting in the old zone.
 */
async function setBillingTimezone(sql: Sql, zone: string): Promise<void> {
  const [setting] = await sql<
    [{ value: string }]
  >`select value from settings where name = 'billing_timezone'`;
  if (setting.value === zone) return;
  await requireSameClock(sql, zone);
  await changeTables(sql, async () => {
    await sql`select value from settings where name = 'billing_timezone' for update`;
    const [used] = await sql<
      [{ used: boolean }]
    >`select exists (select 1 from monthly_spend) as used`;
    if (used.used) {
      throw new MigrationRefused(
        `BILLING_TIMEZONE is ${zone}, but this database already counts usage in ${setting.value}: keep ${setting.value}`,
      );
    }
    const running = await runningGateway(sql);
    if (running !== null) {
      throw new MigrationRefused(
        `BILLING_TIMEZONE is ${zone}, but the gateway ${running} runs and counts in ${setting.value}: keep ${setting.value}, or stop all gateways first (one that was killed counts as running for a minute)`,
      );
    }
    await sql`update settings set value = ${zone} where name = 'billing_timezone'`;
  });
}

/** The name of a gateway that was seen lately; null: there is none. */
async function runningGateway(sql: Sql): Promise<string | null> {
  const [row] = await sql<{ name: string }[]>`
    select name from gateways where last_seen_at > now() - interval '1 minute' order by last_seen_at desc limit 1`;
  return row?.name ?? null;
}

/**
 * Postgres has names of its own: its "CET" knows no summer time, and its "+02:00" is west of Greenwich.
 * @throws MigrationRefused, DatabaseRefused where it does not know the zone
 */
async function requireSameClock(sql: Sql, zone: string): Promise<void> {
  const clock = new Intl.DateTimeFormat('sv-SE', {
    timeZone: zone,
    dateStyle: 'short',
    timeStyle: 'medium',
  });
  const rows = await sql<{ at: Date; there: string }[]>`
    select at, to_char(at at time zone ${zone}, 'YYYY-MM-DD HH24:MI:SS') as there from unnest(${CLOCKS}::timestamptz[]) as at`;
  if (rows.some(({ at, there }) => clock.format(at) !== there)) {
    throw new MigrationRefused(
      `BILLING_TIMEZONE is ${zone}, which Postgres takes for another zone: name the zone by a city, such as Europe/Berlin, or bring the time zones of Postgres up to date`,
    );
  }
}

/**
 * Repairs a database restored from a dump of another server: transaction ids that this server has not reached
 * yet would look new to gateways at every poll until it has. Costs two index look-ups when nothing is to be done.
 * @returns whether there was something @throws DatabaseUnavailable
 */
export async function forgetOtherCluster(db: Database): Promise<boolean> {
  const [found] = await db.run(
    CHECK_MS,
    (sql) => sql<[{ foreign: boolean }]>`
      select exists (select 1 from changes where ${foreign(sql)})
        or exists (select 1 from spend_changes where ${foreign(sql)}) as foreign`,
  );
  if (!found.foreign) return false;
  await db.transaction(RESET_MS, async (sql) => {
    await sql`select pg_advisory_xact_lock(hashtext('tollgate migrations'))`;
    // one statement, and the first to write, so that its snapshot contains none of our own ids
    await sql`
      with foreign_ids as (
        select 1 from changes where ${foreign(sql)}
        union all select 1 from spend_changes where ${foreign(sql)} limit 1
      ),
      gone as (delete from changes where ${foreign(sql)}),
      spent as (delete from spend_changes where ${foreign(sql)})
      select announce_change('all', '') from foreign_ids`;
  });
  return true;
}

/** Rows of a server that was further; no transaction id is as high as the instants of a distributed database. */
function foreign(sql: Sql) {
  return sql`xid >= pg_snapshot_xmax(pg_current_snapshot()) and xid < '1000000000000000'::xid8`;
}
