import {
  type CompanyMargin,
  type MarginExtent,
  type MarginMonth,
  type MarginSums,
  type ModelMargin,
  readMargin,
} from '../company/cost-price.ts';
import type { Sql } from '../connection/pool.ts';

/** Figures of upstreams beside a margin: their own cost, and the share of prompt tokens from their caches. */

/** The currency of the upstream's own cost, and its rate. */
interface UpstreamCurrency {
  /** "USD". */
  readonly currency: string;
  /** EUR for one unit, exact decimal text; null: not known. */
  readonly rate: string | null;
}

/** EUR and other amounts are exact decimal text; percent has one decimal. */
export interface ToldSums {
  /** Percent of prompt tokens that were cached, in calls that tell cached tokens; null where none does. */
  readonly cached_percent: number | null;
  /** The upstream's own cost; null where it told none. */
  readonly upstream: UpstreamSums | null;
}

interface UpstreamSums {
  /** Calls whose cost the upstream told, and their cost to the companies. */
  readonly requests: number;
  readonly revenue_eur: string;
  /** As told, by currency. */
  readonly costs: readonly { readonly currency: string; readonly cost: string }[];
  /** null: a part of it is in a currency without a rate. */
  readonly cost_eur: string | null;
  readonly margin_eur: string | null;
  readonly margin_percent: number | null;
}

export type DetailedModel = ModelMargin & ToldSums;
export type DetailedCompany = CompanyMargin & ToldSums;

/** A margin with the figures of upstreams. */
export interface DetailedMargin extends Omit<MarginMonth, 'total' | 'by_model' | 'by_company' | 'lines'> {
  readonly total: MarginSums & ToldSums;
  readonly by_model: readonly DetailedModel[];
  readonly by_company: readonly DetailedCompany[];
  readonly lines: readonly (DetailedModel & DetailedCompany)[];
  /** Whether there is an upstream's cost, and a cached share, of any call. */
  readonly told: { readonly cost: boolean; readonly cached: boolean };
  readonly upstream_currency: UpstreamCurrency;
}

const NOTHING: ToldSums = { cached_percent: null, upstream: null };

/** "1.5 USD"; "2 CHF + 1.5 USD" where the currency changed. */
export function costsText({ costs }: UpstreamSums): string {
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
  worth: UpstreamCurrency,
  extent?: MarginExtent,
): Promise<DetailedMargin> {
  const margin = await readMargin(sql, month, extent);
  const sets = sql`grouping sets ((), (model_slug), (company_id) ${margin.lines.length > 0 ? sql`, (company_id, model_slug)` : sql``})`;
  // "company/model", each empty where it stands for all
  const place = sql`grouping(company_id, model_slug) as of, company_id, concat(company_id, '/', model_slug) as place`;
  const [{ rows }] = await sql<[{ rows: readonly Row[] }]>`
    with details as materialized (
      select company_id, model_slug, sum(cached_tokens) as cached_tokens, sum(prompt_tokens) as prompt_tokens
      from usage_details where billing_month = ${margin.month}::date group by 1, 2
    ),
    upstream as materialized (
      select company_id, model_slug, currency, requests, cost, cost_eur
      from upstream_cost_monthly where billing_month = ${margin.month}::date
    ),
    cached as (
      select ${place}, round(sum(cached_tokens) * 100 / nullif(sum(prompt_tokens), 0), 1) as cached_percent
      from details group by ${sets}
    ),
    costs as (
      select ${place}, currency, sum(requests) as requests, sum(cost) as cost, sum(cost_eur) as revenue,
        sum(cost) * case currency when 'EUR' then 1 when ${worth.currency} then ${worth.rate}::numeric end as eur
      from upstream group by ${sets}, currency
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
    where of <> 1 or coalesce(c.company_id, t.company_id) = any(${margin.by_company.map(({ company_id }) => company_id)}::uuid[])`;
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
