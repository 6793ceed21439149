import { once } from 'node:events';
import { Agent, type IncomingMessage, request, type ServerResponse } from 'node:http';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { type OpenStream, StreamRelay } from '../../../src/gateway/answer/stream-relay.ts';
import { ask, open } from '../../support/client.ts';
import { startGateway, type TestGateway } from '../../support/gateway.ts';
import { until } from '../../support/until.ts';
import { scriptedUpstream } from '../../support/upstream.ts';

const upstream = await scriptedUpstream(t);
const gateway = await startGateway(t, upstream.url);
await gateway.model('fast', { upstream: 'internal-fast', input: '1', output: '2' });

const HEAD = { 'content-type': 'text/event-stream' };
const FINISH = 'data: {"id":"1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n';
const USAGE = 'data: {"id":"1","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3}}\n\n';
/** The same as a client gets it that did not ask for it. */
const USAGE_WITH_CHOICE = USAGE.replace('[]', '[{"index":0,"delta":{},"finish_reason":null}]');

/** An event with so much content. */
function event(content: string, model = 'internal-fast'): string {
  return `data: {"id":"1","model":"${model}","choices":[{"index":0,"delta":{"content":"${content}"},"finish_reason":null}]}\n\n`;
}

/** A company of its own per test: its ledger is then only about that test. */
async function newClient(): Promise<{
  company: string;
  stream(signal?: AbortSignal): Promise<Response>;
}> {
  const company = await gateway.company();
  const key = await gateway.key(company);
  const body = { model: 'fast', messages: [{ role: 'user', content: 'x' }], stream: true };
  return {
    company,
    stream: (signal) =>
      open(`${gateway.url}/chat/completions`, { key, body, ...(signal && { signal }) }),
  };
}

/** Resolves once a gateway has logged the one call of a company: its client has the answer, or left. */
async function logged(company: string, { logged }: TestGateway = gateway): Promise<void> {
  await until(() => logged.some((line) => line.includes(company)), 'the log line of the call');
}

function reader(response: Response): () => Promise<string> {
  const body = (response.body as ReadableStream<Uint8Array>).getReader();
  return async () => Buffer.from((await body.read()).value ?? []).toString();
}

t.test('an event leaves before the next one comes, the first chunk as well', async (t) => {
  const next: (() => void)[] = [];
  upstream.answer(async (res) => {
    res.writeHead(200, HEAD);
    for (let n = 0; n < 3; n++) {
      res.write(event(`${n}`));
      await new Promise<void>((go) => next.push(go)); // until the client has it
    }
    res.end(`${FINISH}${USAGE}data: [DONE]\n\n`);
  });
  const read = reader(await (await newClient()).stream());
  for (let n = 0; n < 3; n++) {
    t.equal(await read(), event(`${n}`, 'fast'));
    (next.shift() as () => void)();
  }
  t.match(await read(), /\[DONE\]/);
});

t.test(
  'a client that does not read holds the upstream back, and then gets every byte',
  async (t) => {
    const events = 4000;
    const content = 'y'.repeat(4000);
    let written = 0;
    let stalled = false;
    upstream.answer(async (res) => {
      res.writeHead(200, HEAD);
      for (; written < events; written++) {
        if (!res.write(event(content))) {
          // long enough for a client that reads
          const drained = await Promise.race([
            once(res, 'drain').then(() => true),
            sleep(500, false),
          ]);
          if (!drained) {
            stalled = true;
            await once(res, 'drain');
          }
        }
      }
      res.end(`${FINISH}${USAGE}data: [DONE]\n\n`);
    });
    const { company, stream } = await newClient();
    const response = await stream();
    await until(() => stalled, 'the upstream is held back');
    t.ok(written < events, `held back after ${written} of ${events} events`);
    t.equal((await gateway.ledger(company, 0)).length, 0, 'nothing is booked before the end');
    const text = await response.text();
    t.ok(
      text ===
        `${event(content, 'fast').repeat(events)}${FINISH}${USAGE_WITH_CHOICE}data: [DONE]\n\n`,
    );
    t.equal((await gateway.ledger(company, 1)).length, 1);
  },
);

