import { Agent, request } from 'node:http';
import t from 'tap';
import { chunksOf, dataOf } from '../support/client.ts';
import { CHAT, startWorld } from '../support/world.ts';

/**
 * What the official Python SDK puts on the wire, written by hand: keys in alphabetical
 * order, so `model` comes last, after megabytes of messages.
 */
const world = await startWorld(t);
const agent = new Agent({ keepAlive: true });
t.teardown(() => agent.destroy());

function python(
  body: string,
  headers: Record<string, string> = {},
): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    const req = request(`${world.url}/chat/completions`, {
      method: 'POST',
      agent,
      headers: {
        host: new URL(world.url).host,
        'accept-encoding': 'gzip, deflate, br, zstd',
        connection: 'keep-alive',
        accept: 'application/json',
        'content-type': 'application/json',
        'user-agent': 'OpenAI/Python 3.9.0',
        'x-stainless-lang': 'python',
        'x-stainless-async': 'false',
        'x-stainless-retry-count': '0',
        'x-stainless-read-timeout': '600',
        authorization: `Bearer ${world.customer.key}`,
        ...headers,
      },
    });
    req.on('error', reject);
    req.on('response', async (res) => {
      resolve({
        status: res.statusCode as number,
        text: Buffer.concat(await res.toArray()).toString(),
      });
    });
    req.end(body);
  });
}

function alphabetical(more: object, content: string): string {
  const body = { messages: [{ content, role: 'user' }], model: CHAT, ...more };
  const sorted = Object.entries(body).sort(([a], [b]) => (a < b ? -1 : 1));
  return JSON.stringify(Object.fromEntries(sorted));
}

t.test('model comes last, after two megabytes of messages that mention it', async (t) => {
  const content = `"model":"other" \\ ${'däta '.repeat(400_000)}`;
  const body = alphabetical({ max_tokens: 5 }, content);
  t.match(body, /"model":"brand-chat"\}$/);
  const { status, text } = await python(body, {
    'content-length': String(Buffer.byteLength(body)),
  });
  t.equal(status, 200);
  t.equal(JSON.parse(text).model, CHAT);
  const received = world.upstream.received().at(-1)?.body;
  t.equal(received.model, world.upstream.parts.chat);
  t.equal(received.messages[0].content, content);
  t.same(Object.keys(received), ['max_tokens', 'messages', 'model']);
});

t.test('the same streamed, with stream_options after model and metadata before it', async (t) => {
  const body = alphabetical(
    { stream: true, stream_options: { include_usage: true }, metadata: { model: 'x' } },
    'hi',
  );
  const { status, text } = await python(body);
  t.equal(status, 200);
  t.equal(dataOf(text).at(-1), '[DONE]');
  t.ok(chunksOf(text).every(({ model }) => model === CHAT));
  t.same(Object.keys(world.upstream.received().at(-1)?.body), [
    'messages',
    'metadata',
    'model',
    'stream',
    'stream_options',
  ]);
});

t.test('the body comes in chunks, after 100-continue', async (t) => {
  const body = alphabetical({}, 'x'.repeat(100_000));
  const { status } = await python(body, { 'transfer-encoding': 'chunked', expect: '100-continue' });
  t.equal(status, 200);
});

t.test('both calls are in the ledger, once each', async (t) => {
  const rows = await world.ledger(world.customer.company, 3);
  t.equal(rows.length, 3);
  t.equal(new Set(rows.map(({ request_id }) => request_id)).size, 3);
});
