import { once } from 'node:events';
import type { Server } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { duplexPair } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import fc from 'fast-check';
import t, { type Test } from 'tap';
import { GatewayError } from '../../src/domain/errors.ts';
import { clientAddress } from '../../src/domain/request/client-address.ts';
import { readBody } from '../../src/gateway/request/body.ts';
import { Reply } from '../../src/gateway/request/reply.ts';
import { attach, FAST_PARTS, type FastPart, messageClasses } from '../../src/http/attach.ts';
import { DirectRequest } from '../../src/http/direct-request.ts';
import type { ClientRequest, ClientResponse } from '../../src/http/exchange.ts';
import { BodyMemory } from '../../src/runtime/body-memory.ts';
import { createServer } from '../../src/runtime/node-http.ts';
import { cutAt } from '../sse/fuzz.ts';
import { fuzzRuns } from '../support/fuzz.ts';
import { until } from '../support/until.ts';

/** Runs at once. */
const LANES = 24;
/** More than the system takes for a client that reads nothing. */
const LARGE = 30_000_000;

/**
 * How many requests went past Node's parser, how many answers are over, what sends the one that is held, and the
 * server's side of the connection whose answer never comes.
 */
interface Seen {
  direct: number;
  closed: number;
  release: (() => void) | null;
  unanswered: Socket | null;
}

/**
 * Answers with what it understood of a request, in the way the body's first letter says: at
 * once, later (so it waits), when released, as an error, as an error that closes, in pieces, or never.
 */
function answer(req: ClientRequest, res: ClientResponse, seen: Seen): void {
  if (req instanceof DirectRequest) seen.direct++;
  if (req.head.expectsContinue) res.writeContinue(); // as the gateway does
  const onReplyClosed = () => seen.closed++;
  const reply = new Reply(res, 'id', { onReplyWaits() {}, onReplyClosed, onReplyThrew() {} });
  readBody(req, 100_000, new BodyMemory(), {
    onBody(body) {
      const text = body.slice(0, body.length).toString('latin1');
      const from = clientAddress(2, undefined, req.rawHeaders);
      const { authorization: key, contentLength: announced } = req.head;
      const heard = Buffer.from(
        JSON.stringify({ method: req.method, url: req.url, from, key, announced, text }),
      );
      const error = new GatewayError('not_found');
      const ways: Record<string, () => unknown> = {
        l: () => setTimeout(() => reply.json(heard), 3),
        h: () => {
          seen.release = () => reply.json(heard);
        },
        e: () => reply.error(error),
        c: () => reply.error(error, true),
        p: () => {
          const stream = reply.stream(() => {});
          stream.add(Buffer.from('one'), 0, 3);
          stream.flush();
          setTimeout(() => {
            stream.add(Buffer.from('two'), 0, 3);
            stream.end();
          }, 3);
        },
        b: () => reply.json(Buffer.alloc(LARGE, heard)),
        s: () =>
          res.send(200, ['content-length', `${LARGE}`], heard.toString('latin1').padEnd(LARGE)),
        n: () => {
          seen.unanswered = req.socket as Socket;
        },
      };
      (ways[text[0] as string] ?? (() => reply.json(heard)))();
    },
    onWait() {},
    onNoBody: (error) => reply.error(error, true),
    takeMemory: () => true,
    worked: () => {},
    onThrown() {},
  });
}

const nothing = (): Seen => ({ direct: 0, closed: 0, release: null, unanswered: null });

