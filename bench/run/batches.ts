import { randomUUID } from 'node:crypto';
import { newRequestId } from '../../src/runtime/request-id.ts';
import { openDatabase } from '../../src/store/connection/pool.ts';
import { ledgerStore } from '../../src/store/gateway/ledger.ts';

/**
 * Books batches as a gateway's writer does, one after the other, until an instant of `performance.now()`.
 * @param companies that take turns by chance, with a key each
 * @param atEnd is called before the writer's connection is closed: its process still tells what it used
 * @returns rows
 */
export async function bookBatches(
  url: string,
  rows: number,
  companies: number,
  until: number,
  atEnd: () => Promise<void> = async () => {},
): Promise<number> {
  const db = openDatabase({ url, maxConnections: 1 });
  const writer = randomUUID();
  let count = 0;
  try {
    do {
      await ledgerStore(db).insert(writer, batchOf(rows, companies), null);
      count += rows;
    } while (performance.now() < until);
    await atEnd();
  } finally {
    await db.close();
  }
  return count;
}

/** Records of the ledger as gateways send them. */
export function batchOf(rows: number, companies: number): Buffer {
  const now = new Date();
  const month = `${now.toISOString().slice(0, 7)}-01`;
  const records = Array.from({ length: rows }, () => {
    const company = Math.floor(Math.random() * companies);
    const id = `00000000-0000-4000-8000-${`${company}`.padStart(12, '0')}`;
    return {
      billing_month: month,
      request_id: newRequestId(),
      company_id: id,
      api_key_id: id,
      model_slug: 'fast',
      upstream_model: 'internal-fast',
      endpoint: 'chat.completions',
      prompt_tokens: 200,
      completion_tokens: 100,
      cost_eur: '0.00025',
      price_input: '0.0005',
      price_output: '0.0015',
      usage_source: 'upstream',
      outcome: 'completed',
      occurred_at: now.toISOString(),
    };
  });
  return Buffer.from(JSON.stringify(records));
}
