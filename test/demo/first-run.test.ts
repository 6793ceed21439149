import t from 'tap';
import { prepareDemo, type Welcome, welcome } from '../../src/demo/first-run.ts';
import { digestOf } from '../../src/domain/key.ts';
import { insertCompany } from '../../src/store/company/company.ts';
import type { Database, Sql } from '../../src/store/connection/pool.ts';
import { testDatabase } from '../support/postgres.ts';

async function start(db: Database): Promise<Welcome> {
  await prepareDemo(db);
  return welcome(db, 'svc_');
}

t.test(
  'the first start creates a demo company, models, an assistant, an operator and a key, and shows the password once',
  async (t) => {
    const { db } = await testDatabase(t);
    const welcomed = await start(db);
    const first = welcomed.first as NonNullable<Welcome['first']>;
    t.match(first, {
      key: /^svc_[a-z2-7]{32}$/,
      login: { email: 'operator@localhost', password: /.{16}/ },
    });
    const made = await db.run(60_000, async (sql) => {
      const [counts] =
        await sql`select (select count(*) from companies)::int as companies, (select count(*) from models)::int as models,
      (select count(*) from assistants)::int as assistants, (select count(*) from users where role = 'operator')::int as operators`;
      const keys =
        await sql`select encode(digest, 'hex') as digest, created_by, scopes from api_keys`;
      const actors = await sql`select distinct actor from audit_log`;
      return { counts, keys: [...keys], actors: [...actors] };
    });
    t.same(made.counts, { companies: 1, models: 4, assistants: 1, operators: 1 });
    t.match(made.keys, [
      {
        digest: digestOf(first.key),
        created_by: 'make run',
        scopes: ['chat', 'embeddings', 'assistants', 'rerank'],
      },
    ]);
    t.same(made.actors, [{ actor: 'make run' }]);

    const counts = (sql: Sql) =>
      sql`select (select count(*) from api_keys)::int as keys, (select count(*) from audit_log)::int as changes`;
    const before = await db.run(60_000, counts);
    const again = { companyId: welcomed.companyId, first: null, operator: 'operator@localhost' };
    t.same(await start(db), again, 'nothing is shown again');
    t.same(await db.run(60_000, counts), before, 'and nothing is added: no key, no other change');
    await db.run(60_000, (sql) => sql`delete from users`);
    t.same(await start(db), { ...again, operator: null });
  },
);

t.test(
  'where the demo company was renamed, a later start still says who can sign in',
  async (t) => {
    const { db } = await testDatabase(t);
    await start(db);
    await db.run(60_000, (sql) => sql`update companies set name = 'Acme'`);
    t.same(await start(db), { companyId: null, first: null, operator: 'operator@localhost' });
  },
);

t.test('a first start that could not listen shows the key at the next', async (t) => {
  const { db } = await testDatabase(t);
  await prepareDemo(db);
  t.match(await start(db), { first: { key: /^svc_/, login: { email: 'operator@localhost' } } });
});

t.test('two first starts at once create one demo company', async (t) => {
  const { db } = await testDatabase(t);
  const both = await Promise.all([start(db), start(db)]);
  t.equal(both[0]?.companyId, both[1]?.companyId);
  t.equal(both.filter(({ first }) => first !== null).length, 1, 'and one key');
});

t.test('a database with other companies is not changed, and says who can sign in', async (t) => {
  const { db } = await testDatabase(t);
  await db.run(60_000, (sql) => insertCompany(sql, { name: 'Acme' }));
  t.same(await start(db), { companyId: null, first: null, operator: null });
  t.same([...(await db.run(60_000, (sql) => sql`select name from companies`))], [{ name: 'Acme' }]);
});
