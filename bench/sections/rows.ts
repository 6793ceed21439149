import { openDatabase } from '../../src/store/connection/pool.ts';
import { reading } from '../results.ts';
import { bookBatches } from '../run/batches.ts';
import type { Section } from '../run/rounds.ts';
import { figures, goal, spreads } from '../tables.ts';

const MS = 60_000;
const BATCH = 400;
type Limits = readonly [least: number, most: number];
/** Series → companies, and the targets of CPU, log and disk. */
const SIZES: Readonly<
  Record<string, readonly [companies: number, cpu: Limits, log: Limits, disk: Limits]>
> = {
  'one company': [1, [40, 30], [520, 480], [650, 600]],
  '4,000 companies': [4000, [100, 80], [1600, 1450], [900, 800]],
};

/** What a booked call costs Postgres, for which a larger machine is bought first. */
export const rows: Section = {
  heading: 'A ledger row in Postgres',
  steps: ({ server }) => {
    return Object.entries(SIZES).map(([name, [companies]]) => {
      const database = server.seeded();
      return {
        name,
        warmSeconds: 5,
        async measure(_target, seconds) {
          const url = await database;
          const db = openDatabase({ url, maxConnections: 1 });
          const state = async () => {
            const [row] = await db.run(
              MS,
              (sql) => sql<[{ log: number; disk: number; updates: number; hot: number }]>`
                select (pg_current_wal_insert_lsn() - '0/0')::float8 as log, pg_database_size(current_database())::float8 as disk,
                  n_tup_upd::float8 as updates, n_tup_hot_upd::float8 as hot
                from pg_stat_user_tables where relname = 'monthly_spend'`,
            );
            return { ...row, cpu: server.cpuMicros() };
          };
          const before = await state();
          let after = before;
          const end = performance.now() + seconds * 1000;
          const count = await bookBatches(url, BATCH, companies, end, async () => {
            after = await state();
          });
          await db.close();
          const each = (kind: 'cpu' | 'log' | 'disk'): number =>
            (after[kind] - before[kind]) / count;
          const stayed = (after.hot - before.hot) / (after.updates - before.updates);
          return { [name]: { cpu: each('cpu'), log: each('log'), disk: each('disk'), stayed } };
        },
      };
    });
  },
  note: () =>
    `One writer books batches of ${BATCH} rows, each in a transaction of its own; companies by chance, with a key and a model each. CPU of all processes of Postgres, the write-ahead log with the pages that a checkpoint makes it hold whole, and the growth of the database with indexes, sums, seals and what vacuum has not yet freed. HOT: of the updates of \`monthly_spend\`, those for which no index got an entry.`,
  table: (results) => {
    const lines = Object.keys(SIZES).map((name) => [name, name, 'gateway'] as const);
    return [
      figures(results, 'a row of', lines, {
        'CPU µs of Postgres': spreads('cpu'),
        'bytes of write-ahead log': spreads('log'),
        'bytes on disk': spreads('disk'),
        'share of HOT updates': spreads('stayed'),
      }),
    ];
  },
  goals: (results) =>
    Object.entries(SIZES).flatMap(([name, [, cpu, log, disk]]) => [
      goal(
        `CPU of Postgres per ledger row, ${name}`,
        ...cpu,
        reading(results, name, 'gateway', 'cpu'),
        { unit: 'µs' },
      ),
      goal(
        `write-ahead log per ledger row, ${name}`,
        ...log,
        reading(results, name, 'gateway', 'log'),
        {
          unit: 'bytes',
        },
      ),
      goal(`disk per ledger row, ${name}`, ...disk, reading(results, name, 'gateway', 'disk'), {
        unit: 'bytes',
      }),
    ]),
};
