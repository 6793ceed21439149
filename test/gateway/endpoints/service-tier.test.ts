import t from 'tap';
import { ask } from '../../support/client.ts';
import { startGateway } from '../../support/gateway.ts';
import { scriptedUpstream } from '../../support/upstream.ts';

const upstream = await scriptedUpstream(t);
const gateway = await startGateway(t, upstream.url);
await gateway.model('brand-chat', { upstream: 'internal-chat' });
await gateway.model('brand-embed', { upstream: 'internal-embed', kind: 'embedding' });
await gateway.model('brand-rank', { upstream: 'internal-rank', kind: 'rerank' });
await gateway.model('brand-far', { upstream: 'internal-far', eu: false });
const company = await gateway.company();
const key = await gateway.key(company, ['chat', 'embeddings', 'assistants', 'rerank']);
upstream.answer((res) => void res.writeHead(500).end('{"error":"reached"}'));

const CHAT = { model: 'brand-chat', messages: [{ role: 'user', content: 'Hello' }] };
/** The least of a body, by path. */
const BODIES: Readonly<Record<string, object>> = {
  '/chat/completions': CHAT,
  '/responses': { model: 'brand-chat', input: 'Hello' },
  '/messages': { ...CHAT, max_tokens: 5 },
  '/messages/count_tokens': CHAT,
  '/completions': { model: 'brand-chat', prompt: 'Hello' },
  '/embeddings': { model: 'brand-embed', input: 'Hello' },
  '/rerank': { model: 'brand-rank', query: 'Hello', documents: ['Hi'] },
};

/** A body as text, with more of it before its end. */
const bodyWith = (body: object, more: string) => `${JSON.stringify(body).slice(0, -1)},${more}}`;
const post = (path: string, body: string) => ask(gateway.url + path, { key, body });

const REFUSED = [
  '"service_tier":"priority"',
  '"service_tier":"flex"',
  '"service_tier":"fast"',
  '"service_tier":"scale"',
  '"service_tier":"Auto"',
  '"service_tier":"DEFAULT"',
  '"service_tier":" default"',
  '"service_tier":"default\\u0000"',
  '"service_tier":""',
  '"service_tier":"pri\\u006frity"',
  '"service\\u005ftier":"priority"',
  `"service_tier":"default${' '.repeat(600)}"`,
  '"service_tier":0',
  '"service_tier":true',
  '"service_tier":["default"]',
  '"service_tier":{"type":"priority"}',
];
/** Spellings that one router or another takes for it, whatever they say; two of a kind. */
const SPELLINGS = [
  '"serviceTier":{"type":"priority"}',
  '"serviceTier":null',
  '"service-tier":"priority"',
  '"SERVICE_TIER":"priority"',
  '"\\u017fervice_tier":"priority"',
  '"service_tier\\u0000":"priority"',
  '"service_tier":"default","service_tier":"priority"',
  '"service_tier":"priority","service_tier":null',
  '"service_tier":"default","serviceTier":"priority"',
];
const PASSES = [
  '"service_tier":"auto"',
  '"service_tier":"default"',
  '"service_tier":"standard"',
  '"service_tier":"standard_only"',
  '"service_tier":"\\u0061uto"',
  '"service_tier":null',
  '"metadata":{"service_tier":"priority"}', // a label of the caller's
];

for (const [path, body] of Object.entries(BODIES)) {
  t.test(`${path} refuses a service tier that has no price, in any spelling`, async (t) => {
    for (const more of REFUSED) {
      const { status, json } = await post(path, bodyWith(body, more));
      t.equal(status, 400, more);
      t.match(JSON.stringify(json), /service_tier.* has no price for this tier/, more);
      if (!path.startsWith('/messages') && path !== '/rerank')
        t.match(json.error, { code: 'unsupported_parameter', param: 'service_tier' }, more);
    }
    for (const more of SPELLINGS)
      t.equal((await post(path, bodyWith(body, more))).status, 400, more);
    t.equal(upstream.received.length, 0, 'the upstream saw nothing of it');
  });

  t.test(`${path} takes what asks for the standard tier`, async (t) => {
    for (const more of PASSES) {
      await post(path, bodyWith(body, more));
      t.equal(upstream.received.length, 1, more);
      const sent = upstream.received.pop()?.body.toString() ?? '';
      t.ok(more.startsWith('"metadata') || sent.includes(more), 'it goes upstream as it is');
    }
  });
}

t.test('a run takes no service tier: its assistant sets everything else', async (t) => {
  const assistant = await gateway.assistant(company, { model: 'brand-chat' });
  for (const more of [...REFUSED, ...SPELLINGS]) {
    const body = bodyWith({ messages: CHAT.messages }, more);
    const { status, text } = await post(`/assistants/${assistant}/run`, body);
    t.equal(status, 400, more);
    t.match(text, /service[_-]?tier|\u017fervice_tier/i, more);
  }
  t.equal(upstream.received.length, 0);
});

t.test('the tiers of a model that a caller may not have are not told', async (t) => {
  const more = { service_tier: 'priority' };
  for (const [model, status] of [
    ['nowhere', 404],
    ['brand-embed', 404],
    ['brand-far', 403],
  ] as const) {
    const body = JSON.stringify({ ...CHAT, ...more, model });
    t.equal((await post('/chat/completions', body)).status, status, model);
  }
});
