import t from 'tap';
import { ask } from '../support/client.ts';
import { startGateway } from '../support/gateway.ts';
import { type Scripted, scriptedUpstream } from '../support/upstream.ts';
import { customerWith, INTERNAL, visible } from '../support/world.ts';

/** Contract section 5, "Reranking": its rules, by their numbers. */

const SCOPES = ['rerank'];
const query = 'What is the capital of Germany?';
const documents = ['Berlin is the capital.', 'Rice is a plant.', 'Bonn was the capital.'];
const results = [
  { index: 0, relevance_score: 0.98 },
  { index: 2, relevance_score: 0.71 },
  { index: 1, relevance_score: 0.01 },
];
const usage = { prompt_tokens: 60, total_tokens: 60 };

/** Answers as four families of servers write them, and the tokens in each. */
const DIALECTS: Readonly<Record<string, { body: object; tokens: number | null }>> = {
  'Cohere, version 2': {
    body: {
      id: 'a1',
      results,
      meta: { api_version: { version: '2' }, billed_units: { search_units: 1 } },
    },
    tokens: null,
  },
  'Cohere, with tokens': {
    body: {
      id: 'a1',
      results,
      meta: { billed_units: { search_units: 1 }, tokens: { input_tokens: 61, output_tokens: 0 } },
    },
    tokens: 61,
  },
  LiteLLM: {
    body: {
      id: 'a1',
      results,
      meta: { billed_units: { total_tokens: 62 }, tokens: { input_tokens: 63, output_tokens: 0 } },
    },
    tokens: 63,
  },
  'LiteLLM, billed alone': {
    body: { id: 'a1', results, meta: { billed_units: { total_tokens: 62 } } },
    tokens: 62,
  },
  vLLM: {
    body: { id: 'a1', model: 'internal-rank', usage: { total_tokens: 64 }, results },
    tokens: 64,
  },
  'vLLM, newer': {
    body: {
      id: 'a1',
      model: 'internal-rank',
      usage: { total_tokens: 65, prompt_tokens: 64 },
      results,
    },
    tokens: 65,
  },
  Jina: { body: { model: 'internal-rank', usage: { total_tokens: 66 }, results }, tokens: 66 },
  Infinity: {
    body: {
      object: 'rerank',
      model: 'internal-rank',
      usage: { total_tokens: 67, prompt_tokens: 67 },
      data: results,
    },
    tokens: 67,
  },
  'llama.cpp': {
    body: {
      model: 'internal-rank',
      object: 'list',
      usage: { prompt_tokens: 68, total_tokens: 68 },
      results,
    },
    tokens: 68,
  },
};

const upstream = await scriptedUpstream(t);
const gateway = await startGateway(t, upstream.url);
await gateway.model('brand-rank', {
  upstream: 'internal-rank',
  kind: 'rerank',
  input: '0.1',
  output: '0',
});
await gateway.model('brand-far', { upstream: 'internal-rank', kind: 'rerank', eu: false });
await gateway.model('brand-chat', { upstream: 'internal-chat' });
await gateway.model('brand-embed', { upstream: 'internal-embed', kind: 'embedding' });
upstream.answerJson({ id: 'a1', model: 'internal-rank', results, usage });
const newCustomer = async (settings = {}, scopes = SCOPES) => {
  const company = await gateway.company(settings);
  const { ask: send } = customerWith(gateway.url, company, await gateway.key(company, scopes));
  const rerank = (more: object = {}) =>
    send('/rerank', { body: { model: 'brand-rank', query, documents, ...more } });
  return { company, send, rerank, rows: (count: number) => gateway.ledger(company, count) };
};
const sent = () => JSON.parse(String((upstream as Scripted).received.at(-1)?.body));
const customer = await newCustomer();

t.test('reranking 1: it has three addresses and one method', async (t) => {
  const { origin } = new URL(gateway.url);
  const key = await gateway.key(customer.company, SCOPES);
  for (const url of [
    `${gateway.url}/rerank`,
    `${origin}/v1/rerank`,
    `${origin}/v2/rerank`,
    `${origin}/v2/rerank?a=b`,
  ]) {
    const answer = await ask(url, { key, body: { model: 'brand-rank', query, documents } });
    t.equal(answer.status, 200, url);
    t.same(answer.json.results, results);
    t.equal((await ask(url, { key })).status, 405, `GET ${url}`);
    t.equal((await ask(url, { body: {} })).status, 401, 'without a key');
  }
  for (const path of ['/v3/rerank', '/rerank', '/v2/rerank/', '/v2/chat/completions'])
    t.equal((await ask(origin + path, { key, body: {} })).status, 404, path);
});

