import type { Sql } from 'postgres';
import type { DemoCall } from '../../src/demo/request.ts';
import { costOf, formatEur, parseEur, parsePrices } from '../../src/domain/money.ts';
import type { Sql as StoreSql } from '../../src/store/database.ts';
import { verifyLedger, verifySeals, verifySums } from '../../src/store/verify.ts';
import type { Journalled } from './load.ts';

/** What the ledger holds, against the journals of clients and upstream. */
export interface Verdict {
  /** Answers complete at the client. */
  readonly complete: number;
  readonly rows: number;
  /** Complete answers without a row; rows of one request beyond the first; rows that differ from the upstream's journal. */
  readonly missing: string[];
  readonly duplicates: number;
  readonly wrong: string[];
  /** Differences between rows, counters and seals. */
  readonly unverified: number;
}

interface Row {
  request_id: string;
  month: string;
  prompt_tokens: number;
  completion_tokens: number;
  cost: string;
  price_input: string;
  price_output: string;
  usage_source: string;
  outcome: string;
}

export async function judge(
  sql: Sql,
  clients: readonly Journalled[],
  upstream: ReadonlyMap<string, DemoCall>,
): Promise<Verdict> {
  const rows = await sql<Row[]>`
    select request_id::text, billing_month::text as month, prompt_tokens::integer, completion_tokens::integer,
      trim_scale(cost_eur)::text as cost, price_input::text, price_output::text, usage_source, outcome from api_usage`;
  const byRequest = new Map(rows.map((row) => [row.request_id, row]));
  const complete = clients.filter((one) => one.complete && one.status === 200);
  const wrong: string[] = [];
  for (const one of clients) {
    const row = one.requestId === null ? undefined : byRequest.get(one.requestId);
    if (row === undefined) continue;
    const usage = upstream.get(one.marker)?.usage;
    if (row.usage_source === 'upstream') {
      const same =
        row.prompt_tokens === usage?.prompt_tokens && row.completion_tokens === (usage.completion_tokens ?? 0);
      if (!same)
        wrong.push(`${row.request_id}: ${row.prompt_tokens}+${row.completion_tokens}, told ${JSON.stringify(usage)}`);
    } else if (one.complete) wrong.push(`${row.request_id}: estimated although the upstream told`);
    const cost = costOf(parsePrices(row.price_input, row.price_output), row.prompt_tokens, row.completion_tokens);
    if (formatEur(cost) !== formatEur(parseEur(row.cost))) wrong.push(`${row.request_id}: costs ${row.cost}`);
  }
  const { differences } = await verifyLedger(sql as unknown as StoreSql);
  const daily = await verifySums(sql as unknown as StoreSql, 'daily');
  const seals = await verifySeals(sql as unknown as StoreSql);
  return {
    complete: complete.length,
    rows: rows.length,
    missing: complete.filter(({ requestId }) => !byRequest.has(requestId as string)).map(({ marker }) => marker),
    duplicates: rows.length - byRequest.size,
    wrong,
    unverified: differences.length + daily.total + seals.total + seals.unsealed,
  };
}
