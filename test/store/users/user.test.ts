import { randomBytes, randomUUID } from 'node:crypto';
import t from 'tap';
import { hashPassword, verifyPassword } from '../../../src/domain/password.ts';
import { insertCompany } from '../../../src/store/company/company.ts';
import { openDatabase, type Sql } from '../../../src/store/connection/pool.ts';
import { pageOfCompanyUsers } from '../../../src/store/lists/page.ts';
import { insertSession } from '../../../src/store/users/session.ts';
import { deleteUser, insertUser, keepAnOwner, updateRole } from '../../../src/store/users/user.ts';
import { testDatabase } from '../../support/postgres.ts';
import { until } from '../../support/until.ts';

const { db, url } = await testDatabase(t);
const run = <T>(work: (sql: Sql) => Promise<T>) => db.run(60_000, work);
const { id: acme } = await run((sql) => insertCompany(sql, { name: 'Acme' }));
const password = 'correct horse battery';

t.test('a user is stored with a hash of the password, never the password', async (t) => {
  const hash = await hashPassword(password);
  const user = await run((sql) =>
    insertUser(sql, { email: 'ada@example.com', role: 'owner', company_id: acme }, hash),
  );
  t.match(user, { email: 'ada@example.com', role: 'owner', company_id: acme });
  t.same(
    Object.keys(user).sort().join(' '),
    'company_id created_at email erasure_asked_at id oidc_group role second_factor_since',
  );
  const [row] = await run(
    (sql) =>
      sql`select password_hash, to_jsonb(u)::text as everything from users u where id = ${user.id}`,
  );
  t.notOk(row?.everything.includes(password));
  t.equal(await verifyPassword(password, row?.password_hash), true);
});

t.test('an operator has no company, and someone who signs in elsewhere no password', async (t) => {
  const user = { email: 'op@example.com', role: 'operator', company_id: null } as const;
  const { id, company_id } = await run((sql) => insertUser(sql, user, null));
  t.equal(company_id, null);
  const [row] = await run((sql) => sql`select password_hash from users where id = ${id}`);
  t.equal(row?.password_hash, null);
});

t.test('a taken address and an unknown company are refused', async (t) => {
  const user = { email: 'twice@example.com', role: 'member' } as const;
  await run((sql) => insertUser(sql, { ...user, company_id: acme }, null));
  await t.rejects(
    run((sql) => insertUser(sql, { ...user, company_id: acme }, null)),
    { name: 'Refused', kind: 'conflict', noun: 'user' },
  );
  await t.rejects(
    run((sql) =>
      insertUser(sql, { ...user, email: 'lost@example.com', company_id: randomUUID() }, null),
    ),
    {
      name: 'Refused',
      kind: 'missing',
      noun: 'company',
    },
  );
});

t.test('of two owners who remove each other at once, one stays', async (t) => {
  const { id: duo } = await run((sql) => insertCompany(sql, { name: 'Duo' }));
  const owner = (email: string) =>
    run((sql) => insertUser(sql, { email, role: 'owner', company_id: duo }, null));
  const [one, two] = [await owner('one@duo.example'), await owner('two@duo.example')];
  const [removed, commit] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const first = db.transaction(60_000, async (sql) => {
    await keepAnOwner(sql, duo, two.id);
    await deleteUser(sql, two.id);
    removed.resolve();
    await commit.promise;
  });
  await removed.promise;
  let isPast = false;
  const watcher = openDatabase({ url }); // both connections are in use
  t.teardown(() => watcher.close());
  const second = db.transaction(60_000, async (sql) => {
    await keepAnOwner(sql, duo, one.id);
    isPast = true;
    await deleteUser(sql, one.id);
  });
  second.catch(() => {}); // looked at below
  await until(
    async () =>
      isPast ||
      (
        await watcher.run(
          10_000,
          (sql) =>
            sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
        )
      ).length > 0,
    'the second one waits for the first',
    (is) => is,
  );
  commit.resolve();
  await first;
  await t.rejects(second, { kind: 'conflict', message: /last owner/ });
  t.same(
    (await peopleOf(duo)).map(({ email }) => email),
    ['one@duo.example'],
  );
});

async function peopleOf(company: string) {
  const query = { search: '', sort: 'role', descending: false, page: 1 } as const;
  return (await run((sql) => pageOfCompanyUsers(sql, company, query))).rows;
}

t.test('a sign-in is remembered, and no entry of the audit log', async (t) => {
  const { id: solo } = await run((sql) => insertCompany(sql, { name: 'Solo' }));
  const asked = { email: 'solo@example.com', role: 'member', company_id: solo } as const;
  const { id } = await run((sql) => insertUser(sql, asked, null));
  const entries = () =>
    run(async (sql) => (await sql`select from audit_log where subject_id = ${id}`).length);
  t.equal((await peopleOf(solo))[0]?.last_sign_in_at, null);
  await run((sql) => insertSession(sql, { digest: randomBytes(32), userId: id }));
  t.type((await peopleOf(solo))[0]?.last_sign_in_at, Date);
  t.equal(await entries(), 1);
  await run((sql) => updateRole(sql, solo, id, 'owner'));
  t.equal(await entries(), 2, 'a role is');
});
