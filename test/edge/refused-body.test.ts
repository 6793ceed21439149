import { once } from 'node:events';
import { connect } from 'node:net';
import t from 'tap';
import { CHAT, startWorld } from '../support/world.ts';

/** A request that is refused before the end of its body: SDKs try again unless they can read why. */

const world = await startWorld(t, { MAX_BODY_BYTES: '100000' });
const CHAT_LINE = 'POST /v1/chat/completions HTTP/1.1';
const HOST = new URL(world.url).host;
const AUTH = `authorization: Bearer ${world.customer.key}`;
const JSON_TYPE = 'content-type: application/json';
const BODY = JSON.stringify({ model: CHAT, messages: [{ role: 'user', content: 'Hello' }] });
const HEAD = [CHAT_LINE, `host: ${HOST}`, AUTH, JSON_TYPE, `content-length: ${BODY.length}`];
const NEXT = `${HEAD.join('\r\n')}\r\n\r\n${BODY}`;

t.test('a client that still sends its body reads why it is refused', async (t) => {
  const length = 2_000_000;
  const cases: Record<string, [line: string, auth: string, status: number]> = {
    'a wrong key': [CHAT_LINE, 'authorization: Bearer svc_wrong', 401],
    'too large a body': [CHAT_LINE, AUTH, 413],
    'an upload of a file': ['POST /v1/files HTTP/1.1', AUTH, 404],
  };
  for (const [name, [line, auth, status]] of Object.entries(cases)) {
    const { hostname, port } = new URL(world.url);
    const socket = connect({ port: Number(port), host: hostname, allowHalfOpen: true });
    const over = once(socket, 'close');
    let text = '';
    let failure: unknown = null;
    socket.on('data', (chunk) => {
      text += chunk;
    });
    socket.on('error', (error) => {
      failure = error;
    });
    socket.write(
      `${[line, `host: ${HOST}`, auth, JSON_TYPE, `content-length: ${length}`].join('\r\n')}\r\n\r\n{"x":"`,
    );
    await once(socket, 'end'); // the gateway has closed its side
    const before = world.upstream.received().length;
    for (let sent = 0; sent < length && failure === null; sent += 50_000) {
      await new Promise((resolve) => socket.write('x'.repeat(50_000), resolve));
    }
    socket.end(NEXT); // begins within the announced body, and goes beyond
    await over;
    t.equal(failure, null, name);
    t.match(text, new RegExp(`^HTTP/1.1 ${status} .*connection: close`, 'is'), name);
    t.equal(text.match(/HTTP\/1\.1 /g)?.length, 1, `${name}: what follows is no request any more`);
    t.equal(world.upstream.received().length, before, name);
  }
});

t.test('a refused client that sends without end is cut off', async (t) => {
  const { hostname, port } = new URL(world.url);
  const socket = connect({ port: Number(port), host: hostname, allowHalfOpen: true });
  const over = once(socket, 'close');
  socket.on('error', () => {});
  socket.write(`POST /v1/files HTTP/1.1\r\nhost: ${HOST}\r\ncontent-length: 9000000000\r\n\r\n`);
  await once(socket.resume(), 'end');
  const more = Buffer.alloc(1_000_000);
  let sent = 0;
  while (!socket.destroyed) {
    sent++;
    await Promise.race([new Promise((resolve) => socket.write(more, resolve)), over]);
  }
  t.ok(sent < 9000);
});
