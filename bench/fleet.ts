import { type ChildProcess, execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs, promisify } from 'node:util';
import { openDatabase, type Sql } from '../src/store/database.ts';
import { ledgerStore } from '../src/store/ledger.ts';
import { childrenOf } from '../test/faults/server.ts';
import { type DatabaseServer, startDatabase } from './database.ts';
import { benchKey, INTERNAL_MODEL, SLUG } from './payload.ts';
import { gatewayEntry, gatewayEnvironment, NODE_FLAGS, startHelpers } from './peers.ts';
import { describePlan, makePlan } from './plan.ts';
import {
  canPin,
  cpuMicros,
  eventually,
  freePort,
  LOAD_CORES,
  pinSelf,
  residentBytes,
  sleep,
  startPinned,
  stop,
  TEST_CORES,
  which,
} from './process.ts';
import { describeMachine } from './results.ts';

const USAGE = `Measures what a fleet costs, and where one Postgres ends; rewrites fleet.json and FLEET.md in bench/.

  node bench/fleet.ts [options]

  --only PART   one of replicas, rows, polls, connections; may be repeated. Others keep their earlier figures
  --rounds N    interleaved rounds of the comparison of replicas (default 5)
  --seconds N   seconds of each measurement (default 4)
  --report      measure nothing, only write FLEET.md again
`;

/** Everything measured; plan.ts reads it. */
export interface FleetFigures {
  machine: string;
  taken: string;
  /** One replica against four on one Postgres, all behind HAProxy; medians over rounds. */
  replicas: {
    /** Requests per second each replica was given. */
    ratePerReplica: number;
    /** CPU microseconds per request of the gateway processes. */
    one: number;
    four: number;
    /** Quotient of four and one within each round, sorted. */
    quotients: number[];
    /** One replica given the load of four, and all it can take. */
    oneAtFour: number;
    flatOut: number;
    /** Postgres's and HAProxy's CPU microseconds per request, four replicas. */
    postgres: number;
    haproxy: number;
    p50: number;
    p99: number;
    /** Young-generation collections: mean pause in milliseconds, and requests between two. */
    gcPauseMs: number;
    gcEvery: number;
    idleBytes: number;
  } | null;
  /** Ledger rows into one Postgres; `writers` gateways at once, each with `batch` records a statement. */
  rows: { writers: number; batch: number; companies: number; rate: number; batchMs: number; postgresMicros: number }[];
  walBytesPerRow: number;
  diskBytesPerRow: number;
  /** What following costs Postgres: CPU microseconds per poll, and per figure that changed. */
  polls: { idleMicrosPerSecond: number; spend: { changed: number; micros: number; clientMicros: number }[] } | null;
  connections: { perReplica: number; bytesEach: number } | null;
}

const FOLDER = fileURLToPath(new URL('.', import.meta.url));
const FIGURES = join(FOLDER, 'fleet.json');
const PARTS = ['replicas', 'rows', 'polls', 'connections'] as const;

const { values } = parseArgs({
  options: {
    only: { type: 'string', multiple: true },
    rounds: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '4' },
    report: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});
if (values.help) {
  process.stdout.write(USAGE);
  process.exit(0);
}
const rounds = Number(values.rounds);
const seconds = Number(values.seconds);
let made = 0; // ledger records
process.setMaxListeners(64);
process.on('SIGINT', () => process.exit(130));
process.on('SIGTERM', () => process.exit(143));

const figures: FleetFigures = existsSync(FIGURES)
  ? JSON.parse(readFileSync(FIGURES, 'utf8'))
  : {
      machine: '',
      taken: '',
      replicas: null,
      rows: [],
      walBytesPerRow: 0,
      diskBytesPerRow: 0,
      polls: null,
      connections: null,
    };
if (!values.report) await measure(new Set(values.only ?? PARTS));
writeFileSync(join(FOLDER, 'FLEET.md'), report(figures));

