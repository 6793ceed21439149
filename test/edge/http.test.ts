import t, { type Test } from 'tap';
import { ask } from '../support/client.ts';
import { CHAT, startWorld } from '../support/world.ts';
import { PROXIES } from './proxies.ts';
import { type RawAnswer, speak } from './raw.ts';

const world = await startWorld(t, {
  MAX_HEADERS: '40',
  HEADER_SECONDS: '1',
  BODY_SECONDS: '2',
  MAX_BODY_BYTES: '100000',
});
const { key } = world.customer;
const BODY = JSON.stringify({ model: CHAT, messages: [{ role: 'user', content: 'Hello' }] });
const HOST = new URL(world.url).host;
const AUTH = `authorization: Bearer ${key}`;
const JSON_TYPE = 'content-type: application/json';

function request(line: string, headers: readonly string[], body = BODY): string {
  const length = headers.some((header) => /^(content-length|transfer-encoding)/i.test(header))
    ? []
    : [`content-length: ${Buffer.byteLength(body)}`];
  return `${[line, ...headers, ...length].join('\r\n')}\r\n\r\n${body}`;
}
const CHAT_LINE = 'POST /v1/chat/completions HTTP/1.1';
const plainHeaders = [`host: ${HOST}`, AUTH, JSON_TYPE];
const say = (...pieces: string[]) => speak(world.url, pieces);

/** How many requests the upstream has received. */
const forwarded = () => world.upstream.received().length;

/** Asserts that the gateway answers with an error of its own and sends nothing upstream. */
async function refused(
  t: Test,
  name: string,
  statuses: readonly number[],
  ...pieces: string[]
): Promise<void> {
  const before = forwarded();
  const answer = await say(...pieces);
  t.ok(statuses.includes(answer.status), `${name}: ${answer.status} ${answer.text.slice(0, 80)}`);
  isOurs(t, name, answer);
  t.equal(forwarded(), before, `${name}: nothing went upstream`);
}

function isOurs(t: Test, name: string, { body, headers }: RawAnswer): void {
  const length = Number(headers.get('content-length'));
  const { error } = JSON.parse(body.slice(0, length));
  t.match(error, { message: String, type: String }, name);
  t.match(headers.get('x-request-id'), /^[0-9a-f-]{36}$/, name);
  t.equal(headers.get('cache-control'), 'no-store', name);
}

t.test('a request written by hand is answered', async (t) => {
  const answer = await say(request(CHAT_LINE, plainHeaders));
  t.equal(answer.status, 200);
});

