import type { ServerResponse } from 'node:http';
import t, { type Test } from 'tap';
import { type Answer, ask } from '../../support/client.ts';
import { startGateway } from '../../support/gateway.ts';
import { OTHERS, OVERFLOWS } from '../../support/overflows.ts';
import { scriptedUpstream } from '../../support/upstream.ts';

/** An error told inside a 200 is what the same words are by status, told by what the clients of each dialect read. */

const upstream = await scriptedUpstream(t);
const gateway = await startGateway(t, upstream.url);
await gateway.model('fast', { upstream: 'internal-fast', input: '1', output: '2' });
const company = await gateway.company();
const key = await gateway.key(company);

const typed = (type: string, more: object) =>
  `event: ${type}\ndata: ${JSON.stringify({ type, ...more })}\n\n`;
const chunk = (delta: object) =>
  `data: ${JSON.stringify({ model: 'internal-fast', choices: [{ index: 0, delta }] })}\n\n`;

interface Told {
  readonly type?: string;
  readonly code: string | null;
  readonly message: string;
}

interface Dialect {
  readonly path: string;
  readonly body: object;
  /** Events without generated text, and one with it. */
  readonly begun: string;
  readonly text: string;
  /** The event by which the upstream tells an error, in the dialect's own way, and other ways. */
  readonly events: readonly ((error: object) => string)[];
  /** What a client reads in the last event. */
  read(last: string): Told;
  /** The code or the type in that event, by the name of the error in the table. */
  readonly names: Readonly<Record<string, string | null>>;
}

const REFERENCE_NAMES = {
  context_length_exceeded: 'context_length_exceeded',
  invalid_request: null,
  rate_limit_exceeded: 'rate_limit_exceeded',
  service_unavailable: 'service_unavailable',
  upstream_error: 'upstream_error',
  upstream_timeout: 'upstream_timeout',
  request_too_large: 'request_too_large',
};
const text = (text: string) =>
  `data: ${JSON.stringify({ model: 'internal-fast', choices: [{ index: 0, text, finish_reason: null }] })}\n\n`;
const data = (last: string) => JSON.parse(last.slice(last.indexOf('data: ') + 6));
const DIALECTS: Readonly<Record<string, Dialect>> = {
  chat: {
    path: '/chat/completions',
    body: { messages: [{ role: 'user', content: 'x' }] },
    begun: chunk({ role: 'assistant' }),
    text: chunk({ content: 'Hel' }),
    events: [
      (error) => `data: ${JSON.stringify({ error })}\n\n`,
      (error) => `event: error\ndata: ${JSON.stringify(error)}\n\n`,
      (error) =>
        `data: ${JSON.stringify({ model: 'x', choices: [{ index: 0, delta: {}, error }] })}\n\n`,
      (error) => `error: ${JSON.stringify(error)}\n\n`,
      (error) => `${JSON.stringify({ error })}\n\n`,
      (error) => `data: ${JSON.stringify({ object: 'error', ...error })}\n\n`,
      (error) => `data: ${JSON.stringify([{ error }])}\n\n`,
    ],
    read: (last) => data(last).error,
    names: REFERENCE_NAMES,
  },
  completions: {
    path: '/completions',
    body: { prompt: 'x' },
    begun: text(''),
    text: text('Hel'),
    events: [
      (error) => `data: ${JSON.stringify({ error })}\n\n`,
      (error) =>
        `data: ${JSON.stringify({ model: 'x', choices: [{ index: 0, text: '', error }] })}\n\n`,
    ],
    read: (last) => data(last).error,
    names: REFERENCE_NAMES,
  },
  responses: {
    path: '/responses',
    body: { input: 'x' },
    begun: typed('response.created', {
      response: { id: 'resp_7', model: 'internal-fast', output: [] },
      sequence_number: 0,
    }),
    text: typed('response.output_text.delta', { delta: 'Hel', sequence_number: 1 }),
    events: [
      (error) =>
        typed('response.failed', {
          response: { id: 'resp_7', status: 'failed', error, usage: null },
        }),
      (error) => typed('error', { error }),
      (error) => typed('error', { sequence_number: 3, param: null, ...error }),
      (error) => `data: ${JSON.stringify({ error })}\n\n`,
    ],
    read: (last) => {
      t.match(last, /^event: response\.failed\n/);
      const { type, sequence_number, response } = data(last);
      const { id, status, model, output, error } = response;
      t.match(
        { type, sequence_number, id, status, model, output },
        {
          type: 'response.failed',
          sequence_number: Number,
          id: /^resp_(?:7|[0-9a-f]{32})$/,
          status: 'failed',
          model: 'fast',
          output: [],
        },
      );
      return error;
    },
    names: {
      context_length_exceeded: 'context_length_exceeded',
      invalid_request: 'invalid_prompt',
      rate_limit_exceeded: 'rate_limit_exceeded',
      service_unavailable: 'server_is_overloaded',
      upstream_error: 'server_error',
      upstream_timeout: 'server_error',
      request_too_large: 'invalid_prompt',
    },
  },
  messages: {
    path: '/messages',
    body: { messages: [{ role: 'user', content: 'x' }], max_tokens: 9 },
    begun: typed('message_start', {
      message: { model: 'internal-fast', usage: { input_tokens: 3, output_tokens: 0 } },
    }),
    text: typed('content_block_delta', { index: 0, delta: { type: 'text_delta', text: 'Hel' } }),
    events: [
      (error) => typed('error', { error }),
      (error) => `event: error\ndata: ${JSON.stringify(error)}\n\n`,
    ],
    read: (last) => {
      t.match(last, /^event: error\n/);
      const { type, error } = data(last);
      t.equal(type, 'error');
      return { code: error.type, message: error.message };
    },
    names: {
      context_length_exceeded: 'invalid_request_error',
      invalid_request: 'invalid_request_error',
      rate_limit_exceeded: 'rate_limit_error',
      service_unavailable: 'overloaded_error',
      upstream_error: 'api_error',
      upstream_timeout: 'timeout_error',
      request_too_large: 'request_too_large',
    },
  },
};