async function serve(t: Test, watched: boolean, seen = nothing(), answers = answer) {
  let isDraining = false;
  const parts = new Set(watched ? (Object.keys(FAST_PARTS) as FastPart[]) : []);
  const server: Server = createServer({
    ...messageClasses(parts),
    keepAliveTimeout: 75_000,
    requireHostHeader: false,
    connectionsCheckingInterval: 100,
  });
  const handler = (req: ClientRequest, res: ClientResponse): void => {
    if (isDraining) res.closeAfter();
    answers(req, res, seen);
  };
  const peers = new Map<number | undefined, Socket>();
  const onOpen = (socket: Socket) => void peers.set(socket.remotePort, socket);
  attach(server, { handler, parts, secure: false, onOpen });
  server.on('clientError', ({ code }: NodeJS.ErrnoException, socket) => {
    const status = code === 'ERR_HTTP_REQUEST_TIMEOUT' ? '408 Request Timeout' : '400 Bad Request';
    if (socket.writable) socket.end(`HTTP/1.1 ${status}\r\nconnection: close\r\n\r\n`);
    else socket.destroy();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  const port = (server.address() as AddressInfo).port;
  /** How many bytes it has read of a client. */
  const read = ({ localPort }: Socket): number => peers.get(localPort)?.bytesRead ?? 0;
  return { server, port, seen, read, leave: () => (isDraining = true) };
}

type Served = Awaited<ReturnType<typeof serve>>;

/** A connection, and all that came over it. */
function open(port: number) {
  const socket = connect(port, '127.0.0.1').setNoDelay(true);
  const heard = { text: '', ended: false, reset: false, socket };
  socket.setEncoding('latin1').on('data', (chunk: string) => {
    heard.text += chunk;
  });
  socket.on('close', () => {
    heard.ended = true;
  });
  socket.on('error', () => {
    heard.reset = true;
  });
  return heard;
}

/** Without what may differ: the time of day, case, the order of two headers, zeros before the length of a chunk. */
const plain = (text: string): string =>
  text
    .replaceAll(/date: [^\r]+ GMT/gi, 'date: now')
    .replaceAll(/^0+(?=[\da-f]+\r$)/gm, '')
    .toLowerCase()
    .replaceAll('connection: close\r\ndate: now\r\n', 'date: now\r\nconnection: close\r\n');

/**
 * What a server says to these pieces, and to the last of them when it has answered the others;
 * null when a reset may have taken some of it.
 */
async function say(
  { port, read }: Served,
  pieces: readonly Buffer[],
  last: string,
): Promise<string | null> {
  const heard = open(port);
  let sent = 0;
  for (const piece of pieces) {
    heard.socket.write(piece);
    sent += piece.length;
    // each piece is to arrive by itself, unless the server reads no more for now
    for (let tries = 0; tries < 20 && (tries < 2 || read(heard.socket) < sent); tries++)
      await sleep(1);
  }
  await silence(heard);
  heard.socket.write(last, 'latin1');
  await silence(heard);
  heard.socket.destroy();
  return heard.reset ? null : `${plain(heard.text)}${heard.ended ? ' closed' : ' open'}`;
}

/** Resolves when nothing more has come for a while: for many turns of the event loop, each of which reads what has come. */
async function silence(heard: { readonly text: string }): Promise<void> {
  for (let length = -1, quiet = 0; quiet < 30; quiet++) {
    if (length !== heard.text.length) quiet = 0;
    length = heard.text.length;
    await sleep(2); // one long sleep would end before anything is read, where the machine was busy elsewhere
  }
}

const post = (body: string, extra = '', key = 'svc_one'): string =>
  `POST /v1/chat HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\n${extra}Content-Length: ${body.length}\r\n\r\n${body}`;

/** Sends one request after the other, each when the one before is answered. @returns the answers */
async function inTurn(
  heard: ReturnType<typeof open>,
  requests: readonly string[],
): Promise<string[]> {
  const answers: string[] = [];
  for (const request of requests) {
    heard.text = '';
    heard.socket.write(request, 'latin1');
    await until(() => /\r\n\r\n.*\}$/s.test(heard.text) || heard.ended, 'an answer');
    answers.push(heard.text);
  }
  return answers;
}

/** Another client asks once and has its answer: what was on its way before has happened, or does not. */
async function passBy(port: number): Promise<void> {
  const other = open(port);
  await inTurn(other, [post('a')]);
  other.socket.destroy();
}

t.test('requests of the common form pass the parser by, from the first one on', async (t) => {
  const { port, seen } = await serve(t, true);
  const heard = open(port);
  const requests = [
    post('a'),
    post('aa'),
    post('xc', '', 'svc_two'),
    post('e'),
    post('l'),
    post('dd'),
  ];
  const answers = await inTurn(heard, requests);
  t.equal(seen.direct, 6);
  await until(() => seen.closed === 6, 'six answers are over');
  t.equal(seen.closed, 6, 'each answer was over once');
  t.match(answers[2], /"key":"Bearer svc_two","announced":2,"text":"xc"/);
  t.match(answers[3], /^HTTP\/1\.1 404/);
  t.match(answers[5], /"key":"Bearer svc_one","announced":2,"text":"dd"/);
  heard.socket.destroy();
});

t.test('a request that passes the parser by says the addresses of its own head', async (t) => {
  const { port, seen } = await serve(t, true);
  const heard = open(port);
  const one = (body: string, key?: string) =>
    post(body, 'X-Forwarded-For: 192.0.2.1, 10.0.0.1\r\n', key);
  const other = (body: string) =>
    post(body, 'X-Forwarded-For: 192.0.2.2\r\nx-forwarded-for: 10.0.0.1\r\n');
  const requests = [
    one('a'),
    one('aa'),
    one('a', 'svc_two'),
    other('a'),
    other('aa'),
    other('a'),
    one('a'),
    one('aa'),
  ];
  const answers = await inTurn(heard, requests);
  t.ok(seen.direct >= 4, `${seen.direct} passed it by`);
  t.same(
    answers.map((answer) => /"from":"([^"]*)"/.exec(answer)?.[1]),
    requests.map((request) => (request.includes('192.0.2.2') ? '192.0.2.2' : '192.0.2.1')),
  );
  heard.socket.destroy();
});

