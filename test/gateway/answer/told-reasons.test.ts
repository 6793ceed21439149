import type { ServerResponse } from 'node:http';
import t, { type Test } from 'tap';
import { type Answer, ask, chunksOf } from '../../support/client.ts';
import { startGateway } from '../../support/gateway.ts';
import { scriptedUpstream } from '../../support/upstream.ts';

/** What a client is told of a request that the model refuses: the reason, its code, and the member of the own body. */

const upstream = await scriptedUpstream(t);
const gateway = await startGateway(t, upstream.url);
await gateway.model('fast', { upstream: 'internal-fast', input: '1', output: '2' });
await gateway.model('vectors', {
  upstream: 'internal-vectors',
  kind: 'embedding',
  input: '1',
  output: '0',
});
const company = await gateway.company();
const key = await gateway.key(company);
const assistant = await gateway.assistant(company, { model: 'fast' });

const turns = [
  { role: 'user', content: [{ type: 'text', text: 'x' }] },
  { role: 'assistant', content: 'y' },
  { role: 'user', content: 'z' },
];
const tools = [{ type: 'function', function: { name: 'a', parameters: { type: 'object' } } }];
const CALLS: Readonly<Record<string, readonly [path: string, body: object]>> = {
  chat: ['/chat/completions', { model: 'fast', messages: turns, tools, temperature: 3 }],
  responses: [
    '/responses',
    { model: 'fast', input: turns, tools: [{ type: 'function', name: 'a' }], temperature: 3 },
  ],
  messages: ['/messages', { model: 'fast', messages: turns, max_tokens: 9, temperature: 3 }],
  embeddings: ['/embeddings', { model: 'vectors', input: ['a', 'b'], dimensions: 7 }],
  run: [`/assistants/${assistant}/run`, { messages: turns, temperature: 1 }],
};

const post = (name: string, more: object = {}) => {
  const [path, body] = CALLS[name] as readonly [string, object];
  return ask(gateway.url + path, { key, body: { ...body, ...more } });
};
const byStatus =
  (status: number, value: unknown, headers: object = {}) =>
  (res: ServerResponse) =>
    void res
      .writeHead(status, { 'content-type': 'application/json', ...headers })
      .end(JSON.stringify(value));
const streamed = (events: string) => (res: ServerResponse) =>
  void res.writeHead(200, { 'content-type': 'text/event-stream' }).end(events);
const told = ({ status, json }: Answer) => [status, json.error.code, json.error.param];

const chunk = (delta: object) =>
  `data: ${JSON.stringify({ model: 'internal-fast', choices: [{ index: 0, delta }] })}\n\n`;
const typed = (type: string, more: object) =>
  `event: ${type}\ndata: ${JSON.stringify({ type, ...more })}\n\n`;
const CREATED = typed('response.created', {
  response: { id: 'resp_7', model: 'internal-fast' },
  sequence_number: 0,
});
const DELTA = typed('response.output_text.delta', { delta: 'Hel', sequence_number: 1 });

/** Asks for an error by status, in a whole 200 and in events, of both dialects that have codes. */
async function everywhere(
  t: Test,
  error: object,
  expected: readonly [string | null, string | null],
  name = 'chat',
) {
  const what = JSON.stringify(error);
  const value = { error: { type: 'invalid_request_error', message: 'This is wrong.', ...error } };
  for (const status of [400, 422, 200]) {
    upstream.answer(byStatus(status, value));
    t.same(told(await post(name)), [400, ...expected], `${name}, ${status}: ${what}`);
  }
  if (name === 'chat') {
    upstream.answer(streamed(`data: ${JSON.stringify(value)}\n\n`));
    t.same(told(await post(name, { stream: true })), [400, ...expected], `first event: ${what}`);
    upstream.answer(streamed(`${chunk({ content: 'Hel' })}data: ${JSON.stringify(value)}\n\n`));
    const { code, param } = chunksOf((await post(name, { stream: true })).text).at(-1).error;
    t.same([code, param], expected, `event: ${what}`);
  }
  if (name === 'responses') {
    upstream.answer(streamed(CREATED + DELTA + typed('error', value)));
    const [thrown, failed] = chunksOf((await post(name, { stream: true })).text).slice(-2);
    t.same(
      [thrown.code, thrown.param, thrown.error.code, thrown.error.param],
      [...expected, ...expected],
      what,
    );
    t.equal(failed.response.error.code, 'invalid_prompt');
  }
}

