import { setTimeout as sleep } from 'node:timers/promises';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { openApp } from '../../src/app.ts';
import { readConfig } from '../../src/config.ts';
import { isTimeZone } from '../../src/domain/month.ts';
import { judge } from './judge.ts';
import { type Journalled, type Load, startLoad } from './load.ts';
import { startFaultProxy } from './proxy.ts';
import { note } from './results.ts';
import { faultWorld, LONG, until } from './world.ts';

/** A whole gateway with a clock of our own, billing in Europe/Berlin, taken through nights that matter. */

t.setTimeout(LONG ? 300_000 : 90_000);
const BEFORE_MS = LONG ? 4000 : 600;
const AFTER_MS = LONG ? 4000 : 1400;
const MARGIN_MS = 300; // what was sent shortly before may be admitted after
const WORKERS = LONG ? 8 : 4;

const world = await faultWorld(t);
const proxy = await startFaultProxy(t, world.databaseUrl);
let ahead = 0; // of the real clock, milliseconds
const set = (instant: string): void => {
  ahead = Date.parse(instant) - Date.now();
};
/** When the gateway's clock shows an instant, by the real one. */
const realTime = (instant: string): number => Date.parse(instant) - ahead;

set('2026-10-24T20:00:00Z');
const env = { PORT: '0', ADMIN_PORT: '0', BILLING_TIMEZONE: 'Europe/Berlin', DATABASE_URL: proxy.url };
const config = readConfig({ ...env, UPSTREAM_URL: world.demo.url, SPOOL_DIR: world.spoolDir }, isTimeZone);
const app = await openApp(config, pino({ level: 'silent' }), () => Date.now() + ahead);
await app.listen();
t.teardown(async () => {
  await app.drain(1);
  await app.close();
});

const journals: Journalled[] = [];
const lifts: number[] = [];

/** A company whose budget is used up this month, and one without a budget, both under load. */
async function customers(now: string): Promise<{ capped: Load; free: Load; stop(): Promise<void> }> {
  const poor = await world.newCompany({ budget: '1000' });
  await world.sql`insert into chat_usage (company_id, occurred_at, cost_eur) values (${poor.company}, ${now}, 1000)`;
  const load = (key: string) =>
    startLoad({ urls: () => [app.apiUrl], key, workers: WORKERS, kinds: ['plain', 'stream'], restMs: 15 });
  const capped = load(poor.key);
  const free = load((await world.newCompany()).key);
  await until(() => capped.journal.length > 10 && free.journal.length > 10);
  return {
    capped,
    free,
    async stop() {
      journals.push(...(await capped.stop()), ...(await free.stop()));
    },
  };
}

/** What the capped company was told, sent within [from, to) on the real clock. */
function told({ journal }: Load, from: number, to = Number.POSITIVE_INFINITY): number[] {
  return [...new Set(journal.filter(({ at }) => at >= from && at < to).map(({ status }) => status))].sort();
}

/** @param midnight the first instant of the new month */
function lifted(t: Test, load: Load, midnight: number): void {
  const first = load.journal.find(({ at, status }) => at >= midnight - MARGIN_MS && status === 200);
  const ms = (first?.at ?? Number.POSITIVE_INFINITY) - midnight;
  t.ok(ms <= 1000, `402 lifts ${ms} ms after midnight`);
  t.same(told(load, midnight + 1000), [200], 'and for all');
  lifts.push(Math.max(0, ms));
}

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
    const before = new Date(Date.parse(instant) - BEFORE_MS - 1000).toISOString();
    set(before);
    const { capped, free, stop } = await customers(before);
    const turn = realTime(instant);
    await sleep(turn - Date.now() + AFTER_MS);
    await stop();
    t.ok(told(capped, 0, turn - MARGIN_MS).includes(402), 'the budget is used up');
    t.same(told(capped, 0, turn - MARGIN_MS), [402]);
    if (midnight === undefined) t.same(told(capped, turn), [402], 'and stays so: the month goes on');
    else lifted(t, capped, turn);
    t.same(told(free, 0), [200]);
  });
}

t.test('the clock is set two hours forward over midnight, back, and forward again', async (t) => {
  set('2027-04-30T21:30:00Z');
  const { capped, free, stop } = await customers('2027-04-30T21:00:00Z');
  for (const [hours, status] of [
    [2, 200],
    [-2, 402],
    [2, 200],
  ] as const) {
    ahead += hours * 3_600_000;
    const stepped = Date.now();
    await sleep(600 + AFTER_MS);
    const first = capped.journal.find(({ at, status: got }) => at >= stepped && got === status);
    const ms = (first?.at ?? Number.POSITIVE_INFINITY) - stepped;
    t.ok(ms <= 1000, `${status} ${ms} ms after a step of ${hours} h`);
    t.same(told(capped, stepped + 1000), [status]);
    lifts.push(ms);
  }
  await stop();
  t.same(told(free, 0), [200]);
});

for (const [name, earlier] of [
  ['the database goes away just before midnight', 300],
  ['the database is away for long when midnight comes', 3500],
] as const) {
  t.test(name, async (t) => {
    const instant = earlier === 300 ? '2027-05-31T22:00:00Z' : '2027-06-30T22:00:00Z';
    const before = new Date(Date.parse(instant) - earlier - 1500).toISOString();
    set(before);
    const { capped, free, stop } = await customers(before);
    const turn = realTime(instant);
    await sleep(Math.max(0, turn - earlier - Date.now()));
    t.same(told(capped, 0), [402]);
    proxy.freeze();
    await sleep(turn - Date.now() + 2500);
    lifted(t, capped, turn);
    proxy.thaw();
    await sleep(AFTER_MS);
    await stop();
    t.same(told(capped, turn + 1000), [200]);
    t.same(told(free, 0), [200], 'nobody was refused');
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
    45,
    'The right month, always',
    'faked clock, Europe/Berlin: New Year, both DST nights and the month ends after them, steps of ± 2 h over midnight, database away over midnight twice',
    `${row?.rows} rows in ${row?.months} months, ${row?.wrong} in the wrong one, ${verdict.missing.length} missing; a 402 lifts (and comes back, where the clock is set back) at most ${Math.max(...lifts)} ms after the month turns`,
  );
});