t.test(
  'a client that reads until the time for the call is over pays for what was generated',
  async (t) => {
    const hasty = await startGateway(t, upstream.url, { TOTAL_SECONDS: '1' });
    await hasty.model('fast', { upstream: 'internal-fast', input: '1', output: '2' });
    const company = await hasty.company();
    const key = await hasty.key(company);
    upstream.answer(async (res) => {
      res.writeHead(200, HEAD);
      const gone = once(res, 'close');
      while (!res.destroyed)
        if (!res.write(event('word '.repeat(800)))) await Promise.race([once(res, 'drain'), gone]);
    });
    const body = { model: 'fast', messages: [{ role: 'user', content: 'x' }], stream: true };
    const response = await open(`${hasty.url}/chat/completions`, { key, body });
    const [row] = await hasty.ledger(company, 1); // nothing is read until then
    const text = await response.text();
    const words = text.split('word ').length - 1;
    t.match(text.slice(-300), /"code":"upstream_timeout"/);
    t.match(row, { outcome: 'client_aborted', usage_source: 'estimated' });
    t.ok(
      Number(row?.completion_tokens) > words / 2,
      `${row?.completion_tokens} tokens for ${words} words`,
    );
  },
);

/** A gateway of its own, and a stream of it that is read whole. */
async function limitedStream(settings: Readonly<Record<string, string>>) {
  const limited = await startGateway(t, upstream.url, settings);
  await limited.model('fast', { upstream: 'internal-fast', input: '1', output: '2' });
  const company = await limited.company();
  const key = await limited.key(company);
  const body = { model: 'fast', messages: [{ role: 'user', content: 'x' }], stream: true };
  const again = async () => (await open(`${limited.url}/chat/completions`, { key, body })).text();
  const text = await again();
  return {
    text,
    words: text.split('word ').length - 1,
    again,
    ledger: (rows: number) => limited.ledger(company, rows),
  };
}

t.test(
  "text that ends at a limit of the gateway's own is charged: a caller could reach it on purpose",
  async (t) => {
    const text = event('word '.repeat(20)).repeat(20);
    for (const [name, settings, rest, code] of [
      ['the time of a call', { TOTAL_SECONDS: '1' }, null, 'upstream_timeout'],
      [
        'the size of an event',
        { MAX_EVENT_BYTES: '2000' },
        event('x'.repeat(4000)),
        'upstream_error',
      ],
      [
        'the size of an event without an end',
        { MAX_EVENT_BYTES: '2000' },
        `data: ${'x'.repeat(4000)}`,
        'upstream_error',
      ],
    ] as const) {
      upstream.answer(async (res) => {
        res.writeHead(200, HEAD);
        res.write(text + (rest ?? ''));
        for (; rest === null && !res.destroyed; await sleep(50)) res.write(event('word ')); // paced traffic
      });
      const { text: got, words, ledger } = await limitedStream(settings);
      t.match(got.slice(-300), new RegExp(`"code":"${code}"`), name);
      const [row] = await ledger(1);
      t.match(row, { outcome: 'upstream_failed', usage_source: 'estimated' }, name);
      const tokens = Number(row?.completion_tokens);
      t.ok(
        tokens > words / 2 && tokens < words * 2,
        `${name}: ${tokens} tokens for ${words} words`,
      );
    }
  },
);

t.test('an event that is too large is told as such, and the log names the setting', async (t) => {
  const gateway = await startGateway(t, upstream.url, { MAX_EVENT_BYTES: '2000' });
  await gateway.model('fast', { upstream: 'internal-fast' });
  const key = await gateway.key(await gateway.company());
  const url = `${gateway.url}/chat/completions`;
  for (const before of ['', event('one')]) {
    upstream.answer(
      (res) => void res.writeHead(200, HEAD).end(`${before}data: {"a":"${'x'.repeat(4000)}"}\n\n`),
    );
    const { text } = await ask(url, {
      key,
      body: { model: 'fast', messages: [{ role: 'user', content: 'x' }], stream: true },
    });
    t.match(text, /upstream_error/);
    t.match(
      text,
      /An event of the answer is larger than the gateway passes on/,
      before === '' ? 'whole' : 'behind text',
    );
  }
  t.match(gateway.logged.join(''), /an event larger than MAX_EVENT_BYTES \(2000\)/);
});

