import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect as connectTcp, type Socket } from 'node:net';
import { join } from 'node:path';
import { text as readText } from 'node:stream/consumers';
import { connect, type TLSSocket } from 'node:tls';
import t, { type Test } from 'tap';
import { Person } from '../admin/people.ts';
import { faultWorld } from '../faults/world.ts';
import { makeCertificate, NO_OPENSSL } from '../support/certificate.ts';
import { newFolder } from '../support/child.ts';
import { WAYS } from '../support/gateway.ts';
import { testDatabase } from '../support/postgres.ts';
import { until } from '../support/until.ts';

/** `tollgate serve --workers 2`, as a person starts it. */

const MAIN = new URL('../../src/main.ts', import.meta.url).pathname;

function start(t: Test, env: Record<string, string>, args = ['--workers', '2', '--json']) {
  const base = { DATA_DIR: newFolder(t), PORT: '0', ADMIN_PORT: '0', LOG_LEVEL: 'info' };
  const child = spawn(process.execPath, [MAIN, 'serve', ...args], {
    env: { ...process.env, ...base, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  t.teardown(() => child.kill('SIGKILL'));
  return { child, exited: once(child, 'exit').then(([code]) => code as number | null) };
}

/** Starts with a customer's key; with the embedded database, it is the key of the demo company. */
async function serve(t: Test, env: Record<string, string> = {}) {
  const isDemo = env.DATABASE_URL === '';
  const world = isDemo ? null : await faultWorld(t);
  const own =
    world === null ? {} : { DATABASE_URL: world.databaseUrl, UPSTREAM_URL: world.demo.url };
  const { child, exited } = start(t, { ...own, ...env }, [
    '--workers',
    '2',
    '--json',
    ...(isDemo ? ['--demo'] : []),
  ]);
  let log = '';
  child.stderr.setEncoding('utf8').on('data', (piece) => {
    log += piece;
  });
  let printed = '';
  for await (const piece of child.stdout.iterator({ destroyOnReturn: false })) {
    printed += piece;
    if (printed.endsWith('\n')) break;
  }
  if (printed === '') throw new Error(`it ended with ${await exited} before it began: ${log}`);
  const facts = JSON.parse(printed) as {
    base_url: string;
    admin_url: string;
    key: string;
    socket: string | null;
  };
  const lines = (): { worker?: number; msg?: string; pid?: number; request_id?: string }[] =>
    [...log.matchAll(/.+(?=\n)/g)].map(([line]) => JSON.parse(line)); // the last line may be half one
  const stop = (): Promise<number | null> => {
    child.kill('SIGTERM');
    return exited;
  };
  const metrics = async (): Promise<string> => (await fetch(`${facts.admin_url}/metrics`)).text();
  return { ...facts, key: world?.key ?? facts.key, child, lines, stop, metrics, exited, world };
}

/** Asks for the models on a connection of its own, which stays open. @returns status lines come as they arrive */
function ask(socket: Socket, path: string, key: string): Promise<string> {
  socket.write(`GET ${path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${key}\r\n\r\n`);
  return once(socket, 'data').then(([data]) => String(data).split('\r\n', 1)[0] as string);
}

t.test(
  'one port, one admin listener, one set of metrics, one line of welcome; the embedded database and the demo are shared',
  async (t) => {
    const gateway = await serve(t, { DATABASE_URL: '' });
    const { hostname, port, pathname } = new URL(gateway.base_url);
    const sockets = Array.from({ length: 10 }, () => connectTcp(Number(port), hostname));
    for (const socket of sockets)
      t.match(await ask(socket, `${pathname}/models`, gateway.key), /^HTTP\/1\.1 200 /);
    const answer = await fetch(`${gateway.base_url}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'demo-chat', messages: [{ role: 'user', content: 'Hello' }] }),
    });
    t.equal(answer.status, 200);
    const text = await gateway.metrics();
    const value = (series: string) =>
      Number(
        text
          .split('\n')
          .find((line) => line.startsWith(`${series} `))
          ?.split(' ')[1],
      );
    const models = 'endpoint="models",status="200"';
    t.equal(value(`tollgate_requests_total{${models}}`), 10);
    t.same(
      [1, 2].map((worker) => value(`tollgate_worker_requests_total{worker="${worker}",${models}}`)),
      [5, 5],
      'spread evenly',
    );
    t.equal(value('tollgate_workers'), 2);
    t.equal(value('tollgate_database_available'), 1, 'not added up');
    for (const path of ['/livez', '/readyz'])
      t.equal((await fetch(gateway.admin_url + path)).status, 200);
    const page = await new Person(gateway.admin_url).get('/sign-in');
    t.match(page.text, /Sign in/);
    for (const socket of sockets) socket.destroy();
    t.equal(await gateway.stop(), 0);
    const lines = gateway.lines();
    t.equal(lines.filter(({ msg }) => msg === 'serving').length, 1);
    const requests = lines.filter(({ request_id }) => request_id !== undefined);
    t.equal(requests.length, 11);
    t.same(
      [...new Set(requests.map(({ worker }) => worker))].sort(),
      [1, 2],
      'a line says which worker wrote it',
    );
  },
);

function closed(socket: Socket): Promise<unknown> {
  return new Promise((resolve) => socket.on('error', () => {}).on('close', resolve));
}

t.test(
  'a Unix socket is shared too, and MAX_CONNECTIONS is for all workers together',
  async (t) => {
    const path = join(newFolder(t), 'api.sock');
    const gateway = await serve(t, { LISTEN_SOCKET: path, MAX_CONNECTIONS: '4' });
    t.equal(gateway.socket, path);
    const sockets = Array.from({ length: 4 }, () => connectTcp(path));
    for (const socket of sockets)
      t.match(await ask(socket, '/v1/models', gateway.key), /^HTTP\/1\.1 200 /);
    const oldest = Promise.race(sockets.map(closed));
    sockets.push(connectTcp(path));
    await oldest; // an idle one, in whose place the fifth is
    const metrics = await gateway.metrics();
    t.match(
      metrics,
      /^tollgate_worker_requests_total\{worker="2",endpoint="models",status="200"\} 2$/m,
    );
    t.match(metrics, /^tollgate_dropped_connections_total 1$/m);
    sockets[0]?.destroy();
    const again = await until(
      async () => {
        const socket = connectTcp(path);
        const status = await Promise.race([
          ask(socket, '/v1/models', gateway.key).catch(() => ''),
          closed(socket).then(() => ''),
        ]);
        socket.destroy();
        return status;
      },
      'there is room again',
      (status) => status !== '',
    );
    t.match(again, /^HTTP\/1\.1 200 /);
    for (const socket of sockets) socket.destroy();
    t.equal(await gateway.stop(), 0);
  },
);

t.test(
  'a stop with a delay still takes connections, and clients of calls that it cuts are told',
  async (t) => {
    const gateway = await serve(t, { DRAIN_DELAY_SECONDS: '2', DRAIN_SECONDS: '1' });
    const { key } = gateway;
    await gateway.world?.model('slow', 'internal-slow!events-3000!pace-20');
    const stream = async () =>
      fetch(`${gateway.base_url}/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: JSON.stringify({
          model: 'slow',
          stream: true,
          messages: [{ role: 'user', content: 'Hello' }],
        }),
      });
    const begun: Response[] = [];
    while (begun.length < 3)
      begun.push(await until(stream, 'a worker serves the model', ({ status }) => status === 200));
    gateway.child.kill('SIGTERM');
    await until(
      async () => (await fetch(`${gateway.admin_url}/readyz`)).status === 503,
      'it says that it stops',
    );
    begun.push(await stream());
    for (const answer of begun) {
      t.equal(answer.status, 200);
      t.match(await answer.text(), /"code":"service_unavailable"/);
    }
    t.equal(await gateway.exited, 0);
  },
);

for (const FAST_HTTP of WAYS)
  t.test(
    `what clients send and close before a worker has their connections is answered, FAST_HTTP=${FAST_HTTP}`,
    async (t) => {
      const gateway = await serve(t, { FAST_HTTP, HEADER_SECONDS: '6' });
      const { hostname, port } = new URL(gateway.base_url);
      const pids = (): number[] =>
        gateway
          .lines()
          .filter(({ msg }) => msg === 'a worker takes connections')
          .map(({ pid }) => pid as number);
      const workers = await until(pids, 'the log names both', ({ length }) => length === 2);
      for (const pid of workers) process.kill(pid, 'SIGSTOP');
      const request = `GET /v1/models HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${gateway.key}\r\n\r\n`;
      const sockets = Array.from({ length: 200 }, () =>
        connectTcp(Number(port), hostname).end(request),
      );
      await Promise.all(sockets.map((socket) => once(socket, 'finish')));
      for (const pid of workers) process.kill(pid, 'SIGCONT');
      for (const socket of sockets) t.match(await readText(socket), /^HTTP\/1\.1 200 [\s\S]+\}$/);
      const slow = connectTcp(Number(port), hostname);
      slow.write('GET /v1/models HTTP/1.1\r\n');
      t.match(await readText(slow), /^HTTP\/1\.1 408 /, 'the time for a head is counted');
      t.equal(await gateway.stop(), 0);
    },
  );

for (const FAST_HTTP of WAYS) {
  const name = `workers speak TLS, and each resumes the sessions of the other, FAST_HTTP=${FAST_HTTP}`;
  t.test(name, { skip: NO_OPENSSL }, async (t) => {
    const { cert, key } = makeCertificate(newFolder(t));
    process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0'; // of the admin listener
    const gateway = await serve(t, { TLS_CERT: cert, TLS_KEY: key, FAST_HTTP });
    const { port } = new URL(gateway.base_url);
    const open = (session?: Buffer): TLSSocket =>
      connect({
        port: Number(port),
        host: '127.0.0.1',
        rejectUnauthorized: false,
        ...(session && { session }),
      });
    const first = open();
    const ticket = once(first, 'session');
    t.match(await ask(first, '/v1/models', gateway.key), /^HTTP\/1\.1 200 /);
    const [session] = (await ticket) as [Buffer];
    const second = open(session);
    t.match(await ask(second, '/v1/models', gateway.key), /^HTTP\/1\.1 200 /);
    t.ok(second.isSessionReused());
    for (const socket of [first, second]) socket.destroy();
    const text = await gateway.metrics();
    for (const worker of [1, 2]) {
      t.match(
        text,
        `tollgate_worker_requests_total{worker="${worker}",endpoint="models",status="200"} 1\n`,
      );
    }
    t.equal(await gateway.stop(), 0);
  });
}

t.test('what a worker cannot start with ends the program, with one line', async (t) => {
  const { url } = await testDatabase(t);
  const cases: [Record<string, string>, number, RegExp][] = [
    [{ SPOOL_DIR: '/dev/null/spool' }, 64, /^SPOOL_DIR: \/dev\/null\/spool cannot be written/],
    [
      { MAX_MEMORY_MB: '100' },
      64,
      /^WORKERS: 2 workers need MAX_MEMORY_MB=320 or more, and there are 100$/,
    ],
    [
      { DATABASE_URL: 'postgres://x@127.0.0.1:1/x' },
      1,
      /^database unavailable: .*check that Postgres runs/,
    ],
    [{ HOST: '192.0.2.1' }, 1, /^listen EADDRNOTAVAIL/],
  ];
  for (const [env, code, line] of cases) {
    const own = { DATABASE_URL: url, UPSTREAM_URL: 'http://127.0.0.1:1/v1', LOG_LEVEL: 'silent' };
    const { child, exited } = start(t, { ...own, ...env });
    child.stdout.resume();
    const [written, exit] = await Promise.all([readText(child.stderr), exited]);
    t.equal(exit, code, Object.keys(env).join());
    t.match(JSON.parse(written).error.message, line, 'one line, which --json makes JSON');
  }
  const wrong = start(t, {}, ['--workers', 'many']);
  const [written, exit] = await Promise.all([readText(wrong.child.stderr), wrong.exited]);
  t.same(
    [exit, written],
    [64, 'tollgate: WORKERS: must be a whole number from 1 to 256 or auto, not "many"\n'],
  );
});
