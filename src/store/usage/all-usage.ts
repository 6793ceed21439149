import { type DayRange, intervalOf } from '../../domain/reports/day-range.ts';
import * as schema from '../../domain/settings/schema.ts';
import type { UsageSums } from '../../domain/usage.ts';
import { TOKEN_DETAILS } from '../../domain/usage.ts';
import { askedOfPrices } from '../company/price.ts';
import type { Sql } from '../connection/pool.ts';
import {
  atOf,
  cachedSums,
  compared,
  EXPLAINED,
  explained,
  lastInstantOf,
  movers,
  moversJson,
  type RatedSums,
  readCached,
  readRated,
  type TimeCost,
  timesJson,
} from './change.ts';
import { type Groups, upToNow } from './company-usage.ts';
import { NO_FILTERS, readCube, readMoves, SUMMED, type Times, usageSums } from './cube.ts';

/** Usage of all companies together, in a range of days of the billing time zone. API calls alone; EUR is exact decimal text. */

/** A company by its cost; the name is null for a removed one. */
export interface CompanyCost {
  readonly id: string;
  readonly name: string | null;
  readonly cost_eur: string;
}

export interface AllUsage extends UsageSums {
  /** Those that cost most first. */
  readonly by_model: readonly (UsageSums & { readonly model: string })[];
  /** null where none are asked for, and with a filter for a model: no sum has the days of companies by model. */
  readonly by_company: Groups<CompanyCost> | null;
  /** By day of up to 62 days ("2026-11-21"), else by month ("2026-11-01"), and model; in order. */
  readonly by_time: readonly {
    readonly at: string;
    readonly model: string;
    readonly cost_eur: string;
  }[];
}

/**
 * Reads the sums without companies and keys, and one row of a company's key and month for the companies.
 * @param most companies; null: none, and the rows of companies, which are most of all, are not read
 * @param model null: all
 */
export async function readAllUsage(
  sql: Sql,
  range: DayRange,
  most: number | null,
  model: string | null = null,
): Promise<AllUsage> {
  const at = intervalOf(range) === 'month' ? 'billing_month' : 'day';
  const all = { company: null, range, filters: { ...NO_FILTERS, model } };
  const companies = {
    company: null,
    range: await upToNow(sql, range),
    by: ['company_id'],
    measures: ['cost_eur'],
  } as const;
  const isRanked = most !== null && model === null;
  const [row] = await sql<[{ usage: AllUsage }]>`
    with cells as materialized (${readCube(sql, { ...all, by: [at, 'model_slug'], measures: SUMMED })}),
    costs as materialized (${isRanked ? readCube(sql, companies) : sql`select null::uuid as company_id, null::numeric as cost_eur where false`}),
    dearest as (select company_id, cost_eur as cost from costs order by cost desc, company_id limit ${most})
    select jsonb_build_object(
      'requests', coalesce(sum(requests), 0), 'prompt_tokens', coalesce(sum(prompt_tokens), 0),
      'completion_tokens', coalesce(sum(completion_tokens), 0), 'cost_eur', trim_scale(coalesce(sum(cost_eur), 0))::text,
      'by_model', (select coalesce(jsonb_agg(m order by cost desc, model), '[]') from (
        select model_slug as model, sum(cost_eur) as cost, ${usageSums(sql)} from cells group by 1) m),
      'by_company', case when ${isRanked} then jsonb_build_object('count', (select count(*) from costs), 'lines', (
        select coalesce(jsonb_agg(jsonb_build_object('id', company_id, 'name', name, 'cost_eur', trim_scale(cost)::text) order by cost desc, company_id), '[]')
        from dearest left join companies c on c.id = company_id)) end,
      'by_time', (select coalesce(jsonb_agg(jsonb_build_object('at', to_char(${sql.unsafe(at)}, 'YYYY-MM-DD'), 'model', model_slug,
        'cost_eur', trim_scale(cost_eur)::text) order by ${sql.unsafe(at)}, model_slug), '[]') from cells)) as usage
    from cells`;
  return row.usage;
}

export const ALL_CHANGE = schema.object({
  ...EXPLAINED,
  // no sum has the days of companies by model
  by_company: schema.described(
    schema.orNull(movers({ id: schema.id, name: schema.textOrNull })),
    'those that changed most first; null with a filter for a model',
  ),
});
export type AllChange = schema.Value<typeof ALL_CHANGE>;

const MOST_MOVERS = 20;

/**
 * Why all companies together spent more or less, and who. A company's own model has its own price, and companies with a
 * factor on their prices have one together with those of the same factor: their calls are taken from those of the others.
 * @param model null: all
 */
