import t from 'tap';
import { ask } from '../support/client.ts';
import { startGateway } from '../support/gateway.ts';
import { until } from '../support/until.ts';
import { MASTER_KEY, type Received, scriptedUpstream } from '../support/upstream.ts';
import { CHAT, customerWith, INTERNAL, OVERSEAS, startWorld, visible } from '../support/world.ts';

const world = await startWorld(t);

t.test(
  "1.1 the wire format stays the reference format: both sides' bytes pass unchanged, except for the model name",
  async (t) => {
    const upstream = await scriptedUpstream(t);
    const gateway = await startGateway(t, upstream.url);
    const company = await gateway.company();
    await gateway.model('brand', { upstream: 'internal-x', company });
    const customer = customerWith(gateway.url, company, await gateway.key(company));

    const body =
      ' {"messages" : [{"role":"user","content":"\\u00e4 \\/ ä"}],\n"seed":9007199254740993,"top_p":1.0e0, "model":"brand","x":{"model":"brand"}} ';
    const answer =
      '{"z":1.10,"model":"internal-x","choices":[{"index":0,"message":{"role":"assistant","content":"model: \\"internal-x\\""},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3},"big":12345678901234567890}';
    upstream.answer((res) => {
      res.writeHead(200, { 'content-type': 'application/json' }).end(answer);
    });
    const got = await customer.ask('/chat/completions', { body });
    t.equal(got.status, 200);
    t.equal(
      String(upstream.received[0]?.body),
      body.replace('"model":"brand","x"', '"model":"internal-x","x"'),
    );
    t.equal(got.text, answer.replace('"model":"internal-x"', '"model":"brand"'));
  },
);

t.test(
  '1.2 keys are isolated per company: a key sees and spends nothing of another company',
  async (t) => {
    const [rich, poor] = [await world.newCustomer(), await world.newCustomer()];
    await world.part(rich, 'rich-only', 'internal-rich');
    const assistant = await world.assistant(rich.company, { model: CHAT });

    t.equal((await rich.chat({ model: 'rich-only' })).status, 200);
    t.equal((await poor.chat({ model: 'rich-only' })).status, 404);
    t.notMatch((await poor.ask('/models')).text, 'rich-only');
    t.equal((await rich.run(assistant)).status, 200);
    t.equal((await poor.run(assistant)).status, 404);
    t.equal((await world.ledger(rich.company, 2)).length, 2);
    t.equal((await world.ledger(poor.company, 0)).length, 0);
  },
);

t.test(
  '1.2 the model namespace is branded: the public slug maps to an internal identifier',
  async (t) => {
    await world.customer.chat();
    t.equal(world.upstream.received().at(-1)?.body.model, world.upstream.parts.chat);
    t.equal(
      (await world.customer.chat({ model: world.upstream.parts.chat })).status,
      404,
      'the identifier is no slug',
    );
  },
);

t.test('1.2 the EU gate refuses a model hosted elsewhere', async (t) => {
  t.equal((await world.customer.chat({ model: OVERSEAS })).status, 403);
});

t.test('1.2 a call is booked with the usage its answer tells', async (t) => {
  const customer = await world.newCustomer();
  const { usage } = (await customer.chat()).json;
  const [row] = await world.ledger(customer.company, 1);
  t.match(row, { prompt_tokens: usage.prompt_tokens, completion_tokens: usage.completion_tokens });
});

t.test('1.2 the monthly budget of a company is enforced', async (t) => {
  const customer = await world.newCustomer({ budget: '0.000001' });
  t.equal((await customer.chat()).status, 200);
  await world.ledger(customer.company, 1);
  t.equal((await customer.chat()).status, 402);
});

t.test(
  '1.3 the rules are those of the application: its settings apply as soon as it writes them',
  async (t) => {
    const customer = await world.newCustomer();
    const status = async (more: object) => (await customer.chat(more)).status;
    t.equal(await status({}), 200);
    t.equal(await status({ model: OVERSEAS }), 403);
    await world.sql`update companies set allow_non_eu_models = true where id = ${customer.company}`;
    await until(async () => (await status({ model: OVERSEAS })) === 200, 'the EU gate is open');
    await world.sql`update companies set disabled_model_slugs = ${[CHAT]} where id = ${customer.company}`;
    await until(async () => (await status({})) === 404, 'the model is disabled');
    await world.sql`update companies set disabled_model_slugs = '{}', monthly_budget_eur = 0.000001 where id = ${customer.company}`;
    await until(async () => (await status({})) === 402, 'the budget is reached');
  },
);

t.test('1.4 the base address ends in /v1 and every path is relative to it', async (t) => {
  t.match(world.url, /\/v1$/);
  const root = world.url.replace(/\/v1$/, '');
  t.equal((await world.customer.ask('/models')).status, 200);
  t.equal((await ask(`${root}/models`, { key: world.customer.key })).status, 404);
});

t.test(
  '1.5 internal identifiers and the master key are never exposed, in no answer of any endpoint',
  async (t) => {
    const { customer } = world;
    const leaky = await world.newCustomer();
    const assistant = await world.assistant(leaky.company, { model: 'leaky' });
    await world.part(leaky, 'leaky', 'internal-x!leaky-headers!fallback');
    await world.model('leaky-embed', {
      upstream: 'internal-x!leaky-headers',
      kind: 'embedding',
      company: leaky.company,
    });
    await world.part(leaky, 'noisy', 'internal-x!leaky-headers!noise');
    await world.part(leaky, 'failing', 'internal-x!leaky-headers!error-500');
    await world.part(leaky, 'refusing', 'internal-x!leaky-headers!error-400');
    await world.part(leaky, 'unknown', 'internal-x!no-such-fault');
    await world.part(leaky, 'breaking', 'internal-x!leaky-headers!error-event');
    await world.part(leaky, 'moving', 'internal-x!redirect');
    const answers = {
      models: await customer.ask('/models'),
      retrieve: await customer.ask(`/models/${CHAT}`),
      chat: await leaky.chat({ model: 'leaky' }),
      stream: await leaky.chat({ model: 'leaky', stream: true }),
      noise: await leaky.chat({ model: 'noisy', stream: true }),
      embed: await leaky.embed({ model: 'leaky-embed' }),
      run: await leaky.run(assistant),
      failing: await leaky.chat({ model: 'failing' }),
      refusing: await leaky.chat({ model: 'refusing' }),
      unknown: await leaky.chat({ model: 'unknown' }),
      breaking: await leaky.chat({ model: 'breaking', stream: true }),
      moving: await leaky.chat({ model: 'moving' }),
    };
    for (const [what, answer] of Object.entries(answers))
      t.notMatch(visible(answer), INTERNAL, what);
    t.match(answers.stream.text, '"model":"leaky"');
    t.notOk([...answers.chat.headers.keys()].includes('set-cookie'));
  },
);

t.test(
  '1.5 clients hold company keys and nothing else: the master key opens nothing and a company key goes nowhere',
  async (t) => {
    t.equal((await ask(`${world.url}/models`, { key: MASTER_KEY })).status, 401);
    await world.customer.embed();
    await world.customer.chat({ messages: [{ role: 'user', content: 'a-prompt-of-mine' }] });
    const { headers } = world.upstream.received().at(-1) as Received;
    t.equal(headers.authorization, `Bearer ${MASTER_KEY}`);
    t.notMatch(JSON.stringify(headers), world.customer.key);
    for (const secret of [MASTER_KEY, world.customer.key, 'a-prompt-of-mine']) {
      t.notMatch(world.logged.join(''), secret, 'it is not logged at any level');
    }
    t.ok(world.logged.length > 0);
  },
);
