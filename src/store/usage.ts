import type { Endpoint } from '../domain/usage.ts';
import { findCompany } from './company.ts';
import type { Sql } from './database.ts';

/** Sums over ledger rows. EUR is exact decimal text. */
export interface UsageSums {
  readonly requests: number;
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly cost_eur: string;
}

/** A company's month. EUR amounts are exact decimal text. */
export interface UsageTotals extends Omit<UsageSums, 'cost_eur'> {
  readonly month: string;
  readonly api_cost_eur: string;
  readonly chat_cost_eur: string;
  /** API plus in-app chat: what the budget gate compares. */
  readonly total_cost_eur: string;
}

/** One company's month, "2026-11" in the billing time zone (spec section 5, rule 6). */
export interface UsageSummary extends UsageTotals {
  readonly company_id: string;
  readonly company_name: string;
  /** The present budget; null when unlimited. */
  readonly monthly_budget_eur: string | null;
  /** Most expensive first. */
  readonly by_model: readonly (UsageSums & { readonly model_slug: string })[];
  readonly by_endpoint: readonly (UsageSums & { readonly endpoint: Endpoint })[];
}

/**
 * @param month its first day, "2026-11-01"; null for the current one in the billing time zone
 * @throws RefusedChange not_found
 */
export async function summarizeUsage(sql: Sql, companyId: string, month: string | null): Promise<UsageSummary> {
  const company = await findCompany(sql, companyId);
  // one statement is one snapshot, so the groups add up to the totals
  const [row] = await sql<{ total: UsageTotals; by_model: Group[] | null; by_endpoint: Group[] | null }[]>`
    with asked as (select coalesce(${month}::date, billing_month(now())) as month),
    rows as (
      select model_slug, endpoint, grouping(model_slug) as over_models, count(*) as requests,
        sum(prompt_tokens) as prompt_tokens, sum(completion_tokens) as completion_tokens, sum(cost_eur) as cost
      from api_usage where billing_month = (select month from asked) and company_id = ${companyId}
      group by grouping sets ((model_slug), (endpoint))
    ),
    groups as (
      select over_models, cost, coalesce(model_slug, endpoint) as name, json_build_object(
        'name', coalesce(model_slug, endpoint), 'requests', requests, 'prompt_tokens', prompt_tokens,
        'completion_tokens', completion_tokens, 'cost_eur', trim_scale(cost)::text) as entry
      from rows
    )
    select
      (select json_build_object(
        'month', to_char(asked.month, 'YYYY-MM'), 'requests', coalesce(requests, 0),
        'prompt_tokens', coalesce(prompt_tokens, 0), 'completion_tokens', coalesce(completion_tokens, 0),
        'api_cost_eur', trim_scale(coalesce(api_cost_eur, 0))::text,
        'chat_cost_eur', trim_scale(coalesce(chat_cost_eur, 0))::text,
        'total_cost_eur', trim_scale(coalesce(api_cost_eur + chat_cost_eur, 0))::text)
      from asked left join monthly_spend s on s.billing_month = asked.month and s.company_id = ${companyId}) as total,
      (select json_agg(entry order by cost desc, name) from groups where over_models = 0) as by_model,
      (select json_agg(entry order by cost desc, name) from groups where over_models = 1) as by_endpoint`;
  const { total, by_model, by_endpoint } = row as NonNullable<typeof row>;
  return {
    company_id: company.id,
    company_name: company.name,
    ...total,
    monthly_budget_eur: company.monthly_budget_eur === '0' ? null : company.monthly_budget_eur,
    by_model: (by_model ?? []).map(({ name, ...sums }) => ({ model_slug: name, ...sums })),
    by_endpoint: (by_endpoint ?? []).map(({ name, ...sums }) => ({ endpoint: name as Endpoint, ...sums })),
  };
}

type Group = UsageSums & { readonly name: string };
