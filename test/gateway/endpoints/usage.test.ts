import t from 'tap';
import { parseEur } from '../../../src/domain/pricing/money.ts';
import { TOKEN_DETAILS } from '../../../src/domain/usage.ts';
import { newRequestId } from '../../../src/runtime/request-id.ts';
import { type Answer, ask, open } from '../../support/client.ts';
import { startGateway } from '../../support/gateway.ts';
import { startProxy } from '../../support/proxy.ts';
import { until } from '../../support/until.ts';
import { CHAT, EMBED, startWorld, visible } from '../../support/world.ts';

const world = await startWorld(t);
const second = await startGateway(t, world.upstream.url, { DATABASE_URL: world.databaseUrl });
const MESSAGES = [{ role: 'user', content: 'Hello there' }];
const MONTH = new Date().toISOString().slice(0, 7);
const idOf = ({ headers }: Answer): string => headers.get('x-request-id') as string;
const costOf = ({ headers }: Answer): string | null => headers.get('x-cost-eur');

/** What the demo upstream tells of the tokens is in token-details.test.ts. */
const withoutDetails = (json: object) =>
  Object.fromEntries(
    Object.entries(json).filter(([name]) => !(TOKEN_DETAILS as readonly string[]).includes(name)),
  );

t.test(
  'every whole answer that was booked says what it cost, to the last digit of the ledger',
  async (t) => {
    const customer = await world.newCustomer();
    const assistant = await world.assistant(customer.company, { model: CHAT });
    await world.model('free', { upstream: world.upstream.parts.chat, input: '0', output: '0' });
    const body = { model: CHAT, max_tokens: 50, input: 'x', messages: MESSAGES };
    const large = { ...body, messages: [{ role: 'user', content: 'x'.repeat(70_000) }] };
    const answers = [
      await customer.chat(),
      await customer.chat(), // by the fast path of a repeated head
      await customer.chat({ model: 'free' }),
      await customer.embed(),
      await customer.run(assistant),
      await customer.ask('/responses', { body }),
      await customer.ask('/messages', { body }),
      await customer.ask('/chat/completions', { body: large }),
    ];
    const rows = await world.ledger(customer.company, answers.length);
    for (const answer of answers) {
      t.equal(answer.status, 200);
      t.equal(costOf(answer), rows.find((row) => row.request_id === idOf(answer))?.cost_eur);
    }
    t.equal(costOf(answers[2] as Answer), '0');
    t.ok(rows.some(({ cost_eur }) => cost_eur.length > 4));
    t.equal(rows.length, answers.length);
  },
);

t.test(
  'an answer that is a stream, an error or free of charge by nature has no cost',
  async (t) => {
    const customer = await world.newCustomer();
    const failing = await world.part(customer, 'failing', world.upstream.parts.failing);
    const answers = [
      await customer.chat({ stream: true }),
      await customer.chat({ model: 'none' }),
      await customer.chat({ model: failing }),
      await customer.ask('/messages/count_tokens', { body: { model: CHAT, messages: MESSAGES } }),
      await customer.ask('/models'),
      await customer.ask('/usage'),
    ];
    t.same(
      answers.map(({ status }) => status),
      [200, 404, 502, 200, 200, 200],
    );
    for (const answer of answers) t.equal(costOf(answer), null);
  },
);

t.test(
  'GET /usage: the month of the key, from the very call before, on every gateway',
  async (t) => {
    const customer = await world.newCustomer();
    const resets = new Date(`${MONTH}-01`);
    resets.setUTCMonth(resets.getUTCMonth() + 1);
    t.same((await customer.ask('/usage')).json, {
      object: 'usage',
      month: MONTH,
      resets_at: resets.toISOString().replace('.000', ''),
      key: {
        requests: 0,
        prompt_tokens: 0,
        completion_tokens: 0,
        cost_eur: '0',
        budget_eur: null,
        remaining_eur: null,
      },
      limits: { requests_per_minute: null, tokens_per_minute: null, max_concurrent: null },
    });
    let femto = 0n;
    let tokens = 0;
    for (let n = 1; n <= 5; n++) {
      const answer = await (n % 2 ? customer.chat() : customer.embed());
      femto += parseEur(costOf(answer) as string);
      tokens += answer.json.usage.prompt_tokens;
      const { key } = (await customer.ask('/usage')).json;
      t.same([key.requests, key.prompt_tokens, parseEur(key.cost_eur)], [n, tokens, femto]);
    }
    await customer.chat({ stream: true });
    await until(
      async () => (await ask(`${second.url}/usage`, { key: customer.key })).json.key.requests === 6,
      'the other gateway shows all of them',
    );
    const colleague = await world.key(customer.company, []);
    const { status, json } = await ask(`${world.url}/usage/`, { key: colleague });
    t.equal(status, 200, 'a key without any scope');
    t.equal(json.key.requests, 0, 'which has used nothing itself');
  },
);

