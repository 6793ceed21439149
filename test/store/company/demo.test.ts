import t from 'tap';
import { prepareDemo, type Welcome, welcome } from '../../../src/demo/first-run.ts';
import { removeDemo } from '../../../src/operations/demo.ts';
import { insertAssistant } from '../../../src/store/company/assistant.ts';
import { insertCompany } from '../../../src/store/company/company.ts';
import { hasDemo } from '../../../src/store/company/demo.ts';
import { insertModel } from '../../../src/store/company/model.ts';
import type { Database, Sql } from '../../../src/store/connection/pool.ts';
import { insertUser } from '../../../src/store/users/user.ts';
import { testDatabase } from '../../support/postgres.ts';
import { addUsage } from '../../support/usage.ts';

const MS = 60_000;
const MODEL = {
  company_id: null,
  upstream_model: 'x',
  kind: 'chat',
  eu_hosted: true,
  cost_eur_per_1k_input: '1',
  cost_eur_per_1k_output: '1',
} as const;

async function start(db: Database): Promise<Welcome> {
  await prepareDemo(db);
  return welcome(db, 'svc_');
}

t.test(
  'what the first start created goes, and nothing else; a later start creates it again',
  async (t) => {
    const { db } = await testDatabase(t);
    t.equal(await db.run(MS, hasDemo), false);
    const companyId = (await start(db)).companyId as string;
    await start(db);
    await db.run(MS, (sql) => insertModel(sql, { ...MODEL, slug: 'mine' }));
    await db.run(MS, (sql) =>
      addUsage(sql, [{ company: companyId, model: 'demo-chat', prompt: 5 }]),
    );
    t.equal(await db.run(MS, hasDemo), true);
    const { removed, kept } = await db.transaction(MS, removeDemo);
    t.same(kept, []);
    t.match(removed, [/company "Demo company"/, /demo-chat\./, /demo-chat-us/, /demo-embedding/]);
    const left = async (
      sql: Sql,
    ) => sql`select (select count(*)::int from companies) as companies, (select string_agg(slug, ' ') from models) as models,
    (select count(*)::int from api_keys) as keys, (select count(*)::int from api_usage) as calls, (select count(*)::int from users) as users`;
    t.same(
      [...(await db.run(MS, left))],
      [{ companies: 0, models: 'mine', keys: 0, calls: 1, users: 1 }],
    );
    t.same(await db.transaction(MS, removeDemo), { removed: [], kept: [] });
    t.match(
      await start(db),
      { first: { login: null, key: /^svc_/ } },
      'the operator is still there',
    );
  },
);

t.test('what others use is kept, and it says for whom', async (t) => {
  const { db } = await testDatabase(t);
  const companyId = (await start(db)).companyId as string;
  await db.run(MS, async (sql) => {
    const { id } = await insertCompany(sql, { name: 'Acme' });
    await insertAssistant(sql, {
      company_id: id,
      name: 'A',
      system_prompt: 'x',
      model_slug: 'demo-chat',
    });
    await sql`insert into api_keys (company_id, name, digest, prefix, scopes, allowed_model_slugs) values (${id}, 'k', ${Buffer.alloc(32)}, 'svc_aaaa', '{chat}', '{demo-chat-us}')`;
    await insertUser(sql, { email: 'own@example.com', role: 'owner', company_id: companyId }, null);
  });
  const { removed, kept } = await db.transaction(MS, removeDemo);
  t.match(kept, [
    /Demo company" is kept: it has users\./,
    /demo-chat is kept: it is used by Acme/,
    /demo-chat-us is kept: it is used by Acme/,
  ]);
  t.match(removed, [/demo-embedding/]);
});

t.test(
  'models and a company of the same names that somebody else made are not of the demo',
  async (t) => {
    const { db } = await testDatabase(t);
    await db.run(MS, async (sql) => {
      await insertCompany(sql, { name: 'Demo company' });
      await insertModel(sql, { ...MODEL, slug: 'demo-chat', upstream_model: 'internal-demo-chat' });
    });
    t.same(await db.transaction(MS, removeDemo), { removed: [], kept: [] });
    t.equal(await db.run(MS, hasDemo), true, 'by their names alone');
  },
);
