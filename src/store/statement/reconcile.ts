import type { BilledCall } from '../../domain/documents/reconcile.ts';
import { BILLING_ZONE } from '../connection/expressions.ts';
import type { Sql } from '../connection/pool.ts';
import { costFormula } from './cost.ts';

/**
 * Ledger rows of all companies admitted between two instants, milliseconds since the epoch.
 * @param isCosted whether to compute what each call should cost by `model_cost_prices`; about 20 µs a call
 */
export async function readCalls(
  sql: Sql,
  from: number,
  to: number,
  isCosted: boolean,
): Promise<BilledCall[]> {
  const calls: BilledCall[] = [];
  const [since, until] = [new Date(from).toISOString(), new Date(to).toISOString()];
  // materialized: rows may be on other servers than the prices
  const rows = sql<(Omit<BilledCall, 'name'> & { requestId: string })[]>`
    with u as materialized (
      select request_id, upstream_model, model_slug, company_id, prompt_tokens, completion_tokens, cached_tokens, cache_write_tokens, cost_eur, occurred_at
      from api_usage where occurred_at between ${since}::timestamptz and ${until}::timestamptz
        and billing_month between (${since}::timestamptz - interval '2 days' - interval '1 month')::date and (${until}::timestamptz + interval '2 days')::date
    )
    select request_id::text as "requestId", upstream_model as model, prompt_tokens::float8 as "promptTokens",
      completion_tokens::float8 as "completionTokens", extract(epoch from occurred_at)::float8 * 1000 as at,
      ${isCosted ? expectedCost(sql) : sql`null`} as cost, trim_scale(cost_eur)::text as charged, company_id as "companyId"
    from u`;
  for await (const batch of rows.cursor(5000)) {
    for (const row of batch) calls.push({ ...row, name: row.requestId });
  }
  return calls;
}

/** Tokens × the cost price of the day: that of the company's own model where the call was of one, else the shared one. */
function expectedCost(sql: Sql) {
  return sql`(
    select trim_scale(${sql.unsafe(costFormula((part) => `p.${part}`))})::text from model_cost_prices p
    where p.slug = u.model_slug
      and p.company_id is not distinct from (select l.company_id from list_price(u.model_slug, u.company_id, u.occurred_at) l)
      and p.valid_from <= (u.occurred_at at time zone ${sql.unsafe(BILLING_ZONE)})::date
    order by p.valid_from desc limit 1)`;
}
