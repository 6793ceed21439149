import type { Sql } from 'postgres';
import type { TrailStore } from '../../src/domain/ports.ts';
import { newRequestId } from '../../src/runtime/request-id.ts';

/** One request of the trail; missing members get a default. */
export interface SomeRequest {
  /** When it came, milliseconds since the epoch. */
  readonly at?: number;
  readonly id?: string;
  readonly company?: string;
  readonly key?: string;
  readonly status?: number;
  readonly ms?: number;
  readonly addedUs?: number;
  readonly endpoint?: string;
  readonly model?: string;
  readonly asked?: string;
  readonly code?: string;
  readonly param?: string;
  readonly outcome?: string;
  readonly prompt?: number;
  readonly completion?: number;
  readonly eur?: string;
  readonly upstreamStatus?: number;
  readonly reason?: string;
}

/** Rows of one insert, as a gateway has at most some thousands: more might not be written within the deadline on a busy machine. */
const BATCH_ROWS = 1000;

/** Adds requests to the trail as gateways do. @returns their ids */
export async function addRequests(
  store: TrailStore,
  rows: readonly SomeRequest[],
): Promise<string[]> {
  const all = rows.map((row) => {
    const at = row.at ?? Date.now();
    return { ...row, at, id: row.id ?? newRequestId(at) };
  });
  const days = all.map(({ at }) => new Date(at).toISOString().slice(0, 10)).sort();
  await store.keep(365, days[0] as string, days.at(-1) as string);
  const json = all.map((row) => ({
    i: row.id,
    t: new Date(row.at).toISOString(),
    c: row.company,
    k: row.key,
    s: row.status ?? 200,
    u: row.upstreamStatus,
    d: row.ms ?? 100,
    a: row.addedUs ?? 100,
    e: row.endpoint ?? 'chat.completions',
    m: row.model,
    q: row.asked,
    x: row.code,
    p: row.param,
    o: row.outcome,
    n: row.prompt,
    g: row.completion,
    v: row.eur,
    r: row.reason,
  }));
  for (let n = 0; n < json.length; n += BATCH_ROWS)
    await store.insert(Buffer.from(JSON.stringify(json.slice(n, n + BATCH_ROWS))));
  return all.map(({ id }) => id);
}

/** The sums by day of hours that a test wrote by itself. */
export async function sumDays(sql: Sql): Promise<void> {
  await sql`truncate request_days`;
  await sql`
    with hours as (
      select *, (hour at time zone (select value from settings where name = 'billing_timezone'))::date as day from request_hours),
    buckets as (
      select company_id, day, model_slug, endpoint, array_agg(count order by bucket) as duration_buckets from (
        select company_id, day, model_slug, endpoint, bucket, sum(n)::bigint as count
        from hours, unnest(duration_buckets) with ordinality as b (n, bucket) group by 1, 2, 3, 4, 5) each
      group by 1, 2, 3, 4),
    codes as (
      select company_id, day, model_slug, endpoint, jsonb_object_agg(code, requests) as reasons from (
        select company_id, day, model_slug, endpoint, key as code, sum(value::bigint) as requests
        from hours, jsonb_each_text(reasons) group by 1, 2, 3, 4, 5) each
      group by 1, 2, 3, 4)
    insert into request_days
    select company_id, day, model_slug, endpoint, sum(requests), sum(refused), sum(failed), b.duration_buckets, coalesce(c.reasons, '{}')
    from hours join buckets b using (company_id, day, model_slug, endpoint) left join codes c using (company_id, day, model_slug, endpoint)
    group by company_id, day, model_slug, endpoint, b.duration_buckets, c.reasons`;
}
