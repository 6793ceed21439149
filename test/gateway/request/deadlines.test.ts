import { once } from 'node:events';
import { createServer } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { connect } from 'node:net';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import t, { type Test } from 'tap';
import { Deadlines } from '../../../src/gateway/request/deadlines.ts';
import { attach, FAST_PARTS, type FastPart, messageClasses } from '../../../src/http/attach.ts';
import { DirectRequest } from '../../../src/http/direct-request.ts';
import type { ClientRequest, ClientResponse } from '../../../src/http/exchange.ts';
import type { Deadline } from '../../../src/upstream/failure.ts';
import { newFolder } from '../../support/child.ts';
import { until } from '../../support/until.ts';

const UNWATCHED = { onDeadline() {}, onThrown() {} };
const LIMITS = {
  connectMs: 1000,
  firstByteMs: 5000,
  idleMs: 2000,
  totalMs: 60_000,
  maxAbandoned: 1000,
  stallMs: 3000,
};
const TICK = 100;

/** A watch under a clock that this test turns. */
function start() {
  const deadlines = new Deadlines(LIMITS);
  const res = {
    writableLength: 0,
    socket: {} as object | null,
    destroyed: 0,
    destroy: () => void res.destroyed++,
  };
  const told: Deadline[] = [];
  const watch = deadlines.watch(res as unknown as ClientResponse, {
    onDeadline: (deadline) => told.push(deadline),
    onThrown() {},
  });
  deadlines.close(); // no timer of its own
  let now = 0;
  deadlines.check(now);
  return {
    watch,
    res,
    told,
    pass(ms: number, each = () => {}) {
      for (const end = now + ms; now < end; ) {
        now += TICK;
        each();
        deadlines.check(now);
      }
    },
  };
}

t.test('connecting has its own deadline, told once', async (t) => {
  const { told, pass } = start();
  pass(900);
  t.same(told, []);
  pass(5000);
  t.same(told, ['connect']);
});

t.test('the first byte is awaited from the beginning, whatever goes on', async (t) => {
  const { watch, told, pass } = start();
  pass(500);
  watch.sent();
  pass(4400);
  t.same(told, []);
  pass(100);
  t.same(told, ['first_byte']);
});

t.test('silence counts from the last that was heard', async (t) => {
  const { watch, told, pass } = start();
  watch.sent();
  watch.answered();
  pass(1900);
  watch.active = true;
  pass(2000);
  t.same(told, []);
  pass(200);
  t.same(told, ['idle']);
});

t.test('while the client holds the upstream back its silence does not count', async (t) => {
  const { watch, told, pass } = start();
  watch.sent();
  watch.answered();
  watch.paused = true;
  pass(30_000);
  t.same(told, []);
  watch.paused = false;
  pass(2100);
  t.same(told, ['idle']);
});

t.test('an answer that goes on for ever ends', async (t) => {
  const { watch, told, pass } = start();
  watch.sent();
  watch.answered();
  pass(70_000, () => {
    watch.active = true;
  });
  t.same(told, ['total']);
});

t.test('a call that lasts too long because its client held it back is told apart', async (t) => {
  for (const [heldMs, deadline] of [
    [5900, 'total'],
    [6000, 'reading'],
  ] as const) {
    const { watch, told, pass } = start();
    watch.sent();
    watch.answered();
    watch.paused = true;
    pass(heldMs);
    watch.paused = false;
    pass(70_000, () => {
      watch.active = true;
    });
    t.same(told, [deadline]);
  }
});

t.test('once settled nothing is told', async (t) => {
  const { watch, told, pass } = start();
  watch.settled();
  pass(100_000);
  t.same(told, []);
});

t.test('a client that takes nothing is cut, one that takes a little is not', async (t) => {
  const slow = start();
  slow.watch.settled();
  slow.res.writableLength = 1_000_000;
  slow.pass(20_000, () => {
    slow.res.writableLength--;
  });
  t.equal(slow.res.destroyed, 0);
  const stalled = start();
  stalled.watch.settled();
  stalled.res.writableLength = 1_000_000;
  stalled.pass(3000);
  t.equal(stalled.res.destroyed, 0);
  stalled.pass(20_000);
  t.equal(stalled.res.destroyed, 1);
});

t.test(
  "an answer that waits for the one before it on its connection is not the client's to read yet",
  async (t) => {
    const { watch, res, pass } = start();
    watch.settled();
    Object.assign(res, { writableLength: 500, socket: null });
    pass(20_000);
    t.equal(res.destroyed, 0);
    res.socket = {};
    pass(20_000);
    t.equal(res.destroyed, 1);
  },
);

t.test('more that waits for a client is no progress of his', async (t) => {
  const { watch, res, pass } = start();
  watch.sent();
  watch.answered();
  pass(10_000, () => {
    res.writableLength++;
    watch.active = true;
  });
  t.equal(res.destroyed, 1);
});

