import { SchemaRefused } from '../connection/errors.ts';
import type { ConnectionSql, Sql } from '../connection/pool.ts';
import { isDistributed } from './distribution.ts';
import { appliedMigrations, isKnownMigration, MigrationRefused, ownTables } from './migrate.ts';

/**
 * A copy of all tables of Tollgate as text, whatever version of Postgres wrote it and will read it:
 *
 *   {"tollgate_backup":1,"migration":"0100_baseline.sql",…}     first line: BackupHead
 *   {"table":"companies","columns":["id","name",…]}             for each table: this line,
 *   <rows as COPY writes them>                                  its rows,
 *   \.                                                          and the end of them
 *   {"end":true,"rows":{"companies":3,…}}                       last line: BackupEnd
 *
 * The tables themselves come from the migrations, up to the one that the head names.
 */
export interface BackupHead {
  readonly tollgate_backup: 1;
  /** File of the newest migration of the database. */
  readonly migration: string;
  readonly billing_timezone: string;
  /** ISO 8601. */
  readonly made_at: string;
  readonly partitions: readonly Partition[];
}

export interface BackupTable {
  readonly table: string;
  readonly columns: readonly string[];
}

export interface BackupEnd {
  readonly end: true;
  readonly rows: Readonly<Record<string, number>>;
}

/** A partition of a table that is partitioned by range. */
export interface Partition {
  readonly parent: string;
  readonly name: string;
  /** "FOR VALUES FROM ('2026-11-01') TO ('2026-12-01')". */
  readonly bound: string;
}

/** How far a backup or a restore is. */
export interface BackupProgress {
  readonly table: string;
  /** Rows of all tables so far. */
  readonly rows: number;
  /** Their bytes before compression. */
  readonly bytes: number;
}

/** Tables whose rows live for minutes or a day, and are left out. With the sessions, people sign in again. */
const TRANSIENT = [
  'sessions',
  'changes',
  'spend_changes',
  'budget_reservations',
  'key_reveals',
  'idempotent_answers',
];
/** Gateways that are gone with records: no month is closed without those (sql/schema/gateways.sql). */
const GONE = `where backlog > 0 and last_seen_at < now() - interval '1 minute'`;

export const END_OF_ROWS = '\\.\n';
/** The form of instants and bytes must not depend on settings of the server. */
export const TEXT_SETTINGS =
  "set local datestyle = 'ISO'; set local bytea_output = 'hex'; set local client_encoding = 'UTF8'";

/**
 * Writes a backup: one snapshot, while others go on writing. Takes little memory, however many rows there are.
 * @param sql a connection of its own, outside a transaction
 * @throws MigrationRefused when a newer program migrated the database
 * @throws SchemaRefused when it has no tables, or its ledger is on several servers
 */
export async function* backupOf(
  sql: ConnectionSql,
  onProgress: (progress: BackupProgress) => void,
): AsyncGenerator<Buffer> {
  await sql.unsafe(
    `begin isolation level repeatable read, read only; set local statement_timeout = 0; ${TEXT_SETTINGS}`,
  );
  try {
    yield* piecesOf(sql, onProgress);
  } catch (error) {
    await sql.unsafe('rollback');
    throw error;
  }
  await sql.unsafe('commit');
}

async function* piecesOf(
  sql: ConnectionSql,
  onProgress: (progress: BackupProgress) => void,
): AsyncGenerator<Buffer> {
  const applied = await appliedMigrations(sql);
  const newest = applied.at(-1);
  if (newest === undefined)
    throw new SchemaRefused('the database has no tables of Tollgate: is DATABASE_URL right?');
  const unknown = applied.find((name) => !isKnownMigration(name));
  if (unknown !== undefined) {
    throw new MigrationRefused(
      `the database is newer than this program (${unknown}); run the newer version`,
    );
  }
  if (await isDistributed(sql)) {
    throw new SchemaRefused(
      'the ledger of this database is spread over several servers, and a copy of this one would lack it: back up the coordinator and every worker with pg_basebackup or with snapshots of your provider (sql/growth.md, "A ledger on several servers")',
    );
  }
  const [{ zone, made_at }] = await sql<[{ zone: string; made_at: Date }]>`
    select value as zone, now() as made_at from settings where name = 'billing_timezone'`;
  const tables = await ownTables(sql);
  const head: BackupHead = {
    tollgate_backup: 1,
    migration: newest,
    billing_timezone: zone,
    made_at: made_at.toISOString(),
    partitions: await partitionsOf(sql, tables),
  };
  yield line(head);
  const { rows, count } = rowCounter(onProgress);
  for (const table of tables.filter((name) => !TRANSIENT.includes(name))) {
    const columns = await savedColumns(sql, table);
    yield line({ table, columns } satisfies BackupTable);
    rows[table] = 0;
    const names = columns.map((name) => `"${name}"`).join(', ');
    const only = table === 'gateways' ? GONE : '';
    // over a query: only so are the rows of partitions copied too
    for await (const piece of sql.copyOut(
      `copy (select ${names} from "${table}" ${only}) to stdout`,
    )) {
      count(table, piece);
      yield piece;
    }
    yield Buffer.from(END_OF_ROWS);
  }
  yield line({ end: true, rows } satisfies BackupEnd);
}

/** Columns that a backup has: not those that the database computes, nor its transaction ids. */
export async function savedColumns(sql: Sql, table: string): Promise<string[]> {
  const rows = await sql<{ name: string }[]>`
    select attname as name from pg_attribute
    where attrelid = ${table}::regclass and attnum > 0 and not attisdropped and attgenerated = '' and atttypid <> 'xid8'::regtype
    order by attnum`;
  return rows.map(({ name }) => name);
}

/** Counts the rows of a backup by table. COPY writes a line break within a value as two characters. */
export function rowCounter(onProgress: (progress: BackupProgress) => void) {
  const rows: Record<string, number> = {};
  let total = 0;
  let bytes = 0;
  function count(table: string, piece: Buffer): void {
    let lines = 0;
    for (let at = piece.indexOf(10); at >= 0; at = piece.indexOf(10, at + 1)) lines++;
    rows[table] = (rows[table] ?? 0) + lines;
    total += lines;
    bytes += piece.length;
    onProgress({ table, rows: total, bytes });
  }
  return { rows, count };
}

async function partitionsOf(sql: Sql, tables: readonly string[]): Promise<Partition[]> {
  return sql<Partition[]>`
    select p.relname as parent, c.relname as name, pg_get_expr(c.relpartbound, c.oid) as bound
    from pg_inherits i join pg_class p on p.oid = i.inhparent join pg_class c on c.oid = i.inhrelid
    where p.relname = any(${[...tables]}::text[]) and pg_table_is_visible(p.oid) and pg_get_expr(c.relpartbound, c.oid) <> 'DEFAULT'
    order by 2`;
}

function line(value: BackupHead | BackupTable | BackupEnd): Buffer {
  return Buffer.from(`${JSON.stringify(value)}\n`);
}