t.test('a code of the reference format is relayed, any other is not', async (t) => {
  for (const code of [
    'unsupported_parameter',
    'unsupported_value',
    'unknown_parameter',
    'invalid_value',
    'integer_above_max_value',
    'string_above_max_length',
    'empty_array',
    'invalid_function_parameters',
    'invalid_image_url',
    'image_too_large',
    'content_filter',
    'invalid_prompt',
  ]) {
    for (const name of ['chat', 'responses', 'embeddings', 'run'])
      await everywhere(t, { code }, [code, null], name);
  }
  for (const code of ['unknown_parameter', 'empty_array', 'image_file_too_large'])
    await everywhere(t, { code, type: null }, [code, null]);
  for (const code of [
    'internal-fast',
    'invalid_value internal',
    'litellm_error',
    '400',
    400,
    null,
    {},
    'InvalidValue',
  ])
    for (const name of ['chat', 'responses']) await everywhere(t, { code }, [null, null], name);
});

t.test(
  "a param is relayed that names a member of the caller's own body, and no other",
  async (t) => {
    for (const [name, params] of [
      [
        'chat',
        [
          'temperature',
          'model',
          'messages',
          'messages[0]',
          'messages[0].content[0].text',
          'messages.[2].role',
          'messages.1.content',
          'tools[0].function.name',
          'tools[0].function.parameters',
        ],
      ],
      ['responses', ['temperature', 'input', 'input[0].content[0]', 'tools[0].name']],
      ['embeddings', ['input', 'input[1]', 'dimensions', 'model']],
      ['run', ['messages', 'temperature']],
    ] as const) {
      for (const param of params) await everywhere(t, { param }, [null, param], name);
    }
    for (const [name, params] of [
      [
        'chat',
        [
          'internal-fast',
          'stream_options',
          'max_tokens',
          'messages[3]',
          'messages[0].name',
          'messages[0].content[0].x',
        ],
      ],
      [
        'chat',
        [
          'tools[0].function.parameters.internal',
          'litellm_params.model',
          '',
          'messages length',
          7,
          {},
          null,
        ],
      ],
      ['responses', ['store', 'text.format', 'input[0].id']],
      ['embeddings', ['encoding_format', 'user']],
      ['run', ['model', 'max_tokens', 'messages[0].content', 'messages[4]']],
    ] as const) {
      for (const param of params) await everywhere(t, { param }, [null, null], name);
    }
    await everywhere(t, { param: 'messages[3].content' }, [null, 'messages[2].content'], 'run');
  },
);

t.test(
  'a missing member is named where the reason names it and the caller has what it belongs in',
  async (t) => {
    const code = 'missing_required_parameter';
    const missing = (param: string, message = `Missing required parameter: '${param}'.`) => ({
      code,
      param,
      message,
    });
    await everywhere(t, missing('messages[0].content[0].id'), [code, 'messages[0].content[0].id']);
    await everywhere(t, missing('tools[0].strict'), [code, 'tools[0].strict'], 'responses');
    for (const param of ['messages[7].content', 'internal', 'messages[0].content[0].id.x'])
      await everywhere(t, missing(param), [code, null]);
    await everywhere(t, missing('messages[0].internal-fast'), [code, null]);
    await everywhere(t, missing('messages[0].id', 'Something is missing.'), [code, null]);
  },
);

t.test(
  'of a body that is not kept the first name is looked up, and the others are plain',
  async (t) => {
    const messages = [{ role: 'user', content: [{ type: 'text', text: 'x'.repeat(100_000) }] }];
    for (const [param, expected] of [
      ['messages', 'messages'],
      ['messages[0].content[0].text', 'messages[0].content[0].text'],
      ['metadata', null],
      ['messages[0].x-Internal', null],
      ['messages[0].azure', null],
      ['messages[0].internal-fast', null],
    ] as const) {
      upstream.answer(
        byStatus(400, { error: { message: 'This is wrong.', param, code: 'invalid_value' } }),
      );
      t.same(told(await post('chat', { messages })), [400, 'invalid_value', expected], param);
    }
  },
);

