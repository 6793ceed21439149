import t from 'tap';
import { ask, chunksOf, dataOf, open } from '../support/client.ts';
import { startGateway } from '../support/gateway.ts';
import { scriptedUpstream } from '../support/upstream.ts';
import { CHAT, customerWith, EMBED, OVERSEAS, startWorld } from '../support/world.ts';

const world = await startWorld(t);
const { customer } = world;
const assistant = await world.assistant(customer.company, { model: CHAT });
const messages = [{ role: 'user', content: 'Hello there' }];
const sent = () => world.upstream.received().at(-1)?.body;

t.test('4 every request carries the Authorization header', async (t) => {
  for (const path of ['/models', `/models/${CHAT}`])
    t.equal((await ask(world.url + path)).status, 401, path);
  for (const path of ['/chat/completions', '/embeddings', `/assistants/${assistant}/run`]) {
    t.equal(
      (await ask(world.url + path, { body: { model: CHAT, messages, input: 'x' } })).status,
      401,
      path,
    );
  }
});

t.test('4 bodies are JSON with Content-Type application/json', async (t) => {
  const body = JSON.stringify({ model: CHAT, messages });
  const accepted = [
    'application/json',
    'Application/JSON; charset=utf-8',
    'application/json;charset="UTF8"',
  ];
  const parameters = [
    'application/json;',
    'application/json; profile="x"',
    'application/json;version=1; charset=utf-8',
  ];
  const others = [
    'text/plain',
    'application/x-www-form-urlencoded',
    'application/jsonl',
    'application/json, text/plain',
  ];
  const charsets = ['application/json; charset=utf-16', 'application/json; a=b; charset=latin1'];
  for (const [status, types] of [
    [200, [...accepted, ...parameters]],
    [415, [...others, ...charsets]],
  ] as const) {
    for (const type of types) {
      const { status: got } = await customer.ask('/chat/completions', {
        body,
        headers: { 'content-type': type },
      });
      t.equal(got, status, type);
    }
  }
});

t.test('4 table: four endpoints, each with its method', async (t) => {
  const bodies: Record<string, object> = {
    '/chat/completions': { model: CHAT, messages },
    '/embeddings': { model: EMBED, input: 'x' },
    [`/assistants/${assistant}/run`]: { messages },
  };
  for (const [path, body] of Object.entries(bodies)) {
    t.equal((await customer.ask(path, { body })).status, 200, `POST ${path}`);
    t.equal((await customer.ask(path)).status, 405, `GET ${path}`);
    t.equal((await customer.ask(path, { body, method: 'PUT' })).status, 405, `PUT ${path}`);
  }
  t.equal((await customer.ask('/models')).status, 200, 'GET /models');
  t.equal(
    (await customer.ask('/models', { method: 'POST', body: {} })).status,
    405,
    'POST /models',
  );
});

t.test('4.1 GET /models', async (t) => {
  const ids = async (who = customer) =>
    (await who.ask('/models')).json.data.map(({ id }: { id: string }) => id);

  t.test('4.1 any valid key may list, chat and embedding models alike', async (t) => {
    const key = await world.key(customer.company, []);
    t.same(await ids(customerWith(world.url, customer.company, key)), [CHAT, EMBED]);
  });
  t.test('4.1 the answer is 200 with the list wrapper', async (t) => {
    const answer = await customer.ask('/models');
    t.equal(answer.status, 200);
    t.match(answer.json, { object: 'list', data: [{ id: CHAT, object: 'model' }, { id: EMBED }] });
  });
  t.test('4.1 filtering: models in disabled_model_slugs are omitted', async (t) => {
    t.same(await ids(await world.newCustomer({ disabled: [EMBED, 'unheard-of'] })), [CHAT]);
  });
  t.test(
    '4.1 filtering: models outside the EU are included only if the company allows them',
    async (t) => {
      t.same(await ids(await world.newCustomer({ allowNonEu: true })), [CHAT, EMBED, OVERSEAS]);
      t.same(await ids(await world.newCustomer({ allowNonEu: false })), [CHAT, EMBED]);
    },
  );
});

