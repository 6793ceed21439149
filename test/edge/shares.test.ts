import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import t, { type Test } from 'tap';
import { ask } from '../support/client.ts';
import { FAST_HTTP, startGateway } from '../support/gateway.ts';
import { until } from '../support/until.ts';
import { scriptedUpstream } from '../support/upstream.ts';
import { CHAT, customerWith } from '../support/world.ts';
import { parseAnswer, speak } from './raw.ts';

/** What one company sends or leaves unread takes no room from another. */
const MIB = 1 << 20;
const upstream = await scriptedUpstream(t);
upstream.answer((res) => {
  res.setHeader('content-type', 'application/json');
  res.end(
    '{"choices":[{"message":{"content":"hi"}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}',
  );
});

async function start(t: Test, env: Record<string, string> = {}) {
  const gateway = await startGateway(t, upstream.url, env);
  await gateway.model(CHAT, { upstream: 'internal-x' });
  const customer = async () => {
    const company = await gateway.company();
    return customerWith(gateway.url, company, await gateway.key(company));
  };
  return { gateway, greedy: await customer(), quiet: await customer() };
}

function head(url: string, key: string, framing: string): string {
  return `POST /v1/chat/completions HTTP/1.1\r\nhost: ${new URL(url).host}\r\nauthorization: Bearer ${key}\r\ncontent-type: application/json\r\n${framing}\r\n\r\n`;
}

/** Announces a body and sends none of it. @returns what the gateway answers: 100 where it would read the body */
function announce(
  t: Test,
  url: string,
  key: string,
  bytes: number,
): { socket: Socket; status: () => number } {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname).on('error', () => {});
  t.teardown(() => socket.destroy());
  let text = '';
  socket.on('data', (data: Buffer) => {
    text += data;
  });
  socket.write(head(url, key, `content-length: ${bytes}\r\nexpect: 100-continue`));
  return {
    socket,
    status: () =>
      parseAnswer(text.slice(text.indexOf('HTTP/1.1 503'))).status || (text === '' ? 0 : 100),
  };
}

t.test('bodies that never come whole take no memory from another company', async (t) => {
  // room for sixteen such bodies
  const { gateway, greedy, quiet } = await start(t, {
    MAX_BODY_BYTES: `${64 * MIB}`,
    MAX_MEMORY_MB: '2048',
  });
  const { url } = gateway;
  const all = Array.from({ length: 40 }, () => announce(t, url, greedy.key, 64 * MIB));
  await until(() => all.every(({ status }) => status() > 0), 'each is answered');
  const read = all.filter(({ status }) => status() === 100);
  t.equal(read.length, 13, 'seven eighths of the room are for one company');
  t.equal((await greedy.chat()).status, 200, 'its small requests are answered');
  const other = announce(t, url, quiet.key, 64 * MIB);
  await until(() => other.status() > 0, 'the other company is answered');
  t.equal(other.status(), 100, 'there is room for it');
  t.match(
    (await ask(`${gateway.adminUrl}/metrics`)).text,
    /^tollgate_requests_shed_total\{reason="memory"\} 27$/m,
  );

  for (const { socket } of read) socket.destroy();
  const again = async () => {
    const { socket, status } = announce(t, url, greedy.key, 64 * MIB);
    await until(() => status() > 0, 'it is answered');
    socket.destroy();
    return status() === 100;
  };
  await until(again, 'the room of clients that left is free again');
  t.pass();
});

t.test(
  'bodies take no more than the memory beside that of a gateway at rest, and one of the largest always finds room',
  async (t) => {
    for (const [size, taken] of [
      [256 * MIB, 3],
      [1000 * MIB, 1],
    ] as const) {
      const { gateway, greedy } = await start(t, {
        MAX_BODY_BYTES: `${size}`,
        MAX_MEMORY_MB: '1024',
      });
      const all = Array.from({ length: 10 }, () => announce(t, gateway.url, greedy.key, size));
      await until(() => all.every(({ status }) => status() > 0), 'each is answered');
      t.equal(all.filter(({ status }) => status() === 100).length, taken, `of ${size} bytes`);
    }
  },
);

