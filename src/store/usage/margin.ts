import { COST_PARTS, isListed } from '../../domain/pricing/parts.ts';
import { wholeMonth } from '../../domain/reports/day-range.ts';
import { PRICE_NAMES } from '../../domain/settings/model.ts';
import * as schema from '../../domain/settings/schema.ts';
import type { Sql } from '../connection/pool.ts';
import { costAtRates, costFormula } from '../statement/cost.ts';
import { requireRows } from '../statement/moves.ts';
import { DAY } from '../statement/sums.ts';
import { readPresentMonth } from './company-usage.ts';
import { type Column, type Fragment, grouped, readCube, SUMMED, sumsOf } from './cube.ts';

/** The margin: what calls earned, what they cost by the operator's cost prices, and figures of upstreams beside it. For operators only. */

const { count, day, id, string, sum, textOrNull } = schema;
const sumOrNull = schema.orNull(sum);
/** With one decimal. */
const percent = schema.orNull<number>({ type: 'number' });

/** Revenue and cost of some calls. */
const sums = schema.object({
  requests: count,
  revenue_eur: sum,
  // revenue of calls without a cost price, which are in neither cost nor margin
  uncosted_eur: sum,
  // of the calls with a cost price; null where no call has one
  cost_eur: sumOrNull,
  margin_eur: sumOrNull,
  // of the revenue of calls with a cost price; null when that is 0
  margin_percent: percent,
});
/** What upstreams tell of them; null where they tell nothing. */
const told = schema.object({
  cached_percent: schema.described(
    percent,
    "of the prompt tokens, from the upstream's cache, where it tells them",
  ),
  upstream: schema.orNull(
    schema.object({
      requests: schema.described(count, 'calls of which the upstream told its own cost'),
      revenue_eur: sum,
      costs: schema.array(schema.object({ currency: string, cost: string }), 'as told'),
      cost_eur: schema.described(sumOrNull, 'null: a part is in a currency whose rate is not set'),
      margin_eur: sumOrNull,
      margin_percent: percent,
    }),
  ),
});
const ofModel = { model: string };
/** The name is null for a company that is gone. */
const ofCompany = { company_id: id, company_name: textOrNull };
const all = { ...sums.properties, ...told.properties };

/** A month of all companies, the highest revenue first, as administration over HTTP answers. */
export const MARGIN = schema.object({
  month: day,
  total: schema.object(all),
  by_model: schema.array(schema.object({ ...all, ...ofModel })),
  by_company: schema.array(schema.object({ ...all, ...ofCompany })),
  companies: schema.described(count, 'how many have calls'),
  lines: schema.array(schema.object({ ...all, ...ofModel, ...ofCompany })),
  without_cost: schema.array(string, 'models with calls and no cost price'),
  // with API calls, and the requested and the present month; newest first
  months: schema.array(day),
  told: schema.described(
    schema.object({ cost: schema.boolean, cached: schema.boolean }),
    'whether upstreams told their own cost, and cached tokens, of any call',
  ),
  // the rate is the EUR that one unit is worth; null: not known
  upstream_currency: schema.object({ currency: string, rate: textOrNull }),
});

export type MarginSums = schema.Value<typeof sums>;
export type ToldSums = schema.Value<typeof told>;
export type DetailedMargin = schema.Value<typeof MARGIN>;
export type DetailedModel = DetailedMargin['by_model'][number];
export type DetailedCompany = DetailedMargin['by_company'][number];
/** A margin without the figures of upstreams. */
interface MarginMonth
  extends Pick<DetailedMargin, 'month' | 'companies' | 'without_cost' | 'months'> {
  readonly total: MarginSums;
  readonly by_model: readonly Omit<DetailedModel, keyof ToldSums>[];
  readonly by_company: readonly Omit<DetailedCompany, keyof ToldSums>[];
  readonly lines: readonly Omit<DetailedMargin['lines'][number], keyof ToldSums>[];
}

/** Tokens of which a cost price may be. */
const CACHED = ['cached_tokens', 'cache_write_tokens'] as const;

const NOTHING: ToldSums = { cached_percent: null, upstream: null };

/** "1.5 USD"; "2 CHF + 1.5 USD" where the currency changed. */
export function costsText({ costs }: NonNullable<ToldSums['upstream']>): string {
  return costs.map(({ currency, cost }) => `${cost} ${currency}`).join(' + ');
}

interface Row extends ToldSums {
  readonly place: string;
}

/**
 * The margin of a month, with the figures of upstreams for the same lines, companies and models.
 * @param month as `readMargin` takes it
 * @param worth how this report counts the upstream's own cost; the ledger keeps what was told
 */
