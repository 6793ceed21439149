import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { networkInterfaces, tmpdir } from 'node:os';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { text as textOf } from 'node:stream/consumers';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { type App, listenTo, openAdmin, openApp } from '../src/app.ts';
import { readConfig } from '../src/config.ts';
import { createLog, type Log } from '../src/log.ts';
import { ask, open, thrownBy } from './support/client.ts';
import { WAYS } from './support/gateway.ts';
import { until } from './support/until.ts';
import { MASTER_KEY } from './support/upstream.ts';
import { CHAT, startWorld, type World } from './support/world.ts';

const MESSAGES = [{ role: 'user', content: 'Hello there' }];

function silentLog(): Log {
  return createLog({ level: 'error' }, new Writable({ write: (_line, _encoding, done) => done() }));
}

/** One more replica of a world's gateway. Its database connections are named "replica". */
async function replica(t: Test, world: World, env: Record<string, string> = {}): Promise<App> {
  const settings = {
    PORT: '0',
    ADMIN_PORT: '0',
    DATABASE_URL: `${world.databaseUrl}&application_name=replica`,
    UPSTREAM_URL: world.upstream.url,
    UPSTREAM_API_KEY: MASTER_KEY,
    SPOOL_DIR: '',
    ...env,
  };
  const app = await openApp(readConfig(settings), silentLog());
  await app.listen();
  t.teardown(() => app.close());
  return app;
}

