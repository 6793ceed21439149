import { randomBytes, randomUUID } from 'node:crypto';
import { PassThrough, Readable } from 'node:stream';
import t from 'tap';
import { runCli } from '../../../src/cli/cli.ts';
import { verifyPassword } from '../../../src/domain/password.ts';
import { findInvitation } from '../../../src/store/users/invitation.ts';
import { insertSession } from '../../../src/store/users/session.ts';
import { findUser } from '../../../src/store/users/user.ts';
import { tollgate } from '../../support/cli.ts';
import { testDatabase } from '../../support/postgres.ts';
import { startMailbox } from '../../support/receiver.ts';

const { db, url } = await testDatabase(t);
const env = { DATABASE_URL: url };
const { id: company } = (await tollgate(['company', 'create', '--name', 'Acme', '--json'], { env }))
  .json;
const create = (args: string[], stdin = '') =>
  tollgate(['user', 'create', ...args, '--password-stdin', '--json'], { env, stdin });

t.test('the password is standard input without a newline at its end', async (t) => {
  const made = await create(
    ['--email', 'Ada@Example.com', '--role', 'operator'],
    ' correct horse \r\n',
  );
  t.match(made, {
    code: 0,
    err: '',
    json: { email: 'ada@example.com', role: 'operator', company_id: null },
  });
  t.notMatch(made.out, /horse|scrypt/);
  const [row] = await db.run(
    5000,
    (sql) => sql`select password_hash from users where id = ${made.json.id}`,
  );
  t.equal(await verifyPassword(' correct horse ', row?.password_hash), true);
});

t.test('owners, administrators and members have a company, operators none', async (t) => {
  const password = 'correct horse battery';
  for (const role of ['owner', 'administrator', 'member']) {
    const email = `${role}@example.com`;
    t.match(
      (await create(['--email', email, '--role', role, '--company', company], password)).json,
      {
        role,
        company_id: company,
      },
    );
    t.match(await create(['--email', email, '--role', role], password), {
      code: 64,
      out: '',
      err: /--company must be given for every role but operator/,
    });
  }
  const operator = ['--email', 'op@example.com', '--role', 'operator', '--company', company];
  t.match(await create(operator, password), {
    code: 64,
    out: '',
    err: /--company must be left out for an operator/,
  });
  const lost = ['--email', 'lost@example.com', '--role', 'member', '--company', randomUUID()];
  t.match(await create(lost, password), { code: 1, out: '', err: /There is no company/ });
  const twice = ['--email', 'OWNER@example.com', '--role', 'owner', '--company', company];
  t.match(await create(twice, password), {
    code: 1,
    out: '',
    err: /There is a user owner@example\.com already/,
  });
});

t.test('a password that is too short or far too long is refused and not repeated', async (t) => {
  const args = ['--email', 'new@example.com', '--role', 'operator'];
  for (const password of ['', 'eleven char', 'hunter2\n', 'x'.repeat(100_000)]) {
    const { code, out, err } = await create(args, password);
    t.match({ code, out }, { code: 64, out: '' });
    t.match(err, /the password on standard input must have at least 12 characters/);
    t.notMatch(err, /eleven|hunter2|xxx/);
  }
  const { code, err } = await tollgate(['user', 'create', ...args], { env });
  t.match({ code, err }, { code: 64, err: /missing --password-stdin/ });
});

