import {
  type AIMessage,
  type AIMessageChunk,
  HumanMessage,
  ToolMessage,
  type UsageMetadata,
} from '@langchain/core/messages';
import { ChatOpenAI, OpenAI, OpenAIEmbeddings } from '@langchain/openai';
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

for (const start of UPSTREAMS) {
  const upstream = await start(t);
  await t.test(`LangChain against ${upstream.name}`, async (t) => {
    const day = await startSdkDay(t, upstream);
    const { world, customer } = day;
    const settings = { apiKey: customer.key, configuration: { baseURL: world.url }, maxRetries: 0 };
    const chat = (model: string = CHAT) => new ChatOpenAI({ model, ...settings });
    const told = (answer: AIMessage | AIMessageChunk) => {
      const { input_tokens, output_tokens } = answer.usage_metadata as unknown as UsageMetadata;
      day.told('chat.completions', {
        prompt_tokens: input_tokens,
        completion_tokens: output_tokens,
      });
    };
    const tools = [{ type: 'function' as const, function: WEATHER }];

    t.test('invoke', async (t) => {
      const answer = await chat().invoke('Hello there');
      t.match(answer.content, /Hello/);
      t.equal(answer.response_metadata.model_name, CHAT);
      told(answer);
    });

    t.test('stream', async (t) => {
      let answer: AIMessageChunk | undefined;
      for await (const chunk of await chat().stream('Hello there'))
        answer = answer?.concat(chunk) ?? chunk;
      t.match(answer?.content, /Hello/);
      told(answer as AIMessageChunk);
    });

    t.test(
      'stream without asking for usage: it is told all the same, and the reason once',
      async (t) => {
        const model = new ChatOpenAI({ model: CHAT, ...settings, streamUsage: false });
        let answer: AIMessageChunk | undefined;
        for await (const chunk of await model.stream('Hello there'))
          answer = answer?.concat(chunk) ?? chunk;
        t.match(answer?.content, /Hello/);
        t.equal(answer?.response_metadata.finish_reason, 'stop');
        told(answer as AIMessageChunk);
      },
    );

    if (upstream.name === 'demo') {
      t.test('a model of texts: several at once, and streamed', async (t) => {
        const generate = async (texts: string[], n: number) => {
          const { generations, llmOutput } = await new OpenAI({
            model: CHAT,
            ...settings,
            n,
          }).generate(texts);
          const { promptTokens = 0, completionTokens = 0 } = (llmOutput?.tokenUsage ??
            {}) as Record<string, number>;
          return {
            generations,
            usage: { prompt_tokens: promptTokens, completion_tokens: completionTokens },
          };
        };
        const { generations, usage } = await generate(['Hello there', 'And you'], 2);
        t.same(
          generations.map((choices) => choices.length),
          [2, 2],
        );
        for (const { text } of generations.flat()) t.match(text, /Hello/);
        day.told('completions', usage);
        const one = await generate(['Hello there'], 1);
        day.told('completions', one.usage);
        let text = '';
        for await (const piece of await new OpenAI({ model: CHAT, ...settings }).stream(
          'Hello there',
        ))
          text += piece;
        t.equal(text, one.generations[0]?.[0]?.text);
        day.told('completions', one.usage); // of the same text: what a stream tells stays in the library
      });
    }

    t.test('bindTools: the round trip', async (t) => {
      const model = chat().bindTools(tools);
      const question = new HumanMessage(WEATHER_QUESTION);
      const first = await model.invoke([question]);
      const call = first.tool_calls?.[0];
      t.match(call, { name: WEATHER.name, args: { city: /Bonn/ } });
      told(first);
      const result = new ToolMessage({ content: '21 degrees', tool_call_id: call?.id as string });
      const second = await model.invoke([question, first, result]);
      t.match(second.content, /21 degrees/);
      told(second);
    });

    t.test('bindTools: streamed', async (t) => {
      let answer: AIMessageChunk | undefined;
      for await (const chunk of await chat().bindTools(tools).stream(WEATHER_QUESTION)) {
        answer = answer?.concat(chunk) ?? chunk;
      }
      t.match(answer?.tool_calls, [{ name: WEATHER.name, args: { city: /Bonn/ } }]);
      told(answer as AIMessageChunk);
    });

    t.test('withStructuredOutput', async (t) => {
      const model = chat().withStructuredOutput(CAPITAL, {
        name: 'capital',
        method: 'jsonSchema',
        includeRaw: true,
      });
      const { parsed, raw } = await model.invoke(CAPITAL_QUESTION);
      t.match(parsed, { city: String, population: Number });
      told(raw as AIMessage);
    });

    t.test('OpenAIEmbeddings, as base64 and as floats', async (t) => {
      const vectors: number[][] = [];
      // left to itself the SDK below asks for base64 and decodes it
      for (const encoding of [{}, { encodingFormat: 'float' as const }]) {
        const model = new OpenAIEmbeddings({ model: EMBED, ...encoding, ...settings });
        vectors.push(await model.embedQuery('one'));
        vectors.push(...(await model.embedDocuments(['one', 'two'])));
      }
      t.equal(vectors.length, 6);
      for (const vector of vectors) t.equal(vector.length, 1024);
      for (const at of [1, 3, 4]) t.same(vectors[at], vectors[0]);
    });

    t.test('errors carry the status', async (t) => {
      t.match(await thrownBy(chat('unknown').invoke('x')), { status: 404 });
      t.match(await thrownBy(chat(SLUGS.limited).invoke('x')), { status: 429 });
      t.match(await thrownBy(chat(SLUGS.failing).invoke('x')), { status: 502 });
    });

    await t.test('the ledger has what the SDK was told, once each', async (t) => {
      // OpenAIEmbeddings keeps the usage of its four calls to itself: the upstream's word is taken
      const embeddings = await until(
        async () =>
          (await world.ledger(customer.company, 0)).filter(
            ({ endpoint }) => endpoint === 'embeddings',
          ),
        'each is in the ledger',
        ({ length }) => length >= 4,
      );
      t.equal(embeddings.length, 4);
      for (const { usage_source, prompt_tokens } of embeddings) {
        day.told('embeddings', { prompt_tokens: usage_source === 'estimated' ? 0 : prompt_tokens });
      }
      const { ledger, told } = await day.compare();
      t.ok(told.length >= 10);
      t.same(ledger, told);
    });
  });
}

