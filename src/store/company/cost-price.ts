import { nilId, TODAY } from '../connection/expressions.ts';
import type { Sql } from '../connection/pool.ts';

/** Cost prices of the operator, and the margin. For operators only: no tenant may read these tables. */

/** EUR per 1000 tokens that the operator pays, since a day of the billing time zone; exact decimal text. */
export interface CostPriceRow {
  readonly id: string;
  readonly slug: string;
  readonly company_id: string | null;
  readonly company_name: string | null;
  /** "2026-11-01". */
  readonly valid_from: string;
  readonly input: string;
  readonly output: string;
  readonly changed_by: string;
}

/** Revenue and cost of some calls. EUR is exact decimal text; percent has one decimal. */
export interface MarginSums {
  readonly requests: number;
  readonly revenue_eur: string;
  /** The cost of the calls with a cost price; null where no call has one. */
  readonly cost_eur: string | null;
  /** Revenue of calls without a cost price, which are in neither cost nor margin. */
  readonly uncosted_eur: string;
  readonly margin_eur: string | null;
  /** The margin in percent of the revenue of calls with a cost price; null when that is 0. */
  readonly margin_percent: number | null;
}

export type ModelMargin = MarginSums & { readonly model: string };
/** The name is null for a company that is gone. */
export type CompanyMargin = MarginSums & { readonly company_id: string; readonly company_name: string | null };

/** A month of all companies, the highest revenue first. */
export interface MarginMonth {
  /** "2026-11-01". */
  readonly month: string;
  readonly total: MarginSums;
  readonly by_model: readonly ModelMargin[];
  readonly by_company: readonly CompanyMargin[];
  /** How many companies have calls. */
  readonly companies: number;
  readonly lines: readonly (ModelMargin & CompanyMargin)[];
  /** Models with calls that have no cost price. */
  readonly without_cost: readonly string[];
  /** Months with API calls, and the requested and the present month; newest first. */
  readonly months: readonly string[];
}

/** Cost prices of a slug, the latest first, of the shared model and companies' own. */
export async function costPrices(sql: Sql, slug: string): Promise<CostPriceRow[]> {
  return sql<CostPriceRow[]>`
    select p.id, slug, company_id, c.name as company_name, valid_from::text as valid_from, trim_scale(input)::text as input,
      trim_scale(output)::text as output, changed_by
    from model_cost_prices p left join companies c on c.id = company_id
    where slug = ${slug} order by valid_from desc, company_id nulls first`;
}

/**
 * Sets the cost price of a model from a day on. The day may be in the past.
 * @param day null: today in the billing time zone
 */
export async function setCostPrice(
  sql: Sql,
  price: Pick<CostPriceRow, 'slug' | 'company_id' | 'input' | 'output'>,
  day: string | null,
): Promise<CostPriceRow> {
  const [row] = await sql<[CostPriceRow]>`
    insert into model_cost_prices as p (slug, company_id, valid_from, input, output)
    values (${price.slug}, ${price.company_id}, coalesce(${day}::date, ${sql.unsafe(TODAY)}), ${price.input}, ${price.output})
    on conflict (slug, coalesce(company_id, ${nilId(sql)}), valid_from)
    do update set input = excluded.input, output = excluded.output, changed_by = excluded.changed_by
    returning id, slug, company_id, (select name from companies where id = p.company_id) as company_name,
      valid_from::text as valid_from, trim_scale(input)::text as input, trim_scale(output)::text as output, changed_by`;
  return row;
}

