import t, { type Test } from 'tap';
import { ask } from '../../support/client.ts';
import { until } from '../../support/until.ts';
import { answerEvents, answerJson, type Dialect, openStage, testDialect } from '../dialect.ts';

const choice = (text: string, more: object = {}) => ({
  index: 0,
  text,
  logprobs: null,
  finish_reason: null,
  ...more,
});
const USAGE = { prompt_tokens: 7, completion_tokens: 3, total_tokens: 10 };
const COMPLETION = {
  id: 'cmpl-1',
  object: 'text_completion',
  created: 1,
  model: 'internal-fast',
  choices: [choice('one two three', { finish_reason: 'stop' })],
  usage: USAGE,
};
const event = (more: object) =>
  `data: ${JSON.stringify({ id: 'cmpl-1', object: 'text_completion', created: 1, model: 'internal-fast', ...more })}\n\n`;
const chunk = (text: string, more: object = {}) => event({ choices: [choice(text, more)] });
const DONE = 'data: [DONE]\n\n';

const DIALECT: Dialect = {
  endpoint: 'completions',
  path: '/completions',
  body: { prompt: 'Once upon a time' },
  limit: 'max_tokens',
  answer: COMPLETION,
  events: [
    event({ choices: [choice('', { stop_reason: null })] }),
    event({ choices: [choice('')] }),
    ...['one', ' two', ' three', ' four'].map((text) => chunk(text)),
    event({ choices: [choice('', { finish_reason: 'stop' })], usage: USAGE }),
    DONE,
  ],
  toldPrompt: null,
  error: (type, code) => ({ error: { message: String, type, code } }),
  errorEvent:
    /^(?:data: .*\n\n)?data: \{"error":\{"message":"[^"]*","type":"api_error","code":"upstream_error","param":null\}\}\n\n$/,
};

const stage = await openStage(t, DIALECT);
testDialect(t, stage);
const { upstream, gateway, newClient } = stage;

const sent = () => String(upstream.received.at(-1)?.body);
const answerUntold = (...choices: object[]) =>
  answerJson(stage, { ...COMPLETION, choices, usage: undefined });

t.test('the body goes upstream byte for byte, but for model and stream_options', async (t) => {
  const { post } = await newClient();
  const rest =
    '"suffix":"\\n}","temperature":0.10000000000000001 ,"seed":12345678901234567890, "future":[1E400]';
  answerJson(stage, COMPLETION);
  await post(`{ "model" : "fast","prompt":"hi", ${rest} }`);
  t.equal(sent(), `{ "model" : "internal-fast","prompt":"hi", ${rest} }`);
  answerEvents(stage, DIALECT.events);
  const usage = '"stream_options":{"include_usage":true}';
  for (const [given, gone] of [
    ['"stream":true', `${usage},"stream":true`],
    ['"stream":true,"stream_options":null', `"stream":true,${usage}`],
    [
      '"stream":true,"stream_options":{"include_usage":false,"x":1}',
      '"stream":true,"stream_options":{"include_usage":true,"x":1}',
    ],
    ['"stream":false', '"stream":false'],
  ] as const) {
    if (given.includes('false"') || given === '"stream":false') answerJson(stage, COMPLETION);
    await post(`{"prompt":["a","b"],"model":"fast",${given}}`);
    t.equal(sent(), `{"prompt":["a","b"],"model":"internal-fast",${gone}}`);
    answerEvents(stage, DIALECT.events);
  }
  const large = 'ä'.repeat(100_000);
  answerJson(stage, COMPLETION);
  await post(`{"prompt":"${large}","model":"fast"}`);
  t.equal(
    sent(),
    `{"prompt":"${large}","model":"internal-fast"}`,
    'a body that is scanned as it arrives',
  );
});

t.test(
  'the chunk that brings the usage has a choice for clients that did not ask for it',
  async (t) => {
    const { company, post } = await newClient();
    const last = event({ choices: [], usage: USAGE });
    const begun = [chunk('one'), chunk('', { finish_reason: 'length' })];
    answerEvents(stage, [...begun, last, DONE]);
    const renamed = (text: string) => text.replaceAll('internal-fast', 'fast');
    const { text } = await post({ stream: true });
    const added = last.replace(
      '[]',
      '[{"index":0,"text":"","logprobs":null,"finish_reason":null}]',
    );
    t.equal(text, renamed([...begun, added, DONE].join('')));
    const asked = await post({ stream: true, stream_options: { include_usage: true } });
    t.equal(asked.text, renamed([...begun, last, DONE].join('')));
    for (const row of await gateway.ledger(company, 2))
      t.match(row, { prompt_tokens: 7, completion_tokens: 3 });
  },
);

t.test('a prompt is a text, token ids, or a list of either', async (t) => {
  const { post } = await newClient();
  answerJson(stage, COMPLETION);
  for (const prompt of ['', 'a', ['a', ''], ['a']])
    t.equal((await post({ prompt })).status, 200, JSON.stringify(prompt));
  for (const prompt of [
    null,
    7,
    {},
    [],
    ['a', 7],
    [7, 'a'],
    [['a']],
    [[]],
    [7.5],
    [{ prompt_string: 'a' }],
  ]) {
    const { status, json } = await post({ prompt });
    t.match(
      { status, error: json.error },
      { status: 400, error: { param: /^prompt/ } },
      JSON.stringify(prompt),
    );
  }
  for (const one of ['a', [7], '']) {
    t.equal(
      (await post({ prompt: Array(2048).fill(one) })).status,
      typeof one === 'string' ? 200 : 400,
    );
    for (const count of [2049, 20_000, 70_000]) {
      const { status, json } = await post({ prompt: Array(count).fill(one), max_tokens: 1 });
      t.equal(status, 400, `${count}: ${json.error.message}`);
    }
  }
  t.match(
    await post('{"model":"fast","prompt":"a","prompt":"b"}'),
    { status: 400 },
    'read in two ways',
  );
});

t.test(
  'token ids pass for models whose operator says so, and each is a token where nobody tells',
  async (t) => {
    const { company, post } = await newClient();
    answerJson(stage, COMPLETION);
    for (const prompt of [
      [1, 2],
      [[1], [2]],
    ]) {
      const { status, json } = await post({ prompt });
      t.match(
        { status, error: json.error },
        { status: 400, error: { code: 'invalid_type', param: 'prompt' } },
      );
      t.notMatch(json.error.message, 'LangChain');
    }
    await gateway.model('ids', { upstream: 'internal-ids', company });
    await gateway.sql`update models set token_input = 'accept' where slug = 'ids'`;
    answerUntold(choice('one', { finish_reason: 'stop' }));
    await until(
      async () => (await post({ model: 'ids', prompt: [1, 2, 3] })).status === 200,
      'the model takes token ids',
    );
    for (const prompt of [
      [101, 102, 103],
      [[101, 102], [103]],
    ]) {
      t.equal((await post({ model: 'ids', prompt })).status, 200);
      t.equal(JSON.stringify(JSON.parse(sent()).prompt), JSON.stringify(prompt));
    }
    for (const row of await gateway.ledger(company, 3))
      t.match(row, { prompt_tokens: 3, usage_source: 'estimated' });
    const many = Array.from({ length: 20_000 }, (_, n) => n);
    t.equal((await post({ model: 'ids', prompt: many })).status, 200, 'one prompt of many ids');
    t.equal(JSON.parse(sent()).prompt.length, 20_000);
  },
);

t.test(
  'members that generate more than they show, or reach beyond the call, are refused by name',
  async (t) => {
    const { post } = await newClient();
    answerJson(stage, COMPLETION);
    for (const [name, value] of Object.entries({
      best_of: 2,
      n_predict: 9,
      prompt_logprobs: 1,
      prompt_embeds: 'x',
      min_tokens: 9,
      lora_path: 'x',
      grammar: 'root ::= root',
    })) {
      t.match((await post({ [name]: value })).json.error, {
        code: 'unsupported_parameter',
        param: name,
      });
    }
    for (const more of [
      { best_of: null },
      { logprobs: 5 },
      { suffix: 'x' },
      { n: 2 },
      { echo: null, logprobs: 1 },
    ]) {
      t.equal((await post(more)).status, 200, JSON.stringify(more));
    }
  },
);

t.test(
  'echo passes, but not beside logprobs, which would be those of the whole prompt',
  async (t) => {
    const { post } = await newClient();
    answerJson(stage, COMPLETION);
    for (const more of [
      { echo: true },
      { echo: false, logprobs: 2 },
      { echo: true, logprobs: null },
    ]) {
      t.equal((await post(more)).status, 200, JSON.stringify(more));
    }
    for (const logprobs of [0, 5, false, '1']) {
      t.match((await post({ echo: true, logprobs })).json.error, {
        code: 'unsupported_parameter',
        param: 'echo',
      });
    }
    for (const echo of ['true', 1, {}])
      t.match((await post({ echo })).json.error, { code: 'invalid_type', param: 'echo' });
    t.equal((await post('{"model":"fast","prompt":"a","echo":true,"Logprobs":1}')).status, 400);
  },
);

/** The completion tokens that are booked for an answer without a usage. */
async function estimated(
  t: Test,
  body: object,
  choices: readonly object[],
  events: readonly string[],
  most = 1,
): Promise<void> {
  for (const stream of [false, true]) {
    const { company, post } = await newClient();
    if (stream) answerEvents(stage, [...events, chunk('', { finish_reason: 'stop' }), DONE]);
    else answerUntold(...choices);
    t.equal((await post({ ...body, stream })).status, 200);
    const [row] = await gateway.ledger(company, 1);
    t.match(row, { usage_source: 'estimated' });
    t.ok(
      Math.abs((row?.completion_tokens ?? 0) - 5) <= most,
      `${row?.completion_tokens} tokens for five words, ${stream}`,
    );
  }
}

const FIVE = ' and they lived happily ever';

t.test('the prompt that an answer repeats was not generated, however it is written', async (t) => {
  for (const prompt of [
    'Once upon a time "there" was\n'.repeat(40),
    'Es war einmal größer, Жили-были. '.repeat(30),
  ]) {
    await estimated(
      t,
      { prompt, echo: true },
      [choice(prompt + FIVE)],
      [chunk(prompt), chunk(FIVE)],
    );
    const escaped = (text: string) =>
      text.replace(/[^\0-~]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`);
    const { company, post } = await newClient();
    const answer = escaped(
      JSON.stringify({ ...COMPLETION, usage: undefined, choices: [choice(prompt + FIVE)] }),
    );
    upstream.answer(
      (res) => void res.writeHead(200, { 'content-type': 'application/json' }).end(answer),
    );
    t.equal((await post({ prompt, echo: true })).status, 200);
    const [row] = await gateway.ledger(company, 1);
    t.ok(
      (row?.completion_tokens ?? 0) <= 10,
      `${row?.completion_tokens} tokens, written with escapes`,
    );
  }
  const two = ['First. '.repeat(30), 'Second! '.repeat(20)] as const;
  await estimated(
    t,
    { prompt: two, echo: true, n: 1 },
    two.map((prompt, index) => choice(prompt + (index === 0 ? FIVE : ''), { index })),
    [...two.map((prompt, index) => event({ choices: [choice(prompt, { index })] })), chunk(FIVE)],
    4, // of several texts the longest is looked at
  );
});

t.test('an answer that does not repeat the prompt was generated, whatever was asked', async (t) => {
  const long = 'Once upon a time "there" was\n'.repeat(40);
  const story = `${FIVE}.`.repeat(4);
  for (const prompt of [long, 'Once', [long, 'Twice'], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]]) {
    for (const [text, tokens] of [
      [FIVE, 5],
      [story, 24],
    ] as const) {
      if (typeof prompt[0] === 'number' && text === story) continue; // ids may be as long
      const events = text.split(/(?= )/).map((word) => chunk(word));
      for (const stream of [false, true]) {
        const { company, post } = await newClient();
        await gateway.sql`update models set token_input = 'accept' where slug = 'fast'`;
        if (stream) answerEvents(stage, [...events, chunk('', { finish_reason: 'stop' }), DONE]);
        else answerUntold(choice(text));
        t.equal((await post({ prompt, echo: true, stream })).status, 200);
        const [row] = await gateway.ledger(company, 1);
        t.match(row, { usage_source: 'estimated' });
        const booked = row?.completion_tokens ?? 0;
        t.ok(Math.abs(booked - tokens) <= tokens / 4 + 1, `${booked} for ${tokens}, ${stream}`);
      }
    }
  }
});

t.test('a prompt that is repeated in events of one word was not generated', async (t) => {
  const prompt = 'Once upon a time there was a station by a river. '.repeat(9);
  const events = `${prompt}${FIVE}`.split(/(?= )/).map((word) => chunk(word));
  await estimated(t, { prompt, echo: true }, [choice(prompt + FIVE)], events, 2);
});

t.test(
  'an answer that repeats the prompt and nothing else has no tokens, as the upstream tells',
  async (t) => {
    const { company, post } = await newClient();
    const usage = { prompt_tokens: 7, completion_tokens: 0, total_tokens: 7 };
    answerJson(stage, {
      ...COMPLETION,
      choices: [choice('Once upon a time', { finish_reason: 'length' })],
      usage,
    });
    t.equal((await post({ echo: true, max_tokens: 0 })).status, 200);
    t.match(await gateway.ledger(company, 1), [{ completion_tokens: 0, usage_source: 'upstream' }]);
  },
);

t.test(
  'tokens in logprobs stay whatever they are named, and are not counted a second time',
  async (t) => {
    const logprobs = {
      tokens: [' and', ' provider', 'internal-fast', 'gpt'],
      token_logprobs: [-0.1, -0.2, -0.3, -0.4],
      top_logprobs: [
        { provider: -1, cost: -2, 'internal-fast': -3, usage: -4 },
        { headers: -1, model: -2 },
      ],
      text_offset: [0, 4],
    };
    const told = { ...logprobs, by: 'internal-fast', provider: 'x', model: 'internal-fast' };
    const { post } = await newClient();
    answerJson(stage, {
      ...COMPLETION,
      provider: 'behind',
      choices: [choice(' and', { logprobs: told, finish_reason: 'stop' })],
    });
    const { json } = await post({ logprobs: 2 });
    t.same(json.choices[0].logprobs, { ...logprobs, by: 'fast', model: 'fast' });
    t.notOk('provider' in json);
    answerEvents(stage, [
      chunk(' and', { logprobs }),
      chunk(' so', { logprobs, finish_reason: 'stop' }),
      DONE,
    ]);
    const streamed = await post({ logprobs: 2, stream: true });
    t.same(
      JSON.parse(streamed.text.slice(6, streamed.text.indexOf('\n'))).choices[0].logprobs,
      logprobs,
    );
    await estimated(t, { logprobs: 2 }, [choice(FIVE, { logprobs })], [chunk(FIVE, { logprobs })]);
  },
);

t.test('a strict budget reserves max_tokens for each choice of each prompt', async (t) => {
  const { company, post } = await newClient({ budget: '1' }); // 500 tokens of an answer
  await gateway.sql`update companies set budget_mode = 'strict' where id = ${company}`;
  answerJson(stage, COMPLETION);
  for (const more of [
    { max_tokens: 600 },
    { max_tokens: 60, n: 10 },
    { max_tokens: 60, prompt: Array(10).fill('a') },
    { max_tokens: 20, n: 5, prompt: Array(6).fill('a') },
    { max_tokens: 1, prompt: 'a'.repeat(1000) },
  ]) {
    t.equal((await post(more)).status, 402, JSON.stringify(more).slice(0, 80));
  }
  for (const more of [
    { max_tokens: 20, n: 2, prompt: ['a', 'b'] },
    { max_tokens: 60, prompt: 'a', echo: true },
    { max_tokens: 20, prompt: ['a'], suffix: 'b' },
  ]) {
    t.equal((await post(more)).status, 200, JSON.stringify(more));
  }
});

t.test('what editors send for autocomplete passes, and its text comes back', async (t) => {
  const { company, key, post } = await newClient();
  const prompt = '<|fim_prefix|>const a = <|fim_suffix|>;\n<|fim_middle|>';
  // Continue, with a template of its own and with the suffix beside the text
  const continues = [
    { max_tokens: 4096, temperature: 0.01, stream: true, stop: ['<|endoftext|>', '/src/'], prompt },
    {
      prompt: 'const a = ',
      suffix: ';\n',
      max_tokens: 150,
      temperature: 0,
      stop: ['\n\n'],
      stream: true,
    },
  ];
  answerEvents(stage, DIALECT.events);
  for (const body of continues) {
    const answer = await post(body);
    t.equal(answer.status, 200, answer.text);
    const texts = answer.text.split('\n\n').filter((line) => line.startsWith('data: {'));
    t.equal(
      texts.map((line) => JSON.parse(line.slice(6)).choices[0].text).join(''),
      'one two three four',
    );
  }
  // Zed gives the whole address, and reads a usage of whole numbers
  answerJson(stage, COMPLETION);
  const stop = ['<|endoftext|>', '<|fim_prefix|>', '<|fim_middle|>', '<|fim_suffix|>'];
  const { status, json } = await post({ prompt, max_tokens: 256, stop });
  t.match(
    { status, ...json },
    { status: 200, object: 'text_completion', model: 'fast', choices: [{ text: 'one two three' }] },
  );
  t.same(json.usage, USAGE);
  t.equal((await gateway.ledger(company, 3)).length, 3);
  for (const path of ['/fim/completions', '/infill', '/engines/fast/completions', '/edits']) {
    const missing = await ask(gateway.url + path, { key, body: { model: 'fast', prompt } });
    t.match(missing, { status: 404, json: { error: { message: /POST \/completions/ } } }, path);
  }
  t.match(
    (await ask(`${gateway.url}/v1/completions`, { key, body: {} })).json.error.message,
    '/v1/completions',
  );
});

t.test('a cost centre is taken out of the body, and a person is named by user', async (t) => {
  const { company, post } = await newClient();
  answerJson(stage, COMPLETION);
  t.equal((await post({ user: 'x', metadata: { a: 'b' } })).status, 200);
  t.match(JSON.parse(sent()), { user: 'x', metadata: { a: 'b' } });
  t.equal((await gateway.ledger(company, 1)).length, 1);
});