t.test("a request that is not of the common form is Node's, and all after it are", async (t) => {
  const { port, seen } = await serve(t, true);
  for (const odd of ODD.filter((each) => !COMMON.includes(each))) {
    const before = seen.direct;
    const heard = open(port);
    await inTurn(heard, [post('a'), odd, post('a')]);
    t.equal(seen.direct, before + 1, odd.slice(0, 200));
    heard.socket.destroy();
  }
});

const COMMON = [
  'GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n',
  post('a', 'X-Other: 1\r\n'),
  post('a', 'X-Forwarded-For: 192.0.2.1, 10.0.0.1\r\n'),
  post('a', '', 'svc one'),
];
/** Requests that Node's parser has to read, and such that nothing may stand beside: it would make a race of their end. */
const ODD = [
  ...COMMON,
  post('a', 'Expect: 100-continue\r\n'),
  post('a', 'Upgrade: h2c\r\nConnection: Upgrade\r\n'),
  post('a').replace('Length: 1', 'Length: 01'),
  post('a').replace(
    'Content-Length: 1\r\n\r\na',
    'Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n',
  ),
  `\r\n${post('a')}`,
];
const LAST = [
  '',
  post('c'),
  post('a', 'Connection: close\r\n'),
  post('a', 'Content-Length: 1\r\n'),
  post('a').replace('Length: 1', 'Length: 200000'),
  post('a').replace('HTTP/1.1', 'HTTP/1.0'),
  post('a').replace('Host', 'Ho st'),
  'CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n',
];

/** Read as they come; the last is larger than what is accepted. */
const LARGE_ONES = [
  post('a'.repeat(70_000)),
  post(`e${'x'.repeat(90_000)}`),
  post('a'.repeat(100_001)),
];

const RACES = 4;

t.test("whatever is sent, however it is cut, the answers are the server's own", async (t) => {
  const [watched, own] = [await serve(t, true), await serve(t, false)];
  const runs = fuzzRuns(288);
  const usual = fc.tuple(
    fc.constantFrom('a', 'l', 'e', 'p'),
    fc.nat(40),
    fc.constantFrom('svc_one', 'svc_two'),
  );
  const request = fc.oneof(
    {
      weight: 5,
      arbitrary: usual.map(([way, length, key]) => post(way + 'x'.repeat(length), '', key)),
    },
    { weight: 1, arbitrary: fc.constantFrom(...ODD) },
    { weight: 1, arbitrary: fc.constantFrom(...LARGE_ONES) },
  );
  // a piece for each request, or cut anywhere
  const cuts = fc.option(fc.array(fc.nat(), { maxLength: 5 }), { freq: 1 });
  const requests = fc.array(request, { minLength: 2, maxLength: 6 });
  const check = fc.asyncProperty(
    requests,
    fc.constantFrom(...LAST),
    cuts,
    async (requests, last, cuts) => {
      const whole = requests.map((request) => Buffer.from(request, 'latin1'));
      const pieces = cuts === null ? whole : cutAt(Buffer.concat(whole), cuts);
      for (let tries = 1; ; tries++) {
        const [ours, nodes] = await Promise.all(
          [watched, own].map((served) => say(served, pieces, last)),
        );
        if (ours === null || nodes === null || ours === nodes) return;
        // how much of an answer is out when a bad request cuts it off is a race, each time another one
        if (tries === RACES) throw new Error(`${ours}\ninstead of\n${nodes}`);
      }
    },
  );
  const seed = Number(
    process.env.FUZZ_SEED ?? (process.env.FUZZ_RUNS === undefined ? 1 : Date.now() & 0x7fffffff),
  );
  t.comment(`FUZZ_SEED=${seed} FUZZ_RUNS=${runs}`);
  const lanes = Array.from({ length: LANES }, (_, lane) =>
    fc.check(check, { numRuns: Math.ceil(runs / LANES), seed: seed + lane }),
  );
  for (const { failed, counterexample, errorInstance } of await Promise.all(lanes)) {
    t.notOk(failed, 'holds', { counterexample, error: String(errorInstance) });
  }
  t.ok(watched.seen.direct > runs / 10, `and ${watched.seen.direct} requests passed the parser by`);
});

