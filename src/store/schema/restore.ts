import type { Writable } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import { reasonOf } from '../../log.ts';
import { SchemaRefused } from '../connection/errors.ts';
import type { Database, Sql } from '../connection/pool.ts';
import {
  type BackupEnd,
  type BackupHead,
  type BackupProgress,
  type BackupTable,
  type Partition,
  rowCounter,
  savedColumns,
  TEXT_SETTINGS,
} from './backup.ts';
import { BackupDamaged, type BackupReader } from './backup-reader.ts';
import { appliedMigrations, isKnownMigration, migrate, ownTables } from './migrate.ts';

const FOREVER = Number.POSITIVE_INFINITY;
/** Tables into which migrations put rows. */
const MADE_WITH_ROWS = ['settings', 'tenant_grants', 'alert_lease', 'changes', 'personal_data'];

/**
 * Loads a backup into an empty database: migrates it to the version of the backup, loads all tables in one
 * transaction with their triggers off, and migrates on to this program's version.
 * @param onMigration takes what lasts long of a migration, in words
 * @returns rows by table
 * @throws SchemaRefused when it cannot be restored here, BackupDamaged, DatabaseUnavailable, DatabaseRefused; no row was
 * loaded then. SchemaRefused also when all rows are loaded, and the rest of the migrations fails: the message says which
 */
export async function restore(
  db: Database,
  reader: BackupReader,
  billingTimezone: string,
  onProgress: (progress: BackupProgress) => void,
  onMigration: (text: string) => void,
): Promise<BackupEnd['rows']> {
  const head = readHead(await reader.line());
  const { billing_timezone: zone, migration } = head;
  if (zone !== billingTimezone) {
    throw new SchemaRefused(
      `the backup counts months in ${zone}, but BILLING_TIMEZONE is ${billingTimezone}: set BILLING_TIMEZONE=${zone}`,
    );
  }
  await db.run(FOREVER, (sql) => requireEmpty(sql, migration));
  const options = { billingTimezone, limitMs: FOREVER, onProgress: onMigration };
  await migrate(db, { ...options, billingTimezone: 'UTC', upTo: migration }); // the backup brings its zone
  const rows = await db.transaction(FOREVER, (sql) => load(sql, head, reader, onProgress));
  try {
    await migrate(db, options);
    await db.run(FOREVER, (sql) => sql`analyze`);
  } catch (error) {
    throw new SchemaRefused(
      `all rows are loaded, but then: ${reasonOf(error)}; go on with "tollgate migrate"`,
    );
  }
  return rows;
}

/** @throws BackupDamaged, SchemaRefused */
function readHead(line: unknown): BackupHead {
  const head = line as BackupHead;
  if (head?.tollgate_backup === undefined)
    throw new BackupDamaged('this file is not a backup of Tollgate');
  if (head.tollgate_backup !== 1 || !isKnownMigration(head.migration)) {
    throw new SchemaRefused(
      `a newer version made the backup (${head.migration}): restore it with that one`,
    );
  }
  return head;
}

/** @throws SchemaRefused */
async function requireEmpty(sql: Sql, migration: string): Promise<void> {
  const newest = (await appliedMigrations(sql)).at(-1);
  if (newest === undefined) return;
  if (newest !== migration) {
    throw new SchemaRefused(
      `the database was migrated to ${newest}, the backup to ${migration}: restore into a new database`,
    );
  }
  for (const table of (await ownTables(sql)).filter((name) => !MADE_WITH_ROWS.includes(name))) {
    const { count } = await sql`select from ${sql(table)} limit 1`;
    if (count > 0)
      throw new SchemaRefused(
        `the database is not empty (${table} has rows): restore into a new one`,
      );
  }
}

async function load(
  sql: Sql,
  head: BackupHead,
  reader: BackupReader,
  onProgress: (progress: BackupProgress) => void,
): Promise<BackupEnd['rows']> {
  await sql.unsafe(TEXT_SETTINGS);
  const tables = await ownTables(sql);
  for (const partition of head.partitions) await makePartition(sql, partition, tables);
  await setTriggers(sql, tables, 'disable');
  await requireEmpty(sql, head.migration); // once more: from here on nobody else writes
  // rows that the migrations made are in the backup too
  await sql.unsafe(`truncate ${tables.map((name) => `"${name}"`).join(', ')}`);
  const { rows, count } = rowCounter(onProgress);
  for (;;) {
    const line = (await reader.line()) as BackupTable | BackupEnd;
    if ('end' in line) {
      await requireWhole(line, rows, reader);
      break;
    }
    const { table, columns } = line;
    await requireColumns(sql, line, tables);
    const names = columns.map((name) => `"${name}"`).join(', ');
    rows[table] = 0;
    await copyInto(sql, `"${table}" (${names})`, reader.rows(), (piece) => count(table, piece));
    await continueIdentities(sql, table);
  }
  await setTriggers(sql, tables, 'enable');
  return rows;
}

