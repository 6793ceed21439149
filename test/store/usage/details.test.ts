import { randomUUID } from 'node:crypto';
import t from 'tap';
import { wholeMonth } from '../../../src/domain/reports/day-range.ts';
import { insertCompany } from '../../../src/store/company/company.ts';
import { insertCostPrice } from '../../../src/store/company/cost-price.ts';
import { ledgerStore } from '../../../src/store/gateway/ledger.ts';
import { digestOfRow } from '../../../src/store/statement/digest.ts';
import { verifySeals, verifySums } from '../../../src/store/statement/verify.ts';
import { NO_FILTERS } from '../../../src/store/usage/cube.ts';
import { readTokenDetails } from '../../../src/store/usage/details.ts';
import { readDetailedMargin } from '../../../src/store/usage/margin.ts';
import { testDatabase } from '../../support/postgres.ts';
import { addUsage } from '../../support/usage.ts';

const { db } = await testDatabase(t);
const store = ledgerStore(db);
const run = <T>(work: Parameters<typeof db.run<T>>[1]) => db.run(60_000, work);
const companyOf = async (name: string) => (await run((sql) => insertCompany(sql, { name }))).id;

/** A record as gateways write it. A gateway of the version before names no details. */
function record(company: string, more: object = {}) {
  return {
    billing_month: '2026-05-01',
    request_id: randomUUID(),
    company_id: company,
    api_key_id: company,
    model_slug: 'fast',
    upstream_model: 'internal',
    endpoint: 'chat.completions',
    prompt_tokens: 100,
    completion_tokens: 50,
    cost_eur: 0.2,
    price_input: 1,
    price_output: 2,
    usage_source: 'upstream',
    outcome: 'completed',
    occurred_at: '2026-05-10T10:00:00.000Z',
    ...more,
  };
}

const book = (records: readonly object[], writer = randomUUID()) =>
  store.insert(writer, Buffer.from(JSON.stringify(records)), null);
const agrees = async () => {
  const checks = await Promise.all([
    run((sql) => verifySums(sql, 'details')),
    run((sql) => verifySums(sql, 'upstream')),
  ]);
  return checks.map(({ total }) => total);
};

t.test('details are booked once, summed by day, and are no part of the seals', async (t) => {
  const company = await companyOf('One');
  const details = {
    cached_tokens: 60,
    cache_write_tokens: 10,
    audio_prompt_tokens: 1,
    reasoning_tokens: 30,
  };
  const told = record(company, { ...details, upstream_cost: 0.0001, upstream_currency: 'USD' });
  const records = [
    told,
    record(company),
    record(company, { cached_tokens: 0, occurred_at: '2026-05-11T10:00:00.000Z' }),
    record(company, { reasoning_tokens: 5, audio_completion_tokens: 7, model_slug: 'slow' }),
    record(company, { upstream_cost: 2.5e-7, upstream_currency: 'USD' }),
    record(company, { upstream_cost: 3, upstream_currency: 'EUR', billing_month: '2026-06-01' }),
  ];
  for (let replay = 0; replay < 3; replay++)
    await book(replay === 1 ? records.toReversed() : records);
  await book([told, told]);

  const read = (month: string, filters = NO_FILTERS) =>
    run((sql) => readTokenDetails(sql, company, wholeMonth(month), filters));
  const none = {
    cache_write_1h_tokens: 0,
    image_prompt_tokens: 0,
    image_completion_tokens: 0,
    search_units: 0,
  };
  const fast = {
    ...none,
    requests: 2,
    cached_tokens: 60,
    cache_write_tokens: 10,
    audio_prompt_tokens: 1,
    reasoning_tokens: 30,
  };
  t.same(await read('2026-05-01'), {
    total: {
      ...fast,
      requests: 3,
      reasoning_tokens: 35,
      audio_completion_tokens: 7,
      cached_percent: 30,
    },
    by_model: [
      { model: 'fast', ...fast, audio_completion_tokens: 0, cached_percent: 30 },
      {
        ...none,
        model: 'slow',
        requests: 1,
        cached_tokens: 0,
        cache_write_tokens: 0,
        audio_prompt_tokens: 0,
        reasoning_tokens: 5,
        audio_completion_tokens: 7,
        cached_percent: null,
      },
    ],
  });
  const day = { from: '2026-05-11', to: '2026-05-11' };
  t.match(await run((sql) => readTokenDetails(sql, company, day, NO_FILTERS)), {
    total: { cached_percent: 0 },
  });
  t.match(await read('2026-05-01', { ...NO_FILTERS, model: 'slow' }), { total: { requests: 1 } });
  t.equal(await read('2026-05-01', { ...NO_FILTERS, model: 'none' }), null);
  t.equal(
    await read('2026-05-01', { ...NO_FILTERS, key: company }),
    null,
    'sums are of all keys together',
  );
  t.equal(await read('2026-06-01'), null);

  const costs = await run(
    (sql) => sql`
      select to_char(billing_month, 'MM') as month, currency, requests::integer, trim_scale(cost)::text as cost,
        trim_scale(cost_eur)::text as revenue
      from upstream_cost_monthly where company_id = ${company} order by 1`,
  );
  t.same(costs, [
    { month: '05', currency: 'USD', requests: 2, cost: '0.00010025', revenue: '0.4' },
    { month: '06', currency: 'EUR', requests: 1, cost: '3', revenue: '0.2' },
  ]);
  t.same(await agrees(), [0, 0]);
  t.match(await run((sql) => verifySeals(sql)), { total: 0 });
  const digests = await run(
    (sql) => sql<{ same: boolean }[]>`
      select ${sql.unsafe(digestOfRow('u'))} = ${sql.unsafe(digestOfRow('bare'))} as same
      from api_usage u, json_populate_record(u, '{"cached_tokens":null,"reasoning_tokens":null}') as bare`,
  );
  t.ok(digests.length > 0 && digests.every(({ same }) => same), 'a digest says nothing of them');
});