t.test('a request sent before the answer to the one before it waits for its turn', async (t) => {
  const { port, seen } = await serve(t, true);
  const heard = open(port);
  await inTurn(heard, [post('a')]);
  heard.text = '';
  for (const body of ['l1', 'l2', 'a3', 'l4']) {
    heard.socket.write(post(body));
    await sleep(1); // paced: each is to arrive by itself
  }
  await until(() => heard.text.includes('l4'), 'the last answer');
  t.strictSame(heard.text.match(/"text":"\w+"/g), [
    '"text":"l1"',
    '"text":"l2"',
    '"text":"a3"',
    '"text":"l4"',
  ]);
  await until(() => seen.closed === 5, 'five answers are over');
  t.equal(seen.closed, 5);
  heard.socket.destroy();
});

t.test('a body may come in pieces, as slowly as the deadline allows', async (t) => {
  const { port, seen } = await serve(t, true);
  const heard = open(port);
  const body = `a${'x'.repeat(40_000)}`;
  const whole = post(body);
  for (const pauseMs of [10, 2300]) {
    heard.text = '';
    for (const at of [0, 1, 2]) {
      heard.socket.write(whole.slice((at * whole.length) / 3, ((at + 1) * whole.length) / 3));
      await sleep(at === 0 ? pauseMs : 10); // slow on purpose
    }
    await until(() => heard.text.endsWith('}'), 'the answer');
    t.ok(heard.text.includes(body));
  }
  heard.text = '';
  const head = post('a').slice(0, -1);
  heard.socket.write(head);
  await passBy(port);
  heard.socket.write('a');
  await until(() => heard.text.endsWith('}'), 'the answer to a head with its body apart');
  t.equal(seen.direct, 4);
  heard.text = '';
  heard.socket.end(head);
  await until(() => heard.ended, 'the connection ends');
  t.match(heard.text, /HTTP\/1\.1 400/, 'half a request');
});

t.test("a head in pieces is Node's, wherever it is cut", async (t) => {
  const { port, seen, read } = await serve(t, true);
  const whole = post('a');
  await Promise.all(
    Array.from({ length: whole.length - 1 }, async (_, at) => {
      const heard = open(port);
      heard.socket.write(whole.slice(0, at + 1));
      await until(() => read(heard.socket) > at, 'the first piece is read');
      heard.socket.write(whole.slice(at + 1));
      await until(() => heard.text.endsWith('}'), 'the answer');
      t.match(heard.text, /"announced":1,"text":"a"/);
      heard.socket.destroy();
    }),
  );
  t.equal(seen.direct, 1, 'but the one whose head was whole');
});

t.test('a large body passes the parser by as well', async (t) => {
  const { port, seen } = await serve(t, true);
  const heard = open(port);
  const refused = post('b'.repeat(200_000));
  const answers = await inTurn(heard, [
    post('a'),
    post('a'),
    post('a'.repeat(99_000)),
    post('a'),
    refused,
  ]);
  t.equal(seen.direct, 5);
  t.ok(answers[2]?.includes(`"text":"${'a'.repeat(99_000)}"`), 'whole');
  t.match(
    answers[4],
    /^HTTP\/1\.1 413 .*connection: close/is,
    'what is too large is refused before it is read',
  );
  const other = open(port);
  await inTurn(other, [post('a'), post('a')]);
  other.text = '';
  other.socket.write(`${post('a'.repeat(99_000))}${post('aaa')}`);
  await until(() => other.text.includes('"text":"aaa"'), 'the second answer');
  t.match(other.text, /"text":"aaa"/, 'also where the next one is sent along');
  t.match((await inTurn(other, [post('a')]))[0], /"text":"a"/);
  heard.socket.destroy();
  other.socket.destroy();
});

