import type { PartCounts } from '../../domain/pricing/parts.ts';
import { TOKEN_DETAILS } from '../../domain/usage.ts';
import { BILLING_ZONE, PART_COUNTS } from '../connection/expressions.ts';
import type { Sql } from '../connection/pool.ts';

/** A call that the last month has of a shared model: what its price depends on, and what it cost. */
export interface PastCall extends PartCounts {
  readonly slug: string;
  readonly prompt: number;
  readonly completion: number;
  /** The name of the rate that held. */
  readonly rate: string | null;
  /** Milliseconds since the epoch. */
  readonly at: number;
  /** The factor of its company, and the cost in EUR, as decimal text. */
  readonly factor: string;
  readonly cost: string;
}

/** The calls of the last billing month of some shared models, some at a time. */
export async function* lastMonthCalls(
  sql: Sql,
  slugs: readonly string[],
): AsyncGenerator<readonly PastCall[]> {
  // materialized: rows may be on other servers than prices and factors
  yield* sql<PastCall[]>`
    with u as materialized (
      select model_slug, company_id, prompt_tokens, completion_tokens, ${sql.unsafe(TOKEN_DETAILS.join(', '))}, rate, occurred_at, cost_eur
      from api_usage where model_slug = any(${[...slugs]}::text[])
        and billing_month = (date_trunc('month', now() at time zone ${sql.unsafe(BILLING_ZONE)}) - interval '1 month')::date
    )
    select model_slug as slug, prompt_tokens::float8 as prompt, completion_tokens::float8 as completion, ${sql.unsafe(PART_COUNTS)}, rate,
      extract(epoch from occurred_at)::float8 * 1000 as at, trim_scale(f.factor)::text as factor, trim_scale(cost_eur)::text as cost
    from u, price_factor(u.company_id, u.occurred_at) f
    where (select l.company_id from list_price(u.model_slug, u.company_id, u.occurred_at) l) is null`.cursor(
    5000,
  );
}
