import Instructor from '@instructor-ai/instructor';
import OpenAI from 'openai';
import { z } from 'zod';

const { TOLLGATE_URL: baseURL, TOLLGATE_KEY: apiKey, WORD: word } = process.env;
const client = Instructor({ client: new OpenAI({ baseURL, apiKey }), mode: 'TOOLS' });
const answer = await client.chat.completions.create({
  model: 'demo-chat',
  messages: [{ role: 'user', content: `Which city is \`${word}\`?` }],
  response_model: {
    name: 'City',
    schema: z.object({ city: z.string(), population: z.number().int() }),
  },
});
console.log(answer.city, answer.population);