t.test(
  'what the upstream itself breaks is free, whatever text came before, and so is a limit before any text',
  async (t) => {
    const text = event('word '.repeat(20)).repeat(20);
    for (const [name, answer] of [
      ['an error event', `${text}data: {"error":{"message":"an event larger than allowed"}}\n\n`],
      ['an end without a sign', text],
      ['an event too large before any text', `data: {"a":"${'x'.repeat(4000)}"}\n\n`],
    ] as const) {
      upstream.answer((res) => {
        res.writeHead(200, HEAD).end(answer);
      });
      const { again, ledger } = await limitedStream({ MAX_EVENT_BYTES: '2000' });
      upstream.answer((res) => {
        res.writeHead(200, HEAD).end(`${event('x')}${FINISH}${USAGE}data: [DONE]\n\n`);
      });
      await again();
      t.match(await ledger(1), [{ outcome: 'completed' }], name);
    }
  },
);

t.test('a client that leaves: the upstream is read on for the usage, then let go', async (t) => {
  let closed: Promise<unknown> | null = null;
  const left = Promise.withResolvers<void>();
  upstream.answer(async (res) => {
    closed = once(res, 'close');
    res.writeHead(200, HEAD);
    res.write(event('one'));
    await left.promise;
    res.end(`${FINISH}${USAGE}data: [DONE]\n\n`);
  });
  const { company, stream } = await newClient();
  const abort = new AbortController();
  await reader(await stream(abort.signal))();
  abort.abort();
  await logged(company);
  left.resolve();
  const [row] = await gateway.ledger(company, 1);
  t.match(row, {
    prompt_tokens: 7,
    completion_tokens: 3,
    usage_source: 'upstream',
    outcome: 'client_aborted',
    cost_eur: '0.013',
  });
  await closed;
});

t.test(
  'a client that leaves before anything was generated pays nothing if the upstream then fails',
  async (t) => {
    const chunk = (delta: object) =>
      `data: ${JSON.stringify({ model: 'internal-fast', choices: [{ index: 0, delta }] })}\n\n`;
    const call = { index: 0, id: 'c', type: 'function', function: { name: 'f', arguments: '' } };
    const role = chunk({ role: 'assistant', content: '' });
    for (const [name, begun, isCharged] of [
      ['a role', role, false],
      [
        'a role and a usage of the prompt',
        `${role}${USAGE.replace('"completion_tokens":3', '"completion_tokens":0')}`,
        false,
      ],
      ['text', role + chunk({ content: 'a' }), true],
      ['reasoning', role + chunk({ reasoning_content: 'a' }), true],
      ['the name of a tool', role + chunk({ tool_calls: [call] }), true],
      ['sound', role + chunk({ audio: { data: 'AAAA' } }), true],
      ['a usage of hidden reasoning', role + USAGE, true],
    ] as const) {
      for (const end of ['data: {"error":{"message":"Rate limit reached","code":429}}\n\n', '']) {
        const left = Promise.withResolvers<void>();
        upstream.answer(async (res) => {
          res.writeHead(200, HEAD);
          res.write(begun);
          await left.promise;
          res.end(end);
        });
        const { company, stream } = await newClient();
        const abort = new AbortController();
        await reader(await stream(abort.signal))();
        abort.abort();
        await logged(company);
        const failed = () =>
          gateway.logged.filter((line) => line.includes('upstream failed')).length;
        const before = failed();
        left.resolve();
        await until(() => failed() > before, 'the failure in the log');
        const outcomes = (await gateway.ledger(company, isCharged ? 1 : 0)).map(
          ({ outcome }) => outcome,
        );
        t.same(outcomes, isCharged ? ['client_aborted'] : [], `${name}, ${end || 'the end'}`);
      }
    }
  },
);

