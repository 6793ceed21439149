import t from 'tap';
import { digestOf } from '../../src/domain/key.ts';
import { createCompany } from '../../src/store/company.ts';
import type { Sql } from '../../src/store/database.ts';
import { createKey, idsOfDigests, listKeys, revokeKey, rotateKey } from '../../src/store/key.ts';
import { countKeys, pageOfKeys, playgroundKeys } from '../../src/store/page.ts';
import { allowPlayground, isPlaygroundRevoked, mintPlaygroundKey } from '../../src/store/playground-key.ts';
import { enterCompany } from '../../src/store/tenant-role.ts';
import { testDatabase } from '../support/postgres.ts';

/** The key of a person who tries models on the pages. */

const { db } = await testDatabase(t);
const run = <T>(work: (sql: Sql) => Promise<T>) => db.run(10_000, work);
const { id: acme } = await run((sql) => createCompany(sql, { name: 'Acme' }));
const { id: other } = await run((sql) => createCompany(sql, { name: 'Other' }));

/** Behind the wall, as the pages do it. */
const behind = <T>(company: string, work: (sql: Sql) => Promise<T>) =>
  db.transaction(10_000, async (sql) => {
    await enterCompany(sql, company);
    return work(sql);
  });
const mint = (email: string, company_id = acme) =>
  behind(company_id, (sql) => mintPlaygroundKey(sql, 'svc_', { company_id, email, role: 'owner' }));
const idOf = async (key: string) => (await run((sql) => idsOfDigests(sql, [digestOf(key)])))[0];
const keysOf = (email: string) => run((sql) => sql`select * from api_keys where created_by = ${email}`);

t.test('one key for each person and company; a new text stops the one before', async (t) => {
  const first = await mint('ann@example.com');
  const id = await idOf(first);
  t.match(await keysOf('ann@example.com'), [
    { id, name: 'Playground of ann@example.com', purpose: 'playground', scopes: ['chat', 'assistants'] },
  ]);
  const second = await mint('ann@example.com');
  t.equal(await idOf(second), id);
  t.equal(await idOf(first), undefined);
  t.not(await idOf(await mint('bob@example.com')), id);
  t.not(await idOf(await mint('ann@example.com', other)), id);
  t.equal((await keysOf('ann@example.com')).length, 2);
});

t.test('a text works for ten minutes', async (t) => {
  const [row] = await run(
    (sql) => sql`select extract(epoch from expires_at - now())::float8 as left from api_keys where purpose is not null`,
  );
  t.ok(row?.left > 550 && row?.left <= 600, `${row?.left}`);
});

t.test('ten at once have one key', async (t) => {
  await Promise.all(Array.from({ length: 10 }, () => mint('many@example.com')));
  t.equal((await keysOf('many@example.com')).length, 1);
});

t.test('what is set for the key stays with it', async (t) => {
  await mint('narrow@example.com');
  await run((sql) => sql`update api_keys set max_concurrent = 1 where created_by = 'narrow@example.com'`);
  await mint('narrow@example.com');
  t.match(await keysOf('narrow@example.com'), [{ max_concurrent: 1 }]);
});

t.test('a revoked key gets no text until it is allowed again', async (t) => {
  const player = { company_id: acme, email: 'rev@example.com', role: 'owner' } as const;
  t.equal(await run((sql) => isPlaygroundRevoked(sql, player)), false, 'nothing was ever there');
  const id = (await idOf(await mint(player.email))) as string;
  await run((sql) => revokeKey(sql, id));
  t.equal(await run((sql) => isPlaygroundRevoked(sql, player)), true);
  await t.rejects(mint(player.email), { name: 'RefusedChange', reason: 'conflict', message: /was revoked/ });
  t.equal(await run((sql) => isPlaygroundRevoked(sql, { ...player, company_id: other })), false);
  await behind(acme, (sql) => allowPlayground(sql, 'svc_', player));
  const again = await idOf(await mint(player.email));
  t.not(again, id);
  t.equal(await run((sql) => isPlaygroundRevoked(sql, player)), false);
});

t.test('lists of keys have it apart, and it is never rotated', async (t) => {
  const ordinary = { company_id: other, name: 'ci', scopes: ['chat'] as const, created_by: 'ann@example.com' };
  await run((sql) => createKey(sql, 'svc_', ordinary));
  const all = { search: '', sort: 'name', descending: false, page: 1 } as const;
  const page = await db.transaction(10_000, (sql) => pageOfKeys(sql, other, 'active', all));
  t.match(page, { total: 1, rows: [{ name: 'ci', purpose: null }] });
  t.same(await run((sql) => countKeys(sql, other)), { active: 1, dead: 0 });
  const [trial, ...more] = await behind(other, (sql) => playgroundKeys(sql, other));
  t.match(trial, { name: 'Playground of ann@example.com', spent: '0' });
  t.same(more, []);
  t.equal((await run((sql) => listKeys(sql, other))).length, 2);
  const asked = { id: trial?.id as string, company_id: other, overlap: 0, created_by: 'x' };
  await t.rejects(
    db.transaction(10_000, (sql) => rotateKey(sql, 'svc_', asked)),
    { reason: 'conflict', message: /never shown/ },
  );
});

t.test('the wall keeps the digest unreadable, and the keys of others unchanged', async (t) => {
  await t.rejects(
    behind(acme, (sql) => sql`select digest from api_keys`),
    { code: '42501' },
  );
  await t.rejects(
    behind(acme, (sql) =>
      mintPlaygroundKey(sql, 'svc_', { company_id: other, email: 'eve@example.com', role: 'owner' }),
    ),
    { code: '42501' },
  );
  const changed = await behind(acme, (sql) => sql`update api_keys set prefix = 'changed' where company_id = ${other}`);
  t.equal(changed.count, 0);
});