t.test('so many answers are awaited though their clients left, and no more', async (t) => {
  const deadlines = new Deadlines(LIMITS);
  deadlines.close();
  const watch = () => deadlines.watch({ writableLength: 0 } as ClientResponse, UNWATCHED);
  const abandoned = Array.from({ length: 1000 }, watch);
  t.ok(abandoned.every((each, n) => each.abandon(n < 500 ? 'one' : 'two')));
  t.notOk(watch().abandon('three'));
  abandoned[17]?.close();
  t.notOk(watch().abandon('two'), 'a company has half of them at most');
  t.ok(watch().abandon('three'), 'one has come');
  t.notOk(watch().abandon('three'));
});

t.test('an answer awaited though its client left has the deadlines of all', async (t) => {
  const { watch, told, pass } = start();
  watch.sent();
  t.ok(watch.abandon('one'));
  pass(6000);
  t.same(told, ['first_byte']);
});

/** More than the system takes for a client that reads nothing. */
const LARGE = Buffer.alloc(48 << 20);
/** What a slow client reads between two checks. */
const READ = 4 << 20;
const POST = 'POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\na';
/** TLS that needs no certificate. */
const SHARED = { ciphers: 'PSK', maxVersion: 'TLSv1.2' as const };
const PSK = { psk: Buffer.alloc(32, 'k'), identity: 'test' };

/**
 * A client's connection whose second request is answered with `LARGE`, and the deadlines that watch it.
 * @param step lets a third of the time pass in which a client has to read something
 */
async function answerLarge(t: Test, names: FastPart[], secure: boolean, streamed: boolean) {
  const deadlines = new Deadlines(LIMITS);
  deadlines.close(); // no timer of its own
  const seen = { answered: 0, closed: 0, direct: false };
  const handler = (req: ClientRequest, res: ClientResponse): void => {
    const isSecond = seen.answered++ === 1;
    const watch = deadlines.watch(res, UNWATCHED);
    watch.settled();
    res.listen({
      onStream() {},
      onSent() {},
      onThrown() {},
      onClose() {
        seen.closed++;
        watch.close();
      },
    });
    if (!isSecond) return res.send(200, ['content-length', '1'], 'a');
    seen.direct = req instanceof DirectRequest;
    if (!streamed) return res.send(200, ['content-length', `${LARGE.length}`], LARGE);
    const stream = res.openStream([], () => {});
    stream.add(LARGE, 0, LARGE.length);
    stream.end();
  };
  const parts = new Set(names);
  const options = { ...messageClasses(parts), requireHostHeader: false };
  const server = secure
    ? createTlsServer({ ...options, ...SHARED, pskCallback: () => PSK.psk })
    : createServer(options);
  attach(server, { handler, parts, secure });
  // a local socket holds little; TCP up to 36 MiB, which a client can read while its server has no turn
  const to = { path: join(newFolder(t), 'socket') };
  server.listen(to.path);
  await once(server, 'listening');
  const psk = { ...SHARED, pskCallback: () => PSK, checkServerIdentity: () => undefined };
  const client = secure ? connectTls({ ...to, ...psk }) : connect(to);
  client.on('error', () => {}); // it is cut
  t.teardown(() => {
    client.destroy();
    server.close();
    server.closeAllConnections();
  });
  client.write(POST);
  await once(client, 'data');
  client.pause();
  client.write(POST);
  await until(() => seen.answered === 2, 'the large answer');
  let now = 0;
  const step = (): void => {
    now += LIMITS.stallMs / 3;
    for (let tick = 0; tick < 10; tick++) deadlines.check(now); // clients are checked with every tenth tick
  };
  return { client, seen, step };
}

/** Until the other side of a connection had its turn to write what there is room for. */
async function nextPoll(): Promise<void> {
  for (let turn = 0; turn < 2; turn++) await nextTurn();
}

for (const names of [Object.keys(FAST_PARTS) as FastPart[], []])
  for (const secure of [false, true])
    for (const streamed of [false, true]) {
      const way = `${streamed ? 'event' : 'answer'} ${names.length > 0 ? 'by the fast path' : 'by node:http'}${secure ? ' over TLS' : ''}`;
      t.test(
        `a client that reads all the time is not cut, however slowly it reads: a large ${way}`,
        async (t) => {
          const { client, seen, step } = await answerLarge(t, names, secure, streamed);
          t.equal(seen.direct, names.length > 0);
          let read = 0;
          let unchecked = 0;
          client.on('data', (chunk) => {
            read += chunk.length;
            unchecked += chunk.length;
            if (unchecked < READ) return;
            unchecked = 0;
            client.pause();
            void nextPoll().then(() => {
              step();
              client.resume();
            });
          });
          client.resume();
          await until(() => seen.closed === 2, 'the answer is over');
          await until(() => read > LARGE.length || client.destroyed, 'all of it is read');
          t.ok(read > LARGE.length, `${read} bytes were read`);
          t.notOk(client.destroyed);
        },
      );

      t.test(`a client that reads nothing is cut: a large ${way}`, async (t) => {
        const { seen, step } = await answerLarge(t, names, secure, streamed);
        await until(() => {
          step();
          return seen.closed === 2;
        }, 'it is cut');
        t.equal(seen.closed, 2);
      });
    }
