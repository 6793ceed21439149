import { setTimeout as sleep } from 'node:timers/promises';
import { until } from '../../test/support/until.ts';
import { reading } from '../results.ts';
import { cpuMicros, residentBytes } from '../run/process.ts';
import { endStreams, loadOf, refuseErrors } from '../run/rig.ts';
import { type Bench, type Section, startTargets } from '../run/rounds.ts';
import { PATIENT, startGateway, type Target } from '../run/targets.ts';
import { goal, medians, spreads, targetTables } from '../tables.ts';

/** A stream takes two of a process's 20,000 open files, which is what many systems allow; some are for the rest. */
const STREAMS = 9000;
const INTERVAL_MS = 200;
const SLOW_MS = 2000;
const SETTLE_MS = 3000;
const RAMP_MS = 4000; // at once, they would not all find room in a listener's queue

/** As many streams as a process may have open, 5 events a second each; half of the clients read every two seconds. */
export const many: Section = {
  heading: '9,000 streams at once, half of the clients slow',
  async start(bench) {
    // toward the router's one port there are local ports for three programs, so not for `direct` as well
    const others = await startTargets(bench, ['proxy', 'nginx']);
    return [
      ...others,
      // as many connections as leave it files for its calls; one company takes seven eighths of MAX_REQUESTS
      await startGateway(bench, { env: { FAST_HTTP: 'on', MAX_CONNECTIONS: '9200', ...PATIENT } }),
    ];
  },
  steps: ({ rig }) => [
    {
      name: 'streams',
      fresh: true,
      async measure(target, seconds) {
        if (target.name === 'gateway') await target.probe('gc');
        const before = target.pids.length === 0 ? 0 : residentBytes(target);
        const paced = { mode: 'paced', interval: INTERVAL_MS } as const;
        await rig.mode({ ...paced, begin: 'waits' }); // Node accepts few connections while it is busy
        const half = loadOf(target, STREAMS / 2, { stream: true, rampMs: RAMP_MS });
        await rig.load(half);
        await rig.hold({ ...half, readEveryMs: SLOW_MS });
        await opened(rig, target);
        await rig.mode({ ...paced, begin: 'goesOn' });
        await sleep(SETTLE_MS);
        await rig.load('reset');
        const first = [await rig.load('read'), await rig.hold('read')];
        const cpu = cpuMicros(target.pids);
        const began = performance.now();
        await sleep(Math.max(seconds, 2 * (SLOW_MS / 1000)) * 1000);
        const last = [await rig.load('read'), await rig.hold('read')];
        const took = (performance.now() - began) / 1000;
        const used = cpuMicros(target.pids) - cpu;
        const perStream = () =>
          target.pids.length === 0 ? 0 : (residentBytes(target) - before) / STREAMS / 1024;
        const memory = perStream();
        if (target.name === 'gateway') await target.probe('gc');
        const collected = perStream();
        const events = last.reduce(
          (sum, each, k) => sum + each.events - (first[k]?.events ?? 0),
          0,
        );
        // both begin nothing more before the router ends what is open: a second end would cut what began meanwhile
        await Promise.all([rig.load('drain'), rig.hold('drain')]);
        await endStreams(rig, rig.load);
        await endStreams(rig, rig.hold);
        const { gap } = last[0] as (typeof last)[number];
        return {
          streams: {
            cpu: used / events,
            rate: events / took,
            memory,
            collected,
            gap99: gap.p99,
            gapMost: gap.max,
          },
        };
      },
    },
  ],
  note: () =>
    `${STREAMS} streams of a connection each, an event every ${INTERVAL_MS} ms; half of the clients read for a moment every ${SLOW_MS} ms. ` +
    'Gaps are those that the other clients see between two events of a stream. 45,000 events a second are due: more are read where events of before the measurement lay in buffers, and fewer where the load core cannot send and read as many. After a collection such as the gateway makes at rest, what V8 keeps free for new objects is gone.',
  table: (results) =>
    targetTables(results, () => 'event', {
      'KiB a stream': spreads('memory'),
      'after a collection': spreads('collected'),
      'gap, p99 ms': medians('gap99'),
      'longest gap, ms': medians('gapMost'),
    }),
  goals: (results) => [
    goal(
      'resident memory per stream, 9,000 streams',
      40,
      25,
      reading(results, 'streams', 'gateway', 'collected'),
      {
        unit: 'KiB',
      },
    ),
  ],
};

/** Waits until all streams have begun. @throws when one failed */
async function opened({ load, hold }: Bench['rig'], { name }: Target): Promise<void> {
  await until(
    async () => [await load('read'), await hold('read')],
    `${STREAMS} streams through ${name}`,
    (both) => {
      for (const each of both) refuseErrors(each);
      return both.every(
        ({ statuses, open }) => statuses[200] === STREAMS / 2 && open === STREAMS / 2,
      );
    },
  );
}
