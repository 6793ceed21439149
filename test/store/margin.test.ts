import { randomUUID } from 'node:crypto';
import t from 'tap';
import { formatEur, parseEur } from '../../src/domain/money.ts';
import { createCompany } from '../../src/store/company.ts';
import type { Sql } from '../../src/store/database.ts';
import { readMargin, setCostPrice } from '../../src/store/margin.ts';
import { migrate } from '../../src/store/migrate.ts';
import { createModel, removeModel } from '../../src/store/model.ts';
import { emptyDatabase } from '../support/postgres.ts';
import { addUsage } from '../support/usage.ts';

const { db } = await emptyDatabase(t);
await migrate(db, { billingTimezone: 'Europe/Berlin' });
const run = <T>(work: (sql: Sql) => Promise<T>) => db.run(10_000, work);
const { id: acme } = await run((sql) => createCompany(sql, { name: 'Acme' }));
const { id: other } = await run((sql) => createCompany(sql, { name: 'Other' }));

t.test('margin is revenue less tokens × the cost price of the day, to the last digit', async (t) => {
  await run((sql) =>
    setCostPrice(sql, { slug: 'swift', company_id: null, input: '0.000000000003', output: '0.7' }, '2026-01-01'),
  );
  await run((sql) => setCostPrice(sql, { slug: 'swift', company_id: null, input: '0.25', output: '0' }, '2026-03-11'));
  const at = ['2026-03-01T12:00:00Z', '2026-03-10T22:59:59Z', '2026-03-10T23:00:00Z', '2026-03-31T20:00:00Z'];
  const rows = at.flatMap((at, i) =>
    [acme, other].map((company) => ({
      company,
      month: '2026-03-01',
      model: 'swift',
      prompt: 1234 + i,
      completion: 77,
      input: '1.5',
      output: '2.000000000001',
      at,
    })),
  );
  const unknown = { company: other, month: '2026-03-01', model: 'unpriced', prompt: 10, input: '3' };
  await run((sql) => addUsage(sql, [...rows, unknown]));

  const costs = rows.map(({ prompt, completion }, i) =>
    i < 4
      ? BigInt(prompt) * parseEur('0.000000000003') + BigInt(completion) * parseEur('0.7') // before midnight in Berlin
      : BigInt(prompt) * parseEur('0.25'),
  );
  const cost = formatEur(costs.reduce((sum, each) => sum + each / 1000n, 0n));
  const revenue = rows.reduce(
    (sum, { prompt, completion }) =>
      sum + (BigInt(prompt) * parseEur('1.5') + BigInt(completion) * parseEur('2.000000000001')) / 1000n,
    0n,
  );
  const report = await run((sql) => readMargin(sql, '2026-03-01'));
  t.match(report, {
    month: '2026-03-01',
    without_cost: ['unpriced'],
    total: {
      requests: 9,
      revenue_eur: formatEur(revenue + parseEur('0.03')),
      uncosted_eur: '0.03',
      cost_eur: cost,
      margin_eur: formatEur(revenue - parseEur(cost)),
    },
    by_model: [
      { model: 'swift', requests: 8, revenue_eur: formatEur(revenue), cost_eur: cost, uncosted_eur: '0' },
      {
        model: 'unpriced',
        requests: 1,
        revenue_eur: '0.03',
        cost_eur: null,
        margin_eur: null,
        margin_percent: null,
        uncosted_eur: '0.03',
      },
    ],
    by_company: [
      { company_name: 'Other', requests: 5 },
      { company_name: 'Acme', requests: 4 },
    ],
  });
  const percent = Number(((revenue - parseEur(cost)) * 10_000n) / revenue) / 100;
  t.ok(Math.abs((report.total.margin_percent ?? 0) - percent) < 0.06, `${report.total.margin_percent} is ${percent} %`);
  t.equal(report.lines.length, 3);
});

t.test("a company's own model never takes the cost price of the shared one, nor the other way round", async (t) => {
  const { id: owner } = await run((sql) => createCompany(sql, { name: 'Owner' }));
  const own = {
    slug: 'twin',
    company_id: owner,
    upstream_model: 'x',
    kind: 'chat',
    eu_hosted: true,
    cost_eur_per_1k_input: '2',
    cost_eur_per_1k_output: '2',
  } as const;
  await run((sql) => createModel(sql, own));
  await run((sql) => setCostPrice(sql, { slug: 'twin', company_id: null, input: '1', output: '1' }, '2020-01-01'));
  const [{ month, today }] = await run(
    (sql) => sql<[{ month: string; today: string }]>`select billing_month(now())::text as month, now()::text as today`,
  );
  await run((sql) =>
    addUsage(
      sql,
      [owner, acme].map((company) => ({ company, month, model: 'twin', prompt: 1000, input: '2', at: today })),
    ),
  );
  const costs = async () =>
    Object.fromEntries(
      (await run((sql) => readMargin(sql, null))).lines.map(({ company_name, cost_eur }) => [company_name, cost_eur]),
    );
  t.same(await costs(), { Acme: '1', Owner: null });
  await run((sql) => setCostPrice(sql, { slug: 'twin', company_id: owner, input: '0.5', output: '0' }, '2020-01-01'));
  t.same(await costs(), { Acme: '1', Owner: '0.5' });
  await run((sql) => removeModel(sql, 'twin', owner));
  t.same(await costs(), { Acme: '1', Owner: '1' }, 'the day at whose end it is gone');
});

t.test('an empty month has zeros, and a removed company its revenue', async (t) => {
  t.match(await run((sql) => readMargin(sql, '2019-01-01')), {
    total: { requests: 0, revenue_eur: '0', cost_eur: null },
    by_model: [],
    by_company: [],
    without_cost: [],
  });
  await run((sql) => addUsage(sql, [{ company: randomUUID(), month: '2026-05-01', prompt: 1000, input: '1' }]));
  t.match(await run((sql) => readMargin(sql, '2026-05-01')), {
    by_company: [{ company_name: null, revenue_eur: '1' }],
  });
});
