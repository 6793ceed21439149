import t from 'tap';
import { startDemo } from '../../src/demo/server.ts';
import { DEMO_MODELS } from '../../src/domain/wording/demo.ts';
import { ask, chunksOf, dataOf } from '../support/client.ts';

const [DEMO_CHAT_MODEL] = DEMO_MODELS['demo-chat'];
const [DEMO_EMBEDDING_MODEL] = DEMO_MODELS['demo-embedding'];

const demo = await startDemo({ port: 0 });
t.teardown(() => demo.close());

const said = (content: unknown, more: object = {}) => ({
  model: DEMO_CHAT_MODEL,
  messages: [{ role: 'user', content }],
  ...more,
});

const post = (path: string, body: unknown, base = demo.url, headers = {}) =>
  ask(base + path, { body, headers });
const chat = async (body: unknown) => (await post('/chat/completions', body)).json;

const streamed = () =>
  said('Tell me a story', { model: 'x', stream: true, stream_options: { include_usage: true } });

t.test('a chat answer names the demo, echoes the user and reports usage', async (t) => {
  const answer = await chat(said('What is a tollgate?'));
  t.match(answer, {
    object: 'chat.completion',
    model: DEMO_CHAT_MODEL,
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content: /demo upstream.*What is a tollgate\?/s },
        finish_reason: 'stop',
      },
    ],
  });
  const { prompt_tokens, completion_tokens, total_tokens } = answer.usage;
  t.ok(prompt_tokens > 5 && completion_tokens > 10);
  t.equal(total_tokens, prompt_tokens + completion_tokens);
});

t.test('the same request gets the same answer and the same counts', async (t) => {
  const [one, two] = await Promise.all([chat(said('again')), chat(said('again'))]);
  t.same(one.choices, two.choices);
  t.same(one.usage, two.usage);
  t.not(one.id, two.id);
});

t.test('max_tokens and max_completion_tokens cut the answer', async (t) => {
  for (const name of ['max_tokens', 'max_completion_tokens']) {
    const answer = await chat(said('long', { [name]: 3 }));
    t.equal(answer.choices[0].finish_reason, 'length');
    t.equal(answer.usage.completion_tokens, 3);
  }
});

t.test('text parts of multimodal content are read', async (t) => {
  const answer = await chat(
    said([
      { type: 'text', text: 'look here' },
      { type: 'image_url', image_url: { url: 'data:' } },
    ]),
  );
  t.match(answer.choices[0].message.content, /look here \[image_url\]/);
});

const tools = [
  {
    type: 'function',
    function: {
      name: 'get_weather',
      parameters: {
        type: 'object',
        properties: {
          city: { type: 'string' },
          days: { type: 'integer' },
          unit: { enum: ['C', 'F'] },
        },
        required: ['city', 'days', 'unit'],
      },
    },
  },
];

t.test('a tool is called when named, required or mentioned, and not otherwise', async (t) => {
  const finish = async (text: string, choice?: unknown) =>
    (await chat(said(text, { tools, tool_choice: choice }))).choices[0].finish_reason;
  t.equal(await finish('hello'), 'stop');
  t.equal(await finish('please get weather in Bonn'), 'tool_calls');
  t.equal(await finish('please get weather in Bonn', 'none'), 'stop');
  t.equal(await finish('hello', 'required'), 'tool_calls');
  t.equal(
    await finish('hello', { type: 'function', function: { name: 'get_weather' } }),
    'tool_calls',
  );

  const answer = await chat(said('hello', { tools, tool_choice: 'required' }));
  const call = answer.choices[0].message.tool_calls[0];
  t.equal(answer.choices[0].message.content, null);
  t.equal(call.function.name, 'get_weather');
  t.same(JSON.parse(call.function.arguments), { city: 'hello', days: 1, unit: 'C' });
});

t.test('a tool result is answered with text', async (t) => {
  const answer = await chat({
    model: 'x',
    tools,
    messages: [
      { role: 'user', content: 'get weather' },
      { role: 'assistant', content: null, tool_calls: [] },
      { role: 'tool', tool_call_id: '1', content: '21 degrees' },
    ],
  });
  t.match(answer.choices[0].message.content, /The tool returned: 21 degrees/);
});

