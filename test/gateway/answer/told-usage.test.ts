import t from 'tap';
import { dataOf } from '../../support/client.ts';
import { startGateway } from '../../support/gateway.ts';
import { scriptedUpstream } from '../../support/upstream.ts';
import { customerWith } from '../../support/world.ts';
import { openStage, testBounds } from '../dialect.ts';

/** What a call costs where the upstream tells its usage in part, or tells it and then fails. */

const upstream = await scriptedUpstream(t);
const gateway = await startGateway(t, upstream.url);

/** A customer of their own for each test, whose ledger begins empty. */
async function customerOf() {
  const company = await gateway.company();
  await gateway.model('brand-chat', { upstream: 'internal-chat', company });
  await gateway.model('brand-embed', { upstream: 'internal-embed', kind: 'embedding', company });
  const assistant = await gateway.assistant(company, { model: 'brand-chat' });
  return { assistant, ...customerWith(gateway.url, company, await gateway.key(company)) };
}

const message = { role: 'assistant', content: 'So long, and thanks for all the fish.' };
const completion = (more: object) => ({
  object: 'chat.completion',
  choices: [{ index: 0, message, finish_reason: 'stop' }],
  ...more,
});
const streamOf = (...events: (object | string)[]) =>
  upstream.answer((res) => {
    const text = events.map(
      (event) => `data: ${typeof event === 'string' ? event : JSON.stringify(event)}\n\n`,
    );
    res.writeHead(200, { 'content-type': 'text/event-stream' }).end(text.join(''));
  });
const token = { choices: [{ index: 0, delta: { content: message.content }, finish_reason: null }] };
const finish = { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] };
const USAGE = { prompt_tokens: 1000, completion_tokens: 2000, total_tokens: 3000 };
const FAILED = { error: { message: 'the worker died', code: 500 } };

t.test('a usage with one bad number keeps the good one, and the other is estimated', async (t) => {
  const usages = [
    { prompt_tokens: 1234, completion_tokens: -1 },
    { prompt_tokens: 1234, completion_tokens: '7' },
    { prompt_tokens: 1234 },
    { prompt_tokens: null, completion_tokens: 1234 },
    { prompt_tokens: 1.5, completion_tokens: 1234 },
    // more than a row of the ledger holds
    { prompt_tokens: 1234, completion_tokens: 1_000_000_000_001 },
    { prompt_tokens: Number.MAX_SAFE_INTEGER, completion_tokens: 1234 },
  ];
  for (const usage of usages) {
    const customer = await customerOf();
    upstream.answerJson(completion({ usage }));
    t.equal((await customer.chat()).status, 200);
    streamOf(token, finish, { choices: [], usage }, '[DONE]');
    t.equal(dataOf((await customer.chat({ stream: true })).text).at(-1), '[DONE]');
    for (const row of await gateway.ledger(customer.company, 2)) {
      const { prompt_tokens, completion_tokens, usage_source } = row;
      const [good, estimated] =
        usage.prompt_tokens === 1234
          ? [prompt_tokens, completion_tokens]
          : [completion_tokens, prompt_tokens];
      t.equal(good, 1234, JSON.stringify(usage));
      t.ok(estimated > 0 && estimated < 100, `${estimated} is an estimate`);
      t.equal(usage_source, 'estimated');
    }
  }
});

t.test('a run tells the usage it is charged by, whatever the upstream told', async (t) => {
  const customer = await customerOf();
  const usages = [
    USAGE,
    undefined,
    null,
    { prompt_tokens: 31 },
    { prompt_tokens: 31, completion_tokens: -3 },
  ];
  for (const [n, usage] of usages.entries()) {
    upstream.answerJson(completion({ usage }));
    const { status, json } = await customer.run(customer.assistant);
    t.equal(status, 200);
    const rows = await gateway.ledger(customer.company, n + 1);
    const { prompt_tokens, completion_tokens } = rows.at(-1) as (typeof rows)[number];
    t.same(json.usage, { prompt_tokens, completion_tokens }, JSON.stringify(usage));
    t.ok(prompt_tokens > 0);
  }
});

