import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { requestBody } from './load/body.ts';
import { parseAddress, requestBytes } from './load/connection.ts';
import { ENDPOINTS, type Endpoint } from './load/endpoints.ts';
import { closedLoop, openLoop, type Running } from './load/loops.ts';
import { newTally, summarize, type Tally } from './load/tally.ts';

const SETTLE_MS = 5000; // for answers that are under way at the end
const MODELS_MS = 10_000; // for the list of models
const CONNECTIONS = 16;
const MOST_CONNECTIONS = 10000; // of --rate; a request for which there is none waits
const BUSY = 90; // per cent of its time from which on this program may be what limits the figures
const NAMES = Object.keys(ENDPOINTS).join(', ');

const USAGE = `Load test of a model service.

  npx node bench/load.ts --base-url http://127.0.0.1:8080/v1 --key KEY [options]

  --base-url URL    address clients use, with its version prefix
  --key KEY         API key; better in the environment variable LOAD_KEY, which
                    other users of the machine cannot see
  --model SLUG      model to ask (default: the first that GET /models lists)
  --endpoint NAME   ${NAMES} (default chat)
  --rate N          requests started per second, whatever the answers do
  --streams N       streams kept open at once
  --duration SEC    how long (default 10)
  --warmup SEC      the same load before that, not counted (default 0)
  --body-bytes N    size of a request body (default 1024, some 150 at least)
  --max-tokens N    most tokens of an answer
  --json            one JSON object at the end instead of text

With neither --rate nor --streams, ${CONNECTIONS} requests at a time, each followed by the
next: a slow service is then asked less, so latencies need --rate, which counts
from the instant a request is due. A request that fails is followed by the next
after 50 ms, whatever a retry-after says. Ctrl-C ends the test early, with its
report.

Exit status: 0 if every request had a whole answer, 1 if not, 64 if an option
is wrong, 130 after Ctrl-C.
`;

type Options = ReturnType<typeof readOptions>;

/** What is sent, and what became of it. */
interface Part {
  readonly what: string;
  readonly stream: boolean;
  readonly tally: Tally;
  readonly loop: Running;
}

/** Applies the load, shows progress on standard error, reports on standard output. @returns the exit status */
async function run(options: Options): Promise<number> {
  const { address, baseUrl, key, endpoint, rate, streams, json } = options;
  const model = options.model || (await firstModel(baseUrl, key));
  const headers = { authorization: `Bearer ${key}`, ...ENDPOINTS[endpoint].headers };
  const request = (stream: boolean): (() => Buffer) => {
    const bytes = requestBytes(address, headers, requestBody({ ...options, model, stream }));
    return () => bytes;
  };
  const [plain, streamed] = [newTally(), newTally()];
  const pace = { perSecond: rate, random: false };
  const paced = rate > 0 ? openLoop(address, pace, request(false), plain, MOST_CONNECTIONS) : null;
  const parts: Part[] = [];
  if (paced || streams === 0) {
    const loop = paced ?? closedLoop(address, CONNECTIONS, request(false), plain);
    parts.push({ what: 'requests', stream: false, tally: plain, loop });
  }
  if (streams > 0) {
    const loop = closedLoop(address, streams, request(true), streamed);
    parts.push({ what: `${streams} streams at once`, stream: true, tally: streamed, loop });
  }
  const interrupt = new AbortController();
  const { signal } = interrupt;
  process.once('SIGINT', () => interrupt.abort());

  await paced?.begun;
  const shown = json ? [] : parts;
  if (options.warmup > 0) {
    await progress('warm-up', options.warmup, shown, signal);
    for (const { tally } of parts) Object.assign(tally, newTally());
  }
  const [began, before] = [performance.now(), performance.eventLoopUtilization()];
  await progress('', options.duration, shown, signal);
  const seconds = (performance.now() - began) / 1000;
  const busy = performance.eventLoopUtilization(before).utilization;
  const rates = new Map([plain, streamed].map((tally) => [tally, tally.latency.count / seconds]));
  for (const { loop } of parts) if (loop !== paced) loop.stop();
  paced?.drain();
  const end = performance.now() + SETTLE_MS;
  while (paced && paced.open() > 0 && !signal.aborted && performance.now() < end) await sleep(20);
  paced?.stop();

  const unanswered = paced?.open() ?? 0;
  if (json) {
    const [requests, streams] = [plain, streamed].map((tally) => {
      return { ...summarize(tally), done: tally.latency.count, rate: rates.get(tally) };
    });
    console.log(JSON.stringify({ model, seconds, busy, requests, streams, unanswered }));
  } else {
    console.log(`\n${baseUrl}  model ${model}  ${seconds.toFixed(1)} s`);
    for (const part of parts) report(part, rates.get(part.tally) as number, seconds);
    const share = Math.round(busy * 100);
    if (share >= BUSY)
      console.log(
        `This program was busy ${share} % of the time, and may be what limits the figures.`,
      );
  }
  if (signal.aborted) return 130;
  return unanswered === 0 &&
    parts.every(({ tally }) => tally.latency.count > 0 && tally.errors.size === 0)
    ? 0
    : 1;
}

/** @throws when the service lists none within ten seconds */
async function firstModel(baseUrl: string, key: string): Promise<string> {
  const url = new URL(baseUrl);
  url.pathname = `${url.pathname.replace(/\/$/, '')}/models`;
  const headers = { authorization: `Bearer ${key}` };
  const answer = await fetch(url, { headers, signal: AbortSignal.timeout(MODELS_MS) }).catch(
    (error) => {
      const { message, code } = error.cause ?? error;
      throw new Error(`${url}: ${message || code}`);
    },
  );
  type Models = { data?: { id: string }[]; error?: { message?: string } };
  const { data, error } = (await answer.json().catch(() => ({}))) as Models;
  if (data?.[0]) return data[0].id;
  throw new Error(
    error?.message ?? `${url} answers ${answer.status} and lists no model: name one with --model`,
  );
}

