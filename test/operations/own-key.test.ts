import { randomBytes, randomUUID } from 'node:crypto';
import t from 'tap';
import { refuse } from '../../src/operations/frame/refused.ts';
import {
  changeKey,
  createKey,
  findKeyInReach,
  mintPlaygroundKey,
  revokeKey,
  rotateKey,
} from '../../src/operations/key.ts';
import {
  type CompanyChanges,
  insertCompany,
  updateCompany,
} from '../../src/store/company/company.ts';
import { findKey, insertKey, type NewKey } from '../../src/store/company/key.ts';
import { type KeyHolder, ownKeyIds, readAllowance } from '../../src/store/company/own-key.ts';
import type { Sql } from '../../src/store/connection/pool.ts';
import { enterCompany } from '../../src/store/connection/tenant-role.ts';
import { deleteUser, insertUser, updateRole } from '../../src/store/users/user.ts';
import { testDatabase } from '../support/postgres.ts';

/** Keys of persons: how many, with which budget, whose they are, and when they end. */

const { db } = await testDatabase(t);
const run = <T>(work: (sql: Sql) => PromiseLike<T>) => db.transaction(60_000, work);

let count = 0;
/** A company that lets its members have keys, and one of its members. */
async function member(
  allowed: Omit<CompanyChanges, 'name'> = { member_max_keys: 2 },
): Promise<KeyHolder> {
  const { id: company_id } = await run((sql) =>
    insertCompany(sql, { name: `Company ${++count}`, ...allowed }),
  );
  return colleague(company_id);
}

async function colleague(company_id: string): Promise<KeyHolder> {
  const email = `person${++count}@example.com`;
  const { id: user_id } = await run((sql) =>
    insertUser(sql, { email, role: 'member', company_id }, null),
  );
  return { company_id, user_id, email };
}

const allow = ({ company_id }: KeyHolder, changes: CompanyChanges) =>
  run((sql) => updateCompany(sql, company_id, changes));
const claim = () => ({ secret: randomBytes(32).toString('base64url'), holder: 'session a' });

/** Behind the wall of the company, as the pages do it. */
const behind = <T>({ company_id }: KeyHolder, work: (sql: Sql) => PromiseLike<T>) =>
  run(async (sql) => {
    await enterCompany(sql, company_id, 'member');
    return work(sql);
  });
const callerOf = (member: KeyHolder) => ({
  services: { keyPrefix: 'svc_' },
  actor: member.email,
  member,
  judge: refuse,
});
const create = (
  holder: KeyHolder,
  asked: Partial<NewKey> = {},
  id: string = randomUUID(),
  by = claim(),
) =>
  behind(holder, (sql) => {
    const settings = { name: 'ci', scopes: ['chat'] as const, ...asked, id };
    return createKey(sql, callerOf(holder), holder.company_id, settings, by);
  });
const rotate = (holder: KeyHolder, id: string, overlap: number) =>
  behind(holder, (sql) =>
    rotateKey(sql, callerOf(holder), holder.company_id, { id, overlap }, claim()),
  );
const stateOf = async (id: string) => (await run((sql) => findKey(sql, id))).state;
const refusedWith = (message: RegExp) => ({ name: 'Refused', kind: 'conflict', message });
const NOT_FOUND = { name: 'Refused', kind: 'missing' };

t.test('a key is of its person, and of nobody unless the company says so', async (t) => {
  const ann = await member();
  const key = await create(ann);
  t.match(key, { user_id: ann.user_id, person: ann.email, created_by: ann.email, state: 'active' });
  t.match(key.key, /^svc_[a-z2-7]{32}$/);
  const none = await member({});
  await t.rejects(create(none), refusedWith(/let members have no keys/));
  const ofCompany = await run((sql) =>
    insertKey(sql, 'svc_', {
      company_id: ann.company_id,
      name: 'CMS',
      scopes: ['chat'],
      created_by: ann.email,
    }),
  );
  t.match(
    ofCompany,
    { user_id: null, person: null },
    'who makes a key of the company does not own it',
  );
});