t.test('code and param are found in what routers wrap the error in', async (t) => {
  const inner = {
    message: "Unsupported parameter: 'temperature'.",
    param: 'temperature',
    code: 'unsupported_parameter',
  };
  const python = `{'error': {'message': "${inner.message}", 'type': 'invalid_request_error', 'param': 'temperature', 'code': 'unsupported_parameter'}}`;
  const outer = { type: null, param: null, code: '400' };
  for (const error of [
    {
      ...outer,
      message: `litellm.BadRequestError: AzureException BadRequestError - Error code: 400 - ${python}`,
    },
    {
      ...outer,
      message: `litellm.BadRequestError: OpenAIException - ${JSON.stringify({ error: inner })}`,
    },
    {
      message: 'Provider returned error',
      code: 400,
      metadata: { raw: JSON.stringify({ error: inner }) },
    },
  ]) {
    for (const name of ['chat', 'responses', 'run']) {
      upstream.answer(byStatus(400, { error }));
      const answer = await post(name);
      t.same(
        told(answer),
        [400, 'unsupported_parameter', 'temperature'],
        `${name}: ${JSON.stringify(error)}`,
      );
      t.equal(answer.json.error.message, "Unsupported parameter: 'temperature'.");
    }
  }
});

t.test('messages have no code and no param in their format', async (t) => {
  upstream.answer(
    byStatus(400, { error: { message: 'too hot', code: 'invalid_value', param: 'temperature' } }),
  );
  t.same((await post('messages')).json.error, {
    type: 'invalid_request_error',
    message: 'too hot',
  });
});

t.test('a number in brackets is a place in a list, and no address', async (t) => {
  const messages = Array.from({ length: 200 }, () => ({ role: 'user', content: 'x' }));
  const message = "Invalid 'messages[123].content': string too long.";
  upstream.answer(byStatus(400, { error: { message, param: 'messages[123].content' } }));
  t.match((await post('chat', { messages })).json.error, {
    message,
    param: 'messages[123].content',
  });
});

t.test('what the model cannot do is the reason, though the error names the model', async (t) => {
  for (const [status, message] of [
    [400, 'This model requires that either input content or output modality contain audio.'],
    [400, 'internal-fast does not support image inputs.'],
    [400, 'This model is only supported in v1/responses and not in v1/chat/completions.'],
    [404, 'This is not a chat model and thus not supported in the v1/chat/completions endpoint.'],
    [400, 'The requested model cannot be used with the Responses API.'],
  ] as const) {
    for (const name of Object.keys(CALLS)) {
      const slug = name === 'embeddings' ? 'vectors' : 'fast';
      upstream.answer(
        byStatus(status, { error: { message: message.replace('fast', slug), param: 'model' } }),
      );
      const answer = await post(name);
      t.match(
        [answer.status, answer.json.error.message],
        [400, message.replace('internal-fast', slug)],
      );
      t.equal(answer.headers.get('x-should-retry'), null);
    }
  }
  for (const [message, code] of [
    [
      'The model `internal-fast` does not exist or you do not have access to it.',
      'model_not_found',
    ],
    ['invalid model', null],
    ['Unknown model: llama-9-vision', null],
    ['No such model', null],
    ['', null],
  ] as const) {
    upstream.answer(byStatus(400, { error: { message, code, param: 'model' } }));
    t.equal((await post('chat')).status, 502, message);
  }
});

const LIST = [
  {
    type: 'int_parsing',
    loc: ['body', 'temperature'],
    msg: 'Input should be a valid integer',
    input: 'internal',
  },
  {
    type: 'string_type',
    loc: ['body', 'messages', 2, 'content', 'str'],
    msg: 'Input should be a valid string',
    input: 3,
  },
];
const TWO =
  /^temperature: Input should be a valid integer; messages\.[12]\.content: Input should be a valid string$/;
const PYTHON =
  "[{'type': 'int_parsing', 'loc': ('body', 'temperature'), 'msg': 'Input should be a valid integer', 'input': {'a': 'b'}}, " +
  "{'type': 'string_type', 'loc': ('body', 'messages', 2, 'function-wrap[f()]', 'content'), 'msg': 'Input should be a valid string', 'input': 3}]";
const PRINTED = `2 validation errors for ChatCompletionRequest
temperature
  Input should be a valid integer [type=int_parsing, input_value='a', input_type=str]
    For further information visit https://errors.pydantic.dev/2.11/v/int_parsing
messages.2.content
  Input should be a valid string [type=string_type, input_value=3, input_type=int]`;

