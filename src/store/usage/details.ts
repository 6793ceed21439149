import type { DayRange } from '../../domain/reports/day-range.ts';
import { TOKEN_DETAILS } from '../../domain/usage.ts';
import type { Sql } from '../connection/pool.ts';
import { grouped, readCube, type UsageFilters } from './cube.ts';

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
  if (filters.key !== null || filters.keys !== null) return null;
  const measures = ['requests', 'prompt_tokens', ...TOKEN_DETAILS] as const;
  const figures = measures.map((name) => `sum(${name})::float8 as ${name}`).join(', ');
  const cached =
    'round(sum(cached_tokens) * 100 / nullif(sum(prompt_tokens), 0), 1)::float8 as cached_percent';
  const models = readCube(sql, {
    company: companyId,
    range,
    filters,
    by: ['model_slug'],
    measures,
  });
  const rows = await sql<(DetailSums & { readonly model: string | null })[]>`
    select model_slug as model, requests, ${sql.unsafe(TOKEN_DETAILS.join(', '))}, cached_percent
    from (${grouped(sql, [[], ['model_slug']], sql.unsafe(`${figures}, ${cached}`), sql`(${models}) m`)}) g
    where requests > 0 order by of, prompt_tokens desc, model_slug`;
  const [total, ...by_model] = rows;
  if (total === undefined) return null;
  const { model: _, ...sums } = total;
  return { total: sums, by_model: by_model as TokenDetails['by_model'] };
}
