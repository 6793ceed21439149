import type { DayRange } from '../../domain/reports/day-range.ts';
import { DURATION_BOUNDS_MS, percentileOf } from '../../domain/reports/histogram.ts';
import type { ReasonCount } from '../../domain/reports/request-explanation.ts';
import { matching } from '../connection/columns.ts';
import { bucketSums, dayBegins } from '../connection/expressions.ts';
import type { Sql } from '../connection/pool.ts';
import { grouped, ofKeys, type UsageFilters } from './cube.ts';

/** How fast and how well calls were answered; see sql/schema/requests.sql. */
export interface QualityGroup {
  /** Durations in milliseconds, of requests that were not refused; null: all were refused. */
  readonly p50: number | null;
  readonly p95: number | null;
  /** All requests in the trail, refused ones too. */
  readonly requests: number;
  /** Requests that were answered with 4xx. */
  readonly refused: number;
  /** The share of failed requests, from 0 to 1. */
  readonly error_rate: number;
}

export interface Quality {
  /** Whether the trail has requests of this range. */
  readonly hasTrail: boolean;
  /** Whether the range has more figures of keys than can be added up while somebody waits for the page. */
  readonly isTooMuch: boolean;
  /** All requests of the range; null: none is known. */
  readonly all: (QualityGroup & { readonly failed: number }) | null;
  /** The reasons of refusals and failures, the most frequent first. */
  readonly reasons: readonly ReasonCount[];
  /** By the model's slug, the key's id and the endpoint's name. */
  readonly by_model: ReadonlyMap<string, QualityGroup>;
  readonly by_key: ReadonlyMap<string, QualityGroup>;
  readonly by_endpoint: ReadonlyMap<string, QualityGroup>;
}

/** Requests and their results, as programs read them. */
export type Answers = Pick<NonNullable<Quality['all']>, 'requests' | 'refused' | 'failed'> &
  Pick<Quality, 'reasons'>;

/** The counts of requests; null: no request is known. */
export function answersOf({ all, reasons }: Quality): Answers | null {
  return all && { requests: all.requests, refused: all.refused, failed: all.failed, reasons };
}

/** The most rows of `request_hours` that are added up for a page, at 3 µs each. */
const MOST_HOURS = 40_000;

/**
 * Reads the figures of a range of days in the billing time zone. `request_days` has those of all requests, models and
 * endpoints; those of keys, and all with a filter by key, come from `request_hours`. Neither has cost centres: with a
 * filter for one there are no figures.
 * @param shown keys whose figures are wanted; null: all
 */
export async function readQuality(
  sql: Sql,
  companyId: string,
  { from, to }: DayRange,
  { model, key, endpoint, cost_center, keys }: UsageFilters,
  shown: readonly string[] | null = null,
): Promise<Quality> {
  // as values, not as a subquery: Postgres could not estimate how many hours that covers
  const [{ begins, ends }] = await sql<[{ begins: string; ends: string }]>`
    select (${sql.unsafe(dayBegins('first'))})::text as begins, (${sql.unsafe(dayBegins('last + 1'))})::text as ends
    from (select ${from}::date as first, ${to}::date as last) as days`;
  const hours = sql`request_hours
      where company_id = ${companyId} and hour >= date_trunc('hour', ${begins}::timestamptz, 'UTC') and hour < ${ends}::timestamptz
        ${ofKeys(sql, keys)} ${matching(sql, { model_slug: model, api_key_id: key, endpoint })}`;
  const [{ rows, trail }] = await sql<[{ rows: number; trail: boolean }]>`
    select (select count(*)::integer from (select 1 from ${hours} limit ${cost_center === null ? MOST_HOURS + 1 : 0}) h) as rows,
      exists (
      select 1 from request_trail where ${keys === null ? sql`company_id = ${companyId}` : sql`true ${ofKeys(sql, keys)}`}
        and occurred_at >= ${begins}::timestamptz and occurred_at < ${ends}::timestamptz) as trail`;
  const isKnown = sql`${cost_center === null && rows <= MOST_HOURS}`;
  const sums = (
    column: string,
  ) => sql`sum(requests)::bigint as requests, sum(refused)::bigint as refused, sum(failed)::bigint as failed,
    ${sql.unsafe(bucketSums(column, DURATION_BOUNDS_MS))} as buckets`;
  const days = sql`select model_slug, endpoint, requests, refused, failed, duration_buckets as buckets, reasons from request_days
      where company_id = ${companyId} and day between ${from}::date and ${to}::date ${matching(sql, { model_slug: model, endpoint })}
        and ${cost_center === null}`;
  const isOfKeys = key !== null || keys !== null;
  const [row] = await sql<[QualityRow]>`
    with cells as materialized (
      select model_slug, api_key_id, endpoint, ${sums('duration_buckets')} from ${hours} and ${isKnown} ${isOfKeys ? sql`` : ofKeys(sql, shown)}
      group by 1, 2, 3),
    days as materialized (${days}),
    groups as (${grouped(sql, [[], ['model_slug'], ['endpoint']], sums('buckets'), isOfKeys ? sql`cells` : sql`days`)} having sum(requests) > 0),
    keys as (select api_key_id, ${sums('buckets')} from cells group by 1 having sum(requests) > 0),
    wrong as (${isOfKeys ? sql`select reasons from ${hours} and reasons <> '{}' and ${isKnown}` : sql`select reasons from days`})
    select (select coalesce(json_agg(groups), '[]') from groups) as groups, (select coalesce(json_agg(keys), '[]') from keys) as keys,
      (select coalesce(json_agg(reasons order by requests desc, code), '[]') from (
        select key as code, sum(value::bigint) as requests from wrong, jsonb_each_text(reasons) group by 1) reasons) as reasons`;
  const by = (name: 'model_slug' | 'api_key_id' | 'endpoint', groups: readonly Group[]) =>
    new Map(
      groups
        .filter((group) => group[name])
        .map((group) => [group[name] as string, qualityOf(group)]),
    );
  const all = row.groups.find(({ of }) => of === 0);
  return {
    hasTrail: trail,
    isTooMuch: rows > MOST_HOURS,
    all: all === undefined ? null : { ...qualityOf(all), failed: all.failed },
    reasons: row.reasons,
    by_model: by('model_slug', row.groups),
    by_key: by('api_key_id', row.keys),
    by_endpoint: by('endpoint', row.groups),
  };
}

interface QualityRow {
  readonly groups: readonly Group[];
  readonly keys: readonly Group[];
  readonly reasons: readonly ReasonCount[];
}

interface Group {
  /** 0: of all together. */
  readonly of?: number;
  readonly model_slug?: string | null;
  readonly api_key_id?: string;
  readonly endpoint?: string | null;
  readonly requests: number;
  readonly refused: number;
  readonly failed: number;
  readonly buckets: readonly number[];
}

function qualityOf({ requests, refused, failed, buckets }: Group): QualityGroup {
  const of = (share: number) => percentileOf(DURATION_BOUNDS_MS, buckets, share);
  return { p50: of(0.5), p95: of(0.95), requests, refused, error_rate: failed / requests };
}
