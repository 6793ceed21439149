import { randomUUID } from 'node:crypto';
import t from 'tap';
import { verifyPassword } from '../../src/domain/password.ts';
import { createCompany } from '../../src/store/company.ts';
import type { Sql } from '../../src/store/database.ts';
import { createUser } from '../../src/store/user.ts';
import { testDatabase } from '../support/postgres.ts';

const { db } = await testDatabase(t);
const run = <T>(work: (sql: Sql) => Promise<T>) => db.run(10_000, work);
const { id: acme } = await run((sql) => createCompany(sql, { name: 'Acme' }));
const password = 'correct horse battery';

t.test('a user is stored with a hash of the password, never the password', async (t) => {
  const user = await run((sql) =>
    createUser(sql, { email: 'ada@example.com', password, role: 'owner', company_id: acme }),
  );
  t.match(user, { email: 'ada@example.com', role: 'owner', company_id: acme });
  t.same(Object.keys(user).sort(), ['company_id', 'created_at', 'email', 'id', 'role']);
  const [row] = await run(
    (sql) => sql`select password_hash, to_jsonb(u)::text as everything from users u where id = ${user.id}`,
  );
  t.notOk(row?.everything.includes(password));
  t.equal(await verifyPassword(password, row?.password_hash), true);
});

t.test('an operator has no company, and someone who signs in elsewhere no password', async (t) => {
  const user = { email: 'op@example.com', password: null, role: 'operator', company_id: null } as const;
  const { id, company_id } = await run((sql) => createUser(sql, user));
  t.equal(company_id, null);
  const [row] = await run((sql) => sql`select password_hash from users where id = ${id}`);
  t.equal(row?.password_hash, null);
});

t.test('a taken address and an unknown company are refused', async (t) => {
  const user = { email: 'twice@example.com', password: null, role: 'member' } as const;
  await run((sql) => createUser(sql, { ...user, company_id: acme }));
  await t.rejects(
    run((sql) => createUser(sql, { ...user, company_id: acme })),
    { name: 'RefusedChange', reason: 'conflict', noun: 'user' },
  );
  await t.rejects(
    run((sql) => createUser(sql, { ...user, email: 'lost@example.com', company_id: randomUUID() })),
    {
      name: 'RefusedChange',
      reason: 'not_found',
      noun: 'company',
    },
  );
});