t.test(
  'a client that leaves a stream without end: the upstream is cut, the call estimated',
  async (t) => {
    let open: ServerResponse | null = null;
    upstream.answer(async (res) => {
      open = res;
      res.writeHead(200, HEAD);
      while (!res.destroyed) {
        res.write(event('word word '));
        await sleep(20); // paced traffic
      }
    });
    const { company, stream } = await newClient();
    const abort = new AbortController();
    await reader(await stream(abort.signal))();
    abort.abort();
    const [row] = await gateway.ledger(company, 1);
    t.match(row, { usage_source: 'estimated', outcome: 'client_aborted' });
    await until(() => (open as unknown as ServerResponse).destroyed, 'the upstream is cut');
  },
);

t.test('a client that leaves before the upstream answers is booked once at most', async (t) => {
  const arrived = Promise.withResolvers<void>();
  const left = Promise.withResolvers<void>();
  upstream.answer(async (res) => {
    arrived.resolve();
    await left.promise;
    res.writeHead(200, HEAD);
    res.end(`${event('late')}${FINISH}${USAGE}data: [DONE]\n\n`);
  });
  const { company, stream } = await newClient();
  const abort = new AbortController();
  const answer = stream(abort.signal).catch((error: Error) => error.name);
  await arrived.promise;
  abort.abort();
  t.equal(await answer, 'AbortError');
  await logged(company);
  left.resolve();
  const rows = await gateway.ledger(company, 1);
  t.match(rows, [{ outcome: 'client_aborted', prompt_tokens: 7, completion_tokens: 3 }]);
});

t.test(
  'the upstream is told our request id, each call its own, and never the client’s',
  async (t) => {
    const before = upstream.received.length;
    upstream.answer((res) => {
      res.writeHead(200, { 'content-type': 'application/json' });
      res.end(
        '{"choices":[{"message":{"content":"a"}}],"usage":{"prompt_tokens":7,"completion_tokens":3}}',
      );
    });
    const company = await gateway.company();
    const key = await gateway.key(company);
    const large = 'x'.repeat(100_000); // goes on in pieces
    const answers = await Promise.all(
      ['a', 'b', large].map((content) =>
        open(`${gateway.url}/chat/completions`, {
          key,
          headers: { 'x-request-id': 'mine' },
          body: { model: 'fast', messages: [{ role: 'user', content }] },
        }),
      ),
    );
    await Promise.all(answers.map((answer) => answer.arrayBuffer()));
    const told = upstream.received.slice(before).map(({ headers }) => headers['x-request-id']);
    t.same(told.sort(), answers.map(({ headers }) => headers.get('x-request-id')).sort());
    const booked = (await gateway.ledger(company, 3)).map(({ request_id }) => request_id);
    t.same(booked.sort(), told, 'the one in the ledger');
  },
);

t.test(
  'an answer that is not streamed is awaited though its client left, as long as any',
  async (t) => {
    const impatient = await startGateway(t, upstream.url, { FIRST_BYTE_SECONDS: '1' });
    await impatient.model('whole', { upstream: 'internal-whole', input: '1', output: '2' });
    const body = { model: 'whole', messages: [{ role: 'user', content: 'x' }] };
    const leave = async (): Promise<string> => {
      const company = await impatient.company();
      const key = await impatient.key(company);
      const abort = new AbortController();
      const answer = open(`${impatient.url}/chat/completions`, { key, body, signal: abort.signal });
      await arrived.promise;
      abort.abort();
      await t.rejects(answer);
      return company;
    };
    let arrived = Promise.withResolvers<void>();
    upstream.answer(async (res) => {
      arrived.resolve();
      await sleep(500); // the answer takes its time
      res.writeHead(200, { 'content-type': 'application/json' });
      res.end(
        '{"choices":[{"message":{"content":"late"}}],"usage":{"prompt_tokens":7,"completion_tokens":3}}',
      );
    });
    const told = await impatient.ledger(await leave(), 1);
    t.match(told, [
      {
        outcome: 'client_aborted',
        usage_source: 'upstream',
        prompt_tokens: 7,
        completion_tokens: 3,
      },
    ]);

    arrived = Promise.withResolvers<void>();
    let closed: Promise<unknown> | null = null;
    upstream.answer((res) => {
      closed = once(res, 'close');
      arrived.resolve();
    });
    const silent = await impatient.ledger(await leave(), 1);
    t.match(
      silent,
      [{ outcome: 'client_aborted', usage_source: 'estimated', completion_tokens: 0 }],
      'the prompt alone',
    );
    t.ok((silent[0]?.prompt_tokens ?? 0) > 0);
    await closed;
  },
);

