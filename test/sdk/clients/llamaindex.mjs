import { tool } from '@llamaindex/core/tools';
import { openai, openaiResponses } from '@llamaindex/openai';
import { agent } from '@llamaindex/workflow';

const { TOLLGATE_URL: baseURL, TOLLGATE_KEY: apiKey, WORD: word } = process.env;
const settings = { model: 'demo-chat', baseURL, apiKey };
const weather = tool({
  name: 'get_weather',
  description: 'Weather of a city',
  parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  execute: () => `${word}`,
});

const messages = [{ role: 'user', content: 'Hello there' }];
for await (const { delta } of await openai(settings).chat({ messages, stream: true }))
  process.stdout.write(delta);
for (const llm of [openai(settings), openaiResponses(settings)]) {
  const { data } = await agent({ llm, tools: [weather] }).run('Get weather of Bonn');
  if (!data.result.includes(word)) throw new Error(`the tool's word is missing: ${data.result}`);
  console.log(data.result);
}
