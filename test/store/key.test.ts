import { createHash, randomUUID } from 'node:crypto';
import t from 'tap';
import { createCompany } from '../../src/store/company.ts';
import type { Sql } from '../../src/store/database.ts';
import { createKey, listKeys, type NewKey, revokeKey } from '../../src/store/key.ts';
import { testDatabase } from '../support/postgres.ts';

const { db } = await testDatabase(t);
const run = <T>(work: (sql: Sql) => Promise<T>) => db.run(10_000, work);
const { id: acme } = await run((sql) => createCompany(sql, { name: 'Acme' }));
const { id: other } = await run((sql) => createCompany(sql, { name: 'Other' }));
const asked: NewKey = { company_id: acme, name: 'ci', scopes: ['chat'], created_by: 'ada@example.com' };

t.test('spec 2.7: prefix and 32 base32 characters; stored only as SHA-256, shown later by its first 8', async (t) => {
  const created = await run((sql) => createKey(sql, 'svc_', asked));
  t.match(created.key, /^svc_[a-z2-7]{32}$/);
  t.equal(created.prefix, created.key.slice(0, 8));
  t.match(created, { company_id: acme, name: 'ci', scopes: ['chat'], created_by: 'ada@example.com', state: 'active' });

  const [row] = await run(
    (sql) => sql`select digest, to_jsonb(k)::text as everything from api_keys k where id = ${created.id}`,
  );
  t.same(row?.digest, createHash('sha256').update(created.key).digest());
  t.notOk(row?.everything.includes(created.key), 'the key itself is in no column');
  const [listed] = await run((sql) => listKeys(sql, acme));
  t.notOk(JSON.stringify(listed).includes(created.key.slice(8)), 'a list does not show it');
});

t.test('a short prefix of our own choosing works', async (t) => {
  const { key, prefix } = await run((sql) => createKey(sql, 'k', asked));
  t.match(key, /^k[a-z2-7]{32}$/);
  t.equal(prefix.length, 8);
});

t.test('scopes are a set, in the order given', async (t) => {
  const scopes = ['embeddings', 'chat', 'embeddings'] as const;
  t.same((await run((sql) => createKey(sql, 'svc_', { ...asked, scopes }))).scopes, ['embeddings', 'chat']);
});

t.test('a key of an unknown company, and one that has expired already, are refused', async (t) => {
  await t.rejects(
    run((sql) => createKey(sql, 'svc_', { ...asked, company_id: randomUUID() })),
    {
      name: 'RefusedChange',
      reason: 'not_found',
      noun: 'company',
    },
  );
  const expires_at = new Date(Date.now() - 60_000);
  await t.rejects(
    run((sql) => createKey(sql, 'svc_', { ...asked, expires_at })),
    { name: 'RefusedChange', reason: 'conflict' },
  );
  t.notOk((await run((sql) => listKeys(sql, acme))).some((key) => key.expires_at !== null));
});

t.test('keys are listed newest first with their state', async (t) => {
  const make = (name: string, expires_at?: Date) =>
    run((sql) => createKey(sql, 'svc_', { ...asked, company_id: other, name, expires_at }));
  await make('active', new Date('2200-01-01'));
  await make('expired', new Date('2200-01-01'));
  const { id } = await make('revoked', new Date('2200-01-01'));
  await run((sql) => revokeKey(sql, id));
  await run((sql) => sql`update api_keys set expires_at = now() - interval '1 second' where name = 'expired'`);
  const keys = await run((sql) => listKeys(sql, other));
  t.same(
    keys.map(({ name, state }) => [name, state]),
    [
      ['revoked', 'revoked'],
      ['expired', 'expired'],
      ['active', 'active'],
    ],
  );
  await t.rejects(
    run((sql) => listKeys(sql, randomUUID())),
    { name: 'RefusedChange', noun: 'company' },
  );
});

t.test('revoking twice keeps the first time and announces no second change', async (t) => {
  const { id } = await run((sql) => createKey(sql, 'svc_', asked));
  const first = await run((sql) => revokeKey(sql, id));
  t.equal(first.already, false);
  t.type(first.key.revoked_at, Date);
  const [before] = await run((sql) => sql`select max(id) as id from changes`);
  const second = await run((sql) => revokeKey(sql, id));
  t.equal(second.already, true);
  t.same(second.key, first.key);
  const [after] = await run((sql) => sql`select max(id) as id from changes`);
  t.equal(after?.id, before?.id);
});

t.test('a company revokes only its own keys', async (t) => {
  const { id } = await run((sql) => createKey(sql, 'svc_', asked));
  await t.rejects(
    run((sql) => revokeKey(sql, id, other)),
    { name: 'RefusedChange', reason: 'not_found', noun: 'key' },
  );
  t.equal((await run((sql) => revokeKey(sql, id, acme))).already, false);
  await t.rejects(
    run((sql) => revokeKey(sql, id, other)),
    { name: 'RefusedChange', reason: 'not_found' },
  );
  await t.rejects(
    run((sql) => revokeKey(sql, randomUUID())),
    { name: 'RefusedChange', reason: 'not_found' },
  );
});
