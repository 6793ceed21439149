import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import {
  embed,
  generateText,
  jsonSchema,
  type LanguageModel,
  type LanguageModelUsage,
  Output,
  stepCountIs,
  streamText,
  tool,
} from 'ai';
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

/** The AI SDK's own providers of the dialects. Each is given the base address with its `/v1`. */
const PROVIDERS: Readonly<
  Record<string, (baseURL: string, apiKey: string) => (slug: string) => LanguageModel>
> = {
  responses: (baseURL, apiKey) => createOpenAI({ baseURL, apiKey }),
  'chat.completions': (baseURL, apiKey) => createOpenAI({ baseURL, apiKey }).chat,
  messages: (baseURL, apiKey) => createAnthropic({ baseURL, apiKey }),
};

const days = await Promise.all(UPSTREAMS.map(async (start) => startSdkDay(t, await start(t))));
for (const day of days) {
  const { world, customer } = day;
  const { upstream } = world;
  for (const [endpoint, create] of Object.entries(PROVIDERS)) {
    await t.test(`Vercel AI SDK speaks ${endpoint} against ${upstream.name}`, async (t) => {
      const provider = create(world.url, customer.key);
      const model = provider(CHAT);
      const limits = { maxRetries: 0, maxOutputTokens: 500 };
      const told = ({ inputTokens, outputTokens }: LanguageModelUsage) =>
        day.told(endpoint, {
          prompt_tokens: inputTokens as number,
          completion_tokens: outputTokens as number,
        });
      const tools = {
        [WEATHER.name]: tool({
          description: WEATHER.description,
          inputSchema: jsonSchema<{ city: string }>(WEATHER.parameters),
          execute: async () => '21 degrees',
        }),
      };

      t.test('generateText', async (t) => {
        const { text, usage, response } = await generateText({
          model,
          prompt: 'Hello there',
          ...limits,
        });
        t.match(text, /Hello/);
        t.equal(response.modelId, CHAT);
        told(usage);
      });

      t.test('streamText', async (t) => {
        const result = streamText({ model, prompt: 'Hello there', ...limits });
        let text = '';
        for await (const part of result.textStream) text += part;
        t.match(text, /Hello/);
        t.equal(await result.finishReason, 'stop');
        told(await result.usage);
      });

      t.test('tools: the round trip in two steps, streamed and not', async (t) => {
        const ask = { model, prompt: WEATHER_QUESTION, tools, stopWhen: stepCountIs(2), ...limits };
        const whole = await generateText(ask);
        const streamed = streamText(ask);
        for (const { steps, text } of [
          whole,
          { steps: await streamed.steps, text: await streamed.text },
        ]) {
          t.equal(steps.length, 2);
          t.match(steps[0]?.toolCalls, [{ toolName: WEATHER.name, input: { city: /Bonn/ } }]);
          t.match(text, /21 degrees/);
          for (const { usage } of steps) told(usage);
        }
      });

      t.test('an object of a given shape', async (t) => {
        const { output, usage } = await generateText({
          model,
          prompt: CAPITAL_QUESTION,
          output: Output.object({
            schema: jsonSchema<{ city: string; population: number }>(CAPITAL),
          }),
          ...limits,
        });
        t.match(output, { city: String, population: Number });
        told(usage);
      });

      t.test("errors carry status and the gateway's words", async (t) => {
        const failure = (slug: string) =>
          generateText({ model: provider(slug), prompt: 'x', ...limits });
        const unknown = {
          name: 'AI_APICallError',
          statusCode: 404,
          isRetryable: false,
          message: /does not exist/,
        };
        t.match(await thrownBy(failure('unknown')), unknown);
        t.match(await thrownBy(failure(SLUGS.limited)), { statusCode: 429, isRetryable: true });
        t.match(await thrownBy(failure(SLUGS.failing)), {
          statusCode: 502,
          message: /failed to answer/,
        });
        const broken = streamText({
          model: provider(SLUGS.broken),
          prompt: 'x',
          ...limits,
          onError: () => {},
        });
        const parts: string[] = [];
        for await (const part of broken.fullStream) parts.push(part.type);
        t.ok(parts.includes('error'), 'a stream that breaks off ends in an error');
      });
    });
  }
  await t.test(`the ledger of ${upstream.name} has what the SDK was told, once each`, async (t) => {
    const { ledger, told } = await day.compare();
    t.equal(told.length, 7 * Object.keys(PROVIDERS).length);
    t.same(ledger, told);
  });
}

t.test(
  'a second turn of responses: earlier items are named by id unless store is false',
  async (t) => {
    const upstream = await (UPSTREAMS[0] as (typeof UPSTREAMS)[number])(t);
    const { world, customer } = await startSdkDay(t, upstream);
    const model = createOpenAI({ baseURL: world.url, apiKey: customer.key })(CHAT);
    const first = { role: 'user' as const, content: 'Hello there' };
    const { responseMessages } = await generateText({ model, messages: [first] });
    const messages = [first, ...responseMessages, { role: 'user' as const, content: 'And again' }];
    const before = upstream.received().length;
    const told = {
      statusCode: 400,
      isRetryable: false,
      message: /'input\[1\]' needs state.*"store": false/,
    };
    t.match(await thrownBy(generateText({ model, messages })), told);
    t.equal(upstream.received().length, before);
    const { text } = await generateText({
      model,
      messages,
      providerOptions: { openai: { store: false } },
    });
    t.match(text, /And again/);
  },
);

t.test('embeddings with @ai-sdk/openai', async (t) => {
  const upstream = await (UPSTREAMS[0] as (typeof UPSTREAMS)[number])(t);
  const { world, customer } = await startSdkDay(t, upstream);
  const provider = createOpenAI({ baseURL: world.url, apiKey: customer.key });
  const { embedding } = await embed({
    model: provider.embedding(EMBED),
    value: 'one',
    maxRetries: 0,
  });
  t.equal(embedding.length, 1024);
});
