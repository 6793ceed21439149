import { BILLING_ZONE } from '../connection/expressions.ts';
import type { Sql } from '../connection/pool.ts';

/** A call that the last month has of a shared model: what its price depends on, and what it cost. */
export interface PastCall {
  readonly slug: string;
  readonly prompt: number;
  readonly completion: number;
  readonly cached: number | null;
  readonly cacheWrite: number | null;
  readonly cacheWriteHour: number | null;
  readonly audioPrompt: number | null;
  readonly imagePrompt: number | null;
  readonly reasoning: number | null;
  readonly audioCompletion: number | null;
  readonly imageCompletion: number | null;
  readonly searchUnits: number | null;
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
      select model_slug, company_id, prompt_tokens, completion_tokens, cached_tokens, cache_write_tokens, cache_write_1h_tokens, audio_prompt_tokens,
        image_prompt_tokens, reasoning_tokens, audio_completion_tokens, image_completion_tokens, search_units, rate, occurred_at, cost_eur
      from api_usage where model_slug = any(${[...slugs]}::text[])
        and billing_month = (date_trunc('month', now() at time zone ${sql.unsafe(BILLING_ZONE)}) - interval '1 month')::date
    )
    select model_slug as slug, prompt_tokens::float8 as prompt, completion_tokens::float8 as completion, cached_tokens::float8 as cached,
      cache_write_tokens::float8 as "cacheWrite", cache_write_1h_tokens::float8 as "cacheWriteHour", audio_prompt_tokens::float8 as "audioPrompt",
      image_prompt_tokens::float8 as "imagePrompt", reasoning_tokens::float8 as reasoning, audio_completion_tokens::float8 as "audioCompletion",
      image_completion_tokens::float8 as "imageCompletion", search_units::float8 as "searchUnits", rate,
      extract(epoch from occurred_at)::float8 * 1000 as at, trim_scale(f.factor)::text as factor, trim_scale(cost_eur)::text as cost
    from u, price_factor(u.company_id, u.occurred_at) f
    where (select l.company_id from list_price(u.model_slug, u.company_id, u.occurred_at) l) is null`.cursor(
    5000,
  );
}
