import OpenAI from 'openai';
import t, { type Test } from 'tap';
import { startFaultyDemo } from '../support/demo/server.ts';

const demo = await startFaultyDemo({ port: 0 });
t.teardown(() => demo.close());
const openai = new OpenAI({ baseURL: demo.url, apiKey: 'none', maxRetries: 0 });

const model = 'x!pace-0';
const QUESTION = 'What are the weather and the time in `Bonn`?';
const CITY = {
  type: 'object' as const,
  properties: { city: { type: 'string' } },
  required: ['city'],
  additionalProperties: false,
};
const NAMES = ['get_weather', 'get_time'];

async function post(path: string, body: object) {
  const response = await fetch(demo.url + path, {
    method: 'POST',
    body: JSON.stringify({ model, ...body }),
  });
  return { status: response.status, text: await response.text() };
}

/** The events of a stream whose events have names, which their data repeats. */
function eventsOf(t: Test, text: string) {
  return text
    .split('\n\n')
    .filter(Boolean)
    .map((event) => {
      const [, name, data] = /^event: (.*)\ndata: (.*)$/.exec(event) ?? [];
      const object = JSON.parse(data as string);
      t.equal(object.type, name);
      return object;
    });
}

/** The types of events, without repetitions. */
function typesOf(events: readonly { type: string }[]): string[] {
  return events.map(({ type }) => type).filter((type, i, all) => type !== all[i - 1]);
}

t.test(
  'agents: instructions after the question, and optional arguments, are passed over',
  async (t) => {
    const parameters = { ...CITY, properties: { ...CITY.properties, days: { type: 'integer' } } };
    const answer = await openai.chat.completions.create({
      model,
      tools: [{ type: 'function', function: { name: 'get_weather', parameters } }],
      messages: [
        { role: 'user', content: QUESTION },
        { role: 'system', content: 'You are in Bonn.' },
      ],
    });
    const [call] = answer.choices[0]?.message.tool_calls ?? [];
    t.match(call, { function: { name: 'get_weather', arguments: '{"city":"Bonn"}' } });
  },
);

t.test('chat: several tools are called at once, unless the request wants one', async (t) => {
  const tools = NAMES.map((name) => ({
    type: 'function' as const,
    function: { name, parameters: CITY },
  }));
  const ask = { model, tools, messages: [{ role: 'user' as const, content: QUESTION }] };
  const stream = openai.chat.completions.stream({
    ...ask,
    stream_options: { include_usage: true },
  });
  const streamed = (await stream.finalChatCompletion()).choices[0]?.message.tool_calls as {
    id: string;
  }[];
  const whole = (await openai.chat.completions.create(ask)).choices[0]?.message.tool_calls;
  t.match(
    streamed,
    NAMES.map((name) => ({ function: { name, arguments: '{"city":"Bonn"}' } })),
  );
  t.match(
    whole,
    streamed.map(({ id }) => ({ id })),
  );
  t.not(streamed[0]?.id, streamed[1]?.id);
  const one = await openai.chat.completions.create({ ...ask, parallel_tool_calls: false });
  t.equal(one.choices[0]?.message.tool_calls?.length, 1);
});

t.test('chat: of the name of a tool the end is looked at, however long it is', async (t) => {
  const names = [`${'a'.repeat(200_000)}B1b`, `${'a'.repeat(200_000)}_weather`];
  const tools = names.map((name) => ({
    type: 'function' as const,
    function: { name, parameters: CITY },
  }));
  const answer = await openai.chat.completions.create({
    model,
    tools,
    messages: [{ role: 'user', content: QUESTION }],
  });
  t.match(
    answer.choices[0]?.message.tool_calls?.map(
      (call) => call.type === 'function' && call.function.name,
    ),
    names.slice(1),
  );
});

t.test('chat: a custom tool gets text', async (t) => {
  const tools = [{ type: 'custom' as const, custom: { name: 'shell' } }];
  const messages = [{ role: 'user' as const, content: 'Ask the shell for `ls`' }];
  const answer = await openai.chat.completions.create({ model, tools, messages });
  t.match(answer.choices[0]?.message.tool_calls, [
    { type: 'custom', custom: { name: 'shell', input: 'ls' } },
  ]);
});

t.test('chat: n answers, each ending before a stop', async (t) => {
  const ask = {
    model,
    n: 2,
    stop: [' language', ' No'],
    messages: [{ role: 'user' as const, content: 'hi' }],
  };
  const whole = await openai.chat.completions.create(ask);
  const text = 'Hello from the Tollgate demo upstream.';
  t.match(
    whole.choices,
    [0, 1].map((index) => ({ index, message: { content: text }, finish_reason: 'stop' })),
  );
  const stream = openai.chat.completions.stream({
    ...ask,
    stream_options: { include_usage: true },
  });
  const streamed = await stream.finalChatCompletion();
  t.same(
    streamed.choices.map(({ message }) => message.content),
    [text, text],
  );
  t.same(streamed.usage, whole.usage);
  t.same(demo.journal.at(-1)?.usage, whole.usage);
});

