import t from 'tap';
import { auditedBytes } from '../../../src/store/connection/acting-person.ts';
import type { Sql } from '../../../src/store/connection/pool.ts';
import { testDatabase } from '../../support/postgres.ts';

/** The audit log is written by triggers, so changes of every tool are in it. */

interface Entry {
  actor: string;
  db_role: string;
  action: string;
  subject: string;
  company_id: string | null;
  before: Record<string, unknown> | null;
  after: Record<string, unknown> | null;
}

const { db } = await testDatabase(t);

function entries(sql: Sql): Promise<Entry[]> {
  return sql<
    Entry[]
  >`select actor, db_role, action, subject, company_id, before, after from audit_log order by id`;
}

async function company(sql: Sql): Promise<string> {
  const [row] = await sql<
    [{ id: string }]
  >`insert into companies (name) values ('Acme') returning id`;
  return row.id;
}

t.test('plain SQL is logged with the database role, before and after', (t) =>
  db.run(60_000, async (sql) => {
    const id = await company(sql);
    await sql`update companies set monthly_budget_eur = 12.5, allow_non_eu_models = true where id = ${id}`;
    await sql`delete from companies where id = ${id}`;
    const log = (await entries(sql)).slice(-3);
    t.match(log, [
      {
        action: 'insert',
        subject: 'companies',
        company_id: id,
        before: null,
        after: { name: 'Acme' },
      },
      {
        action: 'update',
        before: { monthly_budget_eur: null },
        after: { monthly_budget_eur: 12.5 },
      },
      { action: 'delete', before: { allow_non_eu_models: true }, after: null },
    ]);
    const [me] = await sql<[{ me: string }]>`select session_user::text as me`;
    for (const entry of log) t.match(entry, { actor: me.me, db_role: me.me });
  }),
);

t.test('the actor is named for one transaction only', async (t) => {
  const id = await db.transaction(60_000, async (sql) => {
    await sql`select set_config('tollgate.actor', 'ada@example.com', true)`;
    return company(sql);
  });
  await db.run(60_000, async (sql) => {
    await sql`update companies set name = 'Acme again' where id = ${id}`;
    const [made, renamed] = (await entries(sql)).filter((entry) => entry.company_id === id);
    t.equal(made?.actor, 'ada@example.com');
    t.equal(renamed?.actor, renamed?.db_role);
  });
});

t.test('an update leaves out what is long and stayed as it was, and adds up what it keeps', (t) =>
  db.transaction(60_000, async (sql) => {
    const kept = () => auditedBytes(sql);
    const [name, prompt, edited] = ['n'.repeat(300), 'p'.repeat(100_000), 'q'.repeat(100_000)];
    const id = await company(sql);
    await sql`insert into assistants (company_id, name, system_prompt) values (${id}, ${name}, ${prompt})`;
    const made = await kept();
    await sql`update assistants set temperature = 0.5 where company_id = ${id}`;
    t.ok((await kept()) - made < 3000);
    await sql`update assistants set system_prompt = ${edited} where company_id = ${id}`;
    t.ok((await kept()) - made > 200_000);
    const log = (await entries(sql)).filter(({ subject }) => subject === 'assistants');
    t.match(log, [
      { before: null, after: { system_prompt: prompt } },
      {
        before: { name, temperature: null, max_tokens: null },
        after: { name, temperature: 0.5, company_id: id },
      },
      {
        before: { name, system_prompt: prompt },
        after: { name, system_prompt: edited, temperature: 0.5 },
      },
    ]);
    for (const row of [log[1]?.before, log[1]?.after])
      t.notOk(Object.hasOwn(row ?? {}, 'system_prompt'));
  }),
);

t.test('the log says that a secret changed, and never the secret', (t) =>
  db.run(60_000, async (sql) => {
    const id = await company(sql);
    await sql`insert into api_keys (company_id, name, digest, prefix, scopes)
      values (${id}, 'k', ${Buffer.alloc(32, 7)}, 'svc_aaaa', '{chat}')`;
    await sql`update api_keys set digest = ${Buffer.alloc(32, 8)} where company_id = ${id}`;
    await sql`insert into users (email, company_id, role, password_hash) values ('a@b', ${id}, 'owner', 'old-hash')`;
    await sql`update users set password_hash = 'new-hash' where email = 'a@b'`;
    await sql`delete from companies where id = ${id}`; // deletes its keys and users as well
    const log = (await entries(sql)).filter((entry) => entry.company_id === id);
    t.same(
      log.map(({ action, subject }) => `${action} ${subject}`).sort(),
      [
        'insert companies',
        'insert api_keys',
        'update api_keys',
        'insert users',
        'update users',
        'delete api_keys',
        'delete users',
        'delete companies',
      ].sort(),
    );
    t.notMatch(JSON.stringify(log), /07070707|08080808|old-hash|new-hash/);
    t.equal(
      log.find(({ action, subject }) => action === 'update' && subject === 'api_keys')?.after
        ?.digest,
      'changed',
    );
    t.equal(
      log.find(({ action, subject }) => action === 'update' && subject === 'users')?.after
        ?.password_hash,
      'changed',
    );
  }),
);

t.test('an update without a difference and the last use of a key are not logged', (t) =>
  db.run(60_000, async (sql) => {
    const id = await company(sql);
    await sql`insert into api_keys (company_id, name, digest, prefix, scopes)
      values (${id}, 'k', ${Buffer.alloc(32, 9)}, 'svc_aaaa', '{chat}')`;
    const before = (await entries(sql)).length;
    await sql`update api_keys set last_used_at = now() where company_id = ${id}`;
    await sql`update companies set name = name where id = ${id}`;
    t.equal((await entries(sql)).length, before);
  }),
);

t.test('a rolled back change leaves no row; truncation leaves one', async (t) => {
  const count = () => db.run(60_000, async (sql) => (await entries(sql)).length);
  const before = await count();
  await t.rejects(
    db.transaction(60_000, async (sql) => {
      await company(sql);
      throw new Error('never mind');
    }),
    /never mind/,
  );
  t.equal(await count(), before);
  await db.run(60_000, (sql) => sql`truncate assistants`);
  const last = (await db.run(60_000, entries)).at(-1);
  t.match(last, { action: 'truncate', subject: 'assistants' });
});

t.test('append-only', async (t) => {
  for (const statement of [
    "update audit_log set actor = 'nobody'",
    'delete from audit_log',
    'truncate audit_log',
  ]) {
    await t.rejects(
      db.run(60_000, (sql) => sql.unsafe(statement)),
      /append-only/,
      statement,
    );
  }
});
