import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import t, { type Test } from 'tap';
import { createGateway, type Gateway } from '../../src/index.ts';
import { ask, dataOf } from '../support/client.ts';
import { FAST_HTTP } from '../support/gateway.ts';
import { MASTER_KEY } from '../support/upstream.ts';
import { CHAT, startWorld, type World } from '../support/world.ts';

/** The handler in somebody's server, behind what frameworks do to a request before they hand it on. */

const MESSAGES = [{ role: 'user', content: 'Hello' }];
const world = await startWorld(t);
const errors: object[] = [];
const gateway: Gateway = await createGateway({
  database: world.databaseUrl,
  upstream: world.upstream.url,
  upstreamApiKey: MASTER_KEY,
  spool: null,
  logger: { error: (fields, text) => void errors.push({ ...fields, text }), warn() {}, info() {}, debug() {} },
  settings: { FAST_HTTP },
});
t.teardown(() => gateway.close());

/** A server with a listener around the gateway. @returns its origin */
async function serve(t: Test, listener: RequestListener): Promise<string> {
  const server = createServer(gateway.serverOptions, listener);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** What connect and express do for `app.use(prefix, handler)`: the prefix leaves `url` and stays in `originalUrl`. */
function mounted(prefix: string, req: IncomingMessage, res: ServerResponse): void {
  const { url = '' } = req;
  if (!url.startsWith(`${prefix}/`)) return void res.writeHead(404).end('not of the gateway');
  gateway.handler(Object.assign(req, { originalUrl: url, url: url.slice(prefix.length) }), res);
}

const chat = (origin: string, { customer }: World, more = {}) =>
  ask(`${origin}/v1/chat/completions`, { key: customer.key, body: { model: CHAT, messages: MESSAGES, ...more } });

t.test('in a plain server: answers and streams, on connections that are used again', async (t) => {
  const origin = await serve(t, gateway.handler);
  for (let n = 0; n < 5; n++) {
    t.equal((await chat(origin, world)).status, 200);
    t.equal(dataOf((await chat(origin, world, { stream: true })).text).at(-1), '[DONE]');
  }
  t.equal((await ask(`${origin}/v1/models`, { key: world.customer.key })).status, 200);
});

t.test('mounted at a prefix, which the framework removes from the address', async (t) => {
  const origin = await serve(t, (req, res) => mounted('/v1', req, res));
  t.equal((await chat(origin, world)).status, 200);
  t.equal(dataOf((await chat(origin, world, { stream: true })).text).at(-1), '[DONE]');
  const { key } = world.customer;
  t.equal((await ask(`${origin}/v1/models/${CHAT}`, { key })).json.id, CHAT);
  t.match(await ask(`${origin}/v1/nothing`, { key }), { status: 404, json: { error: { type: 'not_found_error' } } });
  t.equal((await ask(`${origin}/elsewhere`, { key })).text, 'not of the gateway');
});

t.test('behind a parser that has read the body, the client is not left waiting', async (t) => {
  const origin = await serve(t, async (req, res) => {
    Object.assign(req, { body: JSON.parse(Buffer.concat(await req.toArray()).toString()) });
    gateway.handler(req, res);
  });
  const before = world.upstream.received().length;
  for (const stream of [false, true]) {
    const body = { model: CHAT, messages: MESSAGES, stream };
    const signal = AbortSignal.timeout(5000);
    const answer = await ask(`${origin}/v1/chat/completions`, { key: world.customer.key, body, signal });
    t.match(answer, { status: 500, json: { error: { type: 'api_error' } } });
  }
  t.match(errors.at(-1), { err: { message: /mount the gateway before body parsers/ } }, 'the log says what to change');
  t.equal((await ask(`${origin}/v1/models`, { key: world.customer.key, method: 'POST', body: {} })).status, 405);
  t.equal(world.upstream.received().length, before, 'nothing ran');
});
