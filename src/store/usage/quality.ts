import type { DayRange } from '../../domain/reports/day-range.ts';
import { DURATION_BOUNDS_MS, percentileOf } from '../../domain/reports/histogram.ts';
import type { ReasonCount } from '../../domain/reports/request-explanation.ts';
import { matching } from '../connection/columns.ts';
import { dayBegins } from '../connection/expressions.ts';
import type { Sql } from '../connection/pool.ts';
import { grouped, ofKeys, type UsageFilters } from './cube.ts';
import { bucketSums, reasonRows } from './request-hours.ts';

/** How fast and how well calls were answered; see `request_hours` in sql/schema/requests.sql. */
export interface QualityGroup {
  /** Milliseconds of requests that were not refused; null where all were. */
  readonly p50: number | null;
  readonly p95: number | null;
  /** All of which the trail knows, refused ones too. */
  readonly requests: number;
  /** Answered with 4xx. */
  readonly refused: number;
  /** Failed requests of all, from 0 to 1. */
  readonly error_rate: number;
}

export interface Quality {
  /** Whether the trail has requests of this range. */
  readonly hasTrail: boolean;
  /** There are too many figures to add up while a page is waited for. */
  readonly isTooMuch: boolean;
  /** All requests of the range, and why some were refused or failed: those with most requests first. */
  readonly all: { readonly requests: number; readonly refused: number; readonly failed: number };
  readonly reasons: readonly ReasonCount[];
  /** By the model's slug, the key's id and the endpoint's name. */
  readonly by_model: ReadonlyMap<string, QualityGroup>;
  readonly by_key: ReadonlyMap<string, QualityGroup>;
  readonly by_endpoint: ReadonlyMap<string, QualityGroup>;
}

/** Requests and their results, as programs read them. */
export type Answers = Quality['all'] & Pick<Quality, 'reasons'>;

/** null: none is known, such as where they are too many to add up. */
export function answersOf({ all, reasons }: Quality): Answers | null {
  return all.requests === 0 ? null : { ...all, reasons };
}

/** Rows of `request_hours` that are added up; each takes about 10 µs. */
const MAX_HOURS = 5000;

/**
 * Figures of the hours that a range of days has in the billing time zone. Cost centres are not in them: with a filter
 * for one, and where there are too many rows, there are none.
 */
export async function readQuality(
  sql: Sql,
  companyId: string,
  { from, to }: DayRange,
  { model, key, endpoint, cost_center, keys }: UsageFilters,
): Promise<Quality> {
  const sums = sql`sum(requests) as requests, sum(refused) as refused, sum(failed) as failed,
    ${sql.unsafe(bucketSums('duration_buckets', DURATION_BOUNDS_MS))} as buckets`;
  const [row] = await sql<[QualityRow]>`
    with asked as materialized (
      select ${sql.unsafe(dayBegins('first'))} as begins, ${sql.unsafe(dayBegins('last + 1'))} as ends
      from (select ${from}::date as first, ${to}::date as last) as days
    ),
    hours as materialized (
      select * from request_hours
      where company_id = ${companyId} and hour >= (select date_trunc('hour', begins, 'UTC') from asked) and hour < (select ends from asked)
        ${ofKeys(sql, keys)} ${matching(sql, { model_slug: model, api_key_id: key, endpoint })}
      limit ${cost_center === null ? MAX_HOURS + 1 : 0}
    ),
    counted as (select count(*)::integer as rows from hours),
    groups as (
      ${grouped(sql, [[], ['model_slug'], ['api_key_id'], ['endpoint']], sums, sql`hours where (select rows from counted) <= ${MAX_HOURS}`)}
      having sum(requests) > 0
    )
    select rows, (select coalesce(json_agg(groups), '[]') from groups) as groups,
      (select coalesce(json_agg(reasons order by requests desc, code), '[]') from (
        select code, sum(requests) as requests from (${reasonRows(sql, sql`hours`)}) r
        where (select rows from counted) <= ${MAX_HOURS} group by 1) reasons) as reasons,
      exists (
      select 1 from request_trail, asked where ${keys === null ? sql`company_id = ${companyId}` : sql`true ${ofKeys(sql, keys)}`} and occurred_at >= begins and occurred_at < ends) as trail
    from counted`;
  const by = (name: 'model_slug' | 'api_key_id' | 'endpoint') =>
    new Map(
      row.groups.filter((group) => group[name] !== null).map((group) => [group[name] as string, qualityOf(group)]),
    );
  const all = row.groups.find(({ of }) => of === 0);
  return {
    hasTrail: row.trail,
    isTooMuch: row.rows > MAX_HOURS,
    all: { requests: all?.requests ?? 0, refused: all?.refused ?? 0, failed: all?.failed ?? 0 },
    reasons: row.reasons,
    by_model: by('model_slug'),
    by_key: by('api_key_id'),
    by_endpoint: by('endpoint'),
  };
}

interface QualityRow {
  readonly trail: boolean;
  readonly rows: number;
  readonly groups: readonly HoursGroup[];
  readonly reasons: readonly ReasonCount[];
}

interface HoursGroup {
  /** 0: of all together. */
  readonly of: number;
  readonly model_slug: string | null;
  readonly api_key_id: string | null;
  readonly endpoint: string | null;
  readonly requests: number;
  readonly refused: number;
  readonly failed: number;
  readonly buckets: readonly number[];
}

function qualityOf({ requests, refused, failed, buckets }: HoursGroup): QualityGroup {
  const of = (share: number) => percentileOf(DURATION_BOUNDS_MS, buckets, share);
  return { p50: of(0.5), p95: of(0.95), requests, refused, error_rate: failed / requests };
}
