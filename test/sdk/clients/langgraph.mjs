import { ChatAnthropic } from '@langchain/anthropic';
import { MemorySaver } from '@langchain/langgraph';
import { ChatOpenAI } from '@langchain/openai';
import { createAgent, tool } from 'langchain';
import { z } from 'zod';

const { TOLLGATE_URL: url, TOLLGATE_KEY: apiKey, WORD: word } = process.env;
const weather = tool(async () => word, {
  name: 'get_weather',
  description: 'Weather of a city',
  schema: z.object({ city: z.string() }),
});
const settings = { model: 'demo-chat', apiKey, configuration: { baseURL: url } };
const models = [
  new ChatOpenAI(settings),
  new ChatOpenAI({ ...settings, useResponsesApi: true }),
  new ChatAnthropic({ model: 'demo-chat', apiKey, anthropicApiUrl: url.replace(/\/v1$/, '') }),
];
for (const model of models) {
  const agent = createAgent({ model, tools: [weather], checkpointer: new MemorySaver() });
  const thread = { configurable: { thread_id: '1' } };
  const ask = (content) => ({ messages: [{ role: 'user', content }] });
  const { messages } = await agent.invoke(ask('Get weather of Bonn'), thread);
  if (!messages.at(-1).text.includes(word))
    throw new Error(`the tool's word is missing: ${messages.at(-1).text}`);
  for await (const [piece] of await agent.stream(ask('And again'), {
    ...thread,
    streamMode: 'messages',
  })) {
    process.stdout.write(piece.text);
  }
  console.log(messages.at(-1).text);
}
