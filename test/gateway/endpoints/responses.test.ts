import t from 'tap';
import { answerEvents, answerJson, type Dialect, openStage, testDialect } from '../dialect.ts';

const RESPONSE = {
  id: 'resp_1',
  object: 'response',
  status: 'completed',
  error: null,
  model: 'internal-fast',
  output: [
    {
      type: 'message',
      id: 'msg_1',
      role: 'assistant',
      content: [{ type: 'output_text', text: 'one two', annotations: [] }],
    },
  ],
  usage: { input_tokens: 7, output_tokens: 3, total_tokens: 10 },
};

let number = 0;
const event = (type: string, more: object) =>
  `event: ${type}\ndata: ${JSON.stringify({ type, sequence_number: number++, ...more })}\n\n`;
const begun = { ...RESPONSE, status: 'in_progress', output: [], usage: null };
const delta = (text: string) =>
  event('response.output_text.delta', { item_id: 'msg_1', delta: text });

const DIALECT: Dialect = {
  endpoint: 'responses',
  path: '/responses',
  body: { input: 'Hello' },
  limit: 'max_output_tokens',
  answer: RESPONSE,
  events: [
    event('response.created', { response: begun }),
    event('response.in_progress', { response: begun }),
    ...['one', ' two', ' three', ' four'].map(delta),
    event('response.completed', { response: RESPONSE }),
  ],
  toldPrompt: null,
  error: (type, code) => ({ error: { message: String, type, code } }),
  errorEvent:
    /^(?:event: .*\ndata: .*\n\n)?event: error\ndata: \{"type":"error","code":"upstream_error","message":"[^"]*","param":null,"sequence_number":\d,"error":\{"type":"api_error","code":"upstream_error","message":"[^"]*","param":null\}\}\n\nevent: response\.failed\ndata: \{"type":"response\.failed","sequence_number":\d,"response":\{"id":"resp_1","object":"response","created_at":\d{10},"status":"failed","error":\{"code":"server_error","message":"[^"]*"\},.*"model":"fast",.*\}\n\n$/,
};

const stage = await openStage(t, DIALECT);
testDialect(t, stage);
const { upstream, newClient } = stage;

/** The body that went upstream for one of the client's. */
async function forwarded(body: string): Promise<string> {
  const { post } = await newClient();
  answerJson(stage, RESPONSE);
  const { status, text } = await post(body);
  return status === 200 ? String(upstream.received.at(-1)?.body) : text;
}

t.test('the body goes upstream byte for byte, but for model and store', async (t) => {
  const rest =
    '"temperature":0.1000000000000000055 , "seed":12345678901234567890,"text":{"verbosity":"low"}, "future":[1E400]';
  t.equal(
    await forwarded(`{ "model" : "fast","input":"hi", ${rest} }`),
    `{ "model" : "internal-fast","store":false,"input":"hi", ${rest} }`,
  );
  for (const store of ['true', 'false', 'null', '"yes"', '{ }']) {
    t.equal(
      await forwarded(`{"store": ${store},"input":"hi",${rest},"model":"fast"}`),
      `{"store": false,"input":"hi",${rest},"model":"internal-fast"}`,
    );
  }
  const large = 'ä'.repeat(100_000);
  t.equal(
    await forwarded(`{"input":"${large}","model":"fast","store":true}`),
    `{"input":"${large}","model":"internal-fast","store":false}`,
    'a body that is scanned as it arrives',
  );
  t.match(
    await forwarded('{"model":"fast","input":"hi","store":false,"store":true}'),
    "'store' could be read in two ways",
  );
});

t.test('members of current clients pass', async (t) => {
  const members = {
    instructions: 'x',
    parallel_tool_calls: true,
    reasoning: { effort: 'low', summary: 'auto' },
    include: [
      'reasoning.encrypted_content',
      'message.output_text.logprobs',
      'message.input_image.image_url',
    ],
    text: {
      format: {
        type: 'json_schema',
        name: 'x',
        schema: { properties: { file_id: {} } },
        strict: true,
      },
    },
    tool_choice: 'auto',
    tools: [
      {
        type: 'function',
        name: 'f',
        parameters: { properties: { file_id: { type: 'string' } } },
        strict: true,
      },
      {
        type: 'custom',
        name: 'apply_patch',
        format: { type: 'grammar', syntax: 'lark', definition: 'x' },
      },
      {
        type: 'tool_search',
        execution: 'client',
        description: 'x',
        parameters: { type: 'object' },
      },
    ],
    prompt_cache_key: 'x',
    prompt_cache_options: {
      mode: 'explicit',
      ttl: '12h',
      prewarm: false,
      comparison_response_id: null,
    },
    context_management: [{ type: 'compaction', compact_threshold: 1000 }],
    image: { context_compression: 'auto' },
    safety_identifier: 'x',
    service_tier: 'auto',
    truncation: 'disabled',
    max_tool_calls: 3,
    top_logprobs: 2,
    metadata: { a: 'b' },
    user: 'u',
    stream_options: { include_obfuscation: false },
    previous_response_id: null,
    conversation: null,
    prompt: null,
    background: false,
    input: [
      {
        type: 'additional_tools',
        role: 'developer',
        tools: [
          { type: 'function', name: 'g', parameters: { properties: { type: { enum: ['mcp'] } } } },
          { type: 'namespace', name: 'n', tools: [{ type: 'custom', name: 'c' }] },
        ],
      },
      { role: 'user', content: [{ type: 'input_text', text: 'file_id' }] },
      { role: 'user', content: [{ type: 'input_image', image_url: 'data:image/png;base64,AAAA' }] },
      { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'x' },
      // of engines whose reasoning is open, and of clients that send no id
      {
        type: 'reasoning',
        id: 'rs_2',
        summary: [],
        content: [{ type: 'reasoning_text', text: 'x' }],
      },
      {
        type: 'reasoning',
        id: 'rs_3',
        summary: [{ type: 'summary_text', text: 'x' }],
        encrypted_content: null,
      },
      { type: 'reasoning', summary: [], content: null, encrypted_content: null },
      { type: 'function_call', call_id: 'c', name: 'f', arguments: '{"file_id":"x"}' },
      { type: 'function_call_output', call_id: 'c', output: '"file_id":' },
      {
        type: 'message',
        role: 'assistant',
        content: [{ type: 'output_text', text: '\\u0066ile_id":' }],
      },
    ],
  };
  const body = JSON.stringify({ model: 'fast', ...members });
  t.equal(await forwarded(body), body.replace('"fast"', '"internal-fast","store":false'));
});

t.test('what needs stored state, or runs elsewhere, is refused by name', async (t) => {
  const { post } = await newClient({ budget: '0.01' });
  const sent = upstream.received.length;
  const item = (part: object) => ({
    input: [{ role: 'user', content: [{ type: 'input_text', text: 'x' }, part] }],
  });
  for (const [more, param] of [
    [{ previous_response_id: 'resp_1' }, 'previous_response_id'],
    [{ previous_response_id: '' }, 'previous_response_id'],
    [{ conversation: { id: 'conv_1' } }, 'conversation'],
    [{ conversation: 'conv_1' }, 'conversation'],
    [{ prompt: { id: 'pmpt_1' } }, 'prompt'],
    [{ background: true }, 'background'],
    [{ background: 'true' }, 'background'],
    [{ container: 'c' }, 'container'],
    [{ include: ['reasoning.encrypted_content', 'file_search_call.results'] }, 'include[1]'],
    [{ include: ['code_interpreter_call.outputs'] }, 'include[0]'],
    [
      {
        input: [
          { role: 'user', content: 'x' },
          { type: 'item_reference', id: 'msg_1' },
        ],
      },
      'input[1]',
    ],
    [{ input: [{ id: 'msg_1' }] }, 'input[0]'],
    [{ input: [{ id: 'msg_1', type: null }] }, 'input[0]'],
    [{ input: [{ id: 'ig_1', type: 'image_generation_call' }] }, 'input[0]'],
    // what holds nothing but its id stands for what is stored
    [
      {
        input: [
          { role: 'user', content: 'x' },
          { type: 'reasoning', id: 'rs_1', summary: [] },
        ],
      },
      'input[1]',
    ],
    [
      {
        input: [
          { type: 'reasoning', id: 'rs_1', summary: [], content: null, encrypted_content: '' },
        ],
      },
      'input[0]',
    ],
    [{ input: [{ type: 'reasoning', id: 'rs_1', status: 'completed' }] }, 'input[0]'],
    [{ input: [{ type: 'function_call', id: 'fc_1' }] }, 'input[0]'],
    [{ input: [{ type: 'message', id: 'msg_1', content: [] }] }, 'input[0]'],
    [{ input: [{ type: 'compaction', id: 'cmp_1', encrypted_content: null }] }, 'input[0]'],
    [
      { input: [{ id: 'ci_1', type: 'code_interpreter_call', container_id: 'cntr_1' }] },
      'input[0]',
    ],
    [item({ type: 'input_file', file_id: 'file-1' }), 'input[].file_id'],
    [item({ type: 'input_image', file_id: 'file-1' }), 'input[].file_id'],
    [
      { input: [{ type: 'function_call_output', output: [{ type: 'input_file', file_id: 'f' }] }] },
      'input[].file_id',
    ],
  ] as const) {
    const { status, json } = await post(more);
    t.equal(status, 400);
    t.match(json.error, { type: 'invalid_request_error', code: 'unsupported_parameter', param });
    t.match(json.error.message, /stored at the provider, and this gateway keeps none/);
  }
  const long = `${'"reasoning.encrypted_content",'.repeat(17_000)}"code_interpreter_call.outputs"`;
  t.match((await post(`{"model":"fast","input":"x","include":[${long}]}`)).json, {
    error: { param: 'include[100]' },
  });
  const escaped = `{"model":"fast","input":[{"id":"msg_1","type":"${'item_reference'.replace(/./g, (c) => `\\u00${c.charCodeAt(0).toString(16)}`)}"}]}`;
  t.match((await post(escaped)).json.error, { param: 'input[0]' }, 'a type written with escapes');
  const folded = await post({
    input: [{ type: 'message', Type: 'item_reference', role: 'user', id: 'msg_1' }],
  });
  t.match(folded.json.error, { param: 'input[0].type', message: /in two ways/ });
  for (const item of [
    '"type":"item_reference","type":"message"',
    '"type":"message","id":{},"ty\\u0070e":"item_reference"',
  ]) {
    for (const filler of ['', `"metadata":null,${' '.repeat(100_000)}`]) {
      const body = `{${filler}"model":"fast","input":[{"type":"message","role":"user"},{${item},"id":"msg_1"}]}`;
      t.match(
        (await post(body)).json.error,
        { param: 'input[].type', message: /in two ways/ },
        item,
      );
    }
  }
  const tool = await post(
    '{"model":"fast","input":"x","tools":[{"type":"web_search","type":"function"}]}',
  );
  t.match(tool.json.error, { param: 'tools[].type', message: /in two ways/ });
  const once = '{"type":"object","type":"string"},"type":"function"';
  answerJson(stage, RESPONSE);
  const own = await post(
    `{"model":"fast","input":"x","tools":[{"name":"f","parameters":${once}},{"name":"g","type":"function"}]}`,
  );
  t.equal(own.status, 200, 'one type each, and what is below is the own');
  upstream.received.pop();
  for (const type of [
    'file_search',
    'web_search',
    'web_search_preview',
    'mcp',
    'code_interpreter',
    'image_generation',
    'shell',
    'Function',
    null,
  ]) {
    const { status, json } = await post({ tools: [{ type: 'function', name: 'f' }, { type }] });
    t.equal(status, 400, String(type));
    t.match(json.error, { code: 'unsupported_parameter', param: 'tools[1].type' });
    t.match(json.error.message, 'Only tools that the caller runs');
    if (type !== null) t.match(json.error.message, `REFUSED_PARAMETERS=-tools.${type}`);
  }
  // the caller runs these: they are refused for another reason, which has a setting
  const local = { type: 'shell', environment: { type: 'local' } };
  for (const tool of [
    local,
    ...['apply_patch', 'local_shell', 'computer', 'computer_use_preview'].map((type) => ({ type })),
  ]) {
    const { status, json } = await post({ tools: [tool] });
    t.equal(status, 400, tool.type);
    t.match(json.error, { code: 'unsupported_parameter', param: 'tools[0].type' });
    t.match(json.error.message, `REFUSED_PARAMETERS=-tools.${tool.type}`);
    t.match(json.error.message, 'The caller runs it');
    t.notMatch(json.error.message, 'Only tools that');
  }
  for (const tool of [
    { type: 'tool_search' },
    { type: 'tool_search', execution: 'server' },
    { type: 'tool_search', execution: 'client', googleSearch: {} },
    { type: 'tool_search', name: 'f' },
  ]) {
    t.match(
      (await post({ tools: [tool] })).json.error,
      { param: 'tools[0].type' },
      JSON.stringify(tool),
    );
  }
  for (const [more, param] of [
    [{ moderation: { model: 'omni-moderation-latest' } }, 'moderation'],
    [{ access_programs: { cyber: 'daybreak_red' } }, 'access_programs'],
    [
      { prompt_cache_options: { comparison_response_id: 'resp_1' } },
      'prompt_cache_options.comparison_response_id',
    ],
  ] as const) {
    t.match((await post(more)).json.error, { code: 'unsupported_parameter', param });
  }
  t.equal(upstream.received.length, sent, 'nothing went upstream');
});

t.test('items of the input bring no other tools than the list of tools may', async (t) => {
  const { post } = await newClient();
  const sent = upstream.received.length;
  const first = '{"role":"user","content":"a \\"quoted\\" ], text"}';
  for (const type of ['additional_tools', 'tool_search_output', '\\u0061dditional_tools']) {
    for (const [tools, param] of [
      ['"tools":[{"type":"function","name":"f"},{"type":"file_search"}]', 'input[1].tools[1].type'],
      ['"tools": [ {"type":"mcp","server_url":"https://x"} ]', 'input[1].tools[0].type'],
      ['"tools":[{"type":"function","type":"mcp"}]', 'input[1].tools[0].type'],
      ['"tools":[{"type":"mcp","type":"function"}]', 'input[1].tools[0].type'],
      ['"tools":[{"type":"mcp"}],"tools":[]', 'input[1].tools'],
      ['"tools":[],"Tools":[{"type":"mcp"}]', 'input[1].tools'],
      [
        '"tools":[{"type":"namespace","tools":[{"type":"web_search"}]}]',
        'input[1].tools[0].tools[0].type',
      ],
      ['"tools":{"type":"mcp"}', 'input[1].tools'],
    ] as const) {
      for (const filler of ['', ' '.repeat(100_000)]) {
        const item = `{${tools},${filler}"role":"developer","type":"${type}"}`;
        const { status, json } = await post(
          `{"model":"fast","input":[${first}, ${item} ,${first}]}`,
        );
        t.equal(status, 400, item.trim());
        t.match(json.error, { param }, `${type} ${tools}`);
      }
    }
  }
  t.equal(upstream.received.length, sent, 'nothing went upstream');
});

t.test('a file is found however it is named, and wherever the body is cut', async (t) => {
  const { key } = await newClient();
  const keys = ['"file_id"', '"\\u0066ile_id"', '"fil\\u0065\\u005Fid"', '"file_id" \t\n '];
  for (const name of keys) {
    const body = `{"model":"fast","input":[{"role":"user","content":[{"type":"input_file",${name}:"f"}]}]}`;
    for (const [from, step] of [
      [80, 7],
      [75, 1],
    ] as const) {
      const pieces = [
        body.slice(0, from),
        ...(body.slice(from).match(new RegExp(`[\\s\\S]{1,${step}}`, 'g')) ?? []),
      ];
      const stream = ReadableStream.from(pieces.map((piece) => Buffer.from(piece)));
      const answer = await fetch(`${stage.gateway.url}/responses`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: stream,
        duplex: 'half',
      } as RequestInit);
      t.equal(answer.status, 400, body);
      t.match(await answer.text(), 'file_id');
    }
  }
});