export async function readDetailedMargin(
  sql: Sql,
  month: string | null,
  worth: DetailedMargin['upstream_currency'],
  extent?: MarginExtent,
): Promise<DetailedMargin> {
  const margin = await readMargin(sql, month, extent);
  const ways = [
    [],
    ['model_slug'],
    ['company_id'],
    ...(margin.lines.length > 0 ? [['company_id', 'model_slug']] : []),
  ];
  // "company/model", each empty where it stands for all
  const place = sql`of, company_id, concat(company_id, '/', model_slug) as place`;
  const details = readCube(sql, {
    company: null,
    range: wholeMonth(margin.month),
    by: ['company_id', 'model_slug'],
    measures: ['cached_tokens', 'prompt_tokens'],
  });
  const percent = sql`round(sum(cached_tokens) * 100 / nullif(sum(prompt_tokens), 0), 1) as cached_percent`;
  const costs = sql`sum(requests) as requests, sum(cost) as cost, sum(cost_eur) as revenue`;
  const [{ rows }] = await sql<[{ rows: readonly Row[] }]>`
    with details as materialized (${details}),
    upstream as materialized (
      select company_id, model_slug, currency, requests, cost, cost_eur
      from upstream_cost_monthly where billing_month = ${margin.month}::date
    ),
    cached as (
      select ${place}, cached_percent from (${grouped(sql, ways, percent, sql`details`)}) g
    ),
    costs as (
      select ${place}, currency, requests, cost, revenue,
        cost * case currency when 'EUR' then 1 when ${worth.currency} then ${worth.rate}::numeric end as eur
      from (${grouped(
        sql,
        ways.map((way) => [...way, 'currency']),
        costs,
        sql`upstream`,
      )}) g
    ),
    told as (
      select of, company_id, place, sum(requests) as requests, sum(revenue) as revenue,
        jsonb_agg(jsonb_build_object('currency', currency, 'cost', trim_scale(cost)::text) order by currency) as costs,
        case when count(eur) = count(*) then sum(eur) end as eur
      from costs group by of, company_id, place
    )
    select coalesce(jsonb_agg(jsonb_build_object('place', place, 'cached_percent', cached_percent,
      'upstream', case when t.requests > 0 then jsonb_build_object('requests', t.requests,
        'revenue_eur', trim_scale(revenue)::text, 'costs', costs, 'cost_eur', trim_scale(eur)::text,
        'margin_eur', trim_scale(revenue - eur)::text,
        'margin_percent', round((revenue - eur) * 100 / nullif(revenue, 0), 1)) end)), '[]') as rows
    from cached c full join told t using (of, place)
    where of <> 2 or coalesce(c.company_id, t.company_id) = any(${margin.by_company.map(({ company_id }) => company_id)}::uuid[])`;
  const told = new Map(rows.map((row) => [row.place, row]));
  const add = <T extends MarginSums>(sums: T, company = '', model = ''): T & ToldSums => {
    const { cached_percent, upstream } = told.get(`${company}/${model}`) ?? NOTHING;
    return { ...sums, cached_percent, upstream };
  };
  const total = add(margin.total);
  return {
    ...margin,
    total,
    by_model: margin.by_model.map((line) => add(line, '', line.model)),
    by_company: margin.by_company.map((line) => add(line, line.company_id)),
    lines: margin.lines.map((line) => add(line, line.company_id, line.model)),
    told: { cost: total.upstream !== null, cached: total.cached_percent !== null },
    upstream_currency: worth,
  };
}

/** How much of a margin is read: companies, and lines of a company and a model. */
export interface MarginExtent {
  readonly companies: number;
  readonly lines: boolean;
}

const ALL: MarginExtent = { companies: 1_000_000, lines: true };

/**
 * The margin of a month: revenue is the ledger's, cost is tokens × the cost price of the day. A company's own model has
 * a cost price of its own, or none, and counts for the days at whose end it was there. To read less, models are summed
 * over all companies, less their own models, and by day only where cost prices began or own models changed. Of models
 * whose cost price has rates, or parts beyond those of the cache, the calls themselves are read.
 * @param month its first day; null: the present one in the billing time zone
 * @throws RefusedChange when such calls are away
 */
