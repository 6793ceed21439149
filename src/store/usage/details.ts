import { type DayRange, monthsIn } from '../../domain/text/day-range.ts';
import { TOKEN_DETAILS } from '../../domain/usage.ts';
import { matching } from '../connection/columns.ts';
import type { Sql } from '../connection/pool.ts';
import { filteredColumns, isOf, isOfAllKeys, type UsageFilters } from './company-usage.ts';

/** Sums of the token details that upstreams told for some calls. */
export type DetailSums = Readonly<Record<(typeof TOKEN_DETAILS)[number], number>> & {
  /** Calls with any detail. */
  readonly requests: number;
  /** Percent of prompt tokens that were cached, in calls that tell cached tokens, with one decimal; null where none does. */
  readonly cached_percent: number | null;
};

export interface TokenDetails {
  readonly total: DetailSums;
  /** The most prompt tokens first. */
  readonly by_model: readonly (DetailSums & { readonly model: string })[];
}

/**
 * The token details of a company, in the range and with the filters of `readCompanyUsage`.
 * @returns null where no upstream told, and for single keys: the sums are of all keys together
 */
export async function readTokenDetails(
  sql: Sql,
  companyId: string,
  range: DayRange,
  filters: UsageFilters,
): Promise<TokenDetails | null> {
  if (!isOfAllKeys(filters)) return null;
  const { whole, parts } = monthsIn(range);
  const details = TOKEN_DETAILS.map((name) => `sum(${name})::float8 as ${name}`).join(', ');
  const rows = await sql<(DetailSums & { readonly model: string | null })[]>`
    select model_slug as model, sum(requests)::float8 as requests, ${sql.unsafe(details)},
      round(sum(cached_tokens) * 100 / nullif(sum(prompt_tokens), 0), 1)::float8 as cached_percent
    from usage_details
    where company_id = ${companyId} and (billing_month = any(${whole}::date[]) ${parts.reduce((all, part) => sql`${all} or (${isOf(sql, part)})`, sql``)})
      ${matching(sql, filteredColumns(filters))}
    group by rollup (model_slug) having sum(requests) > 0
    order by grouping(model_slug) desc, sum(prompt_tokens) desc, model_slug`;
  const [total, ...by_model] = rows;
  if (total === undefined) return null;
  const { model: _, ...sums } = total;
  return { total: sums, by_model: by_model as TokenDetails['by_model'] };
}