t.test(
  'an id in which the router wrote provider and deployment keeps the end that is the own, in all events',
  async (t) => {
    const { post, stream } = await newClient();
    const own = 'resp_0123456789abcdef';
    for (const [coded, left] of [
      [`litellm:custom_llm_provider:azure;model_id:gpt-4o-us-east;response_id:${own}`, own],
      ['litellm:custom_llm_provider:azure;model_id:gpt-4o-us-east;response_id:x', ''],
      ['litellm:custom_llm_provider:azure;model_id:gpt-4o-us-east', ''],
    ] as const) {
      const id = `resp_${Buffer.from(coded).toString('base64')}`;
      const told = (shown: string) => Buffer.from(shown.slice('resp_'.length), 'base64').toString();
      answerJson(stage, { ...RESPONSE, id });
      const { json } = await post();
      t.ok(json.id.startsWith('resp_') && left.endsWith(told(json.id)), `${json.id} of ${coded}`);
      t.ok(told(json.id).length > left.length - 3, 'no more is gone than has to be');
      const [first, ...others] = DIALECT.events;
      const events = [first, others.at(-1)].map((text) =>
        String(text).replaceAll('"resp_1"', JSON.stringify(id)),
      );
      answerEvents(stage, [events[0] as string, ...others.slice(0, -1), events[1] as string]);
      const text = await (await stream()).text();
      t.equal(
        text.split(JSON.stringify(json.id)).length,
        3,
        'the same id in the first and the last event',
      );
      t.notOk(text.includes('bGl0ZWxsbT'));
    }
  },
);

