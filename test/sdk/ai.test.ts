import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import {
  embed,
  embedMany,
  generateText,
  jsonSchema,
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

for (const start of UPSTREAMS) {
  const upstream = await start(t);
  await t.test(`Vercel AI SDK against ${upstream.name}`, async (t) => {
    const day = await startSdkDay(t, upstream);
    const { world, customer } = day;
    const provider = createOpenAICompatible({
      name: 'tollgate',
      baseURL: world.url,
      apiKey: customer.key,
      supportsStructuredOutputs: true,
    });
    const model = provider(CHAT);
    const told = ({
      inputTokens,
      outputTokens,
    }: {
      inputTokens: number | undefined;
      outputTokens: number | undefined;
    }) =>
      day.told('chat.completions', {
        prompt_tokens: inputTokens as number,
        completion_tokens: outputTokens as number,
      });
    const weather = tool({
      description: WEATHER.description,
      inputSchema: jsonSchema<{ city: string }>(WEATHER.parameters),
      execute: async () => '21 degrees',
    });

    t.test('generateText', async (t) => {
      const { text, usage, response } = await generateText({
        model,
        prompt: 'Hello there',
        maxRetries: 0,
      });
      t.match(text, /Hello/);
      t.equal(response.modelId, CHAT);
      told(usage);
    });

    t.test('streamText', async (t) => {
      const result = streamText({ model, prompt: 'Hello there', maxRetries: 0 });
      let text = '';
      for await (const part of result.textStream) text += part;
      t.match(text, /Hello/);
      t.equal(await result.finishReason, 'stop');
      told(await result.usage);
    });

    t.test('tools: the round trip in two steps', async (t) => {
      const { steps, text } = await generateText({
        model,
        prompt: WEATHER_QUESTION,
        tools: { [WEATHER.name]: weather },
        stopWhen: stepCountIs(2),
        maxRetries: 0,
      });
      t.equal(steps.length, 2);
      t.match(steps[0]?.toolCalls, [{ toolName: WEATHER.name, input: { city: /Bonn/ } }]);
      t.match(text, /21 degrees/);
      for (const { usage } of steps) told(usage);
    });

    t.test('tools: streamed', async (t) => {
      const result = streamText({
        model,
        prompt: WEATHER_QUESTION,
        tools: { [WEATHER.name]: weather },
        maxRetries: 0,
      });
      t.match(await result.toolCalls, [{ toolName: WEATHER.name, input: { city: /Bonn/ } }]);
      told(await result.usage);
    });

    t.test('an object of a given shape', async (t) => {
      const { output, usage } = await generateText({
        model,
        prompt: CAPITAL_QUESTION,
        output: Output.object({
          schema: jsonSchema<{ city: string; population: number }>(CAPITAL),
        }),
        maxRetries: 0,
      });
      t.match(output, { city: String, population: Number });
      told(usage);
    });

    t.test('embed and embedMany', async (t) => {
      const embedding = provider.embeddingModel(EMBED);
      const one = await embed({ model: embedding, value: 'one', maxRetries: 0 });
      t.equal(one.embedding.length, 1024);
      const many = await embedMany({ model: embedding, values: ['one', 'two'], maxRetries: 0 });
      t.equal(many.embeddings.length, 2);
      t.same(many.embeddings[0], one.embedding);
      for (const { usage } of [one, many]) day.told('embeddings', { prompt_tokens: usage.tokens });
    });

    t.test("errors carry status and the gateway's words", async (t) => {
      const failure = (slug: string) =>
        generateText({ model: provider(slug), prompt: 'x', maxRetries: 0 });
      t.match(await thrownBy(failure('unknown')), {
        name: 'AI_APICallError',
        statusCode: 404,
        isRetryable: false,
      });
      t.match(await thrownBy(failure(SLUGS.limited)), { statusCode: 429, isRetryable: true });
      t.match(await thrownBy(failure(SLUGS.failing)), {
        statusCode: 502,
        message: /failed to answer/,
      });
      const broken = streamText({
        model: provider(SLUGS.broken),
        prompt: 'x',
        maxRetries: 0,
        onError: () => {},
      });
      const parts: string[] = [];
      for await (const part of broken.fullStream) parts.push(part.type);
      t.ok(parts.includes('error'), 'a stream that breaks off ends in an error');
    });

    await t.test('the ledger has what the SDK was told, once each', async (t) => {
      const { ledger, told } = await day.compare();
      t.ok(told.length >= 8);
      t.same(ledger, told);
    });
  });
}