export async function removeCostPrice(sql: Sql, id: string): Promise<void> {
  await sql`delete from model_cost_prices where id = ${id}`;
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
 * over all companies, less their own models, and by day only where cost prices began or own models changed.
 * @param month its first day; null: the present one in the billing time zone
 */
export async function readMargin(sql: Sql, month: string | null, extent: MarginExtent = ALL): Promise<MarginMonth> {
  const day = (await changesWithin(sql, month)) ? sql`day` : sql`billing_month`;
  const sums = sql`sum(requests) as requests, sum(prompt_tokens) as prompt, sum(completion_tokens) as completion,
    sum(cost_eur) as revenue`;
  const margins = sql`sum(requests) as requests, sum(revenue) as revenue, sum(cost) as cost,
    coalesce(sum(revenue) filter (where cost is null), 0) as uncosted`;
  const ofCompanies = extent.lines
    ? sql`select grouping(model_slug), company_id, model_slug, ${margins} from costed_companies
        group by grouping sets ((company_id), (company_id, model_slug))`
    : sql`select 1, company_id, null, ${margins} from costed_companies group by company_id`;
  const ofMonth = sql`billing_month = (select month from asked)`;
  const [row] = await sql<[{ report: MarginMonth }]>`
    with asked as materialized (${askedMonth(sql, month)}),
    -- those of this month alone, so that each call is compared with one or two
    prices as materialized (
      select p.* from (
        select slug, company_id, valid_from as first,
          lead(valid_from, 1, 'infinity') over (partition by slug, company_id order by valid_from) as after, input, output
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
    callers as materialized (select company_id, api_cost_eur as revenue from monthly_spend where requests > 0 and ${ofMonth}),
    company_cells as (
      select company_id, model_slug, ${day} as day, ${sums} from usage_company_days
      where ${ofMonth} and company_id in (select company_id from callers order by revenue desc, company_id limit ${extent.companies})
      group by 1, 2, 3
    ),
    own_cells as materialized (
      select d.company_id, model_slug, ${day} as day, ${sums} from usage_company_days d
      join own w on w.company_id = d.company_id and w.slug = model_slug and ${day} >= w.first and ${day} < w.last
      where ${ofMonth} group by 1, 2, 3
    ),
    model_cells as (
      select null::uuid as company_id, model_slug, day, sum(requests) as requests, sum(prompt) as prompt,
        sum(completion) as completion, sum(revenue) as revenue
      from (
        select model_slug, ${day} as day, ${sums} from usage_model_days where ${ofMonth} group by 1, 2
        union all select model_slug, day, -requests, -prompt, -completion, -revenue from own_cells) m
      group by 2, 3 having sum(requests) > 0
      union all select * from own_cells
    ),
    costed_models as materialized (${costed(sql, 'model_cells')}),
    costed_companies as (${costed(sql, 'company_cells')}),
    sums as (
      select case grouping(model_slug) when 1 then 3 else 2 end as of, null::uuid as company_id, model_slug, ${margins}
      from costed_models group by grouping sets ((), (model_slug))
      union all
      ${ofCompanies}
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

/** One row: the month, null being the present one, and the billing time zone. */
function askedMonth(sql: Sql, month: string | null) {
  return sql`
    select coalesce(${month}::date, billing_month(now())) as month, value as zone from settings where name = 'billing_timezone'`;
}

/** The report as JSON, from its lines. */
function reportOf(sql: Sql) {
  return sql`
    jsonb_build_object('month', to_char((select month from asked), 'YYYY-MM-DD'),
      'total', (select line from lines where of = 3),
      'by_model', (select coalesce(jsonb_agg(line || jsonb_build_object('model', model_slug) order by revenue desc, model_slug), '[]')
        from lines where of = 2),
      'by_company', (select coalesce(jsonb_agg(line || jsonb_build_object('company_id', company_id, 'company_name', name)
        order by revenue desc, company_id), '[]') from lines where of = 1),
      'lines', (select coalesce(jsonb_agg(line || jsonb_build_object('model', model_slug, 'company_id', company_id, 'company_name', name)
        order by name, company_id, model_slug), '[]') from lines where of = 0),
      'companies', (select count(*) from callers),
      'without_cost', (select coalesce(jsonb_agg(distinct model_slug), '[]') from costed_models where cost is null),
      'months', (select jsonb_agg(to_char(month, 'YYYY-MM-DD') order by month desc) from (
        select month from known where month is not null union select month from asked union select billing_month(now())) as m))`;
}

/** Cells of a table with their cost; null where there is no cost price. A company that is null has no model of its own. */
function costed(sql: Sql, cells: 'model_cells' | 'company_cells') {
  return sql`
    select c.*, case when w.slug is not null then prompt * o.input + completion * o.output
      else prompt * s.input + completion * s.output end * 0.001 as cost
    from ${sql(cells)} c
    left join own w on w.company_id = c.company_id and w.slug = c.model_slug and c.day >= w.first and c.day < w.last
    left join prices o on o.company_id = c.company_id and o.slug = c.model_slug and c.day >= o.first and c.day < o.after
    left join (select * from prices where company_id is null) s on s.slug = c.model_slug and c.day >= s.first and c.day < s.after`;
}

/** Whether a cost price began, or a company's own model changed, after the first day of a month and before its end. */
async function changesWithin(sql: Sql, month: string | null): Promise<boolean> {
  const [row] = await sql<[{ changes: boolean }]>`
    with asked as (${askedMonth(sql, month)})
    select exists (
        select 1 from model_cost_prices, asked where valid_from > month and valid_from < month + interval '1 month')
      or exists (
        select 1 from model_prices, asked where company_id is not null
          and (valid_from at time zone zone)::date between month and month + interval '1 month') as changes`;
  return row.changes;
}
