import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer as createHttpsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { Writable } from 'node:stream';
import { setDefaultCACertificates } from 'node:tls';
import t, { type Test } from 'tap';
import connectorOf from 'undici/lib/core/connect.js';
import { Turns } from '../../src/runtime/turns.ts';
import type { AddressChange } from '../../src/upstream/addresses.ts';
import type { FastConnection } from '../../src/upstream/fast-connection.ts';
import { FastPool } from '../../src/upstream/fast-pool.ts';
import { RestOfRequest } from '../../src/upstream/request-writer.ts';
import { Stopped, type UpstreamOptions } from '../../src/upstream/upstream.ts';
import { makeCertificate, NO_OPENSSL } from '../support/certificate.ts';
import { until } from '../support/until.ts';
import { Call, post, send, serve as serveWith } from './calls.ts';

const open = (options: UpstreamOptions): FastPool => new FastPool(options, connectorOf);
const serve = (t: Test, answer: (socket: Socket) => void, options = {}) =>
  serveWith(t, open, answer, options);

const OK = 'HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nok';

t.test('a request is the body under our own head', async (t) => {
  const { upstream, requests } = await serve(t, (socket) => socket.write(OK), {
    path: '/deep/v1/',
    apiKey: 'sk-x',
  });
  const call = new Call();
  const body = [Buffer.from('{"a'), Buffer.from('":1}')];
  send(upstream, call, {
    path: '/embeddings',
    requestId: 'id-1',
    body,
    traceparent: '00-ab-cd-01',
  });
  t.equal(await call.ended, 'ok');
  t.match(call, { status: 200, type: 'text/plain' });
  const [head, sent] = (requests[0] as string).split('\r\n\r\n');
  t.equal(sent, '{"a":1}');
  t.strictSame((head as string).split('\r\n').sort(), [
    'POST /deep/v1/embeddings HTTP/1.1',
    'accept-encoding: identity',
    'accept: */*',
    'authorization: Bearer sk-x',
    'content-length: 7',
    'content-type: application/json',
    `host: ${upstream.secrets[0]}`,
    'traceparent: 00-ab-cd-01',
    'x-request-id: id-1',
  ]);
});

t.test(
  'a connection serves one request after the other, and others beside it when it is busy',
  async (t) => {
    const { upstream, sockets } = await serve(t, (socket) => socket.write(OK));
    for (let n = 0; n < 5; n++) t.equal(await post(upstream).ended, 'ok');
    t.equal(sockets.length, 1);
    const calls = Array.from({ length: 4 }, () => post(upstream));
    t.same([upstream.connections, upstream.freeConnections], [4, 0]);
    for (const call of calls) t.equal(await call.ended, 'ok');
    t.same([upstream.connections, upstream.freeConnections], [4, 4]);
    t.equal(sockets.length, 4);
  },
);

t.test(
  'large bodies arrive byte for byte, though the buffer of small ones is used again and again',
  async (t) => {
    const { upstream, requests } = await serve(t, (socket) => socket.write(OK));
    const sizes = [10, 70_000, 20, 3_000_000, 60_000, 30, 65_000, 66_000];
    const bodies = sizes.map((size, n) => `${n}`.repeat(size));
    for (const call of bodies.map((body) => post(upstream, [Buffer.from(body), Buffer.from('!')])))
      await call.ended;
    t.strictSame(
      requests.map((text) => text.split('\r\n\r\n')[1]).sort(),
      bodies.map((body) => `${body}!`).sort(),
    );
  },
);

t.test('a body of several megabytes leaves part by part, wherever the parts end', async (t) => {
  const { upstream, requests } = await serve(t, (socket) => socket.write(OK));
  for (const pieces of [16, 17, 32, 50]) {
    const body = Array.from({ length: pieces }, (_, n) => Buffer.alloc(65_536, `${n % 10}`));
    await post(upstream, body).ended;
    t.ok((requests.at(-1) as string).endsWith(`\r\n\r\n${body.join('')}`), `${pieces} pieces`);
  }
});

