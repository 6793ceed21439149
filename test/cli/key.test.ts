import { createHash, randomUUID } from 'node:crypto';
import t from 'tap';
import { tollgate as run } from '../support/cli.ts';
import { testDatabase } from '../support/postgres.ts';

const { db, url } = await testDatabase(t);
const env = { DATABASE_URL: url, KEY_PREFIX: 'acme_' };
const tollgate = (...argv: string[]) => run(argv, { env });
const { id: company } = (await tollgate('company', 'create', '--name', 'Acme', '--json')).json;
const create = (...more: string[]) => tollgate('key', 'create', '--company', company, '--name', 'ci', ...more);

t.test('spec 2.7: a key is shown in plaintext once, at creation, and kept as its SHA-256 digest', async (t) => {
  const { code, err, json } = await create('--scope', 'chat', '--scope', 'embeddings', '--json');
  t.match({ code, err }, { code: 0, err: '' });
  t.match(json.key, /^acme_[a-z2-7]{32}$/);
  t.match(json, {
    company_id: company,
    name: 'ci',
    prefix: json.key.slice(0, 8),
    scopes: ['chat', 'embeddings'],
    created_by: 'cli',
    state: 'active',
  });
  const [row] = await db.run(5000, (sql) => sql`select digest from api_keys where id = ${json.id}`);
  t.same(row?.digest, createHash('sha256').update(json.key).digest());

  const human = await create('--scope', 'assistants');
  t.match(human.out, /^API key created\. It is shown only this once: .*\n\n {2}key +acme_[a-z2-7]{32}\n/);
  const [, secret] = /key +acme_([a-z2-7]{32})/.exec(human.out) ?? [];
  for (const args of [[], ['--json']]) {
    const list = await tollgate('key', 'list', '--company', company, ...args);
    t.notOk(list.out.includes((secret as string).slice(4)));
    t.notOk(list.out.includes(json.key.slice(8)));
  }
});

t.test('list shows prefix, name, scopes, created, by, last used, expires and state', async (t) => {
  const { json } = await create('--scope', 'chat', '--expires', '2099-01-31T18:00:00+01:00', '--json');
  t.equal(json.expires_at, '2099-01-31T17:00:00.000Z');
  const { out } = await tollgate('key', 'list', '--company', company);
  t.match(out, /^ID +PREFIX +NAME +SCOPES +CREATED \(UTC\) +BY +LAST USED \(UTC\) +EXPIRES \(UTC\) +STATE\n/);
  const line = out.split('\n').find((each) => each.startsWith(json.id)) as string;
  t.match(
    line,
    new RegExp(`${json.prefix} +ci +chat +\\d{4}-\\d\\d-\\d\\d \\d\\d:\\d\\d +cli +- +2099-01-31 17:00 +active$`),
  );
});

t.test('revoking is final, and revoking again prints when it happened', async (t) => {
  const { id } = (await create('--scope', 'chat', '--json')).json;
  t.match(await tollgate('key', 'revoke', id), { code: 0, err: '', out: /was revoked at \d{4}-/ });
  t.match(await tollgate('key', 'revoke', id), {
    code: 0,
    err: '',
    out: /was already revoked at \d{4}-\d\d-\d\d \d\d:\d\d UTC\.\n$/,
  });
  t.match((await tollgate('key', 'revoke', id, '--json')).json, { id, state: 'revoked', already_revoked: true });
  t.match(await tollgate('key', 'revoke', randomUUID()), { code: 1, out: '', err: /There is no key/ });
});

t.test('impossible values are refused with the right exit code', async (t) => {
  const unknown = ['--company', randomUUID(), '--name', 'x'];
  t.equal((await tollgate('key', 'create', ...unknown, '--scope', 'chat')).code, 1);
  t.equal((await tollgate('key', 'list', '--company', randomUUID())).code, 1);
  t.match(await create('--scope', 'chat', '--expires', '2020-01-01'), { code: 1, err: /Give a later --expires/ });
  t.match(await create(), { code: 64, err: /missing --scope/ });
  t.match(await create('--scope', 'admin'), { code: 64, err: /--scope must be chat, embeddings or assistants/ });
  t.match(await create('--scope', 'chat', '--expires', 'soon'), { code: 64, err: /--expires must be an ISO time/ });
});
