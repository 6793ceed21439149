import { once } from 'node:events';
import { connect } from 'node:net';
import t from 'tap';
import { CHAT, startWorld } from '../support/world.ts';

/** Nothing runs behind a 408, in either way of answering: its client sends the request again. */

const world = await startWorld(t, { HEADER_SECONDS: '1', BODY_SECONDS: '1' });

t.test('a body whose end comes behind a 408 does not run', async (t) => {
  const { hostname, port } = new URL(world.url);
  const filler = { user: 'x'.repeat(100_000) }; // the parser of Node reads it by itself
  for (const more of [{}, filler]) {
    const messages = [{ role: 'user', content: 'Hello' }];
    const body = JSON.stringify({ model: CHAT, messages, ...more });
    const head = [
      'POST /v1/chat/completions HTTP/1.1',
      'host: x',
      `authorization: Bearer ${world.customer.key}`,
      'content-type: application/json',
      `content-length: ${body.length}`,
    ];
    const socket = connect({ port: Number(port), host: hostname, allowHalfOpen: true });
    socket.on('error', () => {});
    socket.write(`${head.join('\r\n')}\r\n\r\n${body.slice(0, -1)}`);
    const [answer] = await once(socket, 'data');
    t.match(String(answer), /^HTTP\/1\.1 408/);
    const before = world.upstream.received().length;
    const closed = once(socket, 'close');
    socket.end(body.slice(-1));
    await closed;
    t.equal((await world.customer.chat()).status, 200, 'the gateway goes on');
    t.equal(world.upstream.received().length, before + 1, 'and the late one did not run');
  }
});
