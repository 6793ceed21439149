import OpenAI, {
  APIError,
  APIUserAbortError,
  AuthenticationError,
  BadRequestError,
  InternalServerError,
  NotFoundError,
  PermissionDeniedError,
  RateLimitError,
} from 'openai';
import t from 'tap';
import { thrownBy } from '../support/client.ts';
import {
  CAPITAL,
  CAPITAL_QUESTION,
  CHAT,
  EMBED,
  SLUGS,
  startSdkDay,
  UPSTREAMS,
  WEATHER,
  WEATHER_QUESTION,
} from '../support/sdk.ts';
import { until } from '../support/until.ts';
import { INTERNAL, OVERSEAS } from '../support/world.ts';

for (const start of UPSTREAMS) {
  const upstream = await start(t);
  await t.test(`openai SDK against ${upstream.name}`, async (t) => {
    const day = await startSdkDay(t, upstream);
    const { world, customer } = day;
    const client = new OpenAI({ baseURL: world.url, apiKey: customer.key, maxRetries: 0 });
    const messages = [{ role: 'user' as const, content: 'Hello there' }];
    const tools = [{ type: 'function' as const, function: { ...WEATHER } }];

    t.test('chat', async (t) => {
      const answer = await client.chat.completions.create({ model: CHAT, messages });
      t.equal(answer.model, CHAT);
      t.match(answer.choices[0]?.message, { role: 'assistant', content: /Hello/ });
      t.match(answer._request_id, /^[0-9a-f-]{36}$/);
      day.told('chat.completions', answer.usage);
    });

    t.test('a base address with a trailing slash', async (t) => {
      const slashed = new OpenAI({ baseURL: `${world.url}/`, apiKey: customer.key, maxRetries: 0 });
      const answer = await slashed.chat.completions.create({ model: CHAT, messages });
      t.equal(answer.model, CHAT);
      day.told('chat.completions', answer.usage);
    });

    t.test('stream with usage', async (t) => {
      const stream = await client.chat.completions.create({
        model: CHAT,
        messages,
        stream: true,
        stream_options: { include_usage: true },
      });
      let text = '';
      let usage: OpenAI.CompletionUsage | null | undefined;
      for await (const chunk of stream) {
        t.equal(chunk.model, CHAT);
        text += chunk.choices[0]?.delta.content ?? '';
        usage = chunk.usage ?? usage;
      }
      t.match(text, /Hello/);
      day.told('chat.completions', usage);
    });

    t.test(
      'stream without asking for usage: the loop of every tutorial reads each chunk',
      async (t) => {
        const stream = await client.chat.completions.create({
          model: CHAT,
          messages,
          stream: true,
        });
        const reasons: unknown[] = [];
        let text = '';
        let usage: unknown;
        for await (const chunk of stream) {
          const choice = chunk.choices[0] as OpenAI.ChatCompletionChunk.Choice; // nobody checks that there is one
          text += choice.delta.content ?? '';
          reasons.push(choice.finish_reason);
          usage = chunk.usage;
        }
        t.match(text, /Hello/);
        t.same(
          reasons.filter((reason) => reason !== null),
          ['stop'],
        );
        day.told('chat.completions', usage as OpenAI.CompletionUsage);
      },
    );

    if (upstream.name === 'demo') {
      t.test('a text completion, whole', async (t) => {
        const prompt = ['Once upon a time', 'There was'];
        const answer = await client.completions.create({
          model: CHAT,
          prompt,
          n: 2,
          echo: true,
          max_tokens: 20,
        });
        t.match(answer, { object: 'text_completion', model: CHAT });
        t.match(
          answer.choices.map(({ index, text }) => [index, text]),
          [0, 1, 2, 3].map((index) => [index, new RegExp(`^${prompt[index >> 1]}Hello`)]),
        );
        day.told('completions', answer.usage);
      });

      t.test('a text completion, streamed, with and without its usage asked for', async (t) => {
        for (const more of [{ stream_options: { include_usage: true } }, {}]) {
          const stream = await client.completions.create({
            model: CHAT,
            prompt: 'Once',
            stream: true,
            ...more,
          });
          let text = '';
          let usage: OpenAI.CompletionUsage | undefined;
          for await (const chunk of stream) {
            t.match(chunk, { object: 'text_completion', model: CHAT });
            if ('stream_options' in more) text += chunk.choices[0]?.text ?? '';
            else text += (chunk.choices[0] as OpenAI.CompletionChoice).text; // nobody checks that there is one
            usage = chunk.usage ?? usage;
          }
          t.match(text, /Hello/);
          day.told('completions', usage);
        }
      });

      t.test(
        'a text completion that breaks off throws, and mistakes are told by class',
        async (t) => {
          const stream = await client.completions.create({
            model: SLUGS.broken,
            prompt: 'x',
            stream: true,
          });
          const read = (async () => {
            for await (const _ of stream);
          })();
          t.match(await thrownBy(read), { code: 'upstream_error' });
          const bests = client.completions.create({ model: CHAT, prompt: 'x', best_of: 2 });
          t.match(await thrownBy(bests), {
            status: 400,
            code: 'unsupported_parameter',
            param: 'best_of',
          });
        },
      );
    }

    t.test('the stream helper puts a completion together', async (t) => {
      const answer = await client.chat.completions
        .stream({ model: CHAT, messages })
        .finalChatCompletion();
      t.match(answer.choices[0]?.message.content, /Hello/);
      day.told('chat.completions', answer.usage);
    });

    t.test('tools: the round trip', async (t) => {
      const question = [{ role: 'user' as const, content: WEATHER_QUESTION }];
      const first = await client.chat.completions.create({
        model: CHAT,
        messages: question,
        tools,
      });
      t.equal(first.choices[0]?.finish_reason, 'tool_calls');
      const message = first.choices[0]?.message as OpenAI.ChatCompletionMessage;
      const call = message.tool_calls?.[0] as OpenAI.ChatCompletionMessageFunctionToolCall;
      t.equal(call.function.name, WEATHER.name);
      t.match(JSON.parse(call.function.arguments), { city: /Bonn/ });
      day.told('chat.completions', first.usage);

      const result = { role: 'tool' as const, tool_call_id: call.id, content: '21 degrees' };
      const second = await client.chat.completions.create({
        model: CHAT,
        messages: [...question, message, result],
        tools,
      });
      t.match(second.choices[0]?.message.content, /21 degrees/);
      day.told('chat.completions', second.usage);
    });

    t.test('stream with tools', async (t) => {
      const stream = client.chat.completions.stream({
        model: CHAT,
        messages: [{ role: 'user', content: WEATHER_QUESTION }],
        tools,
      });
      const answer = await stream.finalChatCompletion();
      const call = answer.choices[0]?.message
        .tool_calls?.[0] as OpenAI.ChatCompletionMessageFunctionToolCall;
      t.match(JSON.parse(call.function.arguments), { city: /Bonn/ });
      day.told('chat.completions', answer.usage);
    });

    t.test('structured output', async (t) => {
      const answer = await client.chat.completions.parse({
        model: CHAT,
        messages: [{ role: 'user', content: CAPITAL_QUESTION }],
        response_format: {
          type: 'json_schema',
          json_schema: { name: 'capital', schema: CAPITAL, strict: true },
        },
      });
      t.match(JSON.parse(answer.choices[0]?.message.content ?? ''), {
        city: String,
        population: Number,
      });
      day.told('chat.completions', answer.usage);
    });

    t.test('embeddings in both encodings', async (t) => {
      const input = ['one', 'two'];
      // the SDK asks for base64 when nothing is said, and decodes it
      const standard = await client.embeddings.create({ model: EMBED, input });
      const floats = await client.embeddings.create({
        model: EMBED,
        input,
        encoding_format: 'float',
      });
      const base64 = await client.embeddings.create({
        model: EMBED,
        input,
        encoding_format: 'base64',
      });
      for (const answer of [standard, floats, base64]) {
        t.equal(answer.model, EMBED);
        t.same(
          answer.data.map(({ index }) => index),
          [0, 1],
        );
        day.told('embeddings', answer.usage);
      }
      for (const at of [0, 1]) {
        const vector = floats.data[at]?.embedding as number[];
        t.equal(vector.length, 1024);
        t.same(standard.data[at]?.embedding, vector);
        const bytes = Buffer.from(base64.data[at]?.embedding as unknown as string, 'base64');
        t.equal(bytes.length, 4096, 'base64 when base64 was asked for');
        t.equal(bytes.readFloatLE(4), vector[1]);
      }
    });

    t.test('models.list and models.retrieve, encoded ids too', async (t) => {
      const ids: string[] = [];
      for await (const { id } of client.models.list()) ids.push(id);
      t.same(ids, [CHAT, EMBED, ...Object.values(SLUGS)].sort());
      for (const id of [CHAT, SLUGS.encoded]) {
        t.match(await client.models.retrieve(id), {
          id,
          object: 'model',
          created: Number,
          owned_by: 'tollgate',
        });
      }
      t.type(await thrownBy(client.models.retrieve('unknown')), NotFoundError);
      t.type(
        await thrownBy(client.models.retrieve(OVERSEAS)),
        NotFoundError,
        'what is not listed cannot be retrieved',
      );
      const answer = await client.chat.completions.create({ model: SLUGS.encoded, messages });
      t.equal(answer.model, SLUGS.encoded);
      day.told('chat.completions', answer.usage);
    });

    t.test('an assistant run by client.post', async (t) => {
      type Run = {
        text: string;
        model: string;
        usage: { prompt_tokens: number; completion_tokens: number };
      };
      const run: Run = await client.post(`/assistants/${day.assistant}/run`, {
        body: { messages },
      });
      t.match(run, { text: /Hello/, model: CHAT });
      day.told('assistants.run', run.usage);
    });

    t.test('what a call cost, and what the key used, by client.get and withResponse', async (t) => {
      const { data, response, request_id } = await client.chat.completions
        .create({ model: CHAT, messages })
        .withResponse();
      day.told('chat.completions', data.usage);
      const stream = await client.chat.completions
        .create({ model: CHAT, messages, stream: true })
        .withResponse();
      for await (const { usage } of stream.data) if (usage) day.told('chat.completions', usage);
      const call = await client.get<{ cost_eur: string }>(`/usage/${request_id}`);
      t.equal(call.cost_eur, response.headers.get('x-cost-eur'));
      t.match(await client.get(`/usage/${stream.request_id}`), {
        object: 'usage.request',
        model: CHAT,
      });
      const month = await client.get<{ key: { requests: number; cost_eur: string } }>('/usage');
      t.ok(month.key.requests >= 2);
      t.match(month.key.cost_eur, /^\d+\.\d+$/);
      t.type(await thrownBy(client.get('/usage/none')), NotFoundError);
    });

    t.test('every error is thrown as its class', async (t) => {
      type Call = (client: OpenAI) => PromiseLike<unknown>;
      const chat =
        (model: string, more: object = {}): Call =>
        (client) =>
          client.chat.completions.create({ model, messages, ...more });
      const as = (apiKey: string) => new OpenAI({ baseURL: world.url, apiKey, maxRetries: 0 });
      const broke = await world.newCustomer({ budget: '0.5' });
      await world.sql`insert into chat_usage (company_id, cost_eur) values (${broke.company}, 1)`;
      const narrow = await world.key(customer.company, ['embeddings']);

      const cases: [
        string,
        OpenAI,
        Call,
        new (...args: never[]) => APIError,
        number,
        string | null,
      ][] = [
        ['wrong key', as('svc_wrong'), chat(CHAT), AuthenticationError, 401, 'invalid_api_key'],
        ['missing scope', as(narrow), chat(CHAT), PermissionDeniedError, 403, 'insufficient_scope'],
        ['EU gate', client, chat(OVERSEAS), PermissionDeniedError, 403, 'non_eu_model_blocked'],
        ['unknown model', client, chat('unknown'), NotFoundError, 404, null],
        [
          'unknown assistant',
          client,
          (c) => c.post('/assistants/x/run', { body: { messages } }),
          NotFoundError,
          404,
          null,
        ],
        ['bad body', client, chat(CHAT, { messages: [] }), BadRequestError, 400, null],
        ['refused by the model', client, chat(SLUGS.refusing), BadRequestError, 400, null],
        ['budget', as(broke.key), chat(CHAT), APIError, 402, 'insufficient_quota'],
        ['rate limit', client, chat(SLUGS.limited), RateLimitError, 429, 'rate_limit_exceeded'],
        ['failing model', client, chat(SLUGS.failing), InternalServerError, 502, 'upstream_error'],
        [
          'rate limit of a stream',
          client,
          chat(SLUGS.limited, { stream: true }),
          RateLimitError,
          429,
          'rate_limit_exceeded',
        ],
        [
          'failing stream',
          client,
          chat(SLUGS.failing, { stream: true }),
          InternalServerError,
          502,
          'upstream_error',
        ],
      ];
      for (const [what, client, call, Class, status, code] of cases) {
        const error = await thrownBy(call(client));
        t.type(error, Class, what);
        t.match(error, { status, code }, what);
        t.match((error as APIError).requestID, /^[0-9a-f-]{36}$/, what);
        t.notMatch(String((error as APIError).message), INTERNAL, what);
        if (status === 429) t.equal((error as APIError).headers?.get('retry-after'), '7');
      }
    });

    t.test('what is not there is refused while its body is still sent', async (t) => {
      for (let kilobytes = 0; kilobytes < 20; kilobytes++) {
        const file = new File(['x'.repeat(kilobytes * 1000)], 'x');
        const error = await thrownBy(client.files.create({ file, purpose: 'user_data' }));
        t.type(error, NotFoundError, (error as Error).message);
      }
    });

    t.test('a stream that breaks off throws, and is not mistaken for a whole one', async (t) => {
      const stream = await client.chat.completions.create({
        model: SLUGS.broken,
        messages,
        stream: true,
      });
      let text = '';
      const error = await thrownBy(
        (async () => {
          for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? '';
        })(),
      );
      t.ok(text.length > 0, 'what came before it broke was seen');
      t.type(error, APIError);
      t.match(error, { code: 'upstream_error' });
    });

    t.test('retries: the SDK tries a failing model again as often as it was told', async (t) => {
      const before = upstream.received().length;
      const retrying = new OpenAI({ baseURL: world.url, apiKey: customer.key, maxRetries: 1 });
      t.match(
        await thrownBy(retrying.chat.completions.create({ model: SLUGS.failing, messages })),
        { status: 502 },
      );
      t.equal(upstream.received().length, before + 2);
    });

    t.test('leaving mid-stream is noticed upstream and metered once', async (t) => {
      const stream = await client.chat.completions.create({
        model: SLUGS.long,
        messages,
        stream: true,
      });
      let chunks = 0;
      for await (const _ of stream) if (++chunks === 5) break;
      const rows = async () =>
        (await world.ledger(customer.company, 0)).filter(
          ({ model_slug }) => model_slug === SLUGS.long,
        );
      const [row, ...others] = await until(rows, 'the call is booked', ({ length }) => length > 0);
      t.match(row, { outcome: 'client_aborted', endpoint: 'chat.completions' });
      t.ok((row?.completion_tokens ?? 0) > 0);
      t.same(others, []);
    });

    t.test('aborting before the answer', async (t) => {
      const leaving = new AbortController();
      const call = client.chat.completions.create(
        { model: SLUGS.long, messages },
        { signal: leaving.signal },
      );
      leaving.abort();
      t.type(await thrownBy(call), APIUserAbortError);
    });

    await t.test('the ledger has what the SDK was told, once each', async (t) => {
      const { ledger, told } = await day.compare();
      t.ok(told.length >= 14);
      t.same(ledger, told);
    });
  });
}
