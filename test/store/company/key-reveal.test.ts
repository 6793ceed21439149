import { randomBytes, randomUUID } from 'node:crypto';
import t from 'tap';
import { insertCompany } from '../../../src/store/company/company.ts';
import {
  endKey,
  findKey,
  insertKey,
  type NewKey,
  replaceKey,
} from '../../../src/store/company/key.ts';
import { type Claim, makeKeyOnce } from '../../../src/store/company/key-reveal.ts';
import type { Sql } from '../../../src/store/connection/pool.ts';
import { enterCompany } from '../../../src/store/connection/tenant-role.ts';
import { testDatabase } from '../../support/postgres.ts';

/** Keys that are created once, however often they are asked for. */

const { db } = await testDatabase(t);
const run = <T>(work: (sql: Sql) => Promise<T>) => db.run(60_000, work);
const { id: acme } = await run((sql) => insertCompany(sql, { name: 'Acme' }));
const { id: other } = await run((sql) => insertCompany(sql, { name: 'Other' }));

type Asked = NewKey & { readonly id: string };
const request = (more: Partial<Omit<NewKey, 'id'>> = {}): Asked => ({
  id: randomUUID(),
  company_id: acme,
  name: 'ci',
  scopes: ['chat'],
  created_by: 'ada@example.com',
  ...more,
});
const claimOf = (holder = 'session a'): Claim => ({
  secret: randomBytes(32).toString('base64url'),
  holder,
});

/** As a page does it: behind the wall of the company. */
const create = (asked: Asked, claim: Claim) =>
  db.transaction(60_000, async (sql) => {
    await enterCompany(sql, asked.company_id);
    return makeKeyOnce(sql, asked.id, asked, claim, () => insertKey(sql, 'svc_', asked));
  });
const rotate = (id: string, new_id: string, overlap: number, claim: Claim) =>
  db.transaction(60_000, async (sql) => {
    await enterCompany(sql, acme);
    const asked = { id, company_id: acme, overlap, created_by: 'ada@example.com', new_id };
    return makeKeyOnce(sql, new_id, asked, claim, () => replaceKey(sql, 'svc_', asked));
  });
const keysNamed = (name: string) => run((sql) => sql`select id from api_keys where name = ${name}`);
const reveals = () =>
  run((sql) => sql<{ key_id: string; ciphertext: Buffer }[]>`select * from key_reveals`);
const age = () => run((sql) => sql`update key_reveals set expires_at = now()`);

t.test('the same request makes one key and gets its text again', async (t) => {
  const [asked, claim] = [
    request({ name: 'twice', expires_at: new Date('2200-01-01') }),
    claimOf(),
  ];
  const first = await create(asked, claim);
  t.match(first.key, /^svc_[a-z2-7]{32}$/);
  t.same(await create(asked, claim), first);
  t.equal((await keysNamed('twice')).length, 1);
});

t.test('ten at once make one key', async (t) => {
  const [asked, claim] = [request({ name: 'at once' }), claimOf()];
  const made = await Promise.all(Array.from({ length: 10 }, () => create(asked, claim)));
  t.equal(new Set(made.map(({ key }) => key)).size, 1);
  t.match(made[0]?.key, /^svc_/);
  t.equal((await keysNamed('at once')).length, 1);
});

t.test(
  'another secret, another holder and other settings get the key without its text',
  async (t) => {
    const [asked, claim] = [request(), claimOf()];
    const { key, ...row } = await create(asked, claim);
    t.same(await create(asked, claimOf()), { ...row, key: null });
    t.same(await create(asked, { ...claim, holder: 'session b' }), { ...row, key: null });
    t.same(await create({ ...asked, name: 'other' }, claim), { ...row, key: null });
    t.equal((await create(asked, claim)).key, key, 'they spoil nothing');
  },
);

t.test('after its minute, and once it is revoked, the text is gone', async (t) => {
  const [asked, claim] = [request(), claimOf()];
  await create(asked, claim);
  await age();
  t.equal((await create(asked, claim)).key, null);
  t.notOk(
    (await reveals()).some(({ key_id }) => key_id === asked.id),
    'and so is the row',
  );
  const [later, its] = [request(), claimOf()];
  await create(later, its);
  await run((sql) => endKey(sql, later.id));
  t.match(await create(later, its), { key: null, state: 'revoked' });
});

t.test('the minute is one', async (t) => {
  await create(request(), claimOf());
  const [row] = await run(
    (sql) =>
      sql`select extract(epoch from expires_at - now())::float8 as left from key_reveals order by 1 desc limit 1`,
  );
  t.ok(row?.left > 50 && row?.left <= 60, `${row?.left} s`);
});

t.test("another company's key is not told of", async (t) => {
  const [asked, claim] = [request(), claimOf()];
  await create(asked, claim);
  await t.rejects(create({ ...asked, company_id: other }, claim), {
    name: 'Refused',
    kind: 'conflict',
  });
});

t.test('a request that is refused leaves nothing', async (t) => {
  const [asked, claim] = [request({ expires_at: new Date('2020-01-01') }), claimOf()];
  await t.rejects(create(asked, claim), { message: /would never work/ });
  t.notOk((await reveals()).some(({ key_id }) => key_id === asked.id));
});

t.test('a rotation is done once, and shown again', async (t) => {
  for (const overlap of [0, 3600]) {
    const { id } = await create(request({ name: `turned ${overlap}` }), claimOf());
    const [new_id, claim] = [randomUUID(), claimOf()];
    const made = await Promise.all(
      Array.from({ length: 5 }, () => rotate(id, new_id, overlap, claim)),
    );
    t.equal(new Set(made.map(({ key }) => key)).size, 1);
    t.match(made[0], { id: new_id, key: /^svc_/ });
    t.equal((await keysNamed(`turned ${overlap}`)).length, 2);
    const old = await run((sql) => findKey(sql, id));
    t.equal(old.state, overlap === 0 ? 'revoked' : 'active');
    t.same(await rotate(id, new_id, overlap, claim), made[0]);
    t.same(
      (await run((sql) => findKey(sql, id))).expires_at,
      old.expires_at,
      'the old one does not last longer',
    );
    await age();
    t.match(await rotate(id, new_id, overlap, claim), { id: new_id, key: null });
  }
});

t.test('no table holds the text of a key, or what reads it', async (t) => {
  const [asked, claim] = [request({ name: 'searched' }), claimOf()];
  const { key } = await create(asked, claim);
  const tables = await run(
    (sql) => sql<{ name: string }[]>`
      select relname as name from pg_class
      where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition`,
  );
  t.ok(tables.some(({ name }) => name === 'key_reveals'));
  for (const { name } of tables) {
    const rows = await run(
      (sql) => sql<{ text: string }[]>`select to_jsonb(r)::text as text from ${sql(name)} r`,
    );
    const dump = rows.map(({ text }) => text).join('\n');
    for (const secret of [
      key as string,
      claim.secret,
      Buffer.from(key as string).toString('hex'),
    ]) {
      t.notOk(dump.includes(secret), name);
    }
  }
});
