import { createHash, randomUUID } from 'node:crypto';
import t from 'tap';
import { digestOf } from '../../../src/domain/key.ts';
import { insertCompany } from '../../../src/store/company/company.ts';
import {
  endKey,
  findKey,
  idsOfDigests,
  insertKey,
  type KeyChanges,
  keysWithCompany,
  listKeys,
  type NewKey,
  replaceKey,
  updateKey,
} from '../../../src/store/company/key.ts';
import type { Sql } from '../../../src/store/connection/pool.ts';
import { testDatabase } from '../../support/postgres.ts';

const { db } = await testDatabase(t);
const run = <T>(work: (sql: Sql) => Promise<T>) => db.run(60_000, work);
const { id: acme } = await run((sql) => insertCompany(sql, { name: 'Acme' }));
const { id: other } = await run((sql) => insertCompany(sql, { name: 'Other' }));
const asked: NewKey = {
  company_id: acme,
  name: 'ci',
  scopes: ['chat'],
  created_by: 'ada@example.com',
};

t.test(
  'spec 2.7: prefix and 32 base32 characters; stored only as SHA-256, shown later by its first 8',
  async (t) => {
    const created = await run((sql) => insertKey(sql, 'svc_', asked));
    t.match(created.key, /^svc_[a-z2-7]{32}$/);
    t.equal(created.prefix, created.key.slice(0, 8));
    t.match(created, {
      company_id: acme,
      name: 'ci',
      scopes: ['chat'],
      created_by: 'ada@example.com',
      state: 'active',
    });

    const [row] = await run(
      (sql) =>
        sql`select digest, to_jsonb(k)::text as everything from api_keys k where id = ${created.id}`,
    );
    t.same(row?.digest, createHash('sha256').update(created.key).digest());
    t.notOk(row?.everything.includes(created.key), 'the key itself is in no column');
    const [listed] = await run((sql) => listKeys(sql, acme));
    t.notOk(JSON.stringify(listed).includes(created.key.slice(8)), 'a list does not show it');
  },
);

t.test('a short prefix of our own choosing works', async (t) => {
  const { key, prefix } = await run((sql) => insertKey(sql, 'k', asked));
  t.match(key, /^k[a-z2-7]{32}$/);
  t.equal(prefix.length, 8);
});

t.test('scopes are a set, in the order given', async (t) => {
  const scopes = ['embeddings', 'chat', 'embeddings'] as const;
  t.same((await run((sql) => insertKey(sql, 'svc_', { ...asked, scopes }))).scopes, [
    'embeddings',
    'chat',
  ]);
});

t.test('a key of an unknown company, and one that has expired already, are refused', async (t) => {
  await t.rejects(
    run((sql) => insertKey(sql, 'svc_', { ...asked, company_id: randomUUID() })),
    {
      name: 'Refused',
      kind: 'missing',
      noun: 'company',
    },
  );
  const expires_at = new Date(Date.now() - 60_000);
  await t.rejects(
    run((sql) => insertKey(sql, 'svc_', { ...asked, expires_at })),
    { name: 'Refused', kind: 'conflict' },
  );
  t.notOk((await run((sql) => listKeys(sql, acme))).some((key) => key.expires_at !== null));
});

t.test('keys are listed newest first with their state', async (t) => {
  const make = (name: string, expires_at?: Date) =>
    run((sql) => insertKey(sql, 'svc_', { ...asked, company_id: other, name, expires_at }));
  await make('active', new Date('2200-01-01'));
  await make('expired', new Date('2200-01-01'));
  const { id } = await make('revoked', new Date('2200-01-01'));
  await run((sql) => endKey(sql, id));
  await run(
    (sql) =>
      sql`update api_keys set expires_at = now() - interval '1 second' where name = 'expired'`,
  );
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
    { name: 'Refused', noun: 'company' },
  );
});

t.test('revoking twice keeps the first time and announces no second change', async (t) => {
  const { id } = await run((sql) => insertKey(sql, 'svc_', asked));
  const first = await run((sql) => endKey(sql, id));
  t.equal(first.already, false);
  t.type(first.key.revoked_at, Date);
  const [before] = await run((sql) => sql`select max(id) as id from changes`);
  const second = await run((sql) => endKey(sql, id));
  t.equal(second.already, true);
  t.same(second.key, first.key);
  const [after] = await run((sql) => sql`select max(id) as id from changes`);
  t.equal(after?.id, before?.id);
});

t.test('a company revokes only its own keys', async (t) => {
  const { id } = await run((sql) => insertKey(sql, 'svc_', asked));
  await t.rejects(
    run((sql) => endKey(sql, id, other)),
    { name: 'Refused', kind: 'missing', noun: 'key' },
  );
  t.equal((await run((sql) => endKey(sql, id, acme))).already, false);
  await t.rejects(
    run((sql) => endKey(sql, id, other)),
    { name: 'Refused', kind: 'missing' },
  );
  await t.rejects(
    run((sql) => endKey(sql, randomUUID())),
    { name: 'Refused', kind: 'missing' },
  );
});

