/**
 * SQL for a text that identifies a database and its history. A changed text means a failover,
 * a crash, or a restored database: transactions seen before may be lost, their ids used again.
 */
export const SERVER_IDENTITY = `concat(extract(epoch from pg_postmaster_start_time()), '/',
  (select oid from pg_database where datname = current_database()))`;

/** The database's clock, in seconds. */
export const CLOCK = 'extract(epoch from now())::float8';

/**
 * A number or a snapshot from the server, as a literal for the text of a statement. Without parameters a
 * statement takes one round trip instead of two, which halves the cost of frequent polls.
 * @throws TypeError for any other text
 */
export function literal(value: string | null): string {
  if (value !== null && !/^[\d:,]+$/.test(value)) throw new TypeError('neither a number nor a snapshot');
  return value === null ? 'null' : `'${value}'`;
}
