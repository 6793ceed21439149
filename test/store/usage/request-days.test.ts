import { randomUUID } from 'node:crypto';
import t from 'tap';
import { addDays } from '../../../src/domain/reports/day-range.ts';
import { fatesOf, type RequestDay } from '../../../src/domain/reports/overview.ts';
import type { Sql } from '../../../src/store/connection/pool.ts';
import { trailStore } from '../../../src/store/gateway/request-trail.ts';
import { pageOfRequests } from '../../../src/store/usage/request.ts';
import {
  PICTURE_DAYS,
  readRecentRequests,
  readRequestDays,
} from '../../../src/store/usage/request-days.ts';
import { testDatabase } from '../../support/postgres.ts';
import { addRequests, type SomeRequest } from '../../support/requests.ts';

/** What became of the requests of all companies, by days of a zone whose midnight is within an hour. */

const ZONE = 'Asia/Kolkata';
const DAY_MS = 86_400_000;
const { db } = await testDatabase(t);
const run = <T>(work: (sql: Sql) => PromiseLike<T>) => db.run(60_000, work);
await run((sql) => sql`update settings set value = ${ZONE} where name = 'billing_timezone'`);
const companies = [randomUUID(), randomUUID()];
const store = trailStore(db);
const sumUp = () => run((sql) => sql`select sum_request_hours()`);

/** As the trail itself has them, by the day on which their hour begins. */
async function trailDays() {
  return run(
    (sql) => sql<
      { day: string; requests: number; refused: number; failed: number; broke: number }[]
    >`
      select to_char(date_trunc('hour', occurred_at, 'UTC') at time zone ${ZONE}, 'YYYY-MM-DD') as day, count(*)::integer as requests,
        (count(*) filter (where status between 400 and 499))::integer as refused,
        (count(*) filter (where status >= 500 or status = 200 and code is not null))::integer as failed,
        (count(*) filter (where code = 'insufficient_quota'))::integer as broke
      from request_trail group by 1 order by 1`,
  );
}

const KINDS: readonly SomeRequest[] = [
  {},
  { ms: 900 },
  { status: 402, code: 'insufficient_quota' },
  { status: 429, code: 'rate_limit_exceeded' },
  { status: 403, code: 'insufficient_scope' },
  { status: 401, code: 'invalid_api_key' },
  { status: 404, code: 'not_found' },
  { status: 502, code: 'upstream_error' },
  { status: 200, code: 'upstream_error' },
];
const requests = (now: number) =>
  Array.from(
    { length: 400 },
    (_, i): SomeRequest => ({
      at: now - Math.floor(((i * 7919) % 400) * (DAY_MS / 100)),
      company: companies[i % 2] as string,
      ...KINDS[i % KINDS.length],
    }),
  );
const told = (days: readonly RequestDay[]) =>
  days
    .filter((day) => day.requests > 0)
    .map(({ day, requests, refused, failed, reasons }) => ({
      day,
      requests,
      refused,
      failed,
      broke: reasons.insufficient_quota ?? 0,
    }));

t.test(
  'each day has the requests of its hours: those of the last day as they are, others as they were summed up',
  async (t) => {
    const now = Date.now();
    await addRequests(store, requests(now));
    await run((sql) => sql`select sum_request_hours(interval '10 days')`);
    const recent = () => run(readRecentRequests);
    t.same(told((await recent()).request_days), await trailDays());
    t.equal((await recent()).request_days.length, PICTURE_DAYS);

    await addRequests(store, [
      { at: now - 1000 },
      { at: now - 2000, status: 402, code: 'insufficient_quota' },
    ]);
    t.same(told((await recent()).request_days), await trailDays(), 'new ones at once');
    await addRequests(store, [{ at: now - 1.5 * DAY_MS }]);
    await sumUp();
    t.same(
      told((await recent()).request_days),
      await trailDays(),
      'late ones when their hours are summed up again',
    );
    await sumUp();
    t.same(told((await recent()).request_days), await trailDays(), 'and nothing twice');
    const range = {
      from: addDays(new Date(now).toISOString().slice(0, 10), -6),
      to: addDays(new Date(now).toISOString().slice(0, 10), 1),
    };
    t.same(told(await run((sql) => readRequestDays(sql, range))), await trailDays(), 'of any days');
  },
);

t.test('a day leads to just the requests that it counted', async (t) => {
  for (const { begins, ends, requests } of (await run(readRecentRequests)).request_days.filter(
    (day) => day.requests > 0,
  )) {
    const { rows } = await run((sql) =>
      pageOfRequests(sql, {
        company: null,
        key: null,
        model: null,
        endpoint: null,
        status: null,
        code: null,
        before: null,
        from: new Date(begins),
        to: new Date(ends),
      }),
    );
    t.equal(Math.min(requests, rows.length), rows.length);
    const [{ count }] = await run(
      (sql) => sql<[{ count: number }]>`
        select count(*)::integer as count from request_trail where occurred_at >= ${begins} and occurred_at < ${ends}`,
    );
    t.equal(count, requests, begins);
  }
});

t.test(
  'fates add up to all requests, and durations are those of requests that were not refused',
  async (t) => {
    const { request_days } = await run(readRecentRequests);
    for (const day of request_days) {
      t.equal(
        Object.values(fatesOf(day)).reduce((sum, count) => sum + count, 0),
        day.requests,
      );
    }
    const full = request_days.find(({ requests }) => requests > 50) as RequestDay;
    t.ok(full.p50 !== null && full.p95 !== null && full.p50 <= full.p95);
    t.ok((full.p95 as number) > 500, 'the slow ones');
    t.match(request_days[0], { requests: 0, p50: null, p95: null });
  },
);

t.test(
  'who is refused now is told by company and error, those of other hours are not',
  async (t) => {
    const { refused_now } = await run(readRecentRequests);
    const [{ wrong }] = await run(
      (sql) => sql<[{ wrong: number }]>`
      select count(*)::integer as wrong from request_trail
      where code is not null and occurred_at >= date_trunc('hour', now(), 'UTC') - interval '1 hour'`,
    );
    t.equal(
      refused_now.reduce((sum, { requests }) => sum + requests, 0),
      wrong,
    );
    t.ok(refused_now.every(({ of, requests }) => of >= requests));
  },
);