t.test("a body's memory may be used again once the system has taken all of it", async (t) => {
  const { upstream, sockets } = await serve(t, (socket) => socket.write(OK));
  const body = Array.from({ length: 400 }, () => Buffer.alloc(65_536, 'x'));
  let out = 0;
  const sendAll = (pieces: readonly Buffer[]): Call => {
    const call = new Call();
    send(upstream, call, { body: pieces, onSent: () => out++ });
    return call;
  };
  for (const pieces of [body, body.slice(0, 16), body.slice(0, 17), [Buffer.from('{}')], []]) {
    out = 0;
    await sendAll(pieces).ended;
    t.equal(out, 1, `${pieces.length} pieces`);
  }
  out = 0;
  for (const socket of sockets) socket.pause();
  const other = await serve(t, (socket) => socket.write(OK));
  const call = sendAll(body);
  await post(other.upstream, body).ended;
  t.equal(out, 0, 'some of it still waits');
  call.call?.abort(call);
  await post(other.upstream, body).ended;
  t.equal(out, 0, 'nor afterwards: who knows who reads it');
});

t.test('an answer before the request is out ends its connection', async (t) => {
  const { upstream, sockets } = await serve(t, () => {});
  const call = post(
    upstream,
    Array.from({ length: 400 }, () => Buffer.alloc(65_536, 'x')),
  );
  const [socket] = (await until(
    () => sockets,
    'the request begins to arrive',
    ([first]) => (first?.bytesRead ?? 0) > 0,
  )) as [Socket];
  socket.pause();
  socket.write(OK);
  t.equal(await call.ended, 'ok');
  t.equal(upstream.connections, 0);
});

t.test(
  'what is left of a request leaves at once where its answer came before: a rest would end the connection',
  async (t) => {
    for (const [size, leaves] of [
      [600_000, true],
      [3_000_000, false],
    ] as const) {
      const turns = new Turns();
      turns.noteOther();
      turns.enter = () => {}; // its turn never comes
      const written: Buffer[] = [];
      const socket = new Writable({
        writev: (parts, done) => done(void written.push(...parts.map(({ chunk }) => chunk))),
      });
      const body = Array.from({ length: size / 100_000 }, (_, n) =>
        Buffer.alloc(100_000, `${n % 10}`),
      );
      let sent = 0;
      const sender = { onTurn() {}, onThrown() {} };
      const rest = new RestOfRequest(socket as Socket, 'head', body, turns, () => sent++, sender);
      await until(() => written.length > 0, 'the first part');
      t.notOk(rest.isSent);
      rest.hurry();
      t.equal(rest.isSent, leaves, `${size} bytes`);
      if (leaves) await until(() => sent === 1, 'the system has taken all of it');
      const taken = Buffer.concat(written).toString('latin1');
      t.ok(
        `head${Buffer.concat(body)}`.startsWith(taken) && (taken.length === size + 4) === leaves,
        'as it is',
      );
    }
  },
);

t.test('what is no answer is an error, and the connection is gone', async (t) => {
  for (const [text, reason] of [
    ['HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok', /closed within the answer/],
    ['', /closed without an answer/],
    ['SSH-2.0-x\r\n', /malformed answer: no HTTP/],
  ] as const) {
    const { upstream } = await serve(t, (socket) => socket.end(text));
    await t.rejects(post(upstream).ended, reason);
    t.equal(upstream.connections, 0);
  }
  const { upstream, server } = await serve(t, () => {});
  server.close();
  const call = post(upstream);
  await t.rejects(call.ended, /ECONNREFUSED/);
  t.equal(call.call, null, 'nothing was sent');
});

t.test('whoever gave up is told nothing and nothing is sent for him', async (t) => {
  const { upstream, requests } = await serve(t, (socket) => socket.write(OK));
  const call = new Call(false);
  send(upstream, call, {});
  await until(() => upstream.freeConnections === 1, 'the connection is open and free');
  t.same(requests, []);
  t.equal(await post(upstream).ended, 'ok', 'on the connection that was opened for it');
  t.equal(upstream.connections, 1);
});

