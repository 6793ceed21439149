import t from 'tap';
import { findToken } from '../../../src/store/users/token.ts';
import { tollgate as run } from '../../support/cli.ts';
import { testDatabase } from '../../support/postgres.ts';

const { db, url } = await testDatabase(t);
const tollgate = (...argv: string[]) => run(argv, { env: { DATABASE_URL: url } });

t.test('a token is created, listed without its text, and revoked', async (t) => {
  t.match(await tollgate('token', 'list'), {
    code: 0,
    out: 'There are no administration tokens.\n',
  });
  const { json } = await tollgate(
    'token',
    'create',
    '--name',
    'Terraform',
    '--expires',
    '2099-01-31',
    '--json',
  );
  t.match(json, {
    token: /^tga-[a-z2-7]{32}$/,
    access: 'write',
    company_id: null,
    state: 'active',
  });
  t.match(await db.run(60_000, (sql) => findToken(sql, json.token)), { id: json.id });
  const { out } = await tollgate('token', 'list');
  t.match(out, /Terraform +all +write +active +the command line +2099-02-01/);
  t.notOk(out.includes(json.token));
  t.match(await tollgate('token', 'revoke', json.id), {
    code: 0,
    out: /The administration token is revoked[\s\S]*name +Terraform[\s\S]*state +revoked/,
  });
  t.equal(await db.run(60_000, (sql) => findToken(sql, json.token)), null);
});

t.test('a token that was created says when it ends, with the zone', async (t) => {
  const create = async (...more: string[]) =>
    (await tollgate('token', 'create', '--name', 'x', ...more)).out;
  t.match(await create('--expires', '2099-01-31'), / expires +2099-02-01 00:00 UTC\n/);
  t.match(await create(), / expires +never\n/);
});

t.test(
  'a company that does not exist, an end in the past, a wrong access: refused in words',
  async (t) => {
    const create = (...more: string[]) => tollgate('token', 'create', '--name', 'x', ...more);
    t.match(await create('--company', '00000000-0000-4000-8000-000000000000'), {
      code: 1,
      err: /There is no company/,
    });
    t.match(await create('--expires', '2001-01-01'), { code: 1, err: /give a later time/ });
    t.match(await create('--access', 'all'), { code: 64, err: /--access must be read or write/ });
  },
);