t.test('headers that two hops could read differently are refused', async (t) => {
  const twice = (header: string, other = header) =>
    request(CHAT_LINE, [...plainHeaders, header, other]);
  const cases: Record<string, string> = {
    'two Host headers': request(CHAT_LINE, ['host: other.example', ...plainHeaders]),
    'two Host headers, the same': request(CHAT_LINE, [`host: ${HOST}`, ...plainHeaders]),
    'two Authorization headers': request(CHAT_LINE, [
      'authorization: Bearer svc_other',
      ...plainHeaders,
    ]),
    'two Authorization headers, the second wrong': request(CHAT_LINE, [
      ...plainHeaders,
      'Authorization: Bearer x',
    ]),
    'two Content-Type headers': request(CHAT_LINE, [...plainHeaders, 'content-type: text/plain']),
    'two Content-Length headers': twice('content-length: 5', `content-length: ${BODY.length}`),
    'Content-Length and Transfer-Encoding': request(
      CHAT_LINE,
      [...plainHeaders, 'transfer-encoding: chunked', 'content-length: 5'],
      `${BODY.length.toString(16)}\r\n${BODY}\r\n0\r\n\r\n`,
    ),
    'Transfer-Encoding on HTTP/1.0': request(
      'POST /v1/chat/completions HTTP/1.0',
      [...plainHeaders, 'transfer-encoding: chunked'],
      `${BODY.length.toString(16)}\r\n${BODY}\r\n0\r\n\r\n`,
    ),
    'a transfer coding besides chunked': request(
      CHAT_LINE,
      [...plainHeaders, 'transfer-encoding: gzip, chunked'],
      '',
    ),
    'chunked twice': request(
      CHAT_LINE,
      [...plainHeaders, 'transfer-encoding: chunked', 'transfer-encoding: chunked'],
      '0\r\n\r\n',
    ),
    'an obscured transfer coding': request(
      CHAT_LINE,
      [...plainHeaders, 'transfer-encoding: \x0bchunked'],
      '0\r\n\r\n',
    ),
    'a negative length': request(CHAT_LINE, [...plainHeaders, 'content-length: -1']),
    'a length with a sign': request(CHAT_LINE, [
      ...plainHeaders,
      `content-length: +${BODY.length}`,
    ]),
    'no Host': request(CHAT_LINE, [AUTH, JSON_TYPE]),
    'a Host with a path': request(CHAT_LINE, ['host: a/b', AUTH, JSON_TYPE]),
    'a Host with two names': request(CHAT_LINE, ['host: a, b', AUTH, JSON_TYPE]),
    'a space before the colon': request(CHAT_LINE, [...plainHeaders, 'x-thing : 1']),
    'a folded header': request(CHAT_LINE, [...plainHeaders, 'x-thing: 1\r\n 2']),
    'a bare LF': request(CHAT_LINE, plainHeaders).replaceAll('\r\n', '\n'),
    'a NUL in a header': request(CHAT_LINE, [...plainHeaders, 'x-thing: a\0b']),
    'a chunk size with junk': request(
      CHAT_LINE,
      [...plainHeaders, 'transfer-encoding: chunked'],
      '5 x\r\nhello\r\n0\r\n\r\n',
    ),
  };
  for (const [name, text] of Object.entries(cases)) await refused(t, name, [400], text);
});

t.test('request targets that two hops could read differently are refused', async (t) => {
  const line = (target: string, method = 'POST') =>
    request(`${method} ${target} HTTP/1.1`, plainHeaders);
  for (const target of [
    '/v1/models/../chat/completions',
    '/v1/models/%2e%2e/chat/completions',
    '/v1/models/.%2E/chat/completions',
    '/v1/./chat/completions',
    '/v1/%2e/chat/completions',
    '/v1/chat/completions#x',
    '/v1/chat/completions/..',
    '/v1/assistants/..%2f..%2fchat%2fcompletions/run',
    '/v1\\chat\\completions',
    '/v2/../v1/chat/completions',
    'http://other.example/v1/chat/completions',
    'http://user@host/v1/chat/completions',
    'https://other.example/v1/chat/completions',
    '*',
  ]) {
    await refused(t, target, [400], line(target));
  }
  for (const target of [
    '/v1/chat/completions/',
    '/v1/chat/completions%20',
    '/v1/%63hat/completions',
    '/v1chat/completions',
  ]) {
    await refused(t, target, [404], line(target));
  }
});

t.test('the absolute form of this host, a query and a doubled slash are accepted', async (t) => {
  for (const target of [
    `http://${HOST}/v1/chat/completions`,
    '/v1/chat/completions?api-version=1',
    '/v1//chat/completions',
  ]) {
    t.equal((await say(request(`POST ${target} HTTP/1.1`, plainHeaders))).status, 200, target);
  }
  const encoded = 'vendor/chat:v1';
  await world.model(encoded, { upstream: 'internal-demo-chat' });
  t.equal(
    (await ask(`${world.url}/models/${encodeURIComponent(encoded)}`, { key })).json.id,
    encoded,
  );
  t.equal((await ask(`${world.url}/models/${encoded}`, { key })).json.id, encoded);
});

