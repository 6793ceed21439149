import { randomUUID } from 'node:crypto';
import type { Payer } from '../src/domain/key.ts';
import { parsePrices } from '../src/domain/money.ts';
import { Calendar } from '../src/domain/month.ts';
import type { Admission } from '../src/domain/usage.ts';
import { usageRecord } from '../src/domain/usage.ts';
import { fileDisk, systemProcesses } from '../src/ledger/disk.ts';
import { Spool } from '../src/ledger/spool.ts';
import { systemTiming } from '../src/ledger/timing.ts';
import { BatchLedger } from '../src/ledger/writer.ts';
import { newRequestId } from '../src/runtime/request-id.ts';
import { openDatabase } from '../src/store/database.ts';
import { ledgerStore } from '../src/store/ledger.ts';
import { INTERNAL_MODEL, SLUG } from './payload.ts';

/**
 * The ledger alone, wired as in the gateway, with a spool in SPOOL_DIR, into the database of
 * DATABASE_URL. Prints one JSON object:
 * cpu   microseconds of this process per row, rows arriving at 10,000/s, until the last is
 *       committed; less what the same arrivals take when nothing is metered. A second of the one
 *       follows a second of the other: whatever slows the machine for a while slows both. The
 *       ledger looks at the spend in both, some 0.05 µs of a row in the second where it rests
 * share what one request alone in its turn pays before its answer may end, the append to the
 *       spool included: median microseconds, requests one behind the other
 * rate  rows per second into Postgres when they wait in line
 */
const PACE = 10_000;
const FLOOD = 100_000;
/**
 * For 15 of 20 seconds to warm up the ledger writes ten times as often, and one row comes a turn:
 * V8 has then optimised what a gateway of some minutes runs. At the usual pace all the time its
 * compiler was still 0.5 µs of a row.
 */
const WARM = { haste: 10, hastySeconds: 15, seconds: 5 };
/** V8 still optimises now and then: in a few seconds that would be much of a row. */
const LEAST_SECONDS = 10;
const COMPANIES = 100;
const TURNS = 10_000;

const clock = Date.now;
const calendar = new Calendar('UTC');
const db = openDatabase({ url: process.env.DATABASE_URL as string });
const log = { warn: fail, error: fail };
const writer = randomUUID();
const spool = new Spool({
  disk: fileDisk(false),
  processes: systemProcesses(),
  folder: process.env.SPOOL_DIR as string,
  id: writer,
  uptime: () => performance.now(),
  log,
});
const monthOf = (at: number) => calendar.month(at);
let commits: number[] | null = null;
const system = systemTiming(clock);
let haste = WARM.haste;
const timing = {
  ...system,
  after: (ms: number, call: () => void) => system.after(ms / haste, call),
  soon: (call: () => void) => void setImmediate(() => timed(call, commits)),
};
const ledger = new BatchLedger({ store: ledgerStore(db), clock, monthOf, log, writer, spool, timing });
ledger.start();

const prices = parsePrices('0.0005', '0.0015');
const model = { slug: SLUG, upstream: INTERNAL_MODEL, kind: 'chat', euHosted: true, prices, created: 0 } as const;
const companies: Payer[] = Array.from({ length: COMPANIES }, () => ({
  id: randomUUID(),
  companyId: randomUUID(),
}));

await arrive(PACE * WARM.hastySeconds, true);
haste = 1;
await arrive(PACE * WARM.seconds, true);
await arrive(PACE, false);
const seconds = Math.max(LEAST_SECONDS, Number(process.env.BENCH_SECONDS ?? LEAST_SECONDS));
let cpu = 0;
for (let second = 0; second < seconds; second++) {
  const metered = await measured(() => arrive(PACE, true));
  const unmetered = await measured(() => arrive(PACE, false));
  cpu += (metered - unmetered) / PACE / seconds;
}

const bookings: number[] = [];
commits = [];
for (let n = 0; n < TURNS; n++) {
  const admitted = admission(n);
  timed(() => meter(admitted, n), bookings);
  await new Promise((resolve) => setImmediate(resolve));
}
const share = (median(bookings) + median(commits)) * 1000;
commits = null;
await settled();

const began = performance.now();
for (let i = 0; i < FLOOD; i++) meter(admission(i), i);
await settled();
const rate = FLOOD / ((performance.now() - began) / 1000);
const lost = await ledger.close(10_000);
await db.close();
if (lost > 0 || ledger.setAside > 0) fail({}, `${lost} rows lost, ${ledger.setAside} set aside`);

console.log(JSON.stringify({ cpu, share, rate }));

/** Does some work and notes the milliseconds it took, if they are wanted. */
function timed(work: () => void, into: number[] | null): void {
  const at = performance.now();
  work();
  into?.push(performance.now() - at);
}

function median(values: number[]): number {
  return values.sort((a, b) => a - b)[values.length >> 1] as number;
}

/** @returns microseconds of CPU that some work took */
async function measured(work: () => Promise<void>): Promise<number> {
  const before = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(before);
  return user + system;
}

/** Requests come at the pace, metered or not; waits until their rows are committed. */
async function arrive(rows: number, metered: boolean): Promise<void> {
  const start = performance.now();
  for (let arrived = 0; arrived < rows; ) {
    await new Promise<void>((resolve) => void (haste > 1 ? setImmediate(resolve) : setTimeout(resolve, 1)));
    const due = Math.min(rows, ((performance.now() - start) / 1000) * PACE);
    const admitted: Admission[] = [];
    for (; arrived < due; arrived++) admitted.push(admission(arrived));
    if (metered) for (let n = 0; n < admitted.length; n++) meter(admitted[n] as Admission, n);
  }
  await settled();
}

function meter(admission: Admission, n: number): void {
  ledger.book(
    usageRecord(admission, { prompt: 200 + (n % 100), completion: 100 + (n % 50) }, 'upstream', 'completed'),
    null,
  );
}

function admission(n: number): Admission {
  const at = clock();
  const payer = companies[n % COMPANIES] as Payer;
  const month = calendar.month(at);
  return { requestId: newRequestId(), payer, model, endpoint: 'chat.completions', at, month };
}

async function settled(): Promise<void> {
  // seldom: looking is no part of what is measured
  while (ledger.backlog > 0) await new Promise((resolve) => setTimeout(resolve, 10));
}

function fail(fields: object, text: string): never {
  throw new Error(`${text} ${JSON.stringify(fields)}`);
}
