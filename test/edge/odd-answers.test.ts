import fc from 'fast-check';
import t from 'tap';
import { CallMeter } from '../../src/gateway/answer/call-meter.ts';
import { Relay } from '../../src/gateway/answer/relay.ts';
import { ChatStream } from '../../src/sse/chat-stream.ts';
import { type Answer, ask, chunksOf, dataOf } from '../support/client.ts';
import { fuzzRuns } from '../support/fuzz.ts';
import { startGateway } from '../support/gateway.ts';
import { chunk, httpAnswer, rawUpstream, STREAM_HEAD } from './raw.ts';

/**
 * Answers whose members have types that no upstream should send. They are read within callbacks of a socket: whatever
 * they hold, each call ends by itself, and the process lives. `FUZZ_RUNS` and `FUZZ_SEED` are those of
 * test/sse/fuzz.ts.
 */

const upstream = await rawUpstream(t);
const gateway = await startGateway(t, upstream.url, { IDLE_SECONDS: '5' });
const company = await gateway.company({ budget: '1000' });
await gateway.sql`update companies set max_concurrent = 1, budget_mode = 'strict' where id = ${company}`;
await gateway.model('brand-chat', { upstream: 'internal-chat', company });
await gateway.model('brand-embed', { upstream: 'internal-embed', kind: 'embedding', company });
await gateway.model('brand-rerank', { upstream: 'internal-rerank', kind: 'rerank', company });
const assistant = await gateway.assistant(company, { model: 'brand-chat' });
const key = await gateway.key(company);

const messages = [{ role: 'user', content: 'Hello' }];
const chat = { model: 'brand-chat', messages, max_tokens: 10 };
const text = { model: 'brand-chat', prompt: ['Hello', 'Bye'], max_tokens: 10 };
const response = { model: 'brand-chat', input: 'Hello', max_output_tokens: 10 };
const embedding = { model: 'brand-embed', input: 'Hello' };
const CALLS: readonly (readonly [path: string, body: object])[] = [
  ['/chat/completions', chat],
  ['/chat/completions', { ...chat, stream: true }],
  ['/completions', text],
  ['/completions', { ...text, stream: true, echo: true }],
  ['/responses', response],
  ['/responses', { ...response, stream: true }],
  ['/messages', chat],
  ['/messages', { ...chat, stream: true }],
  ['/messages/count_tokens', { model: 'brand-chat', messages }],
  ['/embeddings', embedding],
  ['/embeddings', { ...embedding, encoding_format: 'base64' }],
  ['/rerank', { model: 'brand-rerank', query: 'Hello', documents: ['Hello', { text: 'Bye' }] }],
  [`/assistants/${assistant}/run`, { messages, max_tokens: 10 }],
];

const odd: fc.Arbitrary<unknown> = fc.oneof(
  fc.constantFrom(
    null,
    true,
    false,
    0,
    -1,
    7,
    0.5,
    1e300,
    '',
    'x',
    'error',
    'AAAAPw==',
    'litellm.APIError: at 10.0.0.7',
  ),
  fc.constantFrom(
    {},
    [],
    [null],
    [{}],
    [[]],
    ['x'],
    [0.5],
    { toString: 1 },
    { length: 1 },
    { length: 'x' },
  ),
  fc.constantFrom(
    { length: 5e9 },
    { toJSON: 1 },
    { message: {} },
    { code: { valueOf: 1, toString: 1 } },
  ),
);
/** What a member should be, now and then something else, or missing. */
const member = (right: fc.Arbitrary<unknown>) =>
  fc.option(fc.oneof({ weight: 2, arbitrary: right }, odd), { nil: undefined });
const record = (members: Record<string, fc.Arbitrary<unknown>>) =>
  fc.record(
    Object.fromEntries(Object.entries(members).map(([name, right]) => [name, member(right)])),
  );
const list = (item: fc.Arbitrary<unknown>) =>
  fc.array(fc.oneof({ weight: 3, arbitrary: item }, odd), { maxLength: 3 });
const words = fc.constantFrom(
  'a',
  'The model does not exist',
  'maximum context length',
  'content_filter',
  'invalid model',
);