for (const start of UPSTREAMS) {
  const upstream = await start(t);
  await t.test(`LangChain speaks responses against ${upstream.name}`, async (t) => {
    const day = await startSdkDay(t, upstream);
    const { world, customer } = day;
    const settings = { apiKey: customer.key, configuration: { baseURL: world.url }, maxRetries: 0 };
    const model = new ChatOpenAI({ model: CHAT, useResponsesApi: true, ...settings });
    const told = (answer: AIMessage | AIMessageChunk) => {
      const { input_tokens, output_tokens } = answer.usage_metadata as unknown as UsageMetadata;
      day.told('responses', { prompt_tokens: input_tokens, completion_tokens: output_tokens });
    };
    const withTools = model.bindTools([{ type: 'function' as const, function: WEATHER }]);

    t.test('invoke and stream', async (t) => {
      const whole = await model.invoke('Hello there');
      let streamed: AIMessageChunk | undefined;
      for await (const chunk of await model.stream('Hello there'))
        streamed = streamed?.concat(chunk) ?? chunk;
      for (const answer of [whole, streamed as AIMessageChunk]) {
        t.match(answer.text, /Hello/);
        told(answer);
      }
      t.equal(whole.response_metadata.model_name, CHAT);
    });

    t.test('bindTools: the round trip', async (t) => {
      const question = new HumanMessage(WEATHER_QUESTION);
      const first = await withTools.invoke([question]);
      const call = first.tool_calls?.[0];
      t.match(call, { name: WEATHER.name, args: { city: /Bonn/ } });
      told(first);
      const result = new ToolMessage({ content: '21 degrees', tool_call_id: call?.id as string });
      const second = await withTools.invoke([question, first, result]);
      t.match(second.text, /21 degrees/);
      told(second);
    });

    t.test('withStructuredOutput', async (t) => {
      const structured = model.withStructuredOutput(CAPITAL, {
        name: 'capital',
        method: 'jsonSchema',
        includeRaw: true,
      });
      const { parsed, raw } = await structured.invoke(CAPITAL_QUESTION);
      t.match(parsed, { city: String, population: Number });
      told(raw as AIMessage);
    });

    await t.test('the ledger has what the SDK was told, once each', async (t) => {
      const { ledger, told } = await day.compare();
      t.equal(told.length, 5);
      t.same(ledger, told);
    });
  });
}
