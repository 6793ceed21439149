import t from 'tap';
import { startGateway } from '../../support/gateway.ts';
import { scriptedUpstream } from '../../support/upstream.ts';
import { customerWith } from '../../support/world.ts';

const upstream = await scriptedUpstream(t);
const gateway = await startGateway(t, upstream.url);
const company = await gateway.company();
for (const [slug, upstream] of Object.entries({
  'text-alone': 'a',
  'tokens-too': 'b',
  'tokens-uncounted': 'c',
})) {
  await gateway.model(slug, {
    upstream: `internal-embed-${upstream}`,
    kind: 'embedding',
    input: '1',
    output: '0',
    company,
  });
}
await gateway.sql`update models set token_input = 'accept' where slug <> 'text-alone'`;
const customer = customerWith(gateway.url, company, await gateway.key(company));

const data = [{ object: 'embedding', index: 0, embedding: [0.5, 0.25] }];
const answerWith = (more: object) =>
  upstream.answer((res) => {
    res.writeHead(200, { 'content-type': 'application/json' });
    res.end(JSON.stringify({ object: 'list', data, model: 'internal-embed-b', ...more }));
  });

const ids = (count: number, first = 100_000) => Array.from({ length: count }, (_, n) => first + n);

t.test(
  'a model refuses token ids unless its operator said otherwise, and says which setting sends text',
  async (t) => {
    for (const input of [[1], ids(3000), [[1, 2], [3]]]) {
      const { status, json } = await customer.embed({ model: 'text-alone', input });
      t.equal(status, 400);
      t.match(json.error, { type: 'invalid_request_error', code: 'invalid_type', param: 'input' });
      t.match(json.error.message, /check_embedding_ctx_length=False/);
    }
    t.equal(upstream.received.length, 0);
    answerWith({ usage: { prompt_tokens: 2, total_tokens: 2 } });
    t.equal((await customer.embed({ model: 'text-alone', input: ['text'] })).status, 200);
  },
);

t.test('a hidden model with token ids is refused as any other', async (t) => {
  t.equal((await customer.embed({ model: 'nowhere', input: [1] })).status, 404);
});

t.test(
  'a model that accepts them gets token ids byte for byte, and the call is booked',
  async (t) => {
    const many = Array.from({ length: 32 }, () => ids(512)); // 115 KB
    for (const input of [ids(3), [ids(2), ids(1)], ids(12_000), many]) {
      const prompt_tokens = input.flat().length;
      answerWith({ usage: { prompt_tokens, total_tokens: prompt_tokens } });
      const answer = await customer.embed({ model: 'tokens-too', input, encoding_format: 'float' });
      t.equal(answer.status, 200, answer.text);
      t.match(answer.json, { data, model: 'tokens-too' });
      const sent = upstream.received.at(-1)?.body.toString();
      t.equal(sent, JSON.stringify({ model: 'internal-embed-b', input, encoding_format: 'float' }));
    }
    const rows = await gateway.ledger(company, 5);
    t.match(rows.at(-1), {
      endpoint: 'embeddings',
      prompt_tokens: 16_384,
      usage_source: 'upstream',
      cost_eur: '16.384',
    });
  },
);

t.test('without the usage of the upstream each id is one token', async (t) => {
  answerWith({});
  const before = (await gateway.ledger(company, 5)).length;
  t.equal(
    (await customer.embed({ model: 'tokens-uncounted', input: [ids(40), ids(2)] })).status,
    200,
  );
  t.match((await gateway.ledger(company, before + 1)).at(-1), {
    prompt_tokens: 42,
    usage_source: 'estimated',
  });
});
