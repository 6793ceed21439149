import dns from 'node:dns';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import OpenAI from 'openai';
import t, { type Test } from 'tap';
import { blackHole } from '../support/black-hole.ts';
import { type Answer, ask, chunksOf, dataOf, open, thrownBy } from '../support/client.ts';
import { startGateway, type TestGateway } from '../support/gateway.ts';
import { until } from '../support/until.ts';
import { type Customer, customerWith } from '../support/world.ts';
import { chunk, httpAnswer, rawUpstream, STREAM_HEAD } from './raw.ts';

/** Every failure of an upstream gives one documented answer, the same on every endpoint. */

const SECONDS = {
  CONNECT_SECONDS: '1',
  FIRST_BYTE_SECONDS: '1',
  IDLE_SECONDS: '1',
  TOTAL_SECONDS: '3',
};
const upstream = await rawUpstream(t);
const gateway = await startGateway(t, upstream.url, { ...SECONDS, MAX_EVENT_BYTES: '100000' });
const { customer, assistant } = await furnish(gateway);

async function furnish(gateway: TestGateway): Promise<{ customer: Customer; assistant: string }> {
  const company = await gateway.company();
  await gateway.model('brand-chat', { upstream: 'internal-chat', company });
  await gateway.model('brand-embed', { upstream: 'internal-embed', kind: 'embedding', company });
  await gateway.model('brand-rerank', { upstream: 'internal-rerank', kind: 'rerank', company });
  const assistant = await gateway.assistant(company, { model: 'brand-chat' });
  return { customer: customerWith(gateway.url, company, await gateway.key(company)), assistant };
}

/** @param text the prompt or the input */
type Call = (customer: Customer, assistant: string, text?: string) => Promise<Answer>;
const asking = (content = 'Hello') => ({ messages: [{ role: 'user', content }] });
const CALLS: Record<string, Call> = {
  chat: (customer, _assistant, text) => customer.chat(asking(text)),
  stream: (customer, _assistant, text) => customer.chat({ stream: true, ...asking(text) }),
  embeddings: (customer, _assistant, text = 'Hello') => customer.embed({ input: text }),
  rerank: ({ ask }, _assistant, query = 'Hello') =>
    ask('/rerank', { body: { model: 'brand-rerank', query, documents: ['a', 'b'] } }),
  assistant: (customer, assistant, text) => customer.run(assistant, asking(text)),
};

const COMPLETION = JSON.stringify({
  id: 'chatcmpl-1',
  object: 'chat.completion',
  created: 1,
  model: 'internal-chat',
  choices: [{ index: 0, message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 3, completion_tokens: 5, total_tokens: 8 },
});
const EMBEDDING = JSON.stringify({
  object: 'list',
  model: 'internal-embed',
  data: [{ object: 'embedding', index: 0, embedding: [0.5, 0.25] }],
  usage: { prompt_tokens: 3, total_tokens: 3 },
});
const RANKED = JSON.stringify({
  results: [{ index: 0, relevance_score: 0.5 }],
  usage: { total_tokens: 3 },
});
const event = (more: object) =>
  `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', model: 'internal-chat', ...more })}\n\n`;
const TOKEN = event({
  choices: [{ index: 0, delta: { role: 'assistant', content: 'Hel' }, finish_reason: null }],
});
const FINISH = event({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] });
const USAGE = event({
  choices: [],
  usage: { prompt_tokens: 3, completion_tokens: 5, total_tokens: 8 },
});
const DONE = 'data: [DONE]\n\n';

type Expected = readonly [status: number, type: string, code: string | null];
const BROKEN: Expected = [502, 'api_error', 'upstream_error'];
const UNREACHABLE: Expected = [503, 'overloaded_error', 'service_unavailable'];
const SLOW: Expected = [504, 'timeout_error', 'upstream_timeout'];
const INVALID: Expected = [400, 'invalid_request_error', null];

interface Failure {
  readonly play: (socket: Socket, streamed: boolean) => void | Promise<void>;
  readonly expected: Expected;
  /** The calls that can fail so; default: all. */
  readonly only?: readonly string[];
}

