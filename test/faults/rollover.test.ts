import t, { type Test } from 'tap';
import { openApp } from '../../src/app.ts';
import { readConfig } from '../../src/config.ts';
import { createLog } from '../../src/log.ts';
import { FAST_HTTP } from '../support/gateway.ts';
import { until } from '../support/until.ts';
import { metric } from './gateway.ts';
import { judge } from './judge.ts';
import { type Journalled, type Load, startLoad } from './load.ts';
import { startFaultProxy } from './proxy.ts';
import { note } from './results.ts';
import { faultWorld, LONG } from './world.ts';

/** A gateway whose clock the test sets, billing in Europe/Berlin, at midnights that change the month or the clock. */

const BEFORE_MS = LONG ? 4000 : 400;
const AFTER = LONG ? 1500 : 16; // requests of the company with the used-up budget
const MARGIN_MS = 200; // what is sent so shortly before midnight may be admitted after it
const LIFT_MS = 1000; // asserted in long runs
const WORKERS = LONG ? 8 : 2;

const world = await faultWorld(t);
const proxy = await startFaultProxy(t, world.databaseUrl);
let ahead = 0; // milliseconds from the real clock to the gateway's
const set = (instant: string): void => {
  ahead = Date.parse(instant) - Date.now();
};
/** When the gateway's clock shows an instant, by the real clock. */
const realTime = (instant: string): number => Date.parse(instant) - ahead;

set('2026-10-24T20:00:00Z');
const env = {
  PORT: '0',
  ADMIN_PORT: '0',
  BILLING_TIMEZONE: 'Europe/Berlin',
  DATABASE_URL: proxy.url,
};
const config = readConfig({
  ...env,
  FAST_HTTP,
  UPSTREAM_URL: world.demo.url,
  SPOOL_DIR: world.spoolDir,
});
const app = await openApp(config, createLog({ level: 'silent' }, process.stderr), {
  clock: () => Date.now() + ahead,
});
await app.listen();
t.teardown(async () => {
  await app.drain(1);
  await app.close();
});

const journals: Journalled[] = [];
const lifts: number[] = [];

/** Load of a company whose budget is used up this month, and of one without a budget. @param now sets the clock */
async function customers(
  now: string,
): Promise<{ capped: Load; free: Load; stop(): Promise<void> }> {
  set(now);
  const poor = await world.newCompany({ budget: '1000' });
  await world.sql`insert into chat_usage (company_id, occurred_at, cost_eur) values (${poor.company}, ${now}, 1000)`;
  const load = (key: string) =>
    startLoad({
      urls: () => [app.apiUrl],
      key,
      workers: WORKERS,
      kinds: ['plain', 'stream'],
      restMs: 15,
    });
  const capped = load(poor.key);
  const free = load((await world.newCompany()).key);
  await Promise.all([
    capped.more(20, 'of the capped company'),
    free.more(20, 'of the free company'),
  ]);
  return {
    capped,
    free,
    async stop() {
      journals.push(...(await capped.stop()), ...(await free.stop()));
    },
  };
}

/** Statuses of the requests that were sent within [from, to) on the real clock. */
function told({ journal }: Load, from: number, to = Number.POSITIVE_INFINITY): number[] {
  return [
    ...new Set(journal.filter(({ at }) => at >= from && at < to).map(({ status }) => status)),
  ].sort();
}

/** Waits for an answer with `status` after an instant, and asserts that all have it from then on. @returns since when */
async function turned(t: Test, load: Load, status: number, instant: number): Promise<number> {
  const is = (one: Journalled): boolean => one.at >= instant - MARGIN_MS && one.status === status;
  const first = await until(() => load.journal.find(is), `a company is answered with ${status}`);
  await load.more(AFTER, `after the first ${status}`, ({ at }) => at >= instant);
  const since = Math.max(instant, first?.endedAt ?? 0);
  t.same(told(load, since), [status], `${status} for all from then on`);
  const ms = Math.max(0, (first?.at ?? 0) - instant);
  if (LONG) t.ok(ms <= LIFT_MS, `${status} after ${ms} ms`);
  lifts.push(ms);
  return since;
}

