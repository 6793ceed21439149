import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import t, { type Test } from 'tap';
import { writable } from '../../src/runtime/node-http.ts';
import { ask, open } from '../support/client.ts';
import { startGateway, type TestGateway } from '../support/gateway.ts';
import { until } from '../support/until.ts';
import { scriptedUpstream } from '../support/upstream.ts';
import { CHAT, customerWith, startWorld } from '../support/world.ts';
import { parseAnswer, speak } from './raw.ts';

const HEAD = { 'content-type': 'text/event-stream' };
const EVENT = `data: {"id":"1","choices":[{"index":0,"delta":{"content":"${'y'.repeat(4000)}"},"finish_reason":null}]}\n\n`;
const upstream = await scriptedUpstream(t);

async function furnish(gateway: TestGateway) {
  const company = await gateway.company();
  await gateway.model(CHAT, { upstream: 'internal-x', company });
  return customerWith(gateway.url, company, await gateway.key(company));
}

function head(url: string, key: string, length: number, more = ''): string {
  return `POST /v1/chat/completions HTTP/1.1\r\nhost: ${new URL(url).host}\r\nauthorization: Bearer ${key}\r\ncontent-type: application/json\r\ncontent-length: ${length}\r\n${more}\r\n`;
}

/** A connection that has sent a request and reads nothing of its answer. */
async function stalledClient(t: Test, url: string, key: string, body: object): Promise<Socket> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  t.teardown(() => socket.destroy());
  socket.on('error', () => {});
  await once(socket, 'connect');
  socket.pause();
  const text = JSON.stringify(body);
  socket.write(head(url, key, text.length) + text);
  return socket;
}

t.test('a client that reads nothing is disconnected, and so is its upstream', async (t) => {
  const gateway = await startGateway(t, upstream.url, { STALL_SECONDS: '1' });
  const { key, company } = await furnish(gateway);
  const messages = [{ role: 'user', content: 'x' }];
  let cut = false;
  upstream.answer(async (res) => {
    res.on('close', () => {
      cut = true;
    });
    res.writeHead(200, HEAD);
    while (!res.destroyed) if (!res.write(EVENT)) await writable(res);
  });
  await stalledClient(t, gateway.url, key, { model: CHAT, messages, stream: true });
  await until(() => cut, 'the upstream is disconnected');
  t.match(await gateway.ledger(company, 1), [{ outcome: 'client_aborted' }]);

  // a large answer that is not streamed waits in the gateway, its upstream long done
  const content = 'z'.repeat(20_000_000);
  upstream.answer((res) => {
    res.setHeader('content-type', 'application/json');
    res.end(
      JSON.stringify({
        choices: [{ message: { content } }],
        usage: { prompt_tokens: 1, completion_tokens: 1 },
      }),
    );
  });
  await stalledClient(t, gateway.url, key, { model: CHAT, messages });
  const inFlight = async () =>
    Number(
      /^tollgate_requests_in_flight (\d+)$/m.exec(
        (await ask(`${gateway.adminUrl}/metrics`)).text,
      )?.[1],
    );
  await until(async () => (await inFlight()) === 1, 'the request is in flight');
  await until(async () => (await inFlight()) === 0, 'it is given up');
});

