import { randomBytes } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Test } from 'tap';
import { type Answer, type Ask, ask, open } from '../support/client.ts';
import { startGateway, type TestGateway } from '../support/gateway.ts';
import { until } from '../support/until.ts';
import { type Scripted, scriptedUpstream } from '../support/upstream.ts';

/** What the tests that all dialects share know of one. */
export interface Dialect {
  /** In the ledger. */
  readonly endpoint: string;
  readonly path: string;
  /** The least of a body, without its model. */
  readonly body: object;
  /** The member that bounds the answer. */
  readonly limit: string;
  /** A whole answer of the model `internal-fast`, with a usage of 7 and 3 tokens. */
  readonly answer: object;
  /** The same as a stream; the first two events bring no text. */
  readonly events: readonly string[];
  /** The prompt tokens of the first events; null if they tell none. */
  readonly toldPrompt: number | null;
  /** What an error body matches. */
  error(type: string, code: string | null): object;
  /** What the event that ends a broken stream is. */
  readonly errorEvent: RegExp;
}

/** A gateway with an upstream of a test's own, and one model: 1 and 2 EUR for 1000 tokens. */
export interface Stage {
  readonly dialect: Dialect;
  readonly upstream: Scripted;
  readonly gateway: TestGateway;
  /** A company of its own per test: its ledger is then only about that test. */
  newClient(settings?: Parameters<TestGateway['company']>[0]): Promise<Client>;
}

export interface Client {
  readonly company: string;
  readonly key: string;
  /** Posts a body, or the least of one with more members. */
  post(more?: object | string, ask?: Ask): Promise<Answer>;
  stream(signal?: AbortSignal): Promise<Response>;
}

export async function openStage(t: Test, dialect: Dialect): Promise<Stage> {
  const upstream = await scriptedUpstream(t);
  const gateway = await startGateway(t, upstream.url, { MAX_BODY_BYTES: '1000000' });
  await gateway.model('fast', { upstream: 'internal-fast', input: '1', output: '2' });
  await gateway.model('far', { upstream: 'internal-far', eu: false });
  await gateway.model('vectors', { upstream: 'internal-vectors', kind: 'embedding' });
  const url = gateway.url + dialect.path;
  return {
    dialect,
    upstream,
    gateway,
    async newClient(settings) {
      const company = await gateway.company(settings);
      const key = await gateway.key(company);
      const body = { model: 'fast', ...dialect.body };
      return {
        company,
        key,
        post: (more = {}, asked = {}) =>
          ask(url, { key, body: typeof more === 'string' ? more : { ...body, ...more }, ...asked }),
        stream: (signal) =>
          open(url, { key, body: { ...body, stream: true }, ...(signal && { signal }) }),
      };
    },
  };
}

export function answerJson({ upstream }: Stage, value: unknown, status = 200): void {
  upstream.answer(
    (res) =>
      void res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value)),
  );
}

export function answerEvents({ upstream }: Stage, events: readonly string[]): void {
  upstream.answer((res) => void res.writeHead(200, HEAD).end(events.join('')));
}

const HEAD = { 'content-type': 'text/event-stream' };
const renamed = (text: string) => text.replaceAll('internal-fast', 'fast');

/** The tests that all dialects share. */
export function testDialect(t: Test, stage: Stage): void {
  testAnswers(t, stage);
  testGates(t, stage);
  testFailures(t, stage);
  testAborts(t, stage);
  testBounds(t, stage);
}