t.test(
  'requests of one turn of the event loop leave together; one whose connection closes before gets another',
  async (t) => {
    const { upstream, sockets, requests } = await serve(t, (socket) => socket.write(OK));
    const before = Array.from({ length: 4 }, () => post(upstream));
    for (const { ended } of before) await ended;
    requests.length = 0;
    const calls = Array.from({ length: 4 }, () => post(upstream));
    const waiting = before
      .map(({ call }) => call as FastConnection)
      .filter((each) => each !== calls[0]?.call);
    waiting[0]?.close(new Error('broken'));
    waiting[1]?.read(Buffer.from(OK), OK.length); // an answer, before it was asked: whose it is nobody knows
    const ends = await Promise.all(calls.map(({ ended }) => ended.catch(({ message }) => message)));
    t.strictSame(ends, ['ok', 'ok', 'ok', 'ok'], 'nothing had been sent');
    t.equal(requests.length, 4);
    t.equal(upstream.connections, 4);
    await until(
      () => sockets.filter((socket) => socket.destroyed).length === 2,
      'two connections are closed',
    );
    const sent = post(upstream);
    send(upstream, new Call(false), {});
    t.equal(await sent.ended, 'ok');
    t.equal(requests.length, 5);
    t.same([upstream.connections, upstream.freeConnections], [4, 4]);
  },
);

t.test('however many free connections are too old, a request gets one', async (t) => {
  const { upstream } = await serve(t, (socket) => socket.write(OK));
  const call = post(upstream);
  await call.ended;
  const { peer } = call.call as FastConnection;
  let closed = 0;
  const old = { peer, freeUntil: 0, close: () => closed++ } as unknown as FastConnection;
  for (let n = 0; n < 20_000; n++) upstream.onFree(old);
  t.equal(await post(upstream).ended, 'ok');
  t.equal(closed, 20_000);
});

t.test('only its own handler can pause or abort a connection', async (t) => {
  const { upstream, sockets } = await serve(t, () => {});
  const old = post(upstream);
  const [socket] = (await until(
    () => sockets,
    'a connection',
    ({ length }) => length === 1,
  )) as [Socket];
  socket.write(OK);
  t.equal(await old.ended, 'ok');
  const next = post(upstream);
  old.call?.pause(old);
  old.call?.abort(old);
  t.equal(next.call, old.call, 'the same connection');
  socket.write(OK);
  t.equal(await next.ended, 'ok');
});

t.test('a held connection reads nothing, and all of it later', async (t) => {
  const { upstream, sockets } = await serve(t, () => {});
  const other = await serve(t, (socket) => socket.write(OK));
  const call = post(upstream);
  const [socket] = (await until(
    () => sockets,
    'a connection',
    ({ length }) => length === 1,
  )) as [Socket];
  const text = 'y'.repeat(8_000_000);
  socket.write('HTTP/1.1 200 OK\r\ncontent-length: 8000000\r\n\r\n');
  await call.headed;
  call.call?.pause(call);
  socket.write(text);
  await post(other.upstream, [Buffer.from(text)]).ended;
  const before = call.text.length;
  await post(other.upstream, [Buffer.from(text)]).ended;
  t.equal(call.text.length, before, 'nothing, while another sends as much');
  t.ok(before <= 16_384);
  call.call?.resume(call);
  t.equal((await call.ended).length, text.length);
});

/** A call that knows how much each read brought. */
class Measured extends Call {
  readonly sizes: number[] = [];
  /** From so many bytes on, its client takes each piece only later. */
  slowFrom = Number.POSITIVE_INFINITY;
  #length = 0;

