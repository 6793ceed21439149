import { randomUUID } from 'node:crypto';
import t from 'tap';
import { insertCompany } from '../../../src/store/company/company.ts';
import { insertKey } from '../../../src/store/company/key.ts';
import type { Sql } from '../../../src/store/connection/pool.ts';
import { gatewayStore } from '../../../src/store/gateway/gateways.ts';
import { testDatabase } from '../../support/postgres.ts';

const MS = 60_000;

t.test(
  'sessions, answers and texts of keys go when their time is over, although nobody comes again',
  async (t) => {
    const { db } = await testDatabase(t);
    const run: <T>(work: (sql: Sql) => PromiseLike<T>) => Promise<T> = (work) => db.run(MS, work);
    const { id: company } = await run((sql) => insertCompany(sql, { name: 'Corp' }));
    const key = await run((sql) =>
      insertKey(sql, 'svc_', {
        company_id: company,
        name: 'key',
        scopes: ['chat'],
        created_by: 'pages',
      }),
    );
    await run(async (sql) => {
      await sql`insert into users (email, company_id, role) values (${'ann@corp.example'}, ${company}, 'owner')`;
      await sql`insert into sessions (digest, user_id, created_at, last_seen_at)
      select sha256(age::text::bytea), id, now() - age, now() - age
      from users, (values (interval '1 minute'), ('121 minutes')) as x (age)`;
      await sql`insert into admin_tokens (name, digest, access) values ('deploy', sha256('deploy'), 'write')`;
      await sql`insert into idempotent_answers (token_id, key_digest, request, answer, secret, created_at)
      select id, sha256(age::text::bytea), '', json_build_object('email', ${'ann@corp.example'}::text), 'secret', now() - age
      from admin_tokens, (values (interval '30 seconds'), ('2 minutes'), ('25 hours')) as x (age)`;
      await sql`insert into key_reveals (company_id, key_id, ciphertext, expires_at) values
      (${company}, ${key.id}, 'text', now() - interval '1 second')`;
    });
    await gatewayStore(db, randomUUID(), 'pod-1', '1').forget();
    const [left] = await run(
      (sql) => sql`select (select count(*)::integer from sessions) as sessions,
      (select count(*)::integer from idempotent_answers) as answers, (select count(secret)::integer from idempotent_answers) as secrets,
      (select count(*)::integer from key_reveals) as texts`,
    );
    t.same(left, { sessions: 1, answers: 2, secrets: 1, texts: 0 });
  },
);

t.test('whom only calls named that were not booked is forgotten after a week', async (t) => {
  const { db } = await testDatabase(t);
  const run: <T>(work: (sql: Sql) => PromiseLike<T>) => Promise<T> = (work) => db.run(MS, work);
  const { id: company } = await run((sql) => insertCompany(sql, { name: 'Corp' }));
  const { id: closed } = await run((sql) => insertCompany(sql, { name: 'Closed' }));
  await run(async (sql) => {
    await sql`insert into end_users (company_id, name, first_seen, booked)
      select ${company}, name, now() - age::interval, booked
      from (values ('new', '6 days', false), ('refused', '8 days', false), ('booked', '8 days', true)) as x (name, age, booked)`;
    await sql`insert into end_users (company_id, name, first_seen) values (${closed}, 'closed', now() - interval '1 year')`;
    await sql`update companies set closed_at = now() where id = ${closed}`;
  });
  await gatewayStore(db, randomUUID(), 'pod-1', '1').forget();
  const left = await run(
    (sql) => sql<{ name: string }[]>`select name from end_users order by name`,
  );
  t.same(
    left.map(({ name }) => name),
    ['booked', 'closed', 'new'],
  );
});
