import { randomUUID } from 'node:crypto';
import t from 'tap';
import { formatEur, parseEur } from '../../../src/domain/pricing/money.ts';
import { addDays, type DayRange, wholeMonth } from '../../../src/domain/reports/day-range.ts';
import { PARTS } from '../../../src/domain/reports/usage-change.ts';
import type { Work } from '../../../src/store/connection/pool.ts';
import { readAllChange, readAllUsage } from '../../../src/store/usage/all-usage.ts';
import { readUsageChange } from '../../../src/store/usage/change.ts';
import { NO_FILTERS, type UsageFilters } from '../../../src/store/usage/cube.ts';
import { insertUsage } from '../../admin/rows.ts';
import { testDatabase } from '../../support/postgres.ts';
import { addUsage } from '../../support/usage.ts';

/** Two times beside each other: all figures are sums of the ledger rows, and the parts add up. */

const ZONE = 'Europe/Berlin';
const { db } = await testDatabase(t);
const run = <T>(work: Work<T>) => db.run(60_000, work);
await run((sql) => sql`update settings set value = ${ZONE} where name = 'billing_timezone'`);
const newCompany = async (name: string): Promise<string> =>
  (await run((sql) => sql`insert into companies (name) values (${name}) returning id`))[0]?.id;

const [company, other] = [await newCompany('Acme'), await newCompany('Other')];
const keys = [randomUUID(), randomUUID(), randomUUID()];
for (const [seed, month] of ['2026-01-01', '2026-02-01', '2026-03-01'].entries()) {
  await run((sql) =>
    insertUsage(sql, { companies: [company, other], keys, rows: 1500, seed, month }),
  );
}

let seed = 11;
const random = (below: number): number => {
  seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
  return Math.floor((seed / 2_147_483_648) * below);
};
const oneOf = <T>(...from: readonly T[]): T => from[random(from.length)] as T;
const randomRange = (): DayRange => {
  const from = addDays('2026-01-01', random(85));
  return oneOf({ from, to: addDays(from, random(40)) }, wholeMonth(from), { from, to: from });
};
const filterOf = <T>(value: T): T | null => (random(3) === 0 ? value : null);
const randomFilters = (): UsageFilters => ({
  model: filterOf(oneOf('swift', 'solid', 'vectors')),
  key: filterOf(oneOf(...keys)),
  endpoint: filterOf('chat.completions'),
  cost_center: filterOf(oneOf('', 'Einkauf')),
  keys: null,
});

/** The sums of ledger rows of some companies. */
async function ledgerOf(
  { from, to }: DayRange,
  companies: readonly string[],
  { model, key, endpoint, cost_center }: UsageFilters,
) {
  const [row] = await run(
    (sql) => sql`
      select count(*)::integer as requests, coalesce(sum(prompt_tokens), 0)::float8 as prompt_tokens,
        coalesce(sum(completion_tokens), 0)::float8 as completion_tokens, trim_scale(coalesce(sum(cost_eur), 0))::text as cost_eur
      from api_usage
      where company_id = any(${[...companies]}::uuid[]) and (occurred_at at time zone ${ZONE})::date between ${from}::date and ${to}::date
        and model_slug = coalesce(${model}, model_slug) and api_key_id = coalesce(${key}::uuid, api_key_id)
        and endpoint = coalesce(${endpoint}, endpoint) and cost_center = coalesce(${cost_center}, cost_center)`,
  );
  return row;
}

const sumOf = (texts: readonly string[]) =>
  formatEur(texts.reduce((sum, text) => sum + parseEur(text), 0n));

t.test(
  'both times of a company are the sums of their ledger rows, and the parts are the difference',
  async (t) => {
    for (let i = 0; i < 40; i++) {
      const times = { before: randomRange(), after: randomRange() };
      const filters = i < 10 ? NO_FILTERS : randomFilters();
      const change = await db.transaction(60_000, (sql) =>
        readUsageChange(sql, company, times, filters, 1000),
      );
      const { total, by_model, by_key, by_cost_center, by_time } = change;
      const said = JSON.stringify({ times, filters });
      t.same(total.before, await ledgerOf(times.before, [company], filters), said);
      t.same(total.after, await ledgerOf(times.after, [company], filters), said);
      t.equal(sumOf(PARTS.map((part) => total[part])), total.difference_eur, said);
      for (const part of PARTS)
        t.equal(sumOf(by_model.map((line) => line[part])), total[part], said);
      for (const movers of [by_key, by_cost_center])
        t.equal(
          sumOf(movers.lines.map(({ difference_eur }) => difference_eur)),
          total.difference_eur,
          said,
        );
      for (const time of ['before', 'after'] as const)
        t.equal(
          sumOf(by_time.filter((each) => each.time === time).map(({ cost_eur }) => cost_eur)),
          total[time].cost_eur,
          said,
        );
    }
  },
);

