import type { DayRange } from '../../domain/reports/day-range.ts';
import { DURATION_BOUNDS_MS, percentileOf } from '../../domain/reports/histogram.ts';
import type { LastDay, Overview, RequestDay } from '../../domain/reports/overview.ts';
import { bucketSums, dayBegins, NIL_ID, utcSecond } from '../connection/expressions.ts';
import type { Sql } from '../connection/pool.ts';
import { ownersOf } from '../users/user.ts';
import { reasonRows } from './request-hours.ts';

/** Hours that pictures count as they are now: earlier ones were summed up meanwhile, within a quarter of an hour. */
const LIVE_HOURS = 3;
/** Days of the pictures on the first page. */
export const PICTURE_DAYS = 30;
const MOST_REFUSED = 10;

/** What became of the requests of all companies lately. */
export type RecentRequests = Pick<Overview, 'last_day' | 'request_days' | 'refused_now'>;

type DayRow = Omit<RequestDay, 'p50' | 'p95'> & { readonly buckets: readonly number[] | null };

interface Row extends Omit<RecentRequests, 'request_days'> {
  readonly days: readonly DayRow[];
}

/** The requests of all companies on each day of a range; empty where none is known. */
export async function readRequestDays(sql: Sql, { from, to }: DayRange): Promise<RequestDay[]> {
  const [row] = await sql<[Pick<Row, 'days'>]>`
    with clock as materialized (
      select value as zone, ${from}::date as first, ${to}::date as last from settings where name = 'billing_timezone'
    ),
    hours as materialized (
      select company_id, hour, requests, refused, failed, reasons from request_hours, clock
      where ${isLive(sql)} and hour < (last + 2)::timestamp at time zone zone
    ),
    ${errors(sql, sql`hours`)},
    ${days(sql)}
    select ${daysJson(sql)} as days`;
  return row.days.map(withPercentiles);
}

function withPercentiles({ buckets, ...day }: DayRow): RequestDay {
  const of = (share: number) => buckets && percentileOf(DURATION_BOUNDS_MS, buckets, share);
  return { ...day, p50: of(0.5), p95: of(0.95) };
}

/**
 * One statement, so that no hour is counted twice: days count the last hours as they are now, and hours before from
 * `request_totals`. All durations are from there, which is a quarter of an hour behind.
 */
export async function readRecentRequests(sql: Sql): Promise<RecentRequests> {
  const [row] = await sql<[Row]>`
    with clock as materialized (
      select zone, today - ${PICTURE_DAYS - 1}::integer as first, today as last
      from (select value as zone, (now() at time zone value)::date as today from settings where name = 'billing_timezone') z
    ),
    hours as materialized (
      select company_id, hour, requests, refused, failed from request_hours where ${isLive(sql)}
    ),
    wrong as materialized (
      select company_id, hour, reasons from request_hours where ${isOfLastDay(sql)} and reasons <> '{}'
    ),
    ${errors(sql, sql`wrong`)},
    ${days(sql)},
    ${refusedNow(sql)},
    reasons as (select code, company_id, sum(requests) as requests from errors group by 1, 2),
    ranked as (
      select *, sum(requests) over (partition by code) as sum,
        count(nullif(company_id, ${NIL_ID})) over (partition by code) as companies,
        row_number() over (partition by code order by requests desc, company_id) as place
      from reasons
    )
    select jsonb_build_object('requests', coalesce(sum(requests), 0), 'refused', coalesce(sum(refused), 0),
        'failed', coalesce(sum(failed), 0), 'reasons', (
          select coalesce(jsonb_agg(jsonb_build_object('code', code, 'requests', sum, 'companies', companies,
            'most', case when company_id <> ${NIL_ID} then jsonb_build_object('id', company_id, 'name', c.name, 'requests', requests) end)
          order by sum desc, code), '[]')
          from ranked left join companies c on c.id = company_id where place = 1)) as last_day,
      (select coalesce(jsonb_agg(jsonb_build_object('code', code, 'requests', requests, 'of', all_requests,
          'company', case when company_id <> ${NIL_ID} then jsonb_build_object('id', company_id, 'name', c.name) end,
          'owners', coalesce(emails, '[]')) order by requests desc, code, company_id), '[]')
        from refused left join companies c on c.id = company_id left join owners using (company_id)) as refused_now,
      ${daysJson(sql)} as days
    from counts where ${isOfLastDay(sql)}`;
  return {
    last_day: row.last_day as LastDay,
    refused_now: row.refused_now,
    request_days: row.days.map(withPercentiles),
  };
}

