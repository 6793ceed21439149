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
  /** Milliseconds of requests that were not refused; null where all were, or there are too many figures. */
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
  /** There are too many figures to add up while a page is waited for: durations are not known, or nothing is. */
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

/** Rows of `request_hours` whose durations are added up, at 3 µs each, and whose counts are, at half of one. */
const MOST_HOURS = { timed: 40_000, counted: 400_000 };

/**
 * Figures of the hours that a range of days has in the billing time zone. Cost centres are not in them: with a filter
 * for one there are none. Where there are many rows no durations are read, and where there are too many nothing is.
 */
export async function readQuality(
  sql: Sql,
  companyId: string,
  { from, to }: DayRange,
  { model, key, endpoint, cost_center, keys }: UsageFilters,
): Promise<Quality> {
  const asked = sql`asked as materialized (
      select ${sql.unsafe(dayBegins('first'))} as begins, ${sql.unsafe(dayBegins('last + 1'))} as ends
      from (select ${from}::date as first, ${to}::date as last) as days
    )`;
  const hours = sql`request_hours
      where company_id = ${companyId} and hour >= (select date_trunc('hour', begins, 'UTC') from asked) and hour < (select ends from asked)
        ${ofKeys(sql, keys)} ${matching(sql, { model_slug: model, api_key_id: key, endpoint })}`;
  const [{ rows, trail }] = await sql<[{ rows: number; trail: boolean }]>`
    with ${asked}
    select (select count(*)::integer from (select from ${hours} limit ${cost_center === null ? MOST_HOURS.counted + 1 : 0}) h) as rows,
      exists (
      select 1 from request_trail, asked where ${keys === null ? sql`company_id = ${companyId}` : sql`true ${ofKeys(sql, keys)}`} and occurred_at >= begins and occurred_at < ends) as trail`;
  const isTooMuch = rows > MOST_HOURS.counted;
  const isTimed = rows <= MOST_HOURS.timed;
  const counts = sql`sum(requests)::bigint as requests, sum(refused)::bigint as refused, sum(failed)::bigint as failed`;
  const buckets = (column: string) =>
    isTimed ? sql.unsafe(`${bucketSums(column, DURATION_BOUNDS_MS)} as buckets`) : sql`null::bigint[] as buckets`;
  const [row] = await sql<[QualityRow]>`
    with ${asked},
    cells as materialized (
      select model_slug, api_key_id, endpoint, ${counts}, ${buckets('duration_buckets')}
      from ${hours} and ${!isTooMuch && cost_center === null} group by 1, 2, 3
    ),
    groups as (
      ${grouped(sql, [[], ['model_slug'], ['api_key_id'], ['endpoint']], sql`${counts}, ${buckets('buckets')}`, sql`cells`)}
      having sum(requests) > 0
    ),
    wrong as (select company_id, hour, reasons from ${hours} and reasons <> '{}' and ${!isTooMuch && cost_center === null})
    select (select coalesce(json_agg(groups), '[]') from groups) as groups,
      (select coalesce(json_agg(reasons order by requests desc, code), '[]') from (
        select code, sum(requests) as requests from (${reasonRows(sql, sql`wrong`)}) r group by 1) reasons) as reasons`;
  const by = (name: 'model_slug' | 'api_key_id' | 'endpoint') =>
    new Map(
      row.groups.filter((group) => group[name] !== null).map((group) => [group[name] as string, qualityOf(group)]),
    );
  const all = row.groups.find(({ of }) => of === 0);
  return {
    hasTrail: trail,
    isTooMuch: isTooMuch || !isTimed,
    all: { requests: all?.requests ?? 0, refused: all?.refused ?? 0, failed: all?.failed ?? 0 },
    reasons: row.reasons,
    by_model: by('model_slug'),
    by_key: by('api_key_id'),
    by_endpoint: by('endpoint'),
  };
}

interface QualityRow {
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
  /** null: not read. */
  readonly buckets: readonly number[] | null;
}

function qualityOf({ requests, refused, failed, buckets }: HoursGroup): QualityGroup {
  const of = (share: number) => buckets && percentileOf(DURATION_BOUNDS_MS, buckets, share);
  return { p50: of(0.5), p95: of(0.95), requests, refused, error_rate: failed / requests };
}