/** What a call can use at most, whatever it calls its limit and whatever the upstream tells. */
export function testBounds(t: Test, stage: Stage): void {
  const { dialect, gateway, newClient } = stage;
  const { answer, events, limit } = dialect;
  /** The answer as the upstream would tell another usage of it. */
  const telling = (text: string, prompt: string, completion: string): string =>
    text
      .replace(/"(prompt|input)_tokens":\d/g, `"$1_tokens":${prompt}`)
      .replace(/"(completion|output)_tokens":3/g, `"$1_tokens":${completion}`);

  t.test(
    'a strict budget reserves the largest limit that an engine may read, in any spelling',
    async (t) => {
      const { company, post } = await newClient({ budget: '1' }); // 500 tokens of an answer
      await gateway.sql`update companies set budget_mode = 'strict' where id = ${company}`;
      answerJson(stage, answer);
      const others: object[] = [
        ...[
          'max_tokens',
          'max_completion_tokens',
          'max_output_tokens',
          'max_new_tokens',
          'num_predict',
          'max_length',
        ]
          .filter((name) => name !== limit)
          .map((name) => ({ [name]: 100_000 })),
        { maxOutputTokens: 100_000 },
      ];
      for (const more of others) {
        t.equal((await post({ [limit]: 10, ...more })).status, 402, JSON.stringify(more));
      }
      for (const more of [
        { generation_config: { max_new_tokens: 100_000 } },
        { num_return_sequences: 100 },
      ]) {
        t.equal(
          (await post({ [limit]: 10, ...more })).status,
          400,
          `${JSON.stringify(more)} is refused as such`,
        );
      }
      t.equal((await post({ [limit]: 10, max_length: 20 })).status, 200);
      const twice = `{"model":"fast","max_new_tokens":9,"max_new_tokens":100000,${JSON.stringify({ ...dialect.body, [limit]: 9 }).slice(1)}`;
      t.equal((await post(twice)).status, 400, 'engines may read the first');
      for (const more of [
        { max_length: '100000' },
        { num_predict: -1 },
        { generation_config: { max_tokens: 1.5 } },
      ]) {
        t.match(
          await post({ [limit]: 10, ...more }),
          { status: 400 },
          `engines read it in two ways: ${JSON.stringify(more)}`,
        );
      }
    },
  );

  const hasParts = !('prompt' in dialect.body);
  t.test(
    'a strict budget knows what a call in parts of text costs at most, and not one with an image',
    async (t) => {
      if (!hasParts) return t.pass('a text is no list of parts');
      const { company, post } = await newClient({ budget: '1' });
      await gateway.sql`update companies set budget_mode = 'strict' where id = ${company}`;
      answerJson(stage, answer);
      const name = 'messages' in dialect.body ? 'messages' : 'input';
      const type = name === 'input' ? 'input_text' : 'text';
      const of = (...content: object[]) => ({ [limit]: 600, [name]: [{ role: 'user', content }] }); // more than is left
      t.equal((await post(of({ type, text: 'Hello' }))).status, 402);
      t.equal(
        (await post(of({ type, text: 'Hello' }, { type: 'image' }))).status,
        200,
        'no bound is known',
      );
    },
  );

  t.test(
    'an image costs what models take for one, not what its bytes would be as text',
    async (t) => {
      if (!hasParts) return t.pass('a text has no images');
      const data = Buffer.concat([
        Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'),
        randomBytes(500_000),
      ]).toString('base64');
      const url = `data:image/png;base64,${data}`;
      const [name, image] =
        dialect.endpoint === 'messages'
          ? [
              'messages',
              { type: 'image', source: { type: 'base64', media_type: 'image/png', data } },
            ]
          : 'messages' in dialect.body
            ? ['messages', { type: 'image_url', image_url: { url } }]
            : ['input', { type: 'input_image', image_url: url }];
      const body = { [limit]: 10, [name as string]: [{ role: 'user', content: [image] }] };
      const { company, post } = await newClient({ budget: '54' });
      const untold = JSON.parse(
        JSON.stringify(answer, (member, value) => (member === 'usage' ? undefined : value)),
      );
      answerJson(stage, untold);
      await gateway.sql`update api_keys set tokens_per_minute = 5000 where company_id = ${company}`;
      await until(async () => (await post({ [limit]: 6000 })).status === 429, 'the limit holds');
      t.equal((await post(body)).status, 200, 'the limit of tokens has room for it');
      const [row] = await gateway.ledger(company, 1);
      t.match(row, { usage_source: 'estimated' });
      t.ok(
        Number(row?.prompt_tokens) > 1500 && Number(row?.prompt_tokens) < 1800,
        `${row?.prompt_tokens} tokens`,
      );
      await gateway.sql`update api_keys set tokens_per_minute = null where company_id = ${company}`;
      await gateway.sql`update companies set budget_mode = 'strict', monthly_budget_eur = 54 where id = ${company}`;
      stage.upstream.answer(async (res) => void res.writeHead(500).end()); // such calls cost nothing
      await until(
        async () => (await post({ [limit]: 60_000 })).status === 402,
        'the budget is strict',
      );
      const [asked, answered] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      stage.upstream.answer(async (res) => {
        asked.resolve();
        await answered.promise;
        res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
      });
      const running = post(body); // 50,000 tokens at most, which are 50 EUR
      await asked.promise;
      answerJson(stage, answer);
      t.equal((await post({ [limit]: 10 })).status, 200, 'a call of text has room beside it');
      t.equal((await post(body)).status, 402, 'a second one has not');
      answered.resolve();
      t.equal((await running).status, 200);
    },
  );

  t.test('a usage above what the call allows is booked within it, and marked', async (t) => {
    const { company, post } = await newClient();
    const cases = [
      ['1000000000000', '1000000000000'],
      ['7', '4000'],
      ['900000', '3'],
    ] as const;
    for (const [prompt, completion] of cases) {
      answerJson(stage, JSON.parse(telling(JSON.stringify(answer), prompt, completion)));
      const { status, headers } = await post({ [limit]: 300 });
      t.equal(status, 200);
      t.ok(Number(headers.get('x-cost-eur')) < 1, `${headers.get('x-cost-eur')} EUR`);
      answerEvents(
        stage,
        events.map((event) => telling(event, prompt, completion)),
      );
      t.equal((await post({ [limit]: 300, stream: true })).status, 200);
    }
    for (const row of await gateway.ledger(company, 2 * cases.length)) {
      t.equal(row.usage_source, 'estimated');
      t.ok(row.completion_tokens <= 300 && row.prompt_tokens < 100, JSON.stringify(row));
    }
  });

  t.test(
    'a strict budget books no more than was reserved, whatever the upstream tells',
    async (t) => {
      const { company, post } = await newClient({ budget: '1' });
      await gateway.sql`update companies set budget_mode = 'strict' where id = ${company}`;
      for (let n = 0; n < 3; n++) {
        answerJson(stage, JSON.parse(telling(JSON.stringify(answer), '16000', '1000000000000')));
        t.equal((await post({ [limit]: 100 })).status, 200);
      }
      const rows = await gateway.ledger(company, 3);
      for (const { cost_eur } of rows)
        t.ok(Number(cost_eur) <= 0.2 + 0.2, `${cost_eur} EUR for 100 tokens and a short prompt`);
    },
  );
}

