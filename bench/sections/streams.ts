import { setTimeout as sleep } from 'node:timers/promises';
import { compared } from '../results.ts';
import { endStreams, loadOf, measureWindow, underLoad } from '../run/rig.ts';
import { type Section, startTargets, WARM_SECONDS } from '../run/rounds.ts';
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
  table: (results) => targetTables(results, () => 'event', { 'first event, p50 ms': medians('firstEventP50') }),
  goals: (results) =>
    Object.keys(LOADS).map((series) => {
      const measured = compared(results, [series, 'gateway'], [series, 'proxy']);
      return goal(`CPU per paced event ÷ do-nothing proxy, ${series}`, 0.95, 0.8, measured);
    }),
};

const STREAMS = 16;
/** Series, and whether each event is an HTTP chunk of its own. */
const FRAMINGS = { 'one HTTP chunk per packet': false, 'one HTTP chunk per event': true };

/** 200 events in four packets, 16 streams at once, each followed by the next. */
export const burst: Section = {
  heading: 'Burst streams, 200 events in four packets',
  start: (bench) => startTargets(bench, STREAM_TARGETS),
  steps: ({ rig }) =>
    Object.entries(FRAMINGS).map(([name, chunkPerEvent]) => ({
      name,
      warmSeconds: WARM_SECONDS,
      async measure(target, seconds) {
        await rig.mode({ mode: 'burst', chunkPerEvent });
        const load = loadOf(target, STREAMS, { stream: true });
        return { [name]: (await underLoad(rig, target, load, seconds)).perEvent };
      },
    })),
  note: () => '203 events a stream: 200 of content, the finish, the usage, [DONE].',
  table: (results) => targetTables(results, () => 'event'),
  goals: (results) =>
    Object.keys(FRAMINGS).map((series) => {
      const measured = compared(results, [series, 'gateway'], [series, 'proxy'], (a, b) => a - b);
      return goal(`CPU added per burst event over the proxy, ${series}`, 0.5, 0.3, measured, { unit: 'µs' });
    }),
};
