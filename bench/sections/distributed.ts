import { randomUUID } from 'node:crypto';
import { newRequestId } from '../../src/runtime/request-id.ts';
import { openDatabase } from '../../src/store/database.ts';
import { ledgerStore } from '../../src/store/ledger.ts';
import { migrate } from '../../src/store/migrate.ts';
import { missing, startCitus } from '../../test/fleet/citus.ts';
import type { Cluster } from '../../test/fleet/cluster.ts';
import { onEach, spread as spreadTables } from '../../test/support/distributed.ts';
import { inDatabase } from '../../test/support/postgres.ts';
import { reading, type SectionResults } from '../results.ts';
import { parentOf, serverMicros } from '../run/process.ts';
import type { Section } from '../run/rounds.ts';
import { NOTHING, type Target } from '../run/targets.ts';
import { number, spread, table } from '../tables.ts';

const COMPANIES = 1000;
const WRITERS = 4;
const BATCHES = [200, 1000] as const;
/** Name of a target → workers, label. */
const TARGETS: Readonly<Record<string, readonly [workers: number, label: string]>> = {
  none: [0, 'one server'],
  one: [1, 'a coordinator and one worker'],
  two: [2, 'a coordinator and two workers'],
};

interface Servers extends Target {
  /** Of the server that gateways write to, and of the others. */
  readonly first: Cluster;
  readonly workers: readonly Cluster[];
}

/** Ledger rows into one server, and into the same tables spread over several. */
export const distributed: Section = {
  heading: 'A ledger spread over several servers',
  async start() {
    if (missing.length > 0) throw new Error(`not installed: ${missing.join(', ')}`);
    const targets: Servers[] = [];
    for (const [name, [workers]] of Object.entries(TARGETS)) targets.push(await startServers(name, workers));
    return targets;
  },
  steps: ({ quick }) =>
    BATCHES.map((rows) => ({
      name: `batches of ${rows} rows`,
      warmSeconds: quick ? 0 : 5,
      measure: async (target, seconds) => ({ [`${rows}`]: await book(target as Servers, rows, seconds) }),
    })),
  note: () =>
    `${WRITERS} writers book rows of ${COMPANIES} companies, each batch in a transaction of its own, as gateways do. All servers share the cores with each other and with the writers, so rates say little about machines of their own; CPU is counted for each server's processes alone. Postgres 15 with Citus 13.2.2, built from source; 8 shards; fsync off.`,
  table: (results) => `${tablesOf(results)}\n\n${conclusion(results)}`,
};

function tablesOf(results: SectionResults): string {
  return BATCHES.map((rows) => {
    const cells = Object.entries(TARGETS).map(([name, [, label]]) => [
      label,
      ...['cpu', 'first', 'workers', 'rate'].map((kind) => spread(reading(results, `${rows}`, name, kind))),
    ]);
    const head = [`batches of ${rows} rows`, 'CPU µs per row', 'of the coordinator', 'of the workers', 'rows/s'];
    return table(head, cells);
  }).join('\n\n');
}

/** What follows for a very large fleet. */
function conclusion(results: SectionResults): string {
  const cores = (name: string, kind = 'cpu') => number(reading(results, `${BATCHES.at(-1)}`, name, kind)?.median ?? 0);
  return `A million rows a second, in batches of ${BATCHES.at(-1)}, take ${cores('none')} cores of Postgres in cells, each a server of its own, and ${cores('two')} spread over two workers, ${cores('two', 'first')} of them on the coordinator.`;
}

async function startServers(name: string, workers: number): Promise<Servers> {
  const ends: (() => unknown)[] = [];
  const life = { teardown: (end: () => unknown) => void ends.unshift(end) };
  const { coordinator, workers: others } = await startCitus(life as Parameters<typeof startCitus>[0], workers);
  const urls = [coordinator, ...others].map(({ url }) => url);
  await onEach(urls, (sql) => sql`create database bench`);
  const spreadUrls = urls.map((url) => inDatabase(url, 'bench'));
  if (workers > 0) await spreadTables(spreadUrls);
  else {
    const db = openDatabase({ url: spreadUrls[0] as string, maxConnections: 1 });
    await migrate(db, { billingTimezone: 'UTC' });
    await db.close();
  }
  return {
    name,
    baseUrl: spreadUrls[0] as string,
    headers: {},
    pids: [],
    first: coordinator,
    workers: others,
    probe: NOTHING.probe,
    tidy() {},
    async stop() {
      for (const end of ends) await end();
    },
  };
}

/** Books batches for so many seconds. @returns CPU microseconds per row of all servers, of the first and of the others */
async function book({ baseUrl, first, workers }: Servers, rows: number, seconds: number) {
  const before = [await cpuOf([first]), await cpuOf(workers)] as const;
  const began = performance.now();
  const until = began + seconds * 1000;
  const counts = await Promise.all(Array.from({ length: WRITERS }, () => write(baseUrl, rows, until)));
  const took = (performance.now() - began) / 1000;
  const count = counts.reduce((sum, each) => sum + each, 0);
  const ofFirst = ((await cpuOf([first])) - before[0]) / count;
  const ofWorkers = ((await cpuOf(workers)) - before[1]) / count;
  return { cpu: ofFirst + ofWorkers, first: ofFirst, workers: ofWorkers, rate: count / took };
}

/** One gateway's writer. @returns rows */
async function write(url: string, rows: number, until: number): Promise<number> {
  const db = openDatabase({ url, maxConnections: 1 });
  const writer = randomUUID();
  let count = 0;
  try {
    for (; performance.now() < until; count += rows) await ledgerStore(db).insert(writer, batchOf(rows), null);
  } finally {
    await db.close();
  }
  return count;
}

function batchOf(rows: number): Buffer {
  const now = new Date();
  const month = `${now.toISOString().slice(0, 7)}-01`;
  const records = Array.from({ length: rows }, () => {
    const company = Math.floor(Math.random() * COMPANIES);
    const id = `00000000-0000-4000-8000-${`${company}`.padStart(12, '0')}`;
    return {
      billing_month: month,
      request_id: newRequestId(),
      company_id: id,
      api_key_id: id,
      model_slug: 'fast',
      upstream_model: 'internal-fast',
      endpoint: 'chat.completions',
      prompt_tokens: 200,
      completion_tokens: 100,
      cost_eur: '0.00025',
      price_input: '0.0005',
      price_output: '0.0015',
      usage_source: 'upstream',
      outcome: 'completed',
      occurred_at: now.toISOString(),
    };
  });
  return Buffer.from(JSON.stringify(records));
}

async function cpuOf(clusters: readonly Cluster[]): Promise<number> {
  let micros = 0;
  for (const { sql } of clusters) {
    const [row] = await sql<[{ pid: number }]>`select pg_backend_pid() as pid`;
    micros += serverMicros(parentOf(row.pid));
  }
  return micros;
}
