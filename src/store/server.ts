import type { Sql } from './database.ts';

/**
 * SQL for a text that identifies a database and its history. A changed text means a failover,
 * a crash, or a restored database: transactions seen before may be lost, their ids used again.
 */
export function serverIdentity(sql: Sql) {
  return sql`concat(extract(epoch from pg_postmaster_start_time()), '/',
    (select oid from pg_database where datname = current_database()))`;
}

/**
 * A number or a snapshot from the server, as a literal in the statement. Without parameters a
 * statement takes one round trip instead of two, which halves the cost of frequent polls.
 * @throws TypeError for any other text
 */
export function inlined(sql: Sql, value: string | null) {
  if (value !== null && !/^[\d:,]+$/.test(value)) throw new TypeError('neither a number nor a snapshot');
  return sql.unsafe(value === null ? 'null' : `'${value}'`);
}