async function measure(parts: ReadonlySet<string>): Promise<void> {
  if (process.platform !== 'linux') throw new Error('CPU time is read from /proc: this needs Linux');
  pinSelf();
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-fleet-'));
  process.once('exit', () => rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 }));
  const server = await startDatabase(folder);
  figures.machine = `${describeMachine(canPin)}, ${server.version}`;
  figures.taken = new Date().toISOString().slice(0, 10);
  try {
    if (parts.has('replicas') || parts.has('connections') || parts.has('polls')) await gateways(server, folder, parts);
    if (parts.has('rows')) await rows(server);
    if (parts.has('polls')) await spendPolls(server);
  } finally {
    writeFileSync(FIGURES, `${JSON.stringify(figures, null, 2)}\n`);
    await server.stop();
  }
}

interface Gateway {
  readonly port: number;
  readonly pid: number;
  readonly output: string;
  readonly child: ChildProcess;
}

async function gateways(server: DatabaseServer, folder: string, parts: ReadonlySet<string>): Promise<void> {
  const haproxy = which('haproxy');
  if (haproxy === null) throw new Error('haproxy is not installed');
  const helpers = await startHelpers();
  const databaseUrl = await server.seeded({ companies: 200, ledgerRows: 0 });
  const around = { folder, upstreamPort: helpers.upstreamPort, databaseUrl };
  const fleet: Gateway[] = [];
  for (let n = 0; n < 4; n++) fleet.push(await startGateway(around, n));
  const [one, four] = [await freePort(), await freePort()];
  const config = join(folder, 'fleet.cfg');
  writeFileSync(
    config,
    haproxyConfig([
      { port: one, fleet: fleet.slice(0, 1) },
      { port: four, fleet },
    ]),
  );
  const balancer = startPinned(LOAD_CORES, haproxy, ['-db', '-q', '-f', config], { stdio: 'ignore' });
  const db = openDatabase({ url: databaseUrl, maxConnections: 1 });
  const database = await serverPid(db.run.bind(db));
  try {
    await eventually('haproxy does not listen', 10, () => reach(four));
    const rate = 400;
    let answered = 0;
    const run = async (port: number, perSecond: number, members: readonly Gateway[], duration: number) => {
      const before = [cpuOf(members), postgresMicros(database), cpuMicros(balancer.pid as number)] as const;
      const result = await load(port, perSecond, duration);
      answered += result.done;
      const after = [cpuOf(members), postgresMicros(database), cpuMicros(balancer.pid as number)] as const;
      const [gateway = 0, postgres = 0, proxy = 0] = after.map(
        (micros, i) => (micros - (before[i] as number)) / result.done,
      );
      return { ...result, gateway, postgres, proxy };
    };
    if (parts.has('replicas')) {
      say('warming');
      // V8 goes on optimising a gateway for some 50,000 requests
      for (const each of fleet) await run(each.port, 0, [each], 10);
      const measured: {
        one: number;
        four: number;
        oneAtFour: number;
        flatOut: number;
        postgres: number;
        haproxy: number;
        p50: number;
        p99: number;
      }[] = [];
      for (let round = 0; round < rounds; round++) {
        const single = await run(one, rate, fleet.slice(0, 1), seconds);
        const all = await run(four, rate * 4, fleet, seconds);
        const busy = await run(one, rate * 4, fleet.slice(0, 1), seconds);
        const flat = await run(one, 0, fleet.slice(0, 1), seconds);
        measured.push({
          one: single.gateway,
          four: all.gateway,
          oneAtFour: busy.gateway,
          flatOut: flat.gateway,
          postgres: all.postgres,
          haproxy: all.proxy,
          p50: all.p50,
          p99: all.p99,
        });
        say(
          `round ${round + 1}: one ${single.gateway.toFixed(1)} µs, four ${all.gateway.toFixed(1)} µs, one at four times the rate ${busy.gateway.toFixed(1)} µs, flat out ${flat.gateway.toFixed(1)} µs`,
        );
      }
      const middle = (name: keyof (typeof measured)[number]) => median(measured.map((each) => each[name]));
      figures.replicas = {
        ratePerReplica: rate,
        one: middle('one'),
        four: middle('four'),
        quotients: measured.map((each) => each.four / each.one).sort((a, b) => a - b),
        oneAtFour: middle('oneAtFour'),
        flatOut: middle('flatOut'),
        postgres: middle('postgres'),
        haproxy: middle('haproxy'),
        p50: middle('p50'),
        p99: middle('p99'),
        ...collections(fleet, answered),
        idleBytes: median(fleet.map(({ pid }) => residentBytes(pid))),
      };
    }
    if (parts.has('connections')) {
      await run(four, 400, fleet, 2);
      const sessions = await db.run(
        5000,
        (sql) => sql<{ pid: number }[]>`
        select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`,
      );
      const bytes = sessions.map(({ pid }) => privateBytes(pid));
      figures.connections = { perReplica: sessions.length / fleet.length, bytesEach: median(bytes) };
      say(`connections: ${sessions.length} of four replicas, ${(median(bytes) / 1e6).toFixed(1)} MB of their own each`);
    }
    if (parts.has('polls')) {
      await sleep(2000);
      const before = postgresMicros(database);
      await sleep(5000);
      const idleMicrosPerSecond = (postgresMicros(database) - before) / 5 / fleet.length;
      figures.polls = { idleMicrosPerSecond, spend: figures.polls?.spend ?? [] };
      say(`polls: an idle replica costs Postgres ${(idleMicrosPerSecond / 1000).toFixed(2)} ms of CPU a second`);
    }
  } finally {
    await db.close();
    await stop(balancer);
    await Promise.all(fleet.map(({ child }) => stop(child)));
    await helpers.stop();
  }
}

