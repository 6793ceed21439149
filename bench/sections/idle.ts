import { setTimeout as sleep } from 'node:timers/promises';
import { reading } from '../results.ts';
import { cpuMicros } from '../run/process.ts';
import { type Section, startTargets } from '../run/rounds.ts';
import { figureTable, goal } from '../tables.ts';

const LONGER = 10; // than other figures are measured: half a second of polls says little

/** The gateway without requests, a minute after its start. */
export const idle: Section = {
  heading: 'At rest',
  start: (bench) => startTargets(bench, ['gateway', 'base']),
  steps: ({ server }) => [
    {
      name: 'idle',
      warmSeconds: 60 / LONGER,
      async measure({ pids }, seconds) {
        const [before, postgres] = [cpuMicros(pids), server.cpuMicros()];
        await sleep(seconds * LONGER * 1000);
        const perSecond = (micros: number): number => micros / 1000 / (seconds * LONGER);
        return {
          idle: { cpu: perSecond(cpuMicros(pids) - before), postgres: perSecond(server.cpuMicros() - postgres) },
        };
      },
    },
  ],
  ownTime: true,
  note: ({ seconds }) =>
    `${seconds * LONGER} s, a minute after the start. The other programs of the benchmark are at rest too. Caches of the processor are cold at each poll.`,
  table: (results) =>
    figureTable(results, 'idle', { cpu: 'gateway, ms of CPU a second', postgres: 'Postgres, ms of CPU a second' }),
  goals: (results) => [
    goal('CPU a second at rest', 2, 1.5, reading(results, 'idle', 'gateway', 'cpu'), { unit: 'ms' }),
  ],
};
