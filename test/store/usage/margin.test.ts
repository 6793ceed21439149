import { randomUUID } from 'node:crypto';
import t from 'tap';
import { formatEur, parseEur } from '../../../src/domain/pricing/money.ts';
import { insertCompany } from '../../../src/store/company/company.ts';
import { insertCostPrice } from '../../../src/store/company/cost-price.ts';
import { deleteModel, insertModel } from '../../../src/store/company/model.ts';
import type { Sql } from '../../../src/store/connection/pool.ts';
import { migrate } from '../../../src/store/schema/migrate.ts';
import { type MarginSums, readMargin } from '../../../src/store/usage/margin.ts';
import { insertUsage } from '../../admin/rows.ts';
import { emptyDatabase } from '../../support/postgres.ts';
import { addUsage } from '../../support/usage.ts';

const { db } = await emptyDatabase(t);
await migrate(db, { billingTimezone: 'Europe/Berlin' });
const run = <T>(work: (sql: Sql) => Promise<T>) => db.run(60_000, work);
const { id: acme } = await run((sql) => insertCompany(sql, { name: 'Acme' }));
const { id: other } = await run((sql) => insertCompany(sql, { name: 'Other' }));

t.test(
  'margin is revenue less tokens × the cost price of the day, to the last digit',
  async (t) => {
    await run((sql) =>
      insertCostPrice(
        sql,
        { slug: 'swift', company_id: null, input: '0.000000000003', output: '0.7' },
        '2026-01-01',
      ),
    );
    await run((sql) =>
      insertCostPrice(
        sql,
        { slug: 'swift', company_id: null, input: '0.25', output: '0' },
        '2026-03-11',
      ),
    );
    const at = [
      '2026-03-01T12:00:00Z',
      '2026-03-10T22:59:59Z',
      '2026-03-10T23:00:00Z',
      '2026-03-31T20:00:00Z',
    ];
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
    const unknown = {
      company: other,
      month: '2026-03-01',
      model: 'unpriced',
      prompt: 10,
      input: '3',
    };
    await run((sql) => addUsage(sql, [...rows, unknown]));

    const costs = rows.map(({ prompt, completion }, i) =>
      i < 4
        ? BigInt(prompt) * parseEur('0.000000000003') + BigInt(completion) * parseEur('0.7') // before midnight in Berlin
        : BigInt(prompt) * parseEur('0.25'),
    );
    const cost = formatEur(costs.reduce((sum, each) => sum + each / 1000n, 0n));
    const revenue = rows.reduce(
      (sum, { prompt, completion }) =>
        sum +
        (BigInt(prompt) * parseEur('1.5') + BigInt(completion) * parseEur('2.000000000001')) /
          1000n,
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
        {
          model: 'swift',
          requests: 8,
          revenue_eur: formatEur(revenue),
          cost_eur: cost,
          uncosted_eur: '0',
        },
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
    t.ok(
      Math.abs((report.total.margin_percent ?? 0) - percent) < 0.06,
      `${report.total.margin_percent} is ${percent} %`,
    );
    t.equal(report.lines.length, 3);
  },
);

t.test(
  "a company's own model never takes the cost price of the shared one, nor the other way round",
  async (t) => {
    const { id: owner } = await run((sql) => insertCompany(sql, { name: 'Owner' }));
    const own = {
      slug: 'twin',
      company_id: owner,
      upstream_model: 'x',
      kind: 'chat',
      eu_hosted: true,
      cost_eur_per_1k_input: '2',
      cost_eur_per_1k_output: '2',
    } as const;
    await run((sql) => insertModel(sql, own));
    await run((sql) =>
      insertCostPrice(
        sql,
        { slug: 'twin', company_id: null, input: '1', output: '1' },
        '2020-01-01',
      ),
    );
    const [{ month, today }] = await run(
      (sql) =>
        sql<
          [{ month: string; today: string }]
        >`select billing_month(now())::text as month, now()::text as today`,
    );
    await run((sql) =>
      addUsage(
        sql,
        [owner, acme].map((company) => ({
          company,
          month,
          model: 'twin',
          prompt: 1000,
          input: '2',
          at: today,
        })),
      ),
    );
    const costs = async () =>
      Object.fromEntries(
        (await run((sql) => readMargin(sql, null))).lines.map(({ company_name, cost_eur }) => [
          company_name,
          cost_eur,
        ]),
      );
    t.same(await costs(), { Acme: '1', Owner: null });
    await run((sql) =>
      insertCostPrice(
        sql,
        { slug: 'twin', company_id: owner, input: '0.5', output: '0' },
        '2020-01-01',
      ),
    );
    t.same(await costs(), { Acme: '1', Owner: '0.5' });
    await run((sql) => deleteModel(sql, { slug: 'twin', company_id: owner }));
    t.same(await costs(), { Acme: '1', Owner: '1' }, 'the day at whose end it is gone');
  },
);

t.test('an empty month has zeros, and a removed company its revenue', async (t) => {
  t.match(await run((sql) => readMargin(sql, '2019-01-01')), {
    total: { requests: 0, revenue_eur: '0', cost_eur: null },
    by_model: [],
    by_company: [],
    without_cost: [],
  });
  await run((sql) =>
    addUsage(sql, [{ company: randomUUID(), month: '2026-05-01', prompt: 1000, input: '1' }]),
  );
  t.match(await run((sql) => readMargin(sql, '2026-05-01')), {
    by_company: [{ company_name: null, revenue_eur: '1' }],
  });
});

/** The margin of a month from the rows themselves: company, model, requests, revenue, cost, revenue without cost price. */
function marginOfRows(sql: Sql, month: string) {
  const line = (company: string, model: string) =>
    sql.unsafe(`concat_ws(' ', ${company}, ${model}, count(*), trim_scale(sum(cost_eur)), coalesce(trim_scale(sum(cost))::text, ''),
      trim_scale(coalesce(sum(cost_eur) filter (where cost is null), 0)))`);
  return sql<{ total: string; models: string[]; companies: string[]; without: string[] }[]>`
    with days as (select *, (occurred_at at time zone 'Europe/Berlin')::date as day from api_usage where billing_month = ${month}),
    costed as (
      select d.*, (
        select (d.prompt_tokens * p.input + d.completion_tokens * p.output) * 0.001 from model_cost_prices p
        where p.slug = d.model_slug and p.valid_from <= d.day and p.company_id is not distinct from (
          select case when m.input is not null then m.company_id end from model_prices m
          where m.slug = d.model_slug and m.company_id = d.company_id and (m.valid_from at time zone 'Europe/Berlin')::date <= d.day
          order by m.valid_from desc limit 1)
        order by p.valid_from desc limit 1) as cost
      from days d
    )
    select (select ${line("''", "''")} from costed) as total,
      array(select ${line("''", 'model_slug')} from costed group by model_slug) as models,
      array(select ${line('company_id', "''")} from costed group by company_id order by sum(cost_eur) desc, company_id) as companies,
      array(select distinct model_slug from costed where cost is null order by 1) as without
    where exists (select from costed)`;
}

t.test(
  'any month adds up to the ledger rows: prices that change, own models that come and go, few companies',
  async (t) => {
    const { db } = await emptyDatabase(t);
    await migrate(db, { billingTimezone: 'Europe/Berlin' });
    const run = <T>(work: (sql: Sql) => Promise<T>) => db.run(60_000, work);
    const companies = Array.from({ length: 5 }, () => randomUUID());
    const months = ['2026-01-01', '2026-02-01', '2026-03-01', '2026-04-01'];
    await run(async (sql) => {
      await sql`insert into companies (id, name) select id, id::text from unnest(${companies}::uuid[]) id`;
      for (const [seed, month] of months.entries())
        await insertUsage(sql, {
          companies,
          keys: [randomUUID(), randomUUID()],
          rows: 800,
          seed,
          month,
        });
      const costs = [
        ['swift', null, '2025-01-01', '0.1'],
        ['swift', null, '2026-02-11', '0.000000000007'],
        ['solid', null, '2026-01-01', '0.3'],
        ['tiny', null, '2025-01-01', '0.2'],
        ['vectors', null, '2026-03-31', '0.2'],
        ['swift', companies[0] as string, '2026-02-05', '0.9'],
        ['solid', companies[1] as string, '2020-01-01', '0.7'],
      ] as const;
      for (const [slug, company_id, day, input] of costs)
        await insertCostPrice(sql, { slug, company_id, input, output: '0.01' }, day);
      // own models of before, which no program may add: two that stay, one of February, one without a cost price
      await sql`set session_replication_role = replica`;
      await sql`
      insert into model_prices (slug, company_id, valid_from, input, output) values
        ('swift', ${companies[0] as string}, '2025-06-01', 1, 1), ('solid', ${companies[1] as string}, '2026-02-10T22:30:00Z', 1, 1),
        ('solid', ${companies[1] as string}, '2026-02-20T23:30:00Z', null, null), ('tiny', ${companies[2] as string}, '2025-01-01', 1, 1)`;
      await sql`set session_replication_role = origin`;
    });
    for (const month of [...months, '2026-05-01']) {
      const [ledger] = await run((sql) => marginOfRows(sql, month));
      for (const lines of [true, false]) {
        const margin = await run((sql) => readMargin(sql, month, { companies: 3, lines }));
        const own = ({
          requests,
          revenue_eur,
          cost_eur,
          uncosted_eur,
          ...names
        }: MarginSums & Record<string, unknown>) =>
          [names.company_id, names.model, requests, revenue_eur, cost_eur, uncosted_eur]
            .map((value) => value ?? '')
            .join(' ');
        t.equal(own({ ...margin.total }), ledger?.total ?? '  0 0  0', `${month} total`);
        t.same(
          new Set(margin.by_model.map((line) => own({ ...line }))),
          new Set(ledger?.models ?? []),
          `${month} models`,
        );
        t.same(
          margin.by_company.map((line) => own({ ...line })),
          (ledger?.companies ?? []).slice(0, 3),
          `${month} companies`,
        );
        t.equal(margin.companies, ledger?.companies?.length ?? 0);
        t.same(margin.without_cost, ledger?.without ?? []);
      }
    }
  },
);
