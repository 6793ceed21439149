import { Agent } from '@mastra/core/agent';
import { createTool } from '@mastra/core/tools';
import { z } from 'zod';

const { TOLLGATE_URL: url, TOLLGATE_KEY: apiKey, WORD: word } = process.env;
const weather = createTool({
  id: 'get_weather',
  description: 'Weather of a city',
  inputSchema: z.object({ city: z.string() }),
  execute: async () => `${word}`,
});
const agent = new Agent({
  id: 'weather',
  name: 'Weather',
  instructions: 'You tell the weather.',
  model: { id: 'tollgate/demo-chat', url, apiKey },
  tools: { get_weather: weather },
});

const { text } = await agent.generate('Get weather of Bonn');
if (!text.includes(word)) throw new Error(`the tool's word is missing: ${text}`);
const { textStream } = await agent.stream('Get weather of Bonn');
for await (const part of textStream) process.stdout.write(part);
const { object } = await agent.generate('A city', {
  structuredOutput: { schema: z.object({ city: z.string() }) },
});
if (typeof object?.city !== 'string')
  throw new Error(`not of the shape: ${JSON.stringify(object)}`);