const restricted = {
  requests_per_minute: 1_000_000_000,
  tokens_per_minute: 1_000_000_000_000,
  max_concurrent: 1_000_000,
  allowed_model_slugs: ['fast', 'with "quotes", {braces}'],
  monthly_budget_eur: '123456789012.123456789012345',
  allowed_cidrs: ['0.0.0.0/0', '10.0.0.0/8', '2001:db8::/32', '::/0'],
};
const make = (more: Partial<NewKey> = {}) =>
  run((sql) => insertKey(sql, 'svc_', { ...asked, ...more }));
const set = (id: string, changes: KeyChanges, company?: string) =>
  run((sql) => updateKey(sql, id, changes, company));

t.test(
  'a key keeps its limits and restrictions to the last digit; lists are sorted sets',
  async (t) => {
    t.match(await make(restricted), restricted);
    const shuffled = (list: readonly string[]) => [...list, ...list].reverse();
    const { id } = await make({
      ...restricted,
      allowed_model_slugs: shuffled(restricted.allowed_model_slugs),
      allowed_cidrs: shuffled(restricted.allowed_cidrs),
    });
    t.match(await run((sql) => findKey(sql, id)), restricted);
    t.match((await run((sql) => listKeys(sql, acme)))[0], restricted);
  },
);

t.test('what a change of a key does not name stays; null clears', async (t) => {
  const { key: _, ...made } = await make({ ...restricted, expires_at: new Date('2200-01-01') });
  t.same(await set(made.id, {}), made);
  t.same(await set(made.id, { max_concurrent: 5 }), { ...made, max_concurrent: 5 });
  const lists = {
    allowed_model_slugs: ['b', 'a', 'b'],
    allowed_cidrs: ['10.0.0.0/8'],
    scopes: ['embeddings', 'chat'],
  } as const;
  t.match(await set(made.id, lists), {
    allowed_model_slugs: ['a', 'b'],
    scopes: ['embeddings', 'chat'],
    name: 'ci',
  });
  const cleared = Object.fromEntries(
    ['expires_at', ...Object.keys(restricted)].map((name) => [name, null]),
  );
  t.match(await set(made.id, { ...cleared, name: 'new' }), {
    ...cleared,
    name: 'new',
    scopes: ['embeddings', 'chat'],
  });
});

t.test('two changes of a key at once both hold', async (t) => {
  const { id } = await make();
  await Promise.all([
    set(id, { requests_per_minute: 1 }),
    set(id, { tokens_per_minute: 2 }),
    set(id, { max_concurrent: 3 }),
    set(id, { allowed_cidrs: ['::1/128'] }),
    set(id, { allowed_model_slugs: ['x'] }),
    set(id, { name: 'both' }),
  ]);
  t.match(await run((sql) => findKey(sql, id)), {
    requests_per_minute: 1,
    tokens_per_minute: 2,
    max_concurrent: 3,
    name: 'both',
    allowed_cidrs: ['::1/128'],
    allowed_model_slugs: ['x'],
  });
});

t.test(
  'only an own key that is not revoked is changed, and never into one that never works',
  async (t) => {
    const { id } = await make();
    const past = new Date(Date.now() - 60_000);
    await t.rejects(set(id, { name: 'theirs' }, other), {
      name: 'Refused',
      kind: 'missing',
      noun: 'key',
    });
    await t.rejects(set(randomUUID(), { name: 'x' }), {
      name: 'Refused',
      kind: 'missing',
      noun: 'key',
    });
    await t.rejects(set(id, { name: 'x', expires_at: past }), {
      kind: 'conflict',
      message: /would never work/,
    });
    t.match(await set(id, { name: 'ours' }, acme), { name: 'ours', expires_at: null });
    await run((sql) => sql`update api_keys set expires_at = ${past} where id = ${id}`);
    t.match(
      await set(id, { expires_at: new Date('2200-01-01') }),
      { state: 'active' },
      'an expired key may go on',
    );
    await run((sql) => endKey(sql, id));
    await t.rejects(set(id, { name: 'x' }), { kind: 'conflict', message: /is revoked/ });
  },
);