t.test('a wrong cost is left out by the database too, and the call is booked', async (t) => {
  const company = await companyOf('Two');
  const wrong = [-1, 1e6, 1e30].map((upstream_cost) =>
    record(company, { upstream_cost, upstream_currency: 'USD' }),
  );
  await book([...wrong, record(company, { upstream_cost: 1, upstream_currency: 'dollar' })]);
  const [row] = await run(
    (sql) => sql`
      select (select count(*) from api_usage where company_id = ${company})::integer as booked,
        (select count(*) from upstream_costs where company_id = ${company})::integer as told`,
  );
  t.same(row, { booked: 4, told: 0 });
});

t.test('rows of other programs count, whatever partition they are written to', async (t) => {
  const company = await companyOf('Three');
  await run((sql) =>
    addUsage(sql, [{ company, month: '2026-05-01', prompt: 10, cached: 4, reasoning: 0 }]),
  );
  await run(
    (sql) => sql`
      insert into api_usage_default select (json_populate_record(u, json_build_object('request_id', gen_random_uuid(), 'billing_month', '1999-01-01'))).*
      from api_usage u where company_id = ${company}`,
  );
  await run((sql) => sql`select ensure_api_usage_partitions('2031-02-01', 1)`);
  await run((sql) => addUsage(sql, [{ company, month: '2031-02-01', prompt: 10, cached: 5 }]));
  const rows = await run(
    (sql) =>
      sql`select cached_tokens::integer as cached from usage_details where company_id = ${company} order by billing_month`,
  );
  t.same(rows, [{ cached: 4 }, { cached: 4 }, { cached: 5 }]);
  t.same(await agrees(), [0, 0]);
  await t.rejects(
    run((sql) => addUsage(sql, [{ company, prompt: 10, cached: 11 }])),
    { code: '23514' },
    'more than there are',
  );
});

