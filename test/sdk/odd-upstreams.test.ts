import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import Anthropic from '@anthropic-ai/sdk';
import { streamText } from 'ai';
import OpenAI, { APIError, BadRequestError, InternalServerError } from 'openai';
import t from 'tap';
import { thrownBy } from '../support/client.ts';
import { startGateway } from '../support/gateway.ts';
import { scriptedUpstream } from '../support/upstream.ts';
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
    const answer = await client.chat.completions
      .stream({ model: 'odd', messages })
      .finalChatCompletion();
    t.equal(answer.choices[0]?.message.content, expected.choices[0].message.content);
    t.equal(answer.choices[0]?.finish_reason, 'stop');
    t.equal(answer.model, 'odd');
    t.same(answer.usage, expected.usage);

    const provider = createOpenAICompatible({
      name: 'tollgate',
      baseURL: world.url,
      apiKey: customer.key,
    });
    const result = streamText({ model: provider('odd'), messages, maxRetries: 0 });
    t.equal(await result.text, expected.choices[0].message.content);
    t.equal((await result.usage).outputTokens, expected.usage.completion_tokens);

    const rows = await world.ledger(customer.company, 2);
    const { prompt_tokens, completion_tokens } = expected.usage;
    t.match(rows, [
      { prompt_tokens, completion_tokens },
      { prompt_tokens, completion_tokens },
    ]);
    t.ok(
      rows.every(
        ({ outcome, usage_source }) => outcome === 'completed' && usage_source === 'upstream',
      ),
    );
  });
}

t.test('base64 embeddings are right although the upstream sends numbers', async (t) => {
  const customer = await world.newCustomer();
  await world.model('odd', {
    upstream: 'internal-odd!floats',
    kind: 'embedding',
    company: customer.company,
  });
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
      const body = {
        model: CHAT,
        messages: [{ role: 'user' as const, content: `I am number ${i}.` }],
      };
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
  const sum = (counts: readonly (number | undefined)[]) =>
    counts.reduce<number>((all, count = 0) => all + count, 0);
  t.equal(
    sum(rows.map((row) => row.prompt_tokens)),
    sum(answers.map(({ usage }) => usage?.prompt_tokens)),
  );
  t.equal(
    sum(rows.map((row) => row.completion_tokens)),
    sum(answers.map(({ usage }) => usage?.completion_tokens)),
  );
});

const hasty = await startWorld(t, { FIRST_BYTE_SECONDS: '1', IDLE_SECONDS: '1' });

t.test(
  'an SDK does not repeat a call that may have run: too slow an upstream is asked once',
  async (t) => {
    await hasty.part(hasty.customer, 'slow', 'internal-slow!slow-first-byte-60000');
    const client = new OpenAI({ baseURL: hasty.url, apiKey: hasty.customer.key, maxRetries: 2 });
    const error = await thrownBy(client.chat.completions.create({ model: 'slow', messages }));
    t.type(error, InternalServerError);
    t.match(error, { status: 504, code: 'upstream_timeout' });
    t.equal(hasty.upstream.received().length, 1);
  },
);