t.test('a run in which the model refused tells the text of the refusal', async (t) => {
  const customer = await customerOf();
  const refusal = 'I cannot help with that.';
  for (const content of [null, '', []]) {
    upstream.answerJson(
      completion({ choices: [{ message: { role: 'assistant', content, refusal } }], usage: USAGE }),
    );
    t.match((await customer.run(customer.assistant)).json, {
      text: refusal,
      usage: { completion_tokens: 2000 },
    });
  }
});

t.test(
  'what the client saw fail costs nothing, though the upstream told a usage with its 200',
  async (t) => {
    const customer = await customerOf();
    const failed = async (call: Promise<{ readonly status: number }>) =>
      t.equal((await call).status, 502);
    for (const body of [
      { ...FAILED, usage: USAGE },
      completion({ ...FAILED, usage: USAGE }),
      { usage: USAGE },
    ]) {
      upstream.answerJson(body);
      await failed(customer.chat());
      await failed(customer.run(customer.assistant));
      await failed(customer.embed({ model: 'brand-embed' }));
      await failed(customer.chat({ stream: true }));
    }
    streamOf({ ...FAILED, usage: USAGE });
    await failed(customer.chat({ stream: true }));
    streamOf({ choices: [], usage: USAGE }, FAILED);
    t.match((await customer.chat({ stream: true })).text, /upstream_error/);
    // the only call that is booked comes last, so that no row can be on its way behind it
    streamOf(token, { choices: [], usage: USAGE }, FAILED);
    t.match((await customer.chat({ stream: true })).text, /upstream_error/);
    const rows = await gateway.ledger(customer.company, 1);
    t.equal(rows.length, 1);
    t.match(rows[0], { outcome: 'upstream_failed', prompt_tokens: 1000, completion_tokens: 2000 });
  },
);

t.test(
  'a stream that breaks off pays for the text behind the last usage that it told',
  async (t) => {
    const early = {
      ...token,
      usage: { prompt_tokens: 1000, completion_tokens: 1, total_tokens: 1001 },
    };
    const bookedOf = async (...events: object[]) => {
      const customer = await customerOf();
      streamOf(...events, FAILED);
      t.match((await customer.chat({ stream: true })).text, /upstream_error/);
      return (await gateway.ledger(customer.company, 1))[0];
    };
    const row = await bookedOf(early, token, token, token, token, token);
    t.match(row, { prompt_tokens: 1000, usage_source: 'estimated', outcome: 'upstream_failed' });
    t.ok(
      (row?.completion_tokens ?? 0) > 20,
      `${row?.completion_tokens} tokens for six times nine words`,
    );
    t.match(
      await bookedOf(token, token, { ...token, usage: USAGE }, finish),
      { completion_tokens: 2000, usage_source: 'upstream' },
      'one told with each piece of text counts what was generated so far',
    );
  },
);

t.test('speech of a stream that breaks off is counted by its transcript', async (t) => {
  const early = {
    choices: [],
    usage: { prompt_tokens: 1000, completion_tokens: 1, total_tokens: 1001 },
  };
  const audio = { id: 'audio_1', data: 'AAAA'.repeat(2000), transcript: message.content };
  const spoken = { choices: [{ index: 0, delta: { audio }, finish_reason: null }] };
  const customer = await customerOf();
  streamOf(early, spoken, spoken, spoken, spoken, FAILED);
  t.match((await customer.chat({ stream: true })).text, /upstream_error/);
  const [row] = await gateway.ledger(customer.company, 1);
  t.match(row, { prompt_tokens: 1000, usage_source: 'estimated', outcome: 'upstream_failed' });
  t.ok(
    (row?.completion_tokens ?? 0) > 20,
    `${row?.completion_tokens} tokens for four times eight words`,
  );
});

t.test('what a usage leaves open is booked, and told to operators once a model', async (t) => {
  const customer = await customerOf();
  const slug = 'brand-open';
  const { company } = customer;
  await gateway.model(slug, { upstream: 'internal-open', company });
  const logged = (text: string) =>
    gateway.logged.filter((line) => line.includes(text) && line.includes(slug)).length;
  for (const [usage, row, text] of [
    [
      { prompt_tokens: 35, completion_tokens: 12, total_tokens: 109 },
      { prompt_tokens: 35, completion_tokens: 74, usage_source: 'upstream' },
      'booked as completion',
    ],
    [
      { prompt_tokens: 35, completion_tokens: 12, total_tokens: 40 },
      { prompt_tokens: 35, completion_tokens: 12, usage_source: 'estimated' },
      'is less than its counts',
    ],
    [
      { prompt_tokens: 35, completion_tokens: 12, cache_used: 3, 'a <b> token': 4 },
      { prompt_tokens: 35, completion_tokens: 12, usage_source: 'upstream' },
      '"members":["cache_used"]',
    ],
  ] as const) {
    const before = (await gateway.ledger(company, 0)).length;
    for (let n = 1; n <= 2; n++) {
      upstream.answerJson(completion({ usage }));
      t.equal((await customer.chat({ model: slug })).status, 200);
      t.match((await gateway.ledger(company, before + n)).at(-1), row, JSON.stringify(usage));
    }
    t.equal(logged(text), 1, text);
  }
});

