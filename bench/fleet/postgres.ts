import { randomUUID } from 'node:crypto';
import { type Database, openDatabase } from '../../src/store/database.ts';
import { ledgerStore } from '../../src/store/ledger.ts';
import { recordText } from '../../test/support/record.ts';
import { admissionOf, makePayers, recordOf } from '../programs/records.ts';
import { spreadOf } from '../results.ts';
import type { Figures, Poll, Rows } from './figures.ts';
import type { FleetBench } from './replicas.ts';

const MINUTE_MS = 60_000;
/** Writers at once, and rows in one batch. */
const WRITERS = [
  [1, 200],
  [1, 2000],
  [4, 200],
  [4, 2000],
  [8, 2000],
] as const;

/** Measures rows a second into Postgres by several writers at once, as gateways write them. */
export async function measureRows(
  bench: FleetBench,
): Promise<Pick<Figures, 'rows' | 'walBytesPerRow' | 'diskBytesPerRow'>> {
  const figures = { rows: [] as Rows[], walBytesPerRow: 0, diskBytesPerRow: 0 };
  for (const companies of [1000, 1]) {
    for (const [writers, batch] of WRITERS) {
      const { row, walBytes, diskBytes } = await writeRows(bench, writers, batch, companies);
      figures.rows.push(row);
      if (companies > 1 && batch === 200 && writers === 4) {
        figures.walBytesPerRow = walBytes;
        figures.diskBytesPerRow = diskBytes;
      }
      bench.say(`rows: ${JSON.stringify(row)}`);
    }
  }
  return figures;
}

async function writeRows({ server, seconds }: FleetBench, writers: number, batch: number, companies: number) {
  const url = await server.seeded();
  const dbs = Array.from({ length: writers }, () => openDatabase({ url, maxConnections: 1 }));
  const payers = makePayers(companies);
  const [walBefore, diskBefore] = await bytesWritten(dbs[0] as Database);
  const before = server.cpuMicros();
  const began = performance.now();
  let done = 0;
  const times: number[] = [];
  await Promise.all(
    dbs.map(async (db) => {
      const store = ledgerStore(db);
      const writer = randomUUID();
      while (performance.now() - began < seconds * 1000) {
        const records = Array.from({ length: batch }, (_, n) =>
          recordText(recordOf(admissionOf(payers, done + n), done + n)),
        );
        const at = performance.now();
        await store.insert(writer, Buffer.from(`[${records.join(',')}]`), null);
        times.push(performance.now() - at);
        done += batch;
      }
    }),
  );
  const rate = done / ((performance.now() - began) / 1000);
  const postgresMicros = (server.cpuMicros() - before) / done;
  const [wal, disk] = await bytesWritten(dbs[0] as Database);
  await Promise.all(dbs.map((db) => db.close()));
  await server.drop(url);
  const batchMs = spreadOf(times)?.median ?? 0;
  const row: Rows = { writers, batch, companies, rate, batchMs, postgresMicros };
  return { row, walBytes: (wal - walBefore) / done, diskBytes: (disk - diskBefore) / done };
}

/** Bytes of write-ahead log so far, and of the ledger's tables and indexes. */
async function bytesWritten(db: Database): Promise<[wal: number, disk: number]> {
  const [row] = await db.run(
    5000,
    (sql) => sql<[{ lsn: string; disk: string }]>`
      select pg_current_wal_lsn() - '0/0' as lsn, (select sum(pg_total_relation_size(c.oid)) from pg_class c
        where relkind = 'r' and (relname like 'api_usage%' or relname = 'ledger_seals')) as disk`,
  );
  return [Number(row.lsn), Number(row.disk)];
}

/** Measures what one look at changed spend costs Postgres and a replica, by how many figures changed. */
export async function measurePolls({ server, say }: FleetBench): Promise<Poll[]> {
  const spend: Poll[] = [];
  for (const changed of [0, 1000, 10_000]) {
    const url = await server.seeded();
    const db = openDatabase({ url, maxConnections: 1 });
    await db.run(
      MINUTE_MS,
      (sql) => sql`
        insert into monthly_spend (company_id, billing_month)
        select gen_random_uuid(), date_trunc('month', now())::date from generate_series(1, 20000)`,
    );
    await db.run(MINUTE_MS, (sql) => sql`vacuum analyze monthly_spend`);
    const store = ledgerStore(db);
    const { cursor } = await store.changedSpend(null);
    await db.run(
      MINUTE_MS,
      (sql) => sql`
        update monthly_spend set requests = 1, changed_xid = pg_current_xact_id()
        where company_id in (select company_id from monthly_spend limit ${changed})`,
    );
    const polls = changed > 1000 ? 40 : 400;
    for (let n = 0; n < 5; n++) await store.changedSpend(cursor);
    const before = server.cpuMicros();
    const own = process.cpuUsage();
    for (let n = 0; n < polls; n++) await store.changedSpend(cursor);
    const micros = (server.cpuMicros() - before) / polls;
    const { user, system } = process.cpuUsage(own);
    spend.push({ changed, micros, clientMicros: (user + system) / polls });
    say(`polls: ${JSON.stringify(spend.at(-1))}`);
    await db.close();
    await server.drop(url);
  }
  return spend;
}
