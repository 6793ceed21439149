import t from 'tap';
import { ask } from '../../support/client.ts';
import { WAYS } from '../../support/gateway.ts';
import { CHAT, EMBED, OVERSEAS, startWorld } from '../../support/world.ts';

/** A cache before the gateway, which would hand an answer to the next caller: it may not keep any. */

const messages = [{ role: 'user', content: 'Hello there' }];

for (const FAST_HTTP of WAYS) {
  t.test(`no answer of the API may be kept by a cache, FAST_HTTP=${FAST_HTTP}`, async (t) => {
    const world = await startWorld(t, { FAST_HTTP });
    const { key, company } = world.customer;
    const assistant = await world.assistant(company, { model: CHAT });
    const chat = { model: CHAT, messages };
    const asked: readonly (readonly [
      path: string,
      body?: object | string | undefined,
      status?: number,
    ])[] = [
      ['/models'],
      [`/models/${CHAT}`],
      ['/models/nothing', undefined, 404],
      ['/usage'],
      ['/usage/nothing', undefined, 404],
      ['/nothing', undefined, 404],
      ['/chat/completions', undefined, 405],
      ['/chat/completions', '{', 400],
      ['/chat/completions', { ...chat, model: OVERSEAS }, 403],
      ['/chat/completions', chat],
      ['/chat/completions', chat], // a head that repeats goes past Node's parser
      ['/chat/completions', chat],
      ['/chat/completions', { ...chat, stream: true }],
      ['/chat/completions', { ...chat, stream: true }],
      ['/completions', { model: CHAT, prompt: 'Hello' }],
      ['/responses', { model: CHAT, input: 'Hello' }],
      ['/messages', { model: CHAT, messages, max_tokens: 5 }],
      ['/messages', { model: CHAT, messages, max_tokens: 5, stream: true }],
      ['/messages/count_tokens', { model: CHAT, messages }],
      ['/embeddings', { model: EMBED, input: 'Hello' }],
      [`/assistants/${assistant}/run`, { messages }],
    ];
    for (const [path, body, status = 200] of asked) {
      const answer = await ask(world.url + path, { key, body });
      t.equal(answer.status, status, path);
      t.equal(answer.headers.get('cache-control'), 'no-store', path);
    }
    for (const path of ['/models', '/usage', '/chat/completions']) {
      const { status, headers } = await ask(world.url + path, { headers: { 'x-api-key': 'x' } });
      t.ok(status >= 400, path);
      t.equal(headers.get('cache-control'), 'no-store', path);
    }
  });
}
