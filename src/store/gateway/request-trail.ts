import type { TrailStore } from '../../domain/ports.ts';
import { ADDED_BOUNDS_US, DURATION_BOUNDS_MS } from '../../domain/reports/histogram.ts';
import { BILLING_ZONE, bucketSums, NIL_ID } from '../connection/expressions.ts';
import type { Database } from '../connection/pool.ts';

const INSERT_MS = 4000;
const KEEP_MS = 4000;
/** Days for which hours are kept: the present quarter and the one before it. */
export const HOURS_DAYS = 190;
/** Rows that one step of the retention deletes; 20 ms. */
const STEP_ROWS = 2000;

/** The trail's tables (sql/schema/requests.sql). */
export function trailStore(db: Database): TrailStore {
  return {
    async insert(rows) {
      await db.run(
        INSERT_MS,
        (sql) => sql`${sql.unsafe(INSERT_HEAD)} ${sql.large(rows)} ${sql.unsafe(INSERT_TAIL)}`,
      );
    },
    async keep(days, first, last) {
      await db.run(
        KEEP_MS,
        (sql) => sql`select keep_request_trail(${days}::integer, ${first}::date, ${last}::date)`,
      );
    },
    async trimHours() {
      const step = (table: string, key: string, time: string) =>
        db.run(KEEP_MS, (sql) =>
          sql.unsafe(`delete from ${table} where (${key}) in (
            select ${key} from ${table} where ${time} < now() - interval '${HOURS_DAYS} days' limit ${STEP_ROWS})`),
        );
      const hours = await step(
        'request_hours',
        'company_id, hour, model_slug, api_key_id, endpoint',
        'hour',
      );
      const days = await step('request_days', 'company_id, day, model_slug, endpoint', 'day');
      return hours.count === STEP_ROWS || days.count === STEP_ROWS;
    },
  };
}

/** Whether the upstream failed a request of the trail: `isUpstreamsFailure` (domain/errors.ts) in SQL. */
export const UPSTREAM_FAILED = `(coalesce(upstream_status::text, upstream_reason) is not null
  and (coalesce(nullif(status, 0), upstream_status, 0) not between 400 and 499 or coalesce(nullif(status, 0), upstream_status) = 429))`;

/** Whether a request of the trail failed, as sums count it and lists filter by it: `resultOf` (domain/reports) in SQL. */
export const FAILED = '(status >= 500 or status = 200 and code is not null)';

/** The groups of the sums of an hour, and of a day, which has the hours that begin on it. */
const GROUP =
  "company_id, date_trunc('hour', occurred_at, 'UTC') as hour, coalesce(model_slug, '') as model_slug, api_key_id, endpoint";
const DAY = `company_id, (hour at time zone ${BILLING_ZONE})::date as day, model_slug, endpoint`;

/**
 * Inserts rows, each at most once, and counts those that are new. Hours are taken in the order of their key, and then
 * days, so that two gateways never wait for each other crosswise.
 */
const INSERT_HEAD = `
  with added as (
    insert into request_trail (company_id, occurred_at, request_id, api_key_id, status, upstream_status, duration_ms,
      added_us, first_event_ms, endpoint, model_slug, asked, code, param, outcome, prompt_tokens, completion_tokens,
      cost_eur, upstream_reason)
    select coalesce(c, '${NIL_ID}'), t, i, coalesce(k, '${NIL_ID}'), s, u, d, a, f, e, m, q, x, p, o, n, g, v, r
    from json_to_recordset(`;