t.test('blocks that an agent puts around a question are no part of it', async (t) => {
  const content =
    '<environment>\n<shell>zsh</shell>\n</environment>\nhello <br> you<note>the shell</note>';
  const tools = [{ type: 'function' as const, function: { name: 'shell' } }];
  const answer = await openai.chat.completions.create({
    model,
    tools,
    messages: [{ role: 'user', content }],
  });
  t.match(answer.choices[0]?.message.content, 'You wrote: hello <br> you\nTo get real answers');
});

t.test('responses: a text, with what the request said and detailed usage', async (t) => {
  const ask = {
    model,
    input: 'Hello',
    instructions: 'Be kind.',
    metadata: { a: 'b' },
    store: false,
  };
  const response = await openai.responses.create(ask);
  t.match(response, {
    object: 'response',
    status: 'completed',
    ...ask,
    input: undefined,
    tools: [],
    temperature: 1,
  });
  t.match(response.output_text, 'You wrote: Hello');
  const { input_tokens = 0, output_tokens = 0, ...usage } = response.usage ?? {};
  t.match(usage, {
    input_tokens_details: { cached_tokens: Number },
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: input_tokens + output_tokens,
  });
  t.match(demo.journal.at(-1)?.usage, {
    prompt_tokens: input_tokens,
    completion_tokens: output_tokens,
  });
});

t.test('responses: the events of a text, numbered', async (t) => {
  const events = eventsOf(t, (await post('/responses', { input: 'Hello', stream: true })).text);
  t.same(typesOf(events), [
    'response.created',
    'response.in_progress',
    'response.output_item.added',
    'response.content_part.added',
    'response.output_text.delta',
    'response.output_text.done',
    'response.content_part.done',
    'response.output_item.done',
    'response.completed',
  ]);
  t.same(
    events.map(({ sequence_number }) => sequence_number),
    [...events.keys()],
  );
  t.match(events[0].response, { status: 'in_progress', output: [], usage: null, model });
  const done = events.find(({ type }) => type === 'response.output_text.done');
  t.equal(events.map(({ delta = '' }) => delta).join(''), done.text);
  t.match(events.at(-1).response, {
    status: 'completed',
    output: [{ content: [{ text: done.text }] }],
    usage: {},
  });
  t.equal(demo.journal.at(-1)?.usage?.total_tokens, events.at(-1).response.usage.total_tokens);
});

t.test('responses: a limit of tokens leaves a response incomplete', async (t) => {
  const ask = { model, input: 'Hello', max_output_tokens: 3 };
  const whole = await openai.responses.create(ask);
  t.match(whole, { status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } });
  const types: string[] = [];
  for await (const { type } of openai.responses.stream(ask)) types.push(type);
  t.equal(types.filter((type) => type === 'response.output_text.delta').length, 3);
  t.equal(types.at(-1), 'response.incomplete');
});

t.test(
  'responses: functions and custom tools are called, and their results are read',
  async (t) => {
    const tools = [
      ...NAMES.map((name) => ({ type: 'function' as const, name, parameters: CITY, strict: true })),
      { type: 'custom' as const, name: 'bonn' },
    ];
    const stream = openai.responses.stream({ model, tools, input: QUESTION });
    const types = new Set<string>();
    for await (const { type } of stream) types.add(type);
    for (const kind of ['function_call_arguments', 'custom_tool_call_input']) {
      for (const step of ['delta', 'done'])
        t.ok(types.has(`response.${kind}.${step}`), `${kind}.${step}`);
    }
    const { output } = await stream.finalResponse();
    t.match(output, [
      ...NAMES.map((name) => ({
        type: 'function_call',
        name,
        arguments: '{"city":"Bonn"}',
        status: 'completed',
      })),
      { type: 'custom_tool_call', name: 'bonn', input: 'Bonn' },
    ]);
    const [call] = output as { call_id: string }[];
    const result = {
      type: 'function_call_output' as const,
      call_id: call?.call_id as string,
      output: '21 degrees',
    };
    const next = await openai.responses.create({
      model,
      tools,
      input: [{ role: 'user', content: QUESTION }, ...(output as []), result],
    });
    t.match(next.output_text, 'The tool returned: 21 degrees');
  },
);

