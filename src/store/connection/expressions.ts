import type { End, Moment } from '../../domain/price.ts';
import { COUNTED_PARTS } from '../../domain/pricing/parts.ts';
import type { Sql } from './pool.ts';

/** Parts of SQL that several statements have. Texts go into a tagged statement by `sql.unsafe`. */

/** Stands for a company or key that is not known, and for none in unique indexes. */
export const NIL_ID = '00000000-0000-0000-0000-000000000000';

/** NIL_ID as text of a statement: Postgres finds an index over an expression by the constant, not by a parameter. */
export function nilId(sql: Sql) {
  return sql.unsafe(`'${NIL_ID}'`);
}

/** Whether a key or a token works now. */
export const IS_ACTIVE = '(revoked_at is null and coalesce(expires_at > now(), true))';

/** Whether a key that works has its end users' spend bounded. */
export const HAS_ALLOWANCE = `(${IS_ACTIVE} and end_users <> 'off' and end_user_budget_eur > 0)`;

const ENDED = `case when revoked_at is not null then 'revoked' when expires_at <= now() then 'expired'`;

/** The state of tokens now. */
export const STATE = `${ENDED} else 'active' end`;

/** The state of keys now. */
export const KEY_STATE = `${ENDED} when paused_at is not null then 'paused' else 'active' end`;

export const BILLING_ZONE = `(select value from settings where name = 'billing_timezone')`;

/**
 * When a day begins: the earlier of its midnight and an hour after 23:00. Where clocks go back from 01:00, as on the Azores,
 * Postgres takes the second midnight; Greenland skips 23:00 once a year. @param day an expression
 */
export function dayBegins(day: string, zone = BILLING_ZONE): string {
  const midnight = `(${day})::timestamp`;
  return `least(${midnight} at time zone ${zone}, (${midnight} - interval '1 hour') at time zone ${zone} + interval '1 hour')`;
}

/** The instant at which a day begins in the billing time zone; of other moments their own. @param days later, for a day */
async function beginningOf(sql: Sql, moment: End, days: number): Promise<Date> {
  if (moment instanceof Date) return moment;
  if ('at' in moment) return moment.at;
  const [{ at }] = await sql<[{ at: Date }]>`
    select ${sql.unsafe(dayBegins('day'))} as at from (select ${moment.day}::date + ${days}::integer as day) as asked`;
  return at;
}

/** The instant since which something holds: of a day its beginning in the billing time zone. */
export function startOf(sql: Sql, moment: Moment): Promise<Date> {
  return beginningOf(sql, moment, 0);
}

/** The instant at which something ends: of a day, which is its last one, the end in the billing time zone. */
export function endOf(sql: Sql, end: End): Promise<Date> {
  return beginningOf(sql, end, 1);
}

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
  if (value !== null && !/^[\d:,]+$/.test(value))
    throw new TypeError('neither a number nor a snapshot');
  return value === null ? 'null' : `'${value}'`;
}

/** SQL of a text that tells which changes of spend are visible: the cursor of `spentSince`. */
export const SPEND_CURSOR = `concat_ws(' ', spend_horizon(), pg_current_snapshot())`;

/**
 * A statement for the companies and months whose spend changed since a cursor (sql/schema/sums.sql); null: none. Cursor and
 * rows are values of the text: with parameters Postgres expected many rows, and read the whole table.
 */
export function spentSince(
  cursor: string | null,
  columns = 'unnest(company_id || others) as company_id, billing_month',
): string {
  const [horizon = null, snapshot = null] = cursor?.split(' ') ?? [];
  return `select ${columns} from spend_changes
    where xid >= ${literal(horizon)}::xid8 and not pg_visible_in_snapshot(xid, ${literal(snapshot)}::pg_snapshot)`;
}

/** The columns of `usage_key_months` with what a key cost on each day of the month, the first to the thirty-first. */
export const KEY_DAYS = Array.from(
  { length: 31 },
  (_, at) => `day_${String(at + 1).padStart(2, '0')}`,
);

/** The present day in the billing time zone. */
export const TODAY = `(now() at time zone ${BILLING_ZONE})::date`;

/** An instant as ISO 8601 in UTC, to the second. @param at an expression */
export function utcSecond(at: string): string {
  return `to_char(${at} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')`;
}

/** An instant as ISO 8601 in UTC, to the microsecond, which is all that Postgres keeps. @param at an expression */
export function utcMicrosecond(at: string): string {
  return `to_char(${at} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`;
}

/** Adds arrays element by element, one for each bucket of a histogram: Postgres has no sum of arrays. */
export function bucketSums(column: string, bounds: readonly number[]): string {
  return `array[${[...bounds, null].map((_, at) => `sum(${column}[${at + 1}])::bigint`)}]`;
}

/** The counts of a row, by the names of `PartCounts`. */
export const PART_COUNTS = COUNTED_PARTS.map(
  ({ count, column }) => `${column}::float8 as "${count}"`,
).join(', ');
