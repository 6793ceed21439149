import type { Sql } from '../../src/store/connection/pool.ts';

export interface Rows {
  readonly companies: readonly string[];
  readonly keys: readonly string[];
  readonly rows: number;
  /** Other seeds make other request ids. */
  readonly seed: number;
  /** A partition to insert into instead of the ledger. */
  readonly into?: string;
  /** First day of their month. */
  readonly month?: string;
}

const MODELS = ['swift', 'solid', 'far-away', 'vectors', 'atelier', 'scholar', 'tiny'];

/** Inserts ledger rows of every kind by SQL, the same for the same arguments. Days are those of the billing time zone. */
export async function insertUsage(sql: Sql, asked: Rows): Promise<void> {
  const { companies, keys, rows, seed, into = 'api_usage', month = '2026-11-01' } = asked;
  await sql`
    insert into ${sql(into)} (billing_month, request_id, company_id, api_key_id, model_slug, upstream_model, endpoint,
      prompt_tokens, completion_tokens, cost_eur, price_input, price_output, usage_source, outcome, occurred_at, cost_center)
    select ${month}::date, md5(${seed} || 'row ' || i)::uuid,
      (${companies as string[]}::uuid[])[1 + i % ${companies.length}::int], (${keys as string[]}::uuid[])[1 + i % ${keys.length}::int],
      (${MODELS}::text[])[1 + (i * 7 + i / 11) % ${MODELS.length}::int], 'internal-' || i % 3,
      (array['chat.completions', 'chat.completions', 'embeddings', 'assistants.run'])[1 + i % 4],
      prompt, completion, (prompt * 0.000123456789 + completion * 0.0015) * 0.001, 0.000123456789, 0.0015,
      case when i % 19 = 0 then 'estimated' else 'upstream' end,
      case when i % 23 = 0 then 'client_aborted' when i % 29 = 0 then 'upstream_failed' else 'completed' end,
      (${month}::timestamp + (i * 997 % 28) * interval '1 day' + (i * 31 % 1440) * interval '1 minute')
        at time zone (select value from settings where name = 'billing_timezone')
      , (array['', '', 'Einkauf', 'R&D', 'IT''s'])[1 + i / 3 % 5]
    from (select i, 100 + i * 37 % 9000 as prompt, i * 53 % 2500 as completion from generate_series(1, ${rows}::int) as i) as made`;
}
