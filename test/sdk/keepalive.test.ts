import { once } from 'node:events';
import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import Anthropic from '@anthropic-ai/sdk';
import { ChatOpenAI } from '@langchain/openai';
import { type LanguageModel, streamText } from 'ai';
import OpenAI from 'openai';
import t from 'tap';
import { chatStream, framed } from '../sse/fixtures.ts';
import { messageStream, responseStream } from '../sse/typed-fixtures.ts';
import { startGateway } from '../support/gateway.ts';
import { scriptedUpstream } from '../support/upstream.ts';

const TOKENS = 20;
const TEXT = Array.from({ length: TOKENS }, (_, n) => ` token${n}`).join('');
const STREAMS: Readonly<Record<string, string>> = {
  '/v1/chat/completions': chatStream(TOKENS),
  '/v1/responses': responseStream(TOKENS),
  '/v1/messages': messageStream(TOKENS),
};

const upstream = await scriptedUpstream(t);
const gateway = await startGateway(t, upstream.url, { STREAM_KEEPALIVE_SECONDS: '1' });
await gateway.model('fast', { upstream: 'internal-7b', input: '1', output: '2' });
const company = await gateway.company();
const key = await gateway.key(company);

/** By the prompt of a stream: tells how many keepalives its client has got, as they come. */
const heard = new EventTarget();
const keepalives = new Map<string, number>();
const promptOf = (body: unknown): string => /prompt \d+/.exec(String(body))?.[0] ?? '';

async function hear(prompt: string, count: number): Promise<void> {
  while ((keepalives.get(prompt) ?? 0) < count) await once(heard, prompt);
}

// silent before the first event, inside one and between two
upstream.answer(async (res, body, req) => {
  const prompt = promptOf(body);
  const bytes = framed(STREAMS[(req.url ?? '').split('?', 1)[0] as string] as string, '\n');
  const inside = bytes.length >> 1;
  const between = bytes.indexOf('\n\n', inside) + 2;
  res.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders();
  await hear(prompt, 1);
  res.write(bytes.subarray(0, inside));
  await hear(prompt, 2);
  res.write(bytes.subarray(inside, between));
  await hear(prompt, 3);
  res.end(bytes.subarray(between));
});

/** Notices keepalives among the bytes that a client reads. */
const listening: typeof fetch = async (url, init) => {
  const answer = await fetch(url, init);
  const prompt = promptOf(init?.body);
  const notice = new TransformStream<Uint8Array, Uint8Array>({
    transform(bytes, out) {
      out.enqueue(bytes);
      const count =
        Buffer.from(bytes)
          .toString()
          .split(/: keepalive\n\n|event: ping\ndata: \{"type":"ping"\}\n\n/).length - 1;
      keepalives.set(prompt, (keepalives.get(prompt) ?? 0) + count);
      if (count > 0) heard.dispatchEvent(new Event(prompt));
    },
  });
  return new Response(answer.body?.pipeThrough(notice) ?? null, answer);
};

const settings = { baseURL: gateway.url, apiKey: key, fetch: listening };
const openai = new OpenAI({ ...settings, maxRetries: 0 });
const anthropic = new Anthropic({
  ...settings,
  baseURL: gateway.url.replace(/\/v1$/, ''),
  maxRetries: 0,
});
const messagesOf = (content: string) => [{ role: 'user' as const, content }];
const ai = (model: LanguageModel) => async (prompt: string) => {
  let text = '';
  for await (const part of streamText({ model, prompt, maxRetries: 0, maxOutputTokens: 100 })
    .textStream)
    text += part;
  return text;
};

const CLIENTS: Readonly<Record<string, (prompt: string) => Promise<string>>> = {
  async 'openai, chat completions'(prompt) {
    let text = '';
    const stream = await openai.chat.completions.create({
      model: 'fast',
      messages: messagesOf(prompt),
      stream: true,
    });
    for await (const { choices } of stream)
      text += (choices[0] as OpenAI.ChatCompletionChunk.Choice).delta.content ?? '';
    return text;
  },
  async 'openai, the stream helper'(prompt) {
    const stream = openai.chat.completions.stream({ model: 'fast', messages: messagesOf(prompt) });
    return (await stream.finalChatCompletion()).choices[0]?.message.content ?? '';
  },
  async 'openai, responses'(prompt) {
    let text = '';
    for await (const event of await openai.responses.create({
      model: 'fast',
      input: prompt,
      stream: true,
    })) {
      if (event.type === 'response.output_text.delta') text += event.delta;
    }
    return text;
  },
  async 'anthropic, the events'(prompt) {
    let text = '';
    const body = {
      model: 'fast',
      max_tokens: 100,
      messages: messagesOf(prompt),
      stream: true as const,
    };
    for await (const event of await anthropic.messages.create(body)) {
      if (event.type === 'content_block_delta' && event.delta.type === 'text_delta')
        text += event.delta.text;
    }
    return text;
  },
  async 'anthropic, the stream helper'(prompt) {
    return anthropic.messages
      .stream({ model: 'fast', max_tokens: 100, messages: messagesOf(prompt) })
      .finalText();
  },
  'ai with @ai-sdk/openai-compatible': ai(
    createOpenAICompatible({ name: 'tollgate', ...settings })('fast'),
  ),
  'ai with @ai-sdk/openai, chat completions': ai(createOpenAI(settings).chat('fast')),
  'ai with @ai-sdk/openai, responses': ai(createOpenAI(settings)('fast')),
  'ai with @ai-sdk/anthropic': ai(createAnthropic(settings)('fast')),
  async '@langchain/openai'(prompt) {
    const model = new ChatOpenAI({
      model: 'fast',
      apiKey: key,
      maxRetries: 0,
      configuration: settings,
    });
    let text = '';
    for await (const { content } of await model.stream(prompt)) text += content;
    return text;
  },
};

t.jobs = Object.keys(CLIENTS).length; // each waits for seconds
for (const [n, [name, ask]] of Object.entries(CLIENTS).entries()) {
  t.test(
    `a stream that is silent before, inside and between events is whole for ${name}`,
    async (t) => {
      const prompt = `prompt ${n}`;
      t.equal(await ask(prompt), TEXT);
      t.ok((keepalives.get(prompt) ?? 0) >= 3);
    },
  );
}
