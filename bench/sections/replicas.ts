import { setTimeout as sleep } from 'node:timers/promises';
import { reading } from '../results.ts';
import type { DatabaseServer } from '../run/database.ts';
import { LOAD_CORES } from '../run/process.ts';
import { loadOf, underLoad } from '../run/rig.ts';
import type { Section } from '../run/rounds.ts';
import { startGateway, startHaproxy, type Target } from '../run/targets.ts';
import { figures, median, medians, ratioTo, spreads } from '../tables.ts';

const REPLICAS = 4;
const RATE = 400; // requests per second for each replica
const CONNECTIONS = 16;
const WARM_SECONDS = 10; // V8 goes on optimising a gateway for some 50,000 requests
const IDLE_SECONDS = 5;
const LOOK_MS = 1000; // at whether Postgres rests, which is when it uses 3 % of a core
const REST_MICROS = 30_000;
/** Name → requests per second (0: 16 at a time, each followed by the next), label. */
const LOADS: Readonly<Record<string, readonly [rate: number, label: string]>> = {
  one: [RATE, `one replica, ${RATE} requests a second`],
  four: [RATE * REPLICAS, `four replicas, ${RATE} requests a second each`],
  oneAtFour: [RATE * REPLICAS, 'one replica, given the load of four'],
  all: [0, 'one replica, given all it can take'],
};

/** Four gateways behind HAProxy on one Postgres, beside one of them alone. */
export const replicas: Section = {
  heading: 'Four replicas behind HAProxy on one Postgres',
  async start(bench) {
    const gateways: Target[] = [];
    for (let n = 0; n < REPLICAS; n++) {
      // on a busy machine the load shedder would answer some requests itself
      const gateway = await startGateway(bench, { name: `replica-${n}`, flags: [], env: { MAX_DELAY_MS: '60000' } });
      gateways.push(gateway);
      bench.say(`warming up ${gateway.name}`);
      await underLoad(bench.rig, gateway, loadOf(gateway, CONNECTIONS), bench.quick ? 0.2 : WARM_SECONDS);
    }
    const ports = gateways.map(({ baseUrl }) => Number(new URL(baseUrl).port));
    const single = await startHaproxy(bench, ports.slice(0, 1), LOAD_CORES);
    const balanced = await startHaproxy(bench, ports, LOAD_CORES);
    if (typeof single === 'string' || typeof balanced === 'string') throw new Error('HAProxy is not installed');
    const pids = gateways.flatMap((gateway) => gateway.pids);
    const one = { ...single, pids: pids.slice(0, 1), stop: () => Promise.resolve() };
    const stop = async (): Promise<void> => {
      await Promise.all([single, balanced, ...gateways].map((target) => target.stop()));
    };
    const four = { ...balanced, name: 'four', pids, stop };
    return [{ ...one, name: 'one' }, four, { ...one, name: 'oneAtFour' }, { ...one, name: 'all' }];
  },
  steps: ({ rig, server, quick }) => [
    {
      name: 'replicas',
      async measure(target, seconds) {
        const load = loadOf(target, CONNECTIONS, { rate: LOADS[target.name]?.[0] ?? 0 });
        const before = server.cpuMicros();
        const { perRequest, whole } = await underLoad(rig, target, load, seconds);
        await untilBooked(server);
        const postgres = (server.cpuMicros() - before) / whole.done;
        return { replicas: { cpu: perRequest.cpu, postgres, p50: whole.p50, p99: whole.p99 } };
      },
    },
    {
      name: 'idle',
      async measure(target) {
        if (target.name !== 'four') return {};
        const seconds = quick ? 0.2 : IDLE_SECONDS;
        const before = server.cpuMicros();
        await sleep(seconds * 1000);
        return { idle: { postgres: (server.cpuMicros() - before) / 1000 / seconds / REPLICAS } };
      },
    },
  ],
  note: () =>
    'Replicas share core 0; load, router, HAProxy and Postgres share the rest, and their time is in p50 and p99. All four poll Postgres in each row, which is part of its CPU.',
  table: (results) => {
    const rows = Object.entries(LOADS).map(([name, [, label]]) => [label, 'replicas', name] as const);
    const idle = median(reading(results, 'idle', 'four', 'postgres'));
    return [
      figures(results, 'load', rows, {
        'gateway CPU µs per request': spreads('cpu'),
        '÷ one replica': ratioTo('one'),
        'Postgres CPU µs per request': medians('postgres'),
        'p50 ms': medians('p50'),
        'p99 ms': medians('p99'),
      }),
      `An idle replica costs Postgres ${idle} ms of CPU a second.`,
    ];
  },
};

/** Waits until Postgres rests: after a rush it has a backlog of rows to book. */
async function untilBooked(server: DatabaseServer): Promise<void> {
  let used = Number.POSITIVE_INFINITY;
  while (used > REST_MICROS) {
    const before = server.cpuMicros();
    await sleep(LOOK_MS);
    used = server.cpuMicros() - before;
  }
}