t.test(
  'responses: a tool is called when the request names or requires one, and never when it forbids',
  async (t) => {
    const tools = NAMES.map((name) => ({
      type: 'function' as const,
      name,
      parameters: CITY,
      strict: true,
    }));
    const called = async (
      tool_choice: OpenAI.Responses.ResponseCreateParams['tool_choice'],
      input = 'hello',
    ) =>
      (
        await openai.responses.create({ model, input, tools, tool_choice: tool_choice ?? 'auto' })
      ).output.map((item) => (item as { name?: string }).name);
    t.same(await called({ type: 'function', name: 'get_time' }), ['get_time']);
    t.same(await called('required'), ['get_weather']);
    t.same(await called('required', 'the time?'), ['get_time']);
    t.same(await called({ type: 'allowed_tools', mode: 'required', tools: [] }), ['get_weather']);
    t.same(await called('none', QUESTION), [undefined]);
  },
);

t.test('structured outputs follow their schema in every dialect', async (t) => {
  const schema = { ...CITY, properties: { city: { type: 'string', maxLength: 4 } } };
  const format = { type: 'json_schema' as const, name: 'city', schema, strict: true };
  const content = 'Bonn, please';
  const response = await openai.responses.create({ model, input: content, text: { format } });
  const messages = [{ role: 'user' as const, content }];
  const chat = await openai.chat.completions.create({
    model,
    messages,
    response_format: { type: 'json_schema', json_schema: format },
  });
  const message = await post('/messages', { max_tokens: 99, messages, output_config: { format } });
  const texts = [
    response.output_text,
    chat.choices[0]?.message.content,
    JSON.parse(message.text).content[0].text,
  ];
  t.same(
    texts.map((text) => JSON.parse(text)),
    [{ city: 'Bonn' }, { city: 'Bonn' }, { city: 'Bonn' }],
  );
  const object = await openai.responses.create({
    model,
    input: 'hi',
    text: { format: { type: 'json_object' } },
  });
  t.same(JSON.parse(object.output_text), { demo: true, echo: 'hi' });
});

const hello = { max_tokens: 999, messages: [{ role: 'user', content: 'Hello' }] };

t.test('messages: a text, and its events', async (t) => {
  const whole = JSON.parse((await post('/messages', hello)).text);
  t.match(whole, {
    type: 'message',
    role: 'assistant',
    model,
    content: [{ type: 'text', text: /You wrote: Hello/ }],
    stop_reason: 'end_turn',
    stop_sequence: null,
    usage: { cache_read_input_tokens: 0, cache_creation_input_tokens: 0 },
  });
  const events = eventsOf(t, (await post('/messages', { ...hello, stream: true })).text);
  t.same(typesOf(events), [
    'message_start',
    'content_block_start',
    'ping',
    'content_block_delta',
    'content_block_stop',
    'message_delta',
    'message_stop',
  ]);
  t.match(events[0].message, { model, content: [], usage: { ...whole.usage, output_tokens: 1 } });
  t.equal(events.map(({ delta }) => delta?.text ?? '').join(''), whole.content[0].text);
  t.match(events.at(-2), { delta: { stop_reason: 'end_turn' }, usage: whole.usage });
  t.match(demo.journal.at(-1)?.usage, {
    prompt_tokens: whole.usage.input_tokens,
    completion_tokens: whole.usage.output_tokens,
  });
});

t.test('messages: tools are called, and their results are read', async (t) => {
  const tools = [
    { name: 'get_weather', input_schema: CITY },
    { type: 'custom', name: 'get_time', input_schema: CITY },
  ];
  const question = { role: 'user', content: QUESTION };
  const ask = { max_tokens: 999, tools, messages: [question] };
  const { content, stop_reason } = JSON.parse((await post('/messages', ask)).text);
  t.match(
    content,
    NAMES.map((name) => ({ type: 'tool_use', id: /^toolu_/, name, input: { city: 'Bonn' } })),
  );
  t.equal(stop_reason, 'tool_use');
  const one = await post('/messages', {
    ...ask,
    tool_choice: { type: 'any', disable_parallel_tool_use: true },
  });
  t.equal(JSON.parse(one.text).content.length, 1);

  const events = eventsOf(t, (await post('/messages', { ...ask, stream: true })).text);
  for (const index of [0, 1]) {
    const start = events.find(
      (event) => event.type === 'content_block_start' && event.index === index,
    );
    t.match(start.content_block, { type: 'tool_use', name: NAMES[index], input: {} });
    const deltas = events.filter(
      (event) => event.type === 'content_block_delta' && event.index === index,
    );
    t.same(JSON.parse(deltas.map(({ delta }) => delta.partial_json).join('')), { city: 'Bonn' });
  }

  const results = [
    {
      type: 'tool_result',
      tool_use_id: content[0].id,
      content: [{ type: 'text', text: '21 degrees' }],
    },
  ];
  const messages = [question, { role: 'assistant', content }, { role: 'user', content: results }];
  t.match((await post('/messages', { ...ask, messages })).text, 'The tool returned: 21 degrees');
});