t.test('reranking 2: the scope is rerank, which other scopes do not have', async (t) => {
  const other = await newCustomer({}, ['chat', 'embeddings', 'assistants']);
  t.match(await other.rerank(), { status: 403, json: { error: { code: 'insufficient_scope' } } });
  t.equal(
    (await customer.send('/embeddings', { body: { model: 'brand-embed', input: 'x' } })).status,
    403,
  );
  t.equal((await other.rerank({ query: 7 })).status, 403, 'before the body');
});

t.test('reranking 3: the model is one of kind rerank', async (t) => {
  for (const model of ['brand-chat', 'brand-embed', 'unknown'])
    t.equal((await customer.rerank({ model })).status, 404, model);
  t.match(
    (await customer.rerank({ model: 'brand-chat' })).json.error.message,
    /is a chat model: call it at \/chat\/completions/,
  );
  const everywhere = await newCustomer({}, ['chat', 'embeddings', 'rerank']);
  const wrong = await everywhere.send('/embeddings', { body: { model: 'brand-rank', input: 'x' } });
  t.match(wrong, {
    status: 404,
    json: { error: { message: /ranks documents: call it at \/rerank/ } },
  });
  t.match(await customer.rerank({ model: 'brand-far' }), {
    status: 403,
    json: { error: { code: 'non_eu_model_blocked' } },
  });
  const { json } = await customer.send('/models');
  t.ok(
    json.data.some(({ id }: { id: string }) => id === 'brand-rank'),
    'GET /models has it',
  );
});

t.test(
  'reranking 4: query is a string, documents are 1 to 10,000 strings or objects',
  async (t) => {
    for (const [more, param] of [
      [{ query: undefined }, 'query'],
      [{ query: ['a'] }, 'query'],
      [{ query: null }, 'query'],
      [{ documents: undefined }, 'documents'],
      [{ documents: 'a' }, 'documents'],
      [{ documents: [] }, 'documents'],
      [{ documents: ['a', 7] }, 'documents[1]'],
      [{ documents: ['a', null] }, 'documents[1]'],
      [{ documents: [['a']] }, 'documents[0]'],
      [{ documents: Array(10_001).fill('a') }, 'documents'],
      [
        {
          documents: [
            { content: [{ type: 'image_url', image_url: { url: 'https://example.com/a.png' } }] },
          ],
        },
        'documents[0].content',
      ],
      [{ top_n: 0 }, 'top_n'],
      [{ top_n: 1.5 }, 'top_n'],
      [{ top_n: '2' }, 'top_n'],
      [{ texts: ['a'] }, 'texts'],
      [{ texts: null }, 'texts'],
      [{ model: 7 }, 'model'],
    ] as const) {
      const { status, json } = await customer.rerank(more);
      t.match(
        { status, param: json.error.param },
        { status: 400, param },
        JSON.stringify(more).slice(0, 99),
      );
    }
    for (const more of [
      { documents: ['a', { text: 'b' }, { title: 'c', body: 'd' }, {}] },
      { documents: Array(10_000).fill('a') },
      { top_n: 100 },
      { top_n: null },
    ])
      t.equal((await customer.rerank(more)).status, 200, JSON.stringify(more).slice(0, 99));
  },
);

t.test(
  'reranking 4: a top_n above the number of documents is told as that number, all other bytes stay',
  async (t) => {
    const asked = (top: string) =>
      `{"query":"a" , "top_n" : ${top},"x":1.50,"documents":["b","c"], "model":"brand-rank"}`;
    for (const [top, told] of [
      ['3', '2'],
      ['1e4', '2'],
      ['3.0', '2'],
      ['2', '2'],
      ['2.0', '2.0'],
      ['1', '1'],
      ['null', 'null'],
    ] as const) {
      const { status } = await customer.send('/rerank', { body: asked(top) });
      t.equal(status, 200);
      const body = String((upstream as Scripted).received.at(-1)?.body);
      t.equal(body, asked(told).replace('brand-rank', 'internal-rank'), top);
    }
    const large = [...documents, 'x'.repeat(300_000)];
    t.equal((await customer.rerank({ top_n: 5, documents: large })).status, 200);
    t.same(sent(), { model: 'internal-rank', query, documents: large, top_n: 4 }, 'in pieces too');
    const twice = `{"model":"brand-rank","query":"a","documents":["b"],"top_n":1,"top_n":9}`;
    t.match(
      (await customer.send('/rerank', { body: twice })).json.error,
      { param: 'top_n' },
      'an engine could read the other one',
    );
  },
);