t.test(
  'requests beyond MAX_REQUESTS are refused before their body is read, and accepted afterwards',
  async (t) => {
    const world = await startWorld(t, { MAX_REQUESTS: '3' });
    const { customer } = world;
    await world.part(customer, 'waiting', 'internal-x!stall-after-1');
    const leave = new AbortController();
    const body = { model: 'waiting', messages: [{ role: 'user', content: 'x' }], stream: true };
    const streams = [1, 2, 3].map(() =>
      open(`${world.url}/chat/completions`, { key: customer.key, body, signal: leave.signal }),
    );
    await Promise.all(streams);
    const refused = await customer.chat();
    t.match(refused.json, { error: { type: 'overloaded_error', code: 'service_unavailable' } });
    t.equal(refused.status, 503);
    t.equal(refused.headers.get('retry-after'), '1');
    t.equal(refused.headers.get('x-should-retry'), null, 'a retry is left to the client');
    t.match(refused.headers.get('x-request-id'), /^[0-9a-f-]{36}$/);
    const unread = await speak(world.url, [head(world.url, customer.key, 30_000_000)]);
    t.equal(unread.status, 503, 'before any of 30 MB was sent');
    t.equal(unread.headers.get('connection'), 'close');
    const expecting = await speak(world.url, [
      head(world.url, customer.key, 500, 'expect: 100-continue\r\n'),
    ]);
    t.equal(expecting.status, 503);
    t.equal(
      (await ask(`${world.adminUrl}/readyz`)).status,
      200,
      'the admin listener still answers',
    );
    leave.abort();
    await until(async () => (await customer.chat()).status === 200, 'a request is accepted again');
    t.equal(
      (await world.ledger(customer.company, 1)).filter(({ outcome }) => outcome === 'completed')
        .length,
      1,
    );
  },
);

t.test(
  'a company that takes all places it can get leaves some to a company that nobody has heard of',
  async (t) => {
    const world = await startWorld(t, { MAX_REQUESTS: '16' });
    const { customer } = world;
    await world.part(customer, 'waiting', 'internal-x!stall-after-1');
    const leave = new AbortController();
    const body = { model: 'waiting', messages: [{ role: 'user', content: 'x' }], stream: true };
    const greedy = await Promise.all(
      Array.from({ length: 20 }, () =>
        open(`${world.url}/chat/completions`, { key: customer.key, body, signal: leave.signal }),
      ),
    );
    const statuses = greedy.map(({ status }) => status);
    t.same(new Set(statuses), new Set([200, 503]));
    t.ok(statuses.filter((status) => status === 200).length >= 12, `${statuses}`);
    const quiet = await world.newCustomer();
    t.same([(await quiet.chat()).status, (await quiet.chat()).status], [200, 200]);
    t.equal(
      (await ask(`${world.url}/models`, { key: 'svc_unknown' })).status,
      401,
      'a stranger is one of the others',
    );
    t.equal((await customer.chat()).status, 503, 'the greedy one has its share');
    const { text } = await ask(`${world.adminUrl}/metrics`);
    t.match(text, /^tollgate_requests_shed_total\{reason="requests"\} [1-9]/m);
    leave.abort();
  },
);

t.test(
  'beyond MAX_MEMORY_MB few requests at once are served; others get 503 before the key is looked at',
  async (t) => {
    const waiting = await scriptedUpstream(t);
    const gateway = await startGateway(t, waiting.url, { MAX_MEMORY_MB: '64', MAX_REQUESTS: '64' });
    t.match(
      gateway.logged.filter((line) => /"level":40.*MAX_MEMORY_MB/.test(line)),
      [/64 MB.*give the container or MAX_MEMORY_MB more/],
      'the start warns',
    );
    const customer = await furnish(gateway);
    const large = () =>
      customer.chat({ messages: [{ role: 'user', content: 'x'.repeat(70_000) }] });
    await until(async () => (await large()).status === 503, 'the gateway has looked at its memory');
    t.equal(
      (await ask(`${gateway.url}/models`, { key: customer.key })).status,
      200,
      'one at a time',
    );
    const leave = new AbortController();
    waiting.answer((res) => void res.writeHead(200, HEAD).write(EVENT));
    const body = { model: CHAT, messages: [{ role: 'user', content: 'x' }], stream: true };
    await open(`${gateway.url}/chat/completions`, {
      key: customer.key,
      body,
      signal: leave.signal,
    });
    const refused = await ask(`${gateway.url}/models`, { key: 'svc_unknown' });
    t.match(refused, { status: 503, json: { error: { code: 'service_unavailable' } } });
    t.ok(refused.headers.get('retry-after'), 'with retry-after');
    leave.abort();
  },
);

