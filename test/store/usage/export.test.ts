import { randomUUID } from 'node:crypto';
import t from 'tap';
import type { Sql } from '../../../src/store/connection/pool.ts';
import { exportLedger, LEDGER_COLUMNS, type LedgerRow } from '../../../src/store/usage/export.ts';
import { testDatabase } from '../../support/postgres.ts';
import { addUsage } from '../../support/usage.ts';

const { db } = await testDatabase(t);
const run = <T>(work: (sql: Sql) => Promise<T>) => db.run(60_000, work);

t.test('one month of one company comes out, oldest first, exact, in batches', async (t) => {
  const company = randomUUID();
  const rows = Array.from({ length: 25 }, (_, i) => ({
    company,
    prompt: i,
    input: '0.000000000001',
    at: `2026-11-${String(28 - i).padStart(2, '0')}T10:00:00.123456Z`,
  }));
  await run((sql) =>
    addUsage(sql, [
      ...rows,
      { company, month: '2026-10-01', prompt: 99 },
      { company: randomUUID(), prompt: 98 },
    ]),
  );
  const batches: (readonly LedgerRow[])[] = await run(async (sql) => {
    const read = [];
    for await (const batch of exportLedger(sql, company, '2026-11-01', 10)) read.push(batch);
    return read;
  });
  t.same(
    batches.map(({ length }) => length).filter((length) => length > 0),
    [10, 10, 5],
  );
  const exported = batches.flat();
  t.same(
    exported.map((row) => row.prompt_tokens),
    rows.map(({ prompt }) => prompt).reverse(),
  );
  t.same(Object.keys(exported[0] as LedgerRow), LEDGER_COLUMNS);
  t.match(exported[0], {
    billing_month: '2026-11-01',
    company_id: company,
    model_slug: 'fast',
    upstream_model: 'internal/fast',
    endpoint: 'chat.completions',
    prompt_tokens: 24,
    completion_tokens: 0,
    cost_eur: '0.000000000000024',
    price_input: '0.000000000001',
    price_output: '0',
    usage_source: 'upstream',
    outcome: 'completed',
    occurred_at: '2026-11-04T10:00:00.123456Z',
  });
});

t.test('leaving early closes the cursor: the connection goes on', async (t) => {
  const company = randomUUID();
  await run((sql) =>
    addUsage(
      sql,
      Array.from({ length: 50 }, () => ({ company })),
    ),
  );
  await run(async (sql) => {
    for await (const batch of exportLedger(sql, company, '2026-11-01', 10)) {
      t.equal(batch.length, 10);
      break;
    }
    const [row] = await sql`select 1 as one`;
    t.equal(row?.one, 1);
  });
});

t.test('a month without rows is empty', async (t) => {
  const rows = await run(async (sql) => {
    const read = [];
    for await (const batch of exportLedger(sql, randomUUID(), '2026-11-01')) read.push(...batch);
    return read;
  });
  t.same(rows, []);
});
