import type { Sql } from './database.ts';

/**
 * SQL text that names a database of a server for as long as its history is one: another value
 * is another server (a failover), the same after a crash, or a database that was made anew (a
 * restore). Transactions seen before may then never have happened, and their ids be given out
 * again.
 */
export function serverIdentity(sql: Sql) {
  return sql`concat(extract(epoch from pg_postmaster_start_time()), '/',
    (select oid from pg_database where datname = current_database()))`;
}

/**
 * A number or a snapshot the server told, written into the statement: without parameters it is
 * one round trip instead of two, which for what is asked all the time is half of its cost.
 * @throws TypeError where it is anything else
 */
export function inlined(sql: Sql, value: string | null) {
  if (value !== null && !/^[\d:,]+$/.test(value)) throw new TypeError('not what the server told');
  return sql.unsafe(value === null ? 'null' : `'${value}'`);
}