t.test(
  'a large body is kept until it is asked for, and one that is not asked for ends its connection',
  async (t) => {
    let ask: (() => void) | null = null;
    const seen = nothing();
    const { port } = await serve(t, true, seen, (req, res) => {
      if (req.head.contentLength < 1000) return answer(req, res, seen);
      ask = () =>
        req.head.bearer === 'svc_no'
          ? res.send(404, ['content-length', '2'], '{}')
          : answer(req, res, seen);
    });
    const heard = open(port);
    await inTurn(heard, [post('a')]);
    for (const letter of ['a', 'x', 'y']) {
      const large = post(letter.repeat(99_000));
      heard.text = '';
      ask = null;
      heard.socket.write(large.slice(0, 70_000));
      await until(() => ask !== null, 'the request');
      await passBy(port); // another connection reads to the buffer that both share
      heard.socket.write(large.slice(70_000));
      (ask as unknown as () => void)();
      await until(() => heard.text.endsWith('}'), 'the answer');
      t.ok(heard.text.includes(`"text":"${letter.repeat(99_000)}"`), 'as it was sent');
    }
    t.equal(seen.direct, 7);
    heard.text = '';
    ask = null;
    heard.socket.write(post('a'.repeat(99_000), '', 'svc_no').slice(0, 70_000));
    await until(() => ask !== null, 'the request');
    (ask as unknown as () => void)();
    heard.socket.write('x'.repeat(20_000));
    await until(() => heard.ended, 'the connection ends');
    t.match(heard.text, /^HTTP\/1\.1 404 .*connection: close/is);
  },
);

t.test(
  'a large body that does not arrive is ended by the deadline of the server, or by the end of what is sent',
  async (t) => {
    const half = post('a'.repeat(99_000)).slice(0, 80_000);
    for (const watched of [true, false]) {
      const { port, seen, server } = await serve(t, watched);
      server.requestTimeout = 300;
      const heard = open(port);
      await inTurn(heard, [post('a')]);
      heard.text = '';
      heard.socket.write(half);
      await until(() => heard.ended, 'the connection ends');
      t.match(heard.text, /^HTTP\/1\.1 408/, `watched: ${watched}`);
      const other = open(port);
      await inTurn(other, [post('a')]);
      other.text = '';
      other.socket.end(half);
      await until(() => other.ended, 'the connection ends');
      t.match(other.text, /^HTTP\/1\.1 400/, `watched: ${watched}`);
      await until(() => seen.closed === 4, 'all four are over');
    }
  },
);

t.test('a client that leaves before its answer is noticed', async (t) => {
  for (const way of ['n', 'l', 'p', 'b', 's']) {
    const { port, seen } = await serve(t, true);
    const heard = open(port);
    await inTurn(heard, [post('a'), post('a')]);
    heard.socket.write(post(way));
    await until(() => seen.direct === 2, 'the request arrives');
    heard.socket.resetAndDestroy();
    await until(() => seen.closed === 3, `three answers are over: ${way}`);
    await passBy(port);
    await until(() => seen.closed >= 4, 'a fourth');
    t.equal(seen.closed, 4, `each once: ${way}`);
  }
});

t.test('an answer that a slow client takes long for is over when it has it', async (t) => {
  for (const way of ['b', 's']) {
    const { port, seen } = await serve(t, true);
    const heard = open(port);
    await inTurn(heard, [post('a'), post('a')]);
    heard.text = '';
    heard.socket.pause();
    heard.socket.write(post(way));
    await until(() => seen.direct === 2, 'the request arrives');
    await passBy(port);
    await until(() => seen.closed >= 3, 'that of another is over');
    t.equal(seen.closed, 3, 'not before');
    heard.socket.resume();
    await until(() => seen.closed === 4 && heard.text.length > LARGE, 'the whole answer');
    t.equal(heard.text.length - heard.text.indexOf('\r\n\r\n') - 4, LARGE);
    t.match((await inTurn(heard, [post('a')]))[0], /"text":"a"/);
    heard.socket.destroy();
  }
});