t.test('a stream without a finish_reason is whole where its usage counts all text', async (t) => {
  const customer = await customerOf();
  const counted = { choices: [], usage: USAGE };
  streamOf(token, counted, '[DONE]');
  t.equal(dataOf((await customer.chat({ stream: true })).text).at(-1), '[DONE]');
  t.match((await gateway.ledger(customer.company, 1)).at(-1), {
    completion_tokens: 2000,
    outcome: 'completed',
    usage_source: 'upstream',
  });
  streamOf(token, counted, token, '[DONE]');
  t.match((await customer.chat({ stream: true })).text, /upstream_error/);
});

const CHAT_USAGE = { prompt_tokens: 7, completion_tokens: 3, total_tokens: 10 };
testBounds(
  t,
  await openStage(t, {
    endpoint: 'chat.completions',
    path: '/chat/completions',
    body: { messages: [{ role: 'user', content: 'Hello' }] },
    limit: 'max_tokens',
    answer: { model: 'internal-fast', ...completion({ usage: CHAT_USAGE }) },
    events: [token, finish, { choices: [], usage: CHAT_USAGE }, '[DONE]'].map(
      (event) => `data: ${typeof event === 'string' ? event : JSON.stringify(event)}\n\n`,
    ),
    toldPrompt: null,
    error: (type, code) => ({ error: { message: String, type, code } }),
    errorEvent: /upstream_error/,
  }),
);

t.test(
  'a run is charged, and tells, no more than its limit; so is an embedding, which generates nothing',
  async (t) => {
    const customer = await customerOf();
    const usage = {
      prompt_tokens: 31,
      completion_tokens: 1e12,
      completion_tokens_details: { reasoning_tokens: 1e11 },
    };
    upstream.answerJson(completion({ usage }));
    const { json } = await customer.run(customer.assistant, { max_tokens: 50 });
    t.same(json.usage, { prompt_tokens: 31, completion_tokens: 50 });
    upstream.answerJson({
      data: [{ index: 0, embedding: [0.5] }],
      usage: { ...usage, prompt_tokens: 1e12 },
    });
    t.equal((await customer.embed({ model: 'brand-embed' })).status, 200);
    const [run, embedding] = await gateway.ledger(customer.company, 2);
    t.match(run, { completion_tokens: 50, usage_source: 'estimated', reasoning_tokens: null });
    t.match(embedding, { completion_tokens: 0, usage_source: 'estimated' });
    t.ok((embedding?.prompt_tokens ?? 0) < 100);
  },
);

t.test('an image may have more tokens than its address has bytes', async (t) => {
  const customer = await customerOf();
  upstream.answerJson(completion({ usage: { prompt_tokens: 90_000, completion_tokens: 2 } }));
  const content = [{ type: 'image_url', image_url: { url: 'https://pictures.example/a.png' } }];
  t.equal((await customer.chat({ messages: [{ role: 'user', content }] })).status, 200);
  t.match(await gateway.ledger(customer.company, 1), [
    { prompt_tokens: 90_000, usage_source: 'upstream' },
  ]);
});

const BESIDE = { prompt_tokens_details: { cached_tokens: 13_312 }, total_tokens: 14_164 };

