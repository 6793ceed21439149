import { randomUUID } from 'node:crypto';
import t from 'tap';
import { verifyPassword } from '../../src/domain/password.ts';
import { tollgate } from '../support/cli.ts';
import { testDatabase } from '../support/postgres.ts';

const { db, url } = await testDatabase(t);
const env = { DATABASE_URL: url };
const { id: company } = (await tollgate(['company', 'create', '--name', 'Acme', '--json'], { env })).json;
const create = (args: string[], stdin = '') =>
  tollgate(['user', 'create', ...args, '--password-stdin', '--json'], { env, stdin });

t.test('the password is standard input without a newline at its end', async (t) => {
  const made = await create(['--email', 'Ada@Example.com', '--role', 'operator'], ' correct horse \r\n');
  t.match(made, { code: 0, err: '', json: { email: 'ada@example.com', role: 'operator', company_id: null } });
  t.notMatch(made.out, /horse|scrypt/);
  const [row] = await db.run(5000, (sql) => sql`select password_hash from users where id = ${made.json.id}`);
  t.equal(await verifyPassword(' correct horse ', row?.password_hash), true);
});

t.test('owners, administrators and members have a company, operators none', async (t) => {
  const password = 'correct horse battery';
  for (const role of ['owner', 'administrator', 'member']) {
    const email = `${role}@example.com`;
    t.match((await create(['--email', email, '--role', role, '--company', company], password)).json, {
      role,
      company_id: company,
    });
    t.match(await create(['--email', email, '--role', role], password), {
      code: 64,
      out: '',
      err: /missing --company/,
    });
  }
  const operator = ['--email', 'op@example.com', '--role', 'operator', '--company', company];
  t.match(await create(operator, password), { code: 64, out: '', err: /an operator has no --company/ });
  const lost = ['--email', 'lost@example.com', '--role', 'member', '--company', randomUUID()];
  t.match(await create(lost, password), { code: 1, out: '', err: /There is no company/ });
  const twice = ['--email', 'OWNER@example.com', '--role', 'owner', '--company', company];
  t.match(await create(twice, password), { code: 1, out: '', err: /There is a user owner@example\.com already/ });
});

t.test('a password that is too short or far too long is refused and not repeated', async (t) => {
  const args = ['--email', 'new@example.com', '--role', 'operator'];
  for (const password of ['', 'eleven char', 'hunter2\n', 'x'.repeat(100_000)]) {
    const { code, out, err } = await create(args, password);
    t.match({ code, out }, { code: 64, out: '' });
    t.match(err, /^tollgate: the password on standard input must have at least 12 characters/);
    t.notMatch(err, /eleven|hunter2|xxx/);
  }
  const { code, err } = await tollgate(['user', 'create', ...args], { env });
  t.match({ code, err }, { code: 64, err: /missing --password-stdin/ });
});
