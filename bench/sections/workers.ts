import { childrenOf } from '../../test/faults/server.ts';
import { ALL_CORES } from '../run/process.ts';
import { loadOf, underLoad } from '../run/rig.ts';
import type { Section } from '../run/rounds.ts';
import { PATIENT, startGateway, type Target } from '../run/targets.ts';
import { figures, MEDIANS, medians, ratioTo, spreads } from '../tables.ts';

const WORKER_RATE = 500; // requests per second for each worker
const WORKER_CONNECTIONS = 32; // for each worker
const WORKERS: Readonly<Record<string, number>> = { one: 1, two: 2 };

/** Measured once, to choose between them: what WORKERS does, and why. */
export const WAYS_TO_SHARE =
  '## Ways to share a port\n\nWorkers get their connections by `child.send` (2026-11-29): with `reusePort`, 64 connections over 4 workers are spread worse than 2 : 1 in a fifth of all cases, and a worker that stops to listen resets what waits in its queue. It costs twice the CPU for each new connection, 1,283 µs in place of 589 on busy cores.';

/** A gateway with two workers, beside one with a single process, on the same cores as their load. */
export const workers: Section = {
  heading: 'Two workers behind one port',
  async start(bench) {
    const targets: Target[] = [];
    for (const [name, count] of Object.entries(WORKERS)) {
      const env = { WORKERS: String(count), ...PATIENT };
      const gateway = await startGateway(bench, { name, flags: [], env, cores: ALL_CORES });
      const pids = gateway.pids.flatMap((pid) => [pid, ...childrenOf(pid)]);
      if (pids.length !== (count > 1 ? count + 1 : 1))
        throw new Error(`${name} has ${pids.length} processes`);
      targets.push({ ...gateway, pids });
    }
    return targets;
  },
  steps: ({ rig }) => {
    const step = (name: string, rate: number) => ({
      name,
      warmSeconds: 10, // V8 goes on optimising a gateway for some 50,000 requests
      async measure(target: Target, seconds: number) {
        const count = WORKERS[target.name] as number;
        const load = loadOf(target, WORKER_CONNECTIONS * count, { rate: rate * count });
        const { perRequest, whole } = await underLoad(rig, target, load, seconds);
        return { [name]: { ...perRequest, p50: whole.p50, p99: whole.p99 } };
      },
    });
    return [step('paced', WORKER_RATE), step('closed', 0)];
  },
  note: () =>
    'Gateways, load, router and Postgres share the cores. CPU is that of all processes of a gateway, the supervisor included.',
  table: (results) => {
    const labels: Readonly<Record<string, string>> = {
      paced: `${WORKER_RATE} requests a second for each worker`,
      closed: `${WORKER_CONNECTIONS} connections for each worker, each request followed by the next`,
    };
    const rows = Object.entries(labels).flatMap(([series, label]) =>
      Object.entries(WORKERS).map(([name, count]) => {
        return [
          `${count === 1 ? 'one process' : `${count} workers`}, ${label}`,
          series,
          name,
        ] as const;
      }),
    );
    return [
      figures(results, 'load', rows, {
        'CPU µs per request': spreads('cpu'),
        '÷ one process': ratioTo('one'),
        'requests a second': medians('rate'),
        ...MEDIANS,
      }),
    ];
  },
};
