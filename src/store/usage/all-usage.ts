import { type DayRange, intervalOf, type MonthDays, monthsIn } from '../../domain/text/day-range.ts';
import type { ExplainedChange } from '../../domain/text/usage-change.ts';
import type { UsageSums } from '../../domain/usage.ts';
import type { Sql } from '../connection/pool.ts';
import {
  atOf,
  compared,
  explained,
  type ModelChange,
  type Movers,
  moversJson,
  sumsOf,
  type TimeCost,
  type Times,
  textSums,
  timesJson,
} from './change.ts';
import { costOf, dailyRows, type Groups, hasCalls, upToNow } from './company-usage.ts';

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
  readonly by_company: Groups<CompanyCost>;
  /** By day of up to 62 days ("2026-11-21"), else by month ("2026-11-01"), and model; in order. */
  readonly by_time: readonly { readonly at: string; readonly model: string; readonly cost_eur: string }[];
}

/**
 * Reads the sums without companies and keys, and one row of a company's key and month for the companies.
 * @param most companies
 */
export async function readAllUsage(sql: Sql, range: DayRange, most: number): Promise<AllUsage> {
  const at = intervalOf(range) === 'month' ? sql`billing_month` : sql`day`;
  const costs = companyCosts(sql, await upToNow(sql, range));
  const [row] = await sql<[{ usage: AllUsage }]>`
    with cells as materialized (
      select at, model_slug, ${sumsOf(sql)} from (${modelRows(sql, range, at)}) r group by 1, 2
    ),
    costs as materialized (${costs}),
    dearest as (select * from costs order by cost desc, company_id limit ${most})
    select jsonb_build_object(
      'requests', coalesce(sum(requests), 0), 'prompt_tokens', coalesce(sum(prompt_tokens), 0),
      'completion_tokens', coalesce(sum(completion_tokens), 0), 'cost_eur', trim_scale(coalesce(sum(cost_eur), 0))::text,
      'by_model', (select coalesce(jsonb_agg(m order by cost desc, model), '[]') from (
        select model_slug as model, sum(cost_eur) as cost, ${textSums(sql)} from cells group by 1) m),
      'by_company', jsonb_build_object('count', (select count(*) from costs), 'lines', (
        select coalesce(jsonb_agg(jsonb_build_object('id', company_id, 'name', name, 'cost_eur', trim_scale(cost)::text) order by cost desc, company_id), '[]')
        from dearest left join companies c on c.id = company_id)),
      'by_time', (select coalesce(jsonb_agg(jsonb_build_object('at', to_char(at, 'YYYY-MM-DD'), 'model', model_slug,
        'cost_eur', trim_scale(cost_eur)::text) order by at, model_slug), '[]') from cells)) as usage
    from cells`;
  return row.usage;
}

/** Sums of all companies by model. @param at what a row is of: its day or its month */
function modelRows(sql: Sql, range: DayRange, at = sql`day`, model: string | null = null) {
  const chosen = model === null ? sql`true` : sql`model_slug = ${model}`;
  return dailyRows(
    sql,
    range,
    sql`select ${at} as at, model_slug, requests, prompt_tokens, completion_tokens, cost_eur from usage_model_days where ${chosen}`,
  );
}

/** `company_id` and `cost` of each company with calls: of whole months its row of the month, of parts those of its keys. */
export function companyCosts(sql: Sql, range: DayRange) {
  const { whole, parts } = monthsIn(range);
  const rows = parts.reduce(
    (before, part) => sql`${before} union all select company_id, ${costOf(sql, part)} from usage_key_months
      where billing_month = ${part.month}::date and ${hasCalls(sql, [part])}`,
    sql`select company_id, api_cost_eur as cost from monthly_spend where billing_month = any(${whole}::date[]) and requests > 0`,
  );
  return sql`select company_id, sum(cost) as cost from (${rows}) r group by 1`;
}

export interface AllChange {
  readonly total: ExplainedChange;
  readonly by_model: readonly ModelChange[];
  readonly by_time: readonly TimeCost[];
  /** null with a filter for a model: no sum has the days of companies by model. */
  readonly by_company: Movers<{ readonly id: string; readonly name: string | null }> | null;
}

