import { once } from 'node:events';
import { request } from 'node:http';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { RequestBody } from '../../../src/gateway/request/body.ts';
import { cutAt } from '../../sse/fuzz.ts';
import { ask } from '../../support/client.ts';
import { startGateway } from '../../support/gateway.ts';
import { until } from '../../support/until.ts';
import { scriptedUpstream } from '../../support/upstream.ts';

const upstream = await scriptedUpstream(t);
const gateway = await startGateway(t, upstream.url, { MAX_BODY_BYTES: `${4 << 20}` });
await gateway.model('fast', { upstream: 'internal-fast' });
const key = await gateway.key(await gateway.company());

upstream.answer((res) => {
  res.writeHead(200, { 'content-type': 'application/json' });
  res.end(
    '{"id":"1","object":"chat.completion","model":"internal-fast","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}',
  );
});

/** Sends a body and returns the one the upstream got. */
async function forwarded(body: string | Buffer): Promise<string> {
  const before = upstream.received.length;
  const { status, text } = await ask(`${gateway.url}/chat/completions`, { key, body });
  if (status !== 200) throw new Error(`${status} ${text}`);
  return (upstream.received[before] as { body: Buffer }).body.toString();
}

const odd =
  '"temperature" : 0.30000000000000004 ,"seed":12345678901234567890, "future":{"é":[1e400,-0.0]},"s":"\\ud83d\\ude00\\/"';

t.test('the body goes on by its own bytes, only model is replaced', async (t) => {
  const body = (model: string): string =>
    ` {${odd},\n "messages":[{"role":"user","content":"a\\u0000b"}],"model": ${model} }\n`;
  t.equal(await forwarded(body('"fast"')), body('"internal-fast"'));
  t.equal(
    await forwarded(body('"f\\u0061st"')),
    body('"internal-fast"'),
    'an escaped slug is the same slug',
  );
});

t.test('large bodies too, whatever comes last', async (t) => {
  const filler = 'ä"\\n'.replaceAll('"', '\\"').repeat(100_000);
  const body = (model: string): string =>
    `{"messages":[{"role":"user","content":"${filler}"}],${odd},"model":${model}}`;
  t.ok((await forwarded(body('"fast"'))) === body('"internal-fast"'));
});

