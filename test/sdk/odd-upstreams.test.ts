import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { streamText } from 'ai';
import OpenAI, { APIError, InternalServerError } from 'openai';
import t from 'tap';
import { thrownBy } from '../support/client.ts';
import { CHAT, EMBED, startWorld } from '../support/world.ts';

/** Upstreams that are right but odd: SDKs must not notice, and the ledger must be exact. */
const ODDITIES = [
  'crlf',
  'cr',
  'noise',
  'alphabetical',
  'no-model',
  'fallback',
  'no-done',
  'usage-in-finish',
  'usage-every',
  'usage-null',
  'pace-0',
  'leaky-headers',
];

const world = await startWorld(t);
const messages = [{ role: 'user' as const, content: 'Hello there' }];
const expected = (await world.customer.chat()).json;

for (const oddity of ODDITIES) {
  t.test(`SDKs stream from an upstream with !${oddity} as from any other`, async (t) => {
    const customer = await world.newCustomer();
    await world.part(customer, 'odd', `internal-odd!pace-1!${oddity}`);
    const client = new OpenAI({ baseURL: world.url, apiKey: customer.key, maxRetries: 0 });
    const answer = await client.chat.completions.stream({ model: 'odd', messages }).finalChatCompletion();
    t.equal(answer.choices[0]?.message.content, expected.choices[0].message.content);
    t.equal(answer.choices[0]?.finish_reason, 'stop');
    t.equal(answer.model, 'odd');
    t.same(answer.usage, expected.usage);

    const provider = createOpenAICompatible({ name: 'tollgate', baseURL: world.url, apiKey: customer.key });
    const result = streamText({ model: provider('odd'), messages, maxRetries: 0 });
    t.equal(await result.text, expected.choices[0].message.content);
    t.equal((await result.usage).outputTokens, expected.usage.completion_tokens);

    const rows = await world.ledger(customer.company, 2);
    const { prompt_tokens, completion_tokens } = expected.usage;
    t.match(rows, [
      { prompt_tokens, completion_tokens },
      { prompt_tokens, completion_tokens },
    ]);
    t.ok(rows.every(({ outcome, usage_source }) => outcome === 'completed' && usage_source === 'upstream'));
  });
}

t.test('base64 embeddings are right although the upstream sends numbers', async (t) => {
  const customer = await world.newCustomer();
  await world.model('odd', { upstream: 'internal-odd!floats', kind: 'embedding', company: customer.company });
  const client = new OpenAI({ baseURL: world.url, apiKey: customer.key, maxRetries: 0 });
  const odd = await client.embeddings.create({ model: 'odd', input: ['a', 'b'] });
  const even = await client.embeddings.create({ model: EMBED, input: ['a', 'b'] });
  t.same(odd.data, even.data);
});

t.test('fifty calls at once, streamed and not: each gets its own answer and one row', async (t) => {
  const customer = await world.newCustomer();
  const client = new OpenAI({ baseURL: world.url, apiKey: customer.key, maxRetries: 0 });
  const answers = await Promise.all(
    Array.from({ length: 50 }, async (_, i) => {
      const body = { model: CHAT, messages: [{ role: 'user' as const, content: `I am number ${i}.` }] };
      const answer =
        i % 2 === 0
          ? await client.chat.completions.create(body)
          : await client.chat.completions.stream(body).finalChatCompletion();
      t.match(answer.choices[0]?.message.content, `I am number ${i}.`);
      return answer;
    }),
  );
  const rows = await world.ledger(customer.company, 50);
  t.equal(rows.length, 50);
  const sum = (counts: readonly (number | undefined)[]) => counts.reduce<number>((all, count = 0) => all + count, 0);
  t.equal(sum(rows.map((row) => row.prompt_tokens)), sum(answers.map(({ usage }) => usage?.prompt_tokens)));
  t.equal(sum(rows.map((row) => row.completion_tokens)), sum(answers.map(({ usage }) => usage?.completion_tokens)));
});

const hasty = await startWorld(t, { FIRST_BYTE_SECONDS: '1', IDLE_SECONDS: '1' });

t.test('an SDK does not repeat a call that may have run: too slow an upstream is asked once', async (t) => {
  await hasty.part(hasty.customer, 'slow', 'internal-slow!slow-first-byte-60000');
  const client = new OpenAI({ baseURL: hasty.url, apiKey: hasty.customer.key, maxRetries: 2 });
  const error = await thrownBy(client.chat.completions.create({ model: 'slow', messages }));
  t.type(error, InternalServerError);
  t.match(error, { status: 504, code: 'upstream_timeout' });
  t.equal(hasty.upstream.received().length, 1);
});

t.test('a stream that stalls is ended with an error, not left hanging', async (t) => {
  const customer = await hasty.newCustomer();
  await hasty.part(customer, 'stalling', 'internal-stalling!stall-after-3');
  const client = new OpenAI({ baseURL: hasty.url, apiKey: customer.key, maxRetries: 0 });
  const stream = await client.chat.completions.create({ model: 'stalling', messages, stream: true });
  let text = '';
  const error = await thrownBy(
    (async () => {
      for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? '';
    })(),
  );
  t.ok(text.length > 0);
  t.type(error, APIError);
  t.match(error, { code: 'upstream_timeout' });
});