t.test('CONNECT, TRACE and unknown methods are refused; Upgrade is ignored', async (t) => {
  await refused(t, 'CONNECT', [405], `CONNECT 127.0.0.1:5432 HTTP/1.1\r\nhost: ${HOST}\r\n\r\n`);
  await refused(
    t,
    'TRACE',
    [405],
    request('TRACE /v1/chat/completions HTTP/1.1', plainHeaders, ''),
  );
  await refused(
    t,
    'BREW',
    [400, 405],
    request('BREW /v1/chat/completions HTTP/1.1', plainHeaders, ''),
  );
  await refused(t, 'no HTTP', [400], '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03');
  const upgrade = [
    'connection: Upgrade, HTTP2-Settings',
    'upgrade: h2c',
    'http2-settings: AAMAAABkAARAAAAAAAIAAAAA',
  ];
  const answer = await say(request(CHAT_LINE, [...plainHeaders, ...upgrade]));
  t.equal(answer.status, 200, 'answered as HTTP/1.1');
  const socket = [
    'connection: upgrade',
    'upgrade: websocket',
    'sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==',
  ];
  t.equal(
    (await say(request('GET /v1/models HTTP/1.1', [...plainHeaders, ...socket], ''))).status,
    200,
  );
});

t.test(
  'a WebSocket is refused with 426: clients that prefer one take HTTP at once, without trying again',
  async (t) => {
    const socket = [
      'connection: upgrade',
      'upgrade: websocket',
      'sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==',
    ];
    for (const path of [
      '/v1/responses',
      '/v1/responses?x=y',
      '/v1/chat/completions',
      '/v1/assistants/x/run',
    ]) {
      const answer = await say(request(`GET ${path} HTTP/1.1`, [...plainHeaders, ...socket], ''));
      isOurs(t, path, answer);
      t.match([answer.status, answer.headers.get('upgrade')], [426, 'HTTP/1.1'], path);
      t.match(answer.body, /WebSocket.*POST.*"invalid_request_error","code":"upgrade_required"/);
    }
  },
);

t.test('too many headers, and too large ones, are refused', async (t) => {
  const many = (n: number) => Array.from({ length: n }, (_, i) => `x-${i}: 1`);
  t.equal((await say(request(CHAT_LINE, [...plainHeaders, ...many(30)]))).status, 200);
  await refused(t, '41 headers', [431], request(CHAT_LINE, [...plainHeaders, ...many(37)]));
  await refused(
    t,
    'the key hidden behind 1,500 headers',
    [431],
    request(CHAT_LINE, [`host: ${HOST}`, ...many(1500), AUTH]),
  );
  await refused(
    t,
    '20 KB of headers',
    [431],
    request(CHAT_LINE, [...plainHeaders, `x-long: ${'a'.repeat(20_000)}`]),
  );
});

t.test('of a request nothing but its body reaches the upstream', async (t) => {
  const odd = [
    'x-canary: client',
    'cookie: a=b',
    'x-forwarded-for: 1.2.3.4',
    'x-litellm-api-key: sk-x',
    'accept-encoding: br',
  ];
  const own = [
    'user-agent: canary',
    'openai-organization: canary',
    'te: trailers',
    'connection: keep-alive, x-canary',
  ];
  t.equal(
    (
      await say(
        request('POST /v1/chat/completions?canary=1 HTTP/1.1', [...plainHeaders, ...odd, ...own]),
      )
    ).status,
    200,
  );
  const { path, headers } = world.upstream.received().at(-1) as {
    path: string;
    headers: Record<string, string>;
  };
  t.equal(path, '/v1/chat/completions');
  const names = Object.keys(headers).filter((name) => name !== 'connection'); // the connection's own
  t.same(names.sort(), [
    'accept',
    'accept-encoding',
    'authorization',
    'content-length',
    'content-type',
    'host',
    'x-request-id', // our own
  ]);
  t.notMatch(JSON.stringify(headers), /canary|1\.2\.3\.4|svc_/);
});

t.test('trailers and pipelined requests are kept apart', async (t) => {
  const chunked = `${BODY.length.toString(16)}\r\n${BODY}\r\n0\r\nauthorization: Bearer x\r\nx-canary: 1\r\n\r\n`;
  t.equal(
    (await say(request(CHAT_LINE, [...plainHeaders, 'transfer-encoding: chunked'], chunked)))
      .status,
    200,
  );
  const before = forwarded();
  const pipelined =
    request(CHAT_LINE, plainHeaders) + request(CHAT_LINE, [...plainHeaders, 'connection: close']);
  const two = await speak(world.url, [pipelined], { answers: 2 });
  t.equal(two.text.match(/HTTP\/1\.1 200/g)?.length, 2);
  t.equal(forwarded(), before + 2);
});

