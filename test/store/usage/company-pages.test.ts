import { randomUUID } from 'node:crypto';
import t from 'tap';
import { insertCompany } from '../../../src/store/company/company.ts';
import type { Sql } from '../../../src/store/connection/pool.ts';
import { enterCompany } from '../../../src/store/connection/tenant-role.ts';
import { trailStore } from '../../../src/store/gateway/request-trail.ts';
import { pageOfAudit } from '../../../src/store/lists/audit.ts';
import { pageOfRequests, type RequestsQuery } from '../../../src/store/usage/request.ts';
import { WORKERS } from '../../support/distributed.ts';
import { testDatabase } from '../../support/postgres.ts';
import { addRequests } from '../../support/requests.ts';

/** A page of one company reads little more than it shows, however much the company and others have. */

const MANY = 3000;
const { db } = await testDatabase(t);
const run = <T>(work: (sql: Sql) => Promise<T>) => db.run(60_000, work);
const { id: company } = await run((sql) => insertCompany(sql, { name: 'Acme' }));

/** What a query of the company returns, and how many rows of a table and its parts it read. */
async function reading<T>(table: string, query: (sql: Sql) => Promise<T>) {
  return db.transaction(60_000, async (sql) => {
    const read = async () => {
      const [row] = await sql<[{ rows: number }]>`
        select sum(coalesce(idx_tup_fetch, 0) + seq_tup_read)::integer as rows from pg_stat_xact_user_tables
        where relname ~ ${`^${table}(_\\d+)?$`}`;
      return row.rows;
    };
    await enterCompany(sql, company);
    const before = await read();
    return { result: await query(sql), read: (await read()) - before };
  });
}

t.test(
  'requests that were refused',
  { skip: WORKERS.length > 0 && 'other servers have the rows' },
  async (t) => {
    const at = Date.parse('2026-11-22T12:00:00Z');
    const [key, failing] = [randomUUID(), randomUUID()];
    const good = { company, key, status: 200, model: 'fast' };
    const strangers = { status: 401, code: 'invalid_api_key' };
    const wrong = { company, key: failing, status: 429, code: 'rate_limit_exceeded' };
    const rows = [good, strangers].flatMap((row) =>
      Array.from({ length: MANY }, (_, n) => ({ ...row, at: at + n })),
    );
    await addRequests(trailStore(db), [
      ...rows,
      ...[1, 2, 3].map((n) => ({ ...wrong, at: at - n })),
    ]);
    await run((sql) => sql.unsafe('analyze request_trail'));
    const all = {
      company,
      key: null,
      model: null,
      endpoint: null,
      status: null,
      from: null,
      to: null,
      before: null,
    };
    const page = (query: Partial<RequestsQuery>) =>
      reading('request_trail', (sql) => pageOfRequests(sql, { ...all, ...query }));
    for (const [query, found] of [
      [{ status: 'refused' }, 3],
      [{ status: 'failed' }, 0],
      [{ status: 429, key: failing }, 3],
      [{ status: 429, key }, 0],
    ] as const) {
      const { result, read } = await page(query);
      t.equal(result.rows.length, found);
      t.ok(read < 20, `${read} rows were read for ${JSON.stringify(query)}`);
    }
  },
);

t.test('changes in the audit log', async (t) => {
  // first those of the company, so that all newer ones are of others
  const whole = JSON.stringify({ name: 'Website', scopes: ['chat'], more: 'x'.repeat(500) });
  await run(
    (sql) => sql`insert into audit_log (actor, action, subject, company_id, before, after)
      select 'ann@acme.example', 'update', 'api_keys', case when n <= ${MANY} then ${company}::uuid else gen_random_uuid() end,
        ${whole}::text::jsonb, ${whole}::text::jsonb || '{"name":"Site"}' from generate_series(1, ${3 * MANY}) n`,
  );
  await run((sql) => sql.unsafe('analyze audit_log'));
  for (const newestFirst of [true, false]) {
    const { result, read } = await reading('audit_log', (sql) =>
      pageOfAudit(sql, { search: '', newestFirst, from: null, company }),
    );
    t.equal(result.rows.length, 50);
    t.ok(read < 100, `${read} rows were read`);
    const more = await reading('audit_log', (sql) =>
      pageOfAudit(sql, { search: '', newestFirst, from: result.next, company }),
    );
    t.equal(more.result.rows.length, 50);
    const [end, next] = [result.rows.at(-1)?.id as number, more.result.rows[0]?.id as number];
    t.ok(newestFirst ? next < end : next > end, 'the next page goes on');
    t.ok(more.read < 100, `${more.read} rows were read`);
  }
});

t.test('a page of the audit log ends before a few of its changes fill the memory', async (t) => {
  const long = (n: number) =>
    JSON.stringify({ name: `${n}`, system_prompt: 'x'.repeat(1_500_000) });
  for (const n of [1, 2, 3]) {
    await run(
      (sql) => sql`insert into audit_log (actor, action, subject, company_id, before, after)
        values ('ann@acme.example', 'update', 'assistants', ${company}, ${long(n)}::text::jsonb, ${long(n + 1)}::text::jsonb)`,
    );
  }
  const names: unknown[] = [];
  let from: number | null = null;
  for (let page = 0; page < 3; page++) {
    const asked: Parameters<typeof pageOfAudit>[1] = {
      search: '',
      newestFirst: true,
      from,
      company,
    };
    const found = await run((sql) => pageOfAudit(sql, asked));
    t.equal(found.rows.length, 1);
    names.push(found.rows[0]?.after?.name);
    from = found.next;
  }
  t.same(names, ['4', '3', '2'], 'and the next page goes on');
});