t.test('those that changed most come first, and how many did is told', async (t) => {
  const times = { before: wholeMonth('2026-01-01'), after: wholeMonth('2026-02-01') };
  const all = await db.transaction(60_000, (sql) =>
    readUsageChange(sql, company, times, NO_FILTERS, 1000),
  );
  const first = await db.transaction(60_000, (sql) =>
    readUsageChange(sql, company, times, NO_FILTERS, 2),
  );
  t.same(first.by_key.lines, all.by_key.lines.slice(0, 2));
  t.equal(first.by_key.count, all.by_key.lines.length);
  const sizes = all.by_key.lines.map(({ difference_eur }) => Math.abs(Number(difference_eur)));
  t.same(
    sizes,
    sizes.toSorted((a, b) => b - a),
  );
});

t.test('all companies together, and which of them changed', async (t) => {
  const everybody = [company, other];
  for (let i = 0; i < 20; i++) {
    const times = { before: randomRange(), after: randomRange() };
    const model = oneOf(null, null, 'swift');
    const change = await run((sql) => readAllChange(sql, times, model, 1000));
    const filters = { ...NO_FILTERS, model };
    t.same(change.total.before, await ledgerOf(times.before, everybody, filters));
    t.same(change.total.after, await ledgerOf(times.after, everybody, filters));
    t.equal(sumOf(PARTS.map((part) => change.total[part])), change.total.difference_eur);
    for (const part of PARTS)
      t.equal(sumOf(change.by_model.map((line) => line[part])), change.total[part]);
    if (model !== null) t.equal(change.by_company, null);
    else
      t.equal(
        sumOf((change.by_company?.lines ?? []).map(({ difference_eur }) => difference_eur)),
        change.total.difference_eur,
      );
    const usage = await run((sql) => readAllUsage(sql, times.after, 1000));
    if (model === null) {
      t.match(usage, change.total.after);
      t.equal(
        sumOf((usage.by_company?.lines ?? []).map(({ cost_eur }) => cost_eur)),
        usage.cost_eur,
      );
      t.equal(sumOf(usage.by_model.map(({ cost_eur }) => cost_eur)), usage.cost_eur);
      t.equal(sumOf(usage.by_time.map(({ cost_eur }) => cost_eur)), usage.cost_eur);
    }
  }
});

t.test('a price that changed is told from all else, for the company that it is of', async (t) => {
  const [shared, own] = [await newCompany('Shared'), await newCompany('Own')];
  await db.transaction(60_000, async (sql) => {
    await sql`set local session_replication_role = replica`; // history that began long ago
    for (const [slug, owner, from, input] of [
      ['priced', null, '2026-01-01', '0.002'],
      ['priced', null, '2026-05-08', '0.004'],
      ['priced', own, '2026-01-01', '0.01'],
    ] as const)
      await sql`insert into model_prices (slug, company_id, valid_from, input, output, applied)
        values (${slug}, ${owner}, ${from}::timestamp at time zone ${ZONE}, ${input}, ${input}, true)`;
  });
  const call = (of: string, at: string, prompt: number, input: string) => ({
    company: of,
    month: '2026-05-01',
    at,
    model: 'priced',
    prompt,
    input,
  });
  await run((sql) =>
    addUsage(sql, [
      call(shared, '2026-05-02T10:00:00Z', 1000, '0.002'),
      call(shared, '2026-05-09T10:00:00Z', 3000, '0.004'),
      call(own, '2026-05-02T10:00:00Z', 1000, '0.01'),
      call(own, '2026-05-09T10:00:00Z', 1000, '0.01'),
    ]),
  );
  const times = {
    before: { from: '2026-05-01', to: '2026-05-07' },
    after: { from: '2026-05-08', to: '2026-05-14' },
  };
  const ofShared = await db.transaction(60_000, (sql) =>
    readUsageChange(sql, shared, times, NO_FILTERS),
  );
  t.match(ofShared.total, {
    longer_calls_eur: '0.004',
    changed_prices_eur: '0.006',
    more_calls_eur: '0',
    dearer_models_eur: '0',
  });
  const ofOwn = await db.transaction(60_000, (sql) => readUsageChange(sql, own, times, NO_FILTERS));
  t.match(ofOwn.total, { difference_eur: '0', changed_prices_eur: '0' });
  const all = await run((sql) => readAllChange(sql, times, 'priced'));
  t.match(
    all.total,
    { longer_calls_eur: '0.004', changed_prices_eur: '0.006', difference_eur: '0.01' },
    'one line, two prices',
  );
  t.equal(all.by_model.length, 1);
});