t.test(
  'as many as the company allows, also where two are made at once; the same form makes one',
  async (t) => {
    const ann = await member({ member_max_keys: 2 });
    const results = await Promise.allSettled(Array.from({ length: 6 }, () => create(ann)));
    const made = results.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
    t.equal(made.length, 2);
    for (const each of results.filter(({ status }) => status === 'rejected'))
      t.match(
        (each as PromiseRejectedResult).reason.message,
        /as many active keys as a member may have here \(2\)/,
      );
    await behind(ann, (sql) =>
      revokeKey(sql, { member: ann }, made[0]?.id as string, ann.company_id),
    );
    const [id, by] = [randomUUID(), claim()];
    const first = await create(ann, {}, id, by);
    t.match(
      await create(ann, {}, id, by),
      { id, key: first.key },
      'sent twice, although there is no place any more',
    );
    const expired = await member({ member_max_keys: 1 });
    const { id: old } = await create(expired, { expires_at: new Date(Date.now() + 60_000) });
    await run((sql) => sql`update api_keys set expires_at = now() where id = ${old}`);
    await create(expired);
    t.equal(
      (await behind(expired, (sql) => readAllowance(sql, expired))).active,
      1,
      'a key that ended takes no place',
    );
    const bob = await colleague(ann.company_id);
    t.ok((await create(bob)).key, 'each member has places of their own');
  },
);

t.test(
  'a budget is at most what the company allows, and that where none is asked for',
  async (t) => {
    const ann = await member({ member_max_keys: 10, member_key_budget_eur: '20' });
    const budgetOf = async (asked?: string | null) =>
      (await create(ann, asked === undefined ? {} : { monthly_budget_eur: asked }))
        .monthly_budget_eur;
    t.equal(await budgetOf('19.5'), '19.5');
    t.equal(await budgetOf('20.00'), '20');
    for (const none of [undefined, null, '0', '0.00'])
      t.equal(await budgetOf(none), '20', `${none}`);
    await t.rejects(budgetOf('20.01'), { name: 'Refused', message: /must be at most 20, / });
    const free = await member({ member_max_keys: 2 });
    t.equal((await create(free)).monthly_budget_eur, null);
    t.equal((await create(free, { monthly_budget_eur: '1000' })).monthly_budget_eur, '1000');
  },
);

t.test('a setting that is lowered holds for what is made from then on', async (t) => {
  const ann = await member({ member_max_keys: 2, member_key_budget_eur: '20' });
  const [one, two] = [await create(ann), await create(ann)];
  await allow(ann, { member_max_keys: 1, member_key_budget_eur: '5' });
  for (const { id } of [one, two])
    t.match(await run((sql) => findKey(sql, id)), { state: 'active', monthly_budget_eur: '20' });
  await t.rejects(create(ann), refusedWith(/\(1\)/));
  t.match(
    await rotate(ann, one.id, 0),
    { monthly_budget_eur: '20' },
    'one that replaces another is as that was',
  );
  await behind(ann, (sql) => revokeKey(sql, { member: ann }, two.id, ann.company_id));
  await allow(ann, { member_max_keys: 2 });
  t.match(await create(ann), { monthly_budget_eur: '5' });
});

t.test('a rotation keeps whose key it is; an overlap makes one more at most', async (t) => {
  const ann = await member({ member_max_keys: 1 });
  const first = await create(ann, { monthly_budget_eur: '3' });
  const second = await rotate(ann, first.id, 3600);
  t.match(second, { user_id: ann.user_id, monthly_budget_eur: '3', name: 'ci' });
  t.equal(await stateOf(first.id), 'active');
  await t.rejects(
    rotate(ann, second.id, 3600),
    refusedWith(/With both keys you would have too many/),
  );
  await t.rejects(create(ann), refusedWith(/as many active keys/));
  const third = await rotate(ann, second.id, 0);
  t.equal(await stateOf(second.id), 'revoked');
  t.ok(third.key);
  await allow(ann, { member_max_keys: 0 });
  await t.rejects(rotate(ann, third.id, 3600), refusedWith(/too many/));
  t.ok((await rotate(ann, third.id, 0)).key, 'what leaked is replaced, whatever is allowed now');
});