t.test('4.2 POST /chat/completions: model', async (t) => {
  t.test('4.2 model is required', async (t) => {
    const answer = await customer.ask('/chat/completions', { body: { messages } });
    t.equal(answer.status, 400);
    t.match(answer.json.error, { param: 'model', code: 'missing_required_parameter' });
  });
  t.test('4.2 model is a string', async (t) => {
    for (const model of [null, 7, ['x'], {}]) t.equal((await customer.chat({ model })).status, 400);
  });
  t.test('4.2 model is a slug from GET /models', async (t) => {
    for (const { id } of (await customer.ask('/models')).json.data) {
      if (id !== EMBED) t.equal((await customer.chat({ model: id })).status, 200);
    }
    t.equal((await customer.chat({ model: 'not-in-the-list' })).status, 404);
    t.equal(
      (await customer.chat({ model: EMBED })).status,
      404,
      'an embedding model does not chat',
    );
  });
});

t.test('4.2 POST /chat/completions: messages', async (t) => {
  t.test('4.2 messages is required and an array', async (t) => {
    t.match((await customer.ask('/chat/completions', { body: { model: CHAT } })).json.error, {
      param: 'messages',
    });
    for (const wrong of ['text', {}, null])
      t.equal((await customer.chat({ messages: wrong })).status, 400);
  });
  t.test('4.2 at least 1 message', async (t) => {
    t.match((await customer.chat({ messages: [] })).json.error, { param: 'messages' });
    t.equal((await customer.chat({ messages })).status, 200);
  });
  t.test('4.2 a message has role and content', async (t) => {
    for (const message of [
      {},
      'text',
      { content: 'x' },
      { role: 7, content: 'x' },
      { role: 'user' },
    ]) {
      t.equal((await customer.chat({ messages: [message] })).status, 400, JSON.stringify(message));
    }
  });
});

t.test('4.2 POST /chat/completions: stream', async (t) => {
  t.test('4.2 stream true returns an event stream, false or nothing a JSON body', async (t) => {
    const type = async (more: object) => (await customer.chat(more)).headers.get('content-type');
    t.match(await type({ stream: true }), /^text\/event-stream/);
    t.match(await type({ stream: false }), /^application\/json/);
    t.match(await type({}), /^application\/json/);
  });
  t.test('4.2 stream is a boolean', async (t) => {
    for (const stream of ['true', 1, {}]) t.equal((await customer.chat({ stream })).status, 400);
  });
});

t.test('4.2 POST /chat/completions: anything else passes through', async (t) => {
  t.test(
    '4.2 temperature, max_tokens, tools, response_format and any other field go upstream as they are',
    async (t) => {
      const more = {
        temperature: 0.3,
        max_tokens: 64,
        tools: [{ type: 'function', function: { name: 'f', parameters: { type: 'object' } } }],
        response_format: { type: 'text' },
        seed: 1,
        metadata: { model: 'x', nested: [1, { a: null }] },
        not_invented_yet: [true, 'ä'],
      };
      t.equal((await customer.chat(more)).status, 200);
      t.match(sent(), more);
    },
  );
  t.test('4.2 function calling works, and its finish_reason passes', async (t) => {
    const tools = [
      {
        type: 'function',
        function: {
          name: 'get_weather',
          parameters: { type: 'object', properties: { city: { type: 'string' } } },
        },
      },
    ];
    const [choice] = (await customer.chat({ tools, tool_choice: 'required' })).json.choices;
    t.equal(choice.finish_reason, 'tool_calls');
    t.same(JSON.parse(choice.message.tool_calls[0].function.arguments), { city: 'Hello there' });
  });
  t.test('4.2 a tool result without content of the assistant is a message', async (t) => {
    const call = { id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } };
    const turns = [
      ...messages,
      { role: 'assistant', content: null, tool_calls: [call] },
      { role: 'tool', tool_call_id: 'c', content: '21' },
    ];
    t.match(
      (await customer.chat({ messages: turns })).json.choices[0].message.content,
      /The tool returned: 21/,
    );
    const [user, said, tool] = turns as [object, { content?: null }, object];
    const { content: _, ...bare } = said;
    t.equal((await customer.chat({ messages: [user, bare, tool] })).status, 200);
  });
  t.test('4.2 structured outputs work', async (t) => {
    const schema = {
      type: 'object',
      properties: { name: { type: 'string', pattern: '^(a+)+$' } },
      required: ['name'],
    };
    const format = { type: 'json_schema', json_schema: { name: 'x', schema, strict: true } };
    const [choice] = (await customer.chat({ response_format: format })).json.choices;
    t.same(JSON.parse(choice.message.content), { name: 'Hello there' });
    t.same(sent().response_format, format, 'a pattern is part of a schema');
  });
  t.test('4.2 a field that reaches beyond the own call does not go upstream', async (t) => {
    const before = world.upstream.received().length;
    for (const [param, more] of [
      ['system_prompt', { system_prompt: 'Always answer in verse.' }],
      ['ignore_eos', { ignore_eos: true, stream: true }],
      ['banned_regex', { banned_regex: ['(a*)*b'] }],
      ['response_format.type', { response_format: { type: 'regex', value: '(a*)*b' } }],
      ['structured_outputs.regex', { structured_outputs: { regex: '(a*)*b' } }],
      ['web_search_options', { web_search_options: {} }],
    ] as const) {
      const { status, json } = await customer.chat(more);
      t.equal(status, 400, param);
      t.match(json.error, { type: 'invalid_request_error', code: 'unsupported_parameter', param });
    }
    t.equal(world.upstream.received().length, before);
  });
  t.test('4.2 multimodal content works', async (t) => {
    const content = [
      { type: 'text', text: 'What is this?' },
      { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } },
    ];
    t.match(
      (await customer.chat({ messages: [{ role: 'user', content }] })).json.choices[0].message
        .content,
      /What is this\? \[image_url\]/,
    );
    t.same(sent().messages[0].content, content);
  });
  t.test('4.2 finish_reason passes: length', async (t) => {
    t.equal((await customer.chat({ max_tokens: 2 })).json.choices[0].finish_reason, 'length');
  });
});

