import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { openDatabase } from '../../src/store/database.ts';
import { spreadOf } from '../results.ts';
import type { DatabaseServer } from '../run/database.ts';
import {
  cpuMicros,
  freePort,
  LOAD_CORES,
  residentBytes,
  startPinned,
  stop,
  untilListening,
  which,
} from '../run/process.ts';
import { loadOf, startRig, underLoad } from '../run/rig.ts';
import { haproxyConfig, startGateway, type Target } from '../run/targets.ts';
import type { Figures } from './figures.ts';

const RATE = 400; // requests per second for each replica
const CONNECTIONS = 16;
const WARM_SECONDS = 10; // V8 goes on optimising a gateway for some 50,000 requests
const KINDS = ['one', 'four', 'oneAtFour', 'flatOut', 'postgres', 'haproxy', 'p50', 'p99'] as const;

export interface FleetBench {
  readonly server: DatabaseServer;
  /** A scratch folder. */
  readonly folder: string;
  readonly rounds: number;
  readonly seconds: number;
  readonly quick: boolean;
  say(text: string): void;
}

/** Measures four gateways behind HAProxy on one Postgres: CPU, collections, connections, and the cost of idling. */
export async function measureReplicas(
  bench: FleetBench,
): Promise<Pick<Figures, 'replicas' | 'connections'> & { idleMicrosPerSecond: number }> {
  const { server, folder, seconds, say } = bench;
  const haproxy = which('haproxy');
  if (haproxy === null) throw new Error('haproxy is not installed');
  const rig = await startRig();
  const databaseUrl = await server.seeded({ companies: 200 });
  const around = { folder, routerPort: rig.routerPort, databaseUrl, base: undefined };
  const fleet: Target[] = [];
  // on a busy machine the load shedder would answer some requests itself
  const options = { flags: [], env: { MAX_DELAY_MS: '60000' } };
  for (let n = 0; n < 4; n++) fleet.push(await startGateway(around, { name: `replica-${n}`, ...options }));
  const backends = fleet.map(({ baseUrl }) => ({ port: Number(new URL(baseUrl).port) }));
  const [single, all] = [await freePort(), await freePort()];
  const config = join(folder, 'fleet.cfg');
  const groups = [
    { port: single, backends: backends.slice(0, 1) },
    { port: all, backends },
  ];
  writeFileSync(config, haproxyConfig(groups));
  const balancer = startPinned(LOAD_CORES, haproxy, ['-db', '-q', '-f', config], { stdio: 'ignore' });
  const cpuOf = (members: readonly Target[]) => members.reduce((sum, { pid }) => sum + cpuMicros(pid), 0);
  /** @param rate requests per second; 0: 16 at a time, each followed by the next */
  const run = async (port: number, rate: number, members: readonly Target[], duration: number) => {
    const load = { ...loadOf({ baseUrl: `http://127.0.0.1:${port}/v1`, headers: {} }, CONNECTIONS), rate };
    const cpus = () => [cpuOf(members), server.cpuMicros(), cpuMicros(balancer.pid as number)];
    const window = await underLoad(rig, load, duration, cpus);
    const [gateway = 0, postgres = 0, proxy = 0] = window.cpus.map((micros) => micros / window.done);
    return { gateway, postgres, haproxy: proxy, p50: window.p50, p99: window.p99 };
  };
  try {
    await untilListening('haproxy', all, balancer);
    for (const [n, { port }] of backends.entries()) {
      say(`warming up replica ${n}`);
      await run(port, 0, fleet.slice(n, n + 1), bench.quick ? seconds : WARM_SECONDS);
    }
    const rounds: Record<(typeof KINDS)[number], number>[] = [];
    for (let round = 1; round <= bench.rounds; round++) {
      const { gateway: one } = await run(single, RATE, fleet.slice(0, 1), seconds);
      const { gateway: four, ...rest } = await run(all, RATE * 4, fleet, seconds);
      const { gateway: oneAtFour } = await run(single, RATE * 4, fleet.slice(0, 1), seconds);
      const { gateway: flatOut } = await run(single, 0, fleet.slice(0, 1), seconds);
      rounds.push({ one, four, oneAtFour, flatOut, ...rest });
      say(`round ${round}: ${JSON.stringify(rounds.at(-1))}`);
    }
    const medians = Object.fromEntries(KINDS.map((kind) => [kind, median(rounds.map((round) => round[kind]))]));
    const replicas = {
      ratePerReplica: RATE,
      ...(medians as Record<(typeof KINDS)[number], number>),
      quotients: rounds.map(({ one, four }) => four / one).sort((a, b) => a - b),
      idleBytes: median(fleet.map(({ pid }) => residentBytes(pid))),
    };
    const connections = await sessions(databaseUrl, fleet.length);
    await sleep(2000);
    const before = server.cpuMicros();
    await sleep(5000);
    return { replicas, connections, idleMicrosPerSecond: (server.cpuMicros() - before) / 5 / fleet.length };
  } finally {
    await stop(balancer);
    await Promise.all(fleet.map((replica) => replica.stop()));
    await rig.stop();
  }
}

/** Connections of the fleet to a database, and the memory that each has for itself alone. */
async function sessions(url: string, replicas: number): Promise<{ perReplica: number; bytesEach: number }> {
  const db = openDatabase({ url, maxConnections: 1 });
  const found = await db.run(
    5000,
    (sql) => sql<{ pid: number }[]>`
      select pid from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`,
  );
  await db.close();
  const bytes = found.map(({ pid }) => {
    const text = readFileSync(`/proc/${pid}/smaps_rollup`, 'latin1');
    const parts = [...text.matchAll(/^Private_\w+:\s+(\d+) kB/gm)];
    return parts.reduce((sum, [, kilobytes]) => sum + Number(kilobytes) * 1024, 0);
  });
  return { perReplica: found.length / replicas, bytesEach: median(bytes) };
}

function median(values: readonly number[]): number {
  return spreadOf(values)?.median ?? 0;
}