t.test(
  'large bodies that use the same memory, at once and one after the other, stay apart',
  async (t) => {
    const body = (model: string, n: number): string =>
      `{"n":${n},"messages":[{"role":"user","content":"${`${n % 10}`.repeat(100_000 + 300_000 * (n % 10))}"}],"model":${model}}`;
    const before = upstream.received.length;
    for (let n = 0; n < 40; n += 8) {
      const round = Array.from({ length: 8 }, (_, k) => n + k);
      const sent = round.map((n) =>
        ask(`${gateway.url}/chat/completions`, { key, body: body('"fast"', n) }),
      );
      for (const { status } of await Promise.all(sent)) t.equal(status, 200);
    }
    const received = upstream.received.slice(before).map(({ body }) => body.toString());
    t.equal(received.length, 40);
    for (const text of received) {
      const n = Number(/^{"n":(\d+)/.exec(text)?.[1]);
      t.ok(text === body('"internal-fast"', n), `body ${n}`);
    }
    t.equal(new Set(received).size, 40);
  },
);

t.test("an assistant's messages go on by their own bytes, large as they are", async (t) => {
  const company = await gateway.company();
  const key = await gateway.key(company);
  const id = await gateway.assistant(company, { model: 'fast' });
  upstream.answer((res) => {
    res.writeHead(200, { 'content-type': 'application/json' });
    res.end(
      '{"choices":[{"message":{"content":"a"}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}',
    );
  });
  for (const size of [10, 100_000, 1_500_000]) {
    const messages = `[ {"role":"user", "content":"${'ä'.repeat(size)}"} ]`;
    const before = upstream.received.length;
    const { status } = await ask(`${gateway.url}/assistants/${id}/run`, {
      key,
      body: `{"messages":${messages}}`,
    });
    t.equal(status, 200);
    t.ok(
      (upstream.received[before] as { body: Buffer }).body.toString().includes(messages.slice(1)),
      `${size}`,
    );
  }
});

t.test(
  'a large body stays whole while its upstream reads nothing, whatever others send meanwhile',
  async (t) => {
    const slow = createServer();
    const sockets: Socket[] = [];
    slow.on('connection', (socket) => sockets.push(socket.pause()));
    slow.listen(0, '127.0.0.1');
    await once(slow, 'listening');
    const around = await startGateway(
      t,
      `http://127.0.0.1:${(slow.address() as AddressInfo).port}/v1`,
    );
    t.teardown(() => {
      for (const socket of sockets) socket.destroy();
      slow.close();
    });
    await around.model('fast', { upstream: 'internal-fast' });
    const key = await around.key(await around.company());
    const body = (model: string, letter: string): string =>
      `{"messages":[{"role":"user","content":"${letter.repeat(15 << 20)}"}],"model":${model}}`;
    const answers: Promise<{ status: number }>[] = [];
    for (const letter of ['a', 'b', 'c']) {
      answers.push(ask(`${around.url}/chat/completions`, { key, body: body('"fast"', letter) }));
      await until(() => sockets.length === answers.length, 'the call reaches the upstream');
      await sleep(50); // time for what the connection takes of it; nothing tells how much that is
    }
    const whole = sockets.map(async (socket, n) => {
      const chunks: Buffer[] = [];
      let left = Number.POSITIVE_INFINITY;
      for await (const chunk of socket.resume() as AsyncIterable<Buffer>) {
        chunks.push(chunk);
        left -= chunk.length;
        if (chunks.length === 1) {
          const [head] = chunk.toString('latin1').split('\r\n\r\n', 1) as [string];
          left = Number(/content-length: (\d+)/.exec(head)?.[1]) + head.length + 4 - chunk.length;
        }
        if (left === 0) break;
      }
      const text = Buffer.concat(chunks).toString('latin1');
      t.ok(text.endsWith(`\r\n\r\n${body('"internal-fast"', 'abc'[n] as string)}`), `body ${n}`);
    });
    await Promise.all(whole);
    for (const socket of sockets) socket.destroy();
    for (const { status } of await Promise.all(answers)) t.equal(status, 502);
  },
);

t.test('stream_options.include_usage is set, and the other options stay', async (t) => {
  const message = '"messages":[{"role":"user","content":"x"}]';
  const cases: [string, string][] = [
    ['', ',"stream_options":{"include_usage":true}'],
    [',"stream_options":null', ',"stream_options":{"include_usage":true}'],
    [',"stream_options":{}', ',"stream_options":{"include_usage":true}'],
    [',"stream_options":{ "a":1}', ',"stream_options":{"include_usage":true, "a":1}'],
    [
      ',"stream_options":{"a":1,"include_usage":false}',
      ',"stream_options":{"a":1,"include_usage":true}',
    ],
  ];
  upstream.answer((res) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    res.end(
      'data: {"choices":[{"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}\n\ndata: [DONE]\n\n',
    );
  });
  for (const [given, sent] of cases) {
    for (const filler of ['', `,"x":"${'y'.repeat(40_000)}"`]) {
      const got = await forwarded(`{"model":"fast"${given},${message},"stream":true${filler}}`);
      t.ok(got === `{"model":"internal-fast"${sent},${message},"stream":true${filler}}`, given);
    }
  }
});

