import { randomUUID } from 'node:crypto';
import t from 'tap';
import { isUpstreamsFailure } from '../../../src/domain/errors.ts';
import {
  explainRequest,
  type ResultFilter,
} from '../../../src/domain/reports/request-explanation.ts';
import { NIL_ID } from '../../../src/store/connection/expressions.ts';
import type { Sql } from '../../../src/store/connection/pool.ts';
import { trailStore } from '../../../src/store/gateway/request-trail.ts';
import { pageOfRequests } from '../../../src/store/usage/request.ts';
import { type HoursGroup, readRequestHours } from '../../../src/store/usage/request-hours.ts';
import { testDatabase } from '../../support/postgres.ts';
import { addRequests, type SomeRequest } from '../../support/requests.ts';

const { db } = await testDatabase(t);
const run = <T>(work: (sql: Sql) => Promise<T>) => db.run(60_000, work);
const store = trailStore(db);
const HOUR = Date.parse('2026-11-22T10:00:00Z');
const [from, to] = [new Date('2026-11-22T00:00:00Z'), new Date('2026-11-23T00:00:00Z')];
const add = (rows: readonly SomeRequest[]) =>
  addRequests(
    store,
    rows.map((row) => ({ at: HOUR, ...row })),
  );
const read = (company: string, by: HoursGroup = 'all') =>
  run((sql) => readRequestHours(sql, { company, from, to }, by));

t.test('requests are counted by what became of them', async (t) => {
  const company = randomUUID();
  await add([
    { company, status: 200, ms: 100 },
    { company, status: 200, code: 'upstream_error', ms: 5000, reason: 'broke off' },
    { company, status: 429, upstreamStatus: 429, ms: 1 },
    { company, status: 401, ms: 1 },
    { company, status: 502, upstreamStatus: 500, ms: 300 },
    { company, status: 0, ms: 40 },
  ]);
  const [sums] = await read(company);
  t.match(sums, { requests: 6, refused: 2, failed: 2, upstream_failed: 3, error_rate: 2 / 6 });
  t.equal(
    sums?.duration_ms?.mean,
    (100 + 5000 + 300 + 40) / 4,
    'refused requests do not make the mean shorter',
  );
});

t.test(
  'a failure of the upstream is counted by what the client was told, in SQL as in the rule',
  async (t) => {
    for (const status of [0, 200, 400, 401, 403, 404, 413, 422, 429, 500, 502, 503, 504]) {
      for (const upstreamStatus of [undefined, 200, 400, 404, 413, 422, 429, 500, 503]) {
        const company = randomUUID();
        await add([{ company, status, reason: 'no', ...(upstreamStatus && { upstreamStatus }) }]);
        const [sums] = await read(company);
        const isFailed = isUpstreamsFailure(status, upstreamStatus ?? null);
        t.equal(sums?.upstream_failed, isFailed ? 1 : 0, `${upstreamStatus}, told as ${status}`);
      }
    }
  },
);

t.test('the lists of failed requests have as many as the sums count', async (t) => {
  const company = randomUUID();
  const [key, model] = [company, company]; // of which nobody else has requests
  const statuses = [0, 200, 400, 401, 404, 429, 499, 500, 502, 503, 504];
  const outcomes = [null, 'completed', 'client_aborted', 'upstream_failed'];
  await add(
    statuses.flatMap((status) =>
      outcomes.flatMap((outcome) =>
        [null, 'upstream_error'].flatMap((code) =>
          [undefined, 200, 429, 500].map((upstreamStatus) => ({
            company,
            key,
            model,
            status,
            ...(code && { code }),
            ...(outcome && { outcome }),
            ...(upstreamStatus && { upstreamStatus, reason: 'no' }),
          })),
        ),
      ),
    ),
  );
  const all = { company: null, key: null, endpoint: null, before: null, from, to, limit: 1000 };
  const list = async (status: ResultFilter, more: object = { model }) =>
    (await run((sql) => pageOfRequests(sql, { ...all, model: null, status, ...more }))).rows;
  const [failed, upstreams] = [await list('failed'), await list('upstream_failed')];
  t.ok(failed.length > 0 && upstreams.length > 0 && failed.length !== upstreams.length);
  t.match((await read(company))[0], { failed: failed.length, upstream_failed: upstreams.length });
  t.same(await list('upstream_failed', { key }), upstreams);
  t.ok(failed.every((row) => explainRequest(row).result === 'failed'));
});

t.test(
  'what the upstream refused because of the caller is refused, and no failure of the upstream',
  async (t) => {
    const company = randomUUID();
    const mistake = {
      company,
      status: 400,
      code: 'context_length_exceeded',
      outcome: 'upstream_failed',
    };
    await add(
      Array.from({ length: 25 }, () => ({ ...mistake, upstreamStatus: 400, reason: 'too long' })),
    );
    t.match((await read(company))[0], { requests: 25, refused: 25, failed: 0, upstream_failed: 0 });
  },
);

t.test('reasons are counted over batches', async (t) => {
  const company = randomUUID();
  await add([{ company }, { company, status: 402, code: 'insufficient_quota' }]);
  await add([{ company }]);
  await add([
    ...Array.from({ length: 2 }, () => ({ company, status: 402, code: 'insufficient_quota' })),
    { company, status: 200, code: 'upstream_error', reason: 'broke off' },
    { company, status: 401 },
  ]);
  const [row] = await run(
    (sql) => sql`select reasons, requests from request_hours where company_id = ${company}`,
  );
  t.same(row, { reasons: { insufficient_quota: 3, upstream_error: 1 }, requests: 7 });
});

t.test('percentiles come from the histogram, over batches', async (t) => {
  const company = randomUUID();
  for (const ms of [150, 1500])
    await add(Array.from({ length: 100 }, () => ({ company, ms, addedUs: ms })));
  const [sums] = await read(company);
  t.match(sums?.duration_ms, { p50: 200, p95: 1450, p99: 1490 });
  t.match(sums?.added_us, { p50: 150, p95: 1900 });
});

t.test('groups', async (t) => {
  const [company, key] = [randomUUID(), randomUUID()];
  await add([
    { company, key, model: 'fast', endpoint: 'embeddings' },
    { company, key, model: 'fast' },
    { company, model: 'slow', at: HOUR + 3_600_000 },
    { company, status: 404, at: HOUR + 3 * 3_600_000 },
  ]);
  const groups = async (by: HoursGroup) =>
    (await read(company, by)).map(({ group, requests }) => [group, requests]);
  t.same(await groups('hour'), [
    ['2026-11-22T10:00:00Z', 2],
    ['2026-11-22T11:00:00Z', 1],
    ['2026-11-22T13:00:00Z', 1],
  ]);
  t.same(await groups('day'), [['2026-11-22', 4]]);
  t.same((await groups('model'))[0], ['fast', 2]);
  t.same(new Set((await groups('model')).map(([model]) => model)), new Set(['fast', 'slow', null]));
  t.same(await groups('key'), [
    [key, 2],
    [null, 2],
  ]);
  t.same(await groups('endpoint'), [
    ['chat.completions', 3],
    ['embeddings', 1],
  ]);
  t.same(
    await run((sql) =>
      readRequestHours(sql, { company, from: to, to: new Date('2027-01-01') }, 'all'),
    ),
    [],
    'nothing',
  );
});

t.test('requests of no company are counted too', async (t) => {
  await add([{ status: 401 }]);
  t.equal((await read(NIL_ID))[0]?.requests, 1);
});
