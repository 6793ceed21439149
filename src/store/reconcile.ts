import type { BilledCall } from '../domain/reconcile.ts';
import type { Sql } from './database.ts';

/** Ledger rows of all companies admitted between two instants, milliseconds since the epoch. */
export async function readCalls(sql: Sql, from: number, to: number): Promise<BilledCall[]> {
  const calls: BilledCall[] = [];
  const [since, until] = [new Date(from).toISOString(), new Date(to).toISOString()];
  const rows = sql<(Omit<BilledCall, 'name'> & { requestId: string })[]>`
    select request_id::text as "requestId", upstream_model as model, prompt_tokens::float8 as "promptTokens",
      completion_tokens::float8 as "completionTokens", extract(epoch from occurred_at)::float8 * 1000 as at
    from api_usage where occurred_at between ${since}::timestamptz and ${until}::timestamptz
      and billing_month between (${since}::timestamptz - interval '2 days' - interval '1 month')::date and (${until}::timestamptz + interval '2 days')::date`;
  for await (const batch of rows.cursor(5000)) {
    for (const row of batch) calls.push({ ...row, name: row.requestId });
  }
  return calls;
}