t.test('rotating a key copies its limits and restrictions', async (t) => {
  const { id, key } = await make({
    ...restricted,
    name: 'turned',
    expires_at: new Date('2200-01-01'),
  });
  const new_id = randomUUID();
  const created = await db.transaction(60_000, (sql) =>
    replaceKey(sql, 'svc_', {
      id,
      company_id: acme,
      overlap: 60,
      created_by: 'bea@example.com',
      new_id,
    }),
  );
  t.not(created.key, key);
  t.match(created, {
    ...restricted,
    id: new_id,
    name: 'turned',
    expires_at: new Date('2200-01-01'),
    scopes: ['chat'],
  });
  t.match(created, { created_by: 'bea@example.com', last_used_at: null });
});

t.test('a key rotated again during its overlap gets the expiry it had before', async (t) => {
  const rotate = (id: string, overlap: number) =>
    db.transaction(60_000, (sql) =>
      replaceKey(sql, 'svc_', { id, company_id: acme, overlap, created_by: 'bea@example.com' }),
    );
  for (const expires_at of [null, new Date('2200-01-01')]) {
    const first = await make({ expires_at });
    const second = await rotate(first.id, 3600);
    await run((sql) => endKey(sql, second.id));
    const third = await rotate(first.id, 60);
    t.same(
      [second.expires_at, third.expires_at],
      [expires_at, expires_at],
      'its successor was revoked',
    );
    const fourth = await rotate(third.id, 60);
    t.same(
      (await rotate(third.id, 0)).expires_at,
      expires_at,
      'a successor of a successor, which leaked',
    );
    const fifth = await rotate(fourth.id, 60);
    t.same(
      (await rotate(first.id, 0)).expires_at,
      expires_at,
      'all but the last one were shortened',
    );
    const soon = new Date(Date.now() + 86_400_000);
    for (const { id } of [fourth, fifth])
      await run((sql) => updateKey(sql, id, { expires_at: soon }));
    t.same((await rotate(fourth.id, 0)).expires_at, soon, 'one that was set by hand is kept');
  }
});

t.test(
  'keys are found by their digests, those that work first; of one company if asked',
  async (t) => {
    const [revoked, active] = [await make({ name: 'revoked' }), await make({ name: 'active' })];
    const foreign = await make({ company_id: other, name: 'foreign' });
    await run((sql) => endKey(sql, revoked.id));
    const ids = await run((sql) =>
      idsOfDigests(
        sql,
        [revoked, active, foreign, { key: 'unknown' }].map(({ key }) => digestOf(key)),
      ),
    );
    t.same([...ids].sort(), [revoked.id, active.id, foreign.id].sort());
    const found = (company: string | null) => run((sql) => keysWithCompany(sql, ids, company));
    const own = await found(acme);
    t.match(own, [
      { id: active.id, state: 'active', company_name: 'Acme' },
      { id: revoked.id, state: 'revoked' },
    ]);
    t.equal(own.length, 2, 'without any help of the tenant wall');
    t.equal((await found(null)).length, 3);
    t.same(await run((sql) => idsOfDigests(sql, [])), []);
  },
);

t.test('plain SQL: a key that expires at infinity never expires', async (t) => {
  const { id } = await run((sql) => insertKey(sql, 'svc_', { ...asked, name: 'endless' }));
  await run((sql) => sql`update api_keys set expires_at = 'infinity' where id = ${id}`);
  const mine = { name: 'endless', expires_at: null, state: 'active' };
  t.match(await run((sql) => findKey(sql, id)), mine);
  t.match(
    (await run((sql) => listKeys(sql, acme))).find((key) => key.id === id),
    mine,
  );
  t.match(
    await run((sql) =>
      replaceKey(sql, 'svc_', { id, company_id: acme, overlap: 60, created_by: 'ada@example.com' }),
    ),
    mine,
  );
});

t.test('plain SQL: the checks of the table refuse what no reader lets through', async (t) => {
  const { id } = await make();
  for (const [column, values] of Object.entries({
    requests_per_minute: ['0', '-1', '1000000001', '1e30', "'NaN'"],
    tokens_per_minute: ['0', '-1', '1000000000001', '1e30'],
    max_concurrent: ['0', '-1', '1000001'],
    allowed_model_slugs: ["'{}'", "'{a,NULL}'"],
    monthly_budget_eur: ['-1', '1e12', "'NaN'", "'Infinity'", '0.0000000000000001'],
    allowed_cidrs: ["'{}'", "'{NULL}'", "'{10.0.0.1/8}'", "'{10.0.0.1/33}'", "'{x}'"],
  })) {
    for (const table of column.match(/^allowed|budget/)
      ? ['api_keys']
      : ['api_keys', 'companies']) {
      for (const value of values) {
        const where = table === 'companies' ? `id = '${acme}'` : `id = '${id}'`;
        await t.rejects(
          run((sql) => sql.unsafe(`update ${table} set ${column} = ${value} where ${where}`)),
          { code: /^(23514|22\w{3})$/ },
          `${table}.${column} = ${value}`,
        );
      }
    }
  }
});
