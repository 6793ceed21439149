import { parseArgs } from 'node:util';
import { Loop, newTally, parseTarget, Rate, requestBytes, type Tally } from './client.ts';
import { chatBody } from './payload.ts';

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

With neither --rate nor --streams: 16 requests at a time, each followed by the next.
`;

interface Options {
  readonly baseUrl: string;
  readonly key: string;
  readonly model: string;
  readonly rate: number;
  readonly streams: number;
  readonly seconds: number;
  readonly bodyBytes: number;
  readonly maxTokens: number;
  readonly json: boolean;
}

/** Applies the load, shows how it goes on standard error, and reports on standard output. */
async function run(options: Options): Promise<void> {
  const target = parseTarget(options.baseUrl);
  const headers = { authorization: `Bearer ${options.key}` };
  const model = options.model || (await firstModel(options));
  const request = (stream: boolean): (() => Buffer) => {
    let body = chatBody({ model, stream, bytes: options.bodyBytes });
    if (options.maxTokens > 0) {
      body = Buffer.concat([Buffer.from(`{"max_tokens":${options.maxTokens},`), body.subarray(1)]);
    }
    const bytes = requestBytes(target, '/chat/completions', headers, body);
    return () => bytes;
  };
  const plain = newTally();
  const streamed = newTally();
  const started = performance.now();
  const running: { stop(): void }[] = [];
  let rate: Rate | null = null;
  if (options.rate > 0) {
    rate = new Rate(target, options.rate, request(false), plain);
    running.push(rate);
  } else if (options.streams === 0) running.push(new Loop(target, 16, request(false), plain));
  if (options.streams > 0) running.push(new Loop(target, options.streams, request(true), streamed));

  await progress(options, plain, streamed, () => rate?.open ?? 0);
  rate?.pause();
  const seconds = (performance.now() - started) / 1000;
  const settle = performance.now() + 5000;
  while (rate !== null && rate.open > 0 && performance.now() < settle) await sleep(20);
  for (const one of running) one.stop();
  report(options, model, seconds, plain, streamed, rate?.open ?? 0);
}

async function firstModel(options: Options): Promise<string> {
  const answer = await fetch(`${options.baseUrl.replace(/\/$/, '')}/models`, {
    headers: { authorization: `Bearer ${options.key}` },
  });
  const list = (await answer.json()) as { data?: { id: string }[]; error?: { message: string } };
  const model = list.data?.[0]?.id;
  if (model === undefined)
    throw new Error(list.error?.message ?? 'no model is listed for this key: name one with --model');
  return model;
}

async function progress(options: Options, plain: Tally, streamed: Tally, open: () => number): Promise<void> {
  const end = performance.now() + options.seconds * 1000;
  let before = { done: 0, events: 0 };
  for (let second = 1; performance.now() < end; second++) {
    await sleep(Math.min(1000, end - performance.now()));
    if (options.json) continue;
    const parts = [`${String(second).padStart(4)} s`];
    if (options.streams === 0 || options.rate > 0) {
      parts.push(`${plain.done - before.done} answers/s`, `p99 ${ms(plain.latency.percentile(99))}`);
      if (options.rate > 0) parts.push(`${open()} waiting`);
    }
    if (options.streams > 0)
      parts.push(`${streamed.events - before.events} events/s`, `${streamed.done} streams ended`);
    const errors = sum(plain.errors) + sum(streamed.errors);
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
  if (options.json) {
    const result = { model, seconds, requests: summarize(plain), streams: summarize(streamed), unanswered };
    console.log(JSON.stringify(result));
    return;
  }
  console.log(`\n${options.baseUrl}  model ${model}  ${seconds.toFixed(1)} s`);
  if (options.streams === 0 || options.rate > 0) {
    console.log(`requests   ${plain.done} whole answers, ${(plain.done / seconds).toFixed(1)}/s`);
    console.log(`  answer in   ${spread(plain.latency)}`);
    if (unanswered > 0) console.log(`  ${unanswered} had no answer five seconds after the end`);
  }
  if (options.streams > 0) {
    console.log(
      `streams    ${options.streams} at once, ${streamed.done} ended whole, ${streamed.events} events, ${(streamed.events / seconds).toFixed(0)}/s`,
    );
    console.log(`  first event ${spread(streamed.firstEvent)}`);
    if (streamed.done > 0) console.log(`  whole in    ${spread(streamed.latency)}`);
  }
  const statuses = new Map([...plain.statuses]);
  for (const [status, count] of streamed.statuses) statuses.set(status, (statuses.get(status) ?? 0) + count);
  console.log(`statuses   ${[...statuses].map(([status, count]) => `${status}: ${count}`).join('  ') || 'none'}`);
  for (const tally of [plain, streamed]) {
    for (const [error, count] of tally.errors) console.log(`error      ${count} × ${error}`);
  }
}

function spread(times: Tally['latency']): string {
  if (times.count === 0) return 'none';
  const at = (percent: number): string => ms(times.percentile(percent));
  return `p50 ${at(50)}  p90 ${at(90)}  p99 ${at(99)}  max ${ms(times.max)}`;
}

function ms(nanos: number): string {
  return `${(nanos / 1e6).toFixed(nanos < 1e7 ? 2 : 0)} ms`;
}

function sum(counts: ReadonlyMap<string, number>): number {
  let total = 0;
  for (const count of counts.values()) total += count;
  return total;
}

function sleep(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

/** A tally as plain values. Times in milliseconds. */
export interface Summary {
  readonly done: number;
  readonly events: number;
  readonly statuses: Readonly<Record<string, number>>;
  readonly errors: Readonly<Record<string, number>>;
  readonly p50: number;
  readonly p99: number;
  readonly firstEventP50: number;
  readonly firstEventP99: number;
}

export function summarize(tally: Tally): Summary {
  const at = (times: Tally['latency'], percent: number): number =>
    times.count === 0 ? 0 : times.percentile(percent) / 1e6;
  return {
    done: tally.done,
    events: tally.events,
    statuses: Object.fromEntries(tally.statuses),
    errors: Object.fromEntries(tally.errors),
    p50: at(tally.latency, 50),
    p99: at(tally.latency, 99),
    firstEventP50: at(tally.firstEvent, 50),
    firstEventP99: at(tally.firstEvent, 99),
  };
}

function readOptions(): Options {
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
  const number = (name: 'rate' | 'streams' | 'duration' | 'body-bytes' | 'max-tokens'): number => {
    const value = Number(values[name]);
    if (!(value >= 0)) throw new TypeError(`--${name} must be a number`);
    return value;
  };
  if (values.help) {
    process.stdout.write(USAGE);
    process.exit(0);
  }
  if (!URL.canParse(values['base-url']))
    throw new TypeError('--base-url must be an address such as http://127.0.0.1:8080/v1');
  if (values.key === '') throw new TypeError('--key is missing');
  return {
    baseUrl: values['base-url'],
    key: values.key,
    model: values.model,
    rate: number('rate'),
    streams: number('streams'),
    seconds: number('duration'),
    bodyBytes: number('body-bytes'),
    maxTokens: number('max-tokens'),
    json: values.json,
  };
}

if (import.meta.main) {
  try {
    await run(readOptions());
  } catch (error) {
    const wrong = error instanceof TypeError;
    console.error(wrong ? `${error.message}\n\n${USAGE}` : `load: ${(error as Error).message}`);
    process.exit(wrong ? 64 : 1);
  }
}
