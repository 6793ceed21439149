import Anthropic, {
  APIError,
  AuthenticationError,
  BadRequestError,
  InternalServerError,
  NotFoundError,
  PermissionDeniedError,
  RateLimitError,
} from '@anthropic-ai/sdk';
import { betaTool } from '@anthropic-ai/sdk/helpers/beta/json-schema';
import t from 'tap';
import { thrownBy } from '../support/client.ts';
import { startGateway } from '../support/gateway.ts';
import { CHAT, SLUGS, startSdkDay, UPSTREAMS, WEATHER, WEATHER_QUESTION } from '../support/sdk.ts';
import { until } from '../support/until.ts';
import { scriptedUpstream } from '../support/upstream.ts';
import { INTERNAL, OVERSEAS } from '../support/world.ts';

/** The SDK adds `/v1` itself. */
const beforeVersion = (url: string) => url.replace(/\/v1$/, '');
const messages = [{ role: 'user' as const, content: 'Hello there' }];
const tools = [
  { name: WEATHER.name, description: WEATHER.description, input_schema: WEATHER.parameters },
];

for (const start of UPSTREAMS) {
  const upstream = await start(t);
  await t.test(`Anthropic SDK against ${upstream.name}`, async (t) => {
    const day = await startSdkDay(t, upstream);
    const { world, customer } = day;
    const settings = { baseURL: beforeVersion(world.url), maxRetries: 0 };
    const client = new Anthropic({ ...settings, apiKey: customer.key });
    const told = ({ input_tokens, output_tokens }: Anthropic.Usage) =>
      day.told('messages', { prompt_tokens: input_tokens, completion_tokens: output_tokens });
    const hello = { model: CHAT, max_tokens: 100, messages };
    const weather = { model: CHAT, max_tokens: 100, tools };

    t.test('create, with the key sent in each of the two ways', async (t) => {
      const bearer = new Anthropic({ ...settings, apiKey: null, authToken: customer.key });
      for (const each of [client, bearer]) {
        const answer = await each.messages.create(hello);
        t.match(answer, { model: CHAT, role: 'assistant', stop_reason: 'end_turn' });
        t.match(answer.content, [{ type: 'text', text: /Hello/ }]);
        t.match(answer._request_id, /^[0-9a-f-]{36}$/);
        told(answer.usage);
      }
    });

    if (upstream.name === 'demo') {
      t.test(
        'a message of no tokens, with which the SDK’s documentation warms the cache',
        async (t) => {
          const answer = await client.messages.create({ ...hello, max_tokens: 0 });
          t.match(answer, { content: [], stop_reason: 'max_tokens', usage: { output_tokens: 0 } });
          told(answer.usage);
        },
      );
    }

    t.test('stream: the events as they come', async (t) => {
      let text = '';
      let usage: Anthropic.Usage | undefined;
      const types = new Set<string>();
      const { data, request_id } = await client.messages
        .create({ ...hello, stream: true })
        .withResponse();
      t.match(request_id, /^[0-9a-f-]{36}$/);
      for await (const event of data) {
        types.add(event.type);
        if (event.type === 'message_start') {
          t.equal(event.message.model, CHAT);
          usage = event.message.usage;
        }
        if (event.type === 'content_block_delta' && event.delta.type === 'text_delta')
          text += event.delta.text;
        if (event.type === 'message_delta') usage = { ...usage, ...event.usage } as Anthropic.Usage;
      }
      t.match(text, /Hello/);
      t.ok(types.has('message_stop'));
      told(usage as Anthropic.Usage);
    });

    t.test('the stream helper puts a message together', async (t) => {
      const answer = await client.messages.stream(hello).finalMessage();
      t.match(answer.content, [{ type: 'text', text: /Hello/ }]);
      t.equal(answer.model, CHAT);
      told(answer.usage);
    });

    t.test('tools: the round trip', async (t) => {
      const question = { role: 'user' as const, content: WEATHER_QUESTION };
      const first = await client.messages.create({ ...weather, messages: [question] });
      told(first.usage);
      t.equal(first.stop_reason, 'tool_use');
      const call = first.content.find((block) => block.type === 'tool_use');
      if (call === undefined) return void t.fail('no tool was called');
      t.match(call, { name: WEATHER.name, input: { city: /Bonn/ } });

      const result = { type: 'tool_result' as const, tool_use_id: call.id, content: '21 degrees' };
      const second = await client.messages.create({
        ...weather,
        messages: [
          question,
          { role: 'assistant', content: first.content },
          { role: 'user', content: [result] },
        ],
      });
      t.match(second.content, [{ type: 'text', text: /21 degrees/ }]);
      told(second.usage);
    });

    t.test('tools: streamed', async (t) => {
      const question = { role: 'user' as const, content: WEATHER_QUESTION };
      const answer = await client.messages
        .stream({ ...weather, messages: [question] })
        .finalMessage();
      const call = answer.content.find((block) => block.type === 'tool_use');
      t.match(call, { name: WEATHER.name, input: { city: /Bonn/ } });
      told(answer.usage);
    });

    t.test(
      'the tool runner asks for a thread first, and is told to send the whole history',
      async (t) => {
        const run = async () => '21 degrees';
        const tool = betaTool({
          name: WEATHER.name,
          description: WEATHER.description,
          inputSchema: WEATHER.parameters,
          run,
        });
        const ask = {
          ...hello,
          messages: [{ role: 'user' as const, content: WEATHER_QUESTION }],
          tools: [tool],
        };
        let last: Anthropic.Beta.BetaMessage | undefined;
        for await (const message of client.beta.messages.toolRunner(ask)) {
          told(message.usage as Anthropic.Usage);
          last = message;
        }
        t.match(last?.content, [{ type: 'text', text: /21 degrees/ }]);
        for await (const stream of client.beta.messages.toolRunner({ ...ask, stream: true })) {
          last = await stream.finalMessage();
          told(last.usage as Anthropic.Usage);
        }
        t.match(last?.content, [{ type: 'text', text: /21 degrees/ }]);
        // a thread that was asked for by name is refused
        const thread = client.beta.messages.thread({ model: CHAT, max_tokens: 100 });
        t.match(await thrownBy(thread.send({ role: 'user', content: 'Hello' })), {
          status: 400,
          message: /'thread'/,
        });
      },
    );

    t.test('every error is thrown as its class', async (t) => {
      const as = (apiKey: string) => new Anthropic({ ...settings, apiKey });
      const broke = await world.newCustomer({ budget: '0.5' });
      await world.sql`insert into chat_usage (company_id, cost_eur) values (${broke.company}, 1)`;
      const narrow = await world.key(customer.company, ['embeddings']);
      const cases: [
        string,
        Anthropic,
        string,
        new (...args: never[]) => APIError,
        number,
        string,
      ][] = [
        ['wrong key', as('svc_wrong'), CHAT, AuthenticationError, 401, 'authentication_error'],
        ['missing scope', as(narrow), CHAT, PermissionDeniedError, 403, 'permission_error'],
        ['EU gate', client, OVERSEAS, PermissionDeniedError, 403, 'permission_error'],
        ['unknown model', client, 'unknown', NotFoundError, 404, 'not_found_error'],
        [
          'refused by the model',
          client,
          SLUGS.refusing,
          BadRequestError,
          400,
          'invalid_request_error',
        ],
        ['budget', as(broke.key), CHAT, APIError, 402, 'billing_error'],
        ['rate limit', client, SLUGS.limited, RateLimitError, 429, 'rate_limit_error'],
        ['failing model', client, SLUGS.failing, InternalServerError, 502, 'api_error'],
      ];
      for (const [what, each, model, Class, status, type] of cases) {
        for (const stream of [false, true]) {
          const error = await thrownBy(each.messages.create({ ...hello, model, stream }));
          t.type(error, Class, what);
          t.match(error, { status, type }, what);
          const body = {
            type: 'error',
            error: { type, message: String },
            request_id: /^[0-9a-f-]{36}$/,
          };
          t.match(error, { error: body, requestID: /^[0-9a-f-]{36}$/ }, what);
          t.notMatch((error as APIError).message, INTERNAL, what);
        }
      }
    });

    t.test('a stream that breaks off throws, and is not mistaken for a whole one', async (t) => {
      const stream = client.messages.stream({ ...hello, model: SLUGS.broken });
      const types: string[] = [];
      stream.on('streamEvent', ({ type }) => types.push(type));
      t.type(await thrownBy(stream.finalMessage()), APIError);
      t.ok(types.includes('message_start'), 'what came before it broke was seen');
      t.notOk(types.includes('message_stop'));
    });

    t.test('leaving mid-stream is metered once', async (t) => {
      let events = 0;
      for await (const _ of await client.messages.create({
        ...hello,
        model: SLUGS.long,
        stream: true,
      })) {
        if (++events === 8) break;
      }
      const rows = async () =>
        (await world.ledger(customer.company, 0)).filter(
          ({ model_slug }) => model_slug === SLUGS.long,
        );
      const [row, ...others] = await until(rows, 'the call is booked', ({ length }) => length > 0);
      t.match(row, { outcome: 'client_aborted', endpoint: 'messages' });
      t.ok((row?.completion_tokens ?? 0) > 0);
      t.same(others, []);
    });

    await t.test('the ledger has what the SDK was told, once each', async (t) => {
      const { ledger, told } = await day.compare();
      t.equal(told.length, upstream.name === 'demo' ? 12 : 11);
      t.same(ledger, told);
    });
  });
}

t.test('countTokens and models.list of the Anthropic SDK', async (t) => {
  const upstream = await scriptedUpstream(t);
  upstream.answer((res) => {
    res.writeHead(200, { 'content-type': 'application/json' }).end('{"input_tokens":14}');
  });
  const gateway = await startGateway(t, upstream.url);
  await gateway.model(CHAT, { upstream: 'internal-counting' });
  const company = await gateway.company();
  const apiKey = await gateway.key(company);
  const client = new Anthropic({ baseURL: beforeVersion(gateway.url), apiKey, maxRetries: 0 });
  t.same(
    { ...(await client.messages.countTokens({ model: CHAT, messages })) },
    { input_tokens: 14 },
  );
  t.match(JSON.parse(String(upstream.received[0]?.body)), { model: 'internal-counting', messages });
  const ids: string[] = [];
  for await (const { id } of client.models.list()) ids.push(id);
  t.ok(ids.includes(CHAT));
  t.same(await gateway.ledger(company, 0), [], 'counting is free');
});
