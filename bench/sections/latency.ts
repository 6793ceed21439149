import { addedRatio, compared } from '../results.ts';
import { openLoad, underLoad } from '../run/rig.ts';
import { type Section, type Step, startTargets, WARM_SECONDS } from '../run/rounds.ts';
import { goal, LATENCIES, targetTables } from '../tables.ts';

/** Requests a second, and how much longer than others they are measured: a rare one needs readings too. */
const RATES = { 100: 5, 500: 2, 1000: 2, 2000: 1, 5000: 1 };
/** Rates whose CPU and whose latency have a target. */
const COUNTED = [100, 500, 2000];
const TIMED = [100, 1000, 5000];
/** Streams of `EVENTS` events begin so often that about 500 are open. */
const INTERVAL_MS = 100;
const EVENTS = 20;
const STREAMS_PER_SECOND = 500 / ((INTERVAL_MS * (EVENTS + 1)) / 1000);
const STREAMS = {
  first: '500 streams, time to the first event',
  gap: '500 streams, gap between events',
};

const seriesOf = (rate: number): string => `${rate.toLocaleString('en')} requests a second`;

/** Requests and streams that begin at random instants, whatever becomes of those before them. */
export const latency: Section = {
  heading: 'Latency at a pace (open loop, Poisson arrivals)',
  start: (bench) => startTargets(bench, ['direct', 'proxy', 'gateway', 'base', 'nginx']),
  steps: ({ rig, server, quick }) => [
    ...Object.entries(RATES).map(
      ([rate, longer], n): Step => ({
        name: seriesOf(Number(rate)),
        warmSeconds: n === 0 ? WARM_SECONDS : 0,
        async measure(target, seconds, warmsUp) {
          await rig.mode({ mode: 'burst' });
          // the warm-up has many requests: V8 is to have optimised all of it before the first rate
          const load = openLoad(target, warmsUp ? 3000 : Number(rate));
          const { perRequest, latency } = await server.behind(() =>
            underLoad(rig, target, load, seconds * longer),
          );
          return { [seriesOf(Number(rate))]: { cpu: perRequest.cpu, ...latency } };
        },
      }),
    ),
    {
      name: '500 streams',
      warmSeconds: WARM_SECONDS,
      async measure(target, seconds) {
        await rig.mode({ mode: 'paced', interval: INTERVAL_MS, events: EVENTS });
        const load = openLoad(target, STREAMS_PER_SECOND, { stream: true });
        const settle = quick ? 0 : INTERVAL_MS * (EVENTS + 1);
        const { perEvent, whole } = await server.behind(() =>
          underLoad(rig, target, load, seconds * 2, settle),
        );
        const { cpu } = perEvent;
        return {
          [STREAMS.first]: { cpu, ...whole.firstEvent },
          [STREAMS.gap]: { cpu, ...whole.gap },
        };
      },
    },
  ],
  note: ({ seconds }) =>
    'Latency counts from the instant a request was due. Postgres, which shares cores with the load generator, gets what ' +
    `that leaves. A stream has ${EVENTS} events, ${INTERVAL_MS} ms apart. Low rates and streams are measured longer; but at ` +
    `100 a second a round still has ${100 * 5 * seconds} requests, and of streams ${Math.round(STREAMS_PER_SECOND * 2 * seconds)}, so p99.9 is the slowest or the one before it.`,
  table: (results) =>
    targetTables(results, (series) => (series.includes('stream') ? 'event' : 'request'), LATENCIES),
  goals: (results) => [
    ...COUNTED.map((rate) => {
      const measured = compared(results, [seriesOf(rate), 'gateway'], [seriesOf(rate), 'proxy']);
      return goal(`CPU per request ÷ do-nothing proxy, ${seriesOf(rate)}`, 0.8, 0.7, measured);
    }),
    ...[...TIMED.map(seriesOf), STREAMS.first, STREAMS.gap].flatMap((name) =>
      Object.entries({ p99: 'p99', p999: 'p99.9' }).map(([kind, label]) =>
        goal(
          `added ${label} ÷ the do-nothing proxy's, ${name}`,
          1,
          0.5,
          addedRatio(results, name, kind),
        ),
      ),
    ),
  ],
};
