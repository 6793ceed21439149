import { randomUUID } from 'node:crypto';
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises';
import { Calendar } from '../../src/domain/month.ts';
import { parsePrices } from '../../src/domain/pricing/prices.ts';
import { type Admission, usageRecord } from '../../src/domain/usage.ts';
import { BatchLedger } from '../../src/ledger/batch-ledger.ts';
import { fileDisk } from '../../src/ledger/disk.ts';
import { Spool } from '../../src/ledger/spool.ts';
import { systemTiming } from '../../src/ledger/timing.ts';
import { systemProcesses } from '../../src/runtime/processes.ts';
import { newRequestId } from '../../src/runtime/request-id.ts';
import { openDatabase } from '../../src/store/connection/pool.ts';
import { ledgerStore } from '../../src/store/gateway/ledger.ts';
import { spreadOf } from '../results.ts';
import { INTERNAL_MODEL, SLUG } from './answers.ts';

/**
 * Measures the ledger alone, wired as in the gateway, with a spool in SPOOL_DIR, into the database of DATABASE_URL,
 * for SECONDS. Prints one JSON object of the figures that the functions below measure.
 */
const PACE = 10_000; // rows per second
const FLOOD = 100_000;
const COMPANIES = 100;
const TURNS = 10_000;
/**
 * For 15 of 20 seconds of warm-up the ledger writes ten times as often, and one row comes a turn of the event loop.
 * V8 then has optimised what a gateway runs after some minutes; without this its compiler cost 0.5 µs of a row.
 */
const HASTE = 10;

const seconds = Number(process.env.SECONDS);
const [hastySeconds, warmSeconds] = seconds < 10 ? [1, 1] : [15, 5];
const db = openDatabase({ url: process.env.DATABASE_URL as string, isFast: true });
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
const system = systemTiming(Date.now);
let haste = HASTE;
let commits: number[] | null = null; // milliseconds of each, while they are wanted
const timing = {
  ...system,
  after: (ms: number, call: () => void) => system.after(ms / haste, call),
  soon: (call: () => void) => void setImmediate(() => timed(call, commits)),
};
const calendar = new Calendar('UTC');
const ledger = new BatchLedger({
  store: ledgerStore(db),
  clock: Date.now,
  calendar,
  log,
  writer,
  spool,
  timing,
});
ledger.start();

const payers = Array.from({ length: COMPANIES }, () => ({
  id: randomUUID(),
  companyId: randomUUID(),
}));
const prices = parsePrices('0.0005', '0.0015');
const model = {
  slug: SLUG,
  upstream: INTERNAL_MODEL,
  kind: 'chat',
  euHosted: true,
  acceptsTokens: false,
  prices,
  created: 0,
  next: null,
} as const;
const measured = {
  cpu: await measureCpu(),
  share: await measureShare(),
  rate: await measureRate(),
};
const lost = await ledger.close(10_000);
await db.close();
if (lost > 0 || ledger.setAside > 0) fail({}, `${lost} rows lost, ${ledger.setAside} set aside`);
console.log(JSON.stringify(measured));

/**
 * CPU microseconds per row, rows arriving at 10,000/s, until the last is committed; less what the same arrivals
 * cost without metering. Seconds of both alternate, so that whatever slows the machine slows both.
 */
async function measureCpu(): Promise<number> {
  await arrive(PACE * hastySeconds, true);
  haste = 1;
  await arrive(PACE * warmSeconds, true);
  await arrive(PACE, false);
  let cpu = 0;
  for (let second = 0; second < seconds; second++) {
    cpu += (await arrive(PACE, true)) - (await arrive(PACE, false));
  }
  return cpu / PACE / seconds;
}

/** What one request pays before its answer may end, spool included: median microseconds, one row at a time. */
async function measureShare(): Promise<number> {
  const bookings: number[] = [];
  commits = [];
  for (let n = 0; n < TURNS; n++) {
    const admitted = admissionOf(n);
    timed(() => meter(admitted, n), bookings);
    await turn();
  }
  const share = ((spreadOf(bookings)?.median ?? 0) + (spreadOf(commits)?.median ?? 0)) * 1000;
  commits = null;
  await settled();
  return share;
}

/** Rows per second into Postgres when they wait in line. */
async function measureRate(): Promise<number> {
  const began = performance.now();
  for (let n = 0; n < FLOOD; n++) meter(admissionOf(n), n);
  await settled();
  return FLOOD / ((performance.now() - began) / 1000);
}

/** Does some work and adds the milliseconds that it took, if they are wanted. */
function timed(work: () => void, into: number[] | null): void {
  const at = performance.now();
  work();
  into?.push(performance.now() - at);
}

/** Requests come at the pace, metered or not, until all rows are committed. @returns microseconds of CPU */
async function arrive(rows: number, metered: boolean): Promise<number> {
  const before = process.cpuUsage();
  const start = performance.now();
  for (let arrived = 0; arrived < rows; ) {
    await (haste > 1 ? turn() : sleep(1));
    const due = Math.min(rows, ((performance.now() - start) / 1000) * PACE);
    const admitted: Admission[] = [];
    for (; arrived < due; arrived++) admitted.push(admissionOf(arrived));
    if (metered) for (const [n, one] of admitted.entries()) meter(one, n);
  }
  await settled();
  const { user, system } = process.cpuUsage(before);
  return user + system;
}

/** The n-th request; companies take turns. */
function admissionOf(n: number): Admission {
  const at = Date.now();
  const payer = payers[n % COMPANIES] as (typeof payers)[number];
  return {
    requestId: newRequestId(),
    payer,
    model,
    endpoint: 'chat.completions',
    at,
    month: calendar.month(at),
    costCenter: '',
  };
}

function meter(admission: Admission, n: number): void {
  const usage = { prompt: 200 + (n % 100), completion: 100 + (n % 50) };
  ledger.book(usageRecord(admission, usage, 'upstream', 'completed'), null);
}

async function settled(): Promise<void> {
  while (ledger.backlog > 0) await sleep(10); // looks seldom: looking is not what is measured
}

function fail(fields: object, text: string): never {
  throw new Error(`${text} ${JSON.stringify(fields)}`);
}