function testAnswers(t: Test, stage: Stage): void {
  const { dialect, gateway, newClient } = stage;
  const { endpoint, answer, events } = dialect;

  t.test(
    'a whole answer, and a streamed one: every byte but the model, booked as the upstream told',
    async (t) => {
      const { company, post, stream } = await newClient();
      answerJson(stage, answer);
      const whole = await post();
      t.equal(whole.status, 200);
      t.equal(whole.text, renamed(JSON.stringify(answer)));
      answerEvents(stage, events);
      const streamed = await stream();
      t.match(streamed.headers.get('content-type'), 'text/event-stream');
      t.equal(await streamed.text(), renamed(events.join('')));
      const row = {
        endpoint,
        model_slug: 'fast',
        upstream_model: 'internal-fast',
        prompt_tokens: 7,
        completion_tokens: 3,
      };
      const booked = { ...row, cost_eur: '0.013', usage_source: 'upstream', outcome: 'completed' };
      t.match(await gateway.ledger(company, 2), [booked, booked]);
    },
  );

  t.test('an upstream that tells no usage: both counts are estimated', async (t) => {
    const { company, post, stream } = await newClient();
    const { usage: _, ...silent } = answer as { usage: unknown };
    answerJson(stage, silent);
    t.equal((await post()).status, 200);
    answerEvents(
      stage,
      events.map((event) => event.replace(/,"usage":\{[^}]*\}/, '')),
    );
    t.equal(
      await (await stream()).text(),
      renamed(events.join('')).replace(/,"usage":\{[^}]*\}/g, ''),
    );
    const rows = await gateway.ledger(company, 2);
    for (const { usage_source, prompt_tokens, completion_tokens } of rows) {
      t.equal(usage_source, 'estimated');
      t.ok(prompt_tokens > 0 && completion_tokens > 0, `${prompt_tokens} and ${completion_tokens}`);
    }
  });

  t.test('metrics and the log name the endpoint', async (t) => {
    const { company, post } = await newClient();
    answerJson(stage, answer);
    await post();
    const { text } = await ask(`${gateway.adminUrl}/metrics`);
    t.match(text, `tollgate_requests_total{endpoint="${endpoint}",status="200"}`);
    const line = gateway.logged.find((line) => line.includes(company)) as string;
    t.match(JSON.parse(line), {
      endpoint,
      status: 200,
      slug: 'fast',
      prompt_tokens: 7,
      completion_tokens: 3,
    });
  });
}

