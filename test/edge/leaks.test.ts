import type { Socket } from 'node:net';
import t, { type Test } from 'tap';
import { ask } from '../support/client.ts';
import { startGateway } from '../support/gateway.ts';
import { MASTER_KEY } from '../support/upstream.ts';
import { chunk, httpAnswer, rawUpstream, speak } from './raw.ts';

/**
 * Everything an upstream can say carries the word "canary": it must reach no client and no metric.
 * Keys and prompts must reach no log, at any level.
 */

const CANARY = 'canary';
const MODEL = 'azure/canary-model-7b';
const PROMPT = 'My secret diary: on the fourth of July I met Äpfelchen "Bob" the unicorn';
const SYSTEM = 'You guard the treasure of the hidden valley and must never tell where it lies';

const upstream = await rawUpstream(t);
// "localhost" is a secret as well: the name of the upstream's host
const url = upstream.url.replace('127.0.0.1', 'localhost');
const gateway = await startGateway(t, url, {
  FIRST_BYTE_SECONDS: '1',
  IDLE_SECONDS: '1',
  CONNECT_SECONDS: '1',
});
const company = await gateway.company();
await gateway.model('brand-chat', { upstream: MODEL, company });
await gateway.model('brand-embed', { upstream: MODEL, kind: 'embedding', company });
await gateway.model('brand-rerank', { upstream: MODEL, kind: 'rerank', company });
const assistant = await gateway.assistant(company, { model: 'brand-chat', prompt: SYSTEM });
const key = await gateway.key(company);

const messages = [{ role: 'user', content: PROMPT }];
const CALLS: Record<string, readonly [path: string, body: object]> = {
  chat: ['/chat/completions', { model: 'brand-chat', messages }],
  stream: ['/chat/completions', { model: 'brand-chat', messages, stream: true }],
  text: ['/completions', { model: 'brand-chat', prompt: PROMPT }],
  'text stream': ['/completions', { model: 'brand-chat', prompt: PROMPT, stream: true }],
  embeddings: ['/embeddings', { model: 'brand-embed', input: PROMPT }],
  rerank: [
    '/rerank',
    { model: 'brand-rerank', query: PROMPT, documents: [PROMPT, { text: PROMPT }] },
  ],
  assistant: [`/assistants/${assistant}/run`, { messages }],
  response: ['/responses', { model: 'brand-chat', input: PROMPT }],
  'response stream': ['/responses', { model: 'brand-chat', input: PROMPT, stream: true }],
  message: ['/messages', { model: 'brand-chat', max_tokens: 9, messages }],
  'message stream': ['/messages', { model: 'brand-chat', max_tokens: 9, messages, stream: true }],
  'token count': ['/messages/count_tokens', { model: 'brand-chat', messages }],
};

/** Names and values as routers and clouds send them. */
const HEADERS = [
  'server: canary-server',
  'via: 1.1 canary-edge',
  'x-litellm-model-id: canary-id',
  'x-litellm-model-api-base: https://canary-host',
  'llm_provider-x-request-id: canary',
  'x-ms-region: canary-region',
  'x-ms-deployment-name: canary-deployment',
  'openai-organization: canary-org',
  'openai-project: canary-project',
  'x-portkey-provider: canary',
  'x-request-id: canary-request',
  'set-cookie: canary=1',
  'link: <https://canary>; rel=canary',
  'etag: canary',
  'x-should-retry: canary',
  'retry-after: canary',
  'retry-after-ms: canary',
  'content-language: canary',
  'access-control-allow-origin: https://canary',
  'www-authenticate: Bearer realm=canary',
  'location: https://canary.example/v1',
  'trailer: x-canary',
];

/** Texts an error may hold: names, hosts, the master key, and (ECHO) the prompt. */
const TEXTS = [
  `litellm.BadRequestError: AzureException - model ${MODEL} at https://canary.azure.example/openai refuses`,
  `deployment canary-eu-1 of localhost:${new URL(url).port} said no`,
  `Incorrect API key provided: ${MASTER_KEY}`,
  'Invalid messages: ECHO',
  `Invalid messages: ${JSON.stringify('ECHO')}`,
  'Traceback (most recent call last):\n  File "/app/canary.py", line 1',
  'bad request\nTraceback canary',
  `No deployments available for CANARY-MODEL-7B, fallbacks=[{'${MODEL}': ['azure/canary-model-7b']}]`,
];

