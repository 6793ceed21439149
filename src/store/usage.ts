import type { Endpoint } from '../domain/usage.ts';
import { readUsageMonth, type UsageSums } from './daily.ts';
import type { Sql } from './database.ts';

/**
 * The part of a company's month that the command line prints (spec section 5, rule 6).
 * @param month its first day, "2026-11-01"; null for the current one in the billing time zone
 * @throws RefusedChange not_found
 */
export async function summarizeUsage(sql: Sql, companyId: string, month: string | null) {
  const usage = await readUsageMonth(sql, companyId, month);
  return {
    company_id: companyId,
    company_name: usage.company_name,
    /** "2026-11". */
    month: usage.month.slice(0, 7),
    requests: usage.requests,
    prompt_tokens: usage.prompt_tokens,
    completion_tokens: usage.completion_tokens,
    api_cost_eur: usage.api_cost_eur,
    chat_cost_eur: usage.chat_cost_eur,
    total_cost_eur: usage.total_cost_eur,
    monthly_budget_eur: usage.budget_eur,
    by_model: usage.by_model.map(({ name, ...group }) => ({ model_slug: name, ...sumsOf(group) })),
    by_endpoint: usage.by_endpoint.map(({ name, ...group }) => ({ endpoint: name as Endpoint, ...sumsOf(group) })),
  };
}

function sumsOf({ requests, prompt_tokens, completion_tokens, cost_eur }: UsageSums): UsageSums {
  return { requests, prompt_tokens, completion_tokens, cost_eur };
}
