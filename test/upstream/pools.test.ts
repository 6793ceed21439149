import { once } from 'node:events';
import type { Socket } from 'node:net';
import { setImmediate } from 'node:timers/promises';
import t, { type Test } from 'tap';
import connectorOf from 'undici/lib/core/connect.js';
import { FastPool } from '../../src/upstream/fast-pool.ts';
import { UndiciPool } from '../../src/upstream/undici-pool.ts';
import { Stopped, type Upstream, type UpstreamOptions } from '../../src/upstream/upstream.ts';
import { until } from '../support/until.ts';
import { Call, post, send, serve as serveWith } from './calls.ts';

const OK = 'HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nok';

/** undici takes these for errors. */
const CONTINUES = [
  'HTTP/1.1 100 Continue\r\n\r\n',
  'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n',
];

const openFast = (options: UpstreamOptions) => new FastPool(options, connectorOf);

t.test('over fast connections', (t) => testPool(t, openFast));
t.test('over undici', (t) => testPool(t, (options) => new UndiciPool(options)));

/** What holds for both ways to the upstream. */
async function testPool(t: Test, open: (options: UpstreamOptions) => Upstream): Promise<void> {
  const serve = (t: Test, answer: (socket: Socket) => void, options = {}) =>
    serveWith(t, open, answer, options);

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
    t.strictSame(
      (head as string)
        .split('\r\n')
        .filter((line) => !line.startsWith('connection:'))
        .sort(),
      [
        'POST /deep/v1/embeddings HTTP/1.1',
        'accept-encoding: identity',
        'accept: */*',
        'authorization: Bearer sk-x',
        'content-length: 7',
        'content-type: application/json',
        `host: ${upstream.secrets[0]}`,
        'traceparent: 00-ab-cd-01',
        'x-request-id: id-1',
      ],
    );
  });

  t.test('headers of the operator go with every request, and are secrets', async (t) => {
    const headers = { 'x-router-key': 'Bearer rk-0123456789', 'x-provider': 'openai' };
    const withHeaders = (options: UpstreamOptions) => open({ ...options, headers });
    const { upstream, requests } = await serveWith(t, withHeaders, (socket) => socket.write(OK), {
      apiKey: 'sk-x',
    });
    for (let n = 0; n < 2; n++) t.equal(await post(upstream).ended, 'ok');
    for (const request of requests) {
      t.match(request, '\r\nauthorization: Bearer sk-x\r\n');
      t.match(request, '\r\nx-router-key: Bearer rk-0123456789\r\nx-provider: openai\r\n');
    }
    t.same(upstream.keys, ['sk-x', 'Bearer rk-0123456789', 'rk-0123456789']);
    t.same(
      upstream.secrets.filter((secret) => upstream.keys.includes(secret)),
      upstream.keys,
    );
  });

  t.test('a word that stands for a master key is sent, and is no secret', async (t) => {
    const { upstream, requests } = await serve(t, (socket) => socket.write(OK), { apiKey: 'none' });
    t.equal(await post(upstream).ended, 'ok');
    t.match(requests[0], '\r\nauthorization: Bearer none\r\n');
    t.notOk([...upstream.keys, ...upstream.secrets].includes('none'), 'answers may hold it');
  });

  t.test(
    'each request in flight has a connection of its own, and a free one serves again',
    async (t) => {
      const { upstream, sockets } = await serve(t, (socket) => socket.write(OK));
      for (let n = 0; n < 3; n++) {
        t.equal(await post(upstream).ended, 'ok');
        await setImmediate(); // undici frees a connection after it has told the end of an answer
      }
      t.equal(sockets.length, 1);
      for (const { ended } of Array.from({ length: 4 }, () => post(upstream)))
        t.equal(await ended, 'ok');
      t.equal(sockets.length, 4);
    },
  );

  t.test('the memory of a body may be used again once the request was taken', async (t) => {
    const { upstream, requests } = await serve(t, (socket) => socket.write(OK));
    const body = Buffer.alloc(3_000_000, 'x');
    const call = new Call();
    send(upstream, call, { body: [body], onSent: () => body.fill('y') });
    await call.ended;
    t.ok((requests[0] as string).endsWith('x'.repeat(3_000_000)));
  });

  t.test('an answer that breaks off, or is none, is an error', async (t) => {
    for (const text of ['HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok', '', 'SSH-2.0-x\r\n']) {
      const { upstream } = await serve(t, (socket) => socket.end(text));
      await t.rejects(post(upstream).ended);
    }
    const { upstream, server } = await serve(t, () => {});
    server.close();
    const call = post(upstream);
    await t.rejects(call.ended, /ECONNREFUSED/);
    t.equal(call.call, null, 'nothing was sent');
  });

  t.test(
    'nothing is sent for a handler that no longer wants its answer, and nothing more is called',
    async (t) => {
      const { upstream, requests } = await serve(t, (socket) => socket.write(OK));
      send(upstream, new Call(false), {});
      t.equal(await post(upstream).ended, 'ok');
      t.equal(requests.length, 1);
    },
  );

  t.test('an aborted call closes its connection', async (t) => {
    const { upstream, sockets, requests } = await serve(t, (socket) => {
      if (requests.length === 1) call.call?.abort(call);
      else socket.write(OK);
    });
    const call = post(upstream);
    t.equal(await post(upstream).ended, 'ok');
    const [socket] = sockets as [Socket];
    if (!socket.destroyed) await once(socket, 'close');
    t.equal(call.text, '');
  });

  t.test(
    'a handler that throws ends its own call and its connection, and no other call',
    async (t) => {
      const answer = (closes: boolean) =>
        `HTTP/1.1 200 OK\r\n${closes ? '' : 'content-length: 2\r\n'}\r\nok`;
      for (const method of ['onHead', 'onData', 'onEnd', 'onError'] as const) {
        for (const closes of [false, true]) {
          const { upstream, sockets } = await serve(t, (socket) => {
            if (socket === sockets[0]) return; // the other call waits
            if (method === 'onError') socket.destroy();
            else if (closes) socket.end(answer(true));
            else socket.write(answer(false));
          });
          const other = post(upstream);
          await until(() => sockets.length === 1, 'the other call has its connection');
          const call = new Call();
          call[method] = () => {
            throw new Error(`of ${method}`);
          };
          send(upstream, call, {});
          await t.rejects(call.ended, { message: 'thrown', cause: { message: `of ${method}` } });
          const [waiting, socket] = sockets as [Socket, Socket];
          if (method !== 'onEnd' && !socket.closed) await once(socket, 'close');
          waiting.write(answer(false));
          t.equal(await other.ended, 'ok', `${method} ${closes}`);
        }
      }
    },
  );

  t.test('a paused call reads no more than what was on its way, and all of it later', async (t) => {
    const text = 'y'.repeat(8_000_000);
    const { upstream, sockets } = await serve(t, (socket) => {
      socket.write('HTTP/1.1 200 OK\r\ncontent-length: 8000000\r\n\r\n');
    });
    const call = post(upstream);
    await call.headed;
    call.call?.pause(call);
    const [socket] = sockets as [Socket];
    t.notOk(socket.write(text), 'the system does not take all of it');
    const other = post(upstream); // by its answer's time the first call could have read everything
    await other.headed;
    t.ok(call.text.length < text.length);
    call.call?.resume(call);
    t.equal((await call.ended).length, text.length);
  });

  t.test('when the gateway stops, calls that wait get `Stopped`', async (t) => {
    const { upstream } = await serve(t, () => upstream.destroy());
    const call = post(upstream);
    t.ok((await call.ended.catch((error: unknown) => error)) instanceof Stopped);
  });

  t.test('no request follows where it could be lost or misunderstood', async (t) => {
    const KEPT = 'about to be closed';
    const cases: [string, (socket: Socket) => void, later?: (socket: Socket) => void][] = [
      [
        'the answer says so',
        (socket) => socket.write(OK.replace('\r\n\r\n', '\r\nconnection: close\r\n\r\n')),
      ],
      ['bytes behind it', (socket) => socket.write(`${OK}HTTP/1.1 200 OK\r\n\r\n`)],
      ['bytes that nobody asked for', (socket) => socket.write(OK), (socket) => socket.write('x')],
      ['it ends with the connection', (socket) => socket.end('HTTP/1.1 200 OK\r\n\r\nok')],
      [KEPT, (socket) => socket.write(OK.replace('\r\n\r\n', '\r\nkeep-alive: timeout=1\r\n\r\n'))],
      ['closed meanwhile', (socket) => socket.write(OK), (socket) => socket.destroy()],
    ];
    for (const [name, answer, later] of cases) {
      const { upstream, sockets } = await serve(t, answer);
      t.equal(await post(upstream).ended, 'ok', name);
      const [socket] = sockets as [Socket];
      later?.(socket);
      const closes = name !== KEPT && !socket.closed;
      if (closes) await new Promise((resolve) => socket.once('close', resolve));
      for (let n = 0; n < 2; n++) await setImmediate(); // so that the end of the connection was read here too
      t.equal(await post(upstream).ended, 'ok', name);
      t.equal(sockets.length, 2, name);
    }
  });

  t.test(
    'a request that crosses the close of an idle connection is sent again, once, on a fresh one',
    async (t) => {
      for (const dies of [false, true]) {
        const { upstream, sockets, requests } = await serve(t, (socket) => {
          if (dies && requests.length > 1) socket.destroy();
          else socket.write(OK);
        });
        t.equal(await post(upstream).ended, 'ok');
        await setImmediate(); // undici frees a connection after it has told the end of an answer
        const call = new Call();
        const onConnected = call.onConnected.bind(call);
        call.onConnected = (connection) => {
          sockets[0]?.destroy(); // as servers do, and the pool has not read of it yet
          return onConnected(connection);
        };
        send(upstream, call, { body: [Buffer.from('{}')] });
        if (dies) await t.rejects(call.ended);
        else t.equal(await call.ended, 'ok');
        t.equal(call.stale, 1);
        t.equal(requests.length, 2, 'the other side had it once');
        t.equal(sockets.length, 2);
      }
    },
  );

  t.test(
    'a request that may have run is not sent again: the other side read it, and died',
    async (t) => {
      const ways: Record<string, (socket: Socket) => void> = {
        closes: (socket) => socket.destroy(),
        resets: (socket) => socket.resetAndDestroy(),
        'ends its own side': (socket) => socket.end(),
        'begins an answer': (socket) => socket.end('HTTP/1.1 '),
      };
      for (const [name, die] of Object.entries(ways)) {
        const { upstream, requests } = await serve(t, (socket) => {
          if (requests.length === 1) socket.write(OK);
          else die(socket);
        });
        t.equal(await post(upstream).ended, 'ok');
        await setImmediate();
        const call = post(upstream);
        await t.rejects(call.ended, name);
        t.equal(call.stale, 0, name);
        t.equal(requests.length, 2, name);
      }
    },
  );

  t.test('a connection that was unused for longer than it may be is not used again', async (t) => {
    const { upstream, sockets } = await serve(t, (socket) => socket.write(OK), { idleMs: 1 });
    for (let n = 1; n <= 3; n++) {
      t.equal(await post(upstream).ended, 'ok');
      await new Promise((resolve) => setTimeout(resolve, 5));
      t.equal(sockets.length, n);
    }
  });

  t.test(
    'a connection is not used again after an answer without a body: another answer may be on its way',
    async (t) => {
      for (const head of [
        'HTTP/1.1 204 No Content\r\n\r\n',
        'HTTP/1.1 304 Not Modified\r\n\r\n',
        'HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n',
        'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n',
      ]) {
        const { upstream, sockets } = await serve(t, (socket) => socket.write(head));
        for (let n = 1; n <= 6; n++) {
          t.equal(await post(upstream).ended, '');
          if (n > 3) await setImmediate();
          t.equal(sockets.length, n, head);
        }
      }
    },
  );

  t.test(
    'interim answers are skipped, at once or byte by byte, and the connection serves again',
    async (t) => {
      for (const interim of [
        'HTTP/1.1 102 Processing\r\n\r\n',
        'HTTP/1.1 103 Early Hints\r\nlink: </a>\r\nretry-after: 9\r\n\r\n',
        ...(open === openFast ? CONTINUES : []),
      ]) {
        const { upstream, sockets } = await serve(t, async (socket) => {
          if (sockets.length === 1) socket.write(interim + OK);
          else
            for (const byte of interim + OK)
              await new Promise((resolve) => socket.write(byte, resolve));
        });
        for (let n = 0; n < 3; n++) {
          const call = post(upstream);
          t.equal(await call.ended, 'ok', interim);
          t.match(call, { status: 200, type: 'text/plain' });
          await setImmediate();
        }
        t.equal(sockets.length, 1);
        for (const { ended } of [post(upstream), post(upstream)])
          t.equal(await ended, 'ok', interim);
      }
    },
  );

  t.test('another protocol, which was not asked for, is an error', async (t) => {
    const { upstream } = await serve(t, (socket) => {
      socket.write('HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n');
    });
    await t.rejects(post(upstream).ended);
  });
}
