import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import type { FleetFigures } from './fleet.ts';

/**
 * From measured costs to a plan for a rate nobody can try out here: a small queueing simulation
 * of a replica's event loop and of the Postgres behind a cell of replicas.
 *
 *   node bench/plan.ts [--rate 1000000] [--companies 100000] …
 *
 * A cell is one Postgres with the replicas and the companies that belong to it. Cells share
 * nothing; the balancer tells them apart by the prefix of the key (KEY_PREFIX).
 */
export type Measured = { [K in 'replicas' | 'polls' | 'connections']: NonNullable<FleetFigures[K]> } & Pick<
  FleetFigures,
  'rows' | 'walBytesPerRow' | 'diskBytesPerRow'
>;

/** What is assumed, not measured. */
export interface Assumptions {
  /** Requests per second of the whole fleet. */
  readonly rate: number;
  /** Companies sending at once, all alike. */
  readonly companies: number;
  /** How long a request may wait for a replica's event loop, p99, in milliseconds. */
  readonly waitMs: number;
  /** How busy a replica may be, how many requests it may have open (MAX_REQUESTS), and how few of them make a cell: one may die. */
  readonly replicaBusy: number;
  readonly open: number;
  readonly leastReplicas: number;
  /** How long a row may take from its request to its commit, p99, in milliseconds: budgets hold to within a second. */
  readonly lagMs: number;
  /** Most cores a Postgres may have, and how much of them may be busy. */
  readonly databaseCores: number;
  readonly databaseBusy: number;
  /** What a commit waits for disk and standby, in milliseconds. */
  readonly commitMs: number;
  /** Bytes of a request and its answer together, heads included, on one side of the gateway. */
  readonly bytes: number;
  /** How long the upstream takes; it decides how many requests are open. */
  readonly upstreamSeconds: number;
  /** Memory of an open request. */
  readonly openBytes: number;
}

export const ASSUMED: Assumptions = {
  rate: 1_000_000,
  companies: 100_000,
  waitMs: 5,
  replicaBusy: 0.6,
  open: 15_000,
  leastReplicas: 3,
  lagMs: 500,
  databaseCores: 32,
  databaseBusy: 0.6,
  commitMs: 2,
  bytes: 3072,
  upstreamSeconds: 2,
  openBytes: 40_960,
};

export interface Plan {
  readonly assumed: Assumptions;
  readonly cells: number;
  readonly replicasPerCell: number;
  readonly replicaRate: number;
  readonly replicaBusy: number;
  readonly waitMs: number;
  readonly rowsPerSecond: number;
  /** Cores of a cell's Postgres, and how busy they are. */
  readonly databaseCores: number;
  readonly databaseBusy: number;
  readonly lagMs: number;
  readonly changedPerPoll: number;
}

const SEED = 20_261_121;
const FLUSH_MS = 100;
const SPEND_MS = 250;
const CHANGES_MS = 500;
const MOST_ROWS = 2000; // in one batch
const ARRIVALS = 80_000; // of one run
const LEAST_CORES = 4; // of a Postgres

/**
 * The number of cells that takes the fewest cores, of those that keep every bound: in large
 * cells replicas spend their time on each other's figures, small ones are many databases.
 * @throws Error when no number keeps the bounds
 */
export function makePlan(measured: Measured, assumed: Assumptions = ASSUMED): Plan {
  let best: Plan | null = null;
  for (let cells = 1; cells <= 4096; cells = Math.max(cells + 1, Math.floor(cells * 1.2))) {
    if (best !== null && cells * LEAST_CORES > coresOf(best)) break;
    const plan = tryPlan(measured, assumed, cells);
    if (plan !== null && (best === null || coresOf(plan) < coresOf(best))) best = plan;
  }
  if (best === null) throw new Error('no number of cells keeps the bounds');
  return best;
}

function coresOf({ cells, replicasPerCell, databaseCores }: Plan): number {
  return cells * (replicasPerCell + databaseCores);
}

