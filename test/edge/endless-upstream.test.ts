import type { Socket } from 'node:net';
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib';
import t from 'tap';
import { chunksOf } from '../support/client.ts';
import { startGateway, type TestGateway } from '../support/gateway.ts';
import { until } from '../support/until.ts';
import { type Customer, customerWith } from '../support/world.ts';
import { chunk, httpAnswer, rawUpstream, STREAM_HEAD } from './raw.ts';

/** Upstream answers that are compressed, never end, or never begin. */

const upstream = await rawUpstream(t);
const TOTAL_SECONDS = 2; // for so long each of three floods lasts
const SECONDS = { FIRST_BYTE_SECONDS: '1', IDLE_SECONDS: '1', TOTAL_SECONDS: `${TOTAL_SECONDS}` };
const customer = await customerOf(
  await startGateway(t, upstream.url, { ...SECONDS, MAX_EVENT_BYTES: '1000000' }),
);

async function customerOf(gateway: TestGateway): Promise<Customer> {
  const company = await gateway.company();
  await gateway.model('brand-chat', { upstream: 'internal-chat', company });
  return customerWith(gateway.url, company, await gateway.key(company));
}

const usage = { prompt_tokens: 3, completion_tokens: 5, total_tokens: 8 };
const COMPLETION = JSON.stringify({
  id: 'chatcmpl-1',
  object: 'chat.completion',
  created: 1,
  model: 'internal-chat',
  choices: [{ index: 0, message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' }],
  usage,
});
const event = (more: object) =>
  `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', model: 'internal-chat', ...more })}\n\n`;
const TOKEN = event({
  choices: [{ index: 0, delta: { role: 'assistant', content: 'Hel' }, finish_reason: null }],
});
const STREAM = `${TOKEN}${event({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] })}${event({ choices: [], usage })}data: [DONE]\n\n`;
const JSON_HEAD =
  'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n';

/** Sends as fast as the gateway reads up to `most` bytes, then slowly, until it closes the connection. */
function flood(first: string, more: string, most: number) {
  const flood = {
    sent: 0,
    over: false,
    play(socket: Socket) {
      let timer: NodeJS.Timeout | undefined;
      const write = (): void => {
        let isRead = true;
        while (isRead && flood.sent < most && !socket.destroyed) {
          isRead = socket.write(more);
          flood.sent += more.length;
        }
        if (flood.sent >= most) timer ??= setInterval(() => socket.write(more), 200);
      };
      socket.on('drain', write).on('close', () => {
        clearInterval(timer);
        flood.over = true;
      });
      socket.write(first);
      write();
    },
  };
  return flood;
}

t.test(
  'a coding nobody asked for is a broken answer, whole or streamed; identity is none',
  async (t) => {
    const codings = {
      gzip: gzipSync,
      deflate: deflateSync,
      br: brotliCompressSync,
      zstd: zstdCompressSync,
    };
    for (const [coding, compress] of Object.entries(codings)) {
      for (const stream of [false, true]) {
        const [type, text] = stream
          ? ['text/event-stream', STREAM]
          : ['application/json', COMPLETION];
        upstream.answer(
          (socket) =>
            void socket.write(
              httpAnswer(200, type as string, compress(text as string), [
                `content-encoding: ${coding}`,
              ]),
            ),
        );
        t.match(
          await customer.chat({ stream }),
          { status: 502, json: { error: { code: 'upstream_error' } } },
          `${coding} ${stream}`,
        );
      }
    }
    upstream.answer(
      (socket) =>
        void socket.write(
          httpAnswer(200, 'application/json', COMPLETION, ['content-encoding: identity']),
        ),
    );
    t.equal((await customer.chat()).status, 200);
    upstream.answer(
      (socket) =>
        void socket.write(
          httpAnswer(200, 'text/event-stream', STREAM, ['content-encoding: identity']),
        ),
    );
    t.match((await customer.chat({ stream: true })).text, /\[DONE\]/);
    t.ok(
      upstream.received.every((request) => /accept-encoding: identity/i.test(request)),
      'none was asked for',
    );
  },
);

t.test('a small compressed body that would be large is not unpacked', async (t) => {
  const bomb = Buffer.concat(Array<Buffer>(200).fill(gzipSync(Buffer.alloc(1_000_000, ' '))));
  upstream.answer(
    (socket) =>
      void socket.write(httpAnswer(200, 'application/json', bomb, ['content-encoding: gzip'])),
  );
  const before = process.memoryUsage.rss();
  t.equal((await customer.chat()).status, 502);
  t.ok(process.memoryUsage.rss() - before < 100_000_000);
});

t.test('a JSON answer without end is given up, and so is its connection', async (t) => {
  const endless = flood(JSON_HEAD + chunk('{"choices":['), chunk(`${'0,'.repeat(30_000)}`), 400e6);
  upstream.answer(endless.play);
  const small = { MAX_ANSWER_BYTES: '1000000' };
  const patient = await customerOf(await startGateway(t, upstream.url, small)); // a busy machine reads long at so much
  t.match(await patient.chat(), { status: 502, json: { error: { code: 'upstream_error' } } });
  await until(() => endless.over, 'the connection is closed');
  t.ok(
    endless.sent < 300_000_000,
    `${endless.sent} bytes were taken, to find the usage behind what is held`,
  );
});

t.test(
  'a refusal without end is answered once a part of it came, whole or streamed, and its connection is closed',
  async (t) => {
    for (const stream of [false, true]) {
      const endless = flood(
        JSON_HEAD.replace('200 OK', '400 No') + chunk('{"error":"'),
        chunk('no '.repeat(20_000)),
        400e6,
      );
      upstream.answer(endless.play);
      t.match(await customer.chat({ stream }), {
        status: 400,
        json: { error: { type: 'invalid_request_error' } },
      });
      await until(() => endless.over, 'the connection is closed');
      t.ok(endless.sent < 20_000_000, `${endless.sent} bytes were taken`);
    }
  },
);

t.test('a stream without end lasts as long as any call may, then ends in an error', async (t) => {
  upstream.answer((socket) => {
    socket.write(STREAM_HEAD);
    const timer = setInterval(() => socket.write(chunk(TOKEN)), 20);
    socket.on('close', () => clearInterval(timer));
  });
  const began = performance.now();
  const { status, text } = await customer.chat({ stream: true });
  const seconds = (performance.now() - began) / 1000;
  t.equal(status, 200);
  t.equal(chunksOf(text).at(-1).error.code, 'upstream_timeout');
  t.ok(seconds >= TOTAL_SECONDS - 0.5 && seconds < TOTAL_SECONDS + 5, `${seconds.toFixed(1)} s`);
});

t.test('what never ends never fills the memory: an event, a comment, blank lines', async (t) => {
  const plays: Record<string, readonly [first: string, more: string, most: number]> = {
    'an event': ['data: {"choices":[{"delta":{"content":"', 'x'.repeat(50_000), 400e6],
    'a line without a name': ['', 'x'.repeat(50_000), 400e6],
    'a comment': [':', ' '.repeat(50_000), 400e6],
    // millions of these: kept, each would take 100 bytes
    'blank lines': ['', '\n'.repeat(50_000), 10e6],
    comments: ['', ': x\n\n'.repeat(10_000), 12e6],
  };
  for (const [name, [first, more, most]] of Object.entries(plays)) {
    const endless = flood(STREAM_HEAD + chunk(TOKEN + first), chunk(more), most);
    upstream.answer(endless.play);
    const before = process.memoryUsage.rss();
    const { status, text } = await customer.chat({ stream: true }); // comments do reach the client
    const grown = (process.memoryUsage.rss() - before) / 1e6;
    t.equal(status, 200, name);
    t.match(chunksOf(text).at(-1).error?.code, /^upstream_(error|timeout)$/, name);
    await until(() => endless.over, `the connection is closed: ${name}`);
    t.ok(grown < 200, `${name}: ${grown.toFixed(0)} MB more`);
  }
});

t.test('an answer that never begins is 504 on time, and its connection is closed', async (t) => {
  const plays: Record<string, (socket: Socket) => void> = {
    nothing: () => {},
    'interim answers alone': (socket) => {
      const timer = setInterval(() => socket.write('HTTP/1.1 102 Processing\r\n\r\n'), 50);
      socket.on('close', () => clearInterval(timer));
    },
    'a status line, byte by byte': (socket) => {
      let at = 0;
      const timer = setInterval(() => socket.write('HTTP/1.1 200 OK'[at++ % 15] as string), 300);
      socket.on('close', () => clearInterval(timer));
    },
    'a head, no event': (socket) => void socket.write(STREAM_HEAD),
  };
  for (const [name, play] of Object.entries(plays)) {
    let closed = false;
    upstream.answer((socket) => {
      socket.on('close', () => {
        closed = true;
      });
      play(socket);
    });
    const began = performance.now();
    const answer = await customer.chat({ stream: true });
    t.match(answer, { status: 504, json: { error: { code: 'upstream_timeout' } } }, name);
    t.ok(performance.now() - began < 6000, name);
    await until(() => closed, `the connection is closed: ${name}`);
  }
});
