import { mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import { reading } from '../results.ts';
import type { Section } from '../run/rounds.ts';
import { runProgram } from '../run/targets.ts';
import { figureTable, goal } from '../tables.ts';

const KINDS: Readonly<Record<string, string>> = {
  cpu: 'gateway CPU per ledger row at 10,000 rows/s, µs',
  share: 'what one request pays before its answer may end, spool included, µs',
  rate: 'rows/s into Postgres when they wait in line, until committed',
};

/** The ledger alone, in a process of its own: bench/programs/ledger.ts. */
export const metering: Section = {
  heading: 'Metering',
  steps: ({ server, folder, seconds, quick }) => [
    {
      name: 'ledger',
      async measure() {
        const env = {
          DATABASE_URL: await server.seeded({ companies: 100 }),
          SPOOL_DIR: mkdtempSync(join(folder, 'spool-')),
        };
        // V8 still optimises now and then: in fewer seconds that would be much of a row
        const least = quick ? 1 : 10;
        return {
          ledger: await runProgram('ledger.ts', { ...env, SECONDS: `${Math.max(least, seconds)}` }),
        };
      },
    },
  ],
  ownTime: true,
  note: () =>
    'A round has 20 s to warm up, 15 of them with ten times as many writes so that V8 has optimised all of it; then 10 s with metering, alternating with as many without.',
  table: (results) => [figureTable(results, 'ledger', KINDS)],
  goals: (results) => {
    const measured = (kind: string) => reading(results, 'ledger', 'gateway', kind);
    return [
      goal('gateway CPU per ledger row', 5, 3, measured('cpu'), { unit: 'µs' }),
      goal('ledger rows/s into local Postgres', 10_000, 20_000, measured('rate'), {
        unit: '/s',
        rising: true,
      }),
    ];
  },
};