t.test('keys of others and of the company are not found', async (t) => {
  const ann = await member();
  const bob = await colleague(ann.company_id);
  const eve = await member();
  const ofCompany = await run((sql) =>
    insertKey(sql, 'svc_', {
      company_id: ann.company_id,
      name: 'CMS',
      scopes: ['chat'],
      created_by: ann.email,
    }),
  );
  await behind(ann, (sql) =>
    mintPlaygroundKey(sql, 'svc_', {
      company_id: ann.company_id,
      email: ann.email,
      role: 'member',
    }),
  );
  const [own, theirs] = [await create(ann), await create(bob)];
  const playground = (await run((sql) => ownKeyIds(sql, ann))).find(
    (id) => id !== own.id,
  ) as string;
  for (const id of [theirs.id, ofCompany.id, playground, (await create(eve)).id, randomUUID()]) {
    await t.rejects(
      behind(ann, (sql) => findKeyInReach(sql, { member: ann }, id, ann.company_id)),
      NOT_FOUND,
    );
    await t.rejects(
      behind(ann, (sql) => changeKey(sql, callerOf(ann), id, ann.company_id, { name: 'mine' })),
      NOT_FOUND,
    );
    await t.rejects(
      behind(ann, (sql) => revokeKey(sql, { member: ann }, id, ann.company_id)),
      NOT_FOUND,
    );
    await t.rejects(rotate(ann, id, 0), NOT_FOUND);
  }
  await t.rejects(
    create(bob, {}, own.id),
    refusedWith(/exists already/),
    'the id of a form of somebody else',
  );
  t.match(
    await behind(ann, (sql) =>
      changeKey(sql, callerOf(ann), own.id, ann.company_id, { name: 'mine' }),
    ),
    {
      name: 'mine',
      user_id: ann.user_id,
    },
  );
  t.same((await run((sql) => ownKeyIds(sql, ann))).sort(), [own.id, playground].sort());
});

t.test(
  'it ends with its person: removed, erased, in another company; not with the role',
  async (t) => {
    const ann = await member();
    const bob = await colleague(ann.company_id);
    const [hers, his] = [await create(ann), await create(bob)];
    await run((sql) => updateRole(sql, ann.company_id, ann.user_id, 'administrator'));
    t.match(await run((sql) => findKey(sql, hers.id)), { state: 'active', user_id: ann.user_id });
    await run(
      (sql) => sql`update users set email = 'ann.new@example.com' where id = ${ann.user_id}`,
    );
    t.match(await run((sql) => findKey(sql, hers.id)), {
      state: 'active',
      person: 'ann.new@example.com',
    });
    const [{ before }] = await run(
      (sql) =>
        sql<[{ before: number }]>`select coalesce(max(id), 0)::float8 as before from changes`,
    );
    await behind(ann, (sql) => deleteUser(sql, ann.user_id));
    t.match(await run((sql) => findKey(sql, hers.id)), {
      state: 'revoked',
      person: null,
      user_id: ann.user_id,
    });
    t.ok(
      (await run((sql) => sql`select from changes where id > ${before} and kind = 'key'`)).length >
        0,
      'gateways are told by the change feed',
    );
    t.equal(await stateOf(his.id), 'active');
    const other = await member();
    await run(
      (sql) => sql`update users set company_id = ${other.company_id} where id = ${bob.user_id}`,
    );
    t.equal(await stateOf(his.id), 'revoked');
    const eve = await member();
    const erased = await create(eve);
    await run((sql) => sql`select erase_person(${eve.email}, false)`);
    t.equal(await stateOf(erased.id), 'revoked');
    t.notMatch(JSON.stringify(await run((sql) => findKey(sql, erased.id))), eve.email);
  },
);

t.test('a group of the identity provider that goes takes the keys along', async (t) => {
  const ann = await member();
  const { id } = await create(ann);
  await run(
    (sql) =>
      sql`insert into oidc_groups (name, company_id, role) values ('staff', ${ann.company_id}, 'member')`,
  );
  await run((sql) => sql`update users set oidc_group = 'staff' where id = ${ann.user_id}`);
  t.equal(await stateOf(id), 'active');
  await run((sql) => sql`delete from oidc_groups where name = 'staff'`);
  t.equal(await stateOf(id), 'revoked');
});

t.test(
  'of a closed company: a person who is erased leaves no key that would work after it is reopened',
  async (t) => {
    const ann = await member();
    const { id } = await create(ann);
    await run((sql) => sql`update companies set closed_at = now() where id = ${ann.company_id}`);
    await t.rejects(create(ann), /closed/);
    await run((sql) => sql`select erase_person(${ann.email}, false)`);
    await run((sql) => sql`update companies set closed_at = null where id = ${ann.company_id}`);
    t.equal(await stateOf(id), 'revoked');
  },
);

t.test('a person who is removed meanwhile gets no key', async (t) => {
  const ann = await member({ member_max_keys: 50 });
  const results = await Promise.allSettled([
    ...Array.from({ length: 5 }, () => create(ann)),
    behind(ann, (sql) => deleteUser(sql, ann.user_id)),
    ...Array.from({ length: 5 }, () => create(ann)),
  ]);
  t.equal(results[5]?.status, 'fulfilled');
  const active = await run(
    (sql) => sql`select from api_keys where user_id = ${ann.user_id} and revoked_at is null`,
  );
  t.equal(active.length, 0);
  await t.rejects(create(ann), NOT_FOUND);
});
