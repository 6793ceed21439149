import { randomUUID } from 'node:crypto';
import t, { type Test } from 'tap';
import { insertAssistant } from '../../../src/store/company/assistant.ts';
import { insertCompany, updateCompany } from '../../../src/store/company/company.ts';
import { endKey, insertKey } from '../../../src/store/company/key.ts';
import { insertModel } from '../../../src/store/company/model.ts';
import { type Database, openDatabase, type Sql } from '../../../src/store/connection/pool.ts';
import {
  ensureTenantRole,
  enterCompany,
  within,
} from '../../../src/store/connection/tenant-role.ts';
import { trailStore } from '../../../src/store/gateway/request-trail.ts';
import { pageOfCompanyUsers } from '../../../src/store/lists/page.ts';
import { migrate } from '../../../src/store/schema/migrate.ts';
import { readOverview } from '../../../src/store/usage/overview.ts';
import { insertGroup } from '../../../src/store/users/group.ts';
import { deleteInvitation, insertInvitation } from '../../../src/store/users/invitation.ts';
import { insertToken } from '../../../src/store/users/token.ts';
import { deleteUser, insertUser, updateRole } from '../../../src/store/users/user.ts';
import { inDatabase, privateServer, testDatabase } from '../../support/postgres.ts';
import { addRequests } from '../../support/requests.ts';
import { addStatementRows } from '../../support/statement.ts';
import { addUsage } from '../../support/usage.ts';

/** Row-level security keeps companies apart where a WHERE was forgotten (sql/schema/tenant.sql). */

const MS = 60_000;

/** A company with a row in every table that has rows of companies. */
async function fullCompany(
  db: Database,
  name: string,
): Promise<{ id: string; key: string; assistant: string }> {
  const made = await db.transaction(MS, async (sql) => {
    const { id } = await insertCompany(sql, { name });
    const key = await insertKey(sql, 'svc_', {
      company_id: id,
      name,
      scopes: ['chat'],
      created_by: 'test',
    });
    const assistant = await insertAssistant(sql, {
      company_id: id,
      name,
      system_prompt: `the secret of ${name}`,
    });
    await insertModel(sql, {
      slug: `${name}-own`,
      company_id: id,
      upstream_model: 'internal',
      kind: 'chat',
      eu_hosted: true,
      cost_eur_per_1k_input: '1',
      cost_eur_per_1k_output: '1',
    });
    await insertUser(sql, { email: `${name}@example.com`, role: 'owner', company_id: id }, null);
    await insertGroup(sql, { name: `/${name}/staff`, role: 'member', company_id: id });
    await insertInvitation(sql, {
      company_id: id,
      email: `new-${name}@example.com`,
      role: 'member',
      created_by: 'test',
    });
    await sql`insert into alert_receivers (company_id, percents, forecast) values (${id}, '{80}', true)`;
    await sql`insert into cost_center_budgets (company_id, name, monthly_budget_eur) values (${id}, ${name}, 5)`;
    await sql`insert into end_users (company_id, name) values (${id}, 'somebody')`;
    await sql`insert into chat_usage (company_id, cost_eur) values (${id}, 1)`;
    await sql`insert into budget_reservations values (${randomUUID()}, ${id}, '2026-11-01', ${randomUUID()}, 1, now())`;
    await sql`
      insert into budget_alerts (company_id, billing_month, threshold, budget_eur, spent_eur)
      values (${id}, '2026-11-01', '50', 10, 5)`;
    await sql`insert into end_user_alerts values (${id}, '2026-11-01', ${randomUUID()}, 100)`;
    await sql`
      insert into unusual_days (company_id, day, measure, subject, about, value, usual, superseded)
      values (${id}, '2026-11-01', 'spend', 'company', '', 9, 1, false)`;
    const token = {
      name,
      company_id: id,
      access: 'read',
      created_by: null,
      expires_at: null,
    } as const;
    await insertToken(sql, token);
    await sql`insert into key_reveals values (${id}, ${key.id}, 'x', now() + interval '1 minute')`;
    await addUsage(sql, [
      { company: id, prompt: 10, cached: 3, input: '0.5', endUser: randomUUID() },
    ]);
    await addStatementRows(sql, id);
    await sql`update companies set price_factor = 0.9 where id = ${id}`;
    return { id, key: key.id, assistant: assistant.id };
  });
  await addRequests(trailStore(db), [
    { company: made.id, status: 502, upstreamStatus: 500, reason: 'internal words' },
  ]);
  return made;
}

