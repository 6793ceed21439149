import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { requestBody } from './load/body.ts';
import { parseAddress, requestBytes } from './load/connection.ts';
import { ENDPOINTS, type Endpoint } from './load/endpoints.ts';
import { closedLoop, openLoop, type Running } from './load/loops.ts';
import { newTally, summarize, type Tally } from './load/tally.ts';

const SETTLE_MS = 5000; // for answers that are under way at the end
const CONNECTIONS = 16;
const NUMBERS = ['rate', 'streams', 'duration', 'warmup', 'body-bytes', 'max-tokens'] as const;
const NAMES = Object.keys(ENDPOINTS).join(', ');
const ANTHROPIC_VERSION = { 'anthropic-version': '2023-06-01' };

const USAGE = `Load test of a model service.

  node bench/load.ts --base-url http://127.0.0.1:8080/v1 --key svc_… [options]

  --base-url URL    address clients use, up to and including its version prefix
  --key KEY         API key; or in the environment variable LOAD_KEY, which other users cannot see
  --model SLUG      model to ask (default: the first one GET /models lists)
  --endpoint NAME   ${NAMES} (default chat)
  --rate N          non-streaming requests started per second, whatever the answers do (default 0)
  --streams N       streams kept open at once (default 0)
  --duration SEC    how long (default 10)
  --warmup SEC      the same load before that, not counted (default 0)
  --body-bytes N    size of a request body (default 1024)
  --max-tokens N    most tokens of an answer
  --json            one JSON object at the end instead of text

With neither --rate nor --streams: ${CONNECTIONS} requests at a time, each followed by the next.
`;

type Options = ReturnType<typeof readOptions>;

/** Applies the load, shows progress on standard error, and reports on standard output. */
async function run(options: Options): Promise<void> {
  const { baseUrl, key, endpoint, rate, streams } = options;
  const address = parseAddress(baseUrl, endpoint);
  const model = options.model || (await firstModel(baseUrl, key));
  const headers = { authorization: `Bearer ${key}`, ...(endpoint === 'messages' && ANTHROPIC_VERSION) };
  const request = (stream: boolean): (() => Buffer) => {
    const bytes = requestBytes(address, headers, requestBody({ ...options, model, stream }));
    return () => bytes;
  };
  const [plain, streamed] = [newTally(), newTally()];
  const open = rate > 0 ? openLoop(address, { perSecond: rate, random: false }, request(false), plain) : null;
  const closed = streams > 0 ? closedLoop(address, streams, request(true), streamed) : null;
  const running = open ?? closed ?? closedLoop(address, CONNECTIONS, request(false), plain);

  const load = { plain, streamed, open };
  await progress('warm-up', options.warmup, load, options);
  for (const tally of [plain, streamed]) Object.assign(tally, newTally());
  await progress('', options.duration, load, options);
  const seconds = (performance.now() - plain.from) / 1000;
  open?.drain();
  const settled = performance.now() + SETTLE_MS;
  while (open !== null && open.open() > 0 && performance.now() < settled) await sleep(20);
  for (const loop of [running, closed]) loop?.stop();
  const unanswered = open?.open() ?? 0;
  const result = { model, seconds, requests: summarize(plain), streams: summarize(streamed), unanswered };
  if (options.json) return console.log(JSON.stringify(result));
  console.log(`\n${baseUrl}  model ${model}  ${seconds.toFixed(1)} s`);
  if (closed === null || open !== null) report('requests', plain, seconds);
  if (unanswered > 0) console.log(`  ${unanswered} had no answer five seconds after the end`);
  if (closed !== null) report(`${streams} streams at once`, streamed, seconds);
}

async function firstModel(baseUrl: string, key: string): Promise<string> {
  const answer = await fetch(`${baseUrl.replace(/\/$/, '')}/models`, { headers: { authorization: `Bearer ${key}` } });
  const { data, error } = (await answer.json()) as { data?: { id: string }[]; error?: { message: string } };
  if (!data?.[0]) throw new Error(error?.message ?? 'no model is listed for this key: name one with --model');
  return data[0].id;
}

/** Waits for the end of a part of the test, with a line of progress each second. */
async function progress(
  part: string,
  seconds: number,
  { plain, streamed, open }: { plain: Tally; streamed: Tally; open: Running | null },
  options: Options,
): Promise<void> {
  const start = performance.now();
  let before = { done: 0, events: 0 };
  for (let second = 1; second < seconds + 1; second++) {
    await sleep(start + Math.min(second, seconds) * 1000 - performance.now());
    if (options.json) continue;
    const parts = [`${part}${String(second).padStart(4)} s`];
    if (options.streams === 0 || open !== null)
      parts.push(`${plain.done - before.done} answers/s`, `p99 ${ms(plain.latency.percentile(99))}`);
    if (open !== null) parts.push(`${open.open()} waiting`);
    if (options.streams > 0)
      parts.push(`${streamed.events - before.events} events/s`, `${streamed.done} streams ended`);
    const errors = [...plain.errors.values(), ...streamed.errors.values()].reduce((sum, times) => sum + times, 0);
    if (errors > 0) parts.push(`${errors} errors`);
    process.stderr.write(`${parts.join('   ')}\n`);
    before = { done: plain.done, events: streamed.events };
  }
}

function report(what: string, tally: Tally, seconds: number): void {
  const { done, events, latency, firstEvent, statuses, errors } = tally;
  console.log(`${what}: ${done} whole answers, ${(done / seconds).toFixed(1)}/s`);
  if (firstEvent.count > 0) {
    console.log(`  events      ${events}, ${(events / seconds).toFixed(0)}/s`);
    console.log(`  first event ${times(firstEvent)}`);
  }
  console.log(`  whole in    ${times(latency)}`);
  console.log(`  statuses    ${[...statuses].map(([status, count]) => `${status}: ${count}`).join('  ') || 'none'}`);
  for (const [error, count] of errors) console.log(`  error       ${count} × ${error}`);
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
  if (!URL.canParse(baseUrl)) throw new TypeError('--base-url must be an address such as http://127.0.0.1:8080/v1');
  if (key === '') throw new TypeError('--key is missing');
  if (!Object.hasOwn(ENDPOINTS, endpoint)) throw new TypeError(`--endpoint must be one of ${NAMES}`);
  const [rate, streams, duration, warmup, bytes, maxTokens] = NUMBERS.map((name) => {
    if (Number(values[name]) >= 0) return Number(values[name]);
    throw new TypeError(`--${name} must be a number`);
  }) as [number, number, number, number, number, number];
  if (endpoint === 'embeddings' && streams > 0) throw new TypeError('--streams: embeddings are not streamed');
  return { ...values, baseUrl, endpoint: endpoint as Endpoint, rate, streams, duration, warmup, bytes, maxTokens };
}

try {
  await run(readOptions());
} catch (error) {
  const wrong = error instanceof TypeError;
  console.error(wrong ? `${error.message}\n\n${USAGE}` : `load: ${(error as Error).message}`);
  process.exit(wrong ? 64 : 1);
}
