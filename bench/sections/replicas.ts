import { setTimeout as sleep } from 'node:timers/promises';
import { reading } from '../results.ts';
import type { DatabaseServer } from '../run/database.ts';
import { LOAD_CORES } from '../run/process.ts';
import { loadOf, underLoad } from '../run/rig.ts';
import type { Section } from '../run/rounds.ts';
import { PATIENT, startGateway, startHaproxy, type Target } from '../run/targets.ts';
import { figures, MEDIANS, median, medians, ratioTo, spreads } from '../tables.ts';

const REPLICAS = 4;
const REPLICA_RATE = 400; // requests per second for each replica
const REPLICA_CONNECTIONS = 16;
const WARM_SECONDS = 10; // V8 goes on optimising a gateway for some 50,000 requests
const IDLE_SECONDS = 5;
const LOOK_MS = 1000; // at whether Postgres rests, which is when it uses 3 % of a core
const REST_MICROS = 30_000;
/** Name → requests per second (0: 16 at a time, each followed by the next), label. */
const LOADS: Readonly<Record<string, readonly [rate: number, label: string]>> = {
  one: [REPLICA_RATE, `one replica, ${REPLICA_RATE} requests a second`],
  four: [REPLICA_RATE * REPLICAS, `four replicas, ${REPLICA_RATE} requests a second each`],
  oneAtFour: [REPLICA_RATE * REPLICAS, 'one replica, given the load of four'],
  all: [0, 'one replica, given all it can take'],
};

/** Four gateways behind HAProxy on one Postgres, beside one of them alone. */
export const replicas: Section = {
  heading: 'Four replicas behind HAProxy on one Postgres',
  async start(bench) {
    const gateways: Target[] = [];
    for (let n = 0; n < REPLICAS; n++) {
      const gateway = await startGateway(bench, { name: `replica-${n}`, flags: [], env: PATIENT });
      gateways.push(gateway);
      bench.say(`warming up ${gateway.name}`);
      await underLoad(
        bench.rig,
        gateway,
        loadOf(gateway, REPLICA_CONNECTIONS),
        bench.quick ? 0.2 : WARM_SECONDS,
      );
    }
    const ports = gateways.map(({ baseUrl }) => Number(new URL(baseUrl).port));
    const single = await startHaproxy(bench, ports.slice(0, 1), LOAD_CORES);
    const balanced = await startHaproxy(bench, ports, LOAD_CORES);
    if (typeof single === 'string' || typeof balanced === 'string')
      throw new Error('HAProxy is not installed');
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
        const load = loadOf(target, REPLICA_CONNECTIONS, { rate: LOADS[target.name]?.[0] ?? 0 });
        const before = server.cpuMicros();
        const { perRequest, whole } = await underLoad(rig, target, load, seconds);
        // after a rush Postgres has a backlog of rows to book
        while ((await usedWithin(server, LOOK_MS)) > REST_MICROS);
        const postgres = (server.cpuMicros() - before) / whole.done;
        return { replicas: { cpu: perRequest.cpu, postgres, p50: whole.p50, p99: whole.p99 } };
      },
    },
    {
      name: 'idle',
      async measure(target) {
        if (target.name !== 'four') return {};
        const seconds = quick ? 0.2 : IDLE_SECONDS;
        return {
          idle: {
            postgres: (await usedWithin(server, seconds * 1000)) / 1000 / seconds / REPLICAS,
          },
        };
      },
    },
  ],
  note: () =>
    'Replicas share core 0; load, router, HAProxy and Postgres share the rest. All four poll Postgres in each row.',
  table: (results) => {
    const rows = Object.entries(LOADS).map(
      ([name, [, label]]) => [label, 'replicas', name] as const,
    );
    const idle = median(reading(results, 'idle', 'four', 'postgres'));
    return [
      figures(results, 'load', rows, {
        'gateway CPU µs per request': spreads('cpu'),
        '÷ one replica': ratioTo('one'),
        'Postgres CPU µs per request': medians('postgres'),
        ...MEDIANS,
      }),
      `An idle replica costs Postgres ${idle} ms of CPU a second.`,
    ];
  },
};

/** CPU microseconds that Postgres uses within some time. */
async function usedWithin(server: DatabaseServer, ms: number): Promise<number> {
  const before = server.cpuMicros();
  await sleep(ms);
  return server.cpuMicros() - before;
}
