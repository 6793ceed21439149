import { once } from 'node:events';
import { get } from 'node:http';
import { connect } from 'node:net';
import t, { type Test } from 'tap';
import { ask } from '../support/client.ts';
import { startGateway } from '../support/gateway.ts';
import { until } from '../support/until.ts';
import { scriptedUpstream } from '../support/upstream.ts';

t.jobs = 5;
const PLACES = 12;
const upstream = await scriptedUpstream(t);
const LIMITS = {
  MAX_CONNECTIONS: `${PLACES}`,
  HEADER_SECONDS: '1',
  BODY_SECONDS: '1',
  MAX_BODY_BYTES: '2048',
};

/** Takes every place with a client that sends these bytes, and then neither reads nor closes. */
async function occupy(t: Test, url: string, bytes: string): Promise<void> {
  const { hostname, port } = new URL(url);
  for (let n = 0; n < PLACES; n++) {
    const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true });
    t.teardown(() => socket.destroy());
    socket.on('error', () => {});
    await once(socket, 'connect');
    socket.pause();
    socket.write(bytes);
  }
}

const POST = 'POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n';
const WAYS: Record<string, (key: string) => string> = {
  'half a head': () => POST,
  'bytes that are no HTTP': () => '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n',
  'a head that is too large': () => `${POST}x: ${'y'.repeat(20_000)}`,
  CONNECT: () => 'CONNECT x:1 HTTP/1.1\r\nhost: x\r\n\r\n',
  'half a body': (key) => `${POST}authorization: Bearer ${key}\r\ncontent-length: 100\r\n\r\n{`,
  'half a chunked body': (key) =>
    `${POST}authorization: Bearer ${key}\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{`,
  'half a body and a wrong key': () =>
    `${POST}authorization: Bearer wrong\r\ncontent-length: 100\r\n\r\n{`,
  'half of a body that is too large': (key) =>
    `${POST}authorization: Bearer ${key}\r\ncontent-length: 4096\r\n\r\n{`,
  'half a body, and no route': () => `${POST.replace('chat', 'x')}content-length: 100\r\n\r\n{`,
  'a whole request, and half of the next': () =>
    `GET /v1/models HTTP/1.1\r\nhost: x\r\n\r\n${POST}`,
};

for (const [name, bytes] of Object.entries(WAYS)) {
  t.test(
    `a place is free again after a refusal, whatever its client does: ${name}`,
    { buffered: true },
    async (t) => {
      const gateway = await startGateway(t, upstream.url, LIMITS);
      const key = await gateway.key(await gateway.company());
      await occupy(t, gateway.url, bytes(key));
      const answered = (): Promise<boolean> =>
        ask(`${gateway.url}/models`, { key }).then(
          ({ status }) => status === 200,
          () => false,
        );
      await until(answered, 'somebody else is served');
      t.pass();
    },
  );
}

t.test('connections that are kept idle keep nobody out', async (t) => {
  const gateway = await startGateway(t, upstream.url, { MAX_CONNECTIONS: `${PLACES}` });
  const key = await gateway.key(await gateway.company());
  const request = `GET /v1/models HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${key}\r\n\r\n`;
  const { hostname, port } = new URL(gateway.url);
  const open = () => connect(Number(port), hostname).on('error', () => {});
  for (let n = 0; n < PLACES; n++) {
    const socket = open();
    t.teardown(() => socket.destroy());
    socket.write(request);
    t.match(String((await once(socket, 'data'))[0]), /^HTTP\/1\.1 200/);
  }
  const answered = async (): Promise<boolean> => {
    const socket = open();
    t.teardown(() => socket.destroy());
    socket.write(request);
    return await new Promise((resolve) =>
      socket.once('data', () => resolve(true)).once('close', () => resolve(false)),
    );
  };
  await until(answered, 'somebody else is served');
});

t.test('idle connections are closed before a new one finds no place', async (t) => {
  const places = 64;
  const gateway = await startGateway(t, upstream.url, { MAX_CONNECTIONS: `${places}` });
  const key = await gateway.key(await gateway.company());
  const request = `GET /v1/models HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${key}\r\n\r\n`;
  const { hostname, port } = new URL(gateway.url);
  let closed = 0;
  for (let n = 0; n < places + 3; n++) {
    // one more than needed: the gateway may not have seen yet that the client's side is closed too
    if (n >= places)
      await until(
        () => closed > n - places + 1,
        'idle connections are closed though all found a place',
      );
    const socket = connect(Number(port), hostname).on('error', () => {});
    t.teardown(() => socket.destroy());
    socket.once('end', () => closed++);
    socket.write(request);
    const answer = await new Promise((resolve) =>
      socket.once('data', resolve).once('close', resolve),
    );
    t.match(String(answer), /^HTTP\/1\.1 200/, `connection ${n + 1}`);
    socket.resume();
  }
});

