import { randomUUID } from 'node:crypto';
import t from 'tap';
import {
  deleteAssistant,
  insertAssistant,
  listAssistants,
  updateAssistant,
} from '../../../src/store/company/assistant.ts';
import { insertCompany } from '../../../src/store/company/company.ts';
import type { Sql } from '../../../src/store/connection/pool.ts';
import { testDatabase } from '../../support/postgres.ts';

const { db } = await testDatabase(t);
const run = <T>(work: (sql: Sql) => Promise<T>) => db.run(60_000, work);
const { id: acme } = await run((sql) => insertCompany(sql, { name: 'Acme' }));
const { id: other } = await run((sql) => insertCompany(sql, { name: 'Other' }));
const plain = { company_id: acme, name: 'Helper', system_prompt: '- be\nkind' };
const full = {
  ...plain,
  model_slug: 'fast',
  temperature: 0.7,
  max_tokens: 32_000,
  visibility: 'projects',
  project_id: randomUUID(),
} as const;

t.test('an assistant begins shared company-wide, without model and settings', async (t) => {
  const { id, created_at, ...rest } = await run((sql) => insertAssistant(sql, plain));
  t.same(rest, {
    ...plain,
    model_slug: null,
    temperature: null,
    max_tokens: null,
    visibility: 'company',
    project_id: null,
  });
  t.match(id, /^[0-9a-f-]{36}$/);
  t.type(created_at, Date);
});

t.test('an assistant is stored as it was given', async (t) => {
  t.match(await run((sql) => insertAssistant(sql, full)), full);
});

t.test('a change leaves what it does not name, and null empties', async (t) => {
  const made = await run((sql) => insertAssistant(sql, full));
  t.same(await run((sql) => updateAssistant(sql, made.id, {})), made);
  const empty = {
    model_slug: null,
    temperature: null,
    max_tokens: null,
    project_id: null,
  } as const;
  t.same(await run((sql) => updateAssistant(sql, made.id, empty)), { ...made, ...empty });
  const { company_id, ...rest } = full;
  const again = {
    ...rest,
    temperature: 0,
    name: 'Other',
    system_prompt: '',
    visibility: 'private',
  } as const;
  t.same(await run((sql) => updateAssistant(sql, made.id, again)), { ...made, ...again });
});

t.test('an assistant of an unknown company is refused', async (t) => {
  await t.rejects(
    run((sql) => insertAssistant(sql, { ...plain, company_id: randomUUID() })),
    {
      name: 'Refused',
      kind: 'missing',
      noun: 'company',
    },
  );
  await t.rejects(
    run((sql) => listAssistants(sql, randomUUID())),
    { name: 'Refused', noun: 'company' },
  );
});

t.test('a company changes, removes and lists only its own', async (t) => {
  const { id } = await run((sql) => insertAssistant(sql, plain));
  const refusal = { name: 'Refused', kind: 'missing', noun: 'assistant' };
  await t.rejects(
    run((sql) => updateAssistant(sql, id, { name: 'Mine' }, other)),
    refusal,
  );
  await t.rejects(
    run((sql) => deleteAssistant(sql, id, other)),
    refusal,
  );
  t.same(await run((sql) => listAssistants(sql, other)), []);
  t.ok((await run((sql) => listAssistants(sql, acme))).some((each) => each.id === id));
  t.equal((await run((sql) => deleteAssistant(sql, id, acme))).id, id);
  await t.rejects(
    run((sql) => deleteAssistant(sql, id)),
    refusal,
  );
  await t.rejects(
    run((sql) => updateAssistant(sql, id, { name: 'Gone' })),
    refusal,
  );
});
