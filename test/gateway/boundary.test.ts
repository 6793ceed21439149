import { once } from 'node:events';
import { Agent, request } from 'node:http';
import { connect } from 'node:net';
import t from 'tap';
import { AnswerBody } from '../../src/gateway/answer/answer-body.ts';
import { CallMeter } from '../../src/gateway/answer/call-meter.ts';
import { JsonRelay } from '../../src/gateway/answer/json-relay.ts';
import { StreamRelay } from '../../src/gateway/answer/stream-relay.ts';
import { Watch } from '../../src/gateway/request/deadlines.ts';
import { RequestMemory } from '../../src/gateway/request/held-memory.ts';
import { RequestLog } from '../../src/gateway/request/log.ts';
import { Overload } from '../../src/gateway/request/overload.ts';
import { Reply } from '../../src/gateway/request/reply.ts';
import { ClientConnection } from '../../src/http/client-connection.ts';
import { DirectRequest, DirectResponse } from '../../src/http/direct-request.ts';
import { FramedStream } from '../../src/http/framed-stream.ts';
import { PlainResponse } from '../../src/http/plain.ts';
import { RequestHead } from '../../src/http/request-head.ts';
import { ObjectStreamParser } from '../../src/json/stream-parser.ts';
import { BatchLedger } from '../../src/ledger/batch-ledger.ts';
import { RecordBlocks } from '../../src/ledger/record-block.ts';
import { LeasedLimiter } from '../../src/limits/limiter.ts';
import { BodyMemory } from '../../src/runtime/body-memory.ts';
import { ChatStream } from '../../src/sse/chat-stream.ts';
import { CachedDirectory } from '../../src/store/gateway/directory.ts';
import { Addresses } from '../../src/upstream/addresses.ts';
import { Dial } from '../../src/upstream/dial.ts';
import { FastConnection } from '../../src/upstream/fast-connection.ts';
import { RequestWriter } from '../../src/upstream/request-writer.ts';
import { ResponseReader } from '../../src/upstream/response-reader.ts';
import { startGateway, type TestGateway } from '../support/gateway.ts';
import { until } from '../support/until.ts';
import { scriptedUpstream } from '../support/upstream.ts';

/**
 * The boundary around each connection: each place where an event, a timer or a promise calls the gateway's code throws
 * once, while bytes of one connection are handled. That connection ends, the log and a metric tell of it, and all others go on.
 */

const upstream = await scriptedUpstream(t);
const USAGE = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
let hold: Promise<unknown> | null = null;
upstream.answer(async (res, body) => {
  const { stream } = JSON.parse(body.toString());
  await hold;
  const message = { role: 'assistant', content: 'Yes' };
  if (!stream) {
    const answer = { choices: [{ index: 0, message, finish_reason: 'stop' }], usage: USAGE };
    res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
    return;
  }
  const event = (choices: object[], more = {}): string =>
    `data: ${JSON.stringify({ choices, ...more })}\n\n`;
  res.writeHead(200, { 'content-type': 'text/event-stream' });
  res.write(event([{ index: 0, delta: { content: 'Yes' }, finish_reason: null }]));
  res.write(event([{ index: 0, delta: {}, finish_reason: 'stop' }]));
  res.end(`${event([], { usage: USAGE })}data: [DONE]\n\n`);
});

interface Place {
  readonly of: { prototype: object };
  readonly method: string;
  /** What is sent. */
  readonly sends: 'small' | 'large' | 'stream' | 'part' | 'leaves' | 'waits';
  /** In which ways of answering it is reached. */
  readonly ways: readonly string[];
  /** What the client reads: an answer of 500, an error in a stream, the answer itself, or nothing. */
  readonly reads: RegExp;
}

const BOTH = ['on', 'off'];
const FAST = ['on'];
const FAULT = /^500 .*internal_error/s;
const EVENT = /internal_error|^cut/s;
const ANSWER = /^200 /;
const ANY = /^/;
const place = (
  of: { prototype: object },
  method: string,
  sends: Place['sends'],
  ways: readonly string[],
  reads: RegExp,
): Place => ({ of, method, sends, ways, reads });

const PLACES: readonly Place[] = [
  // bytes of the client
  place(RequestHead, 'take', 'small', FAST, FAULT),
  place(DirectRequest, 'take', 'large', FAST, FAULT),
  place(ClientConnection, 'checkArrival', 'part', FAST, ANY),
  place(ObjectStreamParser, 'push', 'large', BOTH, FAULT),
  place(ObjectStreamParser, 'end', 'large', BOTH, FAULT),
  place(BodyMemory, 'lend', 'large', BOTH, FAULT),
  place(RequestMemory, 'take', 'large', BOTH, FAULT),
  // what is decided about a request
  place(Overload, 'enter', 'small', BOTH, FAULT),
  place(CachedDirectory, 'key', 'small', BOTH, FAULT),
  place(LeasedLimiter, 'enter', 'small', BOTH, FAULT),
  // the way to the upstream, and its answer
  place(Dial, 'take', 'small', ['off'], FAULT),
  place(FastConnection, 'send', 'small', FAST, FAULT),
  place(RequestWriter, 'write', 'small', FAST, FAULT),
  place(ResponseReader, 'read', 'small', FAST, FAULT),
  place(Addresses, 'judge', 'small', BOTH, FAULT),
  place(AnswerBody, 'push', 'small', BOTH, FAULT),
  place(JsonRelay, 'onEnd', 'small', BOTH, FAULT),
  place(ChatStream, 'note', 'stream', BOTH, EVENT),
  place(Watch, 'check', 'waits', BOTH, FAULT),
  // what the client is sent, and what is booked
  place(CallMeter, 'settle', 'small', BOTH, FAULT),
  place(BatchLedger, 'book', 'small', BOTH, FAULT),
  place(RecordBlocks, 'add', 'small', BOTH, ANSWER),
  place(JsonRelay, 'onBooked', 'small', BOTH, FAULT),
  place(StreamRelay, 'onBooked', 'stream', BOTH, ANY),
  place(DirectResponse, 'send', 'small', FAST, FAULT),
  place(PlainResponse, 'send', 'small', ['off'], FAULT),
  place(FramedStream, 'add', 'stream', FAST, ANY),
  place(Reply, 'onSent', 'small', BOTH, ANY),
  place(RequestLog, 'ended', 'small', BOTH, ANSWER),
  // the client leaves
  place(JsonRelay, 'onClientClose', 'leaves', BOTH, ANY),
  place(StreamRelay, 'onClientClose', 'stream', BOTH, ANSWER),
];