t.test('a body in chunks of a few bytes is not read to its end', async (t) => {
  const { gateway, greedy } = await start(t);
  const text = JSON.stringify({
    model: CHAT,
    messages: [{ role: 'user', content: 'x'.repeat(50_000) }],
  });
  const chunked = (size: number): Buffer => {
    const chunks: string[] = [];
    for (let at = 0; at < text.length; at += size) {
      const chunk = text.slice(at, at + size);
      chunks.push(`${chunk.length.toString(16)}\r\n${chunk}\r\n`);
    }
    return Buffer.from(
      `${head(gateway.url, greedy.key, 'transfer-encoding: chunked')}${chunks.join('')}0\r\n\r\n`,
    );
  };
  const refused = await speak(gateway.url, [chunked(1)]);
  t.equal(refused.status, 400);
  t.match(refused.body, /chunks of a few bytes/);
  t.equal((await speak(gateway.url, [chunked(32)])).status, 200, 'small chunks are read');
});

t.test('the admin listener does not read a form in chunks of a few bytes to its end', async (t) => {
  const { gateway } = await start(t);
  const { adminUrl } = gateway;
  const post = (chunk: string, count: number) =>
    `POST /sign-in HTTP/1.1\r\nhost: ${new URL(adminUrl).host}\r\norigin: ${adminUrl}\r\ncontent-type: application/x-www-form-urlencoded\r\ntransfer-encoding: chunked\r\n\r\n${`${chunk.length.toString(16)}\r\n${chunk}\r\n`.repeat(count)}0\r\n\r\n`;
  t.equal((await speak(adminUrl, [post('a', 5000)], { quietMs: 20_000 })).status, 413);
  t.equal(
    (await speak(adminUrl, [post('a=1&', 100)], { quietMs: 20_000 })).status,
    401,
    'a few are read',
  );
});

const skip = FAST_HTTP === 'off' && 'undici gets a copy, which does not count';
t.test(
  'bodies on their way to the upstream count, though their clients left',
  { skip },
  async (t) => {
    const deaf = createServer((socket) => void socket.pause().on('error', () => {}));
    const opened: Socket[] = [];
    deaf.on('connection', (socket) => opened.push(socket));
    deaf.listen(0, '127.0.0.1');
    await once(deaf, 'listening');
    t.teardown(() => {
      for (const socket of opened) socket.destroy();
      deaf.close();
    });
    const size = 32 * MIB; // more than the system takes on a connection
    const env = { MAX_BODY_BYTES: `${size}`, MAX_MEMORY_MB: '512' }; // room for eight such bodies
    const gateway = await startGateway(
      t,
      `http://127.0.0.1:${(deaf.address() as AddressInfo).port}/v1`,
      env,
    );
    await gateway.model(CHAT, { upstream: 'internal-x' });
    const company = await gateway.company();
    const key = await gateway.key(company);
    const open = `{"model":"${CHAT}","messages":[{"role":"user","content":"`;
    const body = `${open.padEnd(size - 4, 'x')}"}]}`;
    const { hostname, port } = new URL(gateway.url);
    for (let n = 1; n <= 5; n++) {
      const client = connect(Number(port), hostname).on('error', () => {});
      client.write(head(gateway.url, key, `content-length: ${size}`) + body);
      await until(() => opened.length === n, 'the upstream is asked');
      client.destroy();
    }
    const metrics = async () => (await ask(`${gateway.adminUrl}/metrics`)).text;
    await until(
      async () => /^tollgate_requests_in_flight 0$/m.test(await metrics()),
      'all clients left',
    );
    const asked = Array.from({ length: 2 }, () => announce(t, gateway.url, key, size));
    await until(() => asked.every(({ status }) => status() > 0), 'both are answered');
    t.same(
      asked.map(({ status }) => status()).sort(),
      [100, 503],
      'five of the six places it can have are taken',
    );
  },
);
