import { reading } from '../results.ts';
import type { Section } from '../run/rounds.ts';
import { runProgram } from '../run/targets.ts';
import { spread, table } from '../tables.ts';

/** The readers of streams and JSON alone, in a process of their own: bench/programs/scanner.ts. */
export const scanner: Section = {
  heading: 'Byte machines alone',
  steps: () => [
    {
      name: 'scanner',
      async measure() {
        const figures = Object.entries(await runProgram('scanner.ts'));
        return Object.fromEntries(figures.map(([what, nanos]) => [what, { nanos }]));
      },
    },
  ],
  ownTime: true,
  note: () => 'The best of eight stretches of 50 ms.',
  table: (results) =>
    table(
      ['what', 'ns'],
      Object.keys(results.series).map((what) => [what, spread(reading(results, what, 'gateway', 'nanos'))]),
    ),
};
