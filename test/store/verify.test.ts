import { randomUUID } from 'node:crypto';
import t from 'tap';
import type { Sql } from '../../src/store/database.ts';
import { verifyLedger } from '../../src/store/verify.ts';
import { testDatabase } from '../support/postgres.ts';
import { addUsage } from '../support/usage.ts';

const { db } = await testDatabase(t);
const run = <T>(work: (sql: Sql) => Promise<T>) => db.run(10_000, work);
const company = randomUUID();
const chatOnly = randomUUID();

t.test('an empty ledger agrees with itself', async (t) => {
  t.same(await run(verifyLedger), { checked: 0, differences: [] });
});

t.test('counters moved with the rows agree, per company and month', async (t) => {
  await run(async (sql) => {
    await addUsage(sql, [
      { company, prompt: 3, completion: 4, input: '0.1', output: '0.000000000001' },
      { company, prompt: 5, input: '0.1' },
      { company, month: '2026-10-01', prompt: 5, input: '0.1' },
    ]);
    await sql`insert into chat_usage (company_id, occurred_at, cost_eur)
      values (${company}, '2026-11-03T00:00:00Z', 0.25), (${chatOnly}, '2026-09-30T23:59:59Z', 1)`;
  });
  t.same(await run(verifyLedger), { checked: 3, differences: [] });
});

t.test('each counter that is off is named, with what it says and what the rows add up to', async (t) => {
  await run(async (sql) => {
    await sql`update monthly_spend set requests = requests + 1, api_cost_eur = api_cost_eur - 0.000000000000001
      where company_id = ${company} and billing_month = '2026-11-01'`;
    await sql`delete from monthly_spend where company_id = ${chatOnly}`;
    await sql`insert into monthly_spend (company_id, billing_month, prompt_tokens) values (${chatOnly}, '2027-01-01', 7)`;
  });
  const { checked, differences } = await run(verifyLedger);
  t.equal(checked, 4);
  t.same(differences, [
    { company_id: chatOnly, month: '2026-09', counter: 'chat_cost_eur', counted: '0', rows: '1' },
    {
      company_id: company,
      month: '2026-11',
      counter: 'api_cost_eur',
      counted: '0.000800000000003',
      rows: '0.000800000000004',
    },
    { company_id: company, month: '2026-11', counter: 'requests', counted: '3', rows: '2' },
    { company_id: chatOnly, month: '2027-01', counter: 'prompt_tokens', counted: '7', rows: '0' },
  ]);
});
