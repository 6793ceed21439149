import { setTimeout as sleep } from 'node:timers/promises';
import { compared } from '../results.ts';
import { endStreams, loadOf, measureWindow } from '../run/rig.ts';
import { type Section, startTargets } from '../run/rounds.ts';
import { STREAM_TARGETS } from '../run/targets.ts';
import { goal, medians, targetTables } from '../tables.ts';

/** Streams at once, and milliseconds between two events of one. */
const LOADS = { '100 streams': [100, 20], '1000 streams': [1000, 200] } as const;

/** One event per packet, measured after all streams have begun. */
export const paced: Section = {
  heading: 'Paced streams, one event per packet',
  start: (bench) => startTargets(bench, STREAM_TARGETS),
  steps: ({ rig }) =>
    Object.entries(LOADS).map(([name, [streams, interval]]) => ({
      name,
      warmSeconds: 2,
      async measure(target, seconds) {
        await rig.mode({ mode: 'paced', interval });
        await rig.load(loadOf(target, streams, { stream: true }));
        await sleep(interval * 2 + 500);
        const { perEvent } = await measureWindow(rig, target, seconds);
        const { firstEvent } = await endStreams(rig, rig.load);
        return { [name]: { ...perEvent, firstEventP50: firstEvent.p50 } };
      },
    })),
  note: () =>
    '5,000 events a second in all, spread evenly: a stream gets one every 20 ms (100 streams) or 200 ms (1,000).',
  table: (results) =>
    targetTables(results, () => 'event', { 'first event, p50 ms': medians('firstEventP50') }),
  goals: (results) =>
    Object.keys(LOADS).map((series) => {
      const measured = compared(results, [series, 'gateway'], [series, 'proxy']);
      return goal(`CPU per paced event ÷ do-nothing proxy, ${series}`, 0.95, 0.8, measured);
    }),
};