t.test('invite prints a link once, which leads to the pages', async (t) => {
  const invite = (email: string, more = {}) =>
    tollgate(
      ['user', 'invite', '--email', email, '--role', 'owner', '--company', company, '--json'],
      {
        env: { ...env, ...more },
      },
    );
  const made = await invite('New@example.com');
  t.match(made, {
    code: 0,
    json: { email: 'new@example.com', role: 'owner', company_id: company },
  });
  t.equal(
    made.err,
    'tollgate: warning: the link has the address of this machine, http://127.0.0.1:8081; ADMIN_URL sets another\n',
  );
  const [, token = ''] =
    /^http:\/\/127\.0\.0\.1:8081\/invitation\/([\w-]{43})$/.exec(made.json.link) ?? [];
  const found = await db.run(60_000, (sql) => findInvitation(sql, token));
  t.match(found, { email: 'new@example.com', created_by: 'cli', company_name: 'Acme' });
  t.match(await invite('b@example.com', { ADMIN_URL: 'https://admin.example.com' }), {
    code: 0,
    err: '',
    json: { link: /^https:\/\/admin\.example\.com\/invitation\// },
  });
  t.match(await invite('c@example.com', { ADMIN_PORT: 'off' }), {
    code: 1,
    out: '',
    err: /set ADMIN_URL/,
  });
  t.match(await invite('new@example.com'), {
    code: 1,
    err: /invited already.*--renew .*--withdraw/,
  });
  t.match(await invite('ada@example.com'), { code: 1, err: /has an account already/ });
  const args = [
    'user',
    'invite',
    '--email',
    'd@example.com',
    '--company',
    company,
    '--role',
    'operator',
  ];
  t.match(await tollgate(args, { env }), {
    code: 64,
    err: /--role must be owner, administrator or member/,
  });
});

t.test('an open invitation is listed, renewed and withdrawn', async (t) => {
  const joining = (await tollgate(['company', 'create', '--name', 'Joining', '--json'], { env }))
    .json.id;
  const invite = (...more: string[]) =>
    tollgate(
      ['user', 'invite', '--email', 'Eva@example.com', '--company', joining, ...more, '--json'],
      { env },
    );
  const list = (...more: string[]) =>
    tollgate(['user', 'list', '--company', joining, ...more], { env });
  const made = await invite('--role', 'owner');
  const renewed = await invite('--renew');
  t.match(renewed, {
    code: 0,
    json: { id: made.json.id, email: 'eva@example.com', role: 'owner' },
  });
  const find = (link: string) => db.run(60_000, (sql) => findInvitation(sql, link.slice(-43)));
  t.match(
    [await find(made.json.link), await find(renewed.json.link)],
    [null, { id: made.json.id }],
  );
  const { out } = await list();
  t.match(out, /^Nobody has joined the company yet\.\n\nINVITED +ROLE +COMPANY +LINK\n/);
  t.match(out, /\neva@example\.com +owner +Joining +works until \d{4}-\d\d-\d\d \d\d:\d\d UTC\n$/);
  t.match(
    (await tollgate(['user', 'list'], { env })).out,
    /\neva@example\.com +owner +Joining +works/,
    'of all',
  );
  const [row] = (await list('--json')).json;
  const { id, email, expires_at: end } = renewed.json;
  t.match(row, {
    id,
    email,
    company_name: 'Joining',
    last_sign_in_at: null,
    invitation_expires_at: end,
  });
  await db.run(60_000, (sql) => sql`update invitations set expires_at = now() where id = ${id}`);
  t.match((await list()).out, /eva@example\.com +owner +Joining +has ended\n/);
  t.match(await invite(), { code: 64, err: /missing --role/ });
  t.match(await invite('--renew', '--role', 'owner'), { code: 64, err: /keeps its role/ });
  t.match(await invite('--renew', '--withdraw'), { code: 64, err: /exclude each other/ });
  t.match(await invite('--withdraw'), { code: 0, err: '', json: { id, role: 'owner' } });
  t.match(await invite('--renew'), {
    code: 1,
    err: /no such invitation\. See .*tollgate user list --company ID/,
  });
  t.match((await list()).out, /no users; "tollgate user invite"/);
});

t.test('list shows all users, or those of a company', async (t) => {
  const all = await tollgate(['user', 'list'], { env });
  t.match(all, {
    code: 0,
    err: '',
    out: /^ID +EMAIL +ROLE +COMPANY +SECOND FACTOR +LAST SIGN-IN \(UTC\)\n/,
  });
  t.match(all.out, /ada@example\.com +operator +all +- +-\n/);
  t.match(all.out, /owner@example\.com +owner +Acme +- +-\n/);
  const { json } = await tollgate(['user', 'list', '--company', company, '--json'], { env });
  const joined = json.filter(
    (row: { invitation_expires_at: unknown }) => row.invitation_expires_at === null,
  );
  t.same(
    joined.map(({ email }: { email: string }) => email),
    ['administrator@example.com', 'member@example.com', 'owner@example.com'],
  );
  t.notMatch(JSON.stringify(json), /scrypt|password/);
});

t.test('set-password replaces the hash and ends the sessions of the user', async (t) => {
  const id = await db.run(60_000, async (sql) => {
    const user = await findUser(sql, 'owner@example.com');
    await insertSession(sql, { digest: randomBytes(32), userId: user?.id as string });
    return user?.id as string;
  });
  const set = (email: string, stdin: string) =>
    tollgate(['user', 'set-password', '--email', email, '--password-stdin', '--json'], {
      env,
      stdin,
    });
  const done = await set('Owner@example.com', 'a wholly new password\n');
  t.match(done, { code: 0, err: '', json: { id, email: 'owner@example.com' } });
  t.notMatch(done.out, 'wholly');
  const after = await db.run(60_000, async (sql) => ({
    user: await findUser(sql, 'owner@example.com'),
    sessions: (await sql`select from sessions where user_id = ${id}`).length,
  }));
  t.equal(await verifyPassword('a wholly new password', after.user?.password_hash ?? null), true);
  t.equal(after.sessions, 0);
  t.match(await set('nobody@example.com', 'a wholly new password'), {
    code: 1,
    out: '',
    err: /no such user.*user list/,
  });
  t.match(await set('owner@example.com', 'short'), { code: 64, err: /at least 12 characters/ });
  const asked = await tollgate(
    ['user', 'set-password', '--email', 'owner@example.com', '--password-stdin'],
    {
      env,
      stdin: 'a wholly new password\n',
      columns: 80,
    },
  );
  t.match(asked, {
    code: 0,
    err: 'tollgate: type the password, which is not shown, and press Enter\n',
  });

  const mailbox = await startMailbox(t);
  await tollgate(['user', 'set-password', '--email', 'owner@example.com', '--password-stdin'], {
    env: { ...env, SMTP_URL: mailbox.url, ALERT_FROM: 'tollgate@example.com' },
    stdin: 'a wholly new password\n',
  });
  t.match(mailbox.mails, [{ to: ['owner@example.com'], text: /Your password was changed/ }]);
});

t.test(
  'reset-factor takes the second factor away, ends the sessions and tells the person',
  async (t) => {
    const email = 'administrator@example.com';
    const mailbox = await startMailbox(t);
    const mails = { ...env, SMTP_URL: mailbox.url, ALERT_FROM: 'tollgate@example.com' };
    const reset = (more: Record<string, string> = mails) =>
      tollgate(['user', 'reset-factor', '--email', email, '--json'], { env: more });
    t.match(await reset(), { code: 1, err: /has no second factor/ });
    const id = await db.run(60_000, async (sql) => {
      const [{ id }] = await sql<[{ id: string }]>`
      update users set second_factor_since = now(), recovery_codes = 3 where email = ${email} returning id`;
      await sql`insert into second_factors (user_id, secret) values (${id}, 'x')`;
      await insertSession(sql, { digest: randomBytes(32), userId: id, secondFactor: 'code' });
      return id;
    });
    t.match(
      (await tollgate(['user', 'list'], { env })).out,
      /administrator@example\.com +administrator +Acme +on +/,
    );
    t.match(await reset(), { code: 0, err: '', json: { id, email } });
    t.match(mailbox.mails, [{ to: [email], text: /Your second factor was reset/ }]);
    const [left] = await db.run(
      5000,
      (sql) => sql`select second_factor_since, recovery_codes,
        (select count(*)::integer from second_factors) as factors, (select count(*)::integer from sessions where user_id = ${id}) as sessions
      from users where id = ${id}`,
    );
    t.same(left, { second_factor_since: null, recovery_codes: 0, factors: 0, sessions: 0 });
    const [entry] = await db.run(
      5000,
      (sql) => sql`select actor from audit_log where subject_id = ${id} order by id desc limit 1`,
    );
    t.equal(entry?.actor, 'cli');
  },
);

t.test('a password that is typed at a terminal is not shown, and can be corrected', async (t) => {
  const modes: boolean[] = [];
  const typed = Readable.from(
    ['a password thaz', '\x7ft is typed', '\r', 'not read any more'].map((text) =>
      Buffer.from(text),
    ),
  );
  const stdin = Object.assign(typed, {
    isTTY: true,
    setRawMode: (on: boolean) => void modes.push(on),
  });
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  const argv = ['user', 'set-password', '--email', 'owner@example.com', '--password-stdin'];
  const code = await runCli({ argv, env, stdin, stdout, stderr });
  t.equal(code, 0);
  t.notMatch(`${stdout.read()}${stderr.read()}`, 'typed at');
  t.same(modes, [true, false], 'what is typed is shown again afterwards');
  const user = await db.run(60_000, (sql) => findUser(sql, 'owner@example.com'));
  t.ok(await verifyPassword('a password that is typed', user?.password_hash ?? null));
});

t.test('remove takes a user away, the last owner too, but not the last operator', async (t) => {
  const remove = (email: string) =>
    tollgate(['user', 'remove', '--email', email, '--json'], { env });
  t.match(await remove('OWNER@example.com'), {
    code: 0,
    err: '',
    json: { email: 'owner@example.com', role: 'owner' },
  });
  t.equal(await db.run(60_000, (sql) => findUser(sql, 'owner@example.com')), null);
  t.match(await remove('owner@example.com'), { code: 1, out: '', err: /no such user/ });
  t.match(await remove('ada@example.com'), { code: 1, out: '', err: /This is the last operator/ });
});