const usage = record({
  prompt_tokens: fc.nat(9),
  completion_tokens: fc.nat(9),
  input_tokens: fc.nat(9),
  output_tokens: fc.nat(9),
  total_tokens: fc.nat(9),
  cost: fc.double(),
  prompt_tokens_details: record({ cached_tokens: fc.nat(9), audio_tokens: fc.nat(9) }),
  output_tokens_details: record({ thinking_tokens: fc.nat(9), reasoning_tokens: fc.nat(9) }),
});
const part = record({ type: fc.constant('text'), text: words });
const choice = record({
  index: fc.nat(2),
  message: record({ role: fc.constant('assistant'), content: words, tool_calls: list(part) }),
  delta: record({ content: words }),
  finish_reason: fc.constantFrom(null, 'stop'),
  error: record({ message: words }),
});
const types = fc.constantFrom(
  'response.created',
  'response.output_text.delta',
  'response.completed',
  'response.failed',
  'error',
  'message_start',
  'content_block_delta',
  'message_delta',
  'message_stop',
);
const result = {
  object: words,
  model: fc.constantFrom('internal-chat', 'internal-embed'),
  choices: list(choice),
  data: list(
    record({
      embedding: fc.oneof(fc.constant('AAAAPw=='), fc.array(odd, { maxLength: 3 })),
      index: fc.nat(2),
    }),
  ),
  results: list(
    record({ index: fc.nat(2), relevance_score: fc.double(), document: fc.oneof(words, part) }),
  ),
  meta: record({
    tokens: record({ input_tokens: fc.nat(9) }),
    billed_units: record({ total_tokens: fc.nat(9) }),
  }),
  output: list(record({ content: list(part) })),
  content: list(part),
  usage,
  x_groq: record({ usage }),
  input_tokens: fc.nat(9),
};
const whole = record(result);
const event = record({ ...result, type: types, delta: words, response: whole, message: whole });
const failure = record({
  error: record({ message: words, code: words, param: words, detail: words, type: words }),
  message: words,
  detail: list(record({ loc: list(words), msg: words })),
});
const anyObject = fc.oneof(whole, failure, event, odd);

interface Odd {
  readonly call: (typeof CALLS)[number];
  readonly status: number;
  readonly asStream: boolean;
  readonly events: readonly unknown[];
  readonly done: boolean;
}

const odds: fc.Arbitrary<Odd> = fc.record({
  call: fc.constantFrom(...CALLS),
  status: fc.constantFrom(200, 200, 200, 200, 400, 400, 413, 422, 404, 429, 500),
  asStream: fc.boolean(),
  events: fc.array(fc.oneof({ weight: 3, arbitrary: event }, anyObject), {
    minLength: 1,
    maxLength: 4,
  }),
  done: fc.boolean(),
});

function answerOf({ status, asStream, events, done }: Odd): Buffer {
  if (!asStream || status !== 200)
    return httpAnswer(status, 'application/json', JSON.stringify(events[0]));
  const data =
    events.map((each) => `data: ${JSON.stringify(each)}\n\n`).join('') +
    (done ? 'data: [DONE]\n\n' : '');
  return Buffer.from(`${STREAM_HEAD}${chunk(data)}0\r\n\r\n`);
}

const CODES = new Set([
  'invalid_request_error',
  'rate_limit_error',
  'api_error',
  'timeout_error',
  'request_too_large',
]);
const STATUSES = new Set([400, 413, 429, 502, 504]);

/** Why the answer is none that the documents name; empty: it is one. */
function faultOf({ status, headers, text }: Answer, path: string): string {
  if (!/^application\/json/.test(headers.get('content-type') ?? '')) {
    if (status !== 200) return 'a status without JSON';
    for (const each of chunksOf(text))
      if (typeof each !== 'object' || each === null) return 'an event that is no object';
    return dataOf(text).length === 0 ? 'an empty stream' : '';
  }
  const answer = JSON.parse(text);
  if (status === 200) return answer === null || typeof answer !== 'object' ? 'no object' : '';
  const isLacking = status === 404 && path === '/messages/count_tokens'; // a router without it
  if (!STATUSES.has(status) && !isLacking) return 'a status that is not documented';
  const { message, type } = answer.error;
  const isNamed = isLacking
    ? answer.type === 'error' && type === 'not_found_error'
    : CODES.has(type ?? '');
  return typeof message === 'string' && message !== '' && isNamed ? '' : 'an error of another form';
}

