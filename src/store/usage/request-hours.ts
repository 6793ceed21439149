import { ADDED_BOUNDS_US, DURATION_BOUNDS_MS, percentileOf } from '../../domain/reports/histogram.ts';
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

export type HoursGroup = 'all' | 'hour' | 'day' | 'model' | 'key' | 'endpoint';

/** Estimates from a histogram; null where no request was served. */
interface Percentiles {
  readonly mean: number;
  readonly p50: number;
  readonly p95: number;
  readonly p99: number;
}

interface RequestSums {
  /**
   * The name of the group: an hour ("2026-11-22T10:00:00Z"), a day of the billing time zone ("2026-11-22"), a slug, an
   * id or an endpoint. null: without a model or key that is known; and the only group of 'all'.
   */
  readonly group: string | null;
  readonly requests: number;
  /** Answered with 4xx. */
  readonly refused: number;
  /** Answered with 5xx, or with a stream that broke. */
  readonly failed: number;
  /** Failures of the upstream, whatever the client was told. */
  readonly upstream_failed: number;
  /** failed / requests, from 0 to 1. */
  readonly error_rate: number;
  /** Milliseconds of served requests, which are those that were not refused. */
  readonly duration_ms: Percentiles | null;
  /** Microseconds that the gateway added to them. */
  readonly added_us: Percentiles | null;
}

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

function percentilesOf(bounds: readonly number[], counts: readonly number[], sum: number): Percentiles | null {
  const total = counts.reduce((all, count) => all + count, 0);
  if (total === 0) return null;
  const of = (share: number): number => percentileOf(bounds, counts, share) as number;
  return { mean: sum / total, p50: of(0.5), p95: of(0.95), p99: of(0.99) };
}