t.test('a stream that stalls is ended with an error, not left hanging', async (t) => {
  const customer = await hasty.newCustomer();
  await hasty.part(customer, 'stalling', 'internal-stalling!stall-after-3');
  const client = new OpenAI({ baseURL: hasty.url, apiKey: customer.key, maxRetries: 0 });
  const stream = await client.chat.completions.create({
    model: 'stalling',
    messages,
    stream: true,
  });
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

t.test(
  'an error told inside a 200: SDKs try again what may succeed, and throw what may not',
  async (t) => {
    const upstream = await scriptedUpstream(t);
    const gateway = await startGateway(t, upstream.url);
    await gateway.model('fast', { upstream: 'internal-fast' });
    const key = await gateway.key(await gateway.company());
    const openai = new OpenAI({ baseURL: gateway.url, apiKey: key, maxRetries: 2 });
    const anthropic = new Anthropic({
      baseURL: gateway.url.replace(/\/v1$/, ''),
      apiKey: key,
      maxRetries: 2,
    });
    /** Answers in turn; the last one again and again. */
    const script = (...bodies: readonly (object | string)[]) => {
      let turn = 0;
      upstream.answer((res) => {
        const body = bodies[Math.min(turn++, bodies.length - 1)] as object | string;
        const type = typeof body === 'string' ? 'text/event-stream' : 'application/json';
        res
          .writeHead(200, { 'content-type': type })
          .end(typeof body === 'string' ? body : JSON.stringify(body));
      });
      return () => turn;
    };
    const event = (type: string, more: object = {}) =>
      `event: ${type}\ndata: ${JSON.stringify({ type, ...more })}\n\n`;
    const hello = { model: 'fast', max_tokens: 9, messages };

    await t.test('messages: overloaded at once', async (t) => {
      const turns = script(
        event('error', { error: { type: 'overloaded_error', message: 'Overloaded' } }),
        event('message_start', {
          message: { model: 'internal-fast', content: [], usage: { input_tokens: 1 } },
        }) +
          event('content_block_start', { index: 0, content_block: { type: 'text', text: '' } }) +
          event('content_block_delta', {
            index: 0,
            delta: { type: 'text_delta', text: 'Hello there' },
          }) +
          event('content_block_stop', { index: 0 }) +
          event('message_delta', {
            delta: { stop_reason: 'end_turn' },
            usage: { output_tokens: 2 },
          }) +
          event('message_stop'),
      );
      t.equal(await anthropic.messages.stream(hello).finalText(), 'Hello there');
      t.equal(turns(), 2);
    });

    await t.test(
      'chat: a rate limit is tried again, an input that is too long is not',
      async (t) => {
        const choices = [
          { index: 0, message: { role: 'assistant', content: 'Hello' }, finish_reason: 'stop' },
        ];
        let turns = script(
          { error: { code: 429, message: 'Please try again in 0.1s.' } },
          { model: 'x', choices },
        );
        const answer = await openai.chat.completions.create(hello);
        t.equal(answer.choices[0]?.message.content, 'Hello');
        t.equal(turns(), 2);
        for (const stream of [false, true]) {
          const error = { code: 'context_length_exceeded', message: 'internal-fast takes less' };
          turns = script(stream ? `data: ${JSON.stringify({ error })}\n\n` : { error });
          const thrown = await thrownBy(openai.chat.completions.create({ ...hello, stream }));
          t.type(thrown, BadRequestError);
          t.match(thrown, { code: 'context_length_exceeded', message: /fast takes less/ });
          t.equal(turns(), 1);
        }
      },
    );

    await t.test(
      'responses: the SDK throws, the AI SDK tells it once, and Codex reads why',
      async (t) => {
        const response = { id: 'resp_1', model: 'internal-fast', created_at: 1, output: [] };
        const error = {
          code: 'context_length_exceeded',
          message: 'Your input exceeds the context window of this model.',
        };
        for (const before of ['', event('response.created', { response, sequence_number: 0 })]) {
          script(
            before +
              event('response.failed', {
                response: { ...response, status: 'failed', error },
                sequence_number: 1,
              }),
          );
          const create = async () => {
            for await (const _ of await openai.responses.create({
              model: 'fast',
              input: 'x',
              stream: true,
            }));
          };
          t.match(await thrownBy(create()), {
            code: 'context_length_exceeded',
            message: /context window/,
          });
          t.match(
            await thrownBy(openai.responses.stream({ model: 'fast', input: 'x' }).finalResponse()),
            {
              code: 'context_length_exceeded',
            },
          );
          const errors: unknown[] = [];
          const result = streamText({
            model: createOpenAI({ baseURL: gateway.url, apiKey: key })('fast'),
            messages,
            maxRetries: 0,
            onError: ({ error }) => void errors.push(error),
          });
          await result.consumeStream();
          t.equal(errors.length, 1);
          t.match(`${errors[0]}`, /context window/);
          t.equal(await codexReads(`${gateway.url}/responses`, key), 'context_length_exceeded');
        }
      },
    );
  },
);

/** What Codex (codex-rs/codex-api/src/sse/responses.rs) makes of a stream: it reads nothing of `event: error`. */
async function codexReads(url: string, key: string): Promise<string> {
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
  const body = JSON.stringify({ model: 'fast', input: 'x', stream: true });
  const text = await (await fetch(url, { method: 'POST', headers, body })).text();
  for (const event of text.split('\n\n')) {
    const data = /^data: (.*)$/m.exec(event)?.[1];
    const { type, response } = data === undefined ? { type: '', response: {} } : JSON.parse(data);
    if (type === 'response.completed') return 'completed';
    if (type === 'response.failed') return response.error.code;
  }
  return 'stream disconnected';
}