const send = (bytes: string | Buffer) => (socket: Socket) => void socket.write(bytes);
const json = (status: number, body: unknown, more: readonly string[] = []) =>
  send(
    httpAnswer(
      status,
      'application/json',
      typeof body === 'string' ? body : JSON.stringify(body),
      more,
    ),
  );
const OK_HEAD = 'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n';

const FAILURES: Record<string, Failure> = {
  'closed before any byte': { play: (socket) => void socket.end(), expected: BROKEN },
  'reset before any byte': { play: (socket) => void socket.resetAndDestroy(), expected: BROKEN },
  'no HTTP at all': { play: send('SSH-2.0-OpenSSH_9.2\r\n'), expected: BROKEN },
  silence: { play: () => {}, expected: SLOW },
  'a head that never ends': {
    play: (socket) => trickle(socket, 'HTTP/1.1 200 OK\r\n', 'x-a: 1\r\n'),
    expected: SLOW,
  },
  'a flood of 103s': {
    play: (socket) =>
      trickle(socket, '', 'HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n'.repeat(50)),
    expected: SLOW,
  },
  'a head of 100 KB': {
    play: send(`${OK_HEAD}x: ${'a'.repeat(100_000)}\r\n\r\n`),
    expected: BROKEN,
  },
  'two lengths': {
    play: send(`${OK_HEAD}content-length: 5\r\ncontent-length: 6\r\n\r\nhello!`),
    expected: BROKEN,
  },
  'a head, then silence': { play: send(`${OK_HEAD}content-length: 50\r\n\r\n`), expected: SLOW },
  'half a body, then silence': {
    play: (socket, streamed) =>
      void socket.write(
        streamed
          ? STREAM_HEAD + chunk('data: {"id')
          : `${OK_HEAD}content-length: 500\r\n\r\n{"id":`,
      ),
    expected: SLOW,
  },
  'bytes for ever, one by one': {
    play: (socket, streamed) =>
      trickle(
        socket,
        streamed ? STREAM_HEAD : `${OK_HEAD}transfer-encoding: chunked\r\n\r\n`,
        chunk(' '),
      ),
    expected: SLOW,
  },
  'half a body, then closed': {
    play: (socket) =>
      void socket.end(`${OK_HEAD}content-length: 500\r\n\r\n${COMPLETION.slice(0, 60)}`),
    expected: BROKEN,
  },
  'half a body, then reset': {
    play: async (socket) => {
      await delivered(socket, `${OK_HEAD}content-length: 500\r\n\r\n${COMPLETION.slice(0, 60)}`);
      socket.resetAndDestroy();
    },
    expected: BROKEN,
  },
  'an HTML page': {
    play: send(httpAnswer(200, 'text/html', '<html>internal-chat</html>')),
    expected: BROKEN,
  },
  'HTML called JSON': {
    play: send(httpAnswer(200, 'application/json', '<html>internal</html>')),
    expected: BROKEN,
  },
  'JSON called text': { play: send(httpAnswer(200, 'text/plain', COMPLETION)), expected: BROKEN },
  'no content type': {
    play: send('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}'),
    expected: BROKEN,
  },
  'an empty body': { play: json(200, ''), expected: BROKEN },
  'an empty object': { play: json(200, '{}'), expected: BROKEN },
  'an object of another kind': {
    play: json(200, { detail: 'internal-chat is not here' }),
    expected: BROKEN,
  },
  'an array': { play: json(200, '[]'), expected: BROKEN },
  'JSON cut and called whole': { play: json(200, COMPLETION.slice(0, -20)), expected: BROKEN },
  'two objects': { play: json(200, COMPLETION + COMPLETION), expected: BROKEN },
  'an error in a 200': {
    play: json(200, { error: { message: 'internal-chat failed', code: 500 } }),
    expected: BROKEN,
  },
  'an error text in a 200': {
    play: json(200, { error: 'internal-chat failed' }),
    expected: BROKEN,
  },
  'compressed and declared': {
    play: send(
      httpAnswer(200, 'application/json', gzipSync(COMPLETION), ['content-encoding: gzip']),
    ),
    expected: BROKEN,
  },
  'compressed and not declared': {
    play: send(httpAnswer(200, 'application/json', gzipSync(COMPLETION))),
    expected: BROKEN,
  },
  'a wrong length': {
    play: (socket) => void socket.end(`${OK_HEAD}content-length: 5000\r\n\r\n${COMPLETION}`),
    expected: BROKEN,
  },
  'a broken chunk': {
    play: send(`${OK_HEAD}transfer-encoding: chunked\r\n\r\nZZ\r\n`),
    expected: BROKEN,
  },
  'no content for a stream': { play: send('HTTP/1.1 204 No Content\r\n\r\n'), expected: BROKEN },
  'half of it (206)': { play: json(206, COMPLETION), expected: BROKEN },
  'a redirect': { play: json(302, '', ['location: http://internal.example/v1']), expected: BROKEN },
  'a permanent redirect': {
    play: json(308, '', ['location: http://127.0.0.1:1/internal']),
    expected: BROKEN,
  },
  'a switch of protocols': {
    play: send('HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n'),
    expected: BROKEN,
  },
  'a stream for a plain request': {
    play: (socket) =>
      void socket.write(`${STREAM_HEAD + chunk(TOKEN + FINISH + USAGE + DONE)}0\r\n\r\n`),
    expected: BROKEN,
    only: ['chat', 'embeddings', 'rerank', 'assistant'],
  },
  'JSON for a stream': { play: json(200, COMPLETION), expected: BROKEN, only: ['stream'] },
  'an error event first': {
    play: streamOf('data: {"error":{"message":"internal-chat","code":"x"}}\n\n'),
    expected: BROKEN,
    only: ['stream'],
  },
  'an error event named so': {
    play: streamOf('event: error\ndata: {"message":"internal"}\n\n'),
    expected: BROKEN,
    only: ['stream'],
  },
  'an error event without a member for it': {
    play: streamOf(
      `data: {"object":"error","message":"litellm.APIError: internal-chat at 10.0.0.7","code":500}\n\n${DONE}`,
    ),
    expected: BROKEN,
    only: ['stream'],
  },
  'an error event in another shape': {
    play: streamOf(`data: {"detail":"internal-chat at http://10.0.0.7:8000 died"}\n\n${DONE}`),
    expected: BROKEN,
    only: ['stream'],
  },
  'errors beside an empty list of results': {
    play: json(200, {
      success: false,
      data: [],
      choices: [],
      errors: [{ message: 'internal-chat died' }],
    }),
    expected: BROKEN,
  },
  'an error field': {
    play: streamOf('error: {"message":"internal"}\n\n'),
    expected: BROKEN,
    only: ['stream'],
  },
  'a bare JSON line': {
    play: streamOf('{"error":{"message":"internal"}}\n'),
    expected: BROKEN,
    only: ['stream'],
  },
  'HTML in a stream': {
    play: streamOf('<html>internal</html>\n\n'),
    expected: BROKEN,
    only: ['stream'],
  },
  'an empty stream': { play: streamOf(''), expected: BROKEN, only: ['stream'] },
  'an event larger than allowed': {
    play: streamOf(`data: {"a":"${'x'.repeat(200_000)}"}\n\n`),
    expected: BROKEN,
    only: ['stream'],
  },
};
FAILURES['status 408'] = {
  play: json(408, { error: { message: 'internal-chat' } }),
  expected: SLOW,
}; // a router's deadline
for (const status of [400, 422])
  FAILURES[`status ${status}`] = {
    play: json(status, { error: { message: 'bad top_p' } }),
    expected: INVALID,
  };
