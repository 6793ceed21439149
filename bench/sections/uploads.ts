import { compared } from '../results.ts';
import { latencyOf, loadOf, openLoad, refuseErrors, underLoad } from '../run/rig.ts';
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
        const small = openLoad(target, { bytes: 1024, rate: RATE });
        const alone = latencyOf(await server.behind(() => underLoad(rig, target, small, seconds)));
        const began = performance.now();
        await rig.hold({ do: 'start', load: { ...loadOf(target, UPLOADS), body: BODY } });
        const measured = await server.behind(() => underLoad(rig, target, small, seconds, quick ? 100 : 1000));
        const held = await rig.hold({ do: 'stop' });
        refuseErrors(held);
        if (held.done === 0 && !quick) throw new Error(`no upload through ${target.name} ended`);
        // its CPU is mostly that of uploads, of which no two programs had the same number
        const { cpu: _, ...beside } = latencyOf(measured);
        const uploads = (held.done * 1000) / (performance.now() - began);
        return { [SERIES.alone]: alone, [SERIES.beside]: { ...beside, uploads } };
      },
    },
  ],
  note: () =>
    `${RATE} small requests a second at random instants. Uploads are base64 images, sent by a process that ` +
    'gets what is left of the load core; the row without a program under test shows what they cost the load itself.',
  table: (results) => [timesTable(results, SERIES.alone, 'request'), timesTable(results, SERIES.beside)].join('\n\n'),
  goals: (results) => {
    if (results !== undefined && targetsOf(results, SERIES.beside).length === 0) return [];
    const p99 = compared(results, [SERIES.beside, 'gateway'], [SERIES.alone, 'gateway'], (a, b) => a / b, 'p99');
    return [goal('p99 of small requests beside eight uploads ÷ alone', 2, 1.5, p99)];
  },
};
