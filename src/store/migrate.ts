import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Database, Sql } from './database.ts';
import { DatabaseUnavailable } from './database-error.ts';
import { forgetOtherCluster } from './restored.ts';

/** The migrations of this program. */
export const SQL_DIRECTORY = fileURLToPath(new URL('../../sql', import.meta.url));

export interface MigrateOptions {
  /** Folder of the files, `0001_name.sql` and so on. */
  readonly directory?: string;
  /** BILLING_TIMEZONE: an IANA zone. */
  readonly billingTimezone: string;
}

/** This program cannot use the database; the message is for the operator. Nothing was changed. */
export class MigrationRefused extends Error {}

interface Migration {
  readonly name: string;
  readonly text: string;
  readonly hash: string;
  /** Number of the newest file that a program must know to run with this one; null: any program can. */
  readonly needs: string | null;
}

const FILE_MS = 600_000; // for an index on a large ledger, or waiting for another replica to make it
const CHECK_MS = 10_000;

/**
 * Brings the database to this version. Many replicas may run it at once: each file is one
 * transaction that begins with a lock, and a replica that waited finds the file applied.
 *
 * Versions run side by side: an older program can use a database with newer files, unless the head of
 * one says `-- needs NNNN`; then only programs that have file NNNN can. A file that drops a column
 * unused since 0015 needs 0015; one that breaks every earlier program needs its own number.
 *
 * Also repairs a database restored from a dump of another server.
 * @returns the names of the files this call applied
 * @throws MigrationRefused when a file changed since it was applied, the database needs a newer program, or the billing zone differs
 * @throws DatabaseUnavailable, DatabaseRefused
 */
export async function migrate(db: Database, options: MigrateOptions): Promise<string[]> {
  const migrations = readMigrations(options.directory ?? SQL_DIRECTORY);
  const done: string[] = [];
  let pending = await db.run(CHECK_MS, (sql) => pendingOf(sql, migrations));
  while (pending.length > 0) {
    pending = await db.transaction(FILE_MS, async (sql) => {
      await sql`select pg_advisory_xact_lock(hashtext('tollgate migrations'))`;
      const [next, ...later] = await pendingOf(sql, migrations);
      if (next === undefined) return [];
      await sql`create table if not exists schema_migrations (
        name text primary key, sha256 text not null, applied_at timestamptz not null default now(), needs text)`;
      // only if missing: its lock would keep other replicas from starting during a long file
      if (!(await hasNeeds(sql))) await sql`alter table schema_migrations add column needs text`;
      await sql.unsafe(next.text);
      await sql`insert into schema_migrations (name, sha256, needs) values (${next.name}, ${next.hash}, ${next.needs})`;
      done.push(next.name);
      return later;
    });
  }
  await db.transaction(CHECK_MS, (sql) => setBillingTimezone(sql, options.billingTimezone));
  await ensurePartitions(db);
  await forgetOtherCluster(db);
  return done;
}

/**
 * The names of the files that migrating would apply; changes nothing.
 * @throws MigrationRefused as migrate does; DatabaseUnavailable
 */
export async function pendingMigrations(db: Database, directory = SQL_DIRECTORY): Promise<string[]> {
  const migrations = readMigrations(directory);
  const pending = await db.run(CHECK_MS, (sql) => pendingOf(sql, migrations));
  return pending.map(({ name }) => name);
}

/**
 * Makes the ledger's partitions of the coming months when fewer than three are left. It does not wait
 * long for a ledger that is being read: the next start tries again, and until then the default
 * partition takes the rows.
 */
async function ensurePartitions(db: Database): Promise<void> {
  try {
    await db.transaction(CHECK_MS, async (sql) => {
      await sql`set local lock_timeout = '1s'`;
      await sql`select ensure_api_usage_partitions(date_trunc('month', now())::date, 15)
        where to_regclass('api_usage_' || to_char(now() + interval '3 months', 'YYYY_MM')) is null`;
    });
  } catch (error) {
    if (!(error instanceof DatabaseUnavailable)) throw error;
  }
}

function readMigrations(directory: string): Migration[] {
  const names = readdirSync(directory).filter((name) => /^\d{4}_\w+\.sql$/.test(name));
  return names.sort().map((name) => {
    // a checkout with other line ends has the same hash
    const text = readFileSync(join(directory, name), 'utf8').replaceAll('\r\n', '\n');
    const head = /^(--.*\n)*/.exec(text)?.[0] ?? '';
    const needs = /^-- needs (\d{4})\b/m.exec(head)?.[1] ?? null;
    return { name, text, hash: createHash('sha256').update(text).digest('hex'), needs };
  });
}

async function hasNeeds(sql: Sql): Promise<boolean> {
  const rows = await sql`
    select from pg_attribute where attrelid = 'schema_migrations'::regclass and attname = 'needs' and not attisdropped`;
  return rows.length > 0;
}

/** @throws MigrationRefused */
async function pendingOf(sql: Sql, migrations: readonly Migration[]): Promise<Migration[]> {
  const [table] = await sql<[{ exists: boolean }]>`select to_regclass('schema_migrations') is not null as exists`;
  if (!table.exists) return [...migrations];
  const rows = await sql<{ name: string; sha256: string; needs: string | null }[]>`
    select name, sha256, to_jsonb(m) ->> 'needs' as needs from schema_migrations m order by name`; // the column may be missing
  const applied = new Map(rows.map((row) => [row.name, row.sha256]));
  const newest = migrations.at(-1)?.name.slice(0, 4) ?? '';
  const tooNew = rows.findLast(
    ({ name, needs }) => needs !== null && needs > newest && !migrations.some((known) => known.name === name),
  );
  if (tooNew !== undefined) {
    throw new MigrationRefused(
      `the database is newer than this program: ${tooNew.name} was applied to it, and only programs that have file ${tooNew.needs} can run with it; run the newer version`,
    );
  }
  for (const { name, hash } of migrations) {
    const before = applied.get(name);
    if (before !== undefined && before !== hash) {
      throw new MigrationRefused(`${name} changed after it was applied to this database: restore the file`);
    }
  }
  return migrations.filter(({ name }) => !applied.has(name));
}

/** The zone can change until there is usage; then it would change the meaning of months already counted. */
async function setBillingTimezone(sql: Sql, zone: string): Promise<void> {
  const [setting] = await sql<[{ value: string }]>`select value from settings where name = 'billing_timezone'`;
  if (setting.value === zone) return;
  await sql`select value from settings where name = 'billing_timezone' for update`;
  const [used] = await sql<[{ used: boolean }]>`select exists (select from monthly_spend) as used`;
  if (used.used) {
    throw new MigrationRefused(
      `BILLING_TIMEZONE is ${zone}, but this database already counts usage in ${setting.value}: keep ${setting.value}`,
    );
  }
  await sql`update settings set value = ${zone} where name = 'billing_timezone'`;
}