t.test(
  'an answer with members of any type ends its call with a documented answer, and nothing else',
  async (t) => {
    const { FUZZ_RUNS, FUZZ_SEED } = process.env;
    const seed = Number(FUZZ_SEED ?? (FUZZ_RUNS === undefined ? 1 : Date.now() & 0x7fffffff));
    t.comment(`FUZZ_SEED=${seed}`);
    let limited = 0;
    for (const odd of fc.sample(odds, { seed, numRuns: fuzzRuns(150) })) {
      const [path, body] = odd.call;
      upstream.answer((socket) => void socket.write(answerOf(odd)));
      const answer = await ask(gateway.url + path, {
        key,
        body,
        signal: AbortSignal.timeout(20_000),
      });
      if (answer.status === 429 && odd.status !== 429) limited++;
      const fault = faultOf(answer, path);
      if (fault !== '')
        t.fail(fault, { path, odd, answer: { status: answer.status, text: answer.text } });
    }
    const faults = gateway.logged
      .filter((line) => line.startsWith('{"level":50'))
      .map((line) => JSON.parse(line));
    t.same(
      [...new Set(faults.map(({ err, msg }) => err?.stack ?? msg))],
      [],
      'no fault of the gateway itself',
    );
    t.equal(limited, 0, 'a call leaves its slot');
  },
);

t.test('vectors of which one is neither floats nor base64 are a broken answer', async (t) => {
  for (const last of [{}, { length: 1 }, { length: 'x' }, null, 7]) {
    for (const [first, format] of [
      [[0.5], 'base64'],
      ['AAAAPw==', 'float'],
    ]) {
      const data = [{ embedding: first }, { embedding: last }];
      upstream.answer(
        (socket) =>
          void socket.write(httpAnswer(200, 'application/json', JSON.stringify({ data }))),
      );
      const body = { ...embedding, encoding_format: format };
      t.match(
        await ask(`${gateway.url}/embeddings`, { key, body }),
        { status: 502 },
        `${JSON.stringify(last)} ${format}`,
      );
    }
  }
});

/** What `act` makes while a method throws. */
async function withFault<T>(
  { prototype }: { prototype: object },
  method: string,
  act: () => Promise<T>,
): Promise<T> {
  const original = Object.getOwnPropertyDescriptor(prototype, method);
  const value = (): never => {
    throw new TypeError('a fault');
  };
  Object.defineProperty(prototype, method, { configurable: true, writable: true, value });
  try {
    return await act();
  } finally {
    if (original !== undefined) Object.defineProperty(prototype, method, original);
    else Reflect.deleteProperty(prototype, method); // inherited
  }
}

const OK = httpAnswer(
  200,
  'application/json',
  '{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}',
);
const OWN_FAULT = { status: 500, json: { error: { code: 'internal_error' } } };

t.test(
  'a fault of the gateway in one call ends that call: it is logged, and its slot is free again',
  async (t) => {
    const stream = Buffer.from(
      `${STREAM_HEAD}${chunk('data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n')}`,
    );
    const call = (body: object) => ask(`${gateway.url}/chat/completions`, { key, body });
    const faulty: readonly (readonly [
      type: { prototype: object },
      method: string,
      answer: Buffer,
      body: object,
    ])[] = [
      [Relay, 'statusError', httpAnswer(400, 'application/json', '{}'), chat],
      [CallMeter, 'settle', OK, chat],
      [CallMeter, 'upstreamFailed', httpAnswer(500, 'application/json', '{}'), chat],
      [ChatStream, 'note', stream, { ...chat, stream: true }],
      [ChatStream, 'usage', stream, { ...chat, stream: true }],
    ];
    for (const [type, method, answer, body] of faulty) {
      upstream.answer((socket) => void socket.write(answer));
      const logged = gateway.logged.length;
      const got = await withFault(type, method, () => call(body).catch(() => 'broken off'));
      // the usage is needed to end a stream, which may have begun
      if (method !== 'usage' || got !== 'broken off') t.match(got, OWN_FAULT, method);
      t.match(gateway.logged.slice(logged).join(''), /"level":50.*a fault/, method);
      upstream.answer((socket) => void socket.write(OK));
      t.equal((await call(chat)).status, 200, `the next call after ${method}`);
    }
  },
);

t.test('a fault at a deadline ends its call', async (t) => {
  const hasty = await startGateway(t, upstream.url, { FIRST_BYTE_SECONDS: '1' });
  const company = await hasty.company();
  await hasty.model('brand-chat', { upstream: 'internal-chat', company });
  const key = await hasty.key(company);
  upstream.answer(() => {});
  const call = () => ask(`${hasty.url}/chat/completions`, { key, body: chat });
  t.match(await withFault(CallMeter, 'upstreamFailed', call), OWN_FAULT);
});