/** How each dialect tells a client of a stream that it was cut. */
const CUT_STREAMS = {
  '/chat/completions':
    /\ndata: \{"error":\{"message":"[^"]+","type":"overloaded_error","code":"service_unavailable"/,
  '/responses': /"service_unavailable"/,
  '/messages': /\nevent: error\ndata: \{"type":"error","error":\{"type":"overloaded_error"/,
};

for (const fast of WAYS) {
  t.test(
    `clients of calls that a stop cuts are told so, and the calls are free, FAST_HTTP=${fast}`,
    async (t) => {
      const world = await startWorld(t);
      const { customer } = world;
      const app = await replica(t, world, { FAST_HTTP: fast });
      await world.part(customer, 'slow', 'internal-slow!events-3000!pace-20');
      await world.part(customer, 'silent', 'internal-silent!slow-first-byte-60000');
      const said = { messages: MESSAGES, input: 'Hello there', max_tokens: 1000 };
      const streams = Object.entries(CUT_STREAMS).map(async ([path, told]) => {
        const { messages, input, max_tokens } = said;
        const own = path === '/responses' ? { input } : { messages, max_tokens };
        const body = { model: 'slow', stream: true, ...own };
        const answer = await open(app.apiUrl + path, { key: customer.key, body });
        t.equal(answer.status, 200);
        return { path, told, text: answer.text() };
      });
      const body = { model: 'silent', messages: MESSAGES };
      const whole = ask(`${app.apiUrl}/chat/completions`, { key: customer.key, body });
      const begun = await Promise.all(streams);
      await until(() => world.upstream.received().length === 4, 'the upstream has all of them');
      t.equal(await app.drain(0.05), 4);
      for (const { path, told, text } of begun) {
        t.match(await text, told, path);
        t.notMatch(await text, /\[DONE\]|message_stop|response\.completed/, path);
      }
      t.match(await whole, { status: 503, json: { error: { code: 'service_unavailable' } } });
      t.equal((await whole).headers.get('x-should-retry'), 'false', 'it ran, and would run again');
      t.equal(await app.close(), 0);
      t.same(await world.sql`select outcome from api_usage`, []);
    },
  );
}

t.test(
  'with a delay /readyz says that it stops while new connections are still answered',
  async (t) => {
    const world = await startWorld(t);
    const app = await replica(t, world);
    const { apiUrl } = app;
    const drained = app.drain(10, 5);
    const { key } = world.customer;
    t.equal((await ask(`${app.adminUrl}/readyz`)).status, 503);
    const answer = await ask(`${apiUrl}/models`, { key, headers: { connection: 'close' } });
    t.equal(answer.status, 200);
    t.equal(await drained, 0);
    t.match(await thrownBy(ask(`${apiUrl}/models`, { key })), { code: 'ECONNREFUSED' });
  },
);

for (const fast of WAYS) {
  t.test(
    `a connection that the system has accepted when a stop begins is answered, FAST_HTTP=${fast}`,
    async (t) => {
      const world = await startWorld(t);
      const app = await replica(t, world, { FAST_HTTP: fast });
      const { hostname, port, pathname } = new URL(app.apiUrl);
      const socket = connect(Number(port), hostname);
      const text = textOf(socket);
      await promisify(process.nextTick)(); // the system connects now, and the gateway has not seen it
      const drained = app.drain(10);
      await once(socket, 'connect');
      const { key } = world.customer;
      socket.write(
        `GET ${pathname}/models HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${key}\r\n\r\n`,
      );
      t.match(await text, /^HTTP\/1\.1 200 [\s\S]*\r\nconnection: close\r\n/i);
      t.equal(await drained, 0);
    },
  );
}

t.test('DATABASE_CONNECTIONS holds for API, change feed, alerts and pages together', async (t) => {
  const world = await startWorld(t);
  const { sql, customer } = world;
  const app = await replica(t, world, { DATABASE_CONNECTIONS: '5' });
  let most = 0;
  let done = false;
  const watch = (async () => {
    while (!done) {
      const [row] =
        await sql`select count(*)::integer as open from pg_stat_activity where application_name = 'replica'`;
      most = Math.max(most, row?.open);
    }
  })();
  const caller = async () => {
    for (let i = 0; i < 8; i++) {
      const key = await world.key(customer.company); // each one is looked up
      await ask(`${app.apiUrl}/chat/completions`, {
        key,
        body: { model: CHAT, messages: MESSAGES },
      });
    }
  };
  const headers = { cookie: `tollgate=${'0'.repeat(43)}`, connection: 'close' };
  const visitor = async () => {
    for (let i = 0; i < 4; i++) t.equal((await ask(`${app.adminUrl}/`, { headers })).status, 303);
  };
  await Promise.all(
    [caller, caller, caller, caller, visitor, visitor, visitor].map((work) => work()),
  );
  done = true;
  await watch;
  t.ok(
    most === 4 || most === 5,
    `${most}: the fifth is open where alerts are sent, here or on the other gateway`,
  );
});

t.test('with three connections there are no pages, but health and metrics', async (t) => {
  const world = await startWorld(t);
  const app = await replica(t, world, { DATABASE_CONNECTIONS: '3' });
  t.match(await ask(`${app.adminUrl}/`), {
    status: 404,
    text: /no administration pages: they need DATABASE_CONNECTIONS of 5/,
  });
  t.match(await ask(`${app.adminUrl}/livez`), { status: 200, text: 'ok\n' });
  t.match(await ask(`${app.adminUrl}/readyz`), { status: 200, text: 'ready\n' });
  t.match(await ask(`${app.adminUrl}/metrics`), {
    status: 200,
    text: /^tollgate_requests_in_flight 0$/m,
  });
});

t.test('while it drains it is alive, but not ready, and says what it waits for', async (t) => {
  const world = await startWorld(t);
  const { customer } = world;
  const app = await replica(t, world);
  await world.part(customer, 'slow', world.upstream.parts.long);
  const body = { model: 'slow', messages: MESSAGES, stream: true };
  const answer = await open(`${app.apiUrl}/chat/completions`, { key: customer.key, body });
  const drained = app.drain(10);
  const waiting = 'waiting for its open requests: it is stopping\n';
  t.match(await ask(`${app.adminUrl}/readyz`), { status: 503, text: waiting });
  t.match(await ask(`${app.adminUrl}/livez`), { status: 200 });
  t.match(await ask(`${app.adminUrl}/metrics`), { text: /^tollgate_draining 1$/m });
  await answer.text();
  t.equal(await drained, 0);
});

t.test('ADMIN_PORT=off leaves the API alone', async (t) => {
  const world = await startWorld(t);
  const app = await replica(t, world, { ADMIN_PORT: 'off' });
  t.equal(app.adminUrl, null);
  t.match(await ask(`${app.apiUrl}/models`, { key: world.customer.key }), { status: 200 });
});

t.test(':: is all addresses of IPv6 and IPv4, for both listeners', async (t) => {
  const world = await startWorld(t);
  const app = await replica(t, world, { HOST: '::', ADMIN_HOST: '::' });
  const { key } = world.customer;
  await world.sql`update api_keys set allowed_cidrs = ${['127.0.0.0/8', '::1/128']}`;
  const isThere = Object.values(networkInterfaces()).some((all) =>
    all?.some(({ address }) => address === '::1'),
  );
  for (const host of isThere ? ['127.0.0.1', '[::1]'] : ['127.0.0.1']) {
    const at = (url: string) => url.replace('localhost', host);
    t.match(await ask(at(`${app.apiUrl}/models`), { key }), { status: 200 }, host);
    t.equal((await fetch(at(`${app.adminUrl}/livez`))).status, 200, host);
  }
});

t.test(
  'LISTEN_SOCKET takes the place of a socket that a killed process left, and of nothing else',
  async (t) => {
    const folder = mkdtempSync(join(tmpdir(), 'tollgate-socket-'));
    t.teardown(() => rmSync(folder, { recursive: true, force: true }));
    const [path, file] = [join(folder, 'api.sock'), join(folder, 'notes.txt')];
    const listening = async (LISTEN_SOCKET: string) => {
      const server = createServer((socket) => socket.destroy());
      t.teardown(() => server.close());
      await listenTo(readConfig({ LISTEN_SOCKET }), server);
    };
    const program = `require('node:net').createServer().listen(${JSON.stringify(path)}, () => process.kill(process.pid, 'SIGKILL'))`;
    await once(spawn(process.execPath, ['--eval', program]), 'exit');
    t.ok(existsSync(path), 'left behind');
    await listening(path);
    t.match(await thrownBy(listening(path)), {
      message: /^LISTEN_SOCKET: another program listens on ".*"; stop it, or /,
    });

    writeFileSync(file, 'kept');
    for (const other of [file, folder]) {
      t.match(await thrownBy(listening(other)), {
        message: /^LISTEN_SOCKET: ".*" is there and no socket; name another/,
      });
    }
    t.ok(existsSync(file));
  },
);

t.test(
  'an address that cannot be listened on is refused with the variable to change',
  async (t) => {
    const api = (env: Record<string, string>) => listenTo(readConfig(env), createServer());
    const admin = (env: Record<string, string>) => {
      const health = { log: silentLog(), metrics: async () => '', waitingFor: () => [] };
      const listener = openAdmin(readConfig(env), health, null, Date.now, () => ({
        databaseUrl: '',
        apiUrl: '',
        demoUrl: null,
      }));
      return listener?.listen() ?? Promise.resolve();
    };
    for (const [listening, env, told] of [
      [
        api,
        { HOST: '203.0.113.1', PORT: '0' },
        /EADDRNOTAVAIL.*; set HOST to an address of this machine$/,
      ],
      [api, { HOST: 'gate.invalid' }, /^getaddrinfo .*; set HOST to an address of this machine$/],
      [
        api,
        { LISTEN_SOCKET: '/no/s' },
        /EACCES.*; set LISTEN_SOCKET to a path in a folder that is there/,
      ],
      [
        admin,
        { ADMIN_HOST: '203.0.113.1', ADMIN_PORT: '0' },
        /EADDRNOTAVAIL.*; set ADMIN_HOST to an address of this/,
      ],
      [
        admin,
        { ADMIN_HOST: 'gate.invalid' },
        /^getaddrinfo .*; set ADMIN_HOST to an address of this machine$/,
      ],
    ] as const) {
      t.match(await thrownBy(listening(env)), { message: told });
    }
  },
);