function tryPlan(measured: Measured, assumed: Assumptions, cells: number): Plan | null {
  const cellRate = assumed.rate / cells;
  const rowMicros = costOfRow(measured);
  if ((cellRate * rowMicros) / 1e6 > assumed.databaseCores * assumed.databaseBusy) return null; // rows alone
  const companies = assumed.companies / cells;
  const perCompany = assumed.rate / assumed.companies;
  const changed = companies * (1 - Math.exp((-perCompany * SPEND_MS) / 1000));
  const { micros: pollMicros, client: pollStall } = costOfPoll(measured, changed);
  const loop = {
    requestMicros: measured.replicas.flatOut,
    gcPauseMs: measured.replicas.gcPauseMs,
    gcEvery: measured.replicas.gcEvery,
    stallMs: pollStall / 1000,
    stallEveryMs: SPEND_MS,
  };
  const most = highestRate(loop, assumed);
  if (most === 0) return null;
  let replicas = Math.max(assumed.leastReplicas, Math.ceil(cellRate / most));
  let simulated = simulateLoop(loop, cellRate / replicas, ARRIVALS);
  for (; simulated.p99Ms > assumed.waitMs; simulated = simulateLoop(loop, cellRate / replicas, ARRIVALS)) replicas += 1;
  const { busy, p99Ms } = simulated;
  const work = {
    replicas,
    rowsPerReplica: cellRate / replicas,
    rowMicros,
    pollMicros,
    changesMicros: costOfPoll(measured, 0).micros,
    commitMs: assumed.commitMs,
  };
  const ample = simulateDatabase({ ...work, cores: assumed.databaseCores });
  if (ample.busy > assumed.databaseBusy) return null;
  const cores = Math.max(LEAST_CORES, Math.ceil((ample.busy * assumed.databaseCores) / assumed.databaseBusy));
  const database = simulateDatabase({ ...work, cores });
  if (database.busy > assumed.databaseBusy || database.lagMs > assumed.lagMs) return null;
  return {
    assumed,
    cells,
    replicasPerCell: replicas,
    replicaRate: cellRate / replicas,
    replicaBusy: busy,
    waitMs: p99Ms,
    rowsPerSecond: cellRate,
    databaseCores: cores,
    databaseBusy: database.busy,
    lagMs: database.lagMs,
    changedPerPoll: changed,
  };
}

/** CPU microseconds of Postgres per row, batches of a few hundred, several writers. */
function costOfRow({ rows }: Measured): number {
  const found = rows.find(({ writers, batch, companies }) => writers === 4 && batch === 200 && companies > 1);
  if (found === undefined) throw new Error('the cost of a ledger row has not been measured');
  return found.postgresMicros;
}

/** What a look at spend costs Postgres and the replica, in microseconds; linear in the figures that changed. */
function costOfPoll({ polls }: Measured, changed: number): { micros: number; client: number } {
  const [none, , many] = polls.spend;
  if (none === undefined || many === undefined) throw new Error('the cost of a poll has not been measured');
  const line = (at0: number, at: number): number => at0 + ((at - at0) / many.changed) * changed;
  return { micros: line(none.micros, many.micros), client: line(none.clientMicros, many.clientMicros) };
}

export interface Loop {
  /** CPU microseconds of a request: half when it comes, half when its answer does. */
  readonly requestMicros: number;
  /** The collector stops everything for so long, once in so many requests; 0 and Infinity for never. */
  readonly gcPauseMs: number;
  readonly gcEvery: number;
  /** Other work that nothing interrupts, and how often. */
  readonly stallMs: number;
  readonly stallEveryMs: number;
}

/** The highest rate that keeps a replica's bounds; 0 when pauses alone exceed them. */
function highestRate(loop: Loop, { waitMs, replicaBusy, open, upstreamSeconds }: Assumptions): number {
  const most = 1e6 / loop.requestMicros;
  let [low, high] = [0, Math.min(1, open / upstreamSeconds / most)];
  for (let n = 0; n < 9; n++) {
    const share = (low + high) / 2;
    const { p99Ms, busy } = simulateLoop(loop, most * share, ARRIVALS);
    if (p99Ms <= waitMs && busy <= replicaBusy) low = share;
    else high = share;
  }
  return most * low;
}

/**
 * One event loop: work arrives at random (Poisson), is done in order, takes from half to one and
 * a half times its mean.
 * @param rate requests per second
 * @returns waiting times in milliseconds, and the share of time the loop is busy
 */
export function simulateLoop(
  { requestMicros, gcPauseMs, gcEvery, stallMs, stallEveryMs }: Loop,
  rate: number,
  arrivals: number,
): { meanMs: number; p99Ms: number; busy: number } {
  const random = randomNumbers(SEED);
  const waits = new Float64Array(arrivals);
  const gap = 1000 / (2 * rate);
  const service = requestMicros / 2000;
  let now = 0;
  let free = 0; // when the loop has done all it has
  let busy = 0;
  let nextStall = stallMs > 0 ? stallEveryMs : Number.POSITIVE_INFINITY;
  for (let n = 0; n < arrivals; n++) {
    now -= Math.log(1 - random()) * gap;
    while (nextStall <= now) {
      free = Math.max(free, nextStall) + stallMs;
      busy += stallMs;
      nextStall += stallEveryMs;
    }
    waits[n] = Math.max(0, free - now);
    let work = service * (0.5 + random());
    if (gcPauseMs > 0 && random() < 1 / (2 * gcEvery)) work += gcPauseMs;
    free = Math.max(free, now) + work;
    busy += work;
  }
  const mean = waits.reduce((sum, wait) => sum + wait, 0) / arrivals;
  waits.sort();
  return { meanMs: mean, p99Ms: waits[Math.floor(arrivals * 0.99)] as number, busy: busy / Math.max(now, free) };
}