export async function readMargin(
  sql: Sql,
  month: string | null,
  extent: MarginExtent = ALL,
): Promise<MarginMonth> {
  const shown = month ?? (await readPresentMonth(sql));
  const { changes, cached, rated } = await costPricesOf(sql, shown);
  if (rated) await requireRows(sql, [shown]);
  const day = changes ? 'day' : 'billing_month';
  const cells = (
    by: readonly Column[],
    where?: { readonly columns: readonly Column[]; readonly holds: Fragment },
  ) => {
    const of = { company: null, range: wholeMonth(shown), where, by: [...by, day] } as const;
    const columns = sql.unsafe([...by, day].join(', '));
    const told = sql`left join (${readCube(sql, { ...of, measures: CACHED })}) d using (${columns})`;
    const tokens = CACHED.map((name) =>
      cached ? `coalesce(d.${name}, 0) as ${name}` : `0 as ${name}`,
    );
    return sql`select ${sql.unsafe(by.join(', '))}, ${sql.unsafe(day)} as day,
        ${sql.unsafe([...SUMMED.map((name) => `c.${name}`), ...tokens].join(', '))}
      from (${readCube(sql, { ...of, measures: SUMMED })}) c ${cached ? told : sql``}`;
  };
  const ofCompany = ['company_id', 'model_slug'] as const;
  const earning = sql`company_id in (select company_id from callers order by revenue desc, company_id limit ${extent.companies})`;
  const isOwn = sql`(company_id, model_slug) in (select company_id, slug from own)`;
  const margins = sql`sum(requests) as requests, sum(cost_eur) as revenue, sum(cost) as cost,
    coalesce(sum(cost_eur) filter (where cost is null), 0) as uncosted`;
  const ways = [['company_id'], ...(extent.lines ? [ofCompany] : [])];
  const [row] = await sql<[{ report: MarginMonth }]>`
    with asked as materialized (select ${shown}::date as month, value as zone from settings where name = 'billing_timezone'),
    -- those of this month alone, so that each call is compared with one or two
    prices as materialized (
      select p.* from (
        select slug, company_id, valid_from as first,
          lead(valid_from, 1, 'infinity') over (partition by slug, company_id order by valid_from) as after, ${sql(PRICE_NAMES)}, rates
        from model_cost_prices) as p, asked
      where first < month + interval '1 month' and after > month
    ),
    -- at the end of which days a company had a model of its own
    own as materialized (
      select slug, company_id, (valid_from at time zone zone)::date as first, (ended at time zone zone)::date as last
      from (select slug, company_id, valid_from, input,
          lead(valid_from, 1, 'infinity') over (partition by slug, company_id order by valid_from) as ended
        from model_prices where company_id is not null) as p, asked
      where input is not null
    ),
    callers as materialized (select company_id, api_cost_eur as revenue from monthly_spend where requests > 0 and billing_month = ${shown}::date),
    company_cells as (${cells(ofCompany, { columns: ofCompany, holds: earning })}),
    own_cells as materialized (
      select c.* from (${cells(ofCompany, { columns: ofCompany, holds: isOwn })}) c
      join own w on w.company_id = c.company_id and w.slug = model_slug and day >= w.first and day < w.last
    ),
    model_cells as (
      select null::uuid as company_id, model_slug, day, ${sumsOf(sql)}, sum(cached_tokens) as cached_tokens, sum(cache_write_tokens) as cache_write_tokens
      from (
        ${cells(['model_slug'])}
        union all select model_slug, day, -requests, -prompt_tokens, -completion_tokens, -cost_eur, -cached_tokens, -cache_write_tokens from own_cells) m
      group by 2, 3 having sum(requests) > 0
      union all select * from own_cells
    ),
    ${rated ? ratedCells(sql, shown) : sql``}
    costed_models as materialized (${costed(sql, 'model_cells')} ${rated ? withRated(sql, sql`true`) : sql``}),
    costed_companies as (${costed(sql, 'company_cells')} ${rated ? withRated(sql, earning) : sql``}),
    models as (${grouped(sql, [[], ['model_slug']], margins, sql`costed_models`)}),
    earners as (${grouped(sql, ways, margins, sql`costed_companies`)}),
    sums as (
      select of + 2 as of, null::uuid as company_id, model_slug, requests, revenue, cost, uncosted from models
      union all
      select of, company_id, ${extent.lines ? sql`model_slug` : sql`null`}, requests, revenue, cost, uncosted from earners
    ),
    lines as (
      select of, s.company_id, c.name, model_slug, revenue, jsonb_build_object('requests', coalesce(requests, 0),
        'revenue_eur', trim_scale(coalesce(revenue, 0))::text, 'cost_eur', trim_scale(cost)::text, 'uncosted_eur', trim_scale(uncosted)::text,
        'margin_eur', trim_scale(revenue - uncosted - cost)::text,
        'margin_percent', round((revenue - uncosted - cost) * 100 / nullif(revenue - uncosted, 0), 1)) as line
      from sums s left join companies c on c.id = s.company_id
    ),
    known as (select month from usage_months() as month)
    select ${reportOf(sql)} as report`;
  return row.report;
}

