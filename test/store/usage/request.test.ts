import { randomUUID } from 'node:crypto';
import t from 'tap';
import { newRequestId, requestIdTime } from '../../../src/runtime/request-id.ts';
import { insertCompany } from '../../../src/store/company/company.ts';
import type { Sql } from '../../../src/store/connection/pool.ts';
import { within } from '../../../src/store/connection/tenant-role.ts';
import { trailStore } from '../../../src/store/gateway/request-trail.ts';
import {
  findRequest,
  pageOfRequests,
  type RequestsQuery,
} from '../../../src/store/usage/request.ts';
import { testDatabase } from '../../support/postgres.ts';
import { addRequests, type SomeRequest } from '../../support/requests.ts';
import { addUsage } from '../../support/usage.ts';

const { db } = await testDatabase(t);
const run = <T>(work: (sql: Sql) => Promise<T>) => db.run(60_000, work);
const store = trailStore(db);
const NOON = Date.parse('2026-11-22T12:00:00Z');
const ALL: RequestsQuery = {
  company: null,
  key: null,
  model: null,
  endpoint: null,
  status: null,
  from: null,
  to: null,
  before: null,
};
const companyWith = async (rows: readonly SomeRequest[]) => {
  const { id: company } = await run((sql) => insertCompany(sql, { name: 'Acme' }));
  return {
    company,
    ids: await addRequests(
      store,
      rows.map((row) => ({ at: NOON, company, ...row })),
    ),
  };
};
const idsOf = async (query: Partial<RequestsQuery>) =>
  (await run((sql) => pageOfRequests(sql, { ...ALL, ...query }))).rows.map(
    ({ request_id }) => request_id,
  );

t.test('filters', async (t) => {
  const key = randomUUID();
  const { company, ids } = await companyWith([
    { status: 200, model: 'fast', key },
    { status: 200, code: 'upstream_error', model: 'fast' },
    { status: 404, code: 'not_found', key },
    { status: 429, code: 'rate_limit_exceeded', endpoint: 'embeddings' },
    { status: 502, code: 'upstream_error', at: NOON - 3_600_000 },
    { status: 0 },
  ]);
  const found = async (query: Partial<RequestsQuery>) =>
    (await idsOf({ company, ...query })).map((id) => ids.indexOf(id)).sort();
  t.same(await found({}), [0, 1, 2, 3, 4, 5]);
  t.same(await found({ status: 'success' }), [0]);
  t.same(await found({ status: 'refused' }), [2, 3]);
  t.same(await found({ status: 'failed' }), [1, 4]);
  t.same(await found({ status: 'left' }), [5]);
  t.same(await found({ status: 429 }), [3]);
  t.same(await found({ status: 200 }), [0, 1]);
  t.same(await found({ key }), [0, 2]);
  t.same(await found({ model: 'fast' }), [0, 1]);
  t.same(await found({ key, status: 'refused' }), [2]);
  t.same(await found({ endpoint: 'embeddings' }), [3]);
  t.same(await found({ from: new Date(NOON) }), [0, 1, 2, 3, 5]);
  t.same(await found({ to: new Date(NOON) }), [4]);
  t.equal((await idsOf({ company }))[5], ids[4], 'newest first');
});

t.test('pages follow each other without gaps, also within one millisecond', async (t) => {
  const { company, ids } = await companyWith(
    Array.from({ length: 120 }, (_, i) => ({ at: NOON + (i >> 5) })),
  );
  const seen: string[] = [];
  let before: RequestsQuery['before'] = null;
  const sizes: number[] = [];
  do {
    const page = await run((sql) => pageOfRequests(sql, { ...ALL, company, before }));
    sizes.push(page.rows.length);
    seen.push(...page.rows.map(({ request_id }) => request_id));
    before = page.next;
  } while (before !== null);
  t.same(sizes, [50, 50, 20]);
  t.same(seen, [...ids].sort().reverse());
});

t.test('what is rare is found among many, hours without any are skipped', async (t) => {
  const many = Array.from({ length: 21_000 }, (_, i) => ({ at: NOON - i * 1000, model: 'common' }));
  const rare = { at: NOON - 6 * 3_600_000, model: 'rare', status: 502, code: 'upstream_error' };
  const { company, ids } = await companyWith([...many, rare]);
  const walk = async (query: Partial<RequestsQuery>) => {
    const seen: string[] = [];
    let [before, pages] = [null as RequestsQuery['before'], 0];
    do {
      const page = await run((sql) => pageOfRequests(sql, { ...ALL, company, ...query, before }));
      seen.push(...page.rows.map(({ request_id }) => request_id));
      before = page.next;
      if (before !== null)
        t.equal(requestIdTime(before.id), before.at.getTime(), 'the id alone is the place');
    } while (before !== null && ++pages < 20);
    return { seen, pages };
  };
  t.match(await walk({ model: 'rare' }), { seen: [ids.at(-1)] });
  t.match(await walk({ status: 'failed' }), { seen: [ids.at(-1)] });
  t.match(
    await walk({ model: 'none' }),
    { seen: [], pages: 0 },
    'and what is not there is not looked for',
  );
});

t.test('one request, with its names, from the trail and the ledger', async (t) => {
  const [id, lost] = [newRequestId(NOON), newRequestId(NOON)];
  const { company } = await companyWith([
    {
      id,
      status: 200,
      outcome: 'client_aborted',
      model: 'fast',
      upstreamStatus: 500,
      reason: 'words',
    },
  ]);
  const find = (request: string, of: string | null) =>
    within(db, of, 60_000, (sql) => findRequest(sql, request, of));
  t.match(await find(id, company), {
    in_trail: true,
    status: 200,
    prompt_tokens: null,
    company_name: 'Acme',
  });
  t.match(
    await find(id, company),
    { upstream_status: null, upstream_reason: null },
    'not for a company',
  );
  t.match(await find(id, null), { upstream_status: 500, upstream_reason: 'words' });
  const at = new Date(NOON).toISOString();
  await run((sql) =>
    addUsage(sql, [
      { company, request: id, prompt: 7, completion: 3, input: '1', at },
      { company, request: lost, prompt: 9, input: '1', at },
    ]),
  );
  t.match(
    await find(id, company),
    { prompt_tokens: 7, cost_eur: '0.007', usage_source: 'upstream' },
    'the ledger knows what was booked later',
  );
  t.match(await find(lost, company), {
    in_trail: false,
    status: null,
    prompt_tokens: 9,
    outcome: 'completed',
  });
  t.equal(await find(lost, randomUUID()), null, 'another company does not find it');
  t.equal(await find(id, randomUUID()), null);
  t.equal(await find(newRequestId(NOON), company), null);
  t.equal(await find(randomUUID(), null), null, 'no id of a request');
});