/** Opens connections from one address, which send these bytes. @returns those that the gateway closed so far */
async function crowd(
  t: Test,
  url: string,
  localAddress: string,
  count: number,
  bytes = '',
): Promise<() => number> {
  const { hostname, port } = new URL(url);
  let closed = 0;
  const opened = Array.from({ length: count }, async () => {
    const socket = connect({ host: hostname, port: Number(port), localAddress });
    t.teardown(() => socket.destroy());
    socket.once('close', () => closed++).on('error', () => {});
    await once(socket, 'connect').catch(() => {}); // or it was closed already
    socket.resume().write(bytes);
  });
  await Promise.all(opened);
  return () => closed;
}

/** Asks on a connection of its own. @returns the status; 0: none */
function askFrom(localAddress: string, url: string, key = ''): Promise<number> {
  const { hostname, port, pathname } = new URL(url);
  return new Promise((resolve) => {
    const headers = { connection: 'close', authorization: `Bearer ${key}` };
    const request = get(
      { host: hostname, port, path: pathname, localAddress, headers, agent: false },
      (res) => {
        res.resume();
        resolve(res.statusCode as number);
      },
    );
    request.on('error', () => resolve(0));
  });
}

const SILENT_ONES: Record<string, string> = {
  nothing: '',
  'half a head': POST,
  'one request': 'GET /v1/models HTTP/1.1\r\nhost: x\r\nauthorization: Bearer KEY\r\n\r\n',
};

for (const [what, bytes] of Object.entries(SILENT_ONES)) {
  t.test(
    `who opens more connections than there are places keeps nobody else out: each sends ${what}`,
    async (t) => {
      const gateway = await startGateway(t, upstream.url, {
        MAX_CONNECTIONS: '100',
        HEADER_SECONDS: '300',
      });
      const key = await gateway.key(await gateway.company());
      const closed = await crowd(t, gateway.url, '127.0.0.66', 150, bytes.replace('KEY', key));
      await until(() => closed() >= 50, 'those beyond the places are closed');
      const statuses = await Promise.all(
        Array.from({ length: 40 }, (_, n) =>
          askFrom(`127.0.1.${n % 5}`, `${gateway.url}/models`, key),
        ),
      );
      t.strictSame(
        statuses.filter((status) => status !== 200),
        [],
      );
    },
  );
}

t.test('idle connections of a proxy do not give way to ones that send nothing', async (t) => {
  const gateway = await startGateway(t, upstream.url, {
    MAX_CONNECTIONS: '100',
    API_PROXIES: '1',
    HEADER_SECONDS: '300',
  });
  const key = await gateway.key(await gateway.company());
  const closed = await crowd(
    t,
    gateway.url,
    '127.0.0.7',
    80,
    SILENT_ONES['one request']?.replace('KEY', key),
  );
  const answered = () => gateway.logged.filter((line) => line.includes('"status":200')).length;
  await until(() => answered() === 80, 'all are answered');
  const silent = await crowd(t, gateway.url, '127.0.0.66', 150);
  await until(() => silent() >= 130, 'the others are closed');
  t.equal(closed(), 0);
});

t.test(
  'however many connections the admin listener has, it says that the gateway lives',
  async (t) => {
    const gateway = await startGateway(t, upstream.url);
    const closed = await Promise.all(
      ['127.0.0.66', '127.0.0.67'].map((address) => crowd(t, gateway.adminUrl, address, 600)),
    );
    await until(
      () => closed.reduce((sum, each) => sum + each(), 0) >= 200,
      'those beyond the places are closed',
    );
    for (const address of ['127.0.0.66', '127.0.0.1']) {
      for (const path of ['livez', 'readyz', 'metrics']) {
        t.equal(
          await askFrom(address, `${gateway.adminUrl}/${path}`),
          200,
          `${path} from ${address}`,
        );
      }
    }
  },
);
