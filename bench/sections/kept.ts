import { randomUUID } from 'node:crypto';
import { newRequestId } from '../../src/runtime/request-id.ts';
import { type Database, openDatabase, type Sql } from '../../src/store/connection/pool.ts';
import { ledgerStore } from '../../src/store/gateway/ledger.ts';
import { trailStore } from '../../src/store/gateway/request-trail.ts';
import { batchOf } from '../run/batches.ts';
import type { Section } from '../run/rounds.ts';
import { NOTHING } from '../run/targets.ts';
import { figures, spreads } from '../tables.ts';

const COMPANIES = 1000;
/** What a worker at a few thousand requests a second books at once. */
export const ROWS = 200;
const WRITE_MS = 60_000;

type Write = (db: Database, writer: string) => Promise<unknown>;
/** Series, label, and what writes a batch. */
const KINDS: readonly (readonly [name: string, label: string, write: Write])[] = [
  [
    'ledger',
    'the ledger and its sums',
    (db, writer) => ledgerStore(db).insert(writer, batchOf(ROWS, COMPANIES), null),
  ],
  ['trail', 'the request trail and its hours', (db) => trailStore(db).insert(requestsOf())],
];

/** What a request costs Postgres, in its log and on its disk. */
export const kept: Section = {
  heading: 'What a request leaves in Postgres',
  async start({ server }) {
    const baseUrl = await server.seeded(async (db) => {
      await db.run(
        WRITE_MS,
        (sql) => sql`select ensure_request_trail_day((now() at time zone 'UTC')::date)`,
      );
    });
    return [{ ...NOTHING, baseUrl }];
  },
  steps: ({ server }) =>
    KINDS.map(([name, label, write]) => ({
      name: label,
      warmSeconds: 2,
      async measure({ baseUrl }, seconds) {
        const db = openDatabase({ url: baseUrl, maxConnections: 1 });
        const writer = randomUUID();
        const [log, disk] = await db.run(WRITE_MS, sizes);
        const before = server.cpuMicros();
        const until = performance.now() + seconds * 1000;
        let rows = 0;
        for (; performance.now() < until; rows += ROWS) await write(db, writer);
        const cpu = (server.cpuMicros() - before) / rows;
        const [logAfter, diskAfter] = await db.run(WRITE_MS, sizes);
        await db.close();
        return { [name]: { cpu, log: (logAfter - log) / rows, disk: (diskAfter - disk) / rows } };
      },
    })),
  note: () =>
    `One writer, batches of ${ROWS} rows of ${COMPANIES} companies. On a machine that was shared with other work, so CPU is high.`,
  table: (results) => [
    figures(
      results,
      'a row of',
      KINDS.map(([name, label]) => [label, name, 'gateway'] as const),
      {
        'CPU µs of Postgres': spreads('cpu'),
        'bytes of log': spreads('log'),
        'bytes on disk': spreads('disk'),
      },
    ),
  ],
};

/** Bytes that the server has written to its log, and the database has on disk. */
async function sizes(sql: Sql): Promise<[log: number, disk: number]> {
  const [row] = await sql<[{ log: number; disk: number }]>`
    select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8 as log, pg_database_size(current_database())::float8 as disk`;
  return [row.log, row.disk];
}

/** Requests of the trail, as src/trail writes them. */
function requestsOf(): Buffer {
  const t = new Date().toISOString();
  const requests = Array.from({ length: ROWS }, () => {
    const c = `00000000-0000-4000-8000-${`${Math.floor(Math.random() * COMPANIES)}`.padStart(12, '0')}`;
    // biome-ignore format: one row
    return { i: newRequestId(), t, c, k: c, s: 200, d: 900, a: 100, f: 300, e: 'chat.completions', m: 'fast', o: 'completed', n: 200, g: 100, v: '0.00025' };
  });
  return Buffer.from(JSON.stringify(requests));
}