FAILURES['status 413'] = {
  play: json(413, { error: 'too big' }),
  expected: [413, 'invalid_request_error', 'request_too_large'],
};
FAILURES['status 429'] = {
  play: json(429, { error: { message: 'internal-chat' } }, ['retry-after: 7']),
  expected: [429, 'rate_limit_error', 'rate_limit_exceeded'],
};
for (const status of [503, 529])
  FAILURES[`status ${status}`] = {
    play: json(status, { error: { message: 'internal-chat' } }),
    expected: UNREACHABLE,
  };
for (
  let status = 400;
  status < 600;
  status += status < 430 || (status >= 500 && status < 512) ? 1 : 7
) {
  FAILURES[`status ${status}`] ??= {
    play: json(status, { error: { message: 'internal-chat' } }),
    expected: BROKEN,
  };
}

function streamOf(text: string) {
  return (socket: Socket) =>
    void socket.write(`${STREAM_HEAD}${text === '' ? '' : chunk(text)}0\r\n\r\n`);
}

/** Writes to the gateway, which runs in this process: it has read the bytes a few turns of the event loop later. */
async function delivered(socket: Socket, bytes: string | Buffer): Promise<void> {
  await new Promise<void>((resolve) => socket.write(bytes, () => resolve()));
  for (let turn = 0; turn < 5; turn++) await new Promise(setImmediate);
}