t.test(
  'a connection that rests too long is closed, one that waits for its answer is not',
  async (t) => {
    const { server, port, seen } = await serve(t, true);
    const waiting = open(port);
    await inTurn(waiting, [post('a')]);
    waiting.socket.write(post('n'));
    await until(() => seen.unanswered !== null, 'the request arrives');
    seen.unanswered?.setTimeout(1); // the timer of Node that runs since the answer before
    await once(seen.unanswered as Socket, 'timeout');
    server.keepAliveTimeout = 60;
    server.keepAliveTimeoutBuffer = 0;
    const heard = open(port);
    await inTurn(heard, [post('a')]);
    await until(() => heard.ended, 'the connection at rest is closed');
    t.notOk(waiting.ended);
    t.equal(seen.direct, 3);
    waiting.socket.destroy();
  },
);

for (const watched of [true, false]) {
  const name = `a request that has arrived when its idle connection is to be closed is answered: ${watched}`;
  t.test(name, async (t) => {
    const { server, port, seen } = await serve(t, watched);
    server.keepAliveTimeout = 2000;
    server.keepAliveTimeoutBuffer = 0;
    const all = Array.from({ length: 12 }, () => open(port));
    await Promise.all(all.map((heard) => inTurn(heard, [post('a')])));
    setImmediate(() => {
      for (const { socket } of all) socket.write(post('a'));
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2100); // all timers are due, before anything is read
    });
    await until(() => all.every(({ ended }) => ended), 'the connections at rest are closed');
    t.equal(seen.closed, 24, 'every request was answered');
    for (const { text, reset } of all) {
      t.equal(text.split('HTTP/1.1 200').length, 3);
      t.notOk(reset);
    }
  });
}

t.test(
  'once the server leaves, requests are told so, and idle connections are let go',
  async (t) => {
    const { server, port, seen, leave } = await serve(t, true);
    const heard = open(port);
    const busy = open(port);
    await inTurn(heard, [post('a'), post('a')]);
    await inTurn(busy, [post('a')]);
    busy.text = '';
    busy.socket.write(post('h'));
    await until(() => seen.release !== null, 'the request arrives');
    leave();
    server.keepAliveTimeout = 50;
    const [last] = await inTurn(heard, [post('a')]);
    t.match(last, /connection: close/i);
    seen.release?.();
    await until(() => heard.ended && busy.ended, 'both connections are closed');
    t.ok(heard.ended);
    t.match(busy.text, /"text":"h"/);
    t.ok(busy.ended);
  },
);

t.test('bytes behind a CONNECT go nowhere', async (t) => {
  const { server, port } = await serve(t, true);
  const taken: Socket[] = [];
  server.on('connect', (_req, socket) => taken.push(socket as Socket));
  const heard = open(port);
  await inTurn(heard, [post('a')]);
  heard.socket.write('CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n');
  await until(() => taken.length === 1, 'the CONNECT arrives');
  heard.text = '';
  heard.socket.write(post('a'));
  await passBy(port);
  t.equal(heard.text, '');
  heard.socket.destroy();
});

t.test('a stream that is no socket is read all the same', async (t) => {
  const { server, seen } = await serve(t, true);
  const [client, stream] = duplexPair();
  server.emit('connection', stream);
  let text = '';
  client.setEncoding('latin1').on('data', (chunk: string) => {
    text += chunk;
  });
  for (const answers of [1, 2, 3]) {
    client.write(post('a'));
    await until(() => text.match(/"text":"a"/g)?.length === answers, `${answers} answers`);
  }
  t.equal(seen.direct, 3);
  client.destroy();
});

t.test('connections are counted until they are closed', async (t) => {
  const { server, port } = await serve(t, true);
  const count = promisify(server.getConnections.bind(server));
  const heard = [open(port), open(port)];
  for (const one of heard) await inTurn(one, [post('a'), post('a')]);
  t.equal(await count(), 2);
  for (const one of heard) one.socket.destroy();
  t.equal(await until(count, 'no connection is counted', (open) => open === 0), 0);
});
