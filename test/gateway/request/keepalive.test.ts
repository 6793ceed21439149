import type { ServerResponse } from 'node:http';
import { connect } from 'node:net';
import t, { type Test } from 'tap';
import { Keepalive, type KeptStream } from '../../../src/gateway/request/keepalive.ts';
import { Reply } from '../../../src/gateway/request/reply.ts';
import type { ClientResponse, ResponseStream } from '../../../src/http/exchange.ts';
import { open } from '../../support/client.ts';
import { startGateway, WAYS } from '../../support/gateway.ts';
import { until } from '../../support/until.ts';
import { scriptedUpstream } from '../../support/upstream.ts';

const HEAD = { 'content-type': 'text/event-stream' };
const COMMENT = ': keepalive\n\n';

const delta = (content: string) =>
  `data: {"id":"1","model":"internal-fast","choices":[{"index":0,"delta":{"content":"${content}"},"finish_reason":null}]}\n\n`;
const USAGE =
  'data: {"id":"1","choices":[{"index":0,"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":3}}\n\n';
const DONE = 'data: [DONE]\n\n';
const typed = (type: string, more = '') => `event: ${type}\ndata: {"type":"${type}"${more}}\n\n`;

interface Dialect {
  readonly path: string;
  body(text: string): object;
  readonly events: readonly string[];
  readonly keepalive: string;
}

const CHAT: Dialect = {
  path: '/chat/completions',
  body: (content) => ({ messages: [{ role: 'user', content }] }),
  events: [delta('one'), delta(' two'), USAGE, DONE],
  keepalive: COMMENT,
};
const DIALECTS: readonly Dialect[] = [
  CHAT,
  {
    path: '/responses',
    body: (input) => ({ input }),
    events: [
      typed('response.created', ',"response":{"id":"resp_1","model":"internal-fast"}'),
      typed('response.output_text.delta', ',"delta":"one two"'),
      typed(
        'response.completed',
        ',"response":{"id":"resp_1","usage":{"input_tokens":7,"output_tokens":3}}',
      ),
    ],
    keepalive: COMMENT,
  },
  {
    path: '/messages',
    body: (content) => ({ messages: [{ role: 'user', content }], max_tokens: 100 }),
    events: [
      typed('message_start', ',"message":{"model":"internal-fast","usage":{"input_tokens":7}}'),
      typed('content_block_delta', ',"delta":{"type":"text_delta","text":"one two"}'),
      typed('message_delta', ',"usage":{"output_tokens":3}'),
      typed('message_stop'),
    ],
    keepalive: 'event: ping\ndata: {"type":"ping"}\n\n',
  },
];

const renamed = (text: string) => text.replaceAll('internal-fast', 'fast');

type Script = (res: ServerResponse) => unknown;
/** By the prompt of the request that they answer. */
const scripts = new Map<string, Script>();
const upstream = await scriptedUpstream(t);
upstream.answer(async (res, body) => {
  const [prompt = ''] = /prompt \d+\./.exec(body.toString()) ?? [];
  await scripts.get(prompt)?.(res);
});

/** A client's answer, read as far as a test wants. */
class Reading {
  text = '';
  readonly answer: Response;
  readonly #body: ReadableStreamDefaultReader<Uint8Array>;

  constructor(answer: Response) {
    this.answer = answer;
    this.#body = (answer.body as ReadableStream<Uint8Array>).getReader();
  }

