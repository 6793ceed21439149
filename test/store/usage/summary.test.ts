import { randomUUID } from 'node:crypto';
import t from 'tap';
import { formatEur, parseEur } from '../../../src/domain/pricing/money.ts';
import { insertCompany } from '../../../src/store/company/company.ts';
import type { Sql } from '../../../src/store/connection/pool.ts';
import { summarizeUsage } from '../../../src/store/usage/summary.ts';
import { testDatabase } from '../../support/postgres.ts';
import { addUsage } from '../../support/usage.ts';

const { db } = await testDatabase(t);
const run = <T>(work: (sql: Sql) => Promise<T>) => db.run(60_000, work);
const company = async (budget: string | null = null) =>
  (await run((sql) => insertCompany(sql, { name: 'Acme', monthly_budget_eur: budget }))).id;

t.test(
  'spec 5.6: requests, tokens and EUR of a month, exact, in all and per model and endpoint',
  async (t) => {
    const id = await company('12.5');
    await run(async (sql) => {
      await addUsage(sql, [
        {
          company: id,
          model: 'a',
          prompt: 1,
          completion: 1,
          input: '0.000000000001',
          output: '0.3',
        },
        { company: id, model: 'a', prompt: 1000, input: '0.1', endpoint: 'assistants.run' },
        { company: id, model: 'b', prompt: 7, input: '0.2', endpoint: 'embeddings', center: 'Ops' },
        { company: id, month: '2026-10-01', model: 'a', prompt: 5, input: '1' },
        { company: await company(), model: 'a', prompt: 9, input: '1' },
      ]);
      await sql`insert into chat_usage (company_id, occurred_at, cost_eur) values (${id}, '2026-11-03T00:00:00Z', 0.0000000000000001)`;
    });
    t.same(await run((sql) => summarizeUsage(sql, id, '2026-11-01')), {
      company_id: id,
      company_name: 'Acme',
      month: '2026-11',
      requests: 3,
      prompt_tokens: 1008,
      completion_tokens: 1,
      api_cost_eur: '0.101700000000001',
      chat_cost_eur: '0.0000000000000001',
      total_cost_eur: '0.1017000000000011',
      monthly_budget_eur: '12.5',
      answers: null,
      token_details: null,
      by_model: [
        {
          model_slug: 'a',
          requests: 2,
          prompt_tokens: 1001,
          completion_tokens: 1,
          cost_eur: '0.100300000000001',
          token_details: null,
        },
        {
          model_slug: 'b',
          requests: 1,
          prompt_tokens: 7,
          completion_tokens: 0,
          cost_eur: '0.0014',
          token_details: null,
        },
      ],
      by_endpoint: [
        {
          endpoint: 'assistants.run',
          requests: 1,
          prompt_tokens: 1000,
          completion_tokens: 0,
          cost_eur: '0.1',
        },
        {
          endpoint: 'embeddings',
          requests: 1,
          prompt_tokens: 7,
          completion_tokens: 0,
          cost_eur: '0.0014',
        },
        {
          endpoint: 'chat.completions',
          requests: 1,
          prompt_tokens: 1,
          completion_tokens: 1,
          cost_eur: '0.000300000000001',
        },
      ],
      by_cost_center: [
        {
          cost_center: '',
          requests: 2,
          prompt_tokens: 1001,
          completion_tokens: 1,
          cost_eur: '0.100300000000001',
        },
        {
          cost_center: 'Ops',
          requests: 1,
          prompt_tokens: 7,
          completion_tokens: 0,
          cost_eur: '0.0014',
        },
      ],
    });
  },
);

t.test('sums agree with big integers over many rows', async (t) => {
  const id = await company();
  let seed = 42;
  const random = (below: number): number => {
    seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
    return seed % below;
  };
  const rows = Array.from({ length: 2000 }, (_, i) => ({
    company: id,
    model: `m${i % 7}`,
    prompt: random(1_000_000),
    completion: random(1_000_000),
    input: formatEur(BigInt(random(2_000_000_000)) * 1000n),
    output: formatEur(BigInt(random(2_000_000_000)) * 1000n),
  }));
  await run((sql) => addUsage(sql, rows));
  const cost = rows.reduce(
    (sum, row) =>
      sum +
      (BigInt(row.prompt) * parseEur(row.input) + BigInt(row.completion) * parseEur(row.output)) /
        1000n,
    0n,
  );
  const usage = await run((sql) => summarizeUsage(sql, id, '2026-11-01'));
  t.equal(usage.api_cost_eur, formatEur(cost));
  t.equal(usage.requests, 2000);
  t.equal(
    usage.prompt_tokens,
    rows.reduce((sum, row) => sum + row.prompt, 0),
  );
  t.equal(
    formatEur(usage.by_model.reduce((sum, each) => sum + parseEur(each.cost_eur), 0n)),
    formatEur(cost),
  );
  t.equal(
    formatEur(usage.by_endpoint.reduce((sum, each) => sum + parseEur(each.cost_eur), 0n)),
    formatEur(cost),
  );
});

t.test('the month is the current one of the billing time zone unless given', async (t) => {
  const id = await company();
  const month = async () => (await run((sql) => summarizeUsage(sql, id, null))).month;
  const [now] = await run((sql) => sql`select to_char(now() at time zone 'UTC', 'YYYY-MM') as utc`);
  t.equal(await month(), now?.utc);
});

t.test('a month without usage is all zeros, and a budget of 0 is none', async (t) => {
  const id = await company('0');
  t.same(await run((sql) => summarizeUsage(sql, id, '2020-01-01')), {
    company_id: id,
    company_name: 'Acme',
    month: '2020-01',
    requests: 0,
    prompt_tokens: 0,
    completion_tokens: 0,
    api_cost_eur: '0',
    chat_cost_eur: '0',
    total_cost_eur: '0',
    monthly_budget_eur: null,
    answers: null,
    token_details: null,
    by_model: [],
    by_endpoint: [],
    by_cost_center: [],
  });
});

t.test('an unknown company is refused', async (t) => {
  await t.rejects(
    run((sql) => summarizeUsage(sql, randomUUID(), null)),
    { name: 'Refused', noun: 'company' },
  );
});