/** A row of the error table: its status, and what an answer tells of it besides. */
const STATUSES: Readonly<Record<string, number>> = {
  context_length_exceeded: 400,
  invalid_request: 400,
  rate_limit_exceeded: 429,
  service_unavailable: 503,
  upstream_error: 502,
  upstream_timeout: 504,
  request_too_large: 413,
};

const post = (dialect: Dialect, stream: boolean) =>
  ask(gateway.url + dialect.path, { key, body: { model: 'fast', ...dialect.body, stream } });

const whole = (value: unknown) => (res: ServerResponse) =>
  void res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(value));
const streamed = (events: string) => (res: ServerResponse) =>
  void res.writeHead(200, { 'content-type': 'text/event-stream' }).end(events);

/** The error of an answer whose status is not 200, in any dialect. */
const codeOf = ({ json }: Answer) =>
  json.error.code ?? (json.type === 'error' ? json.error.type : null);

/** The ways to tell an error inside a 200, and what a client gets for it. */
async function told(t: Test, error: object, name: string, what: string): Promise<void> {
  for (const [title, dialect] of Object.entries(DIALECTS)) {
    const status = STATUSES[name] as number;
    const byStatus = title === 'messages' ? dialect.names[name] : DIALECTS.chat?.names[name];
    const isStatus = (answer: Answer, where: string) => {
      t.same([answer.status, codeOf(answer)], [status, byStatus], `${title}, ${where}: ${what}`);
      t.notMatch(answer.text, 'internal');
      // nothing ran that is known of: 4xx, 429 and 503 say by their status whether to try again
      t.equal(
        answer.headers.get('x-should-retry'),
        status === 502 || status === 504 ? 'false' : null,
        what,
      );
      if (status === 503) t.match(answer.headers.get('retry-after'), /^\d+$/, what);
    };
    for (const value of [{ error }, { type: 'error', error }]) {
      upstream.answer(whole(value));
      isStatus(await post(dialect, false), 'whole');
      isStatus(await post(dialect, true), 'whole, for a stream');
    }
    for (const [n, event] of dialect.events.entries()) {
      upstream.answer(streamed(event(error)));
      const first = await post(dialect, true);
      if (title === 'responses') isEvent(first, `first event ${n}`);
      else isStatus(first, `first event ${n}`);
      upstream.answer(streamed(dialect.begun + dialect.text + event(error)));
      isEvent(await post(dialect, true), `event ${n}`);
    }
    function isEvent(answer: Answer, where: string): void {
      t.equal(answer.status, 200);
      const last = answer.text.trimEnd().split('\n\n').at(-1) as string;
      const { code, message } = dialect.read(last);
      t.equal(code, dialect.names[name], `${title}, ${where}: ${what}`);
      t.match(message, /\w{3}/);
      t.notMatch(answer.text, /internal|response\.completed|message_stop|DONE/);
      if (title === 'messages' && name === 'context_length_exceeded')
        t.match(message, 'prompt is too long');
    }
  }
}

