import { compared, reading } from '../results.ts';
import { loadOf, measureRequests } from '../run/rig.ts';
import { type Section, type Step, startTargets } from '../run/rounds.ts';
import { costCells, goal, LABELS, table, targetsOf } from '../tables.ts';

/** Size in bytes and connections of each body. */
const SIZES = {
  '16 KiB': [16 * 1024, 16],
  '1 MiB': [1024 * 1024, 4],
  '20 MiB': [20 * 1024 * 1024, 2],
} as const;
const KINDS = ['text', 'image'] as const;
const SERIES = Object.entries(SIZES).flatMap(([size, [bytes, connections]]) =>
  KINDS.map((kind) => ({ name: `${size} ${kind}`, body: { bytes, image: kind === 'image' }, connections })),
);

/** Bodies as text and as a base64 image; the longest pause of the gateway's event loop at the largest. */
export const bodies: Section = {
  heading: 'Request bodies',
  start: (bench) => startTargets(bench, ['proxy', 'gateway', 'plain', 'base', 'nginx', 'haproxy']),
  steps: ({ rig }) => [
    ...SERIES.map(
      ({ name, body, connections }): Step => ({
        name,
        warmSeconds: 3,
        async measure(target, seconds) {
          await rig.mode({ mode: 'burst' });
          const load = { ...loadOf(target, connections), body };
          return { [name]: await measureRequests(rig, target, load, seconds) };
        },
      }),
    ),
    ...KINDS.map(
      (kind): Step => ({
        name: `pause ${kind}`,
        async measure(target, seconds) {
          if (target.name !== 'gateway') return {};
          const body = { bytes: SIZES['20 MiB'][0], image: kind === 'image' };
          await target.probe('pause-start');
          await measureRequests(rig, target, { ...loadOf(target, 1), body }, seconds);
          const { pauseMs } = await target.probe('pause-stop');
          return { [`pause ${kind}`]: { pause: pauseMs } };
        },
      }),
    ),
  ],
  note: () => 'Connections: 16 at 16 KiB, 4 at 1 MiB, 2 at 20 MiB; the pause is taken with one.',
  table: (results) => {
    const rows = SERIES.flatMap(({ name: series }) =>
      targetsOf(results, series).map((name) => [series, LABELS[name] as string, ...costCells(results, series, name)]),
    );
    return table(['body', 'through', 'CPU µs per request', '÷ do-nothing proxy', 'requests/s'], rows);
  },
  goals: (results) => [
    ...SERIES.map(({ name }) => {
      const measured = compared(results, [name, 'gateway'], [name, 'proxy']);
      return goal(`CPU per request of ${name} ÷ do-nothing proxy`, 1.5, 1.3, measured);
    }),
    ...KINDS.map((kind) => {
      const measured = reading(results, `pause ${kind}`, 'gateway', 'pause');
      return goal(`longest event-loop pause, 20 MiB ${kind}`, 20, 10, measured, { unit: 'ms' });
    }),
  ],
};
