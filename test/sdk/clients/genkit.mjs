import { openAICompatible } from '@genkit-ai/compat-oai';
import { genkit, z } from 'genkit';

const { TOLLGATE_URL: baseURL, TOLLGATE_KEY: apiKey, WORD: word } = process.env;
const ai = genkit({
  plugins: [openAICompatible({ name: 'tollgate', baseURL, apiKey })],
  model: 'tollgate/demo-chat',
});
const weather = ai.defineTool(
  {
    name: 'get_weather',
    description: 'Weather of a city',
    inputSchema: z.object({ city: z.string() }),
  },
  async () => `${word}`,
);

const { text } = await ai.generate({ prompt: 'Get weather of Bonn', tools: [weather] });
console.log(text);
const { stream, response } = ai.generateStream({ prompt: 'Hello there' });
for await (const chunk of stream) process.stdout.write(chunk.text);
if (!((await response).usage.outputTokens > 0)) throw new Error('the stream told no usage');