async function trickle(socket: Socket, first: string, rest: string): Promise<void> {
  socket.write(first);
  while (!socket.destroyed) {
    socket.write(rest);
    await sleep(50); // paced traffic
  }
}

function isError(
  t: Test,
  name: string,
  { status, headers, text, json }: Answer,
  expected: Expected,
): void {
  t.same(
    [status, json?.error?.type, json?.error?.code],
    expected,
    `${name}: ${text.slice(0, 200)}`,
  );
  t.match(headers.get('x-request-id'), /^[0-9a-f-]{36}$/, name);
  t.notMatch(`${[...headers]}${text}`, /internal|127\.0\.0\.1|SSH|ECONN|UND_/, name);
  // where the model may have run, a retry could charge twice
  const safe = status === 503 || status === 429 || status === 400 || status === 413;
  if (!safe && (status !== 502 || headers.get('x-should-retry') !== null))
    t.equal(headers.get('x-should-retry'), 'false', name);
}

t.test(
  'what an upstream answers well, behind interim answers, reaches the client with 200',
  async (t) => {
    upstream.answer((socket, request) => {
      if (process.env.FAST_HTTP !== 'off') socket.write('HTTP/1.1 100 Continue\r\n\r\n'); // an error to undici
      socket.write('HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n');
      if (request.includes('"stream":true'))
        socket.write(`${STREAM_HEAD + chunk(TOKEN + FINISH + USAGE + DONE)}0\r\n\r\n`);
      else if (request.includes('/rerank')) json(200, RANKED)(socket);
      else json(200, request.includes('/embeddings') ? EMBEDDING : COMPLETION)(socket);
    });
    for (const [name, call] of Object.entries(CALLS))
      t.equal((await call(customer, assistant)).status, 200, name);
  },
);