t.test(
  'GET /usage: the budget of the key and what it leaves, and the tighter limits',
  async (t) => {
    const customer = await world.newCustomer({ budget: '100' });
    await world.sql`update companies set requests_per_minute = 1000, max_concurrent = 5 where id = ${customer.company}`;
    await world.sql`
    update api_keys set monthly_budget_eur = 2.5, requests_per_minute = 100, max_concurrent = 9, tokens_per_minute = 5000
    where company_id = ${customer.company}`;
    const answer = await customer.chat();
    const { json, text } = await customer.ask('/usage');
    t.equal(json.key.budget_eur, '2.5');
    t.equal(parseEur(json.key.remaining_eur), parseEur('2.5') - parseEur(costOf(answer) as string));
    t.same(json.limits, {
      requests_per_minute: { limit: 100, remaining: 99 },
      tokens_per_minute: { limit: 5000, remaining: 5000 - answer.json.usage.total_tokens },
      max_concurrent: { limit: 5, remaining: 5 },
    });
    t.notMatch(text, 'company');
    await world.sql`update api_keys set monthly_budget_eur = 0.000001 where company_id = ${customer.company}`;
    const { key } = await until(
      async () => (await customer.ask('/usage')).json,
      'the gateway hears of the lower budget',
      (usage) => usage.key.budget_eur !== '2.5',
    );
    t.match(key, { budget_eur: '0.000001', remaining_eur: '0' }, 'never below nothing');
  },
);

t.test(
  'GET /usage/{x-request-id}: one call, right after it, whole or streamed, on any gateway',
  async (t) => {
    const customer = await world.newCustomer();
    const answers = [
      await customer.chat(),
      await customer.chat({ stream: true }),
      await customer.embed(),
    ];
    const shown = await Promise.all(
      answers.map((answer, n) =>
        ask(`${n === 0 ? second.url : world.url}/usage/${idOf(answer)}`, { key: customer.key }),
      ),
    );
    const rows = await world.ledger(customer.company, 3);
    for (const [n, { status, json }] of shown.entries()) {
      const row = rows.find(({ request_id }) => request_id === idOf(answers[n] as Answer));
      t.equal(status, 200);
      t.same(withoutDetails(json), {
        object: 'usage.request',
        id: row?.request_id,
        created_at: row?.occurred_at.toISOString().replace('.000', ''),
        endpoint: row?.endpoint,
        model: row?.model_slug,
        prompt_tokens: row?.prompt_tokens,
        completion_tokens: row?.completion_tokens,
        cost_eur: row?.cost_eur,
        usage_source: row?.usage_source,
        outcome: row?.outcome,
      });
    }
    t.match(shown[2]?.json, { endpoint: 'embeddings', model: EMBED, outcome: 'completed' });
    const upper = idOf(answers[0] as Answer).toUpperCase();
    t.equal((await customer.ask(`/usage/${upper}`)).json.id, upper.toLowerCase());
  },
);

t.test(
  'GET /usage/{x-request-id}: a stream that its client left is there with its outcome',
  async (t) => {
    const customer = await world.newCustomer();
    const long = await world.part(customer, 'long', world.upstream.parts.long);
    const leaving = new AbortController();
    const body = { model: long, messages: MESSAGES, stream: true };
    const left = await open(`${world.url}/chat/completions`, {
      key: customer.key,
      body,
      signal: leaving.signal,
    });
    await left.body?.getReader().read();
    leaving.abort();
    await world.ledger(customer.company, 1);
    const { json } = await customer.ask(`/usage/${left.headers.get('x-request-id')}`);
    t.match(json, { model: 'long', outcome: 'client_aborted' });
  },
);

