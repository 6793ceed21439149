import { randomUUID } from 'node:crypto';
import { parsePrices } from '../src/domain/money.ts';
import { Calendar } from '../src/domain/month.ts';
import type { Admission } from '../src/domain/usage.ts';
import { usageRecord } from '../src/domain/usage.ts';
import { fileDisk, systemProcesses } from '../src/ledger/disk.ts';
import { Spool } from '../src/ledger/spool.ts';
import { BatchLedger } from '../src/ledger/writer.ts';
import { openDatabase } from '../src/store/database.ts';
import { ledgerStore } from '../src/store/ledger.ts';
import { INTERNAL_MODEL, SLUG } from './payload.ts';

/**
 * The ledger alone, wired as in the gateway, with a spool in SPOOL_DIR, into the database of
 * DATABASE_URL. Prints one JSON object:
 * cpu   microseconds of this process per row, rows arriving at 10,000/s, until the last is committed
 * book  the part of it spent in the request: making the record and handing it over
 * rate  rows per second into Postgres when they wait in line
 */
const PACE = 10_000;
const FLOOD = 100_000;
const COMPANIES = 100;

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
const ledger = new BatchLedger({ store: ledgerStore(db), clock, monthOf, log, writer, spool });
ledger.start();

const prices = parsePrices('0.0005', '0.0015');
const model = { slug: SLUG, upstream: INTERNAL_MODEL, kind: 'chat', euHosted: true, prices, created: 0 } as const;
const companies = Array.from({ length: COMPANIES }, () => ({ companyId: randomUUID(), keyId: randomUUID() }));

await arrive(PACE); // warm
const seconds = Math.max(1, Number(process.env.BENCH_SECONDS ?? 2));
const before = process.cpuUsage();
const book = await arrive(PACE * seconds);
const used = process.cpuUsage(before);

const began = performance.now();
for (let i = 0; i < FLOOD; i++) ledger.book(record(i), null);
await settled();
const rate = FLOOD / ((performance.now() - began) / 1000);

console.log(JSON.stringify({ cpu: (used.user + used.system) / (PACE * seconds), book, rate }));
const lost = await ledger.close(10_000);
await db.close();
if (lost > 0 || ledger.setAside > 0) fail({}, `${lost} rows lost, ${ledger.setAside} set aside`);

/** Books rows at the pace and waits until they are committed. @returns microseconds spent booking, per row */
async function arrive(rows: number): Promise<number> {
  const start = performance.now();
  let booking = 0;
  for (let booked = 0; booked < rows; ) {
    await new Promise((resolve) => setTimeout(resolve, 1));
    const due = Math.min(rows, ((performance.now() - start) / 1000) * PACE);
    const at = performance.now();
    for (; booked < due; booked++) ledger.book(record(booked), null);
    booking += performance.now() - at;
  }
  await settled();
  return (booking * 1000) / rows;
}

function record(n: number): ReturnType<typeof usageRecord> {
  const at = clock();
  const { companyId, keyId } = companies[n % COMPANIES] as (typeof companies)[number];
  const month = calendar.month(at);
  const admission: Admission = {
    requestId: randomUUID(),
    companyId,
    keyId,
    model,
    endpoint: 'chat.completions',
    at,
    month,
  };
  return usageRecord(admission, { prompt: 200 + (n % 100), completion: 100 + (n % 50) }, 'upstream', 'completed');
}

async function settled(): Promise<void> {
  while (ledger.backlog > 0) await new Promise((resolve) => setTimeout(resolve, 1));
}

function fail(_fields: object, text: string): never {
  throw new Error(text);
}