export interface DatabaseLoad {
  readonly replicas: number;
  /** Rows per second of each. */
  readonly rowsPerReplica: number;
  readonly rowMicros: number;
  /** CPU of a look at spend and of one at changes. */
  readonly pollMicros: number;
  readonly changesMicros: number;
  readonly commitMs: number;
  readonly cores: number;
}

/**
 * One Postgres under the batches and polls of its replicas, for 20 s. A replica writes a batch,
 * waits for its commit, looks at spend when it is time, rests, and writes again what has come:
 * slower answers make larger batches, not more of them.
 * @returns the share of its cores that is busy, and p99 of the time from a row's request to its commit
 */
export function simulateDatabase(load: DatabaseLoad): { busy: number; lagMs: number } {
  const random = randomNumbers(SEED);
  const END_MS = 20_000;
  const cores = new Float64Array(load.cores);
  let used = 0;
  const run = (at: number, micros: number): number => {
    let core = 0;
    for (let n = 1; n < cores.length; n++) if ((cores[n] as number) < (cores[core] as number)) core = n;
    const end = Math.max(at, cores[core] as number) + micros / 1000;
    cores[core] = end;
    used += micros / 1000;
    return end;
  };
  interface Event {
    at: number;
    replica: number;
    kind: 'write' | 'changes';
  }
  const queue = new Queue<Event>((a, b) => a.at - b.at);
  const from = new Float64Array(load.replicas); // the oldest row not yet written
  const polled = new Float64Array(load.replicas);
  const lags: number[] = [];
  for (let replica = 0; replica < load.replicas; replica++) {
    queue.push({ at: random() * FLUSH_MS, replica, kind: 'write' });
    queue.push({ at: random() * CHANGES_MS, replica, kind: 'changes' });
  }
  for (let event = queue.pop(); event !== undefined && event.at < END_MS; event = queue.pop()) {
    const { at, replica, kind } = event;
    if (kind === 'changes') {
      queue.push({ at: run(at, load.changesMicros) + CHANGES_MS, replica, kind });
      continue;
    }
    const oldest = from[replica] as number;
    const waiting = ((at - oldest) / 1000) * load.rowsPerReplica;
    const rows = Math.min(MOST_ROWS, waiting);
    const committed = run(at, rows * load.rowMicros) + load.commitMs;
    lags.push(committed - oldest);
    from[replica] = oldest + (rows / load.rowsPerReplica) * 1000;
    let next = committed;
    if (next - (polled[replica] as number) >= SPEND_MS) {
      polled[replica] = next;
      next = run(next, load.pollMicros);
    }
    queue.push({ at: next + (waiting > MOST_ROWS ? 0 : FLUSH_MS), replica, kind });
  }
  lags.sort((a, b) => a - b);
  return { busy: used / (END_MS * load.cores), lagMs: lags[Math.floor(lags.length * 0.99)] ?? 0 };
}

/** A binary heap. */
class Queue<T> {
  readonly #items: T[] = [];
  readonly #order: (a: T, b: T) => number;

  constructor(order: (a: T, b: T) => number) {
    this.#order = order;
  }

  push(item: T): void {
    const items = this.#items;
    let at = items.push(item) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (this.#order(items[parent] as T, item) <= 0) break;
      items[at] = items[parent] as T;
      at = parent;
    }
    items[at] = item;
  }

  pop(): T | undefined {
    const items = this.#items;
    const first = items[0];
    const last = items.pop() as T;
    if (items.length === 0) return first;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= items.length) break;
      if (child + 1 < items.length && this.#order(items[child + 1] as T, items[child] as T) < 0) child += 1;
      if (this.#order(last, items[child] as T) <= 0) break;
      items[at] = items[child] as T;
      at = child;
    }
    items[at] = last;
    return first;
  }
}

