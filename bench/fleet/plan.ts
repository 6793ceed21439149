import { table } from '../tables.ts';
import type { Figures } from './figures.ts';

/** What a plan needs to have been measured. */
export type Measured = { [K in 'replicas' | 'polls' | 'connections']: NonNullable<Figures[K]> } & Pick<
  Figures,
  'rows' | 'walBytesPerRow' | 'diskBytesPerRow'
>;

/** What is assumed, not measured. */
export const ASSUMED = {
  /** Requests per second of the whole fleet. */
  rate: 1_000_000,
  /** Companies that send at once, all alike. */
  companies: 100_000,
  /** Milliseconds that a request may wait for a replica's event loop, p99. */
  waitMs: 5,
  /** Share of time that a replica may be busy. */
  replicaBusy: 0.6,
  /** Requests that a replica may have open (MAX_REQUESTS). */
  open: 15_000,
  /** Replicas of a cell at least: one may die. */
  leastReplicas: 3,
  /** Milliseconds from a request to its committed row, p99: budgets hold to within a second. */
  lagMs: 500,
  /** Cores of a Postgres at most, and the share of them that may be busy. */
  databaseCores: 32,
  databaseBusy: 0.6,
  /** What a commit waits for disk and standby. */
  commitMs: 2,
  /** Of a request and its answer together, heads included, on one side of the gateway. */
  bytes: 3072,
  /** How long the upstream takes; it decides how many requests are open. */
  upstreamSeconds: 2,
  /** Memory of an open request. */
  openBytes: 40_960,
};
export type Assumptions = Readonly<typeof ASSUMED>;

const SEED = 20_261_121;
const FLUSH_MS = 100; // a replica's rest between two batches
const SPEND_MS = 250; // and between two looks at spend
const CHANGES_MS = 500; // and between two looks at changes
const MOST_ROWS = 2000; // in one batch
const ARRIVALS = 80_000; // of one simulation
const LEAST_CORES = 4; // of a Postgres
const CELLS = 4096; // at most

export type Plan = NonNullable<ReturnType<typeof tryPlan>>;

/**
 * A plan for a rate that nobody can try out here, from measured costs. A cell is one Postgres with the replicas and
 * companies that belong to it; cells share nothing. In large cells replicas spend their time on each other's
 * figures, small ones are many databases: of all numbers of cells that keep the bounds, this takes the fewest cores.
 * @throws Error when no number keeps the bounds
 */
export function makePlan(measured: Measured, assumed: Assumptions = ASSUMED): Plan {
  let best: Plan | null = null;
  const cores = ({ cells, replicas, databaseCores }: Plan): number => cells * (replicas + databaseCores);
  for (let cells = 1; cells <= CELLS; cells = Math.max(cells + 1, Math.floor(cells * 1.2))) {
    if (best !== null && cells * LEAST_CORES > cores(best)) break;
    const plan = tryPlan(measured, assumed, cells);
    if (plan !== null && (best === null || cores(plan) < cores(best))) best = plan;
  }
  if (best === null) throw new Error('no number of cells keeps the bounds');
  return best;
}