t.test(
  'an item that is not stored, by us or by the words of the upstream: the caller learns the cure',
  async (t) => {
    const { post } = await newClient();
    const cure = /"include": \["reasoning\.encrypted_content"\]/;
    const alone = await post({ input: [{ type: 'reasoning', id: 'rs_1', summary: [] }] });
    t.match(alone, {
      status: 400,
      json: { error: { code: 'unsupported_parameter', param: 'input[0]', message: cure } },
    });
    const input = [
      { type: 'reasoning', id: 'rs_1', summary: [{ type: 'summary_text', text: 'x' }] },
    ];
    const message =
      "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false. Try again with `store` set to true, or remove this item from your input.";
    for (const body of [
      { error: { message, type: 'invalid_request_error', param: 'input', code: null } },
      { detail: message },
      { error: { message: `litellm.NotFoundError: OpenAIException - ${message}`, code: '404' } },
    ]) {
      answerJson(stage, body, 404);
      for (const stream of [false, true]) {
        const answer = await post({ input, stream });
        t.match(answer, {
          status: 400,
          json: { error: { code: 'unsupported_parameter', param: 'input', message: cure } },
        });
      }
    }
  },
);

t.test('the event that ends a broken stream goes on with the numbers', async (t) => {
  const { stream } = await newClient();
  const failed = event('response.failed', {
    response: { ...RESPONSE, status: 'failed', error: { code: 'x' } },
  });
  for (const last of [failed, event('error', { message: 'x' }), '']) {
    answerEvents(stage, [...DIALECT.events.slice(0, 5), last]);
    t.match(
      await (await stream()).text(),
      /"sequence_number":4[^5]*event: error\n.*"sequence_number":5,[^\n]*\n\nevent: response\.failed\n.*"sequence_number":6,[^\n]*\n\n$/,
    );
  }
});

t.test('x-api-key is no key here, and changes nothing', async (t) => {
  const { key, post } = await newClient();
  answerJson(stage, RESPONSE);
  t.equal((await post({}, { key: undefined, headers: { 'x-api-key': key } })).status, 401);
  t.equal((await post({}, { key, headers: { 'x-api-key': 'another' } })).status, 200);
});

t.test('a response with an empty input is for the provider to judge', async (t) => {
  const { post } = await newClient();
  answerJson(stage, RESPONSE);
  t.equal((await post({ input: [], instructions: 'Say a word.' })).status, 200);
  for (const input of [7, {}, true, null])
    t.equal((await post({ input })).status, 400, JSON.stringify(input));
});
