import {
  Agent,
  MemorySession,
  run,
  setDefaultOpenAIClient,
  setOpenAIAPI,
  setTracingDisabled,
  tool,
} from '@openai/agents';
import OpenAI from 'openai';
import { z } from 'zod';

const { TOLLGATE_URL: baseURL, TOLLGATE_KEY: apiKey, WORD: word } = process.env;
setDefaultOpenAIClient(new OpenAI({ baseURL, apiKey }));
setTracingDisabled(true); // its traces go to OpenAI
const weather = tool({
  name: 'get_weather',
  description: 'Weather of a city',
  parameters: z.object({ city: z.string() }),
  execute: async () => word,
});
const agent = new Agent({
  name: 'Weather',
  instructions: 'You tell the weather.',
  model: 'demo-chat',
  tools: [weather],
});

for (const api of ['chat_completions', 'responses']) {
  setOpenAIAPI(api);
  const session = new MemorySession();
  const { finalOutput } = await run(agent, 'Get weather of Bonn', { session });
  if (!finalOutput.includes(word))
    throw new Error(`${api}: the tool's word is missing: ${finalOutput}`);
  await run(agent, 'And again', { session });
  const stream = await run(agent, 'Get weather of Bonn', { stream: true });
  for await (const text of stream.toTextStream()) process.stdout.write(text);
  console.log();
}
const shaped = new Agent({
  name: 'City',
  model: 'demo-chat',
  outputType: z.object({ city: z.string() }),
});
const { finalOutput } = await run(shaped, 'A city');
if (typeof finalOutput.city !== 'string')
  throw new Error(`not of the shape: ${JSON.stringify(finalOutput)}`);