/** The table `errors` of a WITH clause: how often a company got an error in an hour. @param hours a table with `reasons` */
function errors(sql: Sql, hours: ReturnType<Sql>) {
  return sql`errors as materialized (
      select code, company_id, hour, sum(requests) as requests from (${reasonRows(sql, hours)}) r group by 1, 2, 3
    )`;
}

/** The hours that are counted as they are now. Of hours before, `request_totals` has the sums. */
export function isLive(sql: Sql) {
  return sql`hour > now() - make_interval(hours => ${LIVE_HOURS})`;
}

export function isOfLastDay(sql: Sql) {
  return sql`hour > now() - interval '24 hours'`;
}

/** Tables of a WITH clause over `clock`, `hours` and `errors`: `days` with counts, `day_reasons` and `day_buckets`. */
function days(sql: Sql) {
  const isOver = sql`not (${isLive(sql)})`;
  return sql`
    totals as materialized (
      select t.*, (hour at time zone zone)::date as day from request_totals t, clock
      where hour > (first - 1)::timestamp at time zone zone and hour < (last + 2)::timestamp at time zone zone
    ),
    counts as materialized (
      select hour, day, requests, refused, failed from totals where ${isOver}
      union all
      select hour, (hour at time zone zone)::date, requests, refused, failed
      from (
        select hour, sum(requests) as requests, sum(refused) as refused, sum(failed) as failed from hours where ${isLive(sql)} group by 1) h, clock
    ),
    days as (
      select day, sum(requests) as requests, sum(refused) as refused, sum(failed) as failed
      from counts group by 1
    ),
    day_reasons as (
      select day, jsonb_object_agg(code, requests) as reasons from (
        select day, code, sum(requests) as requests from (
          select day, key as code, value::bigint as requests from totals, jsonb_each_text(reasons) where ${isOver}
          union all select (hour at time zone zone)::date, code, requests from errors, clock where ${isLive(sql)}) r
        group by 1, 2) each
      group by 1
    ),
    day_buckets as (
      select day, ${sql.unsafe(bucketSums('duration_buckets', DURATION_BOUNDS_MS))} as buckets from totals group by 1
    )`;
}

/** Each of the days, with the hours that begin on it; empty where no request is known. */
function daysJson(sql: Sql) {
  const firstHour = (day: string) =>
    `date_trunc('hour', ${dayBegins(day, 'zone')} + interval '1 hour' - interval '1 microsecond', 'UTC')`;
  return sql`(
    select coalesce(jsonb_agg(jsonb_build_object('day', d.day,
        'begins', ${sql.unsafe(utcSecond(firstHour('d.day')))}, 'ends', ${sql.unsafe(utcSecond(firstHour('d.day + 1')))},
        'requests', coalesce(requests, 0), 'refused', coalesce(refused, 0), 'failed', coalesce(failed, 0),
        'reasons', coalesce(r.reasons, '{}'), 'buckets', buckets) order by d.day), '[]')
    from (select zone, first + n as day from clock, generate_series(0, last - first) n) d
    left join days using (day) left join day_reasons r using (day) left join day_buckets using (day)
    where exists (select day from counts where day between (select first from clock) and (select last from clock)))`;
}

/** Tables of a WITH clause: `refused`, the companies that got an error most often in this hour and the one before, and `owners`. */
function refusedNow(sql: Sql) {
  const isNow = sql`hour > now() - interval '2 hours'`;
  return sql`
    callers as (select company_id, sum(requests) as all_requests from hours where ${isNow} group by 1),
    refused as materialized (
      select code, company_id, sum(requests) as requests, max(all_requests) as all_requests
      from errors join callers using (company_id) where ${isNow}
      group by 1, 2 order by 3 desc, 1, 2 limit ${MOST_REFUSED}
    ),
    owners as materialized (${ownersOf(sql, sql`select company_id from refused`)})`;
}