t.test('every class, in every dialect, whole, as the first event and after text', async (t) => {
  for (const [error, name] of [
    [
      { code: 'context_length_exceeded', message: 'internal-fast takes less' },
      'context_length_exceeded',
    ],
    [{ code: 400, message: 'internal-fast: top_p must be below 1' }, 'invalid_request'],
    [{ code: '422', message: 'bad' }, 'invalid_request'],
    [{ code: 'invalid_argument', message: 'Invalid prompt: it was flagged.' }, 'invalid_request'],
    [{ type: 'invalid_request_error', message: 'bad' }, 'invalid_request'],
    [{ type: 'BadRequestError', message: 'bad', code: 400 }, 'invalid_request'],
    [{ status: 'INVALID_ARGUMENT', message: 'bad' }, 'invalid_request'],
    [
      {
        message: 'image input is not supported - hint: you may need to provide the mmproj',
        code: 500,
      },
      'invalid_request',
    ],
    [{ code: 413, message: 'big' }, 'request_too_large'],
    [{ code: 429, message: 'internal' }, 'rate_limit_exceeded'],
    [{ code: '429', message: 'litellm.RateLimitError: internal' }, 'rate_limit_exceeded'],
    [
      { code: 'rate_limit_exceeded', type: 'tokens', message: 'Please try again in 1.5s.' },
      'rate_limit_exceeded',
    ],
    [{ type: 'rate_limit_error', message: 'internal' }, 'rate_limit_exceeded'],
    [{ message: 'litellm.RateLimitError: internal' }, 'rate_limit_exceeded'],
    [{ status: 'RESOURCE_EXHAUSTED', message: 'internal' }, 'rate_limit_exceeded'],
    [{ type: 'overloaded_error', message: 'Overloaded' }, 'service_unavailable'],
    [{ code: 'server_is_overloaded', message: 'internal' }, 'service_unavailable'],
    [{ code: 'slow_down', message: 'internal' }, 'service_unavailable'],
    [{ code: 503, message: 'Loading model', type: 'unavailable_error' }, 'service_unavailable'],
    [{ code: 529, message: 'internal' }, 'service_unavailable'],
    [
      { code: 500, message: 'The engine is currently overloaded, please try again later' },
      'service_unavailable',
    ],
    [{ code: 408, message: 'internal' }, 'upstream_timeout'],
    // of the operator's key and account: no caller is to take them for his own
    [{ code: 'insufficient_quota', message: 'You exceeded your current quota.' }, 'upstream_error'],
    [
      { code: 429, type: 'insufficient_quota', message: 'You exceeded your current quota.' },
      'rate_limit_exceeded',
    ],
    [{ code: 402, message: 'Insufficient credits' }, 'upstream_error'],
    [{ code: 401, message: 'bad key' }, 'upstream_error'],
    [{ type: 'authentication_error', message: 'bad key' }, 'upstream_error'],
    [
      { code: 'model_not_found', message: 'The model `internal-fast` does not exist' },
      'upstream_error',
    ],
    [{ code: 404, message: 'internal' }, 'upstream_error'],
    [{ code: 'server_error', message: 'internal' }, 'upstream_error'],
    [{ code: 500, message: 'internal' }, 'upstream_error'],
    [{ code: 'x', message: 'internal' }, 'upstream_error'],
  ] as const) {
    await told(t, error, name, JSON.stringify(error));
  }
  t.equal(
    (await gateway.ledger(company, 0)).filter(({ outcome }) => outcome === 'completed').length,
    0,
  );
});

t.test('every wording of an input that is too long, and none that is another', async (t) => {
  const told = async (body: unknown, what: string, isOverflow: boolean) => {
    for (const [title, dialect] of Object.entries(DIALECTS)) {
      const outer = (Array.isArray(body) ? body[0] : body) as {
        error?: object;
        errors?: readonly object[];
      };
      const error = outer.error ?? outer.errors?.[0] ?? outer;
      upstream.answer(whole(body !== null && 'error' in (body as object) ? body : { error }));
      const answer = await post(dialect, false);
      const isTold =
        answer.json.error.code === 'context_length_exceeded' ||
        /prompt is too long/.test(answer.text);
      t.equal(isTold, isOverflow, `${title}, whole: ${what}: ${answer.text}`);
      if (typeof error === 'string') continue;
      upstream.answer(
        streamed(
          dialect.begun + dialect.text + (dialect.events[0] as (error: object) => string)(error),
        ),
      );
      const { code, message } = dialect.read(
        (await post(dialect, true)).text.trimEnd().split('\n\n').at(-1) as string,
      );
      t.equal(
        code === 'context_length_exceeded' || /prompt is too long/.test(message),
        isOverflow,
        `${title}: ${what}`,
      );
    }
  };
  for (const { source, body } of OVERFLOWS) await told(body, source, true);
  for (const [text, code] of OTHERS) await told({ error: { message: text, code } }, text, false);
});