t.test(
  'what a usage tells is charged, wherever and however it stands, in every dialect',
  async (t) => {
    const chat = { prompt_tokens: 479, completion_tokens: 373 };
    const response = { input_tokens: 479, output_tokens: 373 };
    const said = { type: 'message', content: [{ type: 'output_text', text: message.content }] };
    const responded = (usage: object) => ({ object: 'response', output: [said], usage });
    const begun = {
      type: 'message_start',
      message: { usage: { input_tokens: 479, output_tokens: 1 } },
    };
    const block = {
      type: 'content_block_delta',
      index: 0,
      delta: { type: 'text_delta', text: message.content },
    };
    const ended = (usage: object) => [
      { type: 'message_delta', delta: {}, usage },
      { type: 'message_stop' },
    ];
    const delta = { type: 'response.output_text.delta', delta: message.content };
    const completed = (usage: object) => ({
      type: 'response.completed',
      response: responded(usage),
    });
    const inChoice = { index: 0, message, finish_reason: 'stop', usage: chat };
    const inChunk = { index: 0, delta: {}, finish_reason: 'stop', usage: chat };
    const cached = {
      ...response,
      input_tokens_details: { cached_tokens: 13_312 },
      total_tokens: 14_164,
    };
    const details = { choices: [], usage: { prompt_tokens_details: { cached_tokens: 64 } } };
    const zeros = {
      choices: [],
      usage: { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 },
    };
    const customer = await customerOf();
    const messages = [{ role: 'user', content: 'Hello' }];
    const model = 'brand-chat';
    const calls = {
      chat: ['/chat/completions', { model, messages }],
      run: [`/assistants/${customer.assistant}/run`, { messages }],
      respond: ['/responses', { model, input: 'Hello' }],
      message: ['/messages', { model, messages, max_tokens: 400 }],
    } as const;
    type Kind = keyof typeof calls;
    const cases: readonly (readonly [
      name: string,
      prompt: number,
      kinds: readonly Kind[],
      answer: object | object[],
    ])[] = [
      ['cached beside', 13_791, ['chat', 'run'], completion({ usage: { ...chat, ...BESIDE } })],
      [
        'no prompt',
        13_791,
        ['chat', 'run'],
        completion({ usage: { completion_tokens: 373, total_tokens: 14_164 } }),
      ],
      ['in a choice', 479, ['chat', 'run'], completion({ choices: [inChoice] })],
      [
        'in a choice, null outside',
        479,
        ['chat', 'run'],
        completion({ choices: [inChoice], usage: null }),
      ],
      [
        'in a choice, zeros outside',
        479,
        ['chat', 'run'],
        completion({ choices: [inChoice], usage: zeros.usage }),
      ],
      ['no error', 479, ['chat', 'run'], completion({ usage: chat, error: {} })],
      ['cached beside', 13_791, ['respond'], responded(cached)],
      ['no error', 479, ['respond'], { ...responded(response), error: false }],
      [
        'no error',
        479,
        ['message'],
        { content: [{ type: 'text', text: 'x' }], usage: response, error: '' },
      ],
      [
        'cached beside',
        13_791,
        ['chat'],
        [token, finish, { choices: [], usage: { ...chat, ...BESIDE } }],
      ],
      ['in a choice', 479, ['chat'], [token, { choices: [inChunk] }]],
      ['parts behind', 479, ['chat'], [token, { ...finish, usage: chat }, details]],
      ['zeros behind', 479, ['chat'], [token, { ...finish, usage: chat }, zeros]],
      ['no error', 479, ['chat'], [token, { ...finish, usage: chat, error: 0 }]],
      ['cached beside', 13_791, ['respond'], [delta, completed(cached)]],
      [
        'zeros',
        479,
        ['message'],
        [begun, block, ...ended({ input_tokens: 0, output_tokens: 373 })],
      ],
    ];
    let rows = 0;
    for (const [name, prompt, kinds, answer] of cases) {
      const isStream = Array.isArray(answer);
      for (const kind of kinds) {
        if (isStream) streamOf(...answer, ...(kind === 'chat' ? ['[DONE]'] : []));
        else upstream.answerJson(answer);
        const [path, body] = calls[kind];
        const { status, text } = await customer.ask(path, {
          body: isStream ? { ...body, stream: true } : body,
        });
        t.equal(status, 200, `${kind}: ${name}, ${text}`);
        const row = (await gateway.ledger(customer.company, ++rows)).at(-1);
        const told = {
          prompt_tokens: prompt,
          completion_tokens: 373,
          usage_source: 'upstream',
          outcome: 'completed',
        };
        t.match(row, told, `${kind}, ${isStream ? 'streamed' : 'whole'}: ${name}`);
      }
    }
    upstream.answerJson({
      data: [{ index: 0, embedding: [0.5] }],
      usage: { prompt_tokens: 0, total_tokens: 55 },
    });
    await customer.embed({ model: 'brand-embed' });
    t.match((await gateway.ledger(customer.company, ++rows)).at(-1), {
      prompt_tokens: 55,
      completion_tokens: 0,
      usage_source: 'upstream',
    });
  },
);

