import { randomUUID } from 'node:crypto';
import t from 'tap';
import { NIL_ID } from '../../../src/store/connection/expressions.ts';
import type { Sql } from '../../../src/store/connection/pool.ts';
import { HOURS_DAYS, trailStore } from '../../../src/store/gateway/request-trail.ts';
import { testDatabase } from '../../support/postgres.ts';
import { addRequests } from '../../support/requests.ts';

const DAY = 86_400_000;
const dayOf = (at: number): string => new Date(at).toISOString().slice(0, 10);

async function world(t: Parameters<typeof testDatabase>[0]) {
  const { db } = await testDatabase(t);
  const run = <T>(work: (sql: Sql) => PromiseLike<T>) => db.run(60_000, work);
  const days = async () =>
    (
      await run(
        (sql) => sql<{ day: string }[]>`
      select substring(relname from 15) as day from pg_inherits join pg_class c on c.oid = inhrelid
      where inhparent = 'request_trail'::regclass order by 1`,
      )
    ).map(({ day }) => day);
  return { db, run, days, store: trailStore(db) };
}

t.test('a batch may be sent twice: each request is there, and counted, once', async (t) => {
  const { store, run } = await world(t);
  const rows = [
    { company: randomUUID(), id: '019aa8f0-3b5c-7000-8000-000000000001' },
    { status: 401 },
  ];
  const at = Date.parse('2026-11-22T10:00:00Z');
  const [first, second] = rows.map((row) => ({ at, ...row }));
  await addRequests(store, [first as object, second as object]);
  await addRequests(store, [first as object]);
  const [counts] = await run(
    (sql) => sql`
    select (select count(*) from request_trail) as rows, (select sum(requests) from request_hours) as counted,
      (select count(*) from request_trail where company_id = ${NIL_ID}) as strangers`,
  );
  t.same(counts, { rows: 2, counted: '2', strangers: 1 });
});

t.test('days are dropped when they are too old, and made before they come', async (t) => {
  const { store, run, days } = await world(t);
  const now = Date.now();
  await addRequests(store, [{ at: now - 3 * DAY }, { at: now - 2 * DAY }, { at: now }]);
  const name = (at: number): string => dayOf(at).replaceAll('-', '');
  t.same(
    await days(),
    [-3, -2, -1, 0, 1].map((n) => name(now + n * DAY)),
  );
  await store.keep(2, dayOf(now), dayOf(now));
  t.same(
    await days(),
    [-2, -1, 0, 1].map((n) => name(now + n * DAY)),
  );
  const [{ count }] = await run(
    (sql) => sql<[{ count: number }]>`select count(*) from request_trail`,
  );
  t.equal(count, 2);

  await store.keep(2, dayOf(now + 400 * DAY), dayOf(now + 400 * DAY));
  t.ok(
    (await days()).includes(name(now)),
    'a gateway whose clock is a year ahead drops nothing that others keep',
  );
});

t.test('where no days are kept those of before are dropped, and none are made', async (t) => {
  const { store, days } = await world(t);
  const now = Date.now();
  await addRequests(store, [{ at: now - 2 * DAY }, { at: now - DAY }]);
  await store.keep(0, dayOf(now), dayOf(now));
  const name = dayOf(now).replaceAll('-', '');
  t.ok((await days()).every((day) => day >= name));
  await store.keep(0, dayOf(now + DAY), dayOf(now + DAY));
  t.ok((await days()).length <= 1);
});

t.test('a day that is being read is dropped the next time, and holds nothing up', async (t) => {
  const { db, store, days } = await world(t);
  const now = Date.now();
  await addRequests(store, [{ at: now - 3 * DAY }, { at: now }]);
  const before = await days();
  await db.transaction(60_000, async (sql) => {
    await sql`select count(*) from request_trail`;
    await store.keep(1, dayOf(now), dayOf(now));
    await addRequests(store, [{ at: now }]).catch((error) => t.fail(error.message));
  });
  t.same(await days(), before);
  await store.keep(1, dayOf(now), dayOf(now));
  t.equal((await days()).length, 3);
});

t.test('many gateways may make and drop days at once', async (t) => {
  const { store, days } = await world(t);
  const today = dayOf(Date.now());
  await Promise.all(Array.from({ length: 4 }, () => store.keep(7, today, today)));
  t.equal((await days()).length, 2);
});

t.test('hours that are too old are deleted in steps', async (t) => {
  const { store, run } = await world(t);
  await run(
    (sql) => sql`
    insert into request_hours (company_id, hour, model_slug, api_key_id, endpoint, requests, refused, failed,
      upstream_failed, duration_ms, added_us, duration_buckets, added_buckets)
    select ${NIL_ID}, date_trunc('hour', now()) - make_interval(days => ${HOURS_DAYS}, hours => n), '', ${NIL_ID}, 'x',
      1, 0, 0, 0, 0, 0, '{}', '{}' from generate_series(-10, 3000) n`,
  );
  t.equal(await store.trimHours(), true);
  t.equal(await store.trimHours(), false);
  await run(
    (sql) => sql`
    insert into request_days select ${NIL_ID}, now()::date - ${HOURS_DAYS}::integer - n, '', 'x', 1, 0, 0, '{}', '{}'
    from generate_series(-1, 2000) n`,
  );
  t.equal(await store.trimHours(), true, 'days too');
  t.equal(await store.trimHours(), false);
  const [{ days }] = await run(
    (sql) => sql<[{ days: number }]>`select count(*)::integer as days from request_days`,
  );
  t.ok(days >= 1 && days <= 2);
  const [{ count }] = await run(
    (sql) => sql<[{ count: number }]>`select count(*) from request_hours`,
  );
  t.ok(count >= 10 && count <= 11, 'those of the last days stay');
});
