import { setTimeout as sleep } from 'node:timers/promises';
import { until } from '../../test/support/until.ts';
import { compared, reading } from '../results.ts';
import { residentBytes } from '../run/process.ts';
import { endStreams, loadOf, measureRequests, refuseErrors } from '../run/rig.ts';
import { type Bench, type Section, startTargets, WARM_SECONDS } from '../run/rounds.ts';
import type { Target } from '../run/targets.ts';
import { goal, LABELS, median, spread, table, targetsOf } from '../tables.ts';

const CONNECTIONS = 64;
const STREAMS = 2000;

/** The same requests with nothing else open, and beside streams that are open and silent. */
export const open: Section = {
  heading: 'Requests beside 2,000 open streams',
  start: (bench) => startTargets(bench, ['proxy', 'gateway', 'nginx']),
  steps: (bench) => [
    {
      name: 'requests',
      warmSeconds: WARM_SECONDS,
      async measure(target, seconds) {
        const load = loadOf(target, CONNECTIONS);
        await bench.rig.mode({ mode: 'open' });
        const alone = await measureRequests(bench.rig, target, load, seconds);
        await holdStreams(bench, target);
        const beside = await measureRequests(bench.rig, target, load, seconds);
        await endStreams(bench.rig, bench.rig.hold);
        await sleep(300);
        return { alone: { cpu: alone.cpu }, beside: { cpu: beside.cpu } };
      },
    },
    // By itself: after a collection that is asked for, V8 compiles optimised code again, a tenth of the CPU of the
    // next seconds. In fresh processes: others would use the memory of earlier streams again.
    {
      name: 'memory',
      fresh: true,
      async measure(target, seconds) {
        await measureRequests(bench.rig, target, loadOf(target, CONNECTIONS), seconds);
        await bench.rig.mode({ mode: 'open' });
        const gateway = target.name === 'gateway';
        if (gateway) await target.probe('gc');
        const before = residentBytes(target);
        const perStream = () => (residentBytes(target) - before) / STREAMS / 1024;
        await holdStreams(bench, target);
        const memory = perStream();
        if (gateway) await target.probe('gc');
        const collected = perStream();
        await endStreams(bench.rig, bench.rig.hold);
        return { beside: { memory, collected } };
      },
    },
  ],
  note: () => 'Memory per stream after a garbage collection for the gateway; the others are read as they stand.',
  table: (results) => {
    const rows = targetsOf(results, 'alone').map((name) => [
      LABELS[name] as string,
      spread(reading(results, 'alone', name, 'cpu')),
      spread(reading(results, 'beside', name, 'cpu')),
      spread(compared(results, ['beside', name], ['alone', name])),
      median(reading(results, 'beside', name, 'memory')),
      name === 'gateway' ? median(reading(results, 'beside', name, 'collected')) : '',
    ]);
    return table(
      ['through', 'µs per request, alone', 'beside 2,000 streams', 'quotient', 'KiB per stream', 'after a collection'],
      rows,
    );
  },
  goals: (results) => [
    goal(
      'CPU per request, 2,000 streams open ÷ none',
      1.2,
      1.1,
      compared(results, ['beside', 'gateway'], ['alone', 'gateway']),
    ),
    goal('resident memory per open stream', 60, 40, reading(results, 'beside', 'gateway', 'collected'), {
      unit: 'KiB',
    }),
  ],
};

/** Opens the streams, which then stay silent. */
async function holdStreams({ rig }: Bench, target: Target): Promise<void> {
  await rig.hold({ do: 'start', load: { ...loadOf(target, STREAMS), body: { bytes: 1024, stream: true } } });
  await until(
    () => rig.hold({ do: 'read' }),
    `${STREAMS} streams through ${target.name}`,
    (held) => {
      refuseErrors(held);
      return held.events >= STREAMS;
    },
  );
}