t.test('response_format gets JSON, shaped by its schema', async (t) => {
  const format = (response_format: unknown) => chat(said('hi', { response_format }));
  const plain = await format({ type: 'json_object' });
  t.same(JSON.parse(plain.choices[0].message.content), { demo: true, echo: 'hi' });
  const schema = {
    type: 'object',
    properties: {
      list: { type: 'array', items: { $ref: '#/$defs/Part' }, minItems: 2 },
      maybe: { anyOf: [{ type: 'boolean' }, { type: 'null' }] },
      fixed: { const: 7 },
    },
    $defs: {
      Part: { type: 'object', properties: { name: { type: ['string', 'null'], maxLength: 1 } } },
    },
  };
  const shaped = await format({ type: 'json_schema', json_schema: { name: 'x', schema } });
  t.same(JSON.parse(shaped.choices[0].message.content), {
    list: [{ name: 'h' }, { name: 'h' }],
    maybe: true,
    fixed: 7,
  });
});

t.test('a schema that refers to itself ends', async (t) => {
  const schema = { type: 'object', properties: { next: { $ref: '#' } } };
  const answer = await chat(
    said('hi', { response_format: { type: 'json_schema', json_schema: { name: 'x', schema } } }),
  );
  t.ok(JSON.parse(answer.choices[0].message.content).next);
});

t.test(
  'a stream is the same answer: role first, finish_reason, usage on request, [DONE]',
  async (t) => {
    const body = said('stream this');
    const whole = await chat(body);
    const { text, headers } = await post('/chat/completions', {
      ...body,
      stream: true,
      stream_options: { include_usage: true },
    });
    t.match(headers.get('content-type'), /^text\/event-stream/);
    t.equal(dataOf(text).at(-1), '[DONE]');
    const chunks = chunksOf(text);
    t.same(chunks[0].choices, [
      { index: 0, delta: { role: 'assistant', content: '' }, finish_reason: null },
    ]);
    t.equal(
      chunks.map((chunk) => chunk.choices[0]?.delta.content ?? '').join(''),
      whole.choices[0].message.content,
    );
    t.same(chunks.at(-2).choices, [{ index: 0, delta: {}, finish_reason: 'stop' }]);
    t.same(chunks.at(-1).choices, []);
    t.same(chunks.at(-1).usage, whole.usage);

    const without = chunksOf((await post('/chat/completions', { ...body, stream: true })).text);
    t.notOk(without.some((chunk) => 'usage' in chunk));
  },
);

t.test('events arrive one by one, not all at the end', async (t) => {
  const response = await fetch(`${demo.url}/chat/completions`, {
    method: 'POST',
    body: JSON.stringify(streamed()),
  });
  let reads = 0;
  for await (const _ of response.body as ReadableStream) reads++;
  t.ok(reads > 5, `${reads} reads`);
});

t.test('a streamed tool call is put together from its fragments', async (t) => {
  const body = said('hello', { tools, tool_choice: 'required', stream: true });
  const chunks = chunksOf((await post('/chat/completions', body)).text);
  const calls = chunks.flatMap((chunk) => chunk.choices[0]?.delta.tool_calls ?? []);
  t.match(calls[0], {
    index: 0,
    id: String,
    type: 'function',
    function: { name: 'get_weather', arguments: '' },
  });
  t.same(JSON.parse(calls.map((call) => call.function.arguments).join('')), {
    city: 'hello',
    days: 1,
    unit: 'C',
  });
  t.equal(chunks.at(-1).choices[0].finish_reason, 'tool_calls');
});

t.test('embeddings of token ids: one list, or several', async (t) => {
  const embed = async (input: unknown) =>
    JSON.parse((await post('/embeddings', { model: DEMO_EMBEDDING_MODEL, input })).text);
  t.match(await embed([5, 6, 7]), { data: { length: 1 }, usage: { prompt_tokens: 3 } });
  t.match(await embed([[5, 6], [7]]), { data: { length: 2 }, usage: { prompt_tokens: 3 } });
});

