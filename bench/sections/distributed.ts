import { openDatabase } from '../../src/store/connection/pool.ts';
import { migrate } from '../../src/store/schema/migrate.ts';
import { missing, startCitus } from '../../test/fleet/citus.ts';
import { onEach, spread as spreadTables } from '../../test/support/distributed.ts';
import { inDatabase } from '../../test/support/postgres.ts';
import { reading, type SectionResults } from '../results.ts';
import { bookBatches } from '../run/batches.ts';
import { parentOf, serverMicros } from '../run/process.ts';
import type { Section } from '../run/rounds.ts';
import { NOTHING, type Target } from '../run/targets.ts';
import { figures, median, spreads } from '../tables.ts';

const COMPANIES = 1000;
const WRITERS = 4;
const BATCHES = [200, 1000] as const;
/** Name of a target → workers, label. */
const TARGETS: Readonly<Record<string, readonly [workers: number, label: string]>> = {
  none: [0, 'one server'],
  one: [1, 'a coordinator and one worker'],
  two: [2, 'a coordinator and two workers'],
};

/** Ledger rows into one server, and into the same tables spread over several. */
export const distributed: Section = {
  heading: 'A ledger spread over several servers',
  async start() {
    if (missing.length > 0) throw new Error(`not installed: ${missing.join(', ')}`);
    const targets: Target[] = [];
    for (const [name, [workers]] of Object.entries(TARGETS))
      targets.push(await startServers(name, workers));
    return targets;
  },
  steps: () =>
    BATCHES.map((rows) => ({
      name: `batches of ${rows} rows`,
      warmSeconds: 5,
      measure: async (target, seconds) => ({ [`${rows}`]: await book(target, rows, seconds) }),
    })),
  note: () =>
    `${WRITERS} writers book rows of ${COMPANIES} companies, each batch in a transaction of its own. All servers and writers share the cores, so rates say little about machines of their own. Postgres 15 with Citus 13.2.2; 8 shards; fsync off.`,
  table: (results) => [
    ...BATCHES.map((batch) => {
      const rows = Object.entries(TARGETS).map(
        ([name, [, label]]) => [label, `${batch}`, name] as const,
      );
      return figures(results, `batches of ${batch} rows`, rows, {
        'CPU µs per row': spreads('cpu'),
        'of the coordinator': spreads('first'),
        'of the workers': spreads('workers'),
        'rows/s': spreads('rate'),
      });
    }),
    conclusion(results),
  ],
};

/** What follows for a very large fleet. */
function conclusion(results: SectionResults): string {
  const batch = `${BATCHES.at(-1)}`;
  const cores = (name: string, kind = 'cpu') => median(reading(results, batch, name, kind));
  return `A million rows a second, in batches of ${batch}, take ${cores('none')} cores of Postgres in cells, each a server of its own, and ${cores('two')} spread over two workers, ${cores('two', 'first')} of them on the coordinator.`;
}

/** @returns a target whose address is that of the server which gateways write to, and whose first process is that server */
async function startServers(name: string, workers: number): Promise<Target> {
  const ends: (() => unknown)[] = [];
  const life = { teardown: (end: () => unknown) => void ends.unshift(end) };
  const cluster = await startCitus(life as Parameters<typeof startCitus>[0], workers);
  const servers = [cluster.coordinator, ...cluster.workers];
  await onEach(
    servers.map(({ url }) => url),
    (sql) => sql`create database bench`,
  );
  const urls = servers.map(({ url }) => inDatabase(url, 'bench'));
  const baseUrl = urls[0] as string;
  if (workers > 0) await spreadTables(urls);
  else {
    const db = openDatabase({ url: baseUrl, maxConnections: 1 });
    await migrate(db, { billingTimezone: 'UTC' });
    await db.close();
  }
  const pids: number[] = [];
  for (const { sql } of servers) {
    const [row] = await sql<[{ pid: number }]>`select pg_backend_pid() as pid`;
    pids.push(parentOf(row.pid));
  }
  const stop = async (): Promise<void> => {
    for (const end of ends) await end();
  };
  return { ...NOTHING, name, baseUrl, pids, stop };
}

/** Books batches for so many seconds. @returns CPU microseconds per row of all servers, of the first and of the others */
async function book({ baseUrl, pids }: Target, rows: number, seconds: number) {
  const before = pids.map(serverMicros);
  const began = performance.now();
  const until = began + seconds * 1000;
  const counts = await Promise.all(
    Array.from({ length: WRITERS }, () => bookBatches(baseUrl, rows, COMPANIES, until)),
  );
  const took = (performance.now() - began) / 1000;
  const count = sum(counts);
  const [first = 0, ...others] = pids.map(
    (pid, i) => (serverMicros(pid) - (before[i] as number)) / count,
  );
  return { cpu: first + sum(others), first, workers: sum(others), rate: count / took };
}

const sum = (values: readonly number[]): number =>
  values.reduce((total, value) => total + value, 0);
