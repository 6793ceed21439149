import type { Sql } from './database.ts';

/** A counter of `monthly_spend` that is not the sum of the rows it stands for. */
export interface Difference {
  readonly company_id: string;
  /** "2026-11". */
  readonly month: string;
  readonly counter: 'requests' | 'prompt_tokens' | 'completion_tokens' | 'api_cost_eur' | 'chat_cost_eur';
  /** Exact decimal text: what the counter says, and what the rows add up to. */
  readonly counted: string;
  readonly rows: string;
}

/**
 * Compares every counter with the rows of `api_usage` and `chat_usage`, per company and
 * month. Reads the whole ledger, in one statement and so in one snapshot: safe while
 * rows are being written.
 * @returns how many companies' months were compared, and what differs
 */
export async function verifyLedger(sql: Sql): Promise<{ checked: number; differences: Difference[] }> {
  const [row] = await sql<[{ checked: number; differences: Difference[] | null }]>`
    with rows as (
      select company_id, billing_month, sum(requests) as requests, sum(prompt_tokens) as prompt_tokens,
        sum(completion_tokens) as completion_tokens, sum(api) as api_cost_eur, sum(chat) as chat_cost_eur
      from (
        select company_id, billing_month, count(*) as requests, sum(prompt_tokens) as prompt_tokens,
          sum(completion_tokens) as completion_tokens, sum(cost_eur) as api, 0 as chat
        from api_usage group by 1, 2
        union all
        select company_id, billing_month(occurred_at), 0, 0, 0, 0, sum(cost_eur) from chat_usage group by 1, 2
      ) as sums group by 1, 2
    ),
    compared as (
      select company_id, to_char(billing_month, 'YYYY-MM') as month, counter, counted, rows
      from rows r full join monthly_spend s using (company_id, billing_month)
      cross join lateral (values
        ('requests', s.requests, r.requests),
        ('prompt_tokens', s.prompt_tokens, r.prompt_tokens),
        ('completion_tokens', s.completion_tokens, r.completion_tokens),
        ('api_cost_eur', s.api_cost_eur, r.api_cost_eur),
        ('chat_cost_eur', s.chat_cost_eur, r.chat_cost_eur)
      ) as pair (counter, counted, rows)
    )
    select (count(*) / 5)::integer as checked,
      json_agg(json_build_object('company_id', company_id, 'month', month, 'counter', counter,
          'counted', trim_scale(coalesce(counted, 0))::text, 'rows', trim_scale(coalesce(rows, 0))::text)
        order by month, company_id, counter)
      filter (where coalesce(counted, 0) <> coalesce(rows, 0)) as differences
    from compared`;
  return { checked: row.checked, differences: row.differences ?? [] };
}
