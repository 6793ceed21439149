import { randomUUID } from 'node:crypto';
import t from 'tap';
import {
  companiesNamed,
  findCompany,
  insertCompany,
  listCompanies,
  updateCompany,
} from '../../../src/store/company/company.ts';
import type { Sql } from '../../../src/store/connection/pool.ts';
import { testDatabase } from '../../support/postgres.ts';

const { db } = await testDatabase(t);
const run = <T>(work: (sql: Sql) => Promise<T>) => db.run(60_000, work);

t.test(
  'a company begins closed to non-EU models, without budget and without disabled models',
  async (t) => {
    const company = await run((sql) => insertCompany(sql, { name: 'Acme' }));
    t.match(company, { name: 'Acme', allow_non_eu_models: false, monthly_budget_eur: null });
    t.same(company.disabled_model_slugs, []);
    t.match(company.id, /^[0-9a-f-]{36}$/);
    t.type(company.created_at, Date);
    t.same(await run((sql) => findCompany(sql, company.id)), company);
  },
);

t.test('a budget keeps every digit', async (t) => {
  const budget = '123456789012.123456789012345';
  const { id, monthly_budget_eur } = await run((sql) =>
    insertCompany(sql, { name: 'Exact', monthly_budget_eur: budget }),
  );
  t.equal(monthly_budget_eur, budget);
  t.equal(
    (await run((sql) => updateCompany(sql, id, { monthly_budget_eur: '0.10' }))).monthly_budget_eur,
    '0.1',
  );
});

t.test('what a change does not name stays as it is', async (t) => {
  const made = await run((sql) =>
    insertCompany(sql, { name: 'Steady', monthly_budget_eur: '5', allow_non_eu_models: true }),
  );
  t.same(await run((sql) => updateCompany(sql, made.id, {})), made);
  t.same(await run((sql) => updateCompany(sql, made.id, { name: 'Renamed' })), {
    ...made,
    name: 'Renamed',
  });
  const closed = await run((sql) =>
    updateCompany(sql, made.id, { allow_non_eu_models: false, monthly_budget_eur: null }),
  );
  const budgets = { monthly_budget_eur: null, effective_budget_eur: null };
  t.same(closed, { ...made, name: 'Renamed', allow_non_eu_models: false, ...budgets });
});

t.test('limits are set, changed one by one and lifted', async (t) => {
  const limits = {
    requests_per_minute: 1_000_000_000,
    tokens_per_minute: 1_000_000_000_000,
    max_concurrent: 1_000_000,
  };
  const made = await run((sql) => insertCompany(sql, { name: 'Limited', ...limits }));
  t.match(made, limits);
  const one = await run((sql) => updateCompany(sql, made.id, { max_concurrent: 1 }));
  t.same(one, { ...made, max_concurrent: 1 });
  t.same(await run((sql) => updateCompany(sql, made.id, { tokens_per_minute: null })), {
    ...one,
    tokens_per_minute: null,
  });
});

t.test('disabled models are a sorted set', async (t) => {
  const { id } = await run((sql) => insertCompany(sql, { name: 'Picky' }));
  const set = async (changes: object) =>
    (await run((sql) => updateCompany(sql, id, changes))).disabled_model_slugs;
  t.same(await set({ disable: ['b', 'a', 'b', 'with "quotes", {braces}'] }), [
    'a',
    'b',
    'with "quotes", {braces}',
  ]);
  t.same(await set({ disable: ['a', 'c'], enable: ['b', 'never was'] }), [
    'a',
    'c',
    'with "quotes", {braces}',
  ]);
  t.same(await set({ enable: ['a', 'c', 'with "quotes", {braces}'] }), []);
});

t.test('two changes at once both hold', async (t) => {
  const { id } = await run((sql) => insertCompany(sql, { name: 'Busy' }));
  const slugs = Array.from({ length: 20 }, (_, i) => `m${String(i).padStart(2, '0')}`);
  await Promise.all(slugs.map((slug) => run((sql) => updateCompany(sql, id, { disable: [slug] }))));
  t.same((await run((sql) => findCompany(sql, id))).disabled_model_slugs, slugs);
});

t.test('an unknown company is refused', async (t) => {
  const id = randomUUID();
  const refusal = {
    name: 'Refused',
    kind: 'missing',
    noun: 'company',
    message: `There is no company ${id}.`,
  };
  await t.rejects(
    run((sql) => updateCompany(sql, id, { name: 'X' })),
    refusal,
  );
  await t.rejects(
    run((sql) => findCompany(sql, id)),
    refusal,
  );
});

t.test('companies are listed by name', async (t) => {
  const names = (await run((sql) => listCompanies(sql))).map(({ name }) => name);
  t.ok(names.includes('Acme'));
  t.same(names, [...names].sort());
});

t.test('companies are found by many texts at once: whole names, and ids in any case', async (t) => {
  const create = (name: string) => run((sql) => insertCompany(sql, { name }));
  const [one, twin, third] = [
    await create('Twins Ltd'),
    await create('Twins Ltd'),
    await create('Third Ltd'),
  ];
  const upper = third.id.toUpperCase();
  const found = await run((sql) =>
    companiesNamed(sql, ['Twins Ltd', upper, 'Third Ltd', 'third ltd', 'Nobody']),
  );
  t.same(
    new Set(found.map(({ text, id }) => `${text} ${id}`)),
    new Set([
      `Twins Ltd ${one.id}`,
      `Twins Ltd ${twin.id}`,
      `${upper} ${third.id}`,
      `Third Ltd ${third.id}`,
    ]),
  );
});
