import OpenAI, {
  APIError,
  BadRequestError,
  InternalServerError,
  NotFoundError,
  RateLimitError,
} from 'openai';
import t from 'tap';
import { thrownBy } from '../support/client.ts';
import {
  CAPITAL,
  CAPITAL_QUESTION,
  CHAT,
  SLUGS,
  startSdkDay,
  UPSTREAMS,
  WEATHER,
  WEATHER_QUESTION,
} from '../support/sdk.ts';
import { until } from '../support/until.ts';

for (const start of UPSTREAMS) {
  const upstream = await start(t);
  await t.test(`responses of the openai SDK against ${upstream.name}`, async (t) => {
    const day = await startSdkDay(t, upstream);
    const { world, customer } = day;
    const client = new OpenAI({ baseURL: world.url, apiKey: customer.key, maxRetries: 0 });
    const tools = [{ type: 'function' as const, ...WEATHER, strict: true }];
    const told = (usage: OpenAI.Responses.ResponseUsage | undefined) =>
      day.told(
        'responses',
        usage && { prompt_tokens: usage.input_tokens, completion_tokens: usage.output_tokens },
      );

    t.test('create', async (t) => {
      const answer = await client.responses.create({ model: CHAT, input: 'Hello there' });
      t.match(answer.output_text, /Hello/);
      t.match(answer, { model: CHAT, status: 'completed' });
      told(answer.usage);
      t.match(upstream.received().at(-1)?.body, { model: upstream.parts.chat });
    });

    t.test('stream: typed events in the order they were numbered', async (t) => {
      const stream = await client.responses.create({
        model: CHAT,
        input: 'Hello there',
        stream: true,
      });
      let text = '';
      const numbers: number[] = [];
      let last: OpenAI.Responses.ResponseStreamEvent | undefined;
      for await (const event of stream) {
        numbers.push(event.sequence_number); // aimock numbers none
        if (event.type === 'response.created') t.equal(event.response.model, CHAT);
        if (event.type === 'response.output_text.delta') text += event.delta;
        last = event;
      }
      t.match(text, /Hello/);
      t.same(
        numbers,
        numbers.toSorted((a, b) => a - b),
      );
      if (last?.type !== 'response.completed')
        return void t.fail(`the last event is ${last?.type}`);
      t.equal(last.response.model, CHAT);
      told(last.response.usage);
    });

    t.test('the stream helper puts a response together', async (t) => {
      const answer = await client.responses
        .stream({ model: CHAT, input: 'Hello there' })
        .finalResponse();
      t.match(answer.output_text, /Hello/);
      told(answer.usage);
    });

    t.test('parse: an object of a given shape', async (t) => {
      const answer = await client.responses.parse({
        model: CHAT,
        input: CAPITAL_QUESTION,
        text: { format: { type: 'json_schema', name: 'capital', schema: CAPITAL, strict: true } },
      });
      t.match(answer.output_parsed, { city: String, population: Number });
      told(answer.usage);
    });

    t.test('tools: the round trip, all of the input sent again', async (t) => {
      const question = [{ role: 'user' as const, content: WEATHER_QUESTION }];
      const first = await client.responses.create({ model: CHAT, input: question, tools });
      told(first.usage);
      const call = first.output.find((item) => item.type === 'function_call');
      if (call === undefined) return void t.fail('no tool was called');
      t.equal(call.name, WEATHER.name);
      t.match(JSON.parse(call.arguments), { city: /Bonn/ });

      const result = {
        type: 'function_call_output' as const,
        call_id: call.call_id,
        output: '21 degrees',
      };
      const second = await client.responses.create({
        model: CHAT,
        input: [...question, call, result],
        tools,
      });
      t.match(second.output_text, /21 degrees/);
      told(second.usage);
    });

    t.test('tools: streamed', async (t) => {
      const answer = await client.responses
        .stream({ model: CHAT, input: WEATHER_QUESTION, tools })
        .finalResponse();
      const call = answer.output.find((item) => item.type === 'function_call');
      t.match(JSON.parse(call?.arguments ?? '{}'), { city: /Bonn/ });
      told(answer.usage);
    });

    t.test('what needs stored state is refused in words that say so', async (t) => {
      const create = (more: object) =>
        thrownBy(client.responses.create({ model: CHAT, input: 'x', ...more }));
      for (const more of [
        { previous_response_id: 'resp_1' },
        { conversation: 'conv_1' },
        { background: true },
      ]) {
        const error = await create(more);
        t.type(error, BadRequestError);
        t.match(error, {
          code: 'unsupported_parameter',
          param: Object.keys(more)[0],
          message: /stored|keeps none/,
        });
      }
      t.match(await create({ tools: [{ type: 'web_search' }] }), { status: 400 });
      t.type(await thrownBy(client.responses.retrieve('resp_1')), NotFoundError);
    });

    t.test('every error is thrown as its class', async (t) => {
      const create = (model: string, stream: boolean) =>
        thrownBy(client.responses.create({ model, input: 'x', stream }));
      for (const stream of [false, true]) {
        t.type(await create('unknown', stream), NotFoundError);
        t.type(await create(SLUGS.refusing, stream), BadRequestError);
        t.type(await create(SLUGS.limited, stream), RateLimitError);
        t.type(await create(SLUGS.failing, stream), InternalServerError);
      }
    });

    t.test('a stream that breaks off throws, and is not mistaken for a whole one', async (t) => {
      const stream = await client.responses.create({
        model: SLUGS.broken,
        input: 'x',
        stream: true,
      });
      const types: string[] = [];
      const error = await thrownBy(
        (async () => {
          for await (const { type } of stream) types.push(type);
        })(),
      );
      t.ok(types.includes('response.created'), 'what came before it broke was seen');
      t.notOk(types.includes('response.completed'));
      t.type(error, APIError);
      t.match(error, {
        code: 'upstream_error',
        message: /^Connection error: the stream was terminated/,
      });
    });

    t.test('leaving mid-stream is metered once', async (t) => {
      const stream = await client.responses.create({ model: SLUGS.long, input: 'x', stream: true });
      let events = 0;
      for await (const _ of stream) if (++events === 8) break;
      const rows = async () =>
        (await world.ledger(customer.company, 0)).filter(
          ({ model_slug }) => model_slug === SLUGS.long,
        );
      const [row, ...others] = await until(rows, 'the call is booked', ({ length }) => length > 0);
      t.match(row, { outcome: 'client_aborted', endpoint: 'responses' });
      t.ok((row?.completion_tokens ?? 0) > 0);
      t.same(others, []);
    });

    await t.test('the ledger has what the SDK was told, once each', async (t) => {
      const { ledger, told } = await day.compare();
      t.equal(told.length, 7);
      t.same(ledger, told);
    });
  });
}
