import t from 'tap';
import { ask, open } from '../../support/client.ts';
import { startGateway } from '../../support/gateway.ts';
import { until } from '../../support/until.ts';
import { scriptedUpstream } from '../../support/upstream.ts';
import { customerWith } from '../../support/world.ts';

/** What reranking shares with other endpoints, and what could be read in two ways; test/spec/rerank.test.ts has its rules. */

const upstream = await scriptedUpstream(t);
const gateway = await startGateway(t, upstream.url, {
  MAX_ANSWER_BYTES: '20000',
  COST_CENTER_MEMBER: 'cost_center',
});
await gateway.model('brand-rank', {
  upstream: 'internal-rank',
  kind: 'rerank',
  input: '1',
  output: '5',
});
const query = 'Which way to the station?';
const documents = ['Left, then right.', 'It rains.'];
const results = [{ index: 0, relevance_score: 0.9 }];

async function newCustomer(settings: Parameters<typeof gateway.company>[0] = {}) {
  const company = await gateway.company(settings);
  const key = await gateway.key(company, ['rerank']);
  const customer = customerWith(gateway.url, company, key);
  const rerank = (more: object = {}) =>
    customer.ask('/rerank', { body: { model: 'brand-rank', query, documents, ...more } });
  return { ...customer, rerank, row: async () => (await gateway.ledger(company, 1)).at(-1) };
}

t.test(
  'of several usages the first of the order counts, and none that a document repeats',
  async (t) => {
    const meta = {
      tokens: { input_tokens: 30, output_tokens: 9 },
      billed_units: { total_tokens: 40, search_units: 1 },
    };
    const told = { usage: { total_tokens: 20, prompt_tokens: 10 }, meta };
    const repeated = [
      {
        ...results[0],
        document: { text: 'x', usage: { total_tokens: 1 }, meta: { tokens: { input_tokens: 1 } } },
      },
    ];
    for (const [body, tokens] of [
      [{ results, ...told }, 20],
      [{ ...told, results }, 20],
      [{ meta, results, usage: { prompt_tokens: 10, total_tokens: 20 } }, 20],
      [{ results, usage: { prompt_tokens: 0, total_tokens: 20 }, meta }, 20],
      [{ results, usage: { prompt_tokens: null, total_tokens: '7' }, meta }, 30],
      [{ results, usage: {}, meta }, 30],
      [{ results, usage: null, meta }, 30],
      [{ meta, results, usage: { prompt_tokens: 0, total_tokens: 0 } }, 30],
      [{ results, meta: { ...meta, tokens: { input_tokens: 0 } } }, 40],
      [{ results, meta: { ...meta, tokens: null } }, 40],
      [{ results, usage: { prompt_tokens: 6, total_tokens: 69 } }, 69],
      [{ results, meta: { billed_units: { input_tokens: 69 } } }, 69],
      [{ results: repeated, ...told }, 20],
      [{ ...told, results: repeated }, 20],
      [{ usage: { total_tokens: 20 }, data: repeated }, 20],
      [{ results: repeated }, null],
      [{ results: repeated, meta: { billed_units: { search_units: 1 } } }, null],
      [{ results, meta: 'x', usage: [7] }, null],
      [{ results, meta: [{ tokens: { input_tokens: 7 } }] }, null],
      [
        { results, meta: { tokens: { input_tokens: -1 }, billed_units: { total_tokens: 1.5 } } },
        null,
      ],
      [{ results, usage: { total_tokens: 900_000 } }, null],
      [{ results, meta: { tokens: { input_tokens: 1e15 } } }, null],
    ] as const) {
      const customer = await newCustomer();
      upstream.answerJson(body);
      const answer = await customer.rerank();
      const text = JSON.stringify(body);
      t.equal(answer.status, 200, text);
      t.equal(answer.text, text, 'every byte of it');
      const row = await customer.row();
      t.equal(row?.usage_source, tokens === null ? 'estimated' : 'upstream', text);
      if (tokens !== null) t.equal(row?.prompt_tokens, tokens, text);
      else
        t.ok(
          Number(row?.prompt_tokens) > 15 && Number(row?.prompt_tokens) < 40,
          `${row?.prompt_tokens} for ${text}`,
        );
      t.match(row, { completion_tokens: 0, cost_eur: `${Number(row?.prompt_tokens) / 1000}` });
    }
  },
);

t.test('what the caller wrote in a document stays, beside it nothing that tells', async (t) => {
  const customer = await newCustomer();
  const document = {
    text: 'internal-rank is a model',
    provider: 'ours',
    cost: 5,
    body: 'of internal-rank',
  };
  for (const each of [document, 'a text about internal-rank', { text: 'x' }, null]) {
    upstream.answerJson({
      results: [{ index: 0, document: each, provider: 'internal', model: 'internal-rank' }],
      cost: 7,
      document: { by: 'internal-rank' },
      of: [[{ document: 'of internal-rank' }], { document: { by: 'internal-rank', cost: 5 } }],
    });
    const { json } = await customer.rerank({ documents: [document] });
    t.same(json, {
      results: [{ index: 0, document: each, model: 'brand-rank' }],
      document: { by: 'brand-rank' },
      of: [[{ document: 'of brand-rank' }], { document: { by: 'brand-rank' } }],
    });
  }
});