/** Tables and views, without partitions and those of extensions, and the column that says whose a row is. */
function tables(sql: Sql): PromiseLike<{ name: string; owner: string | null }[]> {
  return sql<{ name: string; owner: string | null }[]>`
    select relname as name, case relname when 'companies' then 'id' else
      (select attname from pg_attribute where attrelid = c.oid and attname = 'company_id' and not attisdropped) end as owner
    from pg_class c
    where relnamespace = 'public'::regnamespace and relkind in ('r', 'p', 'v', 'm') and not relispartition
      and not exists (select from pg_depend where classid = 'pg_class'::regclass and objid = c.oid and deptype = 'e')
    order by 1`;
}

/** For operators: what they pay and ask for, even of a company's own models, and what gateways learn of the spend of all. */
const OPERATORS = [
  ...['model_cost_prices', 'model_prices', 'company_price_factors'],
  ...['upstream_costs', 'upstream_cost_monthly', 'spend_changes'],
];
const NEVER_READ = { code: '42501' }; // insufficient_privilege

t.test('with every WHERE forgotten', async (t) => {
  const { url, db } = await testDatabase(t);
  const [one, two] = [await fullCompany(db, 'one'), await fullCompany(db, 'two')];
  await db.run(MS, (sql) =>
    insertUser(sql, { email: 'op@example.com', role: 'operator', company_id: null }, null),
  );
  const all = await db.run(MS, tables);
  const owned = all.filter(({ owner, name }) => owner !== null && !OPERATORS.includes(name)) as {
    name: string;
    owner: string;
  }[];
  t.ok(owned.length >= 11, 'there are tables to look at');

  for (const { name, owner } of owned) {
    await t.test(`${name} shows the company's rows and no others`, async (t) => {
      const read = (sql: Sql) =>
        sql<{ whose: string | null }[]>`select ${sql(owner)} as whose from ${sql(name)}`;
      const owners = new Set((await db.run(MS, read)).map(({ whose }) => whose));
      t.ok(owners.has(one.id) && owners.has(two.id), 'without a company there are rows of both');
      for (const { id } of [one, two]) {
        const seen = new Set((await within(db, id, MS, read)).map(({ whose }) => whose));
        if (name === 'models') seen.delete(null); // shared by all
        t.same([...seen], [id]);
      }
      t.same(
        await within(db, randomUUID(), MS, read),
        [],
        'and nothing to a company that does not exist',
      );
    });
  }

  await t.test('what the upstream said is for operators', async (t) => {
    for (const column of ['upstream_status', 'upstream_reason']) {
      const said = within(db, one.id, MS, (sql) => sql`select ${sql(column)} from request_trail`);
      await t.rejects(said, NEVER_READ, column);
    }
  });

  await t.test('the ledger has its rows, and its partitions none', async (t) => {
    const rows = await within(db, one.id, MS, (sql) => sql`select company_id from api_usage`);
    t.same(
      rows.map((row) => row.company_id),
      [one.id],
    );
    await t.rejects(
      within(db, one.id, MS, (sql) => sql`select * from api_usage_2026_11`),
      NEVER_READ,
    );
  });

  await t.test('what belongs to nobody, and secrets, are not there at all', async (t) => {
    const rest = all.filter(
      ({ name, owner }) => OPERATORS.includes(name) || (owner === null && name !== 'settings'),
    );
    t.ok(rest.some(({ name }) => name === 'sessions'));
    for (const { name } of rest) {
      await t.rejects(
        within(db, one.id, MS, (sql) => sql`select * from ${sql(name)}`),
        NEVER_READ,
        name,
      );
    }
    const secrets = [
      ['api_keys', 'digest'],
      ['users', 'password_hash'],
      ['invitations', 'digest'],
      ['admin_tokens', 'digest'],
    ] as const;
    for (const [table, column] of secrets) {
      await t.rejects(
        within(db, one.id, MS, (sql) => sql`select ${sql(column)} from ${sql(table)}`),
        NEVER_READ,
        column,
      );
    }
  });

  await t.test('changes reach the company alone', async (t) => {
    const names = () => db.run(MS, (sql) => sql`select name from assistants order by name`);
    await within(db, one.id, MS, (sql) => sql`update assistants set name = 'renamed'`);
    t.same(await names(), [{ name: 'renamed' }, { name: 'two' }]);
    await within(db, one.id, MS, (sql) => sql`delete from assistants`);
    t.same(await names(), [{ name: 'two' }]);
    await t.rejects(
      within(db, one.id, MS, (sql) =>
        insertAssistant(sql, { company_id: two.id, name: 'x', system_prompt: 'x' }),
      ),
      { code: '42501' },
      'nothing is put among the rows of another',
    );
    await t.rejects(
      within(db, one.id, MS, (sql) => endKey(sql, two.key)),
      { message: /There is no/ },
    );
    await t.rejects(
      within(db, one.id, MS, (sql) => updateCompany(sql, two.id, { name: 'taken over' })),
      { message: /There is no/ },
    );
    await t.rejects(
      within(db, one.id, MS, (sql) => sql`delete from companies`),
      NEVER_READ,
    );
  });

  await t.test(
    'a company changes its own people and invitations, and its ceilings not at all',
    async (t) => {
      const query = { search: '', sort: 'role', descending: false, page: 1 } as const;
      const [theirs] = (await db.run(MS, (sql) => pageOfCompanyUsers(sql, two.id, query))).rows;
      const [invited] = await db.run(
        MS,
        (sql) => sql<{ id: string }[]>`select id from invitations where company_id = ${two.id}`,
      );
      const asOne = (work: (sql: Sql) => Promise<unknown>) => within(db, one.id, MS, work);
      const none = { message: /There is no such/ };
      await t.rejects(
        asOne((sql) => updateRole(sql, two.id, theirs?.id as string, 'member')),
        none,
      );
      await t.rejects(
        asOne((sql) => deleteUser(sql, theirs?.id as string)),
        none,
      );
      await t.rejects(
        asOne((sql) => deleteInvitation(sql, invited?.id as string, two.id)),
        none,
      );
      await t.rejects(
        asOne((sql) =>
          insertInvitation(sql, {
            company_id: two.id,
            email: 'x@example.com',
            role: 'owner',
            created_by: 'x',
          }),
        ),
        NEVER_READ,
      );
      await t.rejects(
        asOne((sql) =>
          insertInvitation(sql, {
            company_id: one.id,
            email: 'two@example.com',
            role: 'owner',
            created_by: 'x',
          }),
        ),
        {
          message:
            'two@example.com cannot be invited: the address has an account already. Choose another address.',
        },
        'an account of another company is seen, and not whose it is',
      );
      for (const ceiling of ['credit_limit_eur = null', 'eu_locked = false']) {
        await t.rejects(
          asOne((sql) => sql.unsafe(`update companies set ${ceiling}`)),
          NEVER_READ,
          ceiling,
        );
      }
      await t.rejects(
        asOne((sql) => sql`update users set company_id = null, role = 'operator'`),
        NEVER_READ,
      );
      await t.rejects(
        asOne((sql) => sql`update users set role = 'operator'`),
        { code: '23514' },
        'nobody becomes an operator',
      );
      await t.rejects(
        asOne((sql) => sql`update users set email = 'x@example.com'`),
        NEVER_READ,
      );
    },
  );

  await t.test('what a company may change is announced and audited as ever', async (t) => {
    await db.run(MS, (sql) => sql`delete from changes`);
    const made = await within(db, one.id, MS, async (sql) => {
      await updateCompany(sql, one.id, { monthly_budget_eur: '7' });
      await endKey(sql, one.key);
      return insertKey(sql, 'svc_', {
        company_id: one.id,
        name: 'new',
        scopes: ['chat'],
        created_by: 'test',
      });
    });
    const kinds = await db.run(MS, (sql) => sql`select distinct kind from changes order by 1`);
    t.same(kinds, [{ kind: 'company' }, { kind: 'key' }]);
    const [entry] = await db.run(
      MS,
      (sql) => sql`select actor, db_role from audit_log where subject_id = ${made.id}`,
    );
    const [user] = await db.run(MS, (sql) => sql`select session_user::text as name`);
    t.equal(entry?.db_role, user?.name, 'by the database user, not by the tenant role');
  });

  await t.test('what others are told, and what operators decided, is not written', async (t) => {
    const refused = (text: string) =>
      t.rejects(
        within(db, one.id, MS, (sql) => sql.unsafe(text)),
        NEVER_READ,
        text,
      );
    await refused("insert into changes (kind, subject) values ('all', '')");
    await db.run(MS, (sql) => sql`update api_keys set paused_at = now() where id = ${one.key}`);
    await refused('update api_keys set paused_at = null');
    const [key] = await db.run(
      MS,
      (sql) => sql`update api_keys set paused_at = null where id = ${one.key} returning paused_at`,
    );
    t.equal(key?.paused_at, null, 'an operator ends it');
  });

  await t.test('the tenant role ends with the transaction', async (t) => {
    const single = openDatabase({ url, maxConnections: 1 });
    t.teardown(() => single.close());
    const count = (sql: Sql) => sql`select count(*) as n from companies`;
    t.same(await within(single, one.id, MS, count), [{ n: 1 }]);
    t.same(await single.run(MS, count), [{ n: 2 }]);
    const failed = single.transaction(MS, async (sql) => {
      await enterCompany(sql, one.id);
      throw new Error('changed my mind');
    });
    await t.rejects(failed, { message: 'changed my mind' });
    t.same(await single.run(MS, count), [{ n: 2 }], 'a failed one too');
  });
});