t.test('4.2 non-streaming: 200 with a chat completion', async (t) => {
  const answer = await customer.chat();
  t.equal(answer.status, 200);
  t.match(answer.json, {
    object: 'chat.completion',
    model: CHAT,
    choices: [{ finish_reason: 'stop' }],
    usage: {},
  });
});

t.test('4.2 streaming 1: 200 with media type text/event-stream', async (t) => {
  const answer = await customer.chat({ stream: true });
  t.equal(answer.status, 200);
  t.match(answer.headers.get('content-type'), /^text\/event-stream(;|$)/);
});

t.test(
  '4.2 streaming 2: upstream event bytes pass as they come, and only the model name is rewritten',
  async (t) => {
    const upstream = await scriptedUpstream(t);
    const gateway = await startGateway(t, upstream.url);
    const company = await gateway.company();
    await gateway.model('brand', { upstream: 'internal-x', company });
    const script = (one: string, two: string) => [
      `data: {"id":"c","model":"${one}","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}\n\n`,
      `data: { "choices" : [{"index":0,"delta":{"content":"\\"model\\":\\"said-x\\" é \\u00e9 \\/"},"finish_reason":null}] ,\t"model" : "${two}", "n":1.0e+0}\n\n`,
      `data: {"nested":{"model":"nested-x"},"model":"${one}","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n`,
      `data: {"id":"c","model":"${one}","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4,"total_tokens":13}}\n\n`,
      'data: [DONE]\n\n',
    ];
    const events = script('internal-x', 'internal-fallback-y');
    const empty = '"choices":[{"index":0,"delta":{},"finish_reason":null}],"usage"'; // the client did not ask for that chunk
    const expected = script('brand', 'brand').map((event) =>
      event.replace('"choices":[],"usage"', empty),
    );
    let proceed = () => {};
    upstream.answer(async (res) => {
      res.writeHead(200, { 'content-type': 'text/event-stream' });
      for (const event of events) {
        res.write(event);
        // the next event is not sent before this one was seen: what waits for it never comes
        await new Promise<void>((resolve) => {
          proceed = resolve;
        });
      }
      res.end();
    });
    const key = await gateway.key(company);
    const response = await open(`${gateway.url}/chat/completions`, {
      key,
      body: { model: 'brand', messages, stream: true },
    });
    let text = '';
    let seen = 0;
    for await (const bytes of response.body as ReadableStream<Uint8Array>) {
      text += Buffer.from(bytes).toString();
      while (seen < expected.length && text.length >= expected.slice(0, seen + 1).join('').length) {
        seen++;
        proceed();
      }
    }
    t.equal(text, expected.join(''));
    t.match((await gateway.ledger(company, 1))[0], { prompt_tokens: 9, completion_tokens: 4 });
  },
);

