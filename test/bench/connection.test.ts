import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import t from 'tap';
import { type BodyShape, requestBody } from '../../bench/load/body.ts';
import { Connection, parseAddress, requestBytes } from '../../bench/load/connection.ts';
import type { Endpoint } from '../../bench/load/endpoints.ts';
import { newTally, type Tally } from '../../bench/load/tally.ts';
import { answerBytes, BURST_EVENTS, burstPackets } from '../../bench/programs/answers.ts';
import { freePort } from '../support/port.ts';
import { until } from '../support/until.ts';

/** A server that answers every request with these pieces, each in a packet of its own, and then closes or stays. */
async function answering(
  pieces: readonly Buffer[],
  close = false,
): Promise<{ server: Server; url: string }> {
  const server = createServer({ noDelay: true }, (socket) => {
    socket.on('error', () => {});
    socket.on('data', async () => {
      for (const piece of pieces) {
        socket.write(piece);
        await new Promise((resolve) => setImmediate(resolve));
      }
      if (close) socket.end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  return { server, url: `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}/v1` };
}

async function exchanges(
  pieces: readonly Buffer[],
  count: number,
  close = false,
  endpoint: Endpoint = 'chat',
): Promise<Tally> {
  const { server, url } = await answering(pieces, close);
  const tally = newTally();
  const address = parseAddress(url, endpoint);
  const connection = new Connection(address, tally);
  const request = requestBytes(address, {}, Buffer.from('{}'));
  for (let i = 0; i < count; i++) await new Promise((resolve) => connection.send(request, resolve));
  connection.close();
  server.close();
  return tally;
}

const cut = (bytes: Buffer, at: number): Buffer[] => [bytes.subarray(0, at), bytes.subarray(at)];

t.test('counts the events of a stream, however HTTP and packets divide them', async (t) => {
  for (const chunkPerEvent of [true, false]) {
    const tally = await exchanges(burstPackets(chunkPerEvent), 3);
    t.match(tally, { done: 3, events: 3 * (BURST_EVENTS + 3) });
    t.equal(tally.errors.size, 0);
    t.equal(tally.firstEvent.count, 3);
  }
});

t.test('reads an answer cut at any byte', async (t) => {
  const chunked = Buffer.from(
    'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n' +
      '8\r\ndata: {}\r\n1\r\n\n\r\n1\r\n\n\r\nf\r\ndata: [DONE]\n\n \r\n0\r\n\r\n',
  );
  for (const answer of [chunked, answerBytes().subarray(0, 1121)]) {
    const streamed = answer === chunked;
    for (let at = 1; at < answer.length; at += streamed ? 1 : 37) {
      const tally = await exchanges(cut(answer, at), 1);
      if (tally.done === 1 && tally.events === (streamed ? 2 : 0)) continue;
      t.fail(`cut at ${at}: ${tally.done} done, ${tally.events} events`, {
        errors: [...tally.errors],
      });
    }
  }
  t.pass('all cuts');
});

t.test('counts events whatever ends their lines, and no comments', async (t) => {
  const head = 'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n';
  for (const end of ['\n', '\r\n']) {
    const events = [': wait', 'data: {}', ': wait', 'data: [DONE]'].map(
      (line) => `${line}${end}${end}`,
    );
    const whole = Buffer.from(head + events.join(''));
    for (let at = head.length - 1; at < whole.length; at += 3) {
      const tally = await exchanges(cut(whole, at), 1, true);
      t.match(tally, { done: 1, events: 2, firstEvent: { count: 1 } }, `cut at ${at}`);
    }
    t.match(await exchanges([Buffer.from(`${head}${events[0]}`)], 1, true), {
      events: 0,
      firstEvent: { count: 0 },
    });
  }
});

t.test('names the host as URLs do, and keeps the query of an address', async (t) => {
  const address = parseAddress('https://[::1]:8443/v1/?api-version=2');
  t.match(address, { host: '::1', port: 8443, tls: true });
  const request = requestBytes(address, {}, Buffer.from('{}')).toString();
  t.match(
    request,
    /^POST \/v1\/chat\/completions\?api-version=2 HTTP\/1\.1\r\nhost: \[::1\]:8443\r\n/,
  );
  t.throws(() => parseAddress('localhost:8080/v1'), TypeError);
});

t.test('reports a broken answer as an error', async (t) => {
  const head = 'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n';
  const cases: [string, string][] = [
    [`${head}data: {}\n\n`, 'stream without its last event'],
    [
      `${head}data: {"error":{"message":"no"}}\n\ndata: [DONE]\n\n`,
      'error event within the stream',
    ],
    ['HTTP/1.1 429 Too Many Requests\r\ncontent-length: 2\r\n\r\n{}', 'HTTP 429'],
    ['HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\nshort', 'connection closed early'],
  ];
  for (const [answer, error] of cases) {
    const tally = await exchanges([Buffer.from(answer)], 1, true);
    t.same([...tally.errors], [[error, 1]], error);
    t.equal(tally.done, 0);
  }
});

t.test(
  'a stream is whole by the last event of its own dialect, wherever packets divide it',
  async (t) => {
    const head = 'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n';
    const quoted =
      'data: {"text":"data: [DONE] event: message_stop event: response.completed event: error"}\n\n';
    const long = 'x'.repeat(100);
    const streams: [Endpoint, string, string][] = [
      [
        'responses',
        `event: response.created\n${quoted}`,
        `event: response.completed\ndata: {"response":"${long}"}\n\n`,
      ],
      [
        'responses',
        `event: response.created\n${quoted}`,
        `event: response.incomplete\ndata: {"response":"${long}"}\n\n`,
      ],
      [
        'messages',
        `event: message_start\n${quoted}`,
        'event: message_stop\ndata: {"type":"message_stop"}\n\n',
      ],
      ['responses', quoted, `data: {"type":"response.completed","response":"${long}"}\n\n`],
      ['chat', quoted, 'data: [DONE]\n\n'],
    ];
    const endings = streams.map(([, , last]) => last);
    for (const [endpoint, start, last] of streams) {
      const whole = Buffer.from(head + start + last);
      for (let at = whole.length - last.length - 3; at < whole.length; at += 5) {
        const tally = await exchanges(cut(whole, at), 1, true, endpoint);
        if (tally.done !== 1 || tally.events !== 2)
          t.fail(`${endpoint} cut at ${at}`, { errors: [...tally.errors] });
      }
      for (const other of [
        '',
        ...endings.filter((one) => one.includes('response.') !== last.includes('response.')),
      ]) {
        const tally = await exchanges([Buffer.from(head + start + other)], 1, true, endpoint);
        t.same(
          [...tally.errors],
          [['stream without its last event', 1]],
          `${endpoint} with ${other.slice(0, 25)}`,
        );
      }
      for (const error of [
        'event: error\ndata: {"type":"error"}\n\n',
        'data: {"type":"response.failed"}\n\n',
      ]) {
        const tally = await exchanges(
          [Buffer.from(head + start + error + last)],
          1,
          true,
          endpoint,
        );
        t.same(
          [...tally.errors],
          [['error event within the stream', 1]],
          `${endpoint} with ${error.slice(0, 25)}`,
        );
      }
    }
  },
);

t.test(
  'of an exchange that started before its tally, neither times nor status count',
  async (t) => {
    const { server, url } = await answering(burstPackets(true));
    const address = parseAddress(url);
    const request = requestBytes(address, {}, Buffer.from('{}'));
    const [tally, earlier] = [newTally(), performance.now() - 1000];
    const connection = new Connection(address, tally);
    await new Promise((resolve) => connection.send(request, resolve, earlier));
    t.match(tally, {
      done: 1,
      events: BURST_EVENTS + 3,
      latency: { count: 0 },
      firstEvent: { count: 0 },
    });
    t.equal(tally.statuses.size, 0);
    await new Promise((resolve) => connection.send(request, resolve));
    t.match(tally, { done: 2, latency: { count: 1 }, firstEvent: { count: 1 } });
    connection.close();
    server.close();
  },
);

t.test(
  'a request body is JSON of exactly the wanted size, in the words of its endpoint',
  async (t) => {
    const shape = { model: 'the-model', bytes: 1000 };
    const made = (more: Partial<BodyShape>) => {
      const bytes = requestBody({ ...shape, ...more });
      t.equal(bytes.length, 1000, more.endpoint ?? 'chat');
      return JSON.parse(bytes.toString());
    };
    const question = { role: 'user', content: /quick brown fox/ };
    t.match(made({ stream: true, maxTokens: 7 }), {
      model: 'the-model',
      stream: true,
      max_tokens: 7,
      messages: [{}, question],
    });
    t.match(made({ image: true }), {
      messages: [{}, { content: [{ type: 'text' }, { type: 'image_url' }] }],
    });
    t.match(made({ endpoint: 'responses', maxTokens: 7 }), {
      stream: false,
      max_output_tokens: 7,
      input: [{ role: 'system' }, question],
    });
    t.match(made({ endpoint: 'messages' }), {
      max_tokens: 1024,
      system: 'Answer briefly.',
      messages: [question],
    });
    t.strictSame(Object.keys(made({ endpoint: 'embeddings', maxTokens: 7 })), ['model', 'input']);
  },
);

t.test('connects again when the server has closed an idle connection', async (t) => {
  const answer = Buffer.from('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}');
  const tally = await exchanges([answer], 5, true);
  t.match(tally, { done: 5 });
  t.equal(tally.errors.size, 0);
});

t.test('names the error when nobody listens, also behind TLS', async (t) => {
  const url = `http://127.0.0.1:${await freePort()}/v1`;
  for (const address of [parseAddress(url), parseAddress(url.replace('http', 'https'))]) {
    const tally = newTally();
    await new Promise((resolve) => new Connection(address, tally).send(Buffer.from(''), resolve));
    t.same([...tally.errors], [['ECONNREFUSED', 1]]);
  }
});

t.test(
  'a gap between two packets counts when it began after the last reset, whenever its stream did',
  async (t) => {
    const sockets: Socket[] = [];
    const server = createServer({ noDelay: true }, (socket) => void sockets.push(socket.resume()));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const tally = newTally();
    const address = parseAddress(`http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`);
    const connection = new Connection(address, tally);
    connection.send(requestBytes(address, {}, Buffer.from('{}')), () => {});
    await until(() => sockets.length === 1, 'a connection');
    const send = async (text: string, events: number): Promise<void> => {
      sockets[0]?.write(text);
      await until(() => tally.events === events, `${events} events`);
    };
    const head =
      'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n';
    await send(`${head}a\r\ndata: {}\n\n\r\n`, 1);
    await send('a\r\ndata: {}\n\n\r\n', 2);
    t.equal(tally.gap.count, 1);
    Object.assign(tally, newTally(), { events: 2 });
    await send('a\r\ndata: {}\n\n\r\n', 3);
    t.equal(tally.gap.count, 0, 'it began before');
    await send('a\r\ndata: {}\n\n\r\n', 4);
    t.equal(tally.gap.count, 1);
    connection.close();
    sockets[0]?.destroy();
    server.close();
  },
);