function tryPlan(measured: Measured, assumed: Assumptions, cells: number) {
  const { flatOut, gcPauseMs, gcEvery } = measured.replicas;
  const rate = assumed.rate / cells;
  const row = measured.rows.find(({ writers, batch, companies }) => writers === 4 && batch === 200 && companies > 1);
  const rowMicros = row?.postgresMicros ?? Number.NaN;
  if ((rate * rowMicros) / 1e6 > assumed.databaseCores * assumed.databaseBusy) return null; // rows alone
  const perCompany = assumed.rate / assumed.companies;
  const changed = (assumed.companies / cells) * (1 - Math.exp((-perCompany * SPEND_MS) / 1000));
  const poll = costOfPoll(measured, changed);
  const stallMs = poll.client / 1000;
  const loop = { requestMicros: flatOut, gcPauseMs, gcEvery, stallMs, stallEveryMs: SPEND_MS };
  const most = highestRate(loop, assumed);
  if (most === 0) return null;
  let replicas = Math.max(assumed.leastReplicas, Math.ceil(rate / most));
  let simulated = simulateLoop(loop, rate / replicas, ARRIVALS);
  for (; simulated.p99Ms > assumed.waitMs; simulated = simulateLoop(loop, rate / replicas, ARRIVALS)) replicas += 1;
  const load = {
    replicas,
    rowsPerReplica: rate / replicas,
    rowMicros,
    pollMicros: poll.micros,
    changesMicros: costOfPoll(measured, 0).micros,
    commitMs: assumed.commitMs,
  };
  const { busy } = databaseUnder({ ...load, cores: 1 });
  const cores = Math.max(LEAST_CORES, Math.ceil(busy / assumed.databaseBusy));
  const { lagMs } = databaseUnder({ ...load, cores });
  if (cores > assumed.databaseCores || lagMs > assumed.lagMs) return null;
  return {
    assumed,
    cells,
    /** Replicas of a cell, requests per second of all of them and of one, and the share of time that one is busy. */
    replicas,
    rate,
    replicaRate: rate / replicas,
    replicaBusy: simulated.busy,
    waitMs: simulated.p99Ms,
    /** Cores of a cell's Postgres, and the share of them that is busy. */
    databaseCores: cores,
    databaseBusy: busy / cores,
    lagMs,
    changed,
  };
}

/** CPU microseconds of Postgres and of the replica for a look at spend; linear in the figures that changed. */
function costOfPoll({ polls }: Measured, changed: number): { micros: number; client: number } {
  const [none, , many] = polls.spend;
  if (none === undefined || many === undefined) throw new Error('the cost of a poll has not been measured');
  const line = (at0: number, at: number): number => at0 + ((at - at0) / many.changed) * changed;
  return { micros: line(none.micros, many.micros), client: line(none.clientMicros, many.clientMicros) };
}