/** Waits for the end of a stretch of the test, with a line of progress each second, if there is anything to show. */
async function progress(
  when: string,
  seconds: number,
  parts: readonly Part[],
  signal: AbortSignal,
): Promise<void> {
  const start = performance.now();
  const amounts = (): number[] =>
    parts.map(({ stream, tally }) => (stream ? tally.events : tally.done));
  let [at, before] = [start, amounts()];
  for (let second = 1; second < seconds + 1; second++) {
    const rest = start + Math.min(second, seconds) * 1000 - performance.now();
    await sleep(Math.max(0, rest), null, { signal }).catch(() => {});
    if (signal.aborted) return;
    const [now, counts] = [performance.now(), amounts()];
    const texts = parts.flatMap(({ stream, tally, loop }, i) => {
      const more = (counts[i] as number) - (before[i] as number);
      const rate = ((more * 1000) / (now - at)).toFixed(0);
      const latency = tally.latency.count > 0 ? [`p99 ${ms(tally.latency.percentile(99))}`] : [];
      const errors = [...tally.errors.values()].reduce((sum, times) => sum + times, 0);
      return [
        ...(stream
          ? [`${rate} events/s`, `${tally.done} streams ended`]
          : [`${rate} answers/s`, ...latency]),
        `${loop.open()} waiting`,
        ...(errors > 0 ? [`${errors} errors`] : []),
      ];
    });
    if (parts.length > 0)
      process.stderr.write(`${when}${String(second).padStart(4)} s   ${texts.join('   ')}\n`);
    [at, before] = [now, counts];
  }
}

function report({ what, tally, loop }: Part, rate: number, seconds: number): void {
  const { events, latency, firstEvent, statuses, errors } = tally;
  console.log(`${what}: ${latency.count} whole answers, ${rate.toFixed(1)}/s`);
  if (firstEvent.count > 0) {
    console.log(`  events      ${events}, ${(events / seconds).toFixed(0)}/s`);
    console.log(`  first event ${times(firstEvent)}`);
  }
  console.log(`  whole in    ${times(latency)}`);
  console.log(
    `  statuses    ${[...statuses].map(([status, count]) => `${status}: ${count}`).join('  ') || 'none'}`,
  );
  for (const [error, count] of errors) console.log(`  error       ${count} × ${error}`);
  if (loop.open() > 0) console.log(`  under way   ${loop.open()} at the end, not in these figures`);
}

function times(histogram: Tally['latency']): string {
  if (histogram.count === 0) return 'none';
  const parts = [50, 90, 99].map((percent) => `p${percent} ${ms(histogram.percentile(percent))}`);
  return `${parts.join('  ')}  max ${ms(histogram.max)}`;
}

function ms(nanos: number): string {
  return `${(nanos / 1e6).toFixed(nanos < 1e7 ? 2 : 0)} ms`;
}

/** @throws TypeError when an option is wrong */
function readOptions() {
  const { values } = parseArgs({
    options: {
      'base-url': { type: 'string', default: '' },
      key: { type: 'string', default: process.env.LOAD_KEY ?? '' },
      model: { type: 'string', default: '' },
      endpoint: { type: 'string', default: 'chat' },
      rate: { type: 'string', default: '0' },
      streams: { type: 'string', default: '0' },
      duration: { type: 'string', default: '10' },
      warmup: { type: 'string', default: '0' },
      'body-bytes': { type: 'string', default: '1024' },
      'max-tokens': { type: 'string', default: '0' },
      json: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) {
    process.stdout.write(USAGE);
    process.exit(0);
  }
  const { 'base-url': baseUrl, key, endpoint } = values;
  if (!URL.canParse(baseUrl))
    throw new TypeError('--base-url must be an address such as http://127.0.0.1:8080/v1');
  if (!Object.hasOwn(ENDPOINTS, endpoint))
    throw new TypeError(`--endpoint must be one of ${NAMES}`);
  const address = parseAddress(baseUrl, endpoint as Endpoint);
  if (!/^[\x21-\x7e]+$/.test(key))
    throw new TypeError('--key is missing, or has a character that no header may have');
  const number = (
    name: 'rate' | 'streams' | 'duration' | 'warmup' | 'body-bytes' | 'max-tokens',
    most: number,
    whole = true,
  ): number => {
    const text = values[name];
    if ((whole ? /^\d+$/ : /^\d*\.?\d+$/).test(text) && Number(text) <= most) return Number(text);
    throw new TypeError(`--${name} must be a ${whole ? 'whole ' : ''}number from 0 to ${most}`);
  };
  const streams = number('streams', 10_000);
  if (endpoint === 'embeddings' && streams > 0)
    throw new TypeError('--streams: embeddings are not streamed');
  return {
    ...values,
    address,
    baseUrl,
    endpoint: endpoint as Endpoint,
    rate: number('rate', 100_000, false),
    streams,
    duration: number('duration', 86_400, false),
    warmup: number('warmup', 86_400, false),
    bytes: number('body-bytes', 100_000_000),
    maxTokens: number('max-tokens', 1_000_000),
  };
}

let options: Options | undefined;
try {
  options = readOptions();
  process.exitCode = await run(options);
} catch (error) {
  const { message } = error as Error;
  console.error(options === undefined ? `${message}\n\n${USAGE}` : `load: ${message}`);
  process.exitCode = options === undefined ? 64 : 1;
}
