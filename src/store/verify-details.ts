import { TOKEN_DETAILS } from '../domain/usage.ts';
import type { Sql } from './database.ts';
import type { SumsCheck, SumsDifference } from './verify.ts';

/** The sums of what upstreams told, with the rows that they stand for. */
const SUMS = {
  details: {
    table: 'usage_details',
    period: 'day',
    shown: "to_char(day, 'YYYY-MM-DD')",
    by: 'company_id, billing_month, day, model_slug, endpoint, cost_center',
    figures: ['requests', 'prompt_tokens', ...TOKEN_DETAILS],
    rows: `select company_id, billing_month, (occurred_at at time zone z.value)::date as day, model_slug, endpoint, cost_center,
        count(*) as requests, sum(prompt_tokens) filter (where cached_tokens is not null) as prompt_tokens,
        ${TOKEN_DETAILS.map((name) => `sum(${name}) as ${name}`).join(', ')}
      from api_usage, settings z
      where z.name = 'billing_timezone' and coalesce(${TOKEN_DETAILS.join(', ')}) is not null group by 1, 2, 3, 4, 5, 6`,
  },
  upstream: {
    table: 'upstream_cost_monthly',
    period: 'month',
    shown: "to_char(billing_month, 'YYYY-MM')",
    by: 'company_id, billing_month, model_slug, currency',
    figures: ['requests', 'cost', 'cost_eur'],
    rows: `select company_id, billing_month, model_slug, currency, count(*) as requests, sum(c.cost) as cost, sum(cost_eur) as cost_eur
      from upstream_costs c join api_usage using (company_id, billing_month, request_id) group by 1, 2, 3, 4`,
  },
} as const;

export type ToldSumsName = keyof typeof SUMS;
export const TOLD_NAMES = Object.keys(SUMS) as readonly ToldSumsName[];
/** Their tables, and what their rows are of. */
export const TOLD_TABLES: Readonly<Record<ToldSumsName, { readonly table: string; readonly period: 'day' | 'month' }>> =
  SUMS;

/**
 * Compares every figure of a table of sums of what upstreams told with the rows it stands for, as `verifySums` does.
 * @param most differences returned
 */
export async function verifyTold(sql: Sql, name: ToldSumsName, most = 1000): Promise<SumsCheck> {
  const { table, period, shown, by, figures, rows } = SUMS[name];
  const pairs = figures.map((figure) => `('${figure}', c.${figure}::numeric, r.${figure}::numeric)`).join(', ');
  const [row] = await sql<[{ checked: number; total: number; differences: SumsDifference[] | null }]>`
    with rows as materialized (${sql.unsafe(rows)}),
    counted as materialized (select * from ${sql(table)}),
    compared as (
      select company_id, ${sql.unsafe(shown)} as period, model_slug, counter, counted, rows
      from rows r full join counted c using (${sql.unsafe(by)})
      cross join lateral (values ${sql.unsafe(pairs)}) as pair (counter, counted, rows)
    ),
    different as (
      select * from compared where coalesce(counted, 0) <> coalesce(rows, 0) order by period, company_id, model_slug, counter
    )
    select (select count(*) / ${figures.length}::integer from compared)::integer as checked, (select count(*) from different)::integer as total,
      (select json_agg(json_build_object('company_id', company_id, ${period}::text, period, 'model_slug', model_slug,
          'counter', counter, 'counted', trim_scale(coalesce(counted, 0))::text, 'rows', trim_scale(coalesce(rows, 0))::text))
        from (select * from different limit ${most}) as first) as differences`;
  return { ...row, differences: row.differences ?? [] };
}