t.test('an upstream that talks on after [DONE] does not keep the client waiting', async (t) => {
  upstream.answer(async (res) => {
    res.writeHead(200, HEAD);
    res.write(`${event('a')}${FINISH}${USAGE}data: [DONE]\n\n`);
    while (!res.destroyed) {
      res.write('data: {"more":true}\n\n');
      await sleep(10); // paced traffic
    }
  });
  const { company, stream } = await newClient();
  const text = await (await stream()).text();
  t.ok(text.endsWith('data: [DONE]\n\n'));
  t.match(await gateway.ledger(company, 1), [{ outcome: 'completed', prompt_tokens: 7 }]);
});

t.test('a stream that breaks off is told to the client and never ends in [DONE]', async (t) => {
  for (const end of [
    (res: ServerResponse) => res.destroy(),
    (res: ServerResponse) => res.end(),
    (res: ServerResponse) => res.end('data: {"a":'),
    (res: ServerResponse) => res.end('data: [DONE]\n\n'), // behind no finish_reason
  ]) {
    const begun = Promise.withResolvers<ServerResponse>();
    upstream.answer((res) => {
      res.writeHead(200, HEAD);
      res.write(event('a'));
      begun.resolve(res);
    });
    const { company, stream } = await newClient();
    const read = reader(await stream());
    t.equal(await read(), event('a', 'fast'));
    end(await begun.promise);
    t.match(await read(), /^data: \{"error":\{.*"code":"upstream_error".*\}\}\n\n$/);
    t.equal(await read(), '');

    upstream.answer(
      (res) => void res.writeHead(200, HEAD).end(`${event('a')}${FINISH}${USAGE}data: [DONE]\n\n`),
    );
    await (await stream()).text();
    t.match(
      await gateway.ledger(company, 1),
      [{ outcome: 'completed' }],
      'it failed before any usage was known',
    );
  }
});