t.test('messages: a limit and a stop sequence end the text', async (t) => {
  const cut = JSON.parse((await post('/messages', { ...hello, max_tokens: 2 })).text);
  t.match(cut, {
    content: [{ text: 'Hello from' }],
    stop_reason: 'max_tokens',
    usage: { output_tokens: 2 },
  });
  const stopped = JSON.parse(
    (await post('/messages', { ...hello, stop_sequences: [' demo'] })).text,
  );
  t.match(stopped, {
    content: [{ text: 'Hello from the Tollgate' }],
    stop_reason: 'stop_sequence',
    stop_sequence: ' demo',
  });
});

t.test('messages: counted tokens are those of the call, cached ones apart', async (t) => {
  const system = [
    { type: 'text', text: 'Be kind to everybody.', cache_control: { type: 'ephemeral' } },
  ];
  const { input_tokens } = JSON.parse(
    (await post('/messages/count_tokens', { ...hello, system })).text,
  );
  const { usage } = JSON.parse((await post('/messages', { ...hello, system })).text);
  t.ok(usage.cache_read_input_tokens > 5);
  t.equal(usage.input_tokens + usage.cache_read_input_tokens, input_tokens);
  t.equal(demo.journal.at(-1)?.usage?.prompt_tokens, input_tokens);
});

t.test(
  'a message of no tokens is whole and empty, as it warms the cache of a provider',
  async (t) => {
    const message = JSON.parse((await post('/messages', { ...hello, max_tokens: 0 })).text);
    t.match(message, { content: [], stop_reason: 'max_tokens', usage: { output_tokens: 0 } });
    const { status, text } = await post('/messages', { ...hello, max_tokens: 0, stream: true });
    t.equal(status, 200);
    t.match(text, /event: message_stop/);
  },
);

t.test('each dialect refuses in its own shape', async (t) => {
  const cases: [string, object, string][] = [
    ['/responses', {}, 'input'],
    ['/responses', { input: [] }, 'input'],
    ['/responses', { input: 'x', max_output_tokens: 0 }, 'max_output_tokens'],
    ['/messages', { max_tokens: 9 }, 'messages'],
    ['/messages', { ...hello, max_tokens: 'many' }, 'max_tokens'],
    ['/messages', { ...hello, max_tokens: -1 }, 'max_tokens'],
    ['/messages/count_tokens', { messages: [{}] }, 'messages[0]'],
  ];
  for (const [path, body, param] of cases) {
    const { status, text } = await post(path, body);
    t.equal(status, 400, `${path} ${JSON.stringify(body)}`);
    const message = new RegExp(`^'${param.replace('[0]', '\\[0\\]')}'`);
    const error = { type: 'invalid_request_error', message };
    t.match(
      JSON.parse(text),
      path === '/responses' ? { error: { ...error, param } } : { type: 'error', error },
    );
  }
  for (const [status, type] of [
    [404, 'not_found_error'],
    [429, 'rate_limit_error'],
    [500, 'api_error'],
    [529, 'overloaded_error'],
  ]) {
    t.match(JSON.parse((await post('/messages', { model: `x!error-${status}`, ...hello })).text), {
      error: { type },
    });
  }
});

t.test('faults break the streams of every dialect', async (t) => {
  const streams = [
    {
      path: '/responses',
      body: { input: 'Hello' },
      token: 'response.output_text.delta',
      last: 'response.completed',
    },
    { path: '/messages', body: hello, token: 'content_block_delta', last: 'message_stop' },
  ];
  for (const { path, body, token, last } of streams) {
    const stream = (faults: string) =>
      post(path, { ...body, model: `x!pace-0${faults}`, stream: true });
    const stopped = eventsOf(t, (await stream('!stop-after-3')).text);
    t.equal(stopped.filter(({ type }) => type === token).length, 3, path);
    t.equal(stopped.at(-1).type, token, path);
    const failed = eventsOf(t, (await stream('!error-event')).text);
    t.match(failed.at(-1), { type: 'error' }, path);
    await t.rejects(stream('!cut-after-3'), path);
    t.notMatch((await stream('!no-usage')).text, /"usage":\{/, path);
    t.notMatch((await stream('!no-model')).text, '"model"', path);
    t.match((await stream('!fallback')).text, 'internal-demo-fallback', path);
    t.match((await stream('!crlf')).text, `event: ${last}\r\ndata: `, path);
  }
});
