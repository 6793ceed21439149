import { randomUUID } from 'node:crypto';
import type { Sql } from '../../src/store/connection/pool.ts';

/** A ledger row; missing members get a default. EUR is decimal text. */
export interface SomeUsage {
  readonly company: string;
  readonly key?: string;
  readonly request?: string;
  readonly month?: string;
  readonly model?: string;
  readonly upstream?: string;
  readonly endpoint?: string;
  readonly prompt?: number;
  readonly completion?: number;
  readonly input?: string;
  readonly output?: string;
  /** Prices of cached input; none by default. */
  readonly cacheRead?: string;
  readonly cacheWrite?: string;
  readonly at?: string;
  readonly center?: string;
  /** Id of the person behind the key; none by default. */
  readonly endUser?: string;
  /** Token details; not told by default. */
  readonly cached?: number;
  readonly written?: number;
  readonly reasoning?: number;
  readonly searchUnits?: number;
}

/** Adds rows to the ledger by plain SQL; Postgres computes the cost. */
export async function addUsage(sql: Sql, rows: readonly SomeUsage[]): Promise<void> {
  const json = rows.map((row) => ({
    billing_month: row.month ?? '2026-11-01',
    request_id: row.request ?? randomUUID(),
    company_id: row.company,
    api_key_id: row.key ?? randomUUID(),
    model_slug: row.model ?? 'fast',
    upstream_model: row.upstream ?? 'internal/fast',
    endpoint: row.endpoint ?? 'chat.completions',
    prompt_tokens: row.prompt ?? 0,
    completion_tokens: row.completion ?? 0,
    price_input: row.input ?? '0',
    price_output: row.output ?? '0',
    price_cache_read: row.cacheRead,
    price_cache_write: row.cacheWrite,
    occurred_at: row.at ?? `${(row.month ?? '2026-11-01').slice(0, 7)}-15T12:00:00Z`,
    cost_center: row.center ?? '',
    end_user_id: row.endUser,
    cached_tokens: row.cached,
    cache_write_tokens: row.written,
    reasoning_tokens: row.reasoning,
    search_units: row.searchUnits,
  }));
  await sql`
    insert into api_usage (billing_month, request_id, company_id, api_key_id, model_slug, upstream_model, endpoint,
      prompt_tokens, completion_tokens, price_input, price_output, price_cache_read, price_cache_write, cost_eur, usage_source, outcome, occurred_at, cost_center,
      cached_tokens, cache_write_tokens, reasoning_tokens, search_units, end_user_id)
    select billing_month, request_id, company_id, api_key_id, model_slug, upstream_model, endpoint,
      prompt_tokens, completion_tokens, price_input, price_output, price_cache_read, price_cache_write,
      (prompt_tokens * price_input + completion_tokens * price_output
        + coalesce(cached_tokens * (price_cache_read - price_input), 0)
        + coalesce(cache_write_tokens * (price_cache_write - price_input), 0)) * 0.001,
      'upstream', 'completed', occurred_at, cost_center, cached_tokens, cache_write_tokens, reasoning_tokens, search_units, end_user_id
    from json_to_recordset(${JSON.stringify(json)}::text::json) as row (billing_month date, request_id uuid, company_id uuid,
      api_key_id uuid, model_slug text, upstream_model text, endpoint text, prompt_tokens bigint, completion_tokens bigint,
      price_input numeric, price_output numeric, price_cache_read numeric, price_cache_write numeric, occurred_at timestamptz, cost_center text,
      cached_tokens bigint, cache_write_tokens bigint, reasoning_tokens bigint, search_units bigint, end_user_id uuid)`;
}