/** @param table with its columns @throws BackupDamaged, and the errors of the pieces; the transaction has failed then */
async function copyInto(
  sql: Sql,
  table: string,
  pieces: AsyncIterable<Buffer>,
  onPiece: (piece: Buffer) => void,
): Promise<void> {
  const stream = await sql.unsafe(`copy ${table} from stdin`).writable();
  try {
    for await (const piece of pieces) {
      onPiece(piece);
      await write(stream, piece);
    }
  } catch (error) {
    stream.on('error', () => {}); // the same one
    stream.destroy(error as Error); // tells the server, which ends the statement
    throw error;
  }
  stream.end();
  await setImmediate(); // it tells the server a moment later
  // the driver (3.4.9) says nothing of a copy that fails at its end; in a failed transaction this one fails
  await sql`select 1`.catch(() => {
    throw new BackupDamaged(`the database refuses rows of ${table}; its own log has the reason`);
  });
}

/** Resolves when the socket took the piece, so that little memory is used. @throws the error of the copy */
function write(stream: Writable, piece: Buffer): Promise<void> {
  return new Promise((resolve, reject) => {
    stream.once('error', reject);
    stream.write(piece, (error) => {
      stream.off('error', reject);
      if (error) reject(stream.errored ?? error);
      else resolve();
    });
  });
}

/** The ledger's function gives partitions their triggers. @throws SchemaRefused */
async function makePartition(
  sql: Sql,
  { parent, name, bound }: Partition,
  known: readonly string[],
): Promise<void> {
  const [, from] = /^FOR VALUES FROM \('([\d: +-]+)'\) TO \('[\d: +-]+'\)$/.exec(bound) ?? [];
  if (from === undefined || !known.includes(parent) || !/^\w+$/.test(name)) {
    throw new SchemaRefused(`the backup has a partition that is not one of Tollgate's: ${name}`);
  }
  if (parent === 'api_usage') await sql`select ensure_api_usage_partitions(${from}::date, 1)`;
  else await sql.unsafe(`create table if not exists "${name}" partition of "${parent}" ${bound}`);
}

/** Switches the triggers of tables and their partitions. Rows were counted, sealed and audited when they were first written. */
async function setTriggers(
  sql: Sql,
  tables: readonly string[],
  how: 'disable' | 'enable',
): Promise<void> {
  const all = await sql<{ name: string }[]>`
    select c.oid::regclass::text as name from pg_class c
    where c.oid = any(${[...tables]}::text[]::regclass[])
      or c.oid in (select inhrelid from pg_inherits where inhparent = any(${[...tables]}::text[]::regclass[]))`;
  for (const { name } of all) await sql.unsafe(`alter table ${name} ${how} trigger user`);
}

/** @throws SchemaRefused */
async function requireColumns(
  sql: Sql,
  { table, columns }: BackupTable,
  tables: readonly string[],
): Promise<void> {
  if (!tables.includes(table))
    throw new SchemaRefused(
      `the backup has a table that is not one of Tollgate's: ${table}; a backup of an unreleased commit is not taken over by others`,
    );
  const known = await savedColumns(sql, table);
  const other = columns.find((name) => !known.includes(name));
  if (other !== undefined) {
    throw new SchemaRefused(
      `${table} has a column ${other} in the backup, which is not one of Tollgate's: use pg_dump for such a database`,
    );
  }
}

/** New rows get numbers after those of the old ones. */
async function continueIdentities(sql: Sql, table: string): Promise<void> {
  const columns = await sql<{ name: string }[]>`
    select attname as name from pg_attribute where attrelid = ${table}::regclass and attidentity <> '' and not attisdropped`;
  for (const { name } of columns) {
    await sql`
      select setval(pg_get_serial_sequence(${table}, ${name}), highest) from (
        select max(${sql(name)}) as highest from ${sql(table)}) h where highest is not null`;
  }
}

/** @throws BackupDamaged */
async function requireWhole(
  end: BackupEnd,
  rows: BackupEnd['rows'],
  reader: BackupReader,
): Promise<void> {
  const tables = new Set([...Object.keys(end.rows), ...Object.keys(rows)]);
  const differing = [...tables].filter((table) => end.rows[table] !== rows[table]);
  if (differing.length > 0)
    throw new BackupDamaged(`the backup lacks rows of ${differing.join(', ')}`);
  if (!(await reader.isAtEnd())) throw new BackupDamaged('the backup goes on after its end');
}