/** Lets the next call of a method throw. @returns whether it has, and what undoes that */
function arm({ of: { prototype }, method }: Place) {
  const original = Object.getOwnPropertyDescriptor(prototype, method);
  const disarm = (): void => {
    if (original !== undefined) Object.defineProperty(prototype, method, original);
    else Reflect.deleteProperty(prototype, method); // it is inherited
  };
  const armed = { fired: false, disarm };
  const value = (): never => {
    armed.disarm();
    armed.fired = true;
    throw new TypeError('a fault');
  };
  Object.defineProperty(prototype, method, { configurable: true, writable: true, value });
  return armed;
}

const BODY = { model: 'fast', messages: [{ role: 'user', content: 'Hello' }] };

/** Sends a request on a connection that is kept. @returns status and body; "cut" where there is none */
function ask(gateway: TestGateway, agent: Agent, key: string, more: object = {}): Promise<string> {
  return new Promise((resolve) => {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    const body = JSON.stringify({ ...BODY, ...more });
    const length = { 'content-length': body.length };
    const req = request(
      `${gateway.url}/chat/completions`,
      { method: 'POST', agent, headers: { ...headers, ...length } },
      async (res) => {
        const pieces = await res.toArray().catch(() => null);
        resolve(pieces === null ? 'cut' : `${res.statusCode} ${Buffer.concat(pieces)}`);
      },
    );
    req.on('error', () => resolve('cut'));
    req.end(body);
  });
}

async function metric(gateway: TestGateway): Promise<number> {
  const text = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
  return Number(/^tollgate_faults_total (\d+)/m.exec(text)?.[1]);
}

for (const way of BOTH) {
  t.test(`a fault ends one connection, whichever place throws: FAST_HTTP=${way}`, async (t) => {
    const gateway = await startGateway(t, upstream.url, { FAST_HTTP: way });
    await gateway.model('fast', { upstream: 'internal-fast' });
    const key = await gateway.key(await gateway.company());
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    t.teardown(() => agent.destroy());
    const uncaught: unknown[] = [];
    const onUncaught = (error: unknown): void => void uncaught.push(error);
    process.on('uncaughtException', onUncaught);
    t.teardown(() => process.off('uncaughtException', onUncaught));
    for (const each of PLACES.filter(({ ways }) => ways.includes(way))) {
      const { of, method, sends, reads } = each;
      const name = `${(of as { name?: string }).name}.${method}, ${sends}`;
      t.match(await ask(gateway, agent, key), ANSWER, `before ${name}`);
      const { logged } = gateway;
      const from = logged.length;
      const before = await metric(gateway);
      const held = Promise.withResolvers<void>();
      if (sends === 'waits' || sends === 'leaves') hold = held.promise;
      const armed = arm(each);
      let got = '';
      if (sends === 'part' || sends === 'leaves') {
        const { hostname, port } = new URL(gateway.url);
        const socket = connect(Number(port), hostname);
        const body = JSON.stringify(BODY);
        const head = `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${key}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n`;
        socket.on('error', () => {});
        if (sends === 'part') {
          socket.write(head + body);
          await once(socket, 'data');
          socket.write(head + body.slice(1));
        } else {
          const calls = upstream.received.length;
          socket.write(head + body);
          await until(() => upstream.received.length > calls, 'the call');
          socket.resetAndDestroy();
        }
        await until(() => armed.fired, `${name} throws`);
        socket.destroy();
      } else {
        const filler = { user: 'x'.repeat(200_000) };
        const more = sends === 'large' ? filler : sends === 'stream' ? { stream: true } : {};
        got = await ask(gateway, agent, key, more);
        await until(() => armed.fired, `${name} throws`);
      }
      held.resolve();
      hold = null;
      armed.disarm();
      t.match(got, reads, name);
      const lines = await until(
        () => logged.slice(from).filter((line) => line.includes('"level":50')),
        `a line for ${name}`,
        ({ length }) => length > 0,
      );
      t.match(JSON.parse(lines[0] as string), { type: 'TypeError', stack: /^ +at / }, name);
      t.notOk(lines.join().includes(key) || lines.join().includes('Hello'), 'no key, no prompt');
      if (of !== RecordBlocks) t.ok((await metric(gateway)) > before, `${name} is counted`);
      t.match(await ask(gateway, new Agent(), key), ANSWER, `after ${name}: a new connection`);
      t.same(uncaught.splice(0), [], `${name} reached nobody else`);
    }
  });
}