t.test(
  'a factor that changed is a changed price, and one that did not is none, for one company and for all',
  async (t) => {
    const [plain, same, changed] = [
      await newCompany('Plain'),
      await newCompany('Same'),
      await newCompany('Changed'),
    ];
    await db.transaction(60_000, async (sql) => {
      await sql`set local session_replication_role = replica`;
      await sql`insert into model_prices (slug, valid_from, input, output, applied)
      values ('factored', '2026-01-01'::timestamp at time zone ${ZONE}, 0.01, 0.01, true)`;
      for (const [owner, from, factor] of [
        [same, '2026-01-01', '0.9'],
        [changed, '2026-01-01', '0.5'],
        [changed, '2026-05-08', '0.75'],
      ] as const)
        await sql`insert into company_price_factors (company_id, valid_from, factor, applied)
        values (${owner}, ${from}::timestamp at time zone ${ZONE}, ${factor}, true)`;
    });
    const call = (of: string, day: string, prompt: number, input: string) => ({
      company: of,
      month: '2026-05-01',
      at: `${day}T10:00:00Z`,
      model: 'factored',
      prompt,
      input,
    });
    await run((sql) =>
      addUsage(sql, [
        ...[call(plain, '2026-05-02', 1000, '0.01'), call(plain, '2026-05-09', 3000, '0.01')],
        ...[call(same, '2026-05-02', 1000, '0.009'), call(same, '2026-05-09', 3000, '0.009')],
        ...[
          call(changed, '2026-05-02', 1000, '0.005'),
          call(changed, '2026-05-09', 3000, '0.0075'),
        ],
      ]),
    );
    const times = {
      before: { from: '2026-05-01', to: '2026-05-07' },
      after: { from: '2026-05-08', to: '2026-05-14' },
    };
    const none = { more_calls_eur: '0', dearer_models_eur: '0', more_cached_eur: '0' };
    for (const [of, longer, prices] of [
      [plain, '0.02', '0'],
      [same, '0.018', '0'],
      [changed, '0.01', '0.0075'],
    ] as const) {
      const { total } = await db.transaction(60_000, (sql) =>
        readUsageChange(sql, of, times, NO_FILTERS),
      );
      t.match(total, { ...none, longer_calls_eur: longer, changed_prices_eur: prices });
    }
    const all = await run((sql) => readAllChange(sql, times, 'factored'));
    t.match(all.total, {
      ...none,
      longer_calls_eur: '0.048',
      changed_prices_eur: '0.0075',
      difference_eur: '0.0555',
    });
    t.equal(all.by_model.length, 1);
  },
);

t.test(
  'companies whose factor is yet to come are with those that have none, their cached tokens too',
  async (t) => {
    const [plain, later] = [
      await newCompany('At the list price'),
      await newCompany('Later at another'),
    ];
    await db.transaction(60_000, async (sql) => {
      await sql`set local session_replication_role = replica`;
      await sql`insert into model_prices (slug, valid_from, input, output, cache_read, applied)
      values ('cached', '2026-01-01'::timestamp at time zone ${ZONE}, 0.01, 0.01, 0.001, true)`;
      await sql`insert into company_price_factors (company_id, valid_from, factor, applied)
      values (${later}, '2026-06-01'::timestamp at time zone ${ZONE}, 0.9, true)`;
    });
    const call = (of: string, day: string, cached: number) => ({
      ...{ company: of, month: '2026-05-01', at: `${day}T10:00:00Z`, model: 'cached' },
      ...{ prompt: 1000, cached, input: '0.01', cacheRead: '0.001' },
    });
    const [first, second] = ['2026-05-02', '2026-05-09'];
    await run((sql) =>
      addUsage(sql, [
        call(plain, first, 0),
        call(later, first, 0),
        call(plain, second, 0),
        call(later, second, 1000),
      ]),
    );
    const times = {
      before: { from: '2026-05-01', to: '2026-05-07' },
      after: { from: '2026-05-08', to: '2026-05-14' },
    };
    const { total } = await run((sql) => readAllChange(sql, times, 'cached'));
    t.match(total, {
      ...{ before: { requests: 2, cost_eur: '0.02' }, after: { requests: 2, cost_eur: '0.011' } },
      ...{ more_cached_eur: '-0.009', changed_prices_eur: '0', difference_eur: '-0.009' },
    });
  },
);

t.test('a company that is not there is not found', async (t) => {
  const times = { before: randomRange(), after: randomRange() };
  await t.rejects(
    run((sql) => readUsageChange(sql, randomUUID(), times, NO_FILTERS)),
    { name: 'Refused' },
  );
});
