import t from 'tap';
import { digestOf } from '../../../src/domain/key.ts';
import { allowPlayground, mintPlaygroundKey } from '../../../src/operations/key.ts';
import { insertCompany } from '../../../src/store/company/company.ts';
import {
  endKey,
  findKey,
  idsOfDigests,
  insertKey,
  type KeyRow,
  listKeys,
  replaceKey,
  updateKey,
} from '../../../src/store/company/key.ts';
import { isPlaygroundRevoked } from '../../../src/store/company/playground-key.ts';
import type { Sql } from '../../../src/store/connection/pool.ts';
import { enterCompany } from '../../../src/store/connection/tenant-role.ts';
import { countKeys, pageOfKeys, playgroundKeys } from '../../../src/store/lists/page.ts';
import { deleteUser } from '../../../src/store/users/user.ts';
import { testDatabase } from '../../support/postgres.ts';

/** The key of a person who tries models on the pages. */

const { db } = await testDatabase(t);
const run = <T>(work: (sql: Sql) => Promise<T>) => db.run(60_000, work);
const { id: acme } = await run((sql) => insertCompany(sql, { name: 'Acme' }));
const { id: other } = await run((sql) => insertCompany(sql, { name: 'Other' }));

/** Behind the wall, as the pages do it. */
const behind = <T>(company: string, work: (sql: Sql) => Promise<T>) =>
  db.transaction(60_000, async (sql) => {
    await enterCompany(sql, company);
    return work(sql);
  });
const mint = (email: string, company_id = acme) =>
  behind(company_id, (sql) => mintPlaygroundKey(sql, 'svc_', { company_id, email, role: 'owner' }));
const idOf = async (key: string) => (await run((sql) => idsOfDigests(sql, [digestOf(key)])))[0];
const keysOf = (email: string) =>
  run((sql) => sql`select * from api_keys where created_by = ${email}`);