function testGates(t: Test, stage: Stage): void {
  const { dialect, gateway, upstream, newClient } = stage;

  t.test('the gates in their order, each refusal in the shape of the dialect', async (t) => {
    const { company, key, post } = await newClient({ budget: '0.01', disabled: ['off'] });
    await gateway.model('off', { upstream: 'internal-off', company });
    const narrow = await gateway.key(company, ['embeddings']);
    const refused = async (
      answer: Promise<Answer>,
      status: number,
      type: string,
      code: string | null,
    ) => {
      const { status: got, json, headers } = await answer;
      t.equal(got, status);
      t.match(json, dialect.error(type, code));
      if (json.type === 'error') t.equal(json.request_id, headers.get('x-request-id'));
      return json.error.message as string;
    };
    const sent = upstream.received.length;
    const wrong = '{"model":"none"}';
    const headers = { 'content-type': 'text/plain' };
    await refused(
      post(wrong, { key: undefined, headers }),
      401,
      'authentication_error',
      'invalid_api_key',
    );
    await refused(
      post(wrong, { key: 'svc_wrong' }),
      401,
      'authentication_error',
      'invalid_api_key',
    );
    await refused(
      post(wrong, { key: narrow, headers }),
      403,
      'permission_error',
      'insufficient_scope',
    );
    await refused(post(wrong, { headers }), 415, 'invalid_request_error', 'unsupported_media_type');
    await refused(post('x'.repeat(1_100_000)), 413, 'invalid_request_error', 'request_too_large');
    await refused(post('{"model":"none'), 400, 'invalid_request_error', 'invalid_json');
    await refused(post(wrong), 400, 'invalid_request_error', 'missing_required_parameter');
    await refused(
      post({ model: 'fast', stream: 'true' }),
      400,
      'invalid_request_error',
      'invalid_type',
    );
    await refused(
      post({ api_base: 'x', model: 'none' }),
      400,
      'invalid_request_error',
      'unsupported_parameter',
    );
    for (const more of [
      { system_prompt: 'Always answer in verse.' },
      { ignore_eos: true },
      { banned_regex: ['(a*)*b'] },
      { web_search_options: {} },
    ]) {
      await refused(
        post({ ...more, model: 'none' }),
        400,
        'invalid_request_error',
        'unsupported_parameter',
      );
    }
    const unknown = await refused(post({ model: 'none' }), 404, 'not_found_error', null);
    t.equal(
      await refused(post({ model: 'off' }), 404, 'not_found_error', null),
      unknown.replace('none', 'off'),
    );
    await refused(post({ model: 'vectors' }), 404, 'not_found_error', null);
    await refused(post({ model: 'far' }), 403, 'permission_error', 'non_eu_model_blocked');
    const url = gateway.url + dialect.path;
    await refused(ask(url, { key }), 405, 'invalid_request_error', 'method_not_allowed');
    t.equal(upstream.received.length, sent, 'nothing went upstream');

    answerJson(stage, dialect.answer);
    t.equal((await post()).status, 200);
    await gateway.ledger(company, 1);
    await refused(post(), 402, 'billing_error', 'insufficient_quota');
    await refused(post({ model: 'far' }), 403, 'permission_error', 'non_eu_model_blocked');
    t.equal((await gateway.ledger(company, 1)).length, 1);
  });

  t.test('a strict budget reserves what the answer can cost at most', async (t) => {
    const { company, post } = await newClient({ budget: '1' });
    await gateway.sql`update companies set budget_mode = 'strict' where id = ${company}`;
    answerJson(stage, dialect.answer);
    t.equal((await post({ [dialect.limit]: 1000 })).status, 402);
    t.equal((await post({ [dialect.limit]: 100 })).status, 200);
    t.equal((await gateway.ledger(company, 1)).length, 1);
  });
}

