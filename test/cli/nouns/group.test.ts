import t from 'tap';
import { tollgate as run } from '../../support/cli.ts';
import { testDatabase } from '../../support/postgres.ts';

const { db, url } = await testDatabase(t);
const tollgate = (...argv: string[]) => run(argv, { env: { DATABASE_URL: url } });
const { json: company } = await tollgate('company', 'create', '--name', 'Acme', '--json');

/** The people who have a role by a group. */
const people = () =>
  db.run(
    5000,
    (sql) => sql`select email, role from users where oidc_group is not null order by email`,
  );

t.test('a group is added, listed with its people, changed and removed', async (t) => {
  t.match(await tollgate('group', 'list'), {
    code: 0,
    out: /No group gives a role; "tollgate group create" adds one/,
  });
  const add = [
    'group',
    'create',
    '--name',
    '/acme/staff',
    '--role',
    'member',
    '--company',
    company.id,
  ];
  t.match((await tollgate(...add, '--json')).json, {
    name: '/acme/staff',
    role: 'member',
    company_id: company.id,
  });
  t.match(await tollgate(...add), {
    code: 1,
    err: /The group \/acme\/staff gives a role already\. Remove it there first/,
  });
  await db.run(
    5000,
    (sql) => sql`insert into users (email, role, company_id, oidc_group)
    values ('ann@acme.example', 'member', ${company.id}, '/acme/staff')`,
  );
  t.match(await tollgate('group', 'create', '--name', 'ops', '--role', 'operator'), {
    code: 0,
    out: /company +all/,
  });
  t.match(
    (await tollgate('group', 'list')).out,
    /ops +operator +all +0\n\/acme\/staff +member +Acme +1/,
  );
  t.equal((await tollgate('group', 'list', '--company', company.id, '--json')).json.length, 1);
  t.match(await tollgate('group', 'set', '--name', '/acme/staff', '--role', 'owner'), {
    code: 0,
    out: /role +owner/,
  });
  t.match(await people(), [{ role: 'owner' }], 'at once');
  t.match((await tollgate('user', 'list')).out, /ann@acme\.example +owner/);
  t.match(await tollgate('group', 'remove', '--name', '/acme/staff'), {
    code: 0,
    out: /Group removed/,
  });
  t.equal((await people()).length, 0);
});

t.test('what makes no sense is refused in words', async (t) => {
  const create = (...more: string[]) => tollgate('group', 'create', '--name', 'x', ...more);
  t.match(await create('--role', 'operator', '--company', company.id), {
    code: 64,
    err: /--company must be left out/,
  });
  t.match(await create('--role', 'owner'), {
    code: 64,
    err: /--company must be given for every role but operator/,
  });
  t.match(await create('--role', 'king'), { code: 64, err: /--role must be/ });
  const nowhere = '00000000-0000-4000-8000-000000000000';
  t.match(await create('--role', 'owner', '--company', nowhere), {
    code: 1,
    err: /There is no company/,
  });
  t.match(await tollgate('group', 'remove', '--name', 'y'), {
    code: 1,
    err: /There is no such group/,
  });
  t.match(await tollgate('group', 'set', '--name', 'ops', '--role', 'owner'), {
    code: 1,
    err: /The group ops makes operators\. Remove it, and add it to a company/,
  });
  t.match(await tollgate('group', 'set', '--name', 'ops', '--role', 'operator'), {
    code: 64,
    err: /--role must be/,
  });
});

t.test('a password for who has the role by a group is refused', async (t) => {
  await db.run(
    5000,
    (sql) =>
      sql`insert into users (email, role, oidc_group) values ('ola@gate.example', 'operator', 'ops')`,
  );
  const set = await run(
    ['user', 'set-password', '--email', 'ola@gate.example', '--password-stdin'],
    {
      env: { DATABASE_URL: url },
      stdin: 'correct horse battery staple\n',
    },
  );
  t.match(set, { code: 1, err: /There is no password to set/ });
});
