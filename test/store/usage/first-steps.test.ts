import { randomBytes } from 'node:crypto';
import t from 'tap';
import { firstRequestId } from '../../../src/runtime/request-id.ts';
import { within } from '../../../src/store/connection/tenant-role.ts';
import { trailStore } from '../../../src/store/gateway/request-trail.ts';
import {
  companyToCall,
  dismissFirstSteps,
  newestCompany,
  newestKey,
  readFirstCall,
  readFirstSteps,
  readOwnerSteps,
} from '../../../src/store/usage/first-steps.ts';
import { testDatabase } from '../../support/postgres.ts';
import { addRequests } from '../../support/requests.ts';
import { addUsage } from '../../support/usage.ts';

const MS = 60_000;
const { db } = await testDatabase(t);
const run = <T>(work: Parameters<typeof db.run<T>>[1]) => db.run(MS, work);
const facts = () => run(readFirstSteps);
const addCompany = async (name: string) =>
  (
    await run(
      (sql) => sql<[{ id: string }]>`insert into companies (name) values (${name}) returning id`,
    )
  )[0].id;
const addKey = (company: string, more: { expires?: string; purpose?: string } = {}) =>
  run(
    (sql) => sql`
      insert into api_keys (company_id, name, digest, prefix, scopes, expires_at, purpose, created_by, allowed_model_slugs)
      values (${company}, 'key', ${randomBytes(32)}, 'svc_abcd', '{chat}', ${more.expires ?? null}, ${more.purpose ?? null}, 'x@y.example', '{fast}')`,
  );

t.test('the facts of an installation come one after the other', async (t) => {
  const none = {
    isDismissed: false,
    model: false,
    company: false,
    owner: false,
    key: false,
    call: false,
  };
  t.same(await facts(), none);
  t.equal(await run(companyToCall), null);
  t.equal(await run((sql) => readFirstCall(sql, null, false)), null);
  const first = await addCompany('First');
  const company = await addCompany('Second');
  await run(
    (sql) => sql`update companies set created_at = now() - interval '1 day' where id = ${first}`,
  );
  for (const find of [newestCompany, companyToCall])
    t.same(await run(find), { id: company, name: 'Second', key: null });
  await addKey(company, { purpose: 'playground' });
  await run(
    (sql) =>
      sql`insert into users (email, company_id, role) values ('m@x.example', ${company}, 'member')`,
  );
  t.same(await facts(), { ...none, company: true }, 'neither a playground nor a member counts');
  await addKey(company, { expires: '2020-01-01' });
  t.equal(await run((sql) => newestKey(sql, company)), null, 'it has ended');
  await addKey(first);
  const key = { scopes: ['chat'], allowed_model_slugs: ['fast'] };
  t.same(
    await run(companyToCall),
    { id: first, name: 'First', key },
    'the one with a key that works',
  );
  t.same(await run((sql) => newestKey(sql, first)), key);
  await run(
    (sql) => sql`
      insert into invitations (company_id, email, role, digest, expires_at)
      values (${first}, 'o@x.example', 'owner', ${randomBytes(32)}, now())`,
  );
  await run(
    (sql) => sql`
      insert into models (slug, upstream_model, kind, eu_hosted, cost_eur_per_1k_input, cost_eur_per_1k_output)
      values ('fast', 'x', 'chat', true, 1, 1)`,
  );
  t.same(await facts(), { ...none, model: true, company: true, owner: true, key: true });
  const [refused = ''] = await addRequests(trailStore(db), [
    { company: first, status: 404, model: 'fast' },
  ]);
  t.match(await run((sql) => readFirstCall(sql, null, false)), {
    request_id: refused,
    status: 404,
  });
  t.same((await facts()).call, false, 'a refused call is none');
  const month = new Date().toISOString().slice(0, 8);
  await run((sql) =>
    addUsage(sql as never, [
      {
        company: first,
        month: `${month}01`,
        prompt: 10,
        input: '1',
        request: firstRequestId(Date.now()),
      },
    ]),
  );
  t.same((await facts()).call, true);
  t.match(await run((sql) => readFirstCall(sql, null, true)), {
    company_id: first,
    prompt_tokens: 10,
  });
  await run(dismissFirstSteps);
  await run(dismissFirstSteps);
  t.same((await facts()).isDismissed, true);

  const steps = (id: string, invites = true) =>
    within(db, id, MS, (sql) => readOwnerSteps(sql, id, invites), 'owner');
  t.same(
    await steps(first),
    { key: true, call: true, colleague: true, hasBegun: false },
    'somebody is invited',
  );
  t.same(
    await steps(company),
    { key: true, call: false, colleague: false, hasBegun: false },
    'one person alone',
  );
  t.same(await steps(company, false), { key: true, call: false, colleague: null, hasBegun: false });
  t.equal(
    await within(db, company, MS, (sql) => readFirstCall(sql, company, false)),
    null,
    'what is of others is not seen',
  );
});