function testFailures(t: Test, stage: Stage): void {
  const { dialect, gateway, upstream, newClient } = stage;
  const { events } = dialect;

  t.test(
    'a stream broken after its first byte ends with an error event, and is never whole',
    async (t) => {
      const last = /message_stop|response\.(?:completed|incomplete)/;
      for (const end of [
        '',
        'event: error\ndata: {"message":"internal-fast"}\n\n',
        'data: {"type":"a',
        'data: [DONE]\n\n',
      ]) {
        const { stream } = await newClient();
        answerEvents(stage, [...events.slice(0, 4), end]);
        const text = await (await stream()).text();
        const begun = renamed(events.slice(0, 4).join(''));
        t.ok(text.startsWith(begun), text);
        t.match(text.slice(begun.length), dialect.errorEvent);
        t.notMatch(text, last);
        t.notMatch(text, 'internal');
      }
      const { stream } = await newClient();
      upstream.answer((res) => {
        res.writeHead(200, HEAD);
        res.write(events[0], () => res.destroy());
      });
      t.match(await (await stream()).text(), dialect.errorEvent, 'a connection that breaks');
    },
  );

  t.test('a 200 that is an error is a 502, and costs nothing', async (t) => {
    const { company, post, stream } = await newClient();
    const { usage } = dialect.answer as { usage: object };
    const failed = { type: 'error', usage, error: { type: 'api_error', message: 'internal-fast' } };
    for (const play of [
      () => answerJson(stage, failed),
      () => answerJson(stage, { ...dialect.answer, error: { message: 'x' } }),
      () => answerJson(stage, { model: 'internal-fast', usage }),
      () => answerEvents(stage, ['<html>internal-fast</html>\n\n']),
      () => answerEvents(stage, ['']),
    ]) {
      play();
      for (const answer of [await post(), await post({ stream: true })]) {
        t.equal(answer.status, 502);
        t.match(answer.json, dialect.error('api_error', 'upstream_error'));
        t.equal(answer.headers.get('x-should-retry'), 'false');
      }
    }
    answerEvents(stage, events);
    await (await stream()).text();
    t.match(await gateway.ledger(company, 1), [{ outcome: 'completed' }], 'that one alone');
  });

  t.test('statuses of the upstream', async (t) => {
    const { post } = await newClient();
    for (const [status, got, type, code] of [
      [400, 400, 'invalid_request_error', null],
      [401, 502, 'api_error', 'upstream_error'],
      [404, 502, 'api_error', 'upstream_error'],
      [413, 413, 'invalid_request_error', 'request_too_large'],
      [429, 429, 'rate_limit_error', 'rate_limit_exceeded'],
      [500, 502, 'api_error', 'upstream_error'],
      [503, 503, 'overloaded_error', 'service_unavailable'],
      [529, 503, 'overloaded_error', 'service_unavailable'],
    ] as const) {
      answerJson(
        stage,
        { type: 'error', error: { type: 'x', message: 'top_k is too large for internal-fast' } },
        status,
      );
      for (const stream of [false, true]) {
        const answer = await post({ stream });
        t.equal(answer.status, got);
        t.match(answer.json, dialect.error(type, code));
        t.notMatch(answer.text, 'internal');
        if (got === 503) t.equal(answer.headers.get('retry-after'), '1');
        if (got === 400) t.match(answer.json.error.message, 'top_k is too large for fast');
      }
    }
  });
}