t.test('embeddings: 1024 numbers of unit length, a function of the text', async (t) => {
  const embed = async (more: object) =>
    JSON.parse((await post('/embeddings', { model: DEMO_EMBEDDING_MODEL, ...more })).text);
  const one = await embed({ input: 'hello' });
  t.match(one, {
    object: 'list',
    model: DEMO_EMBEDDING_MODEL,
    data: [{ object: 'embedding', index: 0 }],
  });
  const vector: number[] = one.data[0].embedding;
  t.equal(vector.length, 1024);
  t.ok(Math.abs(Math.hypot(...vector) - 1) < 1e-6);
  t.ok(one.usage.prompt_tokens > 0);
  t.equal(one.usage.prompt_tokens, one.usage.total_tokens);

  const many = await embed({ input: ['hello', 'world'], encoding_format: 'base64' });
  const decoded = many.data.map(({ embedding }: { embedding: string }) => {
    const bytes = Buffer.from(embedding, 'base64');
    return Array.from({ length: bytes.length / 4 }, (_, i) => bytes.readFloatLE(i * 4));
  });
  t.same(decoded[0], vector);
  t.notSame(decoded[1], vector);
  t.equal((await embed({ input: 'hello', dimensions: 8 })).data[0].embedding.length, 8);
});

t.test('GET /models lists the internal names', async (t) => {
  const list = await (await fetch(`${demo.url}/models`)).json();
  t.match(list, {
    object: 'list',
    data: [{ id: DEMO_CHAT_MODEL, object: 'model' }, { id: DEMO_EMBEDDING_MODEL }],
  });
});

t.test('bad input is refused in the reference shape', async (t) => {
  const cases: [string, unknown, number, string | null][] = [
    ['/chat/completions', '{', 400, null],
    ['/chat/completions', 'null', 400, 'model'],
    ['/chat/completions', { messages: [] }, 400, 'model'],
    ['/chat/completions', { model: 'x' }, 400, 'messages'],
    ['/chat/completions', { model: 'x', messages: [] }, 400, 'messages'],
    ['/chat/completions', { model: 'x', messages: [{}] }, 400, 'messages[0].role'],
    ['/chat/completions', said('x', { max_tokens: 0 }), 400, 'max_tokens'],
    ['/chat/completions', said('x', { n: 'two' }), 400, 'n'],
    ['/embeddings', { model: 'x' }, 400, 'input'],
    ['/embeddings', { model: 'x', input: [] }, 400, 'input'],
    ['/embeddings', { model: 'x', input: ['a', ''] }, 400, 'input'],
    ['/embeddings', { model: 'x', input: [[1, 0.5]] }, 400, 'input'],
    ['/embeddings', { model: 'x', input: 'a', dimensions: 0 }, 400, 'dimensions'],
    ['/nothing', {}, 404, null],
  ];
  for (const [path, body, status, param] of cases) {
    const answer = await post(path, body);
    t.equal(answer.status, status, `${path} ${JSON.stringify(body)}`);
    t.match(JSON.parse(answer.text), {
      error: { message: String, type: 'invalid_request_error', param },
    });
  }
});

t.test('with a master key the demo refuses other keys', async (t) => {
  const guarded = await startDemo({ port: 0, apiKey: 'sk-demo' });
  t.teardown(() => guarded.close());
  t.equal((await post('/chat/completions', said('x'), guarded.url)).status, 401);
  const answer = await post('/chat/completions', said('x'), guarded.url, {
    authorization: 'Bearer sk-demo',
  });
  t.equal(answer.status, 200);
});

t.test(
  'text completions: each choice of each prompt, with the prompt before it where echo asks',
  async (t) => {
    const { json } = await post('/completions', {
      model: 'x',
      prompt: ['One', 'Two'],
      n: 2,
      echo: true,
      max_tokens: 2,
    });
    t.equal(json.object, 'text_completion');
    t.same(
      json.choices.map(
        ({
          index,
          text,
          finish_reason,
        }: {
          index: number;
          text: string;
          finish_reason: string;
        }) => [index, text.slice(0, 3), finish_reason],
      ),
      [
        [0, 'One', 'length'],
        [1, 'One', 'length'],
        [2, 'Two', 'length'],
        [3, 'Two', 'length'],
      ],
    );
    t.equal(json.usage.completion_tokens, 8, 'what is repeated is not generated');
    const whole = await post('/completions', { model: 'x', prompt: [1, 2], stop: '.' });
    const streamed = chunksOf(
      (await post('/completions', { model: 'x', prompt: [1, 2], stop: '.', stream: true })).text,
    );
    t.equal(
      streamed.map(({ choices }) => choices[0].text).join(''),
      whole.json.choices[0].text,
      'the same text, streamed',
    );
    for (const prompt of [undefined, 7, [], [[]], [null]]) {
      const { status, json } = await post('/completions', { model: 'x', prompt });
      t.match(
        { status, error: json.error },
        { status: 400, error: { param: 'prompt' } },
        JSON.stringify(prompt),
      );
    }
  },
);