const MOST_MOVERS = 20;

/**
 * Why all companies together spent more or less, and who. A company's own model has its own price: its calls are taken
 * from those of the others.
 * @param model null: all
 */
export async function readAllChange(
  sql: Sql,
  { before, after }: Times,
  model: string | null,
  most = MOST_MOVERS,
): Promise<AllChange> {
  const chosen = model === null ? sql`true` : sql`model_slug = ${model}`;
  const at = atOf(sql, { before, after });
  const shared = (time: 0 | 1, range: DayRange) => sql`
    select ${time}::integer as time, at, model_slug, ${sumsOf(sql)} from (${modelRows(sql, range, at, model)}) r group by 2, 3`;
  const ofOwn = sql`select d.company_id, model_slug, requests, prompt_tokens, completion_tokens, cost_eur
    from usage_company_days d join owned o on o.company_id = d.company_id and o.slug = model_slug where ${chosen}`;
  const own = (time: 0 | 1, range: DayRange) => sql`
    select ${time}::integer as time, company_id, model_slug, ${sumsOf(sql)} from (${dailyRows(sql, range, ofOwn)}) r group by 2, 3`;
  type Row = { models: Parameters<typeof compared>[1]; by_time: readonly TimeCost[] };
  const [{ models, by_time }] = await sql<[Row]>`
    with owned as materialized (select distinct slug, company_id from model_prices where company_id is not null),
    own as materialized (${own(0, before)} union all ${own(1, after)}),
    whole as materialized (${shared(0, before)} union all ${shared(1, after)}),
    shared as (
      select time, model_slug, requests, prompt_tokens, completion_tokens, cost_eur from whole
      union all select time, model_slug, -requests, -prompt_tokens, -completion_tokens, -cost_eur from own
    )
    select ${timesJson(sql, sql`(select time, at, sum(cost_eur) as cost from whole group by 1, 2) t`)} as by_time,
      coalesce(jsonb_agg(m), '[]') as models from (
      select time, null::uuid as company_id, model_slug as model, ${textSums(sql)} from shared group by 1, 3 having sum(requests) > 0
      union all select time, company_id, model_slug, ${textSums(sql)} from own group by 1, 2, 3) m`;
  const lines = await compared(sql, models, ({ company_id: company }) => ({ company, until: before.to }));
  const by_company = model === null ? await readMovers(sql, { before, after }, most) : null;
  return { ...explained(lines), by_time, by_company };
}

/** The companies whose cost changed most. */
async function readMovers(sql: Sql, times: Times, most: number) {
  const [row] = await sql<[{ movers: NonNullable<AllChange['by_company']> }]>`
    with movers as materialized (${companyMoves(sql, times)})
    select ${moversJson(sql, sql`movers`, sql`company_id`, sql`left join companies c on c.id = x.company_id`, sql`'id', x.company_id, 'name', c.name`, most)} as movers`;
  return row.movers;
}

/** What `companyCosts` has for both times, of the companies where it differs. Rows of a month are read once for both. */
function companyMoves(sql: Sql, times: Times) {
  const [before, after] = [monthsIn(times.before), monthsIn(times.after)];
  const cost = (whole: readonly string[]) =>
    sql`case when billing_month = any(${[...whole]}::date[]) then api_cost_eur else 0 end`;
  const parts = Map.groupBy([...before.parts, ...after.parts], ({ month }) => month);
  let rows = sql`select company_id, ${cost(before.whole)} as before, ${cost(after.whole)} as after from monthly_spend
    where billing_month = any(${[...before.whole, ...after.whole]}::date[]) and requests > 0`;
  for (const [month, days] of parts) {
    const of = (time: readonly MonthDays[]) =>
      costOf(
        sql,
        time.find((part) => part.month === month),
      );
    rows = sql`${rows} union all select company_id, ${of(before.parts)}, ${of(after.parts)} from usage_key_months
      where billing_month = ${month}::date and ${hasCalls(sql, days)}`;
  }
  return sql`select company_id, sum(before) as before, sum(after) as after from (${rows}) r group by 1 having sum(before) <> sum(after)`;
}
