import t from 'tap';
import { ask } from '../../support/client.ts';
import { startGateway } from '../../support/gateway.ts';
import { MASTER_KEY } from '../../support/upstream.ts';
import { answerEvents, answerJson, type Dialect, openStage, testDialect } from '../dialect.ts';

const MESSAGE = {
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  model: 'internal-fast',
  content: [{ type: 'text', text: 'one two' }],
  stop_reason: 'end_turn',
  stop_sequence: null,
  usage: {
    input_tokens: 2,
    cache_creation_input_tokens: 4,
    cache_read_input_tokens: 1,
    output_tokens: 3,
  },
};

const TURNS = [{ role: 'user', content: 'Hello' }];

const event = (type: string, more: object = {}) =>
  `event: ${type}\ndata: ${JSON.stringify({ type, ...more })}\n\n`;
const delta = (text: string) =>
  event('content_block_delta', { index: 0, delta: { type: 'text_delta', text } });

const DIALECT: Dialect = {
  endpoint: 'messages',
  path: '/messages',
  body: { max_tokens: 100, messages: TURNS },
  limit: 'max_tokens',
  answer: MESSAGE,
  events: [
    event('message_start', {
      message: { ...MESSAGE, content: [], usage: { ...MESSAGE.usage, output_tokens: 1 } },
    }),
    event('ping'),
    ...['one', ' two', ' three', ' four'].map(delta),
    event('content_block_stop', { index: 0 }),
    event('message_delta', { delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 3 } }),
    event('message_stop'),
  ],
  toldPrompt: 7,
  error: (type, code) => ({
    type: 'error',
    error: { type: code === 'request_too_large' ? code : type, message: String },
    request_id: /^[\da-f-]{36}$/,
  }),
  errorEvent:
    /^(?:event: .*\ndata: .*\n\n)?event: error\ndata: \{"type":"error","error":\{"type":"api_error","message":"[^"]*"\},"request_id":"[\da-f-]{36}"\}\n\n$/,
};

const stage = await openStage(t, DIALECT);
testDialect(t, stage);
const { upstream, gateway, newClient } = stage;
const BODY = { model: 'fast', ...DIALECT.body };