t.test('reranking 5: other members go on as they are, those that steer are refused', async (t) => {
  const more = {
    top_n: 2,
    return_documents: true,
    rank_fields: ['text'],
    max_tokens_per_doc: 99,
    truncate_prompt_tokens: 5,
  };
  t.equal((await customer.rerank(more)).status, 200);
  t.same(sent(), { model: 'internal-rank', query, documents, ...more });
  for (const name of [
    'fallbacks',
    'api_base',
    'priority',
    'return_tokens_as_token_ids',
    'mm_processor_kwargs',
    'models',
  ])
    t.match((await customer.rerank({ [name]: 'x' })).json.error, {
      code: 'unsupported_parameter',
      param: name,
    });
  const twice = `{"model":"brand-rank","query":"a","documents":["b"],"Documents":["b","c"]}`;
  t.match((await customer.send('/rerank', { body: twice })).json.error, { param: 'documents' });
});

for (const [name, { body, tokens }] of Object.entries(DIALECTS)) {
  t.test(`reranking 6 and 7: an answer of ${name}`, async (t) => {
    const own = await newCustomer();
    upstream.answerJson(body);
    const answer = await own.rerank();
    t.equal(answer.status, 200);
    const slug = 'model' in body ? { model: 'brand-rank' } : {};
    t.equal(
      answer.text,
      JSON.stringify({ ...body, ...slug }),
      'the slug where a model is named, and nothing is added',
    );
    t.notMatch(visible(answer), INTERNAL);
    const [row] = await own.rows(1);
    t.match(row, {
      endpoint: 'rerank',
      model_slug: 'brand-rank',
      completion_tokens: 0,
      outcome: 'completed',
    });
    t.equal(row?.usage_source, tokens === null ? 'estimated' : 'upstream');
    if (tokens !== null) t.equal(row?.prompt_tokens, tokens);
    else
      t.ok(
        (row?.prompt_tokens ?? 0) >= 3 * 6 + 10 && (row?.prompt_tokens ?? 0) < 60,
        `${row?.prompt_tokens} tokens: the query three times`,
      );
    t.equal(answer.headers.get('x-cost-eur'), row?.cost_eur);
  });
}

t.test(
  'reranking 8: an estimate counts the query with each document, however long the body is',
  async (t) => {
    upstream.answerJson({ id: 'a1', results });
    for (const count of [10, 400, 4000]) {
      const own = await newCustomer();
      const words = 'Where does the river Rhine have its source, and where does it meet the sea?';
      const each = `The river Rhine has its source in the Alps.`;
      await own.rerank({ query: words, documents: Array(count).fill(each) });
      const [row] = await own.rows(1);
      const tokens = (row?.prompt_tokens ?? 0) / count;
      t.ok(tokens > 20 && tokens < 40, `${tokens} tokens for each of ${count} documents`);
      t.equal(row?.usage_source, 'estimated');
    }
  },
);

t.test('reranking 9: an answer without results, and an error in a 200, cost nothing', async (t) => {
  const own = await newCustomer();
  for (const [body, status] of [
    [{ id: 'a1', usage }, 502],
    [{ id: 'a1', results: 7, usage }, 502],
    [[{ index: 0, score: 1 }], 502],
    [{ error: { message: 'internal-rank is overloaded', code: 503 } }, 503],
    [{ results, error: 'worker died' }, 502],
  ] as const) {
    upstream.answerJson(body);
    const answer = await own.rerank();
    t.equal(answer.status, status, JSON.stringify(body));
    t.notMatch(visible(answer), INTERNAL);
    t.equal(answer.json.message, answer.json.error.message);
  }
  t.match((await customer.rerank({ model: 'none' })).json, {
    error: { param: 'model' },
    message: /does not exist/,
  });
  upstream.answerJson({ data: results, results: null, usage });
  t.equal((await own.rerank()).status, 200, 'results may be named data');
  t.equal((await own.rows(1)).length, 1);
});

t.test('reranking 10: a strict budget holds what documents and query can cost', async (t) => {
  upstream.answerJson({ id: 'a1', results, usage: { prompt_tokens: 100_000 } });
  const own = await newCustomer({ budget: '1' }); // 10,000 tokens
  await gateway.sql`update companies set budget_mode = 'strict' where id = ${own.company}`;
  const strict = await newStrict(own.company);
  const long = 'x'.repeat(500);
  t.equal(
    (await strict({ query: long, documents: Array(50).fill('a') })).status,
    402,
    'the query fifty times',
  );
  t.equal((await strict({ query: long, documents: ['a', 'b'] })).status, 200, 'and twice');
  const [row] = await own.rows(1);
  t.ok(Number(row?.cost_eur) < 1 && row?.usage_source === 'estimated', 'no more than was reserved');
  async function newStrict(company: string) {
    const key = await gateway.key(company, SCOPES);
    return (more: object) =>
      ask(`${gateway.url}/rerank`, { key, body: { model: 'brand-rank', ...more } });
  }
});