t.test('every failure is one documented answer on every endpoint', async (t) => {
  upstream.answer((socket, request) => {
    const name = /failure: ([^"]+)"/.exec(request)?.[1] as string;
    void (FAILURES[name] as Failure).play(socket, request.includes('"stream":true'));
  });
  const fail = async ([name, { expected, only = Object.keys(CALLS) }]: [string, Failure]) => {
    const answers = only.map(async (kind) => {
      const answer = await (CALLS[kind] as Call)(customer, assistant, `failure: ${name}`);
      isError(t, `${kind}, ${name}`, answer, expected);
    });
    await Promise.all(answers);
  };
  const all = Object.entries(FAILURES);
  await Promise.all(all.filter(([, { expected }]) => expected === SLOW).map(fail)); // each waits for a time limit
  for (const failure of all.filter(([, { expected }]) => expected !== SLOW)) await fail(failure);
  const rows = await gateway.ledger(customer.company, 0);
  t.equal(
    rows.filter(({ outcome }) => outcome === 'completed').length,
    5,
    'only what succeeded is booked as such',
  );
});

t.test(
  'after a success of another status than 200, or a proxy that waited too long, a retry could charge twice',
  async (t) => {
    for (const status of [201, 202, 204, 206, 504, 524]) {
      upstream.answer(json(status, status === 204 ? '' : COMPLETION));
      for (const [kind, call] of Object.entries(CALLS)) {
        const answer = await call(customer, assistant);
        t.equal(answer.status, 502);
        t.equal(answer.headers.get('x-should-retry'), 'false', `${kind}, ${status}`);
      }
    }
  },
);

t.test(
  'an unreachable upstream is 503 with retry-after: nothing ran, a retry is safe',
  async (t) => {
    const hole = await blackHole(t);
    const urls = {
      'refused at both addresses': `http://${twoAddresses(t)}:1/v1`,
      blackholed: hole,
      'unknown host': 'http://no-such-host.invalid/v1',
      'no TLS there': upstream.url.replace('http:', 'https:'),
    };
    const attempts = Object.entries(urls).map(async ([name, url]) => {
      const other = await startGateway(t, url, SECONDS);
      const { customer, assistant } = await furnish(other);
      const answers = Object.entries(CALLS).map(async ([kind, call]) => {
        const answer = await call(customer, assistant);
        isError(t, `${kind}, ${name}`, answer, UNREACHABLE);
        t.equal(answer.headers.get('retry-after'), '1');
        t.equal(answer.headers.get('x-should-retry'), null);
      });
      await Promise.all(answers);
      t.equal((await other.ledger(customer.company, 0)).length, 0);
      const reasons = other.logged
        .filter((line) => line.includes('upstream failed'))
        .map((line) => JSON.parse(line).reason);
      t.equal(reasons.length, answers.length);
      t.notOk(reasons.includes(''), `the log says why: ${name}`);
    });
    await Promise.all(attempts);
  },
);

/** A name that stands for two addresses of this machine. */
function twoAddresses(t: Test): string {
  const name = 'two-addresses.example';
  const { lookup } = dns;
  t.teardown(() => Object.assign(dns, { lookup }));
  const found = ['127.0.0.1', '127.0.0.2'].map((address) => ({ address, family: 4 }));
  Object.assign(dns, {
    lookup(
      host: string,
      ...more: [dns.LookupOptions, (error: null, found: dns.LookupAddress[]) => void]
    ) {
      if (host === name) more[1](null, found);
      else lookup(host, ...(more as unknown as [dns.LookupOneOptions, () => void]));
    },
  });
  return name;
}

t.test('a stream cut at any byte never ends like a whole one', async (t) => {
  const body = TOKEN + TOKEN + FINISH + USAGE + DONE;
  const step = process.env.FUZZ_RUNS === undefined ? 29 : 1;
  for (const ending of ['close', 'reset', 'clean'] as const) {
    for (let at = 0; at < body.length; at += step) {
      upstream.answer(async (socket) => {
        if (ending === 'clean') {
          socket.write(`${STREAM_HEAD + (at === 0 ? '' : chunk(body.slice(0, at)))}0\r\n\r\n`);
          return;
        }
        await delivered(
          socket,
          STREAM_HEAD + (at === 0 ? '' : chunk(body.slice(0, at)).slice(0, -2)),
        );
        if (ending === 'close') socket.end();
        else socket.resetAndDestroy();
      });
      const { status, text, headers } = await customer.chat({ stream: true });
      const ended = dataOf(text).at(-1) === '[DONE]';
      const said = body.slice(0, at);
      const whole =
        said.includes('[DONE]') ||
        (ending === 'clean' && said.endsWith('\n\n') && said.includes('"stop"'));
      if (ended !== whole) t.fail(`${ending} at ${at}: ${text}`);
      if (!whole) {
        const error = status === 200 ? chunksOf(text).at(-1).error : JSON.parse(text).error;
        if (error?.code !== 'upstream_error') t.fail(`${ending} at ${at}: ${status} ${text}`);
        if (status !== 200 && headers.get('x-should-retry') !== 'false')
          t.fail(`${ending} at ${at}: retry`);
      }
    }
    t.pass(ending);
  }
});

t.test('a JSON answer cut at any byte is a failure', async (t) => {
  const bytes = httpAnswer(200, 'application/json', COMPLETION);
  const step = process.env.FUZZ_RUNS === undefined ? 37 : 1;
  for (let at = 0; at < bytes.length; at += step) {
    upstream.answer((socket) => void socket.end(bytes.subarray(0, at)));
    const answer = await customer.chat();
    if (answer.status !== 502) t.fail(`at ${at}: ${answer.status} ${answer.text}`);
  }
  t.pass('every cut');
});

t.test('after the first event every failure ends in one error event', async (t) => {
  const sockets = new Map<string, Socket>();
  upstream.answer((socket, request) => {
    sockets.set(/failure: ([^"]+)"/.exec(request)?.[1] as string, socket);
    socket.write(STREAM_HEAD + chunk(TOKEN));
  });
  const endings: Record<string, readonly [(socket: Socket) => void | Promise<void>, string]> = {
    silence: [() => {}, 'upstream_timeout'],
    'comments for ever': [
      (socket) => trickle(socket, '', chunk(': internal\n\n')),
      'upstream_timeout',
    ],
    'an error event': [
      (socket) => void socket.write(chunk('data: {"error":{"message":"internal-x"}}\n\n')),
      'upstream_error',
    ],
    'an error string': [
      (socket) => void socket.write(chunk('data: {"error":"internal-x"}\n\n')),
      'upstream_error',
    ],
    'a named error event': [
      (socket) => void socket.write(chunk('event: error\ndata: {"detail":"internal-x"}\n\n')),
      'upstream_error',
    ],
    'no JSON': [(socket) => void socket.write(chunk('data: internal-x\n\n')), 'upstream_error'],
    'a huge event': [
      (socket) => void socket.write(chunk(`data: {"x":"${'y'.repeat(150_000)}`)),
      'upstream_error',
    ],
    'a broken chunk': [(socket) => void socket.write('zz\r\n'), 'upstream_error'],
    'a reset': [(socket) => void socket.resetAndDestroy(), 'upstream_error'],
  };
  const outcomes = Object.entries(endings).map(async ([name, [play, code]]) => {
    const response = await streamed(`failure: ${name}`);
    t.equal(response.status, 200, name);
    const text = await readOn(response, () => void play(sockets.get(name) as Socket));
    t.equal(chunksOf(text).at(-1).error?.code, code, `${name}: ${text.slice(0, 400)}`);
    t.equal(chunksOf(text)[0].choices[0].delta.content, 'Hel', name);
    t.notMatch(text, /DONE|internal/, name);
  });
  await Promise.all(outcomes);
});

/** A streamed answer on its way. */
function streamed(text: string): Promise<Response> {
  const body = { model: 'brand-chat', stream: true, ...asking(text) };
  return open(`${gateway.url}/chat/completions`, { key: customer.key, body });
}

/** Reads a streamed answer. @param then called once its first bytes are here @returns all of its text */
async function readOn(response: Response, then: () => void): Promise<string> {
  const decoder = new TextDecoder();
  let text = '';
  for await (const bytes of response.body as ReadableStream<Uint8Array>) {
    if (text === '') then();
    text += decoder.decode(bytes, { stream: true });
  }
  return text;
}

t.test(
  'when the usage is missing or told twice, the answer passes and the ledger has one row',
  async (t) => {
    const plays: Record<string, readonly [string, string, string]> = {
      missing: [TOKEN + FINISH + DONE, 'estimated', ''],
      twice: [
        TOKEN +
          event({ choices: [], usage: { prompt_tokens: 1, completion_tokens: 1 } }) +
          FINISH +
          USAGE +
          DONE,
        'upstream',
        '3 5',
      ],
      null: [TOKEN + FINISH + event({ choices: [], usage: null }) + DONE, 'estimated', ''],
    };
    for (const [name, [body, source, tokens]] of Object.entries(plays)) {
      const company = await gateway.company();
      await gateway.model('brand-chat', { upstream: 'internal-chat', company });
      const client = customerWith(gateway.url, company, await gateway.key(company));
      upstream.answer((socket) => void socket.write(`${STREAM_HEAD}${chunk(body)}0\r\n\r\n`));
      const { text } = await client.chat({ stream: true });
      t.equal(dataOf(text).at(-1), '[DONE]', name);
      const rows = await gateway.ledger(company, 1);
      t.match(rows, [{ outcome: 'completed', usage_source: source }], name);
      if (tokens !== '') t.equal(`${rows[0]?.prompt_tokens} ${rows[0]?.completion_tokens}`, tokens);
    }
  },
);

t.test('the official SDK throws the class documented for each failure', async (t) => {
  const openai = new OpenAI({ baseURL: gateway.url, apiKey: customer.key, maxRetries: 0 });
  const params = { model: 'brand-chat', messages: [{ role: 'user' as const, content: 'x' }] };
  const create = (stream: boolean) => async () => {
    if (!stream) return await openai.chat.completions.create(params);
    for await (const _ of await openai.chat.completions.create({ ...params, stream: true }));
  };
  const classes: readonly (readonly [string, unknown])[] = [
    ['status 400', OpenAI.BadRequestError],
    ['status 422', OpenAI.BadRequestError],
    ['status 429', OpenAI.RateLimitError],
    ['status 401', OpenAI.InternalServerError],
    ['status 404', OpenAI.InternalServerError],
    ['status 500', OpenAI.InternalServerError],
    ['silence', OpenAI.InternalServerError],
    ['closed before any byte', OpenAI.InternalServerError],
    ['an HTML page', OpenAI.InternalServerError],
  ];
  for (const [name, Class] of classes) {
    upstream.answer((socket) => void (FAILURES[name] as Failure).play(socket, false));
    for (const stream of [false, true]) {
      const error = (await thrownBy(create(stream)())) as Error;
      t.ok(error instanceof (Class as new () => Error), `${name}: ${error.constructor.name}`);
    }
  }
  upstream.answer(async (socket) => {
    await delivered(socket, STREAM_HEAD + chunk(TOKEN));
    socket.destroy();
  });
  t.ok((await thrownBy(create(true)())) instanceof OpenAI.APIError, 'a broken stream throws');
});

t.test('after a failure the next request of a client is answered', async (t) => {
  upstream.answer((socket) => void socket.resetAndDestroy());
  t.equal((await customer.chat()).status, 502);
  upstream.answer((socket) => json(200, COMPLETION)(socket));
  t.equal((await customer.chat()).status, 200);
  t.equal((await ask(`${gateway.url}/models`, { key: customer.key })).status, 200);
});

t.test(
  'a request that meets a connection which the upstream has closed is answered, and booked once',
  async (t) => {
    const sockets: Socket[] = [];
    upstream.answer((socket) => {
      sockets.push(socket);
      socket.write(httpAnswer(200, 'application/json', COMPLETION));
    });
    const own = await startGateway(t, upstream.url, { UPSTREAM_IDLE_SECONDS: '600' });
    const { customer } = await furnish(own);
    const { hostname, port } = new URL(own.url);
    const client = connect(Number(port), hostname);
    t.teardown(() => client.destroy());
    const body = JSON.stringify({ model: 'brand-chat', ...asking() });
    const head = `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${customer.key}`;
    const request = `${head}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
    let text = '';
    client.setEncoding('latin1').on('data', (piece: string) => {
      text += piece;
    });
    const answers = (): number => text.split('HTTP/1.1 200').length - 1;
    for (let n = 1; n <= 5; n++) {
      // both are in the system before the gateway reads, and it reads the request first
      client.write(request);
      sockets.at(-1)?.destroy();
      await until(() => answers() === n || text.includes('HTTP/1.1 50'), 'an answer');
      t.equal(answers(), n, text.slice(-400));
    }
    t.equal(new Set(sockets).size, 5, 'each on a connection of its own');
    t.equal((await own.ledger(customer.company, 5)).length, 5);
  },
);