/** Mulberry32: the same numbers every time. */
function randomNumbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/** The plan as Markdown, with everything it rests on. */
export function describePlan(plan: Plan, measured: Measured): string {
  const { assumed, cells, replicasPerCell: perCell } = plan;
  const replicas = cells * perCell;
  const whole = (n: number): string => Math.round(n).toLocaleString('en');
  const open = plan.replicaRate * assumed.upstreamSeconds;
  const sessions = perCell * measured.connections.perReplica;
  const rowsPerMonth = assumed.rate * 86_400 * 30;
  const rows: [string, string, string][] = [
    ['cells (one Postgres each)', '1', whole(cells)],
    ['replicas', whole(perCell), whole(replicas)],
    ['requests per second', whole(plan.rowsPerSecond), whole(assumed.rate)],
    ['one replica', `${whole(plan.replicaRate)}/s, ${percent(plan.replicaBusy)} busy`, ''],
    ['wait for its event loop, p99', `${plan.waitMs.toFixed(1)} ms`, ''],
    [
      'cores of gateways, busy (each replica has one)',
      whole((plan.rowsPerSecond * measured.replicas.flatOut) / 1e6),
      whole((assumed.rate * measured.replicas.flatOut) / 1e6),
    ],
    [
      'cores of HAProxy',
      whole((plan.rowsPerSecond * measured.replicas.haproxy) / 1e6),
      whole((assumed.rate * measured.replicas.haproxy) / 1e6),
    ],
    [
      'cores of Postgres, busy',
      `${(plan.databaseBusy * plan.databaseCores).toFixed(1)} of ${plan.databaseCores}`,
      `${whole(plan.databaseBusy * plan.databaseCores * cells)} of ${whole(plan.databaseCores * cells)}`,
    ],
    ['request to committed row, p99', `${whole(plan.lagMs)} ms`, ''],
    ['figures in a look at spend', whole(plan.changedPerPoll), ''],
    ['connections to Postgres', whole(sessions), whole(sessions * cells)],
    ['their memory', gigabytes(sessions * measured.connections.bytesEach), ''],
    [
      'write-ahead log',
      `${((plan.rowsPerSecond * measured.walBytesPerRow) / 1e6).toFixed(0)} MB/s`,
      `${((assumed.rate * measured.walBytesPerRow) / 1e9).toFixed(1)} GB/s`,
    ],
    [
      'ledger on disk, 30 days',
      `${whole((rowsPerMonth / cells) * (measured.diskBytesPerRow / 1e12))} TB`,
      `${whole(rowsPerMonth * (measured.diskBytesPerRow / 1e12))} TB`,
    ],
    [
      'network of gateways, each way',
      `${((plan.rowsPerSecond * assumed.bytes * 8) / 1e9).toFixed(1)} Gbit/s`,
      `${((assumed.rate * assumed.bytes * 8) / 1e9).toFixed(0)} Gbit/s`,
    ],
    [
      'memory of gateways',
      gigabytes(perCell * (measured.replicas.idleBytes + open * assumed.openBytes)),
      gigabytes(replicas * (measured.replicas.idleBytes + open * assumed.openBytes)),
    ],
  ];
  return `## Plan for ${whole(assumed.rate)} requests per second

A simulation (bench/plan.ts) of a replica's event loop and of the Postgres of a cell, fed with the figures above: of all numbers of cells that keep the bounds, the one that takes the fewest cores. No such fleet was run.

| | a cell | all |
|---|---:|---:|
${rows.map((row) => `| ${row.join(' | ')} |`).join('\n')}

Assumed: ${whole(assumed.companies)} companies sending at once, all alike, evenly spread; non-streaming requests of ${whole(assumed.bytes)} bytes in and out together, arriving at random; an upstream that takes ${assumed.upstreamSeconds} s and is never the limit, so that ${whole(open)} requests are open in a replica, ${whole(assumed.openBytes / 1024)} KiB each; replicas at most ${percent(assumed.replicaBusy)} busy with at most ${whole(assumed.open)} requests open, at least ${assumed.leastReplicas} in a cell, so that one may die; a wait of ${assumed.waitMs} ms (p99) for the event loop; rows committed within ${assumed.lagMs} ms (p99); cores like this machine's; Postgres with at most ${assumed.databaseCores} of them, at most ${percent(assumed.databaseBusy)} busy, whose commits take ${assumed.commitMs} ms. A request costs what it costs a replica that is busy all the time; costs per row and per poll are taken to stay as measured on two cores: locks between writers of more cores, vacuum, checkpoints and replication are not in it, nor is a company much larger than the others, whose counters are one row that its writers take turns at.
`;
}

function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}

function gigabytes(bytes: number): string {
  return `${(bytes / 1e9).toFixed(bytes < 1e10 ? 1 : 0)} GB`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const measured = JSON.parse(readFileSync(new URL('fleet.json', import.meta.url), 'utf8')) as Measured;
  const names = Object.keys(ASSUMED) as (keyof Assumptions)[];
  const options = Object.fromEntries(names.map((name) => [name, { type: 'string' }] as const));
  const { values } = parseArgs({ options: options as Record<string, { type: 'string' }> });
  const given = Object.fromEntries(Object.entries(values).map(([name, text]) => [name, Number(text)]));
  const assumed = { ...ASSUMED, ...given };
  console.log(describePlan(makePlan(measured, assumed), measured));
}