t.test(
  'of a list of what is wrong all entries are told, with the names of the members',
  async (t) => {
    for (const value of [
      { detail: LIST },
      { message: LIST, object: 'error' },
      { object: 'error', message: { detail: LIST }, type: 'invalid_request_error' },
      { error: { message: { detail: LIST }, type: 'invalid_request_error' } },
      { error: { detail: LIST } },
      { errors: LIST },
      { object: 'error', message: PYTHON, type: 'BadRequestError', code: 400 },
      { error: { message: PYTHON, type: 'Bad Request', code: 400 } },
      { error: { message: JSON.stringify({ detail: LIST }), code: 400 } },
      {
        error: {
          message: `litellm.BadRequestError: Hosted_vllmException - ${PYTHON}. Received Model Group=x`,
          code: '400',
        },
      },
      {
        error: {
          message: `litellm.BadRequestError: OpenAIException - ${JSON.stringify({ detail: LIST })}`,
          code: '400',
        },
      },
      { error: { message: `2 validation errors:\n  ${PYTHON.slice(1, -1)}`, code: 400 } },
      { error: { message: PRINTED, code: 400 } },
      { detail: PRINTED },
    ]) {
      for (const name of ['chat', 'messages', 'run']) {
        upstream.answer(byStatus(name === 'chat' ? 422 : 400, value));
        const { status, json } = await post(name);
        t.equal(status, 400);
        t.match(json.error.message, TWO, `${name}: ${JSON.stringify(value)}`);
        if (name !== 'messages') t.match(json.error, { code: null, param: 'temperature' });
      }
    }
  },
);

t.test(
  'of a long list the entries that fit, and none that names what stands behind or is about the router',
  async (t) => {
    const entry = (name: string, msg = 'Extra inputs are not permitted') => ({
      type: 'x',
      loc: ['body', name],
      msg,
    });
    const own = Object.fromEntries(Array.from({ length: 50 }, (_, i) => [`member_${i}`, 1]));
    const message = async (detail: readonly object[]) => {
      upstream.answer(byStatus(422, { detail }));
      return (await post('chat', { a: 1, b: 1, c: 1, d: 1, ...own })).json.error.message as string;
    };
    const many = await message(Array.from({ length: 50 }, (_, i) => entry(`member_${i}`)));
    t.match(
      many,
      /^member_0: Extra inputs are not permitted; .*member_\d: Extra inputs are not permitted$/,
    );
    t.ok(many.length <= 300);
    const behind = [
      entry('a', 'asked of litellm'),
      { ...entry('b'), loc: ['header', 'authorization'] },
      entry('c'),
    ];
    t.equal(await message(behind), 'c: Extra inputs are not permitted');
    t.match(await message(behind.slice(0, 2)), /^The model refused the request/);
    t.equal(await message([{ msg: 'bad' }]), 'bad');
    const secret = {
      type: 'missing',
      loc: ['body', 'messages', 0, 'internal-fast'],
      msg: 'Field required',
    };
    upstream.answer(byStatus(422, { detail: [secret] }));
    t.match((await post('chat')).json.error, {
      message: 'messages.0.fast: Field required',
      param: null,
    });
    t.equal(
      await message([entry('added_by_router')]),
      'Extra inputs are not permitted',
      'no member of the caller',
    );
    const tagged = {
      type: 'x',
      loc: ['body', 'messages', 2, 'user', 'content', 'added'],
      msg: 'no',
    };
    t.equal(
      await message([tagged]),
      'messages.2.content: no',
      'the innermost member of the caller',
    );
    t.equal(await message([entry('d', 'internal-fast says no')]), 'd: fast says no');
    const missing = {
      type: 'missing',
      loc: ['body', 'messages', 0, 'content', 0, 'id'],
      msg: 'Field required',
    };
    upstream.answer(byStatus(422, { detail: [missing] }));
    t.match((await post('chat')).json.error, {
      message: 'messages.0.content.0.id: Field required',
      param: 'messages.0.content.0.id',
    });
  },
);

t.test('a wait is told in whole seconds, whatever form the header has', async (t) => {
  const at = new Date(Date.now() + 90_000);
  const imf = at.toUTCString();
  const [, day, month, year, time] = imf.split(/,? /) as [string, string, string, string, string];
  const long = at.toLocaleDateString('en', { weekday: 'long', timeZone: 'UTC' });
  for (const [header, most] of [
    ['7', 7],
    ['7.5', 8],
    ['0.35', 1],
    [imf, 90],
    [`${long}, ${day}-${month}-${year.slice(2)} ${time} GMT`, 90],
    [`${imf.slice(0, 3)} ${month} ${day.replace(/^0/, ' ')} ${time} ${year}`, 90],
  ] as const) {
    for (const name of Object.keys(CALLS)) {
      for (const status of [429, 503]) {
        upstream.answer(byStatus(status, { error: { message: 'x' } }, { 'retry-after': header }));
        const answer = await post(name);
        t.equal(answer.status, status);
        const wait = Number(answer.headers.get('retry-after'));
        if (most < 90) t.equal(wait, most, header);
        else t.ok(wait > 0 && wait <= 90, `${header}: ${wait}`);
      }
    }
  }
});