export interface Loop {
  /** CPU microseconds of a request: half when it comes, half when its answer does. */
  readonly requestMicros: number;
  /** A collection stops everything for so long, once in so many requests; 0 and Infinity for never. */
  readonly gcPauseMs: number;
  readonly gcEvery: number;
  /** Other work that nothing interrupts, and how often it comes. */
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
 * Simulates one event loop: work arrives at random (Poisson), is done in order, takes half to one and a half times
 * its mean.
 * @param rate requests per second
 * @returns waiting times, and the share of time that the loop is busy
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
  let free = 0; // when the loop will have done all its work
  let busy = 0;
  let nextStall = stallMs > 0 ? stallEveryMs : Number.POSITIVE_INFINITY;
  for (let n = 0; n < arrivals; n++) {
    now -= Math.log(1 - random()) * gap;
    for (; nextStall <= now; nextStall += stallEveryMs) {
      free = Math.max(free, nextStall) + stallMs;
      busy += stallMs;
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
 * One Postgres under the batches and polls of its replicas. A replica writes a batch, waits for its commit, looks at
 * spend when it is time, rests, and writes again what has come. Waiting for a free core is left out.
 * @returns the share of its cores that is busy, and the longest time from a row's request to its commit; Infinity
 *   when rows come faster than a replica can write them
 */
export function databaseUnder(load: DatabaseLoad): { busy: number; lagMs: number } {
  const { replicas, rowsPerReplica, rowMicros, pollMicros, changesMicros, commitMs, cores } = load;
  const perReplica = rowsPerReplica * rowMicros + (pollMicros / SPEND_MS + changesMicros / CHANGES_MS) * 1000;
  const busy = (replicas * perReplica) / 1e6 / cores;
  // shares of the time between two batches that go to the rows of one and to looks at spend
  const rows = (rowsPerReplica * rowMicros) / 1e6;
  const looks = pollMicros / 1000 / SPEND_MS;
  const cycleMs = (FLUSH_MS + commitMs) / (1 - rows - looks);
  const full = rows + looks >= 1 || busy >= 1 || (cycleMs / 1000) * rowsPerReplica > MOST_ROWS;
  return { busy, lagMs: full ? Number.POSITIVE_INFINITY : cycleMs * (1 + rows) + commitMs };
}

/** The plan as Markdown, with everything that it rests on. */
export function describePlan(plan: Plan, measured: Measured): string {
  const { assumed, cells, rate, replicaRate, databaseBusy, databaseCores } = plan;
  const { replicas, connections, walBytesPerRow, diskBytesPerRow } = measured;
  const whole = (n: number): string => Math.round(n).toLocaleString('en');
  const percent = (share: number): string => `${Math.round(share * 100)} %`;
  const gigabytes = (bytes: number): string => `${(bytes / 1e9).toFixed(bytes < 1e10 ? 1 : 0)} GB`;
  const gigabits = (perSecond: number): string => `${((perSecond * assumed.bytes * 8) / 1e9).toFixed(1)} Gbit/s`;
  const log = (perSecond: number): string => `${((perSecond * walBytesPerRow) / 1e9).toFixed(2)} GB/s`;
  const disk = (perSecond: number): string => `${whole((perSecond * 86_400 * 30 * diskBytesPerRow) / 1e12)} TB`;
  const open = replicaRate * assumed.upstreamSeconds;
  const memory = plan.replicas * (replicas.idleBytes + open * assumed.openBytes);
  const sessions = plan.replicas * connections.perReplica;
  const used = databaseBusy * databaseCores;
  const cores = (perSecond: number, micros: number): string => whole((perSecond * micros) / 1e6);
  const rows = [
    ['cells (one Postgres each)', '1', whole(cells)],
    ['replicas', whole(plan.replicas), whole(plan.replicas * cells)],
    ['requests per second', whole(rate), whole(assumed.rate)],
    ['one replica', `${whole(replicaRate)}/s, ${percent(plan.replicaBusy)} busy`, ''],
    ['wait for its event loop, p99', `${plan.waitMs.toFixed(1)} ms`, ''],
    [
      'cores of gateways, busy (each replica has one)',
      cores(rate, replicas.flatOut),
      cores(assumed.rate, replicas.flatOut),
    ],
    ['cores of HAProxy', cores(rate, replicas.haproxy), cores(assumed.rate, replicas.haproxy)],
    [
      'cores of Postgres, busy',
      `${used.toFixed(1)} of ${databaseCores}`,
      `${whole(used * cells)} of ${whole(databaseCores * cells)}`,
    ],
    ['request to committed row, longest', `${whole(plan.lagMs)} ms`, ''],
    ['figures in a look at spend', whole(plan.changed), ''],
    ['connections to Postgres', whole(sessions), whole(sessions * cells)],
    ['their memory', gigabytes(sessions * connections.bytesEach), ''],
    ['write-ahead log', log(rate), log(assumed.rate)],
    ['ledger on disk, 30 days', disk(rate), disk(assumed.rate)],
    ['network of gateways, each way', gigabits(rate), gigabits(assumed.rate)],
    ['memory of gateways', gigabytes(memory), gigabytes(memory * cells)],
  ];
  return `## Plan for ${whole(assumed.rate)} requests per second

Calculated from the figures above: a simulation of a replica's event loop, and the time that the Postgres of a cell needs for batches and polls (bench/fleet/plan.ts). Of all numbers of cells that keep the bounds, the one that takes the fewest cores. No such fleet was run.

${table(['', 'a cell', 'all'], rows)}

Assumed: ${whole(assumed.companies)} companies that send at once, all alike, evenly spread; non-streaming requests of ${whole(assumed.bytes)} bytes in and out together, arriving at random; an upstream that takes ${assumed.upstreamSeconds} s and is never the limit, so that ${whole(open)} requests are open in a replica, ${whole(assumed.openBytes / 1024)} KiB each; replicas at most ${percent(assumed.replicaBusy)} busy with at most ${whole(assumed.open)} requests open, at least ${assumed.leastReplicas} in a cell, so that one may die; a wait of ${assumed.waitMs} ms (p99) for the event loop; rows committed within ${assumed.lagMs} ms; cores like this machine's; Postgres with at most ${assumed.databaseCores} of them, at most ${percent(assumed.databaseBusy)} busy, whose commits take ${assumed.commitMs} ms. A request costs what it costs a replica that is busy all the time; costs per row and per poll are taken to stay as measured on two cores. Left out are waiting for a free core of Postgres, locks between writers of more cores, vacuum, checkpoints and replication, and a company much larger than the others, whose counters are one row that its writers take turns at.`;
}