t.test('connections beyond MAX_CONNECTIONS are closed, and counted', async (t) => {
  const gateway = await startGateway(t, upstream.url, { MAX_CONNECTIONS: '5' });
  const { hostname, port } = new URL(gateway.url);
  const sockets = Array.from({ length: 8 }, () =>
    connect(Number(port), hostname).on('error', () => {}),
  );
  t.teardown(() => sockets.forEach((socket) => void socket.destroy()));
  const closed = () =>
    sockets.filter(({ destroyed, readableEnded }) => destroyed || readableEnded).length;
  for (const socket of sockets) socket.resume();
  await until(() => closed() === 3, 'three connections are closed');
  t.match(
    (await ask(`${gateway.adminUrl}/metrics`)).text,
    /^tollgate_dropped_connections_total 3$/m,
  );
});

t.test(
  'three hundred clients that never finish a request delay nobody, and each gets 408',
  async (t) => {
    const world = await startWorld(t, { HEADER_SECONDS: '1', BODY_SECONDS: '1' });
    const { hostname, port } = new URL(world.url);
    const slow = Array.from({ length: 300 }, () =>
      connect(Number(port), hostname).on('error', () => {}),
    );
    t.teardown(() => slow.forEach((socket) => void socket.destroy()));
    const answers: string[] = [];
    for (const socket of slow) {
      socket.write('POST /v1/chat/completions HTTP/1.1\r\nx-a: ');
      socket.on('data', (data: Buffer) => answers.push(data.toString()));
    }
    t.equal((await world.customer.chat()).status, 200);
    await until(() => answers.length === 300, 'each of the 300 is answered');
    t.ok(answers.every((answer) => parseAnswer(answer).status === 408));
  },
);

t.test('large events that wait for a client cause no warning of too many listeners', async (t) => {
  const gateway = await startGateway(t, upstream.url, {
    MAX_EVENT_BYTES: '2000000',
    STALL_SECONDS: '1',
  });
  const { key } = await furnish(gateway);
  const warnings: Error[] = [];
  const note = (warning: Error) => warnings.push(warning);
  process.on('warning', note);
  t.teardown(() => process.off('warning', note));
  let cut = false;
  upstream.answer((res) => {
    res.writeHead(200, HEAD).on('close', () => {
      cut = true;
    });
    const large = EVENT.replace('yyyy', 'y'.repeat(1_000_000));
    for (let n = 0; n < 20; n++) res.write(large); // more than all buffers on the way hold
  });
  const messages = [{ role: 'user', content: 'x' }];
  const client = await stalledClient(t, gateway.url, key, { model: CHAT, messages, stream: true });
  await until(() => cut, 'the events have waited for STALL_SECONDS');
  t.same(
    warnings.map(({ message }) => message),
    [],
  );
  client.destroy();
});

t.test('CLIENT_IDLE_SECONDS: a connection that rests is told so long, and closed', async (t) => {
  const gateway = await startGateway(t, upstream.url, { CLIENT_IDLE_SECONDS: '1' });
  const { key } = await furnish(gateway);
  const { hostname, port } = new URL(gateway.url);
  const socket = connect(Number(port), hostname).setEncoding('latin1');
  t.teardown(() => socket.destroy());
  let text = '';
  socket.on('data', (bytes: string) => {
    text += bytes;
  });
  const closed = once(socket, 'close');
  const ask = async (answers: number): Promise<void> => {
    socket.write(`GET /v1/models HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${key}\r\n\r\n`);
    await until(() => text.split('"object":"list"').length > answers, 'the answer');
  };
  await ask(1);
  await ask(2); // the connection is used again
  t.match(text, /\r\nkeep-alive: timeout=1\r\n/i);
  await closed;
});
