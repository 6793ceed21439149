import {
  ADDED_BOUNDS_US,
  DURATION_BOUNDS_MS,
  percentileOf,
} from '../../domain/reports/histogram.ts';
import * as schema from '../../domain/settings/schema.ts';
import { BILLING_ZONE, bucketSums, NIL_ID, utcSecond } from '../connection/expressions.ts';
import type { Sql } from '../connection/pool.ts';

/** Sums of requests by the hour, which outlive the trail (sql/schema/requests.sql). */

/** Hours of a company. Both instants are rounded down to whole hours. */
interface HoursRange {
  readonly company: string;
  readonly from: Date;
  /** The first instant that is left out. */
  readonly to: Date;
}

export const HOURS_GROUPS = ['all', 'hour', 'day', 'model', 'key', 'endpoint'] as const;
export type HoursGroup = (typeof HOURS_GROUPS)[number];

const number: schema.Schema<number> = { type: 'number', minimum: 0 };

/** Estimates from a histogram; null where no request was served. */
const times = schema.orNull(schema.object({ mean: number, p50: number, p95: number, p99: number }));

/** Refused are those with 4xx, failed those with 5xx or with a stream that broke; the upstream's failures count whatever the client was told. */
export const REQUEST_SUMS = schema.object({
  group: schema.described(
    schema.textOrNull,
    'an hour, a day, a slug, an id or an endpoint; null: not known, or all',
  ),
  requests: schema.count,
  refused: schema.count,
  failed: schema.count,
  upstream_failed: schema.count,
  error_rate: schema.described<number>({ type: 'number' }, 'failed of all, from 0 to 1'),
  // in milliseconds
  duration_ms: schema.described(times, 'of requests that were not refused'),
  // in microseconds
  added_us: schema.described(times, 'what the gateway added to them'),
});
type RequestSums = schema.Value<typeof REQUEST_SUMS>;
type Percentiles = NonNullable<RequestSums['duration_ms']>;

interface HoursRow extends Omit<RequestSums, 'error_rate' | 'duration_ms' | 'added_us'> {
  readonly duration_ms: number;
  readonly added_us: number;
  readonly duration_buckets: readonly number[];
  readonly added_buckets: readonly number[];
}

/**
 * Sums over a range of hours, one row for each group that has any: hours and days in order, others with the most
 * requests first. Reads no trail: 10 µs for each row of `request_hours` in the range.
 */
export async function readRequestHours(
  sql: Sql,
  { company, from, to }: HoursRange,
  by: HoursGroup,
): Promise<RequestSums[]> {
  const group = {
    all: sql`null::text`,
    hour: sql.unsafe(utcSecond('hour')),
    day: sql`to_char(hour at time zone ${sql.unsafe(BILLING_ZONE)}, 'YYYY-MM-DD')`,
    model: sql`nullif(model_slug, '')`,
    key: sql`nullif(api_key_id, ${NIL_ID})::text`,
    endpoint: sql`endpoint`,
  }[by];
  const rows = await sql<HoursRow[]>`
    select ${group} as "group", sum(requests)::bigint as requests, sum(refused)::bigint as refused,
      sum(failed)::bigint as failed, sum(upstream_failed)::bigint as upstream_failed,
      sum(duration_ms)::bigint as duration_ms, sum(added_us)::bigint as added_us,
      ${sql.unsafe(bucketSums('duration_buckets', DURATION_BOUNDS_MS))} as duration_buckets,
      ${sql.unsafe(bucketSums('added_buckets', ADDED_BOUNDS_US))} as added_buckets
    from request_hours
    where hour >= date_trunc('hour', ${from}::timestamptz, 'UTC') and hour < date_trunc('hour', ${to}::timestamptz, 'UTC')
      and company_id = ${company}
    group by 1 having sum(requests) > 0
    order by ${by === 'hour' || by === 'day' ? sql`1` : sql`sum(requests) desc, 1`}`;
  return rows.map(({ duration_buckets, duration_ms, added_buckets, added_us, ...counts }) => ({
    ...counts,
    error_rate: counts.failed / counts.requests,
    duration_ms: percentilesOf(DURATION_BOUNDS_MS, duration_buckets, duration_ms),
    added_us: percentilesOf(ADDED_BOUNDS_US, added_buckets, added_us),
  }));
}

/** Rows of `code` and `requests`, with the company and hour of each, over rows of `request_hours`. */
export function reasonRows(sql: Sql, hours: ReturnType<Sql>) {
  return sql`
    select company_id, hour, key as code, value::bigint as requests from ${hours} h, jsonb_each_text(h.reasons)
    where h.reasons <> '{}'`;
}

function percentilesOf(
  bounds: readonly number[],
  counts: readonly number[],
  sum: number,
): Percentiles | null {
  const total = counts.reduce((all, count) => all + count, 0);
  if (total === 0) return null;
  const of = (share: number): number => percentileOf(bounds, counts, share) as number;
  return { mean: sum / total, p50: of(0.5), p95: of(0.95), p99: of(0.99) };
}