t.test(
  'whole events that come in one packet with the failure still reach the client',
  async (t) => {
    upstream.answer((res) => {
      res.writeHead(200, HEAD);
      res.end(`${event('a')}data: {"error":{"message":"internal-fast broke"}}\n\n`);
    });
    const { stream } = await newClient();
    const response = await stream();
    t.equal(response.status, 200);
    t.match(
      await response.text(),
      /^data: \{"id":"1".*\n\ndata: \{"error":\{"message":"Server error: the stream was terminated/,
    );
  },
);

t.test('a whole JSON answer to a streamed request is a failure, and costs nothing', async (t) => {
  upstream.answer((res) => {
    res.writeHead(200, { 'content-type': 'application/json' });
    res.end(
      '{"model":"internal-fast","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3}}',
    );
  });
  const { company, stream } = await newClient();
  const response = await stream();
  t.equal(response.status, 502);
  t.equal(response.headers.get('x-should-retry'), 'false');
  upstream.answer(
    (res) => void res.writeHead(200, HEAD).end(`${event('a')}${FINISH}${USAGE}data: [DONE]\n\n`),
  );
  await (await stream()).text();
  t.match(await gateway.ledger(company, 1), [{ outcome: 'completed' }]);
});

t.test(
  'a stream that fails before it brought text costs nothing; after that, what it told',
  async (t) => {
    const { company, stream } = await newClient();
    for (const text of ['', 'a']) {
      upstream.answer(
        (res) =>
          void res
            .writeHead(200, HEAD)
            .end(`${text && event(text)}${USAGE}data: {"error":{"message":"x"}}\n\n`),
      );
      t.match(await (await stream()).text(), /"code":"upstream_error"/);
    }
    t.match(await gateway.ledger(company, 1), [{ outcome: 'upstream_failed', prompt_tokens: 7 }]);
  },
);

t.test(
  'an HTTP/1.0 client gets the events unframed, and the end is the end of the connection',
  async (t) => {
    upstream.answer((res) => {
      res.writeHead(200, HEAD);
      res.end(`${event('a')}${FINISH}${USAGE}data: [DONE]\n\n`);
    });
    const key = await gateway.key(await gateway.company());
    const { hostname, port } = new URL(gateway.url);
    const body = '{"model":"fast","messages":[{"role":"user","content":"x"}],"stream":true}';
    const socket = connect(Number(port), hostname);
    socket.write(
      `POST /v1/chat/completions HTTP/1.0\r\nHost: x\r\nAuthorization: Bearer ${key}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    );
    const answer = Buffer.concat(await socket.toArray()).toString();
    t.equal(
      answer.slice(answer.indexOf('\r\n\r\n') + 4),
      `${event('a', 'fast')}${FINISH}${USAGE_WITH_CHOICE}data: [DONE]\n\n`,
    );
    t.notMatch(answer, /transfer-encoding/i);
  },
);

t.test('a connection serves on after a stream', async (t) => {
  let finish = (): unknown => null;
  upstream.answer((res) => {
    res.writeHead(200, HEAD);
    res.write(event('a'));
    finish = () => res.end(`${FINISH}${USAGE}data: [DONE]\n\n`);
  });
  const key = await gateway.key(await gateway.company());
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const ports = new Set<number | undefined>();
  for (let n = 0; n < 5; n++) {
    const req = request(`${gateway.url}/chat/completions`, {
      agent,
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    });
    req.end('{"model":"fast","messages":[{"role":"user","content":"x"}],"stream":true}');
    const [res] = (await once(req, 'response')) as [IncomingMessage];
    ports.add(res.socket.localPort);
    finish();
    t.equal(
      Buffer.concat(await res.toArray()).toString(),
      `${event('a', 'fast')}${FINISH}${USAGE_WITH_CHOICE}data: [DONE]\n\n`,
    );
  }
  t.equal(ports.size, 1);
  agent.destroy();
});

t.test(
  'READ_ON_SECONDS=0: whoever leaves pays what came until then, and the upstream is let go at once',
  async (t) => {
    const hasty = await startGateway(t, upstream.url, { READ_ON_SECONDS: '0,0' });
    await hasty.model('fast', { upstream: 'internal-fast', input: '1', output: '2' });
    const company = await hasty.company();
    let closed = false;
    upstream.answer((res) => {
      res.on('close', () => {
        closed = true;
      });
      res.writeHead(200, HEAD).write(event('one').repeat(9)); // and no end
    });
    const leaving = new AbortController();
    const body = { model: 'fast', messages: [{ role: 'user', content: 'x' }], stream: true };
    const asked = { key: await hasty.key(company), body, signal: leaving.signal };
    const read = reader(await open(`${hasty.url}/chat/completions`, asked));
    for (let text = ''; text.split('one').length <= 9; ) text += await read();
    leaving.abort();
    await until(() => closed, 'the upstream is let go');
    const [row] = await hasty.ledger(company, 1);
    t.match(row, { outcome: 'client_aborted', usage_source: 'estimated', completion_tokens: 9 });
  },
);

t.test(
  'the upstream is told once the client has its answer, which may be long after it was read',
  (t) => {
    let left = 0;
    const metrics = { openStreams: 0 };
    const meter = { names: {}, metrics, watch: () => ({ sent() {}, close() {} }) };
    const reply = { stream: () => ({}), res: { writableFinished: true } };
    const open = (() => ({})) as unknown as OpenStream;
    const relay = new StreamRelay(reply as never, meter as never, open);
    t.ok(relay.onConnected({ leave: () => left++ } as never));
    t.equal(left, 0);
    relay.onClientClose();
    t.same([left, metrics.openStreams], [1, 0]);
    t.end();
  },
);