t.test(
  'many pipelined requests on one connection are all answered, without a warning of too many listeners',
  async (t) => {
    const warnings: Error[] = [];
    const note = (warning: Error) => warnings.push(warning);
    process.on('warning', note);
    t.teardown(() => process.off('warning', note));
    const count = 40;
    const all = (body?: string) =>
      request(CHAT_LINE, plainHeaders, body).repeat(count - 1) +
      request(CHAT_LINE, [...plainHeaders, 'connection: close'], body);
    const answer = await speak(world.url, [all()], { answers: count });
    t.equal(answer.text.match(/HTTP\/1\.1 200/g)?.length, count);
    const streams = await speak(world.url, [all(BODY.replace('{', '{"stream":true,'))], {
      answers: count,
    });
    t.equal(streams.text.match(/data: \[DONE\]/g)?.length, count);
    t.same(warnings, []);
  },
);

t.test('a request behind a refused one in the same packet is never run', async (t) => {
  const before = forwarded();
  const smuggled = request(CHAT_LINE, plainHeaders);
  await say(
    request(
      CHAT_LINE,
      [AUTH, JSON_TYPE, `host: ${HOST}`, 'content-length: 0', 'transfer-encoding: chunked'],
      smuggled,
    ),
  );
  await say(request('CONNECT other:1 HTTP/1.1', [`host: ${HOST}`], smuggled));
  t.equal(forwarded(), before);
});

t.test('Expect: 100-continue is answered with 100 only when the body will be read', async (t) => {
  const expecting = [...plainHeaders, 'expect: 100-continue', `content-length: ${BODY.length}`];
  const answer = await say(`${[CHAT_LINE, ...expecting].join('\r\n')}\r\n\r\n`, BODY);
  t.match(answer.text, /^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200/);
  const large = [...plainHeaders, 'expect: 100-continue', 'content-length: 200000'];
  t.equal((await say(`${[CHAT_LINE, ...large].join('\r\n')}\r\n\r\n`)).status, 413);
  const unknown = [
    `host: ${HOST}`,
    'authorization: Bearer x',
    JSON_TYPE,
    'expect: 100-continue',
    'content-length: 9',
  ];
  t.equal((await say(`${[CHAT_LINE, ...unknown].join('\r\n')}\r\n\r\n`)).status, 401);
});

t.test(
  'expectations other than 100-continue are ignored, and HTTP/1.0 gets no interim answer',
  async (t) => {
    for (const expect of ['something', 'a=b, c', '']) {
      const answer = await say(request(CHAT_LINE, [...plainHeaders, `expect: ${expect}`]));
      t.match(answer.text, /^HTTP\/1\.1 200/, `expect: ${expect}`);
    }
    const unknown = [`host: ${HOST}`, JSON_TYPE, 'expect: something'];
    await refused(t, 'without a key', [401], request(CHAT_LINE, unknown));
    const old = request(CHAT_LINE.replace('1.1', '1.0'), [...plainHeaders, 'expect: 100-continue']);
    t.match((await say(old)).text, /^HTTP\/1\.1 200/);
    const among = [...plainHeaders, 'expect: a=b, 100-Continue', `content-length: ${BODY.length}`];
    const answer = await say(`${[CHAT_LINE, ...among].join('\r\n')}\r\n\r\n`, BODY);
    t.match(answer.text, /^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200/);
  },
);