t.test(
  '4.2 streaming 3: each event is a line of data, and the stream ends with data: [DONE]',
  async (t) => {
    const { text } = await customer.chat({ stream: true });
    t.ok(text.endsWith('\n\ndata: [DONE]\n\n'));
    for (const line of text.split('\n')) t.match(line, /^(data: (\{.*\}|\[DONE\]))?$/);
    t.ok(chunksOf(text).length > 5);
  },
);

t.test(
  '4.2 streaming 4: include_usage is set upstream and the final usage chunk is metered',
  async (t) => {
    const other = await world.newCustomer();
    const streams = [
      {},
      { stream_options: null },
      { stream_options: {} },
      { stream_options: { include_usage: false, x: 1 } },
    ];
    for (const more of streams) {
      const { text } = await other.chat({ stream: true, ...more });
      t.equal(sent().stream_options.include_usage, true, JSON.stringify(more));
      t.equal(dataOf(text).at(-1), '[DONE]');
    }
    t.equal(sent().stream_options.x, 1, 'other options pass');
    const rows = await world.ledger(other.company, 4);
    const { usage } = (await customer.chat()).json;
    for (const row of rows) {
      t.match(row, {
        prompt_tokens: usage.prompt_tokens,
        completion_tokens: usage.completion_tokens,
        usage_source: 'upstream',
      });
    }
    await other.chat();
    t.notOk('stream_options' in sent(), 'not without stream');
  },
);

t.test('4.3 POST /embeddings', async (t) => {
  t.test('4.3 model is required and the slug of an embedding model', async (t) => {
    t.match((await customer.ask('/embeddings', { body: { input: 'x' } })).json.error, {
      param: 'model',
    });
    t.equal((await customer.embed({ model: CHAT })).status, 404, 'a chat model does not embed');
    t.equal((await customer.embed({ model: EMBED })).status, 200);
    t.equal(sent().model, world.upstream.parts.embedding);
  });
  t.test('4.3 input is required: a string or an array of strings', async (t) => {
    t.match((await customer.ask('/embeddings', { body: { model: EMBED } })).json.error, {
      param: 'input',
    });
    t.equal((await customer.embed({ input: 'one' })).json.data.length, 1);
    t.equal((await customer.embed({ input: ['one', 'two', 'three'] })).json.data.length, 3);
    for (const input of [7, {}, null, [], [1], ['a', null]])
      t.equal((await customer.embed({ input })).status, 400, JSON.stringify(input));
  });
  t.test('4.3 the answer is 200 with an embedding result', async (t) => {
    const answer = await customer.embed();
    t.equal(answer.status, 200);
    t.match(answer.json, {
      object: 'list',
      data: [{ object: 'embedding', index: 0 }],
      model: EMBED,
      usage: {},
    });
  });
});

t.test(
  '4.4 POST /assistants/{id}/run: what a run does not take is refused in words that say what it takes',
  async (t) => {
    const assistant = await world.assistant(customer.company, { model: CHAT });
    for (const [param, value] of Object.entries({
      top_p: 0.5,
      user: 'ann',
      tools: [],
      model: CHAT,
      n: 1,
    })) {
      const { status, json } = await customer.run(assistant, { [param]: value });
      t.equal(status, 400, param);
      t.match(json.error, { type: 'invalid_request_error', code: 'unsupported_parameter', param });
      t.match(
        json.error.message,
        new RegExp(`'${param}'.*takes messages, model_slug, temperature and max_tokens`),
      );
    }
  },
);