t.test(
  'no text has 0 tokens, and no prompt: such a usage is none, and the row says that it is estimated',
  async (t) => {
    const none = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 };
    const noneOf = { input_tokens: 0, output_tokens: 0 };
    const said = [{ type: 'text', text: message.content }];
    const output = [{ type: 'message', content: [{ type: 'output_text', text: message.content }] }];
    const block = {
      type: 'content_block_delta',
      index: 0,
      delta: { type: 'text_delta', text: message.content },
    };
    const early = {
      choices: [{ index: 0, delta: { role: 'assistant' } }],
      usage: { ...none, prompt_tokens: 9 },
    };
    const calls: readonly (readonly [path: string, answer: object | (object | string)[]])[] = [
      ['/chat/completions', completion({ usage: none })],
      ['/chat/completions', completion({ usage: { prompt_tokens: 9, total_tokens: 9 } })],
      ['/responses', { output, usage: noneOf }],
      ['/messages', { content: said, usage: noneOf }],
      ['/chat/completions', [token, finish, { choices: [], usage: none }, '[DONE]']],
      ['/chat/completions', [early, token, finish, '[DONE]']],
      [
        '/chat/completions',
        [token, { choices: [{ ...finish.choices[0], usage: none }] }, '[DONE]'],
      ],
      [
        '/responses',
        [
          { type: 'response.output_text.delta', delta: message.content },
          { type: 'response.completed', response: { output, usage: noneOf } },
        ],
      ],
      ...[0, 1].map((output_tokens): [string, object[]] => [
        '/messages',
        [
          { type: 'message_start', message: { usage: { ...noneOf, output_tokens } } },
          block,
          { type: 'message_delta', delta: {}, usage: { output_tokens: 0 } },
          { type: 'message_stop' },
        ],
      ]),
    ];
    const customer = await customerOf();
    let rows = 0;
    const booked = async () => (await gateway.ledger(customer.company, ++rows)).at(-1);
    for (const [path, answer] of calls) {
      const stream = Array.isArray(answer);
      if (stream) streamOf(...answer);
      else upstream.answerJson(answer);
      const asked = [{ role: 'user', content: 'Hello' }];
      const body = {
        model: 'brand-chat',
        stream,
        ...(path === '/responses' ? { input: asked } : { messages: asked }),
      };
      const { status, text } = await customer.ask(path, {
        body: { ...body, ...(path === '/messages' ? { max_tokens: 99 } : {}) },
      });
      t.equal(status, 200, text);
      const row = await booked();
      t.match(row, { usage_source: 'estimated', outcome: 'completed' }, `${path} ${stream}`);
      t.ok(
        (row?.completion_tokens ?? 0) > 3 && (row?.prompt_tokens ?? 0) > 3,
        `${path}: ${JSON.stringify(row)}`,
      );
    }
    upstream.answerJson(completion({ usage: none }));
    const { json } = await customer.run(customer.assistant);
    const run = await booked();
    t.match(run, { usage_source: 'estimated' });
    t.same(json.usage, {
      prompt_tokens: run?.prompt_tokens,
      completion_tokens: run?.completion_tokens,
    });
    upstream.answerJson({
      data: [{ index: 0, embedding: [0.5], text: 'a' }],
      usage: { prompt_tokens: 9, total_tokens: 9 },
    });
    await customer.embed({ model: 'brand-embed' });
    t.match(
      await booked(),
      { prompt_tokens: 9, completion_tokens: 0, usage_source: 'upstream' },
      'vectors have none',
    );
    upstream.answerJson(
      completion({ choices: [{ message: { content: '' } }], usage: { ...none, prompt_tokens: 9 } }),
    );
    await customer.chat();
    t.match(
      await booked(),
      { prompt_tokens: 9, completion_tokens: 0, usage_source: 'upstream' },
      'nor has an empty answer',
    );
  },
);