t.test('a database user of modest rights', async (t: Test) => {
  const server = await privateServer(t);
  const admin = openDatabase({ url: server.url });
  t.teardown(() => admin.close());
  const become = async (name: string, rights: string) => {
    await admin.run(MS, (sql) => sql.unsafe(`create role ${name} login ${rights}`));
    await admin.run(MS, (sql) => sql.unsafe(`create database ${name} owner ${name}`));
    const url = inDatabase(server.url, name).replace(/\/\/[^@/]*@/, `//${name}@`);
    const db = openDatabase({ url });
    t.teardown(() => db.close());
    await migrate(db, { billingTimezone: 'UTC' });
    return db;
  };
  const seen = (db: Database, id: string) =>
    within(db, id, MS, (sql) => sql`select name from companies order by 1`);

  const modest = await become('modest', 'nocreaterole');
  const { id } = await fullCompany(modest, 'one');
  await fullCompany(modest, 'two');
  const create = 'create role tollgate_tenant nologin; grant tollgate_tenant to modest';
  t.equal(await ensureTenantRole(modest), create, 'may not make the role, and says what to run');
  t.same(await seen(modest, id), [{ name: 'one' }, { name: 'two' }], 'and all works as it did');

  const able = await become('able', 'createrole');
  const mine = await fullCompany(able, 'one');
  await fullCompany(able, 'two');
  t.equal(await ensureTenantRole(able), null, 'may make the role');
  t.same(await seen(able, mine.id), [{ name: 'one' }]);

  const grant = 'grant tollgate_tenant to modest';
  t.equal(await ensureTenantRole(modest), grant, 'a role of another user does not work yet');
  t.equal(
    (await readOverview((query) => modest.run(MS, query))).tenant_role_advice,
    grant,
    'as operators are told',
  );
  await admin.run(MS, (sql) => sql.unsafe(grant));
  t.equal(await ensureTenantRole(modest), null, 'until an administrator lets it be taken');
  t.same(await seen(modest, id), [{ name: 'one' }]);

  await admin.run(MS, (sql) => sql`alter role tollgate_tenant bypassrls`);
  const unbound = (await ensureTenantRole(modest)) ?? '';
  t.match(unbound, /nobypassrls/, 'a role that row-level security does not bind is none');
  await admin.run(MS, (sql) => sql.unsafe(unbound));
  t.equal(await ensureTenantRole(modest), null, 'what was advised is enough');

  // another program, with grants of its own and no company entered
  await admin.run(MS, (sql) => sql`create role application login`);
  await modest.run(MS, (sql) => sql`grant all on all tables in schema public to application`);
  const application = openDatabase({
    url: inDatabase(server.url, 'modest').replace(/\/\/[^@/]*@/, '//application@'),
  });
  t.teardown(() => application.close());
  await application.run(
    MS,
    (sql) => sql`insert into chat_usage (company_id, cost_eur) values (${id}, 1)`,
  );
  const [{ n }] = await application.run(
    MS,
    (sql) => sql<[{ n: number }]>`select count(*) as n from chat_usage`,
  );
  t.equal(n, 3, 'sees what its grants say');
});
