import t from 'tap';
import { summarizeUsage } from '../../src/store/usage/summary.ts';
import { ask } from '../support/client.ts';
import { until } from '../support/until.ts';
import { CHAT, customerWith, EMBED, startWorld } from '../support/world.ts';

const world = await startWorld(t);
const { customer } = world;
const assistant = await world.assistant(customer.company, { model: CHAT });

t.test(
  '5.1 the key is taken from Authorization: Bearer <API_KEY>, of models and usage from x-api-key too, and from nowhere else',
  async (t) => {
    const models = (headers: Record<string, string>, query = '') =>
      ask(`${world.url}/models${query}`, { headers });
    const { key } = customer;
    t.equal((await models({ authorization: `Bearer ${key}` })).status, 200);
    t.equal(
      (await models({ authorization: `bearer ${key}` })).status,
      200,
      'the scheme is case-insensitive (RFC 9110)',
    );
    t.equal((await models({ authorization: key })).status, 401);
    t.equal((await models({ authorization: `Basic ${btoa(`${key}:`)}` })).status, 401);
    for (const path of ['/models', `/models/${CHAT}`, '/models/', '/usage', '/usage/']) {
      const lookUp = (headers: Record<string, string>) => ask(world.url + path, { headers });
      t.equal((await lookUp({ 'x-api-key': key })).status, 200, path);
      t.equal(
        (await lookUp({ 'x-api-key': key, authorization: `Bearer ${key}` })).status,
        200,
        path,
      );
      t.equal(
        (await lookUp({ 'x-api-key': 'svc_other', authorization: `Bearer ${key}` })).status,
        400,
        path,
      );
      t.equal((await lookUp({ 'x-api-key': 'svc_other' })).status, 401, path);
    }
    const booked = await customer.chat();
    const call = `${world.url}/usage/${booked.headers.get('x-request-id')}`;
    t.equal((await ask(call, { headers: { 'x-api-key': key } })).json.model, CHAT);
    for (const path of [
      '/chat/completions',
      '/embeddings',
      '/responses',
      `/assistants/${assistant}/run`,
    ])
      t.equal(
        (await ask(world.url + path, { body: {}, headers: { 'x-api-key': key } })).status,
        401,
        path,
      );
    t.equal((await models({ 'api-key': key })).status, 401);
    t.equal((await models({}, `?api_key=${key}`)).status, 401);
  },
);

t.test('5.2 a missing, invalid, revoked or expired key gives 401, all with one body', async (t) => {
  const revoked = await world.newCustomer();
  await world.sql`update api_keys set revoked_at = now() where company_id = ${revoked.company}`;
  const expired = await world.key(customer.company, ['chat'], new Date(Date.now() - 1000));
  const { key } = customer;
  const tries = [
    undefined,
    '',
    'x',
    key.slice(0, -1),
    `${key}a`,
    key.toUpperCase(),
    revoked.key,
    expired,
  ];
  const bodies = new Set<string>();
  for (const wrong of tries) {
    for (const path of [
      '/models',
      '/chat/completions',
      '/embeddings',
      `/assistants/${assistant}/run`,
    ]) {
      const answer = await ask(world.url + path, {
        key: wrong,
        ...(path === '/models' ? {} : { body: {} }),
      });
      t.equal(answer.status, 401, `${wrong?.slice(0, 6)} ${path}`);
      bodies.add(answer.text);
    }
  }
  t.equal(bodies.size, 1);
});

t.test('5.2 a key that expires while it is in use is refused from then on', async (t) => {
  // on a busy machine a key may expire before its first use: then another one with a longer life
  for (let lifeMs = 250; lifeMs < 10_000; lifeMs *= 2) {
    const key = await world.key(customer.company, ['chat'], new Date(Date.now() + lifeMs));
    const { ask } = customerWith(world.url, customer.company, key);
    if ((await ask('/models')).status !== 200) continue;
    await until(async () => (await ask('/models')).status === 401, 'the expired key is refused');
    return;
  }
  t.fail('no key was ever accepted');
});

t.test(
  '5.3 scopes: each endpoint requires its own, a missing one gives 403, and GET /models needs none',
  async (t) => {
    const scopes = ['chat', 'embeddings', 'assistants'];
    for (const held of [[], ...scopes.map((scope) => [scope]), scopes]) {
      const holder = customerWith(
        world.url,
        customer.company,
        await world.key(customer.company, held),
      );
      const expected = (scope: string) => (held.includes(scope) ? 200 : 403);
      t.equal((await holder.ask('/models')).status, 200, `models with [${held}]`);
      t.equal((await holder.ask(`/models/${CHAT}`)).status, 200, `one model with [${held}]`);
      t.equal((await holder.chat()).status, expected('chat'), `chat with [${held}]`);
      t.equal((await holder.embed()).status, expected('embeddings'), `embeddings with [${held}]`);
      t.equal(
        (await holder.run(assistant)).status,
        expected('assistants'),
        `assistants with [${held}]`,
      );
    }
  },
);

t.test('5.4 keys cannot be created or revoked by the API', async (t) => {
  for (const path of ['/keys', '/api_keys', '/api-keys', '/organization/admin_api_keys']) {
    t.equal(
      (await customer.ask(path, { body: { name: 'x', scopes: ['chat'] } })).status,
      404,
      path,
    );
    t.equal((await customer.ask(path)).status, 404, path);
  }
});

t.test(
  '5.5 keys are for servers: no browser page of another origin may read an answer',
  async (t) => {
    const headers = { origin: 'https://elsewhere.example' };
    const answers = [
      await customer.ask('/models', { headers }),
      await customer.ask('/chat/completions', {
        method: 'OPTIONS',
        headers: { ...headers, 'access-control-request-method': 'POST' },
      }),
      await customer.ask('/chat/completions', {
        headers,
        body: { model: CHAT, messages: [{ role: 'user', content: 'x' }] },
      }),
    ];
    for (const answer of answers) {
      t.same(
        [...answer.headers.keys()].filter((name) => name.startsWith('access-control-')),
        [],
      );
    }
  },
);

t.test('5.6 a usage summary tells requests, tokens and EUR of the current month', async (t) => {
  const other = await world.newCustomer();
  const usages = [
    (await other.chat()).json.usage,
    (await other.chat()).json.usage,
    (await other.embed()).json.usage,
  ];
  const rows = await world.ledger(other.company, 3);
  const summary = await summarizeUsage(world.sql, other.company, null);
  t.equal(summary.requests, 3);
  t.equal(
    summary.prompt_tokens,
    usages.reduce((sum, { prompt_tokens }) => sum + prompt_tokens, 0),
  );
  t.equal(
    summary.completion_tokens,
    usages.reduce((sum, { completion_tokens = 0 }) => sum + completion_tokens, 0),
  );
  const micro = rows.reduce((sum, { cost_eur }) => sum + Math.round(Number(cost_eur) * 1e6), 0);
  t.equal(Math.round(Number(summary.api_cost_eur) * 1e6), micro);
  t.same(
    summary.by_model.map(({ model_slug, requests }) => [model_slug, requests]),
    [
      [CHAT, 2],
      [EMBED, 1],
    ],
  );
});
