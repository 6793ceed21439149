import { compared, reading } from '../results.ts';
import { loadOf, underLoad } from '../run/rig.ts';
import { type Section, type Step, startTargets } from '../run/rounds.ts';
import { costs, figures, goal, LABEL, targetsOf } from '../tables.ts';

const LARGEST = 20 * 1024 * 1024;
/** Size in bytes and connections of each body. */
const SIZES = {
  '16 KiB': [16 * 1024, 16],
  '128 KiB': [128 * 1024, 8],
  '1 MiB': [1024 * 1024, 4],
  '20 MiB': [LARGEST, 2],
} as const;
const KINDS = ['text', 'image'] as const;
const SERIES = Object.entries(SIZES).flatMap(([size, [bytes, connections]]) =>
  KINDS.map((kind) => ({
    name: `${size} ${kind}`,
    body: { bytes, image: kind === 'image', differ: true },
    connections,
  })),
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
          return {
            [name]: (await underLoad(rig, target, loadOf(target, connections, body), seconds))
              .perRequest,
          };
        },
      }),
    ),
    ...KINDS.map(
      (kind): Step => ({
        name: `pause ${kind}`,
        async measure(target, seconds) {
          if (target.name !== 'gateway') return {};
          await target.probe('pause-start');
          await underLoad(
            rig,
            target,
            loadOf(target, 1, { bytes: LARGEST, image: kind === 'image' }),
            seconds,
          );
          const { pauseMs } = await target.probe('pause-stop');
          return { [`pause ${kind}`]: { pause: pauseMs } };
        },
      }),
    ),
  ],
  note: () =>
    'Connections: 16 at 16 KiB, 8 at 128 KiB, 4 at 1 MiB, 2 at 20 MiB; the pause is taken with one. No two heads in a row are alike.',
  table: (results) => {
    const rows = SERIES.flatMap(({ name: series }) =>
      targetsOf(results, series).map((target) => [series, series, target] as const),
    );
    return [figures(results, 'body', rows, { through: LABEL, ...costs('request') })];
  },
  goals: (results) => [
    ...SERIES.map(({ name, body: { bytes } }) => {
      const measured = compared(results, [name, 'gateway'], [name, 'proxy']);
      const [least, most] = bytes < 131_072 ? [1.1, 0.95] : [0.9, 0.75];
      return goal(`CPU per request of ${name} ÷ do-nothing proxy`, least, most, measured);
    }),
    ...KINDS.map((kind) => {
      const measured = reading(results, `pause ${kind}`, 'gateway', 'pause');
      return goal(`longest event-loop pause, 20 MiB ${kind}`, 20, 10, measured, { unit: 'ms' });
    }),
  ],
};
