import { randomUUID } from 'node:crypto';
import t from 'tap';
import { PRICE_NAMES } from '../../../src/domain/settings/model.ts';
import { insertCompany } from '../../../src/store/company/company.ts';
import {
  deleteModel,
  insertModel,
  listModels,
  type NewModel,
  unknownSlugs,
  updateModel,
} from '../../../src/store/company/model.ts';
import type { Sql } from '../../../src/store/connection/pool.ts';
import { testDatabase } from '../../support/postgres.ts';

const { db } = await testDatabase(t);
const run = <T>(work: (sql: Sql) => Promise<T>) => db.run(60_000, work);
const { id: acme } = await run((sql) => insertCompany(sql, { name: 'Acme' }));
const { id: other } = await run((sql) => insertCompany(sql, { name: 'Other' }));

const model = (slug: string, company_id: string | null = null): NewModel => ({
  slug,
  company_id,
  upstream_model: 'internal/model',
  kind: 'chat',
  eu_hosted: true,
  cost_eur_per_1k_input: '0.000000000001',
  cost_eur_per_1k_output: '999999.999999999999',
});

t.test('a model is stored as it was given, prices to the last digit', async (t) => {
  const { id, created_at, ...rest } = await run((sql) => insertModel(sql, model('exact')));
  t.same(rest, {
    ...model('exact'),
    rates: null,
    ...Object.fromEntries(
      PRICE_NAMES.filter((name) => name !== 'input' && name !== 'output').map((name) => [
        `cost_eur_per_1k_${name}`,
        null,
      ]),
    ),
    token_input: 'refuse',
    context_length: null,
    max_output_tokens: null,
  });
  t.match(id, /^[0-9a-f-]{36}$/);
  t.type(created_at, Date);
});

t.test('a slug is unique among shared models, and within a company', async (t) => {
  await run((sql) => insertModel(sql, model('once')));
  await t.rejects(
    run((sql) => insertModel(sql, model('once'))),
    { name: 'Refused', kind: 'conflict', noun: 'model' },
  );
  await run((sql) => insertModel(sql, model('once', acme)));
  await run((sql) => insertModel(sql, model('once', other)));
  await t.rejects(
    run((sql) => insertModel(sql, model('once', acme))),
    { name: 'Refused', message: /of company/ },
  );
});

t.test('a model of an unknown company is refused', async (t) => {
  const id = randomUUID();
  await t.rejects(
    run((sql) => insertModel(sql, model('lost', id))),
    { name: 'Refused', kind: 'missing', noun: 'company' },
  );
});

t.test('a change touches the shared model or the one of a company, never the other', async (t) => {
  const shared = await run((sql) => insertModel(sql, model('twin')));
  const own = await run((sql) => insertModel(sql, model('twin', acme)));
  const changes = {
    upstream_model: 'internal/other',
    kind: 'embedding',
    eu_hosted: false,
    cost_eur_per_1k_input: '0.5',
    cost_eur_per_1k_output: '0',
  } as const;
  t.same(await run((sql) => updateModel(sql, { slug: 'twin', company_id: acme }, changes)), {
    ...own,
    ...changes,
  });
  t.same(await run((sql) => updateModel(sql, { slug: 'twin', company_id: null }, {})), shared);
  await t.rejects(
    run((sql) => updateModel(sql, { slug: 'twin', company_id: other }, changes)),
    { name: 'Refused', kind: 'missing', noun: 'model' },
  );

  t.equal((await run((sql) => deleteModel(sql, { slug: 'twin', company_id: null }))).id, shared.id);
  await t.rejects(
    run((sql) => deleteModel(sql, { slug: 'twin', company_id: null })),
    { name: 'Refused', message: 'There is no shared model twin.' },
  );
  t.ok((await run((sql) => listModels(sql))).some(({ id }) => id === own.id));
});

t.test('a list for a company has the shared models and its own, no other', async (t) => {
  await run((sql) => insertModel(sql, model('seen-by-all')));
  await run((sql) => insertModel(sql, model('seen-by-acme', acme)));
  const seen = async (company: string) =>
    (await run((sql) => listModels(sql, company))).map(({ slug }) => slug);
  t.ok((await seen(acme)).includes('seen-by-all'));
  t.ok((await seen(acme)).includes('seen-by-acme'));
  t.notOk((await seen(other)).includes('seen-by-acme'));
  t.ok((await run((sql) => listModels(sql))).some(({ slug }) => slug === 'seen-by-acme'));
});

t.test('slugs that name nothing for a company are found out', async (t) => {
  await run((sql) => insertModel(sql, model('for-all')));
  await run((sql) => insertModel(sql, model('for-acme', acme)));
  const asked = ['for-all', 'for-acme', 'typo', 'typo'];
  t.same(await run((sql) => unknownSlugs(sql, acme, asked)), ['typo']);
  t.same(await run((sql) => unknownSlugs(sql, other, asked)), ['for-acme', 'typo']);
  t.same(await run((sql) => unknownSlugs(sql, acme, [])), []);
});