t.test('one key for each person and company; a new text stops the one before', async (t) => {
  const first = await mint('ann@example.com');
  const id = await idOf(first);
  t.match(await keysOf('ann@example.com'), [
    {
      id,
      name: 'Playground of ann@example.com',
      purpose: 'playground',
      scopes: ['chat', 'assistants'],
    },
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
    (sql) =>
      sql`select extract(epoch from expires_at - now())::float8 as left from api_keys where purpose is not null`,
  );
  t.ok(row?.left > 550 && row?.left <= 600, `${row?.left}`);
});

t.test('ten at once have one key', async (t) => {
  await Promise.all(Array.from({ length: 10 }, () => mint('many@example.com')));
  t.equal((await keysOf('many@example.com')).length, 1);
});

t.test('what is set for the key stays with it', async (t) => {
  await mint('narrow@example.com');
  await run(
    (sql) => sql`update api_keys set max_concurrent = 1 where created_by = 'narrow@example.com'`,
  );
  await mint('narrow@example.com');
  t.match(await keysOf('narrow@example.com'), [{ max_concurrent: 1 }]);
});

t.test('a revoked key gets no text until it is allowed again', async (t) => {
  const player = { company_id: acme, email: 'rev@example.com', role: 'owner' } as const;
  t.equal(await run((sql) => isPlaygroundRevoked(sql, player)), false, 'nothing was ever there');
  const id = (await idOf(await mint(player.email))) as string;
  await run((sql) => endKey(sql, id));
  t.equal(await run((sql) => isPlaygroundRevoked(sql, player)), true);
  await t.rejects(mint(player.email), {
    name: 'Refused',
    kind: 'conflict',
    message: /was revoked/,
  });
  t.equal(await run((sql) => isPlaygroundRevoked(sql, { ...player, company_id: other })), false);
  await behind(acme, (sql) => allowPlayground(sql, 'svc_', player));
  const again = await idOf(await mint(player.email));
  t.not(again, id);
  t.equal(await run((sql) => isPlaygroundRevoked(sql, player)), false);
});

t.test('lists of keys have it apart, and it is never rotated', async (t) => {
  const ordinary = {
    company_id: other,
    name: 'ci',
    scopes: ['chat'] as const,
    created_by: 'ann@example.com',
  };
  await run((sql) => insertKey(sql, 'svc_', ordinary));
  const all = { search: '', sort: 'name', descending: false, page: 1 } as const;
  const page = await db.transaction(60_000, (sql) => pageOfKeys(sql, other, 'active', all));
  t.match(page, { total: 1, rows: [{ name: 'ci', purpose: null }] });
  t.same(await run((sql) => countKeys(sql, other)), { active: 1, dead: 0 });
  const [trial, ...more] = await behind(other, (sql) => playgroundKeys(sql, other));
  t.match(trial, { name: 'Playground of ann@example.com', spent: '0' });
  t.same(more, []);
  t.equal((await run((sql) => listKeys(sql, other))).length, 2);
  const asked = { id: trial?.id as string, company_id: other, overlap: 0, created_by: 'x' };
  await t.rejects(
    db.transaction(60_000, (sql) => replaceKey(sql, 'svc_', asked)),
    { kind: 'conflict', message: /never shown/ },
  );
});

t.test('the wall keeps the digest unreadable, and the keys of others unchanged', async (t) => {
  await t.rejects(
    behind(acme, (sql) => sql`select digest from api_keys`),
    { code: '42501' },
  );
  await t.rejects(
    behind(acme, (sql) =>
      mintPlaygroundKey(sql, 'svc_', {
        company_id: other,
        email: 'eve@example.com',
        role: 'owner',
      }),
    ),
    { code: '42501' },
  );
  const changed = await behind(
    acme,
    (sql) => sql`update api_keys set prefix = 'changed' where company_id = ${other}`,
  );
  t.equal(changed.count, 0);
});

t.test(
  'its name, scopes and end cannot be changed, by whatever face; its limits can',
  async (t) => {
    const id = (await idOf(await mint('fix@example.com'))) as string;
    const before = await keysOf('fix@example.com');
    const { expires_at, scopes, name } = before[0] as unknown as KeyRow;
    const later = new Date(Date.now() + 86_400_000);
    for (const changes of [
      { name: 'nice' },
      { scopes: ['chat'] },
      { scopes: ['chat', 'embeddings'] },
      { scopes: ['chat', 'assistants', 'embeddings'] },
      { scopes: [] },
      { expires_at: null },
      { expires_at: later },
      { expires_at: later, max_concurrent: 2 },
    ] as const) {
      await t.rejects(
        behind(acme, (sql) => updateKey(sql, id, changes, acme)),
        { name: 'Refused', kind: 'conflict', message: /of a user's playground/ },
        JSON.stringify(changes),
      );
    }
    t.same(await keysOf('fix@example.com'), before);
    const same = { name, expires_at, scopes: [...scopes].reverse() };
    const changed = await behind(acme, (sql) =>
      updateKey(sql, id, { ...same, max_concurrent: 2 }, acme),
    );
    t.match(changed, { name, expires_at, max_concurrent: 2 }, 'as a form sends what it showed');
    await t.rejects(
      run((sql) => updateKey(sql, id, { name: 'x' }, other)),
      { kind: 'missing', message: /no key/ },
    );
  },
);

t.test('it ends with its person', async (t) => {
  const addUser = (email: string, company: string | null) =>
    run(
      (sql) => sql<[{ id: string }]>`
        insert into users (email, company_id, role) values (${email}, ${company}, ${company === null ? 'operator' : 'owner'})
        returning id`,
    );
  const alive = async (email: string) =>
    (
      await run(
        (sql) => sql<{ company_id: string }[]>`
          select company_id from api_keys where created_by = ${email} and revoked_at is null and purpose is not null`,
      )
    ).map(({ company_id }) => company_id);
  await addUser('stays@example.com', acme);
  const [leaver] = await addUser('leaves@example.com', acme);
  const [mover] = await addUser('moves@example.com', acme);
  const [operator] = await addUser('serves@example.com', null);
  await addUser('rules@example.com', null);
  for (const email of ['stays', 'leaves', 'moves', 'serves']) await mint(`${email}@example.com`);
  await mint('serves@example.com', other);
  const program = {
    company_id: acme,
    name: 'ci',
    scopes: ['chat'] as const,
    created_by: 'leaves@example.com',
  };
  const { id: kept } = await run((sql) => insertKey(sql, 'svc_', program));

  await behind(acme, (sql) => deleteUser(sql, leaver.id));
  t.same(await alive('leaves@example.com'), []);
  t.match(await run((sql) => findKey(sql, kept)), { state: 'active' }, 'a key for programs stays');
  await run((sql) => sql`update users set role = 'administrator' where id = ${mover.id}`);
  t.same(await alive('moves@example.com'), [acme], 'with another role too');
  await run((sql) => sql`update users set company_id = ${other} where id = ${mover.id}`);
  t.same(await alive('moves@example.com'), []);
  t.equal((await alive('serves@example.com')).length, 2);
  await run((sql) => deleteUser(sql, operator.id));
  t.same(await alive('serves@example.com'), [], 'an operator, in all companies');
  t.same(await alive('stays@example.com'), [acme]);

  await addUser('leaves@example.com', acme);
  await t.rejects(
    mint('leaves@example.com'),
    { message: /was revoked/ },
    'who comes back allows it anew',
  );
});