async function startGateway(
  around: { folder: string; upstreamPort: number; databaseUrl: string },
  n: number,
): Promise<Gateway> {
  const port = await freePort();
  const folder = join(around.folder, `replica-${n}`);
  mkdirSync(folder, { recursive: true });
  const output = join(folder, 'output');
  const log = openSync(output, 'a');
  // its log lines go to /dev/null, the collector's lines into the file
  const child = startPinned(TEST_CORES, process.execPath, [...NODE_FLAGS, '--trace-gc', gatewayEntry(), 'serve'], {
    stdio: ['ignore', log, 'ignore'],
    // on a busy machine the load shedder would answer some requests itself
    env: { ...(await gatewayEnvironment(around, folder, port)), MAX_DELAY_MS: '60000' },
  });
  await eventually(
    'a gateway does not listen',
    20,
    () => reach(port),
    () => child.exitCode !== null,
  );
  return { port, pid: child.pid as number, output, child };
}

function haproxyConfig(groups: readonly { port: number; fleet: readonly Gateway[] }[]): string {
  const parts = groups.map(
    ({ port, fleet }, i) => `listen group${i}
  bind 127.0.0.1:${port} backlog 4096
  balance leastconn
  http-reuse always
${fleet.map((gateway, n) => `  server replica${n} 127.0.0.1:${gateway.port} pool-max-conn 4096`).join('\n')}
`,
  );
  return `global
  nbthread 1
  maxconn 8000
defaults
  mode http
  timeout connect 5s
  timeout client 300s
  timeout server 300s
  option http-no-delay
${parts.join('')}`;
}

interface Loaded {
  readonly done: number;
  /** Milliseconds. */
  readonly p50: number;
  readonly p99: number;
}

