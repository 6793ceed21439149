import type { ServerResponse } from 'node:http';

/* What the upstream answers in `felt.ts`. */

export function json(res: ServerResponse, body: object | Buffer): void {
  res
    .writeHead(200, { 'content-type': 'application/json' })
    .end(Buffer.isBuffer(body) ? body : JSON.stringify(body));
}

const RESPONSE = {
  id: 'r',
  object: 'response',
  status: 'completed',
  model: 'internal',
  output: [],
  usage: { input_tokens: 5, output_tokens: 5, total_tokens: 10 },
};
const USAGE = { prompt_tokens: 5, completion_tokens: 5, total_tokens: 10 };
const COMPLETION = {
  id: 'x',
  object: 'chat.completion',
  model: 'internal',
  choices: [
    { index: 0, message: { role: 'assistant', content: 'hi' }, text: 'hi', finish_reason: 'stop' },
  ],
  usage: USAGE,
};
const MESSAGE = {
  id: 'm',
  type: 'message',
  role: 'assistant',
  model: 'internal',
  content: [],
  stop_reason: 'end_turn',
  usage: { input_tokens: 5, output_tokens: 5 },
};
const ANSWERS: readonly (readonly [path: string, answer: object])[] = [
  ['/responses', RESPONSE],
  ['/count_tokens', { input_tokens: 5 }],
  ['/messages', MESSAGE],
  [
    '/embeddings',
    {
      object: 'list',
      model: 'internal-v',
      data: [{ object: 'embedding', index: 0, embedding: [0.5] }],
      usage: USAGE,
    },
  ],
  ['/rerank', { id: 'r', results: [{ index: 0, relevance_score: 1 }], usage: USAGE }],
];

export function shortAnswer(res: ServerResponse, path: string): void {
  json(res, ANSWERS.find(([end]) => path.endsWith(end))?.[1] ?? COMPLETION);
}

/** An event stream: its first events, one that it repeats, and its last ones. */
export type Events = readonly [first: string, repeated: string, last: string];

const EVENTS = 20_000;

export function sendEvents(
  res: ServerResponse,
  [first, repeated, last]: Events,
  scale: number,
): void {
  res.writeHead(200, { 'content-type': 'text/event-stream' });
  res.end(first + repeated.repeat(EVENTS * scale) + last);
}

const event = (data: Record<string, unknown>): string =>
  `${data.type === undefined ? '' : `event: ${data.type}\n`}data: ${JSON.stringify(data)}\n\n`;
const chunk = (delta: object, end: object): string =>
  event({
    id: 'c',
    object: 'chat.completion.chunk',
    model: 'internal',
    choices: [{ index: 0, delta, finish_reason: null, ...end }],
  });

export const CHAT_EVENTS: Events = [
  '',
  chunk({ content: 'word ' }, {}),
  `${chunk({}, { finish_reason: 'stop' })}${event({ choices: [], usage: USAGE })}data: [DONE]\n\n`,
];
export const RESPONSES_EVENTS: Events = [
  event({
    type: 'response.created',
    response: { ...RESPONSE, status: 'in_progress', usage: null },
  }),
  event({
    type: 'response.output_text.delta',
    item_id: 'i',
    output_index: 0,
    content_index: 0,
    delta: 'word ',
  }),
  event({ type: 'response.completed', response: RESPONSE }),
];
export const MESSAGES_EVENTS: Events = [
  event({ type: 'message_start', message: { ...MESSAGE, stop_reason: null } }),
  event({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'word ' } }),
  event({
    type: 'message_delta',
    delta: { stop_reason: 'end_turn' },
    usage: { output_tokens: 5 },
  }) + event({ type: 'message_stop' }),
];
