import type { Section } from '../run/rounds.ts';
import { runProgram } from '../run/targets.ts';
import { figures, spreads } from '../tables.ts';

/** The readers of streams and JSON alone, in a process of their own: bench/programs/scanner.ts. */
export const scanner: Section = {
  heading: 'Byte machines alone',
  steps: () => [
    {
      name: 'scanner',
      async measure() {
        const nanos = Object.entries(await runProgram('scanner.ts'));
        return Object.fromEntries(nanos.map(([what, nanos]) => [what, { nanos }]));
      },
    },
  ],
  ownTime: true,
  note: () => 'The best of eight stretches of 50 ms.',
  table: (results) => {
    const rows = Object.keys(results.series).map((what) => [what, what, 'gateway'] as const);
    return [figures(results, 'what', rows, { ns: spreads('nanos') })];
  },
};