export async function readAllChange(
  sql: Sql,
  { before, after }: Times,
  model: string | null,
  most = MOST_MOVERS,
): Promise<AllChange> {
  const at = atOf({ before, after });
  const all = {
    company: null,
    filters: { ...NO_FILTERS, model },
    range: { before, after },
    measures: SUMMED,
  };
  const isOwn = sql`(company_id, model_slug) in (select company_id, slug from owned)`;
  const isFactored = sql`company_id in (select company_id from factored)`;
  // first by their companies, so that no others are read
  const apart = sql`company_id = any(array(select company_id from owned union select company_id from factored)) and (${isOwn} or ${isFactored})`;
  const { cached: asksForCached, listed } = await askedOfPrices(sql);
  const asks = asksForCached || listed;
  const ofOwn = { columns: ['company_id', 'model_slug'], holds: apart } as const;
  const cached = readCached(sql, asks, { ...all, by: ['model_slug'] });
  const ownCached = readCached(sql, asks, {
    ...all,
    where: ofOwn,
    by: ['company_id', 'model_slug'],
  });
  const summed = TOKEN_DETAILS.map((name) => `sum(${name})::float8 as ${name}`).join(', ');
  type Row = { models: Parameters<typeof compared>[1]; by_time: readonly TimeCost[] };
  const whose = sql`owned as materialized (select distinct slug, company_id from model_prices where company_id is not null),
    factored as materialized (
      select company_id, trim_scale(factor)::text as factor from (
        select distinct company_id, ${sql.unsafe(lastInstantOf('asked'))} as at from company_price_factors, (select ${before.to}::date as asked) as day) c,
        price_factor(company_id, at) where factor <> 1)`;
  const [{ models, by_time }] = await sql<[Row]>`
    with ${whose},
    own as materialized (${readCube(sql, { ...all, where: ofOwn, by: ['company_id', 'model_slug'] })}),
    whole as materialized (${readCube(sql, { ...all, by: [at, 'model_slug'] })}),
    shared as (
      select time, model_slug, requests, prompt_tokens, completion_tokens, cost_eur from whole
      union all select time, model_slug, -requests, -prompt_tokens, -completion_tokens, -cost_eur from own
    ),
    own_cached as materialized (${ownCached}),
    shared_cached as (
      select time, model_slug, ${sql.unsafe(summed)} from (
        select * from (${cached}) c union all select time, model_slug, ${sql.unsafe(TOKEN_DETAILS.map((name) => `-${name}`).join(', '))} from own_cached) c
      group by 1, 2
    )
    select ${timesJson(sql, sql.unsafe(at), sql`whole`)} as by_time,
      coalesce(jsonb_agg(m), '[]') as models from (
      select time, null::uuid as company_id, '1' as factor, model_slug as model, ${usageSums(sql)}, ${cachedSums(sql)}
      from shared left join shared_cached using (time, model_slug) group by 1, 4 having sum(requests) > 0
      union all select time, case when ${isOwn} then company_id end, case when ${isOwn} then '1' else factor end, model_slug, ${usageSums(sql)},
        ${sql.unsafe(summed)}
      from own left join own_cached using (time, company_id, model_slug) left join factored using (company_id) group by 1, 2, 3, 4) m`;
  const rated = !listed
    ? []
    : await sql<RatedSums[]>`
        with ${whose}, rated as (${readRated(sql, { ...all, by: ['company_id', 'model_slug'] })})
        select time, case when ${isOwn} then company_id end as company_id, case when ${isOwn} then '1' else coalesce(factor, '1') end as factor,
          model_slug as model, rate, ${usageSums(sql)}, ${sql.unsafe(summed)}
        from rated left join factored using (company_id) group by 1, 2, 3, 4, 5`;
  const lines = await compared(sql, models, rated, before.to);
  const by_company = model === null ? await readMovers(sql, { before, after }, most) : null;
  return { ...explained(lines), by_time, by_company };
}

/** The companies whose cost changed most. */
async function readMovers(sql: Sql, times: Times, most: number) {
  const [row] = await sql<[{ movers: NonNullable<AllChange['by_company']> }]>`
    with movers as materialized (${readMoves(sql, { company: null, range: times, by: ['company_id'] })})
    select ${moversJson(sql, sql`movers`, sql`company_id`, sql`left join companies c on c.id = x.company_id`, sql`'id', x.company_id, 'name', c.name`, most)} as movers`;
  return row.movers;
}