  /** Reads until the text has a part so often, or ends. */
  async until(part: string, times = 1): Promise<void> {
    while (this.text.split(part).length - 1 < times && (await this.#read()));
  }

  /** @returns the whole text */
  async end(): Promise<string> {
    while (await this.#read());
    return this.text;
  }

  async #read(): Promise<boolean> {
    const { value, done } = await this.#body.read();
    if (!done) this.text += Buffer.from(value).toString();
    return !done;
  }
}

async function stage(t: Test, way: string, env: Record<string, string> = {}) {
  const gateway = await startGateway(t, upstream.url, {
    STREAM_KEEPALIVE_SECONDS: '1',
    FAST_HTTP: way,
    ...env,
  });
  await gateway.model('fast', { upstream: 'internal-fast', input: '1', output: '2' });
  /** The body of a request that the script answers. */
  const bodyFor = (script: Script, { body }: Dialect = CHAT) => {
    const prompt = `prompt ${scripts.size}.`;
    scripts.set(prompt, script);
    return { model: 'fast', stream: true, ...body(prompt) };
  };
  /** A customer of its own per test: its ledger is then only about that test. */
  const newCustomer = async () => {
    const company = await gateway.company();
    const key = await gateway.key(company);
    return {
      company,
      key,
      ledger: (rows: number) => gateway.ledger(company, rows),
      async ask(
        script: Script,
        dialect: Dialect = CHAT,
        more: object = {},
        signal?: AbortSignal,
      ): Promise<Reading> {
        const body = { ...bodyFor(script, dialect), ...more };
        return new Reading(
          await open(gateway.url + dialect.path, { key, body, ...(signal && { signal }) }),
        );
      },
    };
  };
  const other = await newCustomer();
  return {
    gateway,
    newCustomer,
    bodyFor,
    /** Resolves when another stream, which begins now, has got so many keepalives. */
    async witness(times: number): Promise<void> {
      const over = Promise.withResolvers<void>();
      const reading = await other.ask(async (res) => {
        res.writeHead(200, HEAD).flushHeaders();
        await over.promise;
        res.end(DONE);
      });
      await reading.until(COMMENT, times);
      over.resolve();
      await reading.end();
    },
  };
}

/** A stream that is or was kept alive. */
interface Keeping {
  readonly stream: KeptStream;
  /** How often its client had been sent nothing for a while, and bytes waited for it. */
  waited: number;
  /** Keepalives that were sent behind such bytes. */
  wrong: number;
}

/** By the id of the request. */
const keepings = new Map<string, Keeping>();
const { keep } = Keepalive.prototype;
Keepalive.prototype.keep = function (out, reply, source) {
  const isWaiting = (): boolean => reply.res.writableLength > 0;
  const stream = keep.call(this, out, reply, {
    keepalive() {
      if (isWaiting()) keeping.wrong++;
      return source.keepalive();
    },
    guarded(part) {
      if (isWaiting()) keeping.waited++;
      source.guarded(part);
    },
  });
  const keeping: Keeping = { stream, waited: 0, wrong: 0 };
  keepings.set(reply.requestId, keeping);
  return stream;
};
t.teardown(() => Object.assign(Keepalive.prototype, { keep }));

for (const way of WAYS) {
  t.test(`with FAST_HTTP=${way}`, async (t) => {
    t.jobs = 20; // each waits for seconds
    const { gateway, newCustomer, bodyFor, witness } = await stage(t, way);

    for (const dialect of DIALECTS) {
      const { path, events, keepalive } = dialect;
      t.test(
        `${path}: a silent stream is kept alive between events, and booked as any other`,
        async (t) => {
          const { ask, ledger } = await newCustomer();
          const [first = '', second = ''] = events;
          const heard = Promise.withResolvers<void>();
          const silent = await ask(async (res) => {
            res.writeHead(200, HEAD);
            res.write(first + second.slice(0, 30)); // silent inside an event
            await heard.promise;
            res.end(second.slice(30) + events.slice(2).join(''));
          }, dialect);
          await silent.until(keepalive, 2);
          heard.resolve();
          const [before, ...others] = (await silent.end()).split(keepalive);
          t.equal(before, renamed(first));
          t.same(others, [...others.slice(1).fill(''), renamed(events.slice(1).join(''))]);
          const busy = await ask(
            (res) => void res.writeHead(200, HEAD).end(events.join('')),
            dialect,
          );
          t.equal(await busy.end(), renamed(events.join('')));
          const rows = await ledger(2);
          const facts = rows.map(({ request_id: _id, occurred_at: _at, ...row }) => row);
          t.same(facts[0], facts[1]);
          t.match(facts[0], {
            prompt_tokens: 7,
            completion_tokens: 3,
            usage_source: 'upstream',
            outcome: 'completed',
          });
        },
      );
    }

    t.test('an estimate counts no keepalive', async (t) => {
      const { ask, ledger } = await newCustomer();
      const events = [delta('one'), delta(' two').replace('null', '"stop"'), DONE];
      const heard = Promise.withResolvers<void>();
      const silent = await ask(async (res) => {
        res.writeHead(200, HEAD).write(events[0]);
        await heard.promise;
        res.end(events.slice(1).join(''));
      });
      await silent.until(COMMENT, 3);
      heard.resolve();
      await silent.end();
      await (await ask((res) => void res.writeHead(200, HEAD).end(events.join('')))).end();
      const [one, two] = (await ledger(2)).map(
        ({ request_id: _id, occurred_at: _at, ...row }) => row,
      );
      t.same(one, two);
      t.equal(one?.usage_source, 'estimated');
    });

    t.test(
      'before the head of the upstream nothing is sent, whose status the client then gets',
      async (t) => {
        const { ask } = await newCustomer();
        const waited = Promise.withResolvers<void>();
        const refused = ask(async (res) => {
          await waited.promise;
          res
            .writeHead(400, { 'content-type': 'application/json' })
            .end('{"error":{"message":"no"}}');
        });
        await witness(2);
        waited.resolve();
        t.equal((await refused).answer.status, 400);
      },
    );

    t.test(
      'behind its head a stream is kept alive before its first event; the time to this is that of the model',
      async (t) => {
        const { ask, ledger } = await newCustomer();
        const heard = Promise.withResolvers<void>();
        const reading = await ask(async (res) => {
          res.writeHead(200, HEAD).flushHeaders();
          await heard.promise;
          res.end(delta('one') + USAGE + DONE);
        });
        t.equal(reading.answer.status, 200);
        await reading.until(COMMENT, 3);
        const before = performance.now();
        heard.resolve();
        t.equal(
          (await reading.end()).replaceAll(COMMENT, ''),
          renamed(delta('one') + USAGE + DONE),
        );
        const rest = performance.now() - before;
        const [row] = await ledger(1);
        const took = await until(async () => {
          const [call] = await gateway.sql`
            select first_event_ms, duration_ms from request_trail where request_id = ${row?.request_id ?? ''}`;
          return call;
        }, 'the row of the trail');
        t.ok(
          took?.duration_ms - took?.first_event_ms <= rest + 1,
          'not that to the first keepalive',
        );
      },
    );

    t.test('an error that comes first is an event then, and the last that is sent', async (t) => {
      const { ask } = await newCustomer();
      const heard = Promise.withResolvers<void>();
      const reading = await ask(async (res) => {
        res.writeHead(200, HEAD).flushHeaders();
        await heard.promise;
        res.end('data: {"error":{"message":"no","code":429}}\n\n');
      });
      await reading.until(COMMENT);
      heard.resolve();
      const event = (await reading.end()).replaceAll(COMMENT, '');
      t.match(event, /^data: \{"error":\{.*"code":"rate_limit_exceeded".*\}\}\n\n$/);
    });

    t.test('whole answers get none, nor do errors in place of a stream', async (t) => {
      const { ask } = await newCustomer();
      const waited = Promise.withResolvers<void>();
      const answer =
        '{"model":"fast","choices":[{"index":0,"message":{"content":"one"}}],"usage":{"prompt_tokens":7,"completion_tokens":3}}';
      const late = (status: number, text: string) => async (res: ServerResponse) => {
        res.writeHead(status, { 'content-type': 'application/json' }).write(text.slice(0, 5));
        await waited.promise;
        res.end(text.slice(5));
      };
      const asked = [
        ask(late(200, answer), CHAT, { stream: false }),
        ask(late(200, answer)),
        ask(late(400, '{"error":{"message":"no"}}')),
      ];
      await witness(2);
      waited.resolve();
      const [whole, json, refused] = await Promise.all(asked);
      t.equal(await whole?.end(), answer);
      for (const [reading, status] of [
        [json, 502],
        [refused, 400],
      ] as const) {
        t.equal(reading?.answer.status, status);
        t.match(JSON.parse((await reading?.end()) ?? ''), { error: { message: String } });
      }
    });

    t.test('none is due while bytes wait for a client that does not read', async (t) => {
      const { ask } = await newCustomer();
      const events = delta('y'.repeat(4000)).repeat(4000); // more than all systems on the way take
      const read = Promise.withResolvers<void>();
      const reading = await ask(async (res) => {
        res.writeHead(200, HEAD).write(events);
        await read.promise;
        res.end(USAGE + DONE);
      });
      const held = keepings.get(reading.answer.headers.get('x-request-id') ?? '') as Keeping;
      await until(() => held.waited >= 2, 'the stream is silent, and bytes wait for its client');
      read.resolve();
      const text = await reading.end();
      t.equal(held.wrong, 0);
      t.ok(text.replaceAll(COMMENT, '') === renamed(events) + USAGE + DONE);
    });

    t.test(
      'none follows the end of a stream, whole or broken, on a connection that stays open',
      async (t) => {
        const { key } = await newCustomer();
        const { hostname, port } = new URL(gateway.url);
        const ask = async (events: string, times = 1) => {
          const socket = connect(Number(port), hostname).setEncoding('latin1');
          t.teardown(() => socket.destroy());
          const client = { socket, text: '', again: async () => {} };
          socket.on('data', (bytes: string) => {
            client.text += bytes;
          });
          const end = events === '' ? '}' : '\r\n0\r\n\r\n';
          client.again = async () => {
            const body = JSON.stringify(
              bodyFor((res) => void res.writeHead(200, HEAD).end(events)),
            );
            client.text = '';
            socket.write(
              `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${key}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
            );
            await until(() => client.text.endsWith(end), 'the answer');
          };
          for (let n = 0; n < times; n++) await client.again();
          return client;
        };
        const whole = delta('one') + USAGE + DONE;
        // from the second on the fast path answers past Node
        const clients = await Promise.all([
          ask(whole),
          ask(whole, 3),
          ask(`${delta('one')}data: {"error":1}\n\n`),
          ask(''),
        ]);
        const texts = clients.map(({ text }) => text);
        await witness(2);
        t.same(
          clients.map(({ text }) => text),
          texts,
        );
        await Promise.all(clients.map(({ again }) => again()));
        for (const { text } of clients) t.notMatch(text, 'keepalive');
      },
    );

    t.test('a client that leaves while nothing comes is noticed and booked', async (t) => {
      const { company, ask, ledger } = await newCustomer();
      const left = Promise.withResolvers<void>();
      const abort = new AbortController();
      const reading = await ask(
        async (res) => {
          res.writeHead(200, HEAD).write(delta('one'));
          await left.promise;
          res.end(USAGE + DONE);
        },
        CHAT,
        {},
        abort.signal,
      );
      await reading.until(COMMENT);
      abort.abort();
      await until(
        () => gateway.logged.some((line) => line.includes(company)),
        'the log line of the call',
      );
      left.resolve();
      t.match(await ledger(1), [
        { outcome: 'client_aborted', prompt_tokens: 7, completion_tokens: 3 },
      ]);
    });
  });
}

t.test('whoever is over has left, however it ended', async (t) => {
  const streams = [...keepings.values()].map(({ stream }) => stream);
  t.ok(streams.length > 10);
  await until(() => streams.every(({ slot }) => slot === null), 'no stream is kept alive');
  t.notOk([...keepings.values()].some(({ wrong }) => wrong > 0));
});

t.test(
  'IDLE_SECONDS ends a stream that is kept alive: a keepalive is nothing from the upstream',
  async (t) => {
    const { newCustomer } = await stage(t, WAYS[0] as string, { IDLE_SECONDS: '3' });
    const { ask } = await newCustomer();
    const reading = await ask((res) => void res.writeHead(200, HEAD).write(delta('one')));
    const text = await reading.end();
    t.match(text, COMMENT);
    t.match(
      text.slice(text.lastIndexOf('\n\n', text.length - 3)),
      /"code":"upstream_timeout".*\n\n$/,
    );
  },
);

t.test('off: a silent stream stays silent', async (t) => {
  const { witness } = await stage(t, WAYS[0] as string);
  const { newCustomer } = await stage(t, WAYS[0] as string, { STREAM_KEEPALIVE_SECONDS: '0' });
  const { ask } = await newCustomer();
  const waited = Promise.withResolvers<void>();
  const reading = await ask(async (res) => {
    res.writeHead(200, HEAD).write(delta('one'));
    await waited.promise;
    res.end(USAGE + DONE);
  });
  await witness(2);
  waited.resolve();
  t.equal(await reading.end(), renamed(delta('one') + USAGE + DONE));
});

t.test(
  'nothing is due while bytes wait: for the record, for the client, for an earlier answer; or once it is over',
  async (t) => {
    const res = { writableLength: 0, socket: {} as object | null, listen() {} };
    const out = { isEmpty: true, written: '' };
    const stream: ResponseStream = {
      get isEmpty() {
        return out.isEmpty;
      },
      add(bytes, start, end) {
        out.written += bytes.toString('latin1', start, end);
        reply.onStream();
        return true;
      },
      flush: () => true,
      end() {},
      drop() {},
    };
    const reply = new Reply(res as unknown as ClientResponse, 'id', {
      onReplyWaits() {},
      onReplyClosed() {},
      onReplyThrew() {},
    });
    const keepalive = new Keepalive(1000);
    t.teardown(() => keepalive.close());
    let bytes: Buffer | null = Buffer.from('due ');
    const silent = keepalive.keep(stream, reply, {
      keepalive: () => bytes,
      guarded: (part) => part(),
    });
    const beat = (): string => {
      out.written = '';
      silent.onInactive();
      return out.written;
    };
    t.equal(beat(), 'due ');
    t.notOk(reply.streamedAt > 0, 'it is no first event');
    out.isEmpty = false;
    t.equal(beat(), '', 'gathered, until the call is booked');
    out.isEmpty = true;
    res.writableLength = 1;
    t.equal(beat(), '', 'the client does not take them');
    res.writableLength = 0;
    res.socket = null;
    t.equal(beat(), '', 'an earlier answer is still being sent');
    res.socket = {};
    t.equal(beat(), 'due ');
    bytes = null;
    t.equal(beat(), '', 'the stream is over');
    silent.add(Buffer.from('event'), 0, 5);
    t.ok(reply.streamedAt > 0);
    silent.leave();
    t.equal(silent.slot, null);
  },
);