t.test(
  'the request of another key, one that used nothing and one that is none get the same 404',
  async (t) => {
    const [customer, stranger] = [await world.newCustomer(), await world.newCustomer()];
    const own = idOf(await customer.chat());
    const failing = await world.part(customer, 'failing', world.upstream.parts.failing);
    const failed = idOf(await customer.chat({ model: failing }));
    const colleague = await world.key(customer.company);
    t.equal((await customer.ask(`/usage/${own}`)).status, 200);
    const answers = await Promise.all([
      stranger.ask(`/usage/${own}`),
      ask(`${world.url}/usage/${own}`, { key: colleague }),
      customer.ask(`/usage/${failed}`),
      customer.ask(`/usage/${newRequestId()}`),
      customer.ask(`/usage/${newRequestId(0)}`),
      customer.ask(`/usage/${newRequestId(2 ** 48 - 1)}`),
      customer.ask(`/usage/${own.replace('-7', '-4')}`),
      customer.ask(`/usage/${own}0`),
      customer.ask('/usage/x%00'),
      customer.ask("/usage/'%20or%201=1"),
    ]);
    const shapes = answers.map((answer) =>
      visible(answer).replaceAll(/^(x-request-id|date): .*$/gm, '$1'),
    );
    t.equal(new Set(shapes).size, 1);
    t.match(answers[0], {
      status: 404,
      json: { error: { type: 'not_found_error', code: null, param: null } },
    });
  },
);

t.test(
  'both routes: no other method, no scope, a key, a log line that names neither',
  async (t) => {
    const { customer } = world;
    for (const path of ['/usage', '/usage/x']) {
      t.equal((await customer.ask(path, { method: 'HEAD' })).status, 405);
      t.equal((await customer.ask(path, { body: {} })).status, 405);
      t.match(await ask(world.url + path), {
        status: 401,
        json: { error: { code: 'invalid_api_key' } },
      });
      t.equal((await ask(world.url + path, { key: 'svc_wrong' })).status, 401);
    }
    t.equal((await customer.ask('/usage?x=/models')).status, 200);
    t.equal((await customer.ask('/usage/x/y')).status, 404);
    const id = idOf(await customer.ask('/usage/my-secret'));
    const line = await until(
      () => world.logged.find((logged) => logged.includes(id)),
      'the log line',
    );
    t.match(JSON.parse(line as string), {
      endpoint: 'usage',
      status: 404,
      company: customer.company,
    });
    t.notMatch(line, 'my-secret');
    const metrics = await (await fetch(`${world.adminUrl}/metrics`)).text();
    t.match(metrics, /endpoint="usage",status="404"/);
  },
);

t.test('with the database away both are 503, and calls go on', async (t) => {
  const passage = await startProxy(t, world.databaseUrl);
  const customer = await world.newCustomer(); // before the gateway, which would hear of its key late, and want to read it again
  const gateway = await startGateway(t, world.upstream.url, { DATABASE_URL: passage.url });
  const there = (path: string, body?: object) =>
    ask(gateway.url + path, { key: customer.key, body });
  const id = idOf(await there('/chat/completions', { model: CHAT, messages: MESSAGES }));
  t.equal((await there('/usage')).status, 200);
  await passage.cut();
  const away = {
    status: 503,
    json: { error: { type: 'overloaded_error', code: 'service_unavailable' } },
  };
  t.match(await there(`/usage/${id}`), away);
  const answer = await until(
    () => there('/usage'),
    'the kept answer is over',
    ({ status }) => status !== 200,
  );
  t.match(answer, away);
  t.equal(answer.headers.get('retry-after'), '1');
  t.equal((await there('/chat/completions', { model: CHAT, messages: MESSAGES })).status, 200);
  await passage.restore();
  const { json } = await until(
    () => there('/usage'),
    'the database is back',
    ({ status }) => status === 200,
  );
  t.equal(json.key.requests, 2);
  t.equal((await there(`/usage/${id}`)).status, 200);
});
