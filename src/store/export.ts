import type { Sql } from './database.ts';
import { DatabaseUnavailable } from './database-error.ts';

/** The columns of `api_usage` (contract section 3) in the order of exports, as SQL expressions. */
const EXPRESSIONS = {
  billing_month: "to_char(billing_month, 'YYYY-MM-DD')",
  request_id: 'request_id',
  company_id: 'company_id',
  api_key_id: 'api_key_id',
  model_slug: 'model_slug',
  upstream_model: 'upstream_model',
  endpoint: 'endpoint',
  prompt_tokens: 'prompt_tokens::float8',
  completion_tokens: 'completion_tokens::float8',
  cost_eur: 'trim_scale(cost_eur)::text',
  price_input: 'trim_scale(price_input)::text',
  price_output: 'trim_scale(price_output)::text',
  usage_source: 'usage_source',
  outcome: 'outcome',
  occurred_at: `to_char(occurred_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`,
  cost_center: 'cost_center',
} as const;

export const LEDGER_COLUMNS = Object.keys(EXPRESSIONS) as (keyof typeof EXPRESSIONS)[];

/** One ledger row. Tokens are numbers; EUR amounts are exact decimal text, days and instants ISO 8601 in UTC. */
export type LedgerRow = Readonly<Record<keyof typeof EXPRESSIONS, string | number>>;

/**
 * One company's month, oldest first, in batches from a cursor, so that it takes the memory of one
 * batch. It is one snapshot. Leaving the loop closes the cursor.
 * @param month its first day, "2026-11-01"
 */
export function exportLedger(
  sql: Sql,
  companyId: string,
  month: string,
  batch = 1000,
): AsyncIterable<readonly LedgerRow[]> {
  return sql<LedgerRow[]>`
    select ${sql.unsafe(expressions(LEDGER_COLUMNS))}
    from api_usage where billing_month = ${month} and company_id = ${companyId}
    order by api_usage.occurred_at, request_id`.cursor(batch);
}

/**
 * One company's month as CSV with a heading, oldest first. The database writes it, from one snapshot.
 * @param write takes a piece; resolves false when nobody reads any more
 * @param internal whether to include the internal model names
 * @throws DatabaseUnavailable when the reader left: the connection, in the middle of an answer, has to be cut
 */
export async function copyLedger(
  sql: Sql,
  asked: { readonly companyId: string; readonly month: string; readonly internal: boolean },
  write: (bytes: Buffer) => Promise<boolean>,
): Promise<void> {
  // COPY takes no parameters
  if (!/^[0-9a-f-]{36}$/.test(asked.companyId) || !/^\d{4}-\d\d-01$/.test(asked.month))
    throw new TypeError('not an id or a month');
  const columns = LEDGER_COLUMNS.filter((name) => asked.internal || name !== 'upstream_model');
  const stream = await sql
    .unsafe(
      `copy (select ${expressions(columns)} from api_usage
       where billing_month = '${asked.month}' and company_id = '${asked.companyId}'
       order by api_usage.occurred_at, request_id) to stdout with (format csv, header)`,
    )
    .readable();
  for await (const bytes of stream) {
    if (!(await write(bytes))) throw new DatabaseUnavailable('ABANDONED', 'the reader left');
  }
  // with a full buffer the driver (3.4.9) pauses its socket until the stream is read again; without
  // this read the end of the statement would never arrive
  stream._read(0);
}

function expressions(columns: typeof LEDGER_COLUMNS): string {
  return columns.map((name) => `${EXPRESSIONS[name]} as ${name}`).join(', ');
}
