import { setTimeout as sleep } from 'node:timers/promises';
import { until } from '../../test/support/until.ts';
import { compared, reading } from '../results.ts';
import { residentBytes } from '../run/process.ts';
import { endStreams, loadOf, refuseErrors, underLoad } from '../run/rig.ts';
import { type Bench, type Section, startTargets, WARM_SECONDS } from '../run/rounds.ts';
import { PATIENT, startGateway, type Target } from '../run/targets.ts';
import {
  type Column,
  figures,
  goal,
  LABELS,
  medians,
  spread,
  spreads,
  targetsOf,
} from '../tables.ts';

const CONNECTIONS = 64;
const STREAMS = 2000;

/** The same requests with nothing else open, and beside streams that are open and silent. */
export const open: Section = {
  heading: 'Requests beside 2,000 open streams',
  start: async (bench) => [
    ...(await startTargets(bench, ['proxy', 'nginx'])),
    await startGateway(bench, { env: { FAST_HTTP: 'on', ...PATIENT } }),
  ],
  steps: ({ rig }) => [
    {
      name: 'requests',
      warmSeconds: WARM_SECONDS,
      async measure(target, seconds) {
        const measure = async () => {
          const { perRequest } = await underLoad(rig, target, loadOf(target, CONNECTIONS), seconds);
          return { cpu: perRequest.cpu };
        };
        await rig.mode({ mode: 'open' });
        const alone = await measure();
        await holdStreams(rig, target);
        const beside = await measure();
        await endStreams(rig, rig.hold);
        await sleep(300);
        return { alone, beside };
      },
    },
    // By itself: after a collection that is asked for, V8 compiles optimised code again, a tenth of the CPU of the
    // next seconds. In fresh processes: others would use the memory of earlier streams again.
    {
      name: 'memory',
      fresh: true,
      async measure(target, seconds) {
        await underLoad(rig, target, loadOf(target, CONNECTIONS), seconds);
        await rig.mode({ mode: 'open' });
        const gateway = target.name === 'gateway';
        if (gateway) await target.probe('gc');
        const before = residentBytes(target);
        const perStream = () => (residentBytes(target) - before) / STREAMS / 1024;
        await holdStreams(rig, target);
        const memory = perStream();
        if (gateway) await target.probe('gc');
        const collected = perStream();
        await endStreams(rig, rig.hold);
        return { beside: { memory, collected } };
      },
    },
  ],
  note: () =>
    'Memory per stream after a garbage collection for the gateway; the others are read as they stand.',
  table: (results) => {
    const rows = targetsOf(results, 'alone').map(
      (name) => [LABELS[name] as string, 'beside', name] as const,
    );
    const alone: Column = (results, _, target) => spreads('cpu')(results, 'alone', target);
    const quotient: Column = (results, series, target) =>
      spread(compared(results, [series, target], ['alone', target]));
    const collected: Column = (...place) =>
      place[2] === 'gateway' ? medians('collected')(...place) : '';
    return [
      figures(results, 'through', rows, {
        'µs per request, alone': alone,
        'beside 2,000 streams': spreads('cpu'),
        quotient,
        'KiB per stream': medians('memory'),
        'after a collection': collected,
      }),
    ];
  },
  goals: (results) => {
    const ratio = compared(results, ['beside', 'gateway'], ['alone', 'gateway']);
    const memory = reading(results, 'beside', 'gateway', 'collected');
    return [
      goal('CPU per request, 2,000 streams open ÷ none', 1.2, 1.1, ratio),
      goal('resident memory per open stream', 60, 40, memory, { unit: 'KiB' }),
    ];
  },
};

/** Opens the streams, which then stay silent. */
async function holdStreams({ hold }: Bench['rig'], target: Target): Promise<void> {
  await hold(loadOf(target, STREAMS, { stream: true }));
  await until(
    () => hold('read'),
    `${STREAMS} streams through ${target.name}`,
    (held) => {
      refuseErrors(held);
      return held.events >= STREAMS;
    },
  );
}
