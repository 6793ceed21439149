import { RefusedChange } from '../domain/refused-change.ts';
import type { Sql } from './database.ts';

/** Sums over ledger rows. EUR is exact decimal text. */
export interface UsageSums {
  readonly requests: number;
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly cost_eur: string;
}

/**
 * A company's month as pages show it. Read from `usage_daily`: the same sums as over the ledger, from
 * a few thousand rows instead of millions. All EUR amounts are exact decimal text.
 */
export interface UsageMonth extends Omit<UsageSums, 'cost_eur'> {
  /** First day, "2026-11-01". */
  readonly month: string;
  readonly api_cost_eur: string;
  readonly chat_cost_eur: string;
  /** API plus in-app chat: what the budget gate compares. */
  readonly total_cost_eur: string;
  /** Whether it is the present month, in the billing time zone. */
  readonly current: boolean;
  readonly days_in_month: number;
  readonly company_name: string;
  /** The budget that holds at present; null when unlimited. */
  readonly budget_eur: string | null;
  /** The month's cost if it goes on like this, to the cent; null for a past month and during its first day. */
  readonly forecast_eur: string | null;
  /** Percent of the budget with one decimal: in-app chat, total, forecast. Null without a budget. */
  readonly chat_percent: number | null;
  readonly total_percent: number | null;
  readonly forecast_percent: number | null;
  readonly by_model: readonly UsageGroup[];
  /** Name and prefix are null for a key that no longer exists. */
  readonly by_key: readonly (Omit<UsageGroup, 'name'> & {
    readonly id: string;
    readonly name: string | null;
    readonly prefix: string | null;
  })[];
  readonly by_endpoint: readonly UsageGroup[];
  readonly by_ending: readonly (UsageSums & { readonly outcome: string; readonly usage_source: string })[];
  /** Cost by day of month and model. */
  readonly by_day: readonly { readonly day: number; readonly model: string; readonly cost_eur: string }[];
  /** Months with any usage, and the requested and the present month; newest first. */
  readonly months: readonly string[];
}

/** One line of a table; tables have the most expensive first. */
export interface UsageGroup extends UsageSums {
  readonly name: string;
  /** Calls with estimated tokens, and calls that did not complete. */
  readonly estimated: number;
  readonly unfinished: number;
}

/**
 * @param month its first day; null for the present one in the billing time zone
 * @throws RefusedChange not_found
 */