/** Requests at a fixed rate, whatever the answers do; 0: 16 at a time, each followed by the next. */
async function load(port: number, rate: number, duration: number): Promise<Loaded> {
  const args = [join(FOLDER, 'load.ts'), '--base-url', `http://127.0.0.1:${port}/v1`, '--model', SLUG, '--json'];
  const { stdout } = await promisify(execFile)(
    'taskset',
    [
      '-c',
      LOAD_CORES,
      process.execPath,
      ...args,
      ...(rate > 0 ? ['--rate', `${rate}`] : []),
      '--duration',
      `${duration}`,
    ],
    { env: { ...process.env, LOAD_KEY: benchKey(0) } },
  );
  const { requests } = JSON.parse(stdout);
  if (Object.keys(requests.errors).length > 0) throw new Error(`requests failed: ${JSON.stringify(requests.errors)}`);
  return { done: requests.done, p50: requests.p50, p99: requests.p99 };
}

/** @param requests all that the fleet has answered */
function collections(fleet: readonly Gateway[], requests: number): { gcPauseMs: number; gcEvery: number } {
  let pauses = 0;
  let milliseconds = 0;
  for (const { output } of fleet) {
    for (const [, ms] of readFileSync(output, 'utf8').matchAll(/Scavenge.*?MB, (?:pooled: [\d.]+ MB, )?([\d.]+) \//g)) {
      pauses += 1;
      milliseconds += Number(ms);
    }
  }
  return { gcPauseMs: pauses === 0 ? 0 : milliseconds / pauses, gcEvery: pauses === 0 ? requests : requests / pauses };
}

/** Rows a second into Postgres by several writers at once, as gateways write them. */
async function rows(server: DatabaseServer): Promise<void> {
  figures.rows = [];
  for (const companies of [1000, 1]) {
    for (const [writers, batch] of [
      [1, 200],
      [1, 2000],
      [4, 200],
      [4, 2000],
      [8, 2000],
    ] as const) {
      const url = await server.seeded({ companies: 1, ledgerRows: 0 });
      const dbs = Array.from({ length: writers }, () => openDatabase({ url, maxConnections: 1 }));
      const [first] = dbs as [ReturnType<typeof openDatabase>];
      const database = await serverPid(first.run.bind(first));
      const ids = Array.from({ length: companies }, () => [randomUUID(), randomUUID()] as const);
      const log = async () => {
        const [row] = await first.run(
          5000,
          (sql) => sql<[{ lsn: string; disk: string }]>`
          select pg_current_wal_lsn() - '0/0' as lsn, (select sum(pg_total_relation_size(c.oid)) from pg_class c
            where relkind = 'r' and (relname like 'api_usage%' or relname = 'ledger_seals')) as disk`,
        );
        return [Number(row.lsn), Number(row.disk)] as const;
      };
      const before = postgresMicros(database);
      const [walBefore, diskBefore] = await log();
      const began = performance.now();
      let done = 0;
      const times: number[] = [];
      await Promise.all(
        dbs.map(async (db) => {
          const store = ledgerStore(db);
          const writer = randomUUID();
          while (performance.now() - began < seconds * 1000) {
            const records = Array.from({ length: batch }, (_, n) =>
              record(ids[(done + n) % companies] as readonly [string, string]),
            );
            const at = performance.now();
            await store.insert(writer, Buffer.from(`[${records.join(',')}]`), null);
            times.push(performance.now() - at);
            done += batch;
          }
        }),
      );
      const rate = done / ((performance.now() - began) / 1000);
      const micros = (postgresMicros(database) - before) / done;
      const [walAfter, diskAfter] = await log();
      if (companies > 1 && batch === 200 && writers === 4) {
        figures.walBytesPerRow = (walAfter - walBefore) / done;
        figures.diskBytesPerRow = (diskAfter - diskBefore) / done;
      }
      figures.rows.push({ writers, batch, companies, rate, batchMs: median(times), postgresMicros: micros });
      say(
        `rows: ${writers} writers, ${batch} a batch, ${companies} companies: ${Math.round(rate)}/s, ${micros.toFixed(1)} µs of Postgres each`,
      );
      await Promise.all(dbs.map((db) => db.close()));
      await server.drop(url);
    }
  }
}

function record([company, key]: readonly [string, string]): string {
  const n = made++;
  const [prompt, completion] = [200 + (n % 100), 100 + (n % 50)];
  const at = new Date();
  return JSON.stringify({
    billing_month: `${at.toISOString().slice(0, 7)}-01`,
    request_id: randomUUID(),
    company_id: company,
    api_key_id: key,
    model_slug: SLUG,
    upstream_model: INTERNAL_MODEL,
    endpoint: 'chat.completions',
    prompt_tokens: prompt,
    completion_tokens: completion,
    cost_eur: ((prompt * 5 + completion * 15) / 1e7).toFixed(7),
    price_input: '0.0005',
    price_output: '0.0015',
    usage_source: 'upstream',
    outcome: 'completed',
    occurred_at: at.toISOString(),
  });
}

/** What one look at changed spend costs Postgres, by how many figures changed. */
async function spendPolls(server: DatabaseServer): Promise<void> {
  const spend: { changed: number; micros: number; clientMicros: number }[] = [];
  for (const changed of [0, 1000, 10_000]) {
    const url = await server.seeded({ companies: 1, ledgerRows: 0 });
    const db = openDatabase({ url, maxConnections: 1 });
    await db.run(
      60_000,
      (sql) => sql`
      insert into monthly_spend (company_id, billing_month)
      select gen_random_uuid(), date_trunc('month', now())::date from generate_series(1, 20000)`,
    );
    await db.run(60_000, (sql) => sql`vacuum analyze monthly_spend`);
    const store = ledgerStore(db);
    const { cursor } = await store.changedSpend(null);
    if (changed > 0) {
      await db.run(
        60_000,
        (sql) => sql`
        update monthly_spend set requests = 1, changed_xid = pg_current_xact_id()
        where company_id in (select company_id from monthly_spend limit ${changed})`,
      );
    }
    const database = await serverPid(db.run.bind(db));
    const polls = changed > 1000 ? 40 : 400;
    for (let n = 0; n < 5; n++) await store.changedSpend(cursor);
    const before = postgresMicros(database);
    const own = process.cpuUsage();
    for (let n = 0; n < polls; n++) await store.changedSpend(cursor);
    const micros = (postgresMicros(database) - before) / polls;
    const used = process.cpuUsage(own);
    const clientMicros = (used.user + used.system) / polls;
    spend.push({ changed, micros, clientMicros });
    say(
      `polls: ${changed} figures changed: ${micros.toFixed(0)} µs of Postgres, ${clientMicros.toFixed(0)} of the replica`,
    );
    await db.close();
    await server.drop(url);
  }
  figures.polls = { idleMicrosPerSecond: figures.polls?.idleMicrosPerSecond ?? 0, spend };
}

type Run = <T>(deadlineMs: number, work: (sql: Sql) => PromiseLike<T>) => Promise<T>;

/** The server's own process, from a session on this machine. */
async function serverPid(run: Run): Promise<number> {
  const [row] = await run(5000, (sql) => sql<[{ pid: number }]>`select pg_backend_pid() as pid`);
  return Number(/^PPid:\s+(\d+)/m.exec(readFileSync(`/proc/${row.pid}/status`, 'latin1'))?.[1]);
}

/** CPU time of the server and all its processes that live. */
function postgresMicros(server: number): number {
  return [server, ...childrenOf(server)].reduce((sum, pid) => sum + micros(pid), 0);
}

function cpuOf(members: readonly Gateway[]): number {
  return members.reduce((sum, { pid }) => sum + micros(pid), 0);
}

function micros(pid: number): number {
  try {
    return cpuMicros(pid);
  } catch {
    return 0; // it has just ended
  }
}

/** Memory a session has for itself alone. */
function privateBytes(pid: number): number {
  const text = readFileSync(`/proc/${pid}/smaps_rollup`, 'latin1');
  const kilobytes = [...text.matchAll(/^Private_\w+:\s+(\d+) kB/gm)].reduce((sum, [, kb]) => sum + Number(kb), 0);
  return kilobytes * 1024;
}

function reach(port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: '127.0.0.1' }, () => {
      socket.destroy();
      resolve();
    });
    socket.on('error', reject);
  });
}

