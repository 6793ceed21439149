import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { chatBody } from './load/body.ts';
import { parseAddress, requestBytes } from './load/connection.ts';
import { closedLoop, openLoop, type Running } from './load/loops.ts';
import { count, newTally, summarize, type Tally } from './load/tally.ts';

const SETTLE_MS = 5000; // for answers that are under way at the end
const CONNECTIONS = 16;

const USAGE = `Load test of a chat-completions service.

  node bench/load.ts --base-url http://127.0.0.1:8080/v1 --key svc_… [options]

  --base-url URL    address clients use, up to and including its version prefix
  --key KEY         API key; or in the environment variable LOAD_KEY, which other users cannot see
  --model SLUG      model to ask (default: the first one GET /models lists)
  --rate N          non-streaming requests started per second, whatever the answers do (default 0)
  --streams N       streams kept open at once (default 0)
  --duration SEC    how long (default 10)
  --body-bytes N    size of a request body (default 1024)
  --max-tokens N    sent as max_tokens
  --json            one JSON object at the end instead of text

With neither --rate nor --streams: ${CONNECTIONS} requests at a time, each followed by the next.
`;

type Options = ReturnType<typeof readOptions>;

/** Applies the load, shows progress on standard error, and reports on standard output. */
async function run(options: Options): Promise<void> {
  const { baseUrl, key, rate, streams } = options;
  const address = parseAddress(baseUrl);
  const model = options.model || (await firstModel(baseUrl, key));
  const request = (stream: boolean): (() => Buffer) => {
    const body = chatBody({ model, stream, bytes: options.bodyBytes, maxTokens: options.maxTokens });
    const bytes = requestBytes(address, '/chat/completions', { authorization: `Bearer ${key}` }, body);
    return () => bytes;
  };
  const [plain, streamed] = [newTally(), newTally()];
  const started = performance.now();
  const running: Running[] = [];
  let open: Running | null = null;
  if (rate > 0) {
    open = openLoop(address, rate, request(false), plain);
    running.push(open);
  } else if (streams === 0) running.push(closedLoop(address, CONNECTIONS, request(false), plain));
  if (streams > 0) running.push(closedLoop(address, streams, request(true), streamed));

  await progress(options, plain, streamed, open);
  open?.drain();
  const seconds = (performance.now() - started) / 1000;
  const settled = performance.now() + SETTLE_MS;
  while (open !== null && open.open() > 0 && performance.now() < settled) await sleep(20);
  for (const one of running) one.stop();
  const unanswered = open?.open() ?? 0;
  if (options.json) {
    const result = { model, seconds, requests: summarize(plain), streams: summarize(streamed), unanswered };
    console.log(JSON.stringify(result));
  } else report(options, model, seconds, plain, streamed, unanswered);
}

async function firstModel(baseUrl: string, key: string): Promise<string> {
  const answer = await fetch(`${baseUrl.replace(/\/$/, '')}/models`, { headers: { authorization: `Bearer ${key}` } });
  const list = (await answer.json()) as { data?: { id: string }[]; error?: { message: string } };
  const model = list.data?.[0]?.id;
  if (model === undefined)
    throw new Error(list.error?.message ?? 'no model is listed for this key: name one with --model');
  return model;
}

async function progress(options: Options, plain: Tally, streamed: Tally, open: Running | null): Promise<void> {
  const end = performance.now() + options.duration * 1000;
  let before = { done: 0, events: 0 };
  for (let second = 1; performance.now() < end; second++) {
    await sleep(Math.min(1000, end - performance.now()));
    if (options.json) continue;
    const parts = [`${String(second).padStart(4)} s`];
    if (options.streams === 0 || open !== null) {
      parts.push(`${plain.done - before.done} answers/s`, `p99 ${ms(plain.latency.percentile(99))}`);
      if (open !== null) parts.push(`${open.open()} waiting`);
    }
    if (options.streams > 0)
      parts.push(`${streamed.events - before.events} events/s`, `${streamed.done} streams ended`);
    const errors = [...plain.errors.values(), ...streamed.errors.values()].reduce((sum, times) => sum + times, 0);
    if (errors > 0) parts.push(`${errors} errors`);
    process.stderr.write(`${parts.join('   ')}\n`);
    before = { done: plain.done, events: streamed.events };
  }
}

function report(
  options: Options,
  model: string,
  seconds: number,
  plain: Tally,
  streamed: Tally,
  unanswered: number,
): void {
  const { baseUrl, streams, rate } = options;
  console.log(`\n${baseUrl}  model ${model}  ${seconds.toFixed(1)} s`);
  if (streams === 0 || rate > 0) {
    console.log(`requests   ${plain.done} whole answers, ${(plain.done / seconds).toFixed(1)}/s`);
    console.log(`  answer in   ${times(plain.latency)}`);
    if (unanswered > 0) console.log(`  ${unanswered} had no answer five seconds after the end`);
  }
  if (streams > 0) {
    const { done, events } = streamed;
    const perSecond = (events / seconds).toFixed(0);
    console.log(`streams    ${streams} at once, ${done} ended whole, ${events} events, ${perSecond}/s`);
    console.log(`  first event ${times(streamed.firstEvent)}`);
    if (done > 0) console.log(`  whole in    ${times(streamed.latency)}`);
  }
  const statuses = new Map(plain.statuses);
  for (const [status, times] of streamed.statuses) count(statuses, status, times);
  console.log(`statuses   ${[...statuses].map(([status, count]) => `${status}: ${count}`).join('  ') || 'none'}`);
  for (const [error, count] of [...plain.errors, ...streamed.errors]) console.log(`error      ${count} × ${error}`);
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
      rate: { type: 'string', default: '0' },
      streams: { type: 'string', default: '0' },
      duration: { type: 'string', default: '10' },
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
  const number = (name: 'rate' | 'streams' | 'duration' | 'body-bytes' | 'max-tokens'): number => {
    const value = Number(values[name]);
    if (!(value >= 0)) throw new TypeError(`--${name} must be a number`);
    return value;
  };
  if (!URL.canParse(values['base-url']))
    throw new TypeError('--base-url must be an address such as http://127.0.0.1:8080/v1');
  if (values.key === '') throw new TypeError('--key is missing');
  return {
    baseUrl: values['base-url'],
    key: values.key,
    model: values.model,
    rate: number('rate'),
    streams: number('streams'),
    duration: number('duration'),
    bodyBytes: number('body-bytes'),
    maxTokens: number('max-tokens'),
    json: values.json,
  };
}

try {
  await run(readOptions());
} catch (error) {
  const wrong = error instanceof TypeError;
  console.error(wrong ? `${error.message}\n\n${USAGE}` : `load: ${(error as Error).message}`);
  process.exit(wrong ? 64 : 1);
}