function testAborts(t: Test, stage: Stage): void {
  const { dialect, gateway, upstream, newClient } = stage;
  const { events, toldPrompt } = dialect;

  t.test(
    'a client that leaves: what the upstream still tells is booked, else an estimate',
    async (t) => {
      const leave = async (rest: (client: { left: Promise<void> }) => AsyncIterable<string>) => {
        const { company, stream } = await newClient();
        const left = Promise.withResolvers<void>();
        upstream.answer(async (res) => {
          res.writeHead(200, HEAD);
          res.write(events.slice(0, 4).join(''));
          for await (const event of rest({ left: left.promise }))
            if (!res.destroyed) res.write(event);
          res.end();
        });
        const abort = new AbortController();
        await (await stream(abort.signal)).body?.getReader().read();
        abort.abort();
        await until(
          () => gateway.logged.some((line) => line.includes(company)),
          'the log line of the call',
        );
        left.resolve();
        return gateway.ledger(company, 1);
      };
      const told = await leave(async function* ({ left }) {
        await left;
        yield events.slice(4).join('');
      });
      t.match(told, [
        {
          prompt_tokens: 7,
          completion_tokens: 3,
          usage_source: 'upstream',
          outcome: 'client_aborted',
        },
      ]);
      const [row] = await leave(async function* ({ left }) {
        await left;
        for (let n = 0; n < 200; n++) {
          yield events[3] as string;
          await sleep(20); // paced traffic
        }
      });
      t.match(row, { usage_source: 'estimated', outcome: 'client_aborted' });
      if (toldPrompt !== null) t.equal(row?.prompt_tokens, toldPrompt);
      t.ok((row?.prompt_tokens ?? 0) > 0);
      t.ok((row?.completion_tokens ?? 0) > 5, `${row?.completion_tokens} tokens`);
    },
  );

  t.test(
    'a client that leaves before anything was generated pays nothing if the upstream then fails',
    async (t) => {
      const overloaded =
        'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n';
      const outcomeOf = async (begun: readonly string[], end: (res: ServerResponse) => void) => {
        const { company, stream } = await newClient();
        const left = Promise.withResolvers<void>();
        upstream.answer(async (res) => {
          res.writeHead(200, HEAD);
          res.write(begun.join(''));
          await left.promise;
          end(res);
        });
        const abort = new AbortController();
        await (await stream(abort.signal)).body?.getReader().read();
        abort.abort();
        await until(
          () => gateway.logged.some((line) => line.includes(company)),
          'the log line of the call',
        );
        const failed = () =>
          gateway.logged.filter((line) => line.includes('upstream failed')).length;
        const before = failed();
        left.resolve();
        await until(() => failed() > before, 'the failure in the log');
        return company;
      };
      for (const [name, end] of Object.entries({
        'it says that it is overloaded': (res: ServerResponse) => res.end(overloaded),
        'it ends the stream': (res: ServerResponse) => res.end(),
        'the connection breaks': (res: ServerResponse) => res.destroy(),
      })) {
        const free = await outcomeOf(events.slice(0, 2), end);
        const charged = await outcomeOf(events.slice(0, 3), end);
        t.match(await gateway.ledger(charged, 1), [{ outcome: 'client_aborted' }], name);
        t.same(await gateway.ledger(free, 0), [], `${name}, before any text`);
      }
    },
  );
}
