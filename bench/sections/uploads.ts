import { compared } from '../results.ts';
import { loadOf, measureOpenLoop, refuseErrors } from '../run/rig.ts';
import { type Section, startTargets, WARM_SECONDS } from '../run/rounds.ts';
import { goal, targetsOf, timesTable } from '../tables.ts';

const RATE = 500;
const UPLOADS = 8;
const BODY = { bytes: 20 * 1024 * 1024, image: true };
const SERIES = { alone: 'alone', beside: 'beside eight uploads' };

/** Small requests alone, and beside eight uploads of 20 MiB at once, each followed by the next. */
export const uploads: Section = {
  heading: 'Small requests beside eight uploads of 20 MiB',
  start: (bench) => startTargets(bench, ['direct', 'proxy', 'gateway', 'base', 'nginx']),
  steps: ({ rig, server, quick }) => [
    {
      name: 'uploads',
      warmSeconds: WARM_SECONDS,
      async measure(target, seconds) {
        await rig.mode({ mode: 'burst' });
        const small = { bytes: 1024, rate: RATE };
        const alone = await server.behind(() => measureOpenLoop(rig, target, small, seconds));
        await rig.hold({ do: 'start', load: { ...loadOf(target, UPLOADS), body: BODY } });
        const beside = await server.behind(() => measureOpenLoop(rig, target, small, seconds, quick ? 100 : 1000));
        const held = await rig.hold({ do: 'stop' });
        refuseErrors(held);
        const figures = ({ cpu, done, p50, p99, p999, max }: typeof alone) => ({
          cpu: cpu / done,
          p50,
          p99,
          p999,
          max,
        });
        return { [SERIES.alone]: figures(alone), [SERIES.beside]: figures(beside) };
      },
    },
  ],
  note: () =>
    `${RATE} small requests a second at random instants. Uploads are base64 images, sent by a process that ` +
    'gets what is left of the load core; the row without a program under test shows what they cost the load itself. CPU is that of small requests and uploads, per small request.',
  table: (results) =>
    Object.values(SERIES)
      .map((series) => timesTable(results, series, 'request'))
      .join('\n\n'),
  goals: (results) => {
    if (results !== undefined && targetsOf(results, SERIES.beside).length === 0) return [];
    const p99 = compared(results, [SERIES.beside, 'gateway'], [SERIES.alone, 'gateway'], (a, b) => a / b, 'p99');
    return [goal('p99 of small requests beside eight uploads ÷ alone', 2, 1.5, p99)];
  },
};
