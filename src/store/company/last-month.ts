import { COUNTED_PARTS, partOf } from '../../domain/pricing/parts.ts';
import type { Depends, PastCalls } from '../../domain/reports/price-preview.ts';
import type { PartName } from '../../json/usage-counts.ts';
import { BILLING_ZONE, utcMicrosecond } from '../connection/expressions.ts';
import type { Sql } from '../connection/pool.ts';

/** The billing month before the present one, by its first day. */
export async function lastMonth(sql: Sql): Promise<string> {
  const [{ month }] = await sql<[{ month: string }]>`
    select (date_trunc('month', now() at time zone ${sql.unsafe(BILLING_ZONE)}) - interval '1 month')::date as month`;
  return month;
}

/**
 * The calls of a month to some models, in groups that cost alike.
 * @param owner the company whose own models they are: all its calls of these names. null: shared models, without calls at a
 * price of a company's own, and companies that have one now
 */
export async function* pastCalls(
  sql: Sql,
  month: string,
  slugs: readonly string[],
  owner: string | null,
  { overs, instants, counts, isPlain }: Depends,
): AsyncGenerator<readonly PastCalls[]> {
  const names = [...slugs];
  // companies with a factor or a price of their own, and when another one began about this month: they are set by hand
  const special = await sql<{ company: string; begins: string[] | null }[]>`
    select company_id as company, array_agg(${sql.unsafe(utcMicrosecond('valid_from'))})
      filter (where valid_from > ${month}::date - interval '1 day' and valid_from < ${month}::date + interval '32 days') as begins
    from (select company_id, valid_from from company_price_factors
      union all select company_id, valid_from from model_prices where company_id is not null and slug = any(${names}::text[])) as each
    group by company_id`;
  const priced = special.map(({ company }) => company);
  const changed = special.flatMap(({ company, begins }) => (begins === null ? [] : company));
  const asked = sql`billing_month = ${month} and model_slug = any(${names}::text[]) and (${owner}::uuid is null or company_id = ${owner})`;
  const isChanged = sql`company_id = any(${changed}::uuid[])`;
  const days = sql`
    select *, (${month}::date + interval '12 hours') at time zone 'UTC' as first, null as rate, 0::float8 as longest, array[prompt - coalesce(told, 0)] as untold
    from (select company_id, model_slug as slug, sum(requests)::float8 as calls, ${sql.unsafe(TOKENS)}
        from usage_company_days where ${asked} and not ${isChanged} group by company_id, model_slug) as d
      left join (select company_id, model_slug as slug, sum(cached_tokens)::float8 as cached, sum(prompt_tokens)::float8 as told
        from usage_details where ${asked} and not ${isChanged} group by company_id, model_slug) as p using (company_id, slug)`;
  const { columns, fit } = countsIn(counts);
  const rows = (where: typeof asked, group: string, bounds: readonly string[]) => sql`
    select company_id, model_slug as slug, rate, count(*)::float8 as calls, ${sql.unsafe(TOKENS)},
      max(prompt_tokens)::float8 as longest, min(occurred_at) as first, ${sql.unsafe(columns)}
    from api_usage where ${asked} and ${where}
    group by company_id, model_slug, rate ${sql.unsafe(group)}
      ${bounds.length === 0 ? sql`` : sql`, width_bucket(occurred_at, (select array_agg(at::timestamptz order by at::timestamptz) from unnest(${[...bounds]}::text[]) as at))`}`;
  const fitting = sql.unsafe(fit ?? 'true');
  // booleans, because Postgres expects a group for nearly every row of other expressions, and sorts them on disk
  const lengths = overs.map((over) => `, prompt_tokens > ${Number(over)}`).join('');
  const hours = instants.map((at) => at.toISOString());
  const begins = special.flatMap((each) => each.begins ?? []);
  const groups = [
    isPlain ? days : rows(sql`not ${isChanged} and ${fitting}`, lengths, hours),
    ...(changed.length === 0
      ? []
      : [rows(sql`${isChanged} and ${fitting}`, lengths, [...hours, ...begins])]),
    ...(fit === null ? [] : [rows(sql`not (${fitting})`, ', request_id', [])]),
  ];
  for (const calls of groups) {
    // materialized: rows may be on other servers than prices and factors
    yield* sql<PastCalls[]>`
      with u as materialized (${calls})
      select u.*, extract(epoch from first)::float8 * 1000 as at, case when company_id = any(${priced}::uuid[])
        then (select trim_scale(f.factor)::text from price_factor(company_id, first) f) else '1' end as factor
      from u where ${owner}::uuid is not null or not company_id = any(${priced}::uuid[])
        or ((select l.company_id from list_price(slug, u.company_id, first) l) is null
          and not exists (select from models m where m.company_id = u.company_id and m.slug = u.slug))`.cursor(
      ROWS_AT_ONCE,
    );
  }
}

const ROWS_AT_ONCE = 1000;
const TOKENS = `sum(prompt_tokens)::float8 as prompt, sum(completion_tokens)::float8 as completion, trim_scale(sum(cost_eur))::text as cost`;

/**
 * The columns with counts of some calls, and the condition that those of a row fit into what they are among: only then sums
 * of them cost what they cost. null: they always fit, as the ledger takes none that is larger than its whole.
 */
function countsIn(counts: readonly PartName[]) {
  const parts = counts.flatMap((asked) => COUNTED_PARTS.filter(({ count }) => count === asked));
  const untold = parts.map(({ part, column }) => {
    const { within } = partOf(part);
    return `coalesce(${within === null ? 'count(*)' : `sum(${within}_tokens)`} filter (where ${column} is null), 0)`;
  });
  const columns = [
    ...parts.map(({ count, column }) => `sum(${column})::float8 as "${count}"`),
    `array[${untold}]::float8[] as untold`,
  ];
  const fits = (among: typeof parts, whole: string) =>
    `${among.map(({ column }) => `coalesce(${column}, 0)`).join(' + ')} <= ${whole}`;
  const hour = parts.filter(
    ({ count }) => count === 'cacheWriteHour' && counts.includes('cacheWrite'),
  );
  const of = (side: 'prompt' | 'completion') =>
    parts.filter((each) => partOf(each.part).within === side && !hour.includes(each));
  const sides = (['prompt', 'completion'] as const).flatMap((side) =>
    of(side).length < 2 ? [] : fits(of(side), `${side}_tokens`),
  );
  const all = hour.length === 0 ? sides : [...sides, fits(hour, 'coalesce(cache_write_tokens, 0)')];
  return { columns: columns.join(', '), fit: all.length === 0 ? null : all.join(' and ') };
}
