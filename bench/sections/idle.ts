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
        const used = (): number[] => [cpuMicros(pids), server.cpuMicros()];
        const before = used();
        await sleep(seconds * LONGER * 1000);
        const [cpu, postgres] = used().map(
          (micros, i) => (micros - (before[i] as number)) / 1000 / seconds / LONGER,
        );
        return { idle: { cpu: cpu as number, postgres: postgres as number } };
      },
    },
  ],
  ownTime: true,
  note: ({ seconds }) =>
    `${seconds * LONGER} s, a minute after the start. The other programs of the benchmark are at rest too. Caches of the processor are cold at each poll.`,
  table: (results) => [
    figureTable(results, 'idle', {
      cpu: 'gateway, ms of CPU a second',
      postgres: 'Postgres, ms of CPU a second',
    }),
  ],
  goals: (results) => [
    goal('CPU a second at rest', 2, 1.5, reading(results, 'idle', 'gateway'), { unit: 'ms' }),
  ],
};
