import t from 'tap';
import { chunksOf, dataOf } from '../support/client.ts';
import { until } from '../support/until.ts';
import { CHAT, EMBED, OVERSEAS, startWorld } from '../support/world.ts';

/** Contract 5, "Text completions". */
const world = await startWorld(t);
const { customer } = world;
const complete = (more: object = {}, who = customer) =>
  who.ask('/completions', { body: { model: CHAT, prompt: 'Once', ...more } });
const sent = () => world.upstream.received().at(-1)?.body;

t.test('text completions: the gates of chat completions, in their order', async (t) => {
  const poor = await world.newCustomer({ budget: '0.000001' });
  t.equal((await complete({}, poor)).status, 200);
  await until(async () => (await complete({}, poor)).status === 402, 'the budget is reached');
  for (const [status, answer] of [
    [401, await customer.ask('/completions', { key: 'svc_x', body: {} })],
    [
      403,
      await customer.ask('/completions', {
        key: await world.key(customer.company, ['embeddings']),
        body: {},
      }),
    ],
    [400, await complete({ model: 'nowhere', prompt: 7 })],
    [404, await complete({ model: 'nowhere' })],
    [404, await complete({ model: EMBED })],
    [403, await complete({ model: OVERSEAS }, poor)],
    [405, await customer.ask('/completions')],
  ] as const) {
    t.equal(answer.status, status, answer.text);
  }
});

t.test('text completions 1: prompts of every form, and suffix', async (t) => {
  for (const prompt of ['Once', ['Once', 'Twice']]) {
    t.equal((await complete({ prompt, suffix: 'end' })).status, 200);
    t.match(sent(), { model: 'internal-demo-chat', prompt, suffix: 'end' });
  }
  for (const prompt of [
    [1, 2],
    [[1], [2]],
  ]) {
    t.match(await complete({ prompt }), {
      status: 400,
      json: { error: { code: 'invalid_type', param: 'prompt' } },
    });
  }
  await world.model('ids', { upstream: 'internal-demo-chat' });
  await world.sql`update models set token_input = 'accept' where slug = 'ids'`;
  await until(
    async () => (await complete({ model: 'ids', prompt: [1, 2] })).status === 200,
    'token ids are taken',
  );
  t.equal((await complete({ model: 'ids', prompt: [[1], [2]] })).status, 200);
});

t.test('text completions 2: the answer, whole and in chunks, with the slug', async (t) => {
  const { json } = await complete({ n: 2, max_tokens: 3 });
  t.match(json, { id: String, object: 'text_completion', created: Number, model: CHAT });
  t.match(json.choices, [
    { index: 0, text: String, logprobs: null, finish_reason: 'length' },
    { index: 1, text: String, logprobs: null, finish_reason: 'length' },
  ]);
  const { prompt_tokens, completion_tokens, total_tokens } = json.usage;
  t.equal(completion_tokens, 6);
  t.equal(total_tokens, prompt_tokens + 6);
  for (const [options, last] of [
    [{}, [{ index: 0, text: '', logprobs: null, finish_reason: null }]],
    [{ stream_options: { include_usage: true } }, []],
  ] as const) {
    const { text } = await complete({ stream: true, max_tokens: 3, ...options });
    t.equal(sent().stream_options.include_usage, true);
    t.equal(dataOf(text).at(-1), '[DONE]');
    const chunks = chunksOf(text);
    t.ok(chunks.every(({ object, model }) => object === 'text_completion' && model === CHAT));
    t.same(chunks.at(-1).choices, last);
    t.equal(chunks.at(-1).usage.completion_tokens, 3);
  }
});

t.test('text completions 3: best_of, and echo beside logprobs', async (t) => {
  t.match(await complete({ best_of: 3 }), { status: 400, json: { error: { param: 'best_of' } } });
  t.match(await complete({ echo: true, logprobs: 1 }), {
    status: 400,
    json: { error: { param: 'echo' } },
  });
  const { json } = await complete({ echo: true });
  t.match(json.choices[0].text, /^OnceHello/);
});

t.test('text completions 4: max_tokens for each choice of each prompt', async (t) => {
  const strict = await world.newCustomer({ budget: '0.5' }); // 333 tokens of an answer
  await world.sql`update companies set budget_mode = 'strict' where id = ${strict.company}`;
  const most = { max_tokens: 10, n: 5, prompt: ['a', 'b', 'c', 'd', 'e', 'f', 'g'] };
  await until(async () => (await complete(most, strict)).status === 402, 'the budget is strict');
  t.equal((await complete({ ...most, n: 1 }, strict)).status, 200);
});

t.test('text completions 5: an estimate leaves out what echo repeats', async (t) => {
  const silent = await world.newCustomer();
  const model = await world.part(silent, 'silent', 'internal-demo-silent!no-usage');
  const prompt = 'A long and winding road. '.repeat(50);
  for (const echo of [false, true]) {
    t.equal(
      (await complete({ model, prompt, echo, stream: true, max_tokens: 30 }, silent)).status,
      200,
    );
  }
  const rows = await world.ledger(silent.company, 2);
  for (const row of rows) t.match(row, { endpoint: 'completions', usage_source: 'estimated' });
  const [without, repeated] = rows.map(({ completion_tokens }) => completion_tokens) as [
    number,
    number,
  ];
  t.ok(Math.abs(without - repeated) <= 3, `${without} and ${repeated} tokens`);
});
