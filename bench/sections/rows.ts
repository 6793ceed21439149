import { randomUUID } from 'node:crypto';
import { type Database, openDatabase } from '../../src/store/database.ts';
import { ledgerStore } from '../../src/store/ledger.ts';
import { recordText } from '../../test/support/record.ts';
import { admissionOf, makePayers, recordOf } from '../programs/records.ts';
import { type Figures, reading, spreadOf } from '../results.ts';
import type { Bench, Section, Step } from '../run/rounds.ts';
import { median, table } from '../tables.ts';

/** Companies, writers at once, and rows in one batch. */
const LOADS = [1000, 1].flatMap((companies) =>
  [1, 4, 8].flatMap((writers) => [200, 2000].map((batch) => [companies, writers, batch] as const)),
);
const KINDS = {
  rate: 'rows/s',
  batchMs: 'ms per batch',
  postgres: 'Postgres CPU µs per row',
  log: 'bytes of log per row',
  disk: 'bytes on disk per row',
};

type RowLoad = (typeof LOADS)[number];

/** Ledger rows into one Postgres by several gateways at once, as gateways write them. */
export const rows: Section = {
  heading: 'Ledger rows into one Postgres',
  steps: (bench) =>
    LOADS.map(
      (load): Step => ({
        name: `companies, writers, rows a batch: ${load.join(', ')}`,
        measure: async (_target, seconds) => ({ [load.join(', ')]: await writeRows(bench, load, seconds) }),
      }),
    ),
  note: () =>
    'Batches as gateways write them: rows, seals, counters by month and by day, one transaction, flushed to disk. Log is the write-ahead log; disk is table and index.',
  table: (results) =>
    table(
      ['companies, writers, rows a batch', ...Object.values(KINDS)],
      Object.keys(results.series).map((name) => [
        name,
        ...Object.keys(KINDS).map((kind) => median(reading(results, name, 'gateway', kind))),
      ]),
    ),
};

async function writeRows({ server }: Bench, [companies, writers, batch]: RowLoad, seconds: number): Promise<Figures> {
  const url = await server.seeded();
  const dbs = Array.from({ length: writers }, () => openDatabase({ url, maxConnections: 1 }));
  const payers = makePayers(companies);
  const [logBefore, diskBefore] = await bytesWritten(dbs[0] as Database);
  const before = server.cpuMicros();
  const began = performance.now();
  let done = 0;
  const times: number[] = [];
  const write = async (db: Database): Promise<void> => {
    const store = ledgerStore(db);
    const writer = randomUUID();
    while (performance.now() - began < seconds * 1000) {
      const records = Array.from({ length: batch }, (_, n) => recordText(recordOf(admissionOf(payers, done + n), n)));
      const at = performance.now();
      await store.insert(writer, Buffer.from(`[${records.join(',')}]`), null);
      times.push(performance.now() - at);
      done += batch;
    }
  };
  await Promise.all(dbs.map(write));
  const rate = done / ((performance.now() - began) / 1000);
  const postgres = (server.cpuMicros() - before) / done;
  const [log, disk] = await bytesWritten(dbs[0] as Database);
  await Promise.all(dbs.map((db) => db.close()));
  await server.drop(url);
  const batchMs = spreadOf(times)?.median ?? 0;
  return { rate, batchMs, postgres, log: (log - logBefore) / done, disk: (disk - diskBefore) / done };
}

/** Bytes of write-ahead log so far, and of the ledger's tables and indexes. */
async function bytesWritten(db: Database): Promise<[log: number, disk: number]> {
  const [row] = await db.run(
    5000,
    (sql) => sql<[{ lsn: string; disk: string }]>`
      select pg_current_wal_lsn() - '0/0' as lsn, (select sum(pg_total_relation_size(c.oid)) from pg_class c
        where relkind = 'r' and (relname like 'api_usage%' or relname = 'ledger_seals')) as disk`,
  );
  return [Number(row.lsn), Number(row.disk)];
}
