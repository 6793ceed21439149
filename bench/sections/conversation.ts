import { compared } from '../results.ts';
import { residentBytes } from '../run/process.ts';
import { loadOf, underLoad } from '../run/rig.ts';
import { type Section, startTargets, WARM_SECONDS } from '../run/rounds.ts';
import { goal, medians, targetTables } from '../tables.ts';

const SERIES = 'turns';
const CONNECTIONS = 32;
const REST_MS = 1000;
const TURNS = 40;
const LONGEST = 600 * 1024;
const EVENTS = 300; // the finish, the usage and [DONE] among them

/** What coding agents send: the whole conversation with every turn, and streamed answers. */
export const conversation: Section = {
  heading: 'The conversation of an agent, 40 turns of 20 to 600 KiB',
  start: (bench) =>
    startTargets(bench, ['direct', 'pipe', 'proxy', 'gateway', 'base', 'nginx', 'haproxy']),
  steps: ({ rig }) => [
    {
      name: SERIES,
      warmSeconds: WARM_SECONDS,
      async measure(target, seconds) {
        await rig.mode({ mode: 'burst', chunkPerEvent: true, events: EVENTS - 3 });
        const load = loadOf(target, CONNECTIONS, {
          turns: TURNS,
          differ: true,
          bytes: LONGEST,
          restMs: REST_MS,
          rampMs: REST_MS,
        });
        const { perRequest, whole } = await underLoad(rig, target, load, seconds, REST_MS);
        const memory = target.pids.length === 0 ? Number.NaN : residentBytes(target) / 1e6;
        return {
          [SERIES]: { ...perRequest, p50: whole.firstEvent.p50, p99: whole.firstEvent.p99, memory },
        };
      },
    },
  ],
  note: () =>
    `Each of ${CONNECTIONS} connections is a conversation that begins again after ${TURNS} turns: every turn sends the whole history, with tools, their calls and results. An answer has ${EVENTS} events, an HTTP chunk each, in four packets. Half of the clients send the next turn at once, the others a second later. Memory is all that the process holds at the end.`,
  table: (results) =>
    targetTables(results, () => 'turn', {
      'first event, p50 ms': medians('p50'),
      'first event, p99 ms': medians('p99'),
      'memory, MB': medians('memory'),
    }),
  goals: (results) => {
    const ratio = (other: string, kind = 'cpu') =>
      compared(results, [SERIES, 'gateway', kind], [SERIES, other, kind]);
    return [
      goal('CPU per turn of an agent ÷ do-nothing proxy', 1, 0.75, ratio('proxy')),
      goal('CPU per turn of an agent ÷ nginx', 4, 3, ratio('nginx')),
      goal('p99 of the first event of a turn ÷ do-nothing proxy', 1, 0.75, ratio('proxy', 'p99')),
    ];
  },
};