  override onData(bytes: Buffer): void {
    this.sizes.push(bytes.length);
    super.onData(bytes);
    this.#length += bytes.length;
    if (this.#length < this.slowFrom) return;
    this.call?.pause(this);
    setImmediate(() => this.call?.resume(this));
  }
}

const [SMALL, LARGE] = [16_384, 65_536];
const most = (sizes: readonly number[]): number => Math.max(...sizes);

/** An upstream that answers with so many bytes at once. */
function serveBytes(t: Test, length: number) {
  const answer = `HTTP/1.1 200 OK\r\ncontent-length: ${length}\r\n\r\n${'y'.repeat(length)}`;
  return serve(t, (socket) => void socket.write(answer));
}

t.test(
  'what comes fast is read in large pieces, each answer from its second read on',
  async (t) => {
    const { upstream } = await serveBytes(t, 1_000_000);
    for (let n = 0; n < 3; n++) {
      const call = new Measured();
      send(upstream, call, {});
      t.equal((await call.ended).length, 1_000_000);
      t.ok((call.sizes[0] as number) <= SMALL, 'the first read is a small one');
      t.ok(most(call.sizes) > SMALL && most(call.sizes) <= LARGE, `${most(call.sizes)} bytes`);
      t.equal(upstream.large.size, 1, 'it counts until its client has all of it');
      call.call?.leave(call);
      t.equal(upstream.large.size, 0);
    }
    t.equal(upstream.connections, 1);
  },
);

t.test('a client that falls behind is read little for, and gives its place up', async (t) => {
  const { upstream } = await serveBytes(t, 3_000_000);
  const call = new Measured();
  call.slowFrom = 500_000;
  send(upstream, call, {});
  t.equal((await call.ended).length, 3_000_000);
  t.ok(most(call.sizes) > SMALL, 'before');
  t.ok(most(call.sizes.slice(-20)) <= SMALL, 'and after');
  t.equal(upstream.large.size, 0);
});

t.test('at most 256 calls are read in large pieces', async (t) => {
  const { upstream } = await serveBytes(t, 1_000_000);
  for (let n = 0; n < 256; n++) upstream.large.add(new Call());
  const call = new Measured();
  send(upstream, call, {});
  await call.ended;
  t.ok(most(call.sizes) <= SMALL);
  t.equal(upstream.large.size, 256);
});

t.test('when the gateway stops, whoever waits is told so', async (t) => {
  const { upstream } = await serve(t, () => {});
  const call = post(upstream);
  upstream.destroy();
  t.ok((await call.ended.catch((error: unknown) => error)) instanceof Stopped);
});

t.test('over TLS', { skip: NO_OPENSSL }, async (t) => {
  const made = makeCertificate(t.testdir());
  const cert = readFileSync(made.cert, 'utf8');
  const server = createHttpsServer({ key: readFileSync(made.key), cert }, async (req, res) => {
    let size = 0;
    for await (const chunk of req) size += chunk.length;
    res.end(`${size} ${'z'.repeat(100_000)}`);
  });
  server.listen(0, 'localhost');
  await once(server, 'listening');
  const url = new URL(`https://localhost:${(server.address() as AddressInfo).port}/v1`);
  const stranger = open({ urls: [url], apiKey: null, idleMs: 30_000, connectMs: 2000 });
  t.teardown(() => {
    stranger.destroy();
    server.close();
    server.closeAllConnections();
  });
  await t.rejects(post(stranger).ended, /self-signed/);
  setDefaultCACertificates([cert]);
  const upstream = open({ urls: [url], apiKey: null, idleMs: 30_000, connectMs: 2000 });
  t.teardown(() => upstream.destroy());
  for (const size of [10, 60_000, 500_000]) {
    const text = await post(upstream, [Buffer.alloc(size)]).ended;
    t.equal(text, `${size} ${'z'.repeat(100_000)}`);
  }
  t.equal(upstream.connections, 1);

  const { server: plain } = await serve(t, (socket) => socket.write(OK));
  const without = new URL(`https://127.0.0.1:${(plain.address() as AddressInfo).port}/v1`);
  const changes: AddressChange[] = [];
  const onChange = (change: AddressChange) => changes.push(change);
  const both = open({
    urls: [without, url],
    apiKey: null,
    idleMs: 30_000,
    connectMs: 2000,
    onChange,
  });
  t.teardown(() => both.destroy());
  for (const call of [post(both), post(both)]) t.match(await call.ended, /^2 z/);
  t.match(changes, [{ address: 1 }], 'a handshake that fails is a connection that cannot be made');
});

t.test(
  'a large request that met a closed connection is told as not run: its memory may be in use again',
  async (t) => {
    const { upstream, sockets, requests } = await serve(t, (socket) => socket.write(OK));
    t.equal(await post(upstream).ended, 'ok');
    sockets[0]?.destroy();
    const call = new Call();
    send(upstream, call, { onSent: () => {} });
    await t.rejects(call.ended);
    t.equal(call.stale, 1);
    t.equal(requests.length, 1);
  },
);
