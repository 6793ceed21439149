import { wholeMonth } from '../../domain/reports/day-range.ts';
import { sumUsage } from '../../domain/usage.ts';
import type { Sql } from '../connection/pool.ts';
import { type CompanyUsage, readCompanyUsage, readPresentMonth } from './company-usage.ts';
import { NO_FILTERS } from './cube.ts';
import { readTokenDetails, type TokenDetails } from './details.ts';
import { answersOf, readQuality } from './quality.ts';

/**
 * The part of a company's month that the command line prints (spec section 5, rule 6); of a removed one too.
 * @param month its first day, "2026-11-01"; null for the current one in the billing time zone
 * @throws Refused missing
 */
export async function summarizeUsage(sql: Sql, companyId: string, month: string | null) {
  const shown = month ?? (await readPresentMonth(sql));
  const usage = await readCompanyUsage(sql, companyId, wholeMonth(shown), NO_FILTERS, null, true);
  const details = await readTokenDetails(sql, companyId, wholeMonth(shown), NO_FILTERS);
  const quality = await readQuality(sql, companyId, wholeMonth(shown), NO_FILTERS, []);
  return {
    ...summaryOf(companyId, usage, shown.slice(0, 7), details),
    answers: answersOf(quality),
  };
}

/** @param month "2026-11" */
export function summaryOf(
  companyId: string,
  usage: CompanyUsage,
  month: string,
  details: TokenDetails | null,
) {
  const ofModels = new Map(details?.by_model.map(({ model, ...sums }) => [model, sums]));
  return {
    company_id: companyId,
    company_name: usage.company_name,
    month,
    requests: usage.requests,
    prompt_tokens: usage.prompt_tokens,
    completion_tokens: usage.completion_tokens,
    api_cost_eur: usage.api_cost_eur,
    chat_cost_eur: usage.chat_cost_eur as string, // a whole month
    total_cost_eur: usage.total_cost_eur,
    monthly_budget_eur: usage.budget.budget_eur,
    // of the present day; those without such a budget are told nothing new
    ...(usage.budget.day != null && { day: usage.budget.day }),
    /** null: no upstream told any. */
    token_details: details?.total ?? null,
    by_model: usage.by_model.lines.map(({ name, ...group }) => ({
      model_slug: name,
      ...sumUsage([group]),
      token_details: ofModels.get(name) ?? null,
    })),
    by_endpoint: usage.by_endpoint.lines.map(({ name, ...group }) => ({
      endpoint: name,
      ...sumUsage([group]),
    })),
    /** Empty: calls that name none. */
    by_cost_center: usage.by_cost_center.lines.map(({ name, ...group }) => ({
      cost_center: name,
      ...sumUsage([group]),
    })),
  };
}