export async function readUsageMonth(sql: Sql, companyId: string, month: string | null): Promise<UsageMonth> {
  // one statement is one snapshot, so tables, chart and totals agree
  const [row] = await sql<{ page: UsageMonth }[]>`
    with asked as materialized (
      select c.id, c.name, company_budget(c) as budget, z.value as zone, billing_month(now()) as present,
        coalesce(${month}::date, billing_month(now())) as month
      from companies c, settings z where c.id = ${companyId} and z.name = 'billing_timezone'
    ),
    total as (
      select a.*, coalesce(requests, 0) as requests, coalesce(prompt_tokens, 0) as prompt_tokens,
        coalesce(completion_tokens, 0) as completion_tokens, coalesce(api_cost_eur, 0) as api,
        coalesce(chat_cost_eur, 0) as chat, coalesce(api_cost_eur + chat_cost_eur, 0) as cost,
        extract(epoch from now() - a.month::timestamp at time zone a.zone) as elapsed,
        extract(epoch from (a.month + interval '1 month')::timestamp at time zone a.zone - a.month::timestamp at time zone a.zone) as length
      from asked a left join monthly_spend s on s.company_id = a.id and s.billing_month = a.month
    ),
    forecast as (
      select *, case when month = present and elapsed >= 86400 then round(cost * length / elapsed, 2) end as forecast from total
    ),
    cells as materialized (
      select d.* from usage_daily d, asked a where d.company_id = a.id and d.billing_month = a.month
    ),
    groups as materialized (
      select grouping(day, model_slug, api_key_id, endpoint, outcome) as of, day, model_slug, api_key_id, endpoint, outcome, usage_source,
        sum(cost_eur) as cost, sum(requests) as requests, sum(prompt_tokens) as prompt_tokens,
        sum(completion_tokens) as completion_tokens,
        coalesce(sum(requests) filter (where usage_source = 'estimated'), 0) as estimated,
        coalesce(sum(requests) filter (where outcome <> 'completed'), 0) as unfinished
      from cells group by grouping sets ((day, model_slug), (model_slug), (api_key_id), (endpoint), (outcome, usage_source))
    ),
    lines as (
      select g.*, jsonb_build_object('requests', requests, 'prompt_tokens', prompt_tokens,
        'completion_tokens', completion_tokens, 'cost_eur', trim_scale(cost)::text, 'estimated', estimated,
        'unfinished', unfinished) as sums
      from groups g
    )
    select jsonb_build_object(
      'month', to_char(f.month, 'YYYY-MM-DD'), 'current', f.month = f.present,
      'days_in_month', extract(day from f.month + interval '1 month' - interval '1 day'),
      'company_name', f.name, 'budget_eur', trim_scale(f.budget)::text, 'requests', f.requests,
      'prompt_tokens', f.prompt_tokens, 'completion_tokens', f.completion_tokens,
      'api_cost_eur', trim_scale(f.api)::text, 'chat_cost_eur', trim_scale(f.chat)::text,
      'total_cost_eur', trim_scale(f.cost)::text, 'forecast_eur', f.forecast::text,
      'chat_percent', round(f.chat * 100 / f.budget, 1), 'total_percent', round(f.cost * 100 / f.budget, 1),
      'forecast_percent', round(f.forecast * 100 / f.budget, 1),
      'by_model', coalesce((select jsonb_agg(sums || jsonb_build_object('name', model_slug) order by cost desc, model_slug)
        from lines where of = 23), '[]'),
      'by_key', coalesce((select jsonb_agg(sums || jsonb_build_object('id', api_key_id, 'name', k.name, 'prefix', k.prefix)
          order by cost desc, api_key_id)
        from lines left join api_keys k on k.id = api_key_id and k.company_id = f.id where of = 27), '[]'),
      'by_endpoint', coalesce((select jsonb_agg(sums || jsonb_build_object('name', endpoint) order by cost desc, endpoint)
        from lines where of = 29), '[]'),
      'by_ending', coalesce((select jsonb_agg(sums || jsonb_build_object('outcome', outcome, 'usage_source', usage_source)
        order by outcome <> 'completed', outcome, usage_source desc) from lines where of = 30), '[]'),
      'by_day', coalesce((select jsonb_agg(jsonb_build_object('day', extract(day from day), 'model', model_slug, 'cost_eur', trim_scale(cost)::text)
        order by day, model_slug) from lines where of = 7 and date_trunc('month', day) = f.month), '[]'),
      'months', (select jsonb_agg(to_char(month, 'YYYY-MM-DD') order by month desc) from (
        select billing_month as month from monthly_spend where company_id = f.id
        union select f.month union select f.present) as known)) as page
    from forecast f`;
  if (row === undefined) throw new RefusedChange('not_found', 'company', `There is no company ${companyId}.`);
  return row.page;
}

/**
 * What a company, or one of its keys, has spent in the present month: exact decimal text. That of a company includes
 * in-app chat.
 */
export async function readSpent(sql: Sql, company: string, key: string | null = null): Promise<string> {
  const ofKey = sql`select sum(cost_eur) from usage_daily where company_id = ${company} and api_key_id = ${key}`;
  const ofCompany = sql`select sum(api_cost_eur + chat_cost_eur) from monthly_spend where company_id = ${company}`;
  const [row] = await sql<[{ spent: string }]>`
    select trim_scale(coalesce((${key === null ? ofCompany : ofKey} and billing_month = billing_month(now())), 0))::text as spent`;
  return row.spent;
}
