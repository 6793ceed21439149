import { compared } from '../results.ts';
import { loadOf, underLoad } from '../run/rig.ts';
import { type Section, startTargets, WARM_SECONDS } from '../run/rounds.ts';
import { STREAM_TARGETS } from '../run/targets.ts';
import { goal, targetTables } from '../tables.ts';

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
      return goal(`CPU added per burst event over the proxy, ${series}`, 0.5, 0.3, measured, {
        unit: 'µs',
      });
    }),
};
