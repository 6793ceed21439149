import { once } from 'node:events';
import { connect } from 'node:net';
import t from 'tap';
import { ask } from '../support/client.ts';
import { until } from '../support/until.ts';
import { CHAT, EMBED, startWorld } from '../support/world.ts';
import { chunk } from './raw.ts';

/** Clients that close their sending side behind a whole request, and clients that leave, which sends the same. */

const world = await startWorld(t, { STALL_SECONDS: '1', READ_ON_SECONDS: '0,0' });
const SLOW = 'internal-x!slow-first-byte-300!pace-60!events-8';
const SILENT = 'internal-x!slow-first-byte-600000';
const MESSAGES = [{ role: 'user', content: 'Hello' }];
const LIMIT = { max_tokens: 50 };

/** The calls of all dialects, and what the end of a streamed answer holds. */
const CALLS: Record<string, [path: string, body: object, end: RegExp]> = {
  chat: ['/chat/completions', { messages: MESSAGES }, /\[DONE\]/],
  completions: ['/completions', { prompt: 'Hello' }, /\[DONE\]/],
  responses: ['/responses', { input: 'Hello' }, /response\.(completed|incomplete)/],
  messages: ['/messages', { messages: MESSAGES, ...LIMIT }, /message_stop/],
};

function request(key: string, path: string, body: object, inChunks = false): string {
  const text = JSON.stringify(body);
  const length = inChunks ? 'transfer-encoding: chunked' : `content-length: ${text.length}`;
  const head = `POST ${new URL(world.url).pathname}${path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${key}`;
  const sent = inChunks ? `${chunk(text.slice(0, 9))}${chunk(text.slice(9))}0\r\n\r\n` : text;
  return `${head}\r\ncontent-type: application/json\r\n${length}\r\n\r\n${sent}`;
}

/** Sends requests, closes the sending side at once and reads to the end. */
async function halfClose(requests: string, url = world.url): Promise<string> {
  const { hostname, port } = new URL(url);
  const socket = connect({ port: Number(port), host: hostname, allowHalfOpen: true });
  let text = '';
  socket.setEncoding('latin1').on('data', (piece) => {
    text += piece;
  });
  socket.end(requests);
  await once(socket, 'end');
  return text;
}

for (const [dialect, [path, body, end]] of Object.entries(CALLS)) {
  for (const stream of [false, true]) {
    t.test(`${dialect}, ${stream ? 'streamed' : 'whole'}: answered and booked`, async (t) => {
      const customer = await world.newCustomer();
      const model = await world.part(customer, 'slow', SLOW);
      for (const inChunks of [false, true]) {
        const text = await halfClose(
          request(customer.key, path, { model, stream, ...body }, inChunks),
        );
        t.match(text, /^HTTP\/1\.1 200 OK\r\n/);
        t.match(text, stream ? end : /\}$/);
      }
      const two = await halfClose(
        request(customer.key, path, { model, stream, ...body }).repeat(2),
      );
      t.equal(two.match(/HTTP\/1\.1 200 OK/g)?.length, 2, 'two requests at once');
      const rows = await world.ledger(customer.company, 4);
      t.ok(
        rows.every(
          ({ outcome, usage_source }) => outcome === 'completed' && usage_source === 'upstream',
        ),
      );
    });

    t.test(
      `${dialect}, ${stream ? 'streamed' : 'whole'}: a client that leaves is noticed and booked`,
      async (t) => {
        const customer = await world.newCustomer();
        const model = await world.part(
          customer,
          'silent',
          stream ? 'internal-x!stall-after-1' : SILENT,
        );
        const { hostname, port } = new URL(world.url);
        const socket = connect(Number(port), hostname);
        const calls = world.upstream.received().length;
        socket.write(request(customer.key, path, { model, stream, ...body }));
        if (stream) await once(socket, 'data');
        else await until(() => world.upstream.received().length > calls, 'the upstream has it');
        socket.destroy(); // sends FIN, as a half-close does
        t.match(await world.ledger(customer.company, 1), [{ outcome: 'client_aborted' }]);
      },
    );
  }
}

t.test('embeddings, lookups and errors are answered', async (t) => {
  const { key } = world.customer;
  t.match(
    await halfClose(request(key, '/embeddings', { model: EMBED, input: 'Hello' })),
    /^HTTP\/1\.1 200 OK/,
  );
  t.match(
    await halfClose(`GET /v1/models HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${key}\r\n\r\n`),
    CHAT,
  );
  t.match(
    await halfClose(request('svc_wrong', '/embeddings', { model: EMBED, input: 'Hello' })),
    /^HTTP\/1\.1 401 /,
  );
  t.match(
    await halfClose(request(key, '/embeddings', {}).slice(0, -1)),
    /^HTTP\/1\.1 400 /,
    'half a body',
  );
});

t.test('one that reads nothing is disconnected', async (t) => {
  const customer = await world.newCustomer();
  const model = await world.part(customer, 'long', 'internal-x!events-60000-burst');
  const { hostname, port } = new URL(world.url);
  const socket = connect({ port: Number(port), host: hostname, allowHalfOpen: true }).pause();
  socket.on('error', () => {});
  socket.end(
    request(customer.key, '/chat/completions', { model, stream: true, messages: MESSAGES }),
  );
  t.match(await world.ledger(customer.company, 1), [{ outcome: 'client_aborted' }]);
  const { text } = await ask(`${world.adminUrl}/metrics`);
  t.match(text, /^tollgate_requests_in_flight 0$/m);
  socket.destroy();
});