/** The report as JSON, from its lines. */
function reportOf(sql: Sql) {
  return sql`
    jsonb_build_object('month', to_char((select month from asked), 'YYYY-MM-DD'),
      'total', (select line from lines where of = 2),
      'by_model', (select coalesce(jsonb_agg(line || jsonb_build_object('model', model_slug) order by revenue desc, model_slug), '[]')
        from lines where of = 3),
      'by_company', (select coalesce(jsonb_agg(line || jsonb_build_object('company_id', company_id, 'company_name', name)
        order by revenue desc, company_id), '[]') from lines where of = 0),
      'lines', (select coalesce(jsonb_agg(line || jsonb_build_object('model', model_slug, 'company_id', company_id, 'company_name', name)
        order by name, company_id, model_slug), '[]') from lines where of = 1),
      'companies', (select count(*) from callers),
      'without_cost', (select coalesce(jsonb_agg(distinct model_slug), '[]') from costed_models where cost is null),
      'months', (select jsonb_agg(to_char(month, 'YYYY-MM-DD') order by month desc) from (
        select month from known where month is not null union select month from asked union select billing_month(now())) as m))`;
}

/** Cells of a table with their cost; null where there is no cost price. A company that is null has no model of its own. */
function costed(sql: Sql, cells: 'model_cells' | 'company_cells') {
  const at = (prices: string) => sql.unsafe(costFormula((part) => `${prices}.${part}`));
  return sql`
    select c.company_id, c.model_slug, c.requests, c.cost_eur, case when w.slug is not null then ${at('o')} else ${at('s')} end as cost
    from ${sql(cells)} c ${priced(sql, 'c')}`;
}

/** Common table expressions: the models whose cost price takes their calls, and cells of these with their cost. */
function ratedCells(sql: Sql, month: string) {
  return sql`rated as materialized (select distinct slug from prices where ${sql.unsafe(IS_RATED)}),
    rated_calls as materialized (
      select u.*, ${sql.unsafe(DAY)} as day from api_usage u, (select zone from asked) as z
      where billing_month = ${month}::date and model_slug = any(array(select slug from rated))),
    rated_cells as materialized (
      select company_id, model_slug, count(*) as requests, sum(cost_eur) as cost_eur, sum(cost) as cost
      from (select u.*, case when w.slug is not null then to_jsonb(o) else to_jsonb(s) end as base from rated_calls u ${priced(sql, 'u')}) u
      ${sql.unsafe(costAtRates())}
      group by company_id, model_slug, day),`;
}

/** Replaces the cells of these models. @param holds condition of companies */
function withRated(sql: Sql, holds: Fragment) {
  return sql`where c.model_slug not in (select slug from rated)
    union all select company_id, model_slug, requests, cost_eur, cost from rated_cells where ${holds}`;
}

/** The cost prices `o` of own models and `s` of shared ones, and `w` where a company had a model of its own. */
function priced(sql: Sql, cells: string) {
  return sql.unsafe(`left join own w on w.company_id = ${cells}.company_id and w.slug = ${cells}.model_slug and ${cells}.day >= w.first and ${cells}.day < w.last
    left join prices o on o.company_id = ${cells}.company_id and o.slug = ${cells}.model_slug and ${cells}.day >= o.first and ${cells}.day < o.after
    left join (select * from prices where company_id is null) s on s.slug = ${cells}.model_slug and ${cells}.day >= s.first and ${cells}.day < s.after`);
}

/** Whether a cost price has rates, or parts of which no sum of the ledger has the units. */
const IS_RATED = `(rates is not null or coalesce(${COST_PARTS.filter(isListed).join(', ')}) is not null)`;

/**
 * `changes`: whether a cost price began, or a company's own model changed, after the first day of a month and before its
 * end. `cached`: whether a cost price asks for tokens of the cache. `rated`: whether one of the month takes the calls themselves.
 */
async function costPricesOf(
  sql: Sql,
  month: string,
): Promise<{ changes: boolean; cached: boolean; rated: boolean }> {
  const [row] = await sql<[{ changes: boolean; cached: boolean; rated: boolean }]>`
    with asked as (select ${month}::date as month, value as zone from settings where name = 'billing_timezone')
    select exists (
        select 1 from model_cost_prices, asked where valid_from > month and valid_from < month + interval '1 month')
      or exists (
        select 1 from model_prices, asked where company_id is not null
          and (valid_from at time zone zone)::date between month and month + interval '1 month') as changes,
      exists (select from model_cost_prices where coalesce(cache_read, cache_write) is not null) as cached,
      exists (select from model_cost_prices, asked where ${sql.unsafe(IS_RATED)} and valid_from < month + interval '1 month') as rated`;
  return row;
}
