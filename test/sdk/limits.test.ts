import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import t from 'tap';
import { until } from '../support/until.ts';
import { CHAT, startWorld } from '../support/world.ts';

/** Official SDKs wait as long as a 429 says, and try again by themselves. */

const world = await startWorld(t);
const messages = [{ role: 'user' as const, content: 'Hello there' }];

/** A customer that may have one call in flight, and how often it was refused so far. */
async function oneAtOnce() {
  const customer = await world.newCustomer();
  await world.sql`update companies set max_concurrent = 1 where id = ${customer.company}`;
  const slow = await world.part(customer, 'slow', 'internal-slow!events-30!pace-20');
  return { key: customer.key, slow };
}

t.test('OpenAI', async (t) => {
  const { key, slow } = await oneAtOnce();
  const statuses: number[] = [];
  const client = new OpenAI({
    baseURL: world.url,
    apiKey: key,
    maxRetries: 20, // on a loud machine the slow call takes longer than two waits
    fetch: async (url, init) => {
      const answer = await fetch(url, init);
      statuses.push(answer.status);
      return answer;
    },
  });
  const stream = await client.chat.completions.create({ model: slow, messages, stream: true });
  const second = client.chat.completions.create({ model: CHAT, messages });
  await until(() => statuses.includes(429), 'refused');
  for await (const _chunk of stream);
  t.equal((await second).model, CHAT);
  t.equal(statuses.at(-1), 200);
});

t.test('Anthropic', async (t) => {
  const { key, slow } = await oneAtOnce();
  const statuses: number[] = [];
  const client = new Anthropic({
    baseURL: world.url.replace(/\/v1$/, ''),
    apiKey: key,
    maxRetries: 20, // on a loud machine the slow call takes longer than two waits
    fetch: async (url, init) => {
      const answer = await fetch(url, init);
      statuses.push(answer.status);
      return answer;
    },
  });
  const stream = await client.messages.create({
    model: slow,
    max_tokens: 100,
    messages,
    stream: true,
  });
  const second = client.messages.create({ model: CHAT, max_tokens: 100, messages });
  await until(() => statuses.includes(429), 'refused');
  for await (const _event of stream);
  t.equal((await second).model, CHAT);
  t.equal(statuses.at(-1), 200);
});