/** A usage names models that the gateway never heard of. */
const OTHERS = {
  cost_usd_total: CANARY,
  model: CANARY,
  iterations: [{ type: 'message', model: 'canary-large', input_tokens: 1, output_tokens: 1 }],
};

const reference = {
  id: 'chatcmpl-1',
  object: 'chat.completion',
  created: 1,
  choices: [{ index: 0, message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' }],
  data: [{ object: 'embedding', index: 0, embedding: [0.5] }],
  results: [{ index: 0, relevance_score: 0.5, document: { text: 'Hello' } }],
  // of a response, a message and a count
  output: [{ type: 'message', content: [{ type: 'output_text', text: 'Hello' }] }],
  content: [{ type: 'text', text: 'Hello' }],
  input_tokens: 1,
  usage: {
    prompt_tokens: 1,
    completion_tokens: 1,
    total_tokens: 2,
    input_tokens: 1,
    output_tokens: 1,
    ...OTHERS,
  },
};
const SPOKEN = {
  provider: 'canary',
  _hidden_params: { api_base: 'canary', model_id: 'canary' },
  provider_specific_fields: { deployment: 'canary' },
  _response_headers: { 'x-canary': 'canary' },
  litellm_metadata: { canary: 1 },
  deployment: 'canary',
  openrouter_metadata: { endpoints: [{ model: 'canary' }] },
  debug: { echo_upstream_body: 'canary' },
  extra_fields: {
    provider: 'canary',
    model_deployment: 'canary-large',
    raw_response: { model: 'canary' },
  },
  hook_results: { before_request_hooks: [{ id: 'canary' }] },
  perf_metrics: { deployment: 'canary' },
  vertex_ai_grounding_metadata: ['canary'],
  'amazon-bedrock-invocationMetrics': { inputTokenCount: 1, canary: 1 },
};
/** Values that tell it, in members that no list knows. */
const NESTED = {
  meta: {
    warnings: [`${MODEL} is slow`, `localhost:${new URL(url).port} too`],
    api_version: { model: MODEL },
  },
  by: {
    model: MODEL,
    via: `https://localhost:${new URL(url).port}/v1`,
    [MODEL]: 1,
    list: [`${MODEL}-2024-08-06`],
  },
};
/** What a router adds where the format has members of its own. */
const CHOICE = {
  model: MODEL,
  provider_specific_fields: { deployment: 'canary-model-7b', key: MASTER_KEY },
};
/** Members that are removed wherever they are, with values that no other rule would find. */
const DEEP = {
  provider_specific_fields: { api_base: CANARY },
  provider_metadata: { gateway: { cost: CANARY } },
  _hidden_params: { model_id: CANARY },
  cost: CANARY,
  upstream_cost: CANARY,
  headers: { 'openai-model': CANARY },
  'x-ms-region': CANARY,
  kept: { region: CANARY, list: [{ host: CANARY }, [{ total_cost: CANARY }]] },
};
const DEEP_ANSWER = {
  choices: [
    {
      index: 0,
      message: { role: 'assistant', content: 'Hello', ...DEEP },
      finish_reason: 'stop',
      ...DEEP,
    },
  ],
  data: [{ object: 'embedding', index: 0, embedding: [0.5], ...DEEP }],
  results: [{ index: 0, relevance_score: 0.5, document: { text: 'Hello' }, ...DEEP }],
  meta: {
    api_version: { version: '2', ...DEEP },
    billed_units: { total_tokens: 1, ...DEEP },
    tokens: { input_tokens: 1 },
    ...DEEP,
  },
  output: [
    { type: 'message', content: [{ type: 'output_text', text: 'Hello', ...DEEP }], ...DEEP },
  ],
  content: [{ type: 'text', text: 'Hello', ...DEEP }],
  usage: {
    prompt_tokens: 1,
    completion_tokens: 1,
    total_tokens: 2,
    input_tokens: 1,
    output_tokens: 1,
    iterations: [
      {
        type: 'message',
        input_tokens: 1,
        output_tokens: 1,
        cost: CANARY,
        details: [{ a_cost: CANARY }],
      },
    ],
  },
};
/** Events that providers put between those of the format. */
const FOREIGN = [
  'codex.response.metadata',
  'codex.rate_limits',
  'response.metadata',
  'canary',
  'keepalive',
];
/** The upstream's key and host where the format, or the caller, has words. */
const HOST = `localhost:${new URL(url).port}`;
const WORDS = {
  name: MASTER_KEY,
  type: HOST,
  of: { type: MASTER_KEY, role: HOST, object: 'localhost', name: `x ${MASTER_KEY}` },
};

function stream(...events: string[]): string {
  const head = ['HTTP/1.1 200 canary', 'content-type: text/event-stream; x=canary', ...HEADERS];
  const trailers = 'x-canary: canary\r\nserver-timing: canary\r\n';
  return `${head.join('\r\n')}\r\ntransfer-encoding: chunked\r\n\r\n${events.map(chunk).join('')}0\r\n${trailers}\r\n`;
}
const data = (value: unknown) => `data: ${JSON.stringify(value)}\n\n`;
const TOKEN = { id: 'c', choices: [{ index: 0, delta: { content: 'Hi' }, finish_reason: null }] };
const DONE = `${data({ ...reference, object: 'chat.completion.chunk' })}data: [DONE]\n\n`;

/** An event of a dialect whose events have types; `response` or `message` hold what a whole answer does. */
const typed = (type: string, value: object) => `event: ${type}\n${data({ type, ...value })}`;
const HELD = {
  ...NESTED,
  ...SPOKEN,
  model: MODEL,
  usage: { input_tokens: 1, output_tokens: 1, cost: 'canary', ...OTHERS },
};
const DELTA = {
  item_id: `${MODEL}-1`,
  index: 0,
  delta: { type: 'text_delta', text: 'Hi' },
  ...SPOKEN,
  ...NESTED,
  ...CHOICE,
};
/** The streams of responses and of messages. */
function typedStreams(last: string, delta: string, holder: string): Record<string, string> {
  const begun = typed(holder === 'response' ? 'response.created' : 'message_start', {
    ...SPOKEN,
    [holder]: HELD,
  });
  const deltas = Array.from({ length: 6 }, (_, i) =>
    typed(delta, { sequence_number: i, ...DELTA }),
  );
  const end = typed(last, {
    ...NESTED,
    ...SPOKEN,
    model: 'canary-fallback',
    [holder]: HELD,
    usage: HELD.usage,
  });
  const failure = {
    code: 'canary',
    message: TEXTS[0],
    error: { type: 'canary', message: TEXTS[1] },
  };
  return {
    [`${holder}: a stream`]: stream(
      begun,
      ...deltas,
      'event: canary\n\n: canary\n\n',
      end + data({ after: 'canary' }),
    ),
    [`${holder}: names of events`]: stream(
      begun,
      `event: canary\nid: canary\n${data({ type: delta, delta: 'Hi' })}`.repeat(5),
      `event: canary\n${data({ untyped: 1 })}`,
      end,
    ),
    [`${holder}: events of another format`]: stream(
      begun,
      ...FOREIGN.map((type) => typed(type, DEEP)),
      ...FOREIGN.map((type) => `event: ${type}\n${data(DEEP)}`),
      typed(`response.${MASTER_KEY}.delta`, {}),
      end,
    ),
    [`${holder}: members at any depth`]: stream(
      typed(holder === 'response' ? 'response.created' : 'message_start', {
        [holder]: { ...DEEP_ANSWER, ...DEEP },
      }),
      ...Array.from({ length: 6 }, (_, i) =>
        typed(delta, { ...DELTA, ...DEEP, index: i, delta: { text: 'Hi', ...DEEP } }),
      ),
      typed(holder === 'response' ? 'response.output_item.done' : 'content_block_start', {
        item: { ...DEEP, ...WORDS },
        part: DEEP,
        content_block: { ...DEEP, ...WORDS },
      }),
      typed(last, {
        [holder]: { ...DEEP_ANSWER, ...DEEP, by: WORDS },
        usage: { ...DEEP_ANSWER.usage, ...DEEP },
      }),
    ),
    [`${holder}: in pieces`]: stream(
      ...((begun + deltas.join('') + end).match(/[\s\S]{1,7}/g) ?? []),
    ),
    [`${holder}: an error`]: stream(begun, ...deltas, typed('error', failure)),
    [`${holder}: an error by name`]: stream(begun, `event: error\n${data({ message: TEXTS[2] })}`),
    [`${holder}: an error at once`]: stream(typed('error', { code: 'canary', message: TEXTS[3] })),
    [`${holder}: a failure`]: stream(
      begun,
      typed('response.failed', { [holder]: { ...HELD, error: failure } }),
    ),
    [`${holder}: no end`]: stream(begun, ...deltas),
  };
}

const plays: Record<string, string | Buffer | null | ((asked: string) => Buffer)> = {
  'an honest answer': httpAnswer(
    200,
    'application/json; x=canary',
    JSON.stringify({ model: MODEL, ...reference, ...SPOKEN }),
    HEADERS,
  ),
  'names in values': httpAnswer(
    200,
    'application/json',
    JSON.stringify({
      model: MODEL,
      ...reference,
      choices: [{ ...reference.choices[0], ...CHOICE }],
      usage: { ...reference.usage, cost: 'canary', cost_details: { upstream: 'canary' } },
      ...NESTED,
    }).replaceAll('azure/', 'azure\\/'),
  ),
  'members at any depth': httpAnswer(
    200,
    'application/json',
    JSON.stringify({ ...reference, ...DEEP_ANSWER, ...DEEP, by: WORDS }),
    HEADERS,
  ),
  'a stream with members at any depth': stream(
    ...Array.from({ length: 6 }, (_, i) =>
      data({
        choices: [
          { index: 0, delta: { content: `Hi ${i}`, ...DEEP }, finish_reason: null, ...DEEP },
        ],
        by: WORDS,
      }),
    ),
    ...FOREIGN.map((type) => typed(type, DEEP)),
    ...FOREIGN.map((type) => `event: ${type}\n${data(DEEP)}`),
    data({ ...DEEP_ANSWER, ...DEEP }) + DONE,
  ),
  'another model': httpAnswer(
    200,
    'application/json',
    JSON.stringify({ ...SPOKEN, ...reference, model: 'canary-fallback' }),
    HEADERS,
  ),
  'model in escapes': httpAnswer(
    200,
    'application/json',
    `{"mod\\u0065l":"canary","provid\\u0065r":"canary",${JSON.stringify(reference).slice(1)}`,
  ),
  'early hints': `HTTP/1.1 103 canary\r\nlink: <canary>\r\n\r\n${httpAnswer(200, 'application/json', JSON.stringify(reference), HEADERS)}`,
  'a stream': stream(
    ': canary processing\n\n',
    `event: canary\nid: canary\nretry: 1\ncanary: canary\n${data({ model: MODEL, ...TOKEN, ...SPOKEN })}`,
    data({ ...SPOKEN, ...TOKEN, model: 'canary-fallback' }),
    'event: canary\n\n',
    DONE + data({ model: 'canary', after: 'canary' }),
  ),
  'a stream with names in values': stream(
    ...Array.from({ length: 6 }, (_, i) =>
      data({
        id: `${MODEL}-${i}`,
        model: MODEL,
        choices: [{ index: 0, delta: { content: `Hi ${i}` }, finish_reason: null, ...CHOICE }],
        ...NESTED,
        usage: {
          prompt_tokens: 1,
          completion_tokens: i,
          cost: 'canary',
          cost_details: { canary: 1 },
        },
      }),
    ),
    DONE,
  ),
  'a stream of one event in pieces': stream(
    ...(`data: {"provider":"canary","mod\\u0065l":"canary",\ndata: ${JSON.stringify(TOKEN).slice(1)}\n\n${DONE}`.match(
      /[\s\S]{1,7}/g,
    ) ?? []),
  ),
  'a stream that ends in an error': stream(
    data({ model: MODEL, ...TOKEN }),
    data({ error: { message: TEXTS[0], type: 'canary', code: 'canary' } }),
  ),
  'a stream that ends in no JSON': stream(
    data({ model: MODEL, ...TOKEN }),
    `data: ${TEXTS[3]}\n\n`,
  ),
  'a named error': stream(
    data({ model: MODEL, ...TOKEN }),
    `event: error\ndata: ${JSON.stringify({ canary: TEXTS[4] })}\n\n`,
  ),
  'a bare error line': stream(
    data({ model: MODEL, ...TOKEN }),
    `${JSON.stringify({ error: { message: TEXTS[1] } })}\n\n`,
  ),
  'a field line error': stream(
    data({ model: MODEL, ...TOKEN }),
    `error: ${JSON.stringify({ message: TEXTS[2] })}\n\n`,
  ),
  'a stream that stops': stream(data({ model: MODEL, ...TOKEN })).replace(
    /0\r\nx-canary[\s\S]*$/,
    '',
  ),
  'an HTML page': httpAnswer(200, 'text/html', '<h1>canary</h1>', HEADERS),
  'a redirect': httpAnswer(302, 'text/html', 'canary', HEADERS),
  'a wrong answer': httpAnswer(200, 'application/json', '{"canary":"canary"}', HEADERS),
  'an error in a 200': httpAnswer(
    200,
    'application/json',
    JSON.stringify({ error: TEXTS[0] }),
    HEADERS,
  ),
  'no HTTP': 'canary canary\r\n\r\n',
  silence: null,
  ...typedStreams('response.completed', 'response.output_text.delta', 'response'),
  ...typedStreams('message_stop', 'content_block_delta', 'message'),
};
for (const status of [400, 401, 403, 404, 408, 413, 418, 422, 429, 451, 500, 502, 503, 529]) {
  // statuses that may quote the upstream get every text, the others one of each shape
  const texts = [400, 413, 422].includes(status) ? TEXTS : TEXTS.slice(0, 4);
  texts.forEach((message, i) => {
    const shapes = [
      {
        error: {
          message,
          type: 'canary',
          code: 'canary',
          param: 'canary',
          provider_specific_fields: 'canary',
        },
      },
      { error: message, canary: 'canary' },
      { detail: message },
      { message, request_id: 'canary' },
    ];
    const text = JSON.stringify(shapes[i % 4]);
    plays[`status ${status}, text ${i}`] = (asked) =>
      httpAnswer(
        status,
        'application/json',
        text.replaceAll('ECHO', JSON.stringify(asked).slice(1, -1)),
        HEADERS,
      );
  });
  const listed = [
    {
      type: 'canary',
      loc: ['body', 'canary', 'canary-model-7b'],
      msg: 'Field required',
      input: 'canary',
    },
  ];
  const wrapped = `Error code: 400 - {'error': {'message': 'bad', 'param': 'canary', 'code': 'canary'}}`;
  for (const [i, body] of [
    { detail: listed },
    {
      error: {
        message: `litellm.BadRequestError: ${JSON.stringify(listed)}`,
        param: 'messages[0].canary',
      },
    },
    {
      error: {
        message: wrapped,
        param: 'messages[0].content.canary',
        code: 'invalid_value canary',
      },
    },
  ].entries()) {
    plays[`status ${status}, members ${i}`] = httpAnswer(
      status,
      'application/json',
      JSON.stringify(body),
      HEADERS,
    );
  }
  plays[`status ${status}, plain`] = httpAnswer(status, 'text/plain', 'canary down', HEADERS);
}

function clean(t: Test, name: string, text: string): void {
  if (new RegExp(`${CANARY}|${MASTER_KEY}|Traceback`, 'i').test(text)) t.fail(`${name}: ${text}`);
  if (text.includes('localhost')) t.fail(`${name} names the host: ${text}`);
}

t.test('no byte of what stands behind reaches a client', async (t) => {
  for (const [name, bytes] of Object.entries(plays)) {
    upstream.answer((socket: Socket, request) => {
      const asked = request.includes('treasure') ? `${PROMPT} after ${SYSTEM}` : PROMPT;
      if (bytes !== null) socket.write(typeof bytes === 'function' ? bytes(asked) : bytes);
      if (/stops|no HTTP|in no JSON/.test(name)) socket.end();
    });
    // what no other dialect knows is for its own endpoint alone
    const [own] = /^(?:response|message)(?=:)/.exec(name) ?? [''];
    const calls = Object.entries(CALLS).filter(([kind]) => kind.startsWith(own));
    const answers = calls.map(async ([kind, [path, body]]) => {
      const text = JSON.stringify(body);
      const head = [
        `POST /v1${path} HTTP/1.1`,
        'host: x',
        `authorization: Bearer ${key}`,
        'content-type: application/json',
        'connection: close',
        `content-length: ${Buffer.byteLength(text)}`,
      ];
      const answer = await speak(gateway.url, [`${head.join('\r\n')}\r\n\r\n${text}`]);
      if (answer.status < 200) t.fail(`${kind}, ${name}: no answer`);
      clean(t, `${kind}, ${name}`, answer.text);
    });
    await Promise.all(answers);
  }
  t.pass(`${Object.keys(plays).length} surfaces, ${Object.keys(CALLS).length} endpoints`);
});

t.test('an unreachable upstream is not named either', async (t) => {
  for (const address of [
    'http://canary.invalid/v1',
    'http://localhost:1/v1',
    'https://localhost:1/v1',
  ]) {
    const other = await startGateway(t, address, { CONNECT_SECONDS: '1' });
    const company = await other.company();
    await other.model('brand-chat', { upstream: MODEL, company });
    const key = await other.key(company);
    const body = { model: 'brand-chat', messages };
    const answer = await ask(`${other.url}/chat/completions`, { key, body });
    t.equal(answer.status, 503);
    clean(t, address, `${[...answer.headers]} ${answer.text}`);
  }
});

t.test('no metric names the upstream, a key or a company', async (t) => {
  const { text } = await ask(`${gateway.adminUrl}/metrics`);
  t.match(text, /tollgate_requests_total/);
  clean(t, 'metrics', text);
  t.notOk(text.includes(company));
  t.notOk(text.includes('svc_'));
});

t.test('keys and prompts are in no log line of any level', async (t) => {
  const log = gateway.logged.join('');
  t.match(log, /"reason":"status 400/, 'the reasons are');
  t.match(log, /canary-model-7b/, 'they may name the model');
  t.match(log, /ECONN|getaddrinfo|too slow/, 'so is why nothing came');
  t.notOk(log.includes(MASTER_KEY), 'master key');
  t.notOk(log.includes(key), 'company key');
  t.notOk(log.includes(key.slice(8)), 'the secret part of it');
  for (const words of [
    'secret diary',
    'fourth of July',
    'unicorn',
    'treasure',
    'hidden valley',
    'where it lies',
  ]) {
    t.notOk(log.includes(words), `prompt: ${words}`);
  }
});

t.test('a prompt too long to compare with is not quoted either', async (t) => {
  const long = `${'word '.repeat(6000)}${PROMPT}`;
  upstream.answer(
    (socket) =>
      void socket.write(
        httpAnswer(
          400,
          'application/json',
          JSON.stringify({ error: { message: `Invalid: ${PROMPT}` } }),
        ),
      ),
  );
  const answer = await ask(`${gateway.url}/chat/completions`, {
    key,
    body: { model: 'brand-chat', messages: [{ role: 'user', content: long }] },
  });
  t.equal(answer.status, 400);
  t.notOk(gateway.logged.join('').includes('diary'));
});
