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
  /** Milliseconds that a look at spend may hold a replica's event loop. */
  stallMs: 4,
  /** Share of time that a replica may be busy. */
  replicaBusy: 0.5,
  /** Requests that a replica may have open (MAX_REQUESTS). */
  open: 15_000,
  /** Replicas of a cell at least: one may die. */
  leastReplicas: 3,
  /** Milliseconds from a request to its committed row at most: budgets hold to within a second. */
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

const FLUSH_MS = 100; // a replica's rest between two batches
const SPEND_MS = 250; // and between two looks at spend
const CHANGES_MS = 500; // and between two looks at changes
const MOST_ROWS = 2000; // in one batch
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
  for (let cells = 1; cells <= CELLS; cells++) {
    const plan = tryPlan(measured, assumed, cells);
    if (plan !== null && (best === null || cores(plan) < cores(best))) best = plan;
  }
  if (best === null) throw new Error('no number of cells keeps the bounds');
  return best;
}

function tryPlan(measured: Measured, assumed: Assumptions, cells: number) {
  const rate = assumed.rate / cells;
  const perCompany = assumed.rate / assumed.companies;
  const changed = (assumed.companies / cells) * (1 - Math.exp((-perCompany * SPEND_MS) / 1000));
  const [stallMs, pollMs] = costOfPoll(measured, changed);
  const requestMs = measured.replicas.flatOut / 1000;
  const most = Math.min(
    ((assumed.replicaBusy - stallMs / SPEND_MS) / requestMs) * 1000,
    assumed.open / assumed.upstreamSeconds,
  );
  if (stallMs > assumed.stallMs || most <= 0) return null;
  const replicas = Math.max(assumed.leastReplicas, Math.ceil(rate / most));
  const replicaRate = rate / replicas;
  // of a replica: shares of time in which Postgres works on its rows, its looks at spend and at changes
  const row = measured.rows.find(({ writers, batch, companies }) => writers === 4 && batch === 200 && companies > 1);
  const rows = (replicaRate * (row?.postgresMicros ?? Number.NaN)) / 1e6;
  const looks = pollMs / SPEND_MS;
  const changes = costOfPoll(measured, 0)[1] / CHANGES_MS;
  const used = replicas * (rows + looks + changes);
  const databaseCores = Math.max(LEAST_CORES, Math.ceil(used / assumed.databaseBusy));
  // a replica writes a batch, waits for its commit, looks at spend when it is time, rests, and writes again
  const cycleMs = (FLUSH_MS + assumed.commitMs) / (1 - rows - looks);
  const lagMs = cycleMs * (1 + rows) + assumed.commitMs;
  if (rows + looks >= 1 || (cycleMs / 1000) * replicaRate > MOST_ROWS || lagMs > assumed.lagMs) return null;
  if (!(databaseCores <= assumed.databaseCores)) return null;
  return {
    assumed,
    cells,
    /** Of a cell: replicas, requests per second, figures that change between two looks at spend. */
    replicas,
    rate,
    changed,
    /** Of a replica: requests per second, share of time that it is busy, what a look at spend takes. */
    replicaRate,
    replicaBusy: (replicaRate * requestMs) / 1000 + stallMs / SPEND_MS,
    stallMs,
    /** Of a cell's Postgres: cores, how many of them are busy, the longest time from a request to its committed row. */
    databaseCores,
    coresBusy: used,
    lagMs,
  };
}

/** Milliseconds of CPU of the replica and of Postgres for a look at spend; linear in the figures that changed. */
function costOfPoll({ polls }: Measured, changed: number): [replica: number, postgres: number] {
  const [none, , many] = polls.spend;
  if (none === undefined || many === undefined) throw new Error('the cost of a poll has not been measured');
  const line = (at0: number, at: number): number => (at0 + ((at - at0) / many.changed) * changed) / 1000;
  return [line(none.clientMicros, many.clientMicros), line(none.micros, many.micros)];
}

/** The plan as Markdown, with everything that it rests on. */
export function describePlan(plan: Plan, measured: Measured): string {
  const { assumed, cells, rate, replicaRate, coresBusy, databaseCores } = plan;
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
  const cores = (perSecond: number, micros: number): string => whole((perSecond * micros) / 1e6);
  const rows = [
    ['cells (one Postgres each)', '1', whole(cells)],
    ['replicas', whole(plan.replicas), whole(plan.replicas * cells)],
    ['requests per second', whole(rate), whole(assumed.rate)],
    ['one replica', `${whole(replicaRate)}/s, ${percent(plan.replicaBusy)} busy`, ''],
    ['its event loop held by a look at spend', `${plan.stallMs.toFixed(1)} ms`, ''],
    [
      'cores of gateways, busy (each replica has one)',
      cores(rate, replicas.flatOut),
      cores(assumed.rate, replicas.flatOut),
    ],
    ['cores of HAProxy', cores(rate, replicas.haproxy), cores(assumed.rate, replicas.haproxy)],
    [
      'cores of Postgres, busy',
      `${coresBusy.toFixed(1)} of ${databaseCores}`,
      `${whole(coresBusy * cells)} of ${whole(databaseCores * cells)}`,
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

Calculated from the figures above (bench/fleet/plan.ts): of all numbers of cells that keep the bounds, the one that takes the fewest cores. No such fleet was run.

${table(['', 'a cell', 'all'], rows)}

Assumed: ${whole(assumed.companies)} companies that send at once, all alike, evenly spread; non-streaming requests of ${whole(assumed.bytes)} bytes in and out together, arriving at random; an upstream that takes ${assumed.upstreamSeconds} s and is never the limit, so that ${whole(open)} requests are open in a replica, ${whole(assumed.openBytes / 1024)} KiB each; replicas at most ${percent(assumed.replicaBusy)} busy with at most ${whole(assumed.open)} requests open, at least ${assumed.leastReplicas} in a cell, so that one may die; an event loop held for at most ${assumed.stallMs} ms by a look at spend; rows committed within ${assumed.lagMs} ms; cores like this machine's; Postgres with at most ${assumed.databaseCores} of them, at most ${percent(assumed.databaseBusy)} busy, whose commits take ${assumed.commitMs} ms. A request costs what it costs a replica that is busy all the time; costs per row and per poll are taken to stay as measured on two cores. Left out are queues before a replica's event loop and before the cores of Postgres, locks between writers of more cores, vacuum, checkpoints and replication, and a company much larger than the others, whose counters are one row that its writers take turns at.`;
}