t.test(
  'how long to wait is told by header and words, from wherever the upstream tells it',
  async (t) => {
    const chat = DIALECTS.chat as Dialect;
    for (const [error, wait] of [
      [{ code: 429, message: 'Rate limit reached. Please try again in 11.054s. Visit x.' }, '12'],
      [{ code: 429, message: 'Please retry after 20 seconds.' }, '20'],
      [{ code: 429, message: 'Please try again in 1m30.5s.' }, '91'],
      [{ code: 429, message: 'Please try again in 350ms.' }, '1'],
      [{ code: 429, message: 'Please try again in 2 minutes' }, '120'],
      [{ code: 429, message: 'x', retry_after: 7 }, '7'],
      [
        {
          code: 429,
          status: 'RESOURCE_EXHAUSTED',
          message: 'x',
          details: [{ '@type': 'RetryInfo', retryDelay: '9s' }],
        },
        '9',
      ],
      [{ code: 429, message: 'x', metadata: { retry_after_seconds: 4.2 } }, '5'],
      [{ code: 503, message: 'Model is currently loading', estimated_time: 20.5 }, '21'],
      [
        {
          code: 429,
          message: 'You exceeded your current quota. Please retry in 3.5s.',
          type: 'insufficient_quota',
        },
        '4',
      ],
      [{ code: 429, message: 'x' }, null],
      [{ code: 429, message: 'Please try again in 99999999s.' }, null],
      [{ code: 400, message: 'Please try again in 9s.' }, null],
    ] as const) {
      for (const [status, value] of [
        [200, { error }],
        [error.code, { error }],
      ] as const) {
        upstream.answer(
          (res) =>
            void res
              .writeHead(status, { 'content-type': 'application/json' })
              .end(JSON.stringify(value)),
        );
        const answer = await post(chat, false);
        t.equal(answer.status, error.code);
        t.equal(answer.headers.get('retry-after'), wait, `${status}: ${error.message}`);
        if (wait !== null && error.code === 429)
          t.match(answer.json.error.message, `Try again in ${wait} seconds.`);
      }
    }
    upstream.answer((res) => {
      res.writeHead(200, { 'content-type': 'text/event-stream', 'retry-after': '33' });
      res.end('data: {"error":{"code":503}}\n\n');
    });
    t.equal((await post(chat, true)).headers.get('retry-after'), '33');
  },
);

t.test('where something ran, the class stays, and no client tries again by itself', async (t) => {
  const chat = DIALECTS.chat as Dialect;
  for (const code of [429, 503]) {
    upstream.answer(
      whole({ error: { code, message: 'x' }, usage: { prompt_tokens: 3, completion_tokens: 5 } }),
    );
    const answer = await post(chat, false);
    t.equal(answer.status, code);
    t.equal(answer.headers.get('x-should-retry'), 'false');
  }
});

t.test('what a model wrote is no error, whatever it says', async (t) => {
  const text = "This model's maximum context length is 8192 tokens. Rate limit. Overloaded.";
  const cut = JSON.stringify({
    model: 'internal-fast',
    choices: [{ index: 0, message: { content: text } }],
  }).slice(0, -4);
  for (const [title, dialect] of Object.entries(DIALECTS)) {
    upstream.answer(
      (res) => void res.writeHead(200, { 'content-type': 'application/json' }).end(cut),
    );
    t.equal((await post(dialect, false)).status, 502, title);
    t.equal((await post(dialect, true)).status, 502, title);
    upstream.answer(
      streamed(
        `${dialect.begun + dialect.text.replace('Hel', text.replaceAll("'", ''))}data: ${cut}\n\n`,
      ),
    );
    const last = (await post(dialect, true)).text.trimEnd().split('\n\n').at(-1) as string;
    t.equal(dialect.read(last).code, dialect.names.upstream_error, title);
  }
});

