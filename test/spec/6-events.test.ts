import t from 'tap';
import { CHAT, startWorld } from '../support/world.ts';

const world = await startWorld(t);

t.test(
  '6 there are no events, callbacks or webhooks: a stream is the answer to one POST, never a feed',
  async (t) => {
    const { customer } = world;
    const headers = { accept: 'text/event-stream' };
    t.equal((await customer.ask('/chat/completions', { headers })).status, 405);
    for (const path of ['/events', '/webhooks', '/callbacks'])
      t.equal((await customer.ask(path, { headers })).status, 404);
    const plain = await customer.ask('/chat/completions', {
      headers,
      body: { model: CHAT, messages: [{ role: 'user', content: 'x' }] },
    });
    t.match(
      plain.headers.get('content-type'),
      /^application\/json/,
      'the body asks for a stream, not a header',
    );
  },
);