t.test(
  'an answer that is too large is booked by an estimate, whatever its documents say',
  async (t) => {
    for (const more of [{}, { usage: { total_tokens: 1 } }]) {
      const customer = await newCustomer();
      const document = {
        text: 'x'.repeat(100),
        usage: { total_tokens: 1 },
        meta: { tokens: { input_tokens: 1 } },
      };
      upstream.answerJson({
        ...more,
        results: Array.from({ length: 200 }, (_, index) => ({ index, document })),
      });
      t.match(await customer.rerank({ documents: Array(200).fill(document) }), { status: 502 });
      const row = await customer.row();
      t.match(row, { usage_source: 'estimated', outcome: 'upstream_failed' });
      t.ok(Number(row?.prompt_tokens) > 2000, `${row?.prompt_tokens} tokens`);
    }
  },
);

t.test('gates come in their order', async (t) => {
  const company = await gateway.company({ budget: '0.001', disabled: ['off'] });
  const key = await gateway.key(company, ['rerank']);
  const narrow = await gateway.key(company, ['chat']);
  await gateway.model('off', { upstream: 'internal-off', kind: 'rerank', company });
  await gateway.model('abroad', { upstream: 'internal-off', kind: 'rerank', company, eu: false });
  const good = { model: 'brand-rank', query, documents };
  const post = async (body: unknown, asked: object = {}) => {
    const { status, json } = await ask(`${gateway.url}/rerank`, { key, body, ...asked });
    return [status, json.error?.code ?? null];
  };
  const headers = { 'content-type': 'text/plain' };
  const sent = upstream.received.length;
  t.same(await post('{', { key: 'svc_wrong', headers }), [401, 'invalid_api_key']);
  t.same(await post('{', { key: narrow, headers }), [403, 'insufficient_scope']);
  t.same(await post('{', { headers }), [415, 'unsupported_media_type']);
  t.same(await post('{'), [400, 'invalid_json']);
  t.same(await post({ model: 'none', query }), [400, 'missing_required_parameter']);
  t.same(await post({ ...good, model: 'none', api_base: 'x' }), [400, 'unsupported_parameter']);
  t.same(await post({ ...good, model: 'none' }), [404, null]);
  t.same(await post({ ...good, model: 'off' }), [404, null]);
  t.same(await post({ ...good, model: 'abroad' }), [403, 'non_eu_model_blocked']);
  t.equal(upstream.received.length, sent, 'nothing went upstream');
  upstream.answerJson({ results, usage: { total_tokens: 5 } });
  t.same(await post(good), [200, null]);
  await until(async () => (await post(good))[0] === 402, 'the budget is used up');
  t.same(
    await post({ ...good, model: 'abroad' }),
    [403, 'non_eu_model_blocked'],
    'before the budget',
  );
});

t.test('a limit of tokens counts the query with each document', async (t) => {
  const { company, rerank } = await newCustomer();
  upstream.answerJson({ results, usage: { total_tokens: 1 } });
  await gateway.sql`update companies set tokens_per_minute = 5000 where id = ${company}`;
  const long = 'way '.repeat(100);
  await until(
    async () => (await rerank({ query: long, documents: Array(60).fill('a') })).status === 429,
    'the limit holds',
  );
  const { headers } = await rerank({ query: long, documents: Array(60).fill('a') });
  t.equal(headers.get('x-should-retry'), 'false', 'it can never pass');
  t.equal((await rerank({ query: long, documents: ['a', 'b'] })).status, 200);
});

t.test('the call of a client that leaves is read on and booked', async (t) => {
  const { company, key, row } = await newCustomer();
  const [asked, left] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  upstream.answer(async (res) => {
    asked.resolve();
    await left.promise;
    res
      .writeHead(200, { 'content-type': 'application/json' })
      .end(JSON.stringify({ results, usage: { total_tokens: 77 } }));
  });
  const leaving = new AbortController();
  const body = { model: 'brand-rank', query, documents };
  const call = open(`${gateway.url}/rerank`, { key, body, signal: leaving.signal }).catch(() => {});
  await asked.promise;
  leaving.abort();
  await call;
  await until(
    () => gateway.logged.some((line) => line.includes(company)),
    'the log line of the call',
  );
  left.resolve();
  t.match(await row(), {
    outcome: 'client_aborted',
    prompt_tokens: 77,
    usage_source: 'upstream',
    company_id: company,
  });
});

t.test('a cost centre is taken out of the body, which has no metadata otherwise', async (t) => {
  const { company, rerank } = await newCustomer();
  upstream.answerJson({ results, usage: { total_tokens: 5 } });
  t.equal((await rerank({ metadata: { cost_center: 'Sales' } })).status, 200);
  t.same(JSON.parse(String(upstream.received.at(-1)?.body)), {
    model: 'internal-rank',
    query,
    documents,
  });
  const centers = () =>
    gateway.sql`select cost_center from api_usage where company_id = ${company}`;
  t.same(await until(centers, 'a row', ({ length }) => length > 0), [{ cost_center: 'Sales' }]);
});

t.test('metrics, the log and GET /usage name the endpoint, and never what was asked', async (t) => {
  const { company, ask: send, rerank, row } = await newCustomer();
  upstream.answerJson({ results, usage: { total_tokens: 5 } });
  const { headers } = await rerank();
  await row(); // GET /usage waits a second for it, which a busy machine may take longer
  const { json } = await send(`/usage/${headers.get('x-request-id')}`);
  t.match(json, {
    endpoint: 'rerank',
    model: 'brand-rank',
    prompt_tokens: 5,
    completion_tokens: 0,
    cost_eur: '0.005',
  });
  t.match(
    (await ask(`${gateway.adminUrl}/metrics`)).text,
    'tollgate_requests_total{endpoint="rerank",status="200"}',
  );
  const line = gateway.logged.find((each) => each.includes(company)) as string;
  t.match(JSON.parse(line), {
    endpoint: 'rerank',
    status: 200,
    slug: 'brand-rank',
    prompt_tokens: 5,
  });
  t.notOk(gateway.logged.join('').includes('station'));
});