const INSERT_TAIL = `::text::json) as request (i uuid, t timestamptz, c uuid, k uuid, s smallint, u smallint, d integer,
      a integer, f integer, e text, m text, q text, x text, p text, o text, n bigint, g bigint, v numeric, r text)
    on conflict do nothing
    returning company_id, occurred_at, api_key_id, status, code, duration_ms, added_us, endpoint, model_slug,
      upstream_status, upstream_reason, status < 400 or status >= 500 as served
  ),
  counted as (
    select ${GROUP}, count(*) as requests, count(*) filter (where not served) as refused,
      count(*) filter (where ${FAILED}) as failed,
      count(*) filter (where ${UPSTREAM_FAILED}) as upstream_failed,
      coalesce(sum(duration_ms) filter (where served), 0) as duration_ms, coalesce(sum(added_us) filter (where served), 0) as added_us,
      ${buckets('duration_ms', DURATION_BOUNDS_MS)} as duration_buckets, ${buckets('added_us', ADDED_BOUNDS_US)} as added_buckets
    from added group by 1, 2, 3, 4, 5
  ),
  reasoned as (
    select company_id, hour, model_slug, api_key_id, endpoint, jsonb_object_agg(code, requests) as reasons
    from (select ${GROUP}, code, count(*) as requests from added where code is not null group by 1, 2, 3, 4, 5, 6) each
    group by 1, 2, 3, 4, 5
  ),
  days as (
    insert into request_days as h (company_id, day, model_slug, endpoint, requests, refused, failed, duration_buckets, reasons)
    select sums.*, coalesce(reasons, '{}')
    from (
      select ${DAY}, sum(requests) as requests, sum(refused) as refused, sum(failed) as failed, ${bucketSums('duration_buckets', DURATION_BOUNDS_MS)}
      from counted group by 1, 2, 3, 4) sums
    left join (
      select company_id, day, model_slug, endpoint, jsonb_object_agg(code, requests) as reasons
      from (select ${DAY}, key as code, sum(value::bigint) as requests from reasoned, jsonb_each_text(reasons) group by 1, 2, 3, 4, 5) each
      group by 1, 2, 3, 4) codes using (company_id, day, model_slug, endpoint)
    order by 1, 2, 3, 4
    on conflict (company_id, day, model_slug, endpoint) do update set ${addedUp(['requests', 'refused', 'failed'])}
  )
  insert into request_hours as h (company_id, hour, model_slug, api_key_id, endpoint, requests, refused, failed,
    upstream_failed, duration_ms, added_us, duration_buckets, added_buckets, reasons)
  select counted.*, coalesce(reasons, '{}')
  from counted left join reasoned using (company_id, hour, model_slug, api_key_id, endpoint) order by 1, 2, 3, 4, 5
  on conflict (company_id, hour, model_slug, api_key_id, endpoint) do update set
    ${addedUp(['requests', 'refused', 'failed', 'upstream_failed', 'duration_ms', 'added_us'])},
    added_buckets = ${merged('added_buckets', ADDED_BOUNDS_US)}`;

/** What a row becomes when another one of its group is added to it: its sums, the histogram of durations and the reasons. */
function addedUp(sums: readonly string[]): string {
  return `${sums.map((name) => `${name} = h.${name} + excluded.${name}`)}, duration_buckets = ${merged('duration_buckets', DURATION_BOUNDS_MS)},
    reasons = case when excluded.reasons = '{}' then h.reasons else (
      select jsonb_object_agg(key, requests) from (
        select key, sum(value::bigint) as requests
        from (select * from jsonb_each_text(h.reasons) union all select * from jsonb_each_text(excluded.reasons)) each
        group by 1) sums) end`;
}

/** How many served requests are in each bucket. */
function buckets(column: string, bounds: readonly number[]): string {
  const counts = [...bounds, null].map((upper, at) => {
    const lower = bounds[at - 1];
    const within = [
      lower !== undefined && `${column} > ${lower}`,
      upper !== null && `${column} <= ${upper}`,
    ];
    return `count(*) filter (where served and ${within.filter(Boolean).join(' and ')})`;
  });
  return `array[${counts}]`;
}

function merged(column: string, bounds: readonly number[]): string {
  return `array[${[...bounds, null].map((_, at) => `h.${column}[${at + 1}] + excluded.${column}[${at + 1}]`)}]`;
}