t.test('401 says how to authenticate, 405 which method is allowed', async (t) => {
  const line = (method: string, path: string) =>
    request(`${method} ${path} HTTP/1.1`, plainHeaders, '');
  for (const path of ['/v1/models', '/v1/chat/completions', '/v1/messages']) {
    const line = path === '/v1/models' ? `GET ${path} HTTP/1.1` : `POST ${path} HTTP/1.1`;
    const answer = await say(request(line, [`host: ${HOST}`, JSON_TYPE], ''));
    t.match([answer.status, answer.headers.get('www-authenticate')], [401, 'Bearer'], path);
    t.equal(
      answer.headers.get('x-should-retry'),
      'false',
      'Claude Code would try for more than a minute',
    );
  }
  for (const [method, path, allowed] of [
    ['OPTIONS', '/v1/chat/completions', 'POST'],
    ['HEAD', '/v1/models', 'GET'],
    ['POST', '/v1/models/x', 'GET'],
    ['DELETE', '/v1/usage', 'GET'],
    ['GET', '/v1/assistants/x/run', 'POST'],
  ] as const) {
    const answer = await say(line(method, path));
    t.match([answer.status, answer.headers.get('allow')], [405, allowed], `${method} ${path}`);
  }
});

t.test('a client that takes too long over its head or its body gets 408', async (t) => {
  const [head, body] = await Promise.all([
    say(`${CHAT_LINE}\r\nhost: ${HOST}\r\nx-slow: `),
    say(request(CHAT_LINE, [...plainHeaders, 'content-length: 500'], BODY.slice(0, 20))),
  ]);
  for (const answer of [head, body]) {
    t.equal(answer.status, 408);
    isOurs(t, 'too slow', answer);
  }
});

for (const [name, { program, start }] of Object.entries(PROXIES)) {
  const skip = program === null && `${name} is not installed`;
  t.test(`behind ${name}: answers, streams, and no smuggling`, { skip }, async (t) => {
    const url = await start(t, world.url);
    const messages = [{ role: 'user', content: 'Hello' }];
    t.equal(
      (await ask(`${url}/chat/completions`, { key, body: { model: CHAT, messages } })).status,
      200,
    );
    const stream = await ask(`${url}/chat/completions`, {
      key,
      body: { model: CHAT, messages, stream: true },
    });
    t.match(stream.text, /data: \[DONE\]\n\n$/);
    const before = forwarded();
    const smuggled = request(CHAT_LINE, plainHeaders);
    const probes = [
      request(
        'POST /v1/models HTTP/1.1',
        [...plainHeaders, 'transfer-encoding: chunked', 'content-length: 4'],
        `0\r\n\r\n${smuggled}`,
      ),
      request(
        'POST /v1/models HTTP/1.1',
        [...plainHeaders, 'transfer-encoding: xchunked'],
        smuggled,
      ),
      request(
        'POST /v1/models HTTP/1.1',
        [...plainHeaders, 'transfer-encoding: chunked, identity'],
        `0\r\n\r\n${smuggled}`,
      ),
      request(
        'POST /v1/models HTTP/1.0',
        [...plainHeaders, 'transfer-encoding: chunked'],
        `0\r\n\r\n${smuggled}`,
      ),
      request('POST /v1/models/%2e%2e/chat/completions HTTP/1.1', plainHeaders),
      request('GET /v1/models#/../chat/completions HTTP/1.1', plainHeaders, ''),
      request('CONNECT other.example:443 HTTP/1.1', plainHeaders, ''),
    ];
    for (const probe of probes) {
      // paced: no event tells that a proxy sends no second answer
      const answer = await speak(url, [probe], { answers: Number.POSITIVE_INFINITY, quietMs: 300 });
      // a proxy may run pipelined requests, each judged by itself; Caddy answers CONNECT itself
      const ours = /x-request-id/i.test(answer.text);
      t.ok(
        answer.status === 0 || answer.status >= 400 || !ours,
        `${answer.status} for ${probe.slice(0, 60)}`,
      );
    }
    const ran = forwarded() - before;
    t.ok(ran <= 2, `${ran} pipelined requests ran, each with its own key`);
    t.equal(
      (await ask(`${url}/chat/completions`, { key, body: { model: CHAT, messages } })).status,
      200,
      'and it serves on',
    );
  });
}