t.test('a body whose governed members could be read in two ways is refused', async (t) => {
  const before = upstream.received.length;
  const message = '"messages":[{"role":"user","content":"x"}]';
  for (const filler of ['', `,"x":"${'y'.repeat(40_000)}"`]) {
    for (const twice of [
      '"model":"fast","model":"fast"',
      '"model":"fast","Model":"fast"',
      '"model":"fast","mod\\u0065l":"fast"',
      '"model":"fast","stream":true,"ſtream":false',
      '"model":"fast","stream":true,"stream_options":{"include_usage":true,"Include_Usage":false}',
      '"model":"fast","messages":[{"role":"user","content":"y"}]',
    ]) {
      const { status, json } = await ask(`${gateway.url}/chat/completions`, {
        key,
        body: `{${twice},${message}${filler}}`,
      });
      t.equal(status, 400, twice);
      t.match(json.error.message, /could be read in two ways/);
    }
  }
  t.equal(upstream.received.length, before, 'nothing went upstream');
});

t.test(
  'members that choose another model, host, key or answer are refused, whatever their case',
  async (t) => {
    const before = upstream.received.length;
    for (const name of [
      'fallbacks',
      'models',
      'api_base',
      'API_KEY',
      'Base_Url',
      'mock_response',
      'provider',
      'litellm_metadata',
      'extra_body',
    ]) {
      const body = { model: 'fast', messages: [{ role: 'user', content: 'x' }], [name]: ['other'] };
      const { status, json } = await ask(`${gateway.url}/chat/completions`, { key, body });
      t.equal(status, 400, name);
      t.same([json.error.code, json.error.param], ['unsupported_parameter', name]);
    }
    t.equal(upstream.received.length, before, 'nothing went upstream');
  },
);

t.test('bodies that are no JSON object are refused', async (t) => {
  for (const body of [
    '',
    '{',
    '{"model":"fast",}',
    '{"a":NaN}',
    '\ufeff{}',
    '{} {}',
    Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]),
  ]) {
    const { status, json } = await ask(`${gateway.url}/chat/completions`, {
      key,
      body,
      method: 'POST',
    });
    t.same([status, json.error.code], [400, 'invalid_json']);
  }
  t.equal(
    (await ask(`${gateway.url}/chat/completions`, { key, body: '[]' })).json.error.code,
    'invalid_type',
  );
  const deep = `{"model":"fast","messages":[{"role":"user","content":"x"}],"d":${'['.repeat(600)}${']'.repeat(600)}}`;
  t.match(
    (await ask(`${gateway.url}/chat/completions`, { key, body: deep })).json.error.message,
    /nested too deeply/,
  );
});

t.test('more members and values than any client sends are refused, and told', async (t) => {
  const before = upstream.received.length;
  const message = '"model":"fast","messages":[{"role":"user","content":"x"}]';
  const many = (count: number, item = (n: number) => `"${n}":0`) =>
    Array.from({ length: count }, (_, n) => item(n)).join();
  const cases: Record<string, [body: string, told: RegExp]> = {
    members: [`{${message},${many(1023)}}`, /more than 1024 members/],
    'members of a small body': [
      `{${message},${many(1200, () => '"":0')}}`,
      /more than 1024 members/,
    ],
    messages: [
      `{"model":"fast","messages":[${many(22_000, () => '{"role":"user","content":""}')}]}`,
      /more than 65536 values/,
    ],
    'members of metadata': [
      `{${message},"metadata":{${many(1025)}}}`,
      /'metadata' has more than 1024 members/,
    ],
    'large metadata': [
      `{${message},"metadata":{"a":"${'x'.repeat(65_536)}"}}`,
      /'metadata' is larger than 65536 bytes/,
    ],
    'members of stream_options': [
      `{${message},"stream":true,"stream_options":{${many(1025)}}}`,
      /'stream_options' has more than 1024 members/,
    ],
    'large stream_options': [
      `{${message},"stream":true,"stream_options":{"a":"${'x'.repeat(65_536)}"}}`,
      /'stream_options' is larger than 65536 bytes/,
    ],
  };
  for (const [name, [body, told]] of Object.entries(cases)) {
    const { status, json } = await ask(`${gateway.url}/chat/completions`, { key, body });
    t.equal(status, 400, name);
    t.match(json.error, { type: 'invalid_request_error', message: told }, name);
  }
  t.equal(upstream.received.length, before, 'nothing went upstream');
  upstream.answer((res) => {
    res.writeHead(200, { 'content-type': 'application/json' });
    res.end('{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}');
  });
  const most = `{${message},"metadata":{${many(1024)}},${many(1021, (n) => `"x${n}":0`)}}`;
  t.equal(
    (await ask(`${gateway.url}/chat/completions`, { key, body: most })).status,
    200,
    'and not one less',
  );
});

