import { randomUUID } from 'node:crypto';
import t from 'tap';
import type { Sql } from '../../../src/store/connection/pool.ts';
import { verifyLedger, verifySums } from '../../../src/store/statement/verify.ts';
import { testDatabase } from '../../support/postgres.ts';
import { addUsage } from '../../support/usage.ts';

const { db } = await testDatabase(t);
const run = <T>(work: (sql: Sql) => Promise<T>) => db.run(60_000, work);
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

t.test(
  'each counter that is off is named, with what it says and what the rows add up to',
  async (t) => {
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
  },
);

t.test(
  'usage by day: a figure that is off, a group without rows and rows without a group are named',
  async (t) => {
    const before = await run((sql) => verifySums(sql, 'daily'));
    t.same(before, { checked: 3, total: 0, differences: [] });
    await run(async (sql) => {
      await sql`update usage_daily set completion_tokens = 5 where company_id = ${company} and completion_tokens = 4`;
      await sql`delete from usage_daily where company_id = ${company} and billing_month = '2026-10-01'`;
      await sql`insert into usage_daily
      select company_id, billing_month, '2026-11-30', model_slug, api_key_id, endpoint, usage_source, outcome, 1, 0, 0, 0
      from usage_daily where completion_tokens = 5`;
    });
    const { checked, total, differences } = await run((sql) => verifySums(sql, 'daily'));
    t.same({ checked, total }, { checked: 4, total: 5 });
    t.same(
      differences.map(({ day, counter, counted, rows }) => [day, counter, counted, rows]),
      [
        ['2026-10-15', 'cost_eur', '0', '0.0005'],
        ['2026-10-15', 'prompt_tokens', '0', '5'],
        ['2026-10-15', 'requests', '0', '1'],
        ['2026-11-15', 'completion_tokens', '5', '4'],
        ['2026-11-30', 'requests', '1', '0'],
      ],
    );
    t.equal((await run((sql) => verifySums(sql, 'daily', 2))).differences.length, 2);
  },
);