/** An instant some milliseconds before another. */
const earlier = (instant: string, ms: number): string =>
  new Date(Date.parse(instant) - ms).toISOString();

const NIGHTS = [
  { name: 'the night summer time ends', hour: '2026-10-25T01:00:00Z' },
  { name: 'the end of a month an hour longer', midnight: '2026-10-31T23:00:00Z' },
  { name: 'New Year', midnight: '2026-12-31T23:00:00Z' },
  { name: 'the night summer time begins', hour: '2027-03-28T01:00:00Z' },
  { name: 'the end of a month an hour shorter', midnight: '2027-03-31T22:00:00Z' },
];

for (const { name, midnight, hour } of NIGHTS) {
  t.test(name, async (t) => {
    const instant = (midnight ?? hour) as string;
    const { capped, free, stop } = await customers(earlier(instant, 60_000));
    set(earlier(instant, BEFORE_MS));
    const turn = realTime(instant);
    await turned(t, capped, midnight === undefined ? 402 : 200, turn);
    await stop();
    t.same(told(capped, 0, turn - MARGIN_MS), [402], 'the budget is used up');
    if (midnight === undefined) t.same(told(capped, 0), [402], 'and stays so: the month goes on');
    t.same(told(free, 0), [200]);
  });
}

t.test('the clock is set two hours forward over midnight, back, and forward again', async (t) => {
  const { capped, free, stop } = await customers('2027-04-30T21:30:00Z');
  for (const [hours, status] of [
    [2, 200],
    [-2, 402],
    [2, 200],
  ] as const) {
    ahead += hours * 3_600_000;
    await turned(t, capped, status, Date.now() + MARGIN_MS);
  }
  await stop();
  t.same(told(free, 0), [200]);
});

for (const [name, instant, known] of [
  ['the database goes away just before midnight', '2027-05-31T22:00:00Z', false],
  ['the gateway knows that the database is away when midnight comes', '2027-06-30T22:00:00Z', true],
] as const) {
  t.test(name, async (t) => {
    const { capped, free, stop } = await customers(earlier(instant, 60_000));
    const available = () => metric(app as { adminUrl: string }, 'tollgate_database_available');
    if (!known) set(earlier(instant, BEFORE_MS));
    proxy.freeze();
    if (known) {
      await until(
        async () => (await available()) === 0,
        'the gateway knows that the database is away',
      );
      set(earlier(instant, BEFORE_MS));
    }
    const turn = realTime(instant);
    const since = await turned(t, capped, 200, turn);
    proxy.thaw();
    await until(async () => (await available()) === 1, 'the database is available');
    await capped.more(AFTER, 'with the database back');
    await stop();
    t.same(told(capped, 0, turn - MARGIN_MS), [402]);
    t.same(told(capped, since), [200]);
    t.same(told(free, 0), [200], 'no request of the other company was refused');
  });
}

t.test('every row is in the month its call was admitted in, and nothing is lost', async (t) => {
  await app.drain(1);
  t.equal(await app.close(), 0);
  const verdict = await judge(world.sql, journals, world.upstreamJournal());
  t.match(verdict, { missing: [], duplicates: 0, wrong: [], unverified: 0 });
  const [row] = await world.sql`
    select count(*)::integer as rows, count(distinct billing_month)::integer as months,
      count(*) filter (where billing_month <> date_trunc('month', occurred_at at time zone 'Europe/Berlin')::date)::integer as wrong
    from api_usage`;
  t.equal(row?.wrong, 0, `${row?.rows} rows in ${row?.months} months`);
  t.ok((row?.months as number) >= 8);
  note(
    'The right month, always',
    'faked clock, Europe/Berlin: New Year, both DST nights and the month ends after them, steps of ± 2 h over midnight, database away over midnight twice',
    `${row?.rows} rows in ${row?.months} months, ${row?.wrong} in the wrong one, ${verdict.missing.length} missing; a 402 lifts (and comes back, where the clock is set back) at most ${Math.max(...lifts)} ms after the month turns`,
  );
});