t.test('a value is cut out of pieces wherever they end', async (t) => {
  const bytes = Buffer.from('0123456789');
  for (const cuts of [[], [5], [1, 2, 3], [...bytes.keys()], [0, 10], [2, 2, 2, 7, 7]]) {
    const body = new RequestBody(cutAt(bytes, cuts), bytes.length, 'invalid_json');
    for (let start = 0; start < 10; start++) {
      for (let end = start + 1; end <= 10; end++) {
        const expected = bytes.toString('latin1', start, end);
        if (body.slice(start, end).toString() !== expected) t.fail(`${cuts}: ${start} to ${end}`);
      }
    }
  }
});

t.test(
  'a body over the limit is refused, announced or not, and the gateway serves on',
  async (t) => {
    const body = `{"model":"fast","x":"${'y'.repeat(5 << 20)}"}`;
    for (const headers of [
      { 'content-length': `${body.length}` },
      { 'transfer-encoding': 'chunked' },
    ]) {
      t.match(await upload(body, headers as Record<string, string>), { status: 413 });
    }
    t.equal((await ask(`${gateway.url}/models`, { key })).status, 200);
  },
);

t.test('a chunked body and Expect: 100-continue work as curl sends them', async (t) => {
  upstream.answer((res) => {
    res.writeHead(200, { 'content-type': 'application/json' });
    res.end(
      '{"model":"internal-fast","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}',
    );
  });
  const body = '{"model":"fast","messages":[{"role":"user","content":"x"}]}';
  t.equal((await upload(body, { 'transfer-encoding': 'chunked' })).status, 200);
  const large = `{"x":"${'y'.repeat(1 << 20)}",${body.slice(1)}`;
  t.equal((await upload(large, { 'transfer-encoding': 'chunked' })).status, 200);
  const sent = upstream.received
    .slice(-2)
    .map(({ body }) => body.toString().replace('internal-fast', 'fast'));
  t.ok(sent[0] === body && sent[1] === large, 'whole');
  t.equal(
    (await upload(body, { expect: '100-continue', 'content-length': `${body.length}` })).status,
    200,
  );
});

t.test('a client that stops halfway leaves no trace but its log line', async (t) => {
  const before = upstream.received.length;
  const told = () => gateway.logged.filter((line) => line.includes('"status":0,')).length;
  for (const [announced, sent] of [
    [1000, '{"model":"fast"'],
    [4 << 20, `{"model":"fast","x":"${'y'.repeat(3 << 20)}`],
  ] as const) {
    const req = request(`${gateway.url}/chat/completions`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${key}`,
        'content-type': 'application/json',
        'content-length': `${announced}`,
      },
    });
    req.on('error', () => {});
    const lines = told();
    await new Promise((resolve) => req.write(sent, resolve));
    req.destroy();
    await until(() => told() === lines + 1, 'its log line');
  }
  t.equal(upstream.received.length, before);
  t.equal((await ask(`${gateway.url}/models`, { key })).status, 200);
});

/** node:http, because fetch takes neither of these headers. */
function upload(
  body: string,
  headers: Record<string, string>,
): Promise<{ status?: number | undefined; error?: string }> {
  return new Promise((resolve) => {
    const req = request(`${gateway.url}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...headers },
    });
    req.on('response', (res) => {
      res.resume();
      resolve({ status: res.statusCode });
    });
    req.on('error', (error: NodeJS.ErrnoException) =>
      resolve({ error: error.code ?? error.message }),
    );
    if (headers.expect === undefined) req.end(body);
    else req.on('continue', () => req.end(body));
  });
}