t.test(
  'a call that failed inside a 200 is not booked, nor one whose stream failed after text without a usage',
  async (t) => {
    for (const [title, dialect] of Object.entries(DIALECTS)) {
      const own = await gateway.company();
      const ownKey = await gateway.key(own);
      const event = (dialect.events[0] as (error: object) => string)({ code: 503, message: 'x' });
      const body = { model: 'fast', ...dialect.body, stream: true };
      upstream.answer(streamed(dialect.begun + event));
      await ask(gateway.url + dialect.path, { key: ownKey, body });
      upstream.answer(streamed(dialect.begun + dialect.text + event));
      await ask(gateway.url + dialect.path, { key: ownKey, body });
      // messages tell the prompt's tokens at the beginning: what was generated until the failure is charged
      const rows = await gateway.ledger(own, title === 'messages' ? 1 : 0);
      t.same(
        rows.map(({ outcome }) => outcome),
        title === 'messages' ? ['upstream_failed'] : [],
        title,
      );
    }
  },
);

t.test(
  'a stream whose bytes are not UTF-8 is broken in every dialect, wherever it is cut',
  async (t) => {
    for (const [title, dialect] of Object.entries(DIALECTS)) {
      const bad = Buffer.from(dialect.text.replace('Hel', 'H\xff\xc0l'), 'latin1');
      const good = Buffer.from(dialect.begun + dialect.text.replace('Hel', 'Häl€😀'));
      const bytes = Buffer.concat([good, bad]);
      for (const cut of [
        good.length,
        good.length + 5,
        good.indexOf(0xe2) + 1,
        good.indexOf(0xf0) + 2,
        bytes.length - 8,
      ]) {
        upstream.answer((res) => {
          res.writeHead(200, { 'content-type': 'text/event-stream' });
          res.write(bytes.subarray(0, cut), () => setImmediate(() => res.end(bytes.subarray(cut))));
        });
        const { text } = await post(dialect, true);
        t.match(text, 'Häl€😀', `${title}, ${cut}`);
        t.notMatch(text, '\ufffd', `${title}, ${cut}`);
        const { code } = dialect.read(text.trimEnd().split('\n\n').at(-1) as string);
        t.equal(code, dialect.names.upstream_error, `${title}, ${cut}`);
      }
    }
  },
);

const USAGE = `data: ${JSON.stringify({ model: 'internal-fast', choices: [], usage: { prompt_tokens: 3, completion_tokens: 5, total_tokens: 8 } })}\n\n`;
/** The words at which agents ask again by themselves, from the sources of pi 0.73 and Continue 1.5. */
const PI =
  /overloaded|rate.?limit|too many requests|429|500|502|503|504|service.?unavailable|server.?error|internal.?error|network.?error|connection.?(?:error|refused|lost)|other side closed|fetch failed|terminated/i;
const CONTINUE = /premature close|premature end|connection reset|socket hang up|aborted|overloaded/;

t.test(
  'a stream that broke and costs nothing says so in words at which agents ask again, one that is charged does not',
  async (t) => {
    const ends: readonly ((res: ServerResponse) => void)[] = [
      (res) => res.end(),
      (res) => res.destroy(),
    ];
    for (const [title, dialect] of Object.entries(DIALECTS)) {
      // a message tells the tokens of its prompt at once, and is charged for them
      const begun = dialect.begun.replace(/,"usage":\{[^}]*\}/, '');
      const lastOf = async (events: string, end: (res: ServerResponse) => void) => {
        upstream.answer((res) => {
          res.writeHead(200, { 'content-type': 'text/event-stream' });
          res.write(events, () => end(res));
        });
        const { text } = await post(dialect, true);
        return dialect.read(text.trimEnd().split('\n\n').at(-1) as string).message;
      };
      for (const end of ends) {
        const message = await lastOf(begun + dialect.text, end);
        t.match(message, PI, title);
        t.match(message, CONTINUE, title);
      }
      const broke = (dialect.events[0] as (error: object) => string)({
        code: 'server_error',
        message: 'internal',
      });
      t.match(await lastOf(begun + dialect.text + broke, (res) => res.end()), PI, `${title}, told`);
      if (title === 'responses') continue; // their usage comes with the end
      const usage =
        title !== 'messages'
          ? USAGE
          : typed('message_delta', { delta: {}, usage: { output_tokens: 5 } });
      for (const end of ends) {
        const message = await lastOf(dialect.begun + dialect.text + usage, end);
        t.equal(message, 'The model failed to answer.', `${title}, charged`);
        t.notMatch(message, PI);
      }
    }
  },
);