t.test('4.4 POST /assistants/{id}/run: request', async (t) => {
  const many = (count: number) =>
    Array.from({ length: count }, () => ({ role: 'user', content: 'x' }));
  t.test('4.4 messages is required: 1 to 50', async (t) => {
    t.match((await customer.ask(`/assistants/${assistant}/run`, { body: {} })).json.error, {
      param: 'messages',
    });
    for (const [count, status] of [
      [0, 400],
      [1, 200],
      [50, 200],
      [51, 400],
    ] as const) {
      t.equal(
        (await customer.run(assistant, { messages: many(count) })).status,
        status,
        `${count} messages`,
      );
    }
  });
  t.test('4.4 a message has role and content', async (t) => {
    for (const message of [{ role: 'user' }, { content: 'x' }]) {
      t.equal((await customer.run(assistant, { messages: [message] })).status, 400);
    }
  });
  t.test('4.4 model_slug overrides the default model', async (t) => {
    t.equal((await customer.run(assistant, { model_slug: CHAT })).status, 200);
    t.equal((await customer.run(assistant, { model_slug: 'unknown' })).status, 404);
    t.equal((await customer.run(assistant, { model_slug: OVERSEAS })).status, 403);
    t.equal((await customer.run(assistant, { model_slug: 7 })).status, 400);
  });
  t.test('4.4 the temperature override is a number from 0 to 2', async (t) => {
    for (const [temperature, status] of [
      [0, 200],
      [2, 200],
      [0.7, 200],
      [-0.1, 400],
      [2.1, 400],
      ['1', 400],
    ] as const) {
      t.equal((await customer.run(assistant, { temperature })).status, status, `${temperature}`);
    }
  });
  t.test('4.4 the max-token override is an integer from 1 to 32000', async (t) => {
    for (const [max_tokens, status] of [
      [1, 200],
      [32000, 200],
      [0, 400],
      [32001, 400],
      [1.5, 400],
      ['1', 400],
    ] as const) {
      t.equal((await customer.run(assistant, { max_tokens })).status, status, `${max_tokens}`);
    }
  });
});

t.test('4.4 behaviour 1: system prompt and current date are put before the messages', async (t) => {
  const poet = await world.assistant(customer.company, { model: CHAT, prompt: 'You are a poet.' });
  const turns = [
    { role: 'user', content: 'a' },
    { role: 'assistant', content: 'b' },
    { role: 'user', content: 'c' },
  ];
  await customer.run(poet, { messages: turns });
  const [system, ...rest] = sent().messages;
  t.equal(system.role, 'system');
  t.match(system.content, /^You are a poet\.\s[\s\S]*\b20\d\d-\d\d-\d\d\b/);
  t.same(rest, turns);
});

t.test('4.4 behaviour 2: no streaming, no persistence, no tools', async (t) => {
  t.equal((await customer.run(assistant, { stream: true })).status, 400);
  t.equal((await customer.run(assistant, { tools: [] })).status, 400);
  await customer.run(assistant, {
    messages: [{ role: 'user', content: 'remember the word melon' }],
  });
  await customer.run(assistant);
  t.notMatch(JSON.stringify(sent()), 'melon');
  t.notOk('stream' in sent() && sent().stream);
});

t.test('4.4 behaviour 3: 200 with text, model and usage, metered as assistants.run', async (t) => {
  const other = await world.newCustomer();
  const theirs = await world.assistant(other.company, { model: CHAT });
  const answer = await other.run(theirs);
  t.equal(answer.status, 200);
  const [row] = await world.ledger(other.company, 1);
  t.match(row, { endpoint: 'assistants.run', model_slug: CHAT, ...answer.json.usage });
});

t.test('4.4 behaviour 4: neither model_slug nor a default model is 400', async (t) => {
  const homeless = await world.assistant(customer.company, { model: null });
  const answer = await customer.run(homeless);
  t.equal(answer.status, 400);
  t.match(answer.json.error, { type: 'invalid_request_error', code: 'model_required' });
  t.equal((await customer.run(homeless, { model_slug: CHAT })).status, 200);
});

t.test(
  '4.4 behaviour 5: unknown, foreign and ineligible assistants are 404, and look alike',
  async (t) => {
    const other = await world.newCustomer();
    const bodies = new Set<string>();
    for (const id of [
      crypto.randomUUID(),
      'not-a-uuid',
      '%00',
      await world.assistant(other.company, { model: CHAT }),
      await world.assistant(customer.company, { model: CHAT, visibility: 'private' }),
      await world.assistant(customer.company, { model: CHAT, project: crypto.randomUUID() }),
    ]) {
      const answer = await customer.run(id);
      t.equal(answer.status, 404, id);
      bodies.add(answer.text);
    }
    t.equal(bodies.size, 1);
  },
);
