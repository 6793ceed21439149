import { execFileSync } from 'node:child_process';
import { Server, Socket } from 'node:net';
import { join } from 'node:path';
import t from 'tap';
import { FAST_PARTS, type FastPart } from '../../src/http/attach.ts';
import { checkFastParts } from '../../src/http/check.ts';
import { DirectResponse } from '../../src/http/direct-request.ts';
import { FastRequest } from '../../src/http/fast-request.ts';
import { until } from '../support/until.ts';

const PARTS = Object.keys(FAST_PARTS) as FastPart[];

t.test('on this Node every part of the fast path works', async (t) => {
  t.same(await checkFastParts(), { parts: new Set(PARTS), failed: [], errors: [], isBusy: false });
});

/** Runs with a method replaced, as another Node might have it. */
async function withMethod<T extends object>(
  target: T,
  name: keyof T,
  method: unknown,
  run: () => Promise<void>,
) {
  const kept = Object.getOwnPropertyDescriptor(target, name);
  Object.defineProperty(target, name, { value: method, configurable: true, writable: true });
  await run();
  if (kept === undefined)
    delete target[name]; // it was inherited
  else Object.defineProperty(target, name, kept);
}

t.test('a part that answers otherwise than plain node:http is named, and off', async (t) => {
  const { send } = DirectResponse.prototype;
  const wrong = function (
    this: DirectResponse,
    status: number,
    headers: string[],
    body: string,
  ): void {
    send.call(this, status, ['x-more', '1', ...headers], body);
  };
  await withMethod(DirectResponse.prototype, 'send', wrong, async () => {
    const { parts, failed } = await checkFastParts();
    t.same(failed, ['headReader']);
    t.same(
      [...parts],
      PARTS.filter((part) => part !== 'headReader'),
    );
  });
});

t.test('a part that throws is named, and off', async (t) => {
  const wrong = (): never => {
    throw new Error('this Node has no such field');
  };
  await withMethod(FastRequest.prototype, 'readBody', wrong, async () => {
    const { parts, failed } = await checkFastParts();
    t.same(failed, ['messages']);
    t.notOk(parts.has('messages'));
  });
});

t.test('a part that stops answering is named, and off', async (t) => {
  await withMethod(
    DirectResponse.prototype,
    'send',
    () => {},
    async () => {
      t.match(await checkFastParts(), { failed: ['headReader'], isBusy: false });
    },
  );
});

t.test(
  'a machine that is busy for longer than any clock would wait says nothing of Node',
  async (t) => {
    const sleepers = setInterval(
      () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 300),
      10,
    );
    const began = performance.now();
    const found = await checkFastParts();
    clearInterval(sleepers);
    t.same(found, { parts: new Set(PARTS), failed: [], errors: [], isBusy: false });
    t.ok(performance.now() - began > 2000, 'it took that long');
  },
);

t.test('where plain node:http does not answer either, nothing is said of Node', async (t) => {
  const { write } = Socket.prototype;
  const nothing = function (this: Socket, ...rest: Parameters<Socket['write']>): boolean {
    return this.remotePort === undefined ? write.apply(this, rest) : true;
  };
  await withMethod(Socket.prototype, 'write', nothing, async () => {
    t.match(await checkFastParts(), { parts: new Set(), failed: [], isBusy: true });
  });
});

t.test('where nothing can be tried, every part is off and the reason is told', async (t) => {
  const listen = function (this: Server): Server {
    process.nextTick(() => this.emit('error', new Error('no loopback interface')));
    return this;
  };
  await withMethod(Server.prototype, 'listen', listen, async () => {
    const { parts, failed, errors } = await checkFastParts();
    t.same([...parts], []);
    t.same(failed, PARTS);
    t.match(errors, [{ message: 'no loopback interface' }]);
  });
});

t.test(
  'a check that cannot connect leaves no server open, which would keep the process',
  async (t) => {
    const unreachable = function (this: Socket): Socket {
      return this.destroy(new Error('the network is unreachable'));
    };
    await withMethod(Socket.prototype, 'connect', unreachable, async () => {
      t.match(await checkFastParts(), {
        parts: new Set(),
        failed: PARTS,
        errors: [{ message: /unreachable/ }],
      });
    });
    await until(
      () => !process.getActiveResourcesInfo().includes('TCPServerWrap'),
      'no server is open',
    );
  },
);

t.test('where sockets cannot be read in a shared buffer, they are read as Node does', async (t) => {
  const { connect } = Socket.prototype;
  t.ok(connect);
  const { failed } = await checkFastParts(['messages', 'headReader']);
  t.same(failed, []);
});

t.test(
  'in a worker of node:cluster, the checks at start listen on no port that the primary knows of',
  async (t) => {
    // process managers take the first port of a worker as the sign that it serves
    const [check, open] = ['http/check.ts', 'upstream/open.ts'].map((path) =>
      import.meta.resolve(`../../src/${path}`),
    );
    const program = `
    import cluster from 'node:cluster';
    let ports = 0;
    cluster.on('listening', () => ports++);
    if (cluster.isPrimary) cluster.fork().on('exit', (code) => console.log(JSON.stringify({ code, ports })));
    else {
      const { checkFastParts } = await import('${check}');
      const { openUpstream } = await import('${open}');
      const { failed } = await checkFastParts();
      const options = { urls: [new URL('http://127.0.0.1:1/v1')], apiKey: null, connectMs: 1000 };
      const upstream = await openUpstream(options, true, { warn: (_fields, reason) => failed.push(reason) });
      upstream.destroy();
      process.exit(failed.length);
    }`;
    const folder = t.testdir({ 'program.mjs': program });
    const printed = execFileSync(process.execPath, [join(folder, 'program.mjs')], {
      encoding: 'utf8',
    });
    t.same(JSON.parse(printed), { code: 0, ports: 0 });
  },
);
