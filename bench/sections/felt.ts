import type { Test } from 'tap';
import { ACTS, type Act, endsOf, startScene } from '../../test/edge/felt.ts';
import { reading } from '../results.ts';
import type { Section } from '../run/rounds.ts';
import { figures, goal, spreads } from '../tables.ts';

/** As large as each may be; with --quick a quarter. */
const LARGEST = 1;
const QUICK = 0.25;
const SMALL = 'a small request';
const SLOWEST = 'the longest of all';

const nameOf = (act: Act): string => `${endsOf(act)[0]}: ${act.name}`;

/** What one company can make others feel: the longest turn of the event loop while it does one thing. */
export const felt: Section = {
  heading: 'What one company can make others feel',
  steps: ({ server, quick }) => [
    {
      name: 'turns',
      async measure() {
        const ends: (() => unknown)[] = [];
        const life = { teardown: (end: () => unknown) => void ends.push(end) } as Pick<
          Test,
          'teardown'
        >;
        try {
          const { smallRequest, feel } = await startScene(
            life,
            await server.seeded(),
            quick ? QUICK : LARGEST,
          );
          const found: Record<string, { ms: number }> = { [SMALL]: { ms: await smallRequest() } };
          for (const act of ACTS) found[nameOf(act)] = { ms: (await feel(act)).turn };
          const longest = Math.max(...Object.values(found).map(({ ms }) => ms));
          return { ...found, [SLOWEST]: { ms: longest } };
        } finally {
          for (const end of ends.reverse()) await end();
        }
      },
    },
  ],
  ownTime: true,
  note: () =>
    'CPU of the main thread in the longest turn of its event loop, to a millisecond, while the company does one thing as large as it may be. A small request is the least of six readings.',
  table: (results) => {
    const rows = [SMALL, ...ACTS.map(nameOf)].map((name) => [name, name, 'gateway'] as const);
    return [figures(results, 'what is done', rows, { 'longest turn, ms of CPU': spreads('ms') })];
  },
  goals: (results) => [
    goal(
      'longest turn that one company can cause',
      50,
      20,
      reading(results, SLOWEST, 'gateway', 'ms'),
      { unit: 'ms' },
    ),
  ],
};