t.test('verify names sums that were changed, and costs cannot be', async (t) => {
  const company = await companyOf('Four');
  await book([record(company, { cached_tokens: 8, upstream_cost: 1, upstream_currency: 'USD' })]);
  await run((sql) => sql`update usage_details set cached_tokens = 9 where company_id = ${company}`);
  await run((sql) => sql`update upstream_cost_monthly set cost = 2 where company_id = ${company}`);
  t.match(await run((sql) => verifySums(sql, 'details')), {
    differences: [
      { company_id: company, day: '2026-05-10', counter: 'cached_tokens', counted: '9', rows: '8' },
    ],
  });
  t.match(await run((sql) => verifySums(sql, 'upstream')), {
    differences: [
      { company_id: company, month: '2026-05', counter: 'cost', counted: '2', rows: '1' },
    ],
  });
  for (const change of [
    'update upstream_costs set cost = 0',
    'delete from upstream_costs',
    'truncate upstream_costs',
  ])
    await t.rejects(
      run((sql) => sql.unsafe(change)),
      { code: '23001' },
      change,
    );
  await run((sql) => sql`update usage_details set cached_tokens = 8 where company_id = ${company}`);
  await run((sql) => sql`update upstream_cost_monthly set cost = 1 where company_id = ${company}`);
  t.same(await agrees(), [0, 0]);
});

t.test('the margin report has both costs side by side', async (t) => {
  const [acme, other] = [await companyOf('Acme'), await companyOf('Other')];
  const month = '2027-01-01';
  const of = (company: string, more: object) =>
    record(company, {
      billing_month: month,
      occurred_at: '2027-01-10T10:00:00.000Z',
      model_slug: 'm',
      ...more,
    });
  await run((sql) =>
    insertCostPrice(sql, { slug: 'm', company_id: null, input: '0.5', output: '1' }, '2026-01-01'),
  );
  await book([
    of(acme, { cached_tokens: 25, upstream_cost: 0.1, upstream_currency: 'USD' }),
    of(acme, { cached_tokens: 50 }),
    of(other, { upstream_cost: 0.3, upstream_currency: 'USD' }),
    of(other, { upstream_cost: 0.05, upstream_currency: 'EUR', model_slug: 'n' }),
  ]);
  const read = (rate: string | null) =>
    run((sql) => readDetailedMargin(sql, month, { currency: 'USD', rate }));
  const usd = (cost: string) => ({ costs: [{ currency: 'USD', cost }] });
  const unknown = { cost_eur: null, margin_eur: null, margin_percent: null };
  const report = await read(null);
  t.match(report.total, {
    requests: 4,
    revenue_eur: '0.8',
    cost_eur: '0.3',
    cached_percent: 37.5,
    upstream: {
      requests: 3,
      revenue_eur: '0.6',
      ...unknown,
      costs: [
        { currency: 'EUR', cost: '0.05' },
        { currency: 'USD', cost: '0.4' },
      ],
    },
  });
  t.match(report.by_model, [
    {
      model: 'm',
      requests: 3,
      cost_eur: '0.3',
      cached_percent: 37.5,
      upstream: { requests: 2, ...usd('0.4'), ...unknown },
    },
    {
      model: 'n',
      cost_eur: null,
      cached_percent: null,
      upstream: { cost_eur: '0.05', margin_eur: '0.15', margin_percent: 75 },
    },
  ]);
  const lineOf = (company: string) =>
    report.by_company.find(({ company_id }) => company_id === company);
  t.match(lineOf(acme), {
    cached_percent: 37.5,
    upstream: { requests: 1, revenue_eur: '0.2', ...usd('0.1') },
  });
  t.match(lineOf(other), { cached_percent: null, upstream: { requests: 2, cost_eur: null } });
  t.equal(report.lines.length, 3);

  const counted = await read('0.9');
  t.match(counted.total.upstream, { cost_eur: '0.41', margin_eur: '0.19', margin_percent: 31.7 });
  t.match(
    counted.lines.find(({ model, company_id }) => model === 'm' && company_id === acme)?.upstream,
    {
      cost_eur: '0.09',
      margin_eur: '0.11',
    },
  );
  const empty = await run((sql) =>
    readDetailedMargin(sql, '2020-01-01', { currency: 'USD', rate: null }),
  );
  t.match(empty, {
    told: { cost: false, cached: false },
    total: { upstream: null, cached_percent: null },
  });
});
