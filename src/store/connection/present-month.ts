import { dayBegins } from './expressions.ts';
import type { Sql } from './pool.ts';

/** Seconds of a month in which a forecast would say nothing. */
const EARLY = 2 * 86_400;

/** One row: the present month's `first` day, when it `begins`, its time `zone`, and its seconds, `elapsed` of `length`. */
export function presentMonth(sql: Sql) {
  return sql`
    select first, begins, zone, extract(epoch from now() - begins) as elapsed, extract(epoch from ends - begins) as length
    from (
      select first, zone, ${sql.unsafe(dayBegins('first', 'zone'))} as begins,
        ${sql.unsafe(dayBegins("first + interval '1 month'", 'zone'))} as ends
      from (select billing_month(now()) as first, value as zone from settings where name = 'billing_timezone') m) m`;
}

/**
 * The forecast of `spent` at the end of a month of `length`, after `elapsed`; null where it is too early. In cents, or
 * with three digits where it is less than a euro. Below 0 where refunds of in-app chat are more.
 */
export function forecast(sql: Sql) {
  const pace = sql`spent * length / elapsed`;
  const decimals = sql`greatest(2, 2 - floor(log(abs(nullif(${pace}, 0)))))::integer`;
  return sql`case when elapsed >= ${EARLY} then coalesce(round(${pace}, ${decimals}), 0) end`;
}