function median(numbers: readonly number[]): number {
  return [...numbers].sort((a, b) => a - b)[numbers.length >> 1] as number;
}

function say(text: string): void {
  process.stderr.write(`${text}\n`);
}

function report({
  machine,
  taken,
  replicas,
  rows,
  walBytesPerRow,
  diskBytesPerRow,
  polls,
  connections,
}: FleetFigures): string {
  const parts = [
    `# A fleet, and where one Postgres ends\n\nWritten by \`node bench/fleet.ts\` on ${machine}, ${taken}; do not edit. Replicas share core 0; load, upstream, HAProxy and Postgres share the rest.\n`,
  ];
  if (replicas !== null) {
    const { quotients } = replicas;
    parts.push(`## Four replicas behind HAProxy on one Postgres

| ${replicas.ratePerReplica} requests a second each | CPU µs per request |
|---|---:|
| one replica | ${replicas.one.toFixed(1)} |
| four replicas | ${replicas.four.toFixed(1)} |
| quotient within each round | ${median(quotients).toFixed(2)} (${(quotients[0] as number).toFixed(2)}–${(quotients.at(-1) as number).toFixed(2)}) |
| one replica, given the load of four | ${replicas.oneAtFour.toFixed(1)} |
| one replica, given all it can take | ${replicas.flatOut.toFixed(1)} |
| HAProxy | ${replicas.haproxy.toFixed(1)} |
| Postgres | ${replicas.postgres.toFixed(1)} |

Four replicas answer in ${replicas.p50.toFixed(2)} ms (p50) and ${replicas.p99.toFixed(2)} ms (p99), load generator, HAProxy and upstream included.
`);
  }
  if (rows.length > 0) {
    parts.push(`## Ledger rows into one Postgres

Batches as gateways write them: rows, seals, counters by month and by day, one transaction, flushed to disk. ${Math.round(walBytesPerRow)} bytes of write-ahead log and ${Math.round(diskBytesPerRow)} bytes of table and index per row.

| companies | writers | rows a batch | rows/s | ms per batch | Postgres CPU µs per row |
|---:|---:|---:|---:|---:|---:|
${rows.map((row) => `| ${row.companies} | ${row.writers} | ${row.batch} | ${Math.round(row.rate).toLocaleString('en')} | ${row.batchMs.toFixed(1)} | ${row.postgresMicros.toFixed(1)} |`).join('\n')}
`);
  }
  if (polls !== null) {
    parts.push(`## What following costs Postgres

An idle replica costs ${(polls.idleMicrosPerSecond / 1000).toFixed(2)} ms of CPU a second (one look at changes and spend 1.3 times a second). A look at spend:

| figures that changed since the last look | Postgres CPU µs | replica CPU µs |
|---:|---:|---:|
${polls.spend.map((look) => `| ${look.changed.toLocaleString('en')} | ${look.micros.toFixed(0)} | ${look.clientMicros.toFixed(0)} |`).join('\n')}
`);
  }
  if (connections !== null) {
    parts.push(
      `A serving replica holds ${connections.perReplica} connections (two for queries, one to listen; up to six more while somebody is in the administration area), each ${(connections.bytesEach / 1e6).toFixed(1)} MB of the server's memory.\n`,
    );
  }
  if (replicas !== null && polls !== null && polls.spend.length > 0 && connections !== null && rows.length > 0) {
    const measured = { replicas, rows, walBytesPerRow, diskBytesPerRow, polls, connections };
    parts.push(describePlan(makePlan(measured), measured));
  }
  return `${parts.join('\n')}`;
}
