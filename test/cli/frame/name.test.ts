import t from 'tap';
import { tollgate as run } from '../../support/cli.ts';
import { testDatabase } from '../../support/postgres.ts';

const { db, url } = await testDatabase(t);
const tollgate = (...argv: string[]) => run(argv, { env: { DATABASE_URL: url } });
const made = async (...argv: string[]) => (await tollgate(...argv, '--json')).json;
const keyOf = (company: string, name: string) =>
  made('key', 'create', '--company', company, '--name', name, '--scope', 'chat');

const acme = await made('company', 'create', '--name', 'Acme');
const twin = await made('company', 'create', '--name', 'Twin');
const other = await made('company', 'create', '--name', 'Other');
// as "company create" warns and pages ask
await db.run(60_000, (sql) => sql`update companies set name = 'Twin' where id = ${other.id}`);

t.test('a name that one thing alone has stands for its id', async (t) => {
  t.match(await made('company', 'set', 'Acme', '--budget', '7'), { id: acme.id });
  t.match(await made('company', 'set', '  Acme', '--budget', '8'), { id: acme.id });
  const key = await keyOf('Acme', 'back end');
  t.equal(key.company_id, acme.id);
  t.match(await made('key', 'list', '--company', 'Acme'), [{ id: key.id }]);
  t.match(await made('key', 'pause', 'back end', '--reason', 'x'), { id: key.id });
  const create = ['assistant', 'create', '--company', 'Acme', '--name', 'Helper'];
  const helper = await made(...create, '--system-prompt', 'Be kind');
  t.match(await made('assistant', 'set', 'Helper', '--temperature', '1'), { id: helper.id });
  const token = await made('token', 'create', '--name', 'robot');
  t.match(await made('token', 'revoke', 'robot'), { id: token.id });
});

t.test('of several things of a name nothing is done, and their ids are listed', async (t) => {
  const { code, out, err } = await tollgate('company', 'set', 'Twin', '--budget', '1');
  t.match({ code, out }, { code: 1, out: '' });
  t.match(err, /^tollgate: Several companies are called "Twin": name one by its id: /);
  for (const { id } of [twin, other]) t.ok(err.includes(id));
  t.match(await made('company', 'list'), [{}, {}, {}]);
  t.notOk(
    (await made('company', 'list')).some(
      (each: { monthly_budget_eur: string }) => each.monthly_budget_eur === '1',
    ),
  );
});

t.test('an id always wins, though something else has it for a name', async (t) => {
  await db.run(60_000, (sql) => sql`update companies set name = ${acme.id} where id = ${twin.id}`);
  t.match(await made('company', 'set', acme.id, '--budget', '9'), { id: acme.id });
  await db.run(60_000, (sql) => sql`update companies set name = 'Twin' where id = ${twin.id}`);
});

t.test('a key is looked for in the company of the command, and one that works first', async (t) => {
  const mine = await keyOf(acme.id, 'shared');
  const theirs = await keyOf(twin.id, 'shared');
  const refused = await tollgate('key', 'revoke', 'shared');
  t.match(refused, { code: 1, err: /Several keys .*\(Acme, svc_\S+…\)/ });
  const change = (company: string) =>
    tollgate('usage', 'change', '--company', company, '--key', 'shared', '--json');
  for (const company of ['Acme', acme.id, twin.id])
    t.notMatch((await change(company)).err, /"kind":"(?:missing|conflict)"/, company);
  await tollgate('key', 'revoke', theirs.id);
  t.match(await made('key', 'revoke', 'shared'), { id: mine.id }, 'the other one is revoked');
  t.match(await tollgate('key', 'revoke', 'shared'), { code: 1, err: /Several keys/ });
});

t.test('a name that nothing has is refused, with one that is near', async (t) => {
  const cases = { Acne: 'Acme', acme: 'Acme', 'Acme GmbH': null, "'; drop table companies": null };
  for (const [name, near] of Object.entries(cases)) {
    const { code, err } = await tollgate('key', 'list', '--company', name);
    t.equal(code, 1);
    const guess = near === null ? '.' : `; did you mean ${JSON.stringify(near)}?`;
    t.equal(
      err,
      `tollgate: No company is called ${JSON.stringify(name)}${guess} See "tollgate company list".\n`,
    );
  }
  t.match(await tollgate('key', 'revoke', 'nothing like it'), {
    code: 1,
    err: /^tollgate: No key is/,
  });
});