t.test('the body goes upstream byte for byte, but for the model', async (t) => {
  const { post } = await newClient();
  answerJson(stage, MESSAGE);
  const members = [
    '"system":[{"type":"text","text":"x","cache_control":{"type":"ephemeral","ttl":"1h"}}], "top_k":5,"top_p" : 0.10000000000000000555',
    '"stop_sequences":["a"],"thinking":{"type":"enabled","budget_tokens":1024},"metadata":{"user_id":"u"}',
    '"tools":[{"name":"f","input_schema":{"type":"object","properties":{"file_id":{}}}},{"type":"custom","name":"g"},{"type":"bash_20250124","name":"bash"}]',
    '"tool_choice":{"type":"auto"},"service_tier":"auto","output_config":{"effort":"low"},"context_management":{"edits":[]},"container":null',
  ];
  for (const model of ['"model": "fast"', '"mod\\u0065l":"f\\u0061st"']) {
    const text = `{${members.join(',')},"max_tokens":9,${model} ,"messages":[{"role":"user","content":[{"type":"text","text":"ä"}]}]}`;
    const { status, text: said } = await post(text);
    t.equal(status, 200, said);
    t.equal(String(upstream.received.at(-1)?.body), text.replace(/"f[^"]*st"/, '"internal-fast"'));
  }
});

t.test('what needs stored state, or runs elsewhere, is refused by name', async (t) => {
  const { key, post } = await newClient();
  const sent = upstream.received.length;
  const file = { type: 'document', source: { type: 'file', file_id: 'file_1' } };
  for (const [more, why] of [
    [{ container: 'container_1' }, "'container' needs state that is stored at the provider"],
    [{ container: { skills: [] } }, "'container' needs state"],
    [{ thread: { type: 'create' } }, "'thread' needs state"],
    [{ thread: { type: 'continue', previous_message_id: 'msg_1' } }, "'thread' needs state"],
    [{ messages: [{ role: 'user', content: [file] }] }, "'messages[].file_id' needs state"],
    [
      { messages: [{ role: 'user', content: [{ type: 'container_upload', file_id: 'f' }] }] },
      "'messages[].file_id'",
    ],
    [{ mcp_servers: [{ url: 'https://x' }] }, "'mcp_servers'"],
    [{ inference_geo: 'us' }, "'inference_geo'"],
    [{ anthropic_beta: ['files-api-2025-04-14'] }, "'anthropic_beta'"],
    [{ workspace_id: 'wrkspc_1' }, "'workspace_id'"],
    [{ user_profile_id: 'uprof_1' }, "'user_profile_id'"],
    [{ billing_policy: { type: 'billing_policy', bill_to: 'user_profile' } }, "'billing_policy'"],
    [{ fallback_credit_token: 'x' }, "'fallback_credit_token'"],
    [{ diagnostics: { previous_message_id: 'msg_1' } }, "'diagnostics.previous_message_id'"],
    [{ diagnostics: { 'Previous-Message-Id': 'msg_1' } }, "'diagnostics.Previous-Message-Id'"],
    [{ chat_template_kwargs: { chat_template: 'x' } }, "'chat_template_kwargs.chat_template'"],
    [{ chat_template_kwargs: { chatTemplate: { a: 1 } } }, "'chat_template_kwargs.chatTemplate'"],
    ...[
      'web_search_20250305',
      'web_fetch_20250910',
      'code_execution_20250522',
      'mcp_toolset',
      'tool_search_tool_regex',
    ].map(
      (type) =>
        [
          { tools: [{ type, name: 'x' }] },
          "'tools[0].type'. Only tools that the caller runs",
        ] as const,
    ),
    ...[
      { googleSearch: {} },
      { type: 'browser_toolset_20260801', googleSearch: {} },
      { type: 'tool_search_tool_regex_20251119' },
      { type: 'web_search_toolset_20260801' },
    ].map(
      (tool) => [{ tools: [tool] }, "'tools[0].type'. Only tools that the caller runs"] as const,
    ),
  ] as const) {
    for (const path of ['/messages', '/messages/count_tokens']) {
      const { status, json } = await ask(gateway.url + path, { key, body: { ...BODY, ...more } });
      t.equal(status, 400, why);
      t.match(json, DIALECT.error('invalid_request_error', null));
      t.match(json.error.message, why);
    }
  }
  const { json } = await post({ thread: { type: 'create' } });
  t.match(json.error.details, {
    error_code: 'thread_unsupported_request',
    unsupported: ['thread'],
  });
  t.notOk('details' in (await post({ container: 'container_1' })).json.error);
  t.equal((await post({ max_tokens: undefined })).status, 400, 'max_tokens is required');
  t.equal(upstream.received.length, sent, 'nothing went upstream');
});

t.test(
  "the caller's own toolsets, the effort of a system message and what is opted into alone pass",
  async (t) => {
    const { key, post } = await newClient();
    answerJson(stage, MESSAGE);
    const [question] = TURNS;
    for (const more of [
      {
        tools: [
          { type: 'browser_toolset_20260801', configs: { javascript_exec: { enabled: false } } },
        ],
      },
      {
        tools: [
          {
            type: 'computer_toolset_20260801',
            cache_control: { type: 'ephemeral' },
            configs: null,
          },
        ],
      },
      { messages: [question, { role: 'system', output_config: { effort: 'low' } }] },
      {
        messages: [
          question,
          {
            role: 'system',
            content: [{ type: 'text', text: 'x' }],
            output_config: { effort: 'low' },
          },
        ],
      },
      { diagnostics: { previous_message_id: null } },
      { chat_template_kwargs: { enable_thinking: false, chat_template: null } },
      {
        diagnostics: null,
        compaction: { type: 'summarize' },
        output_config: { task_budget: { type: 'tokens', total: 9 } },
      },
    ]) {
      const { status, text } = await post(more);
      t.equal(status, 200, text);
      const body = JSON.stringify({ ...BODY, ...more, model: 'internal-fast' });
      t.equal(String(upstream.received.at(-1)?.body), body);
    }
    const twice = '{"previous_message_id":"msg_1","previous_message_id":null}';
    t.equal(
      (await post(JSON.stringify(BODY).replace('{', `{"diagnostics":${twice},`))).status,
      400,
    );
    const messages = [question, { role: 'user', output_config: { effort: 'low' } }];
    t.match((await post({ messages })).json.error.message, "'messages[1].content'");
    const { status } = await post(
      {},
      { key, headers: { 'anthropic-beta': 'per-turn-control-2026-07-01,inline-tools-2026-09-15' } },
    );
    t.equal(status, 200);
    t.equal(
      upstream.received.at(-1)?.headers['anthropic-beta'],
      'per-turn-control-2026-07-01',
      'but no tools in messages',
    );
  },
);

t.test('the key comes as a bearer token, as x-api-key, or as both if they are one', async (t) => {
  const { key, company, post } = await newClient();
  const other = await gateway.key(company);
  answerJson(stage, MESSAGE);
  for (const [bearer, apiKey, expected] of [
    [key, undefined, 200],
    [undefined, key, 200],
    [undefined, ` ${key} `, 200],
    [key, key, 200],
    [key, '', 200],
    [key, other, 400],
    [other, 'svc_wrong', 400],
    [undefined, 'svc_wrong', 401],
    [undefined, '', 401],
    [undefined, 'x'.repeat(600), 401],
    [undefined, undefined, 401],
    ['svc_wrong', undefined, 401],
  ] as const) {
    const headers = apiKey === undefined ? {} : { 'x-api-key': apiKey };
    const { status, json } = await post({}, { key: bearer, headers });
    t.equal(status, expected, `${bearer?.slice(0, 9)} ${apiKey?.slice(0, 9)}`);
    if (expected !== 200) t.match(json, { type: 'error', error: { message: String } });
  }
  t.equal(
    (await post({}, { key: undefined, headers: { authorization: 'Basic x', 'x-api-key': key } }))
      .status,
    200,
  );
});

t.test('of the headers, the version and some features go upstream, and nothing else', async (t) => {
  const { key, post } = await newClient();
  answerJson(stage, MESSAGE);
  const sent = async (headers: Record<string, string>) => {
    t.equal((await post({}, { key, headers })).status, 200);
    return upstream.received.at(-1)?.headers ?? {};
  };
  const first = await sent({
    'x-api-key': key,
    'x-stainless-lang': 'js',
    'user-agent': 'claude-cli',
    'anthropic-dangerous-direct-browser-access': 'true',
    'x-app': 'cli',
    cookie: 'a=b',
  });
  const known = [
    'accept',
    'accept-encoding',
    'anthropic-version',
    'authorization',
    'connection',
    'content-length',
  ];
  t.same(
    Object.keys(first).filter(
      (name) => ![...known, 'content-type', 'host', 'x-request-id', 'user-agent'].includes(name),
    ),
    [],
  );
  t.not(first['user-agent'], 'claude-cli');
  t.match(first, { authorization: `Bearer ${MASTER_KEY}`, 'anthropic-version': '2023-06-01' });
  for (const [version, expected] of [
    ['2023-01-01', '2023-01-01'],
    ['latest', '2023-06-01'],
    ['2023-06-01, 2024-01-01', '2023-06-01'],
  ] as const) {
    t.equal((await sent({ 'anthropic-version': version }))['anthropic-version'], expected);
  }
  for (const [betas, expected] of [
    ['interleaved-thinking-2025-05-14', 'interleaved-thinking-2025-05-14'],
    ['files-api-2025-04-14', undefined],
    [
      'files-api-2025-04-14, claude-code-20250219 ,mcp-client-2025-04-04,effort-2025-11-24',
      'claude-code-20250219,effort-2025-11-24',
    ],
    ['context-1m-2025-08-07,,x', undefined],
    ['compact-2026-01-12', 'compact-2026-01-12'],
    // without them, the `thinking.display`, `thinking.block_binding` and `output_config` that SDKs send with them are 400
    ...[
      'thinking-display-updates-2026-08-18',
      'thinking-binding-controls-2026-08-01',
      'mid-conversation-output-config-2026-07-01',
    ].map((beta) => [beta, beta] as const),
  ] as const) {
    t.equal((await sent({ 'anthropic-beta': betas }))['anthropic-beta'], expected);
  }
});

t.test('errors before the endpoint is found have the shape of this dialect', async (t) => {
  const { key } = await newClient();
  const { url } = gateway;
  for (const [path, method, status, type] of [
    ['/messages', 'GET', 405, 'invalid_request_error'],
    ['/messages/count_tokens', 'PUT', 405, 'invalid_request_error'],
    ['/messages/batches', 'POST', 404, 'not_found_error'],
    ['/messages/batches/b_1/results', 'GET', 404, 'not_found_error'],
    ['/messages/', 'POST', 404, 'not_found_error'],
    ['/v1/messages?beta=true', 'POST', 404, 'not_found_error'],
    ['/messages/a%2f..%2fb', 'GET', 400, 'invalid_request_error'],
  ] as const) {
    const answer = await ask(url + path, { method, key });
    t.equal(answer.status, status, path);
    t.match(answer.json, DIALECT.error(type, null), path);
    t.equal(answer.json.request_id, answer.headers.get('x-request-id'));
  }
  for (const path of ['/messagesx', '/threads/t/messages', '/none']) {
    t.match(
      (await ask(url + path, { key })).json,
      { type: undefined, error: { code: null } },
      path,
    );
  }
  answerJson(stage, MESSAGE);
  const query = await ask(`${url}/messages?beta=true`, { key, body: BODY });
  t.equal(query.status, 200, 'a query is ignored');
});

t.test('a request that is shed is told so in the shape of this dialect', async (t) => {
  const full = await startGateway(t, upstream.url, { MAX_REQUESTS: '1' });
  await full.model('only', { upstream: 'internal-only' });
  const key = await full.key(await full.company());
  const arrived = Promise.withResolvers<() => void>();
  upstream.answer((res) => arrived.resolve(() => res.writeHead(500).end()));
  const body = { ...BODY, model: 'only' };
  const first = ask(`${full.url}/messages`, { key, body });
  const answer = await arrived.promise;
  const shed = await ask(`${full.url}/messages?beta=true`, { key, body });
  t.match(shed, { status: 503, json: DIALECT.error('overloaded_error', null) });
  t.match((await ask(`${full.url}/models`, { key })).json, {
    error: { code: 'service_unavailable' },
  });
  answer();
  await first;
});

t.test(
  'a message of no tokens warms the cache: it passes, and a strict budget reserves its prompt',
  async (t) => {
    const { company, post } = await newClient({ budget: '1' });
    await gateway.sql`update companies set budget_mode = 'strict' where id = ${company}`;
    const reserved: unknown[] = [];
    upstream.answer(async (res) => {
      reserved.push(
        ...(await gateway.sql`select amount_eur::text from budget_reservations where company_id = ${company}`),
      );
      const usage = { input_tokens: 7, output_tokens: 0, cache_creation_input_tokens: 5 };
      const answer = JSON.stringify({ ...MESSAGE, content: [], usage, stop_reason: 'max_tokens' });
      res.writeHead(200, { 'content-type': 'application/json' }).end(answer);
    });
    t.equal((await post({ max_tokens: 0 })).status, 200);
    t.match(await gateway.ledger(company, 1), [
      { prompt_tokens: 12, completion_tokens: 0, usage_source: 'upstream' },
    ]);
    t.match(reserved, [{ amount_eur: /^0\.0\d\d/ }], 'its bytes, and nothing for an answer');
    for (const max_tokens of [-1, 0.5, '0', null])
      t.equal((await post({ max_tokens })).status, 400, `${max_tokens}`);
  },
);

t.test('counting tokens waits for no reservation of a strict budget', async (t) => {
  const { company, key, post } = await newClient({ budget: '1' });
  await gateway.sql`update companies set budget_mode = 'strict' where id = ${company}`;
  const reserved: number[] = [];
  upstream.answer(async (res) => {
    reserved.push(
      (await gateway.sql`select from budget_reservations where company_id = ${company}`).length,
    );
    res
      .writeHead(200, { 'content-type': 'application/json' })
      .end(JSON.stringify({ ...MESSAGE, input_tokens: 42 }));
  });
  const body = { model: 'fast', messages: TURNS };
  t.equal((await ask(`${gateway.url}/messages/count_tokens`, { key, body })).status, 200);
  t.equal((await post({ max_tokens: 100 })).status, 200);
  t.same(reserved, [0, 1]);
});

t.test('tokens are counted behind all gates, for nothing', async (t) => {
  const { company, key, post } = await newClient({ budget: '0.01' });
  const narrow = await gateway.key(company, ['embeddings']);
  const count = (more: object = {}, asKey: string | undefined = key) =>
    ask(`${gateway.url}/messages/count_tokens`, {
      key: asKey,
      body: { model: 'fast', messages: TURNS, ...more },
    });
  answerJson(stage, {
    input_tokens: 42,
    model: 'internal-fast',
    provider: 'Internal',
    context_management: null,
  });
  const { status, text } = await count();
  t.equal(status, 200);
  t.equal(text, '{"input_tokens":42}');
  const managed = { original_input_tokens: 70, by: 'internal-fast', provider: 'Internal' };
  answerJson(stage, { context_management: managed, input_tokens: 42, cost: 1 });
  const edits = { context_management: { edits: [{ type: 'compact_20260112' }] } };
  t.equal(
    (await count(edits)).text,
    '{"input_tokens":42,"context_management":{"original_input_tokens":70,"by":"fast"}}',
    'what it was before the context was managed',
  );
  t.match(JSON.parse(String(upstream.received.at(-1)?.body)), edits);
  answerJson(stage, { input_tokens: 42 });
  await count();
  t.same(JSON.parse(String(upstream.received.at(-1)?.body)), {
    model: 'internal-fast',
    messages: TURNS,
  });
  t.match(await count({}, ''), { status: 401, json: { type: 'error' } });
  t.match(await count({}, narrow), { status: 403, json: { error: { type: 'permission_error' } } });
  t.match(await count({ messages: [] }), { status: 400, json: { type: 'error' } });
  t.match(await count({ model: 'none' }), {
    status: 404,
    json: { error: { type: 'not_found_error' } },
  });
  t.match(await count({ model: 'far' }), {
    status: 403,
    json: { error: { type: 'permission_error' } },
  });
  for (const wrong of [
    {},
    { input_tokens: '1' },
    { input_tokens: 1.5 },
    { error: { message: 'x' } },
    [],
  ]) {
    answerJson(stage, wrong);
    t.match(await count(), { status: 502, json: { type: 'error', error: { type: 'api_error' } } });
  }
  // a router without the endpoint
  for (const status of [404, 405, 501]) {
    for (const told of [
      { detail: 'Not Found' },
      { error: { message: 'Invalid URL (POST /v1/…)' } },
    ]) {
      answerJson(stage, told, status);
      const { headers, json, status: got } = await count();
      t.match(
        { got, json, retry: headers.get('x-should-retry') },
        {
          got: 404,
          json: { error: { type: 'not_found_error', message: /cannot be counted/ } },
          retry: null,
        },
      );
    }
  }
  const lacking = gateway.logged.filter((line) => line.includes('Not Found'));
  t.ok(lacking.length >= 3);
  t.ok(
    lacking.every((line) => line.includes('upstream refused the request')),
    'no failure of it',
  );
  answerJson(stage, { error: { message: 'The model `x` does not exist.' } }, 404);
  t.equal((await count()).status, 502, 'the mapping is wrong');
  answerJson(stage, { detail: 'Not Found' }, 404);
  t.equal((await post()).status, 502, 'elsewhere it is a failure');
  answerJson(stage, MESSAGE);
  t.equal((await post()).status, 200);
  t.match(
    await gateway.ledger(company, 1),
    [{ endpoint: 'messages', prompt_tokens: 7 }],
    'the message alone',
  );
  t.match(await count(), { status: 402, json: { error: { type: 'billing_error' } } });
  t.equal((await gateway.ledger(company, 1)).length, 1);
  const line = gateway.logged.find(
    (line) => line.includes('"messages.count_tokens"') && line.includes(company),
  );
  t.notMatch(line, 'tokens":4');
});

t.test(
  'samplings that the counts of a message leave out, as of a compaction, are booked, and their models not named',
  async (t) => {
    const { company, post } = await newClient();
    const context_management = { edits: [{ type: 'compact_20260112' }] }; // without it one run is all that the call allows
    const counts = { input_tokens: 23_000, output_tokens: 1000 };
    const iterations = [
      {
        type: 'compaction',
        model: 'vendor-large-1',
        input_tokens: 180_000,
        cache_read_input_tokens: 7,
        output_tokens: 3500,
      },
      { type: 'message', model: 'vendor-large-1', ...counts },
    ];
    for (const more of [{}, { cost: 0.5 }]) {
      const usage = { ...counts, ...more, iterations };
      const content = [
        { type: 'fallback', from: { model: 'vendor-large-1' }, to: { model: null } },
        { type: 'tool_use', id: 't', name: 'buy', input: { model: 'Model 3' } },
      ];
      const stop_details = { type: 'refusal', category: null, recommended_model: 'vendor-large-2' };
      answerJson(stage, { ...MESSAGE, content, stop_details, usage });
      const { json } = await post({ context_management });
      t.strictSame(json.stop_details, { ...stop_details, recommended_model: 'fast' });
      t.strictSame(json.usage, {
        ...counts,
        iterations: iterations.map((one) => ({ ...one, model: 'fast' })),
      });
      t.strictSame(
        json.content,
        [{ ...content[0], from: { model: 'fast' } }, content[1]],
        'the input of a tool stays',
      );
      answerEvents(stage, [
        ...DIALECT.events.slice(0, -2),
        event('message_delta', { delta: { stop_reason: 'refusal', stop_details }, usage }),
        event('message_stop'),
      ]);
      t.notMatch((await post({ context_management, stream: true })).text, 'vendor');
    }
    for (const row of await gateway.ledger(company, 4)) {
      t.match(row, { prompt_tokens: 203_007, completion_tokens: 4500, usage_source: 'upstream' });
    }
  },
);

t.test(
  'a stream that ends early and told zeros alone, as routers begin it, told no usage: it is free',
  async (t) => {
    const { company, stream } = await newClient();
    const usage = { input_tokens: 0, output_tokens: 0 };
    const [, ping, ...rest] = DIALECT.events;
    const start = event('message_start', { message: { ...MESSAGE, content: [], usage } });
    answerEvents(stage, [start, ping as string, ...rest.slice(0, 3)]);
    t.match(await (await stream()).text(), 'event: error');
    answerEvents(stage, DIALECT.events);
    await (await stream()).text();
    t.match(await gateway.ledger(company, 1), [{ outcome: 'completed' }]);
  },
);
