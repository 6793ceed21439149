import type { Load } from '../programs/worker.ts';
import { compared } from '../results.ts';
import { loadOf, openLoad, refuseErrors, underLoad } from '../run/rig.ts';
import { type Section, startTargets, WARM_SECONDS } from '../run/rounds.ts';
import { goal, LATENCIES, spreads, targetTables } from '../tables.ts';

const RATE = 500;
const UPLOADS = 8;
const BODY = { bytes: 20 * 1024 * 1024, image: true };
const SETTLE_MS = 4000; // until all upload, and the first of them have ended
const LINE = 1_000_000_000 / 8; // bytes per second
const SERIES = {
  alone: 'alone',
  line: 'beside eight uploads that share a line of 1 Gbit/s',
  router: 'sent to the router itself, beside the same uploads',
  fast: 'beside eight uploads as fast as the machine takes them',
};

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
        const small = openLoad(target, RATE);
        const toRouter = { ...small, baseUrl: `http://127.0.0.1:${rig.routerPort}/v1` };
        const beside = async (load: Load, bytesPerSecond?: number) => {
          const began = performance.now();
          await rig.hold(
            loadOf(target, UPLOADS, { ...BODY, ...(bytesPerSecond && { bytesPerSecond }) }),
          );
          const settle = quick ? 100 : SETTLE_MS;
          const { latency } = await server.behind(() =>
            underLoad(rig, target, load, seconds, settle),
          );
          const ended = await rig.hold('stop');
          refuseErrors(ended);
          if (ended.done === 0 && !quick) throw new Error(`no upload through ${target.name} ended`);
          // not its CPU, which is mostly that of uploads, of which no two programs had the same number
          return { ...latency, uploads: (ended.done * 1000) / (performance.now() - began) };
        };
        const { perRequest, latency } = await server.behind(() =>
          underLoad(rig, target, small, seconds),
        );
        return {
          [SERIES.alone]: { cpu: perRequest.cpu, ...latency },
          [SERIES.line]: await beside(small, LINE / UPLOADS),
          [SERIES.router]: await beside(toRouter, LINE / UPLOADS),
          [SERIES.fast]: await beside(small),
        };
      },
    },
  ],
  note: () =>
    `${RATE} small requests a second at random instants. Uploads are base64 images, sent by a process that ` +
    'gets what is left of the load core. Tollgate reads a whole body before it sends it on, at once; the others send it on as it arrives. ' +
    'What that costs in the router, which has one thread, is in the table of small requests that do not go through the program under test. ' +
    'As fast as the machine takes them, uploads use all of the load core: the row without a program under test shows how much.',
  table: (results) =>
    targetTables(results, () => 'request', { ...LATENCIES, 'uploads/s': spreads('uploads') }),
  goals: (results) => {
    const p99 = compared(
      results,
      [SERIES.line, 'gateway', 'p99'],
      [SERIES.alone, 'gateway', 'p99'],
    );
    return [goal('p99 of small requests beside eight uploads at 1 Gbit/s ÷ alone', 2, 1.5, p99)];
  },
};
