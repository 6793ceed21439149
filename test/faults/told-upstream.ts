import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { TEXTS } from './upstream.ts';
import type { Life } from './world.ts';

/** What this upstream knows of one call. */
export interface ThinkingCall {
  /** Tokens that nobody sees. */
  readonly hidden: number;
  /** Tokens of text handed to the socket while the connection was open. */
  sent: number;
}

/** What an upstream may tell: numbers that are false, of another type or in no JSON. */
export const LIES: Readonly<Record<string, readonly [prompt: string, completion: string]>> = {
  trillion: ['1000000000000', '1000000000000'],
  huge: ['9007199254740993', '18446744073709551615'],
  beyond: ['1e30', '1e308'],
  hundredfold: ['900000', '30000'],
  completion: ['7', '1000000000000'],
  prompt: ['1000000000000', '7'],
  negative: ['-5', '-1'],
  float: ['7.5', '1.5'],
  text: ['"1000000000000"', '"1000000000000"'],
  nan: ['NaN', 'NaN'],
  infinite: ['Infinity', 'Infinity'],
};

/**
 * An upstream of all dialects whose words are tokens. The model's name, or the prompt, says how it answers:
 *   words-N   N words (5)           pace-N   N ms between the events of a stream (0)
 *   hidden-N  N tokens of reasoning before the first word, told in the usage and never shown (0)
 *   vary      half of them to one and a half times as many
 *   silent    no usage, ever        lie-NAME  a usage out of LIES
 * It obeys no limit.
 */
export async function toldUpstream(
  life: Life,
): Promise<{ url: string; calls: Map<string, ThinkingCall> }> {
  const calls = new Map<string, ThinkingCall>();
  const server = createServer(async (req, res) => {
    const text = Buffer.concat(await req.toArray()).toString();
    const body = JSON.parse(text) as { stream?: boolean };
    const option = (name: string): string | undefined =>
      new RegExp(`!${name}-(\\w+)`).exec(text)?.[1];
    const vary = text.includes('!vary') ? 0.5 + Math.random() : 1;
    const call = { hidden: Math.round(Number(option('hidden') ?? 0) * vary), sent: 0 };
    calls.set(/mark-\w+-/.exec(text)?.[0] ?? '', call);
    const words = Number(option('words') ?? 5);
    const usage = text.includes('!silent')
      ? null
      : usageOf(req.url as string, call.hidden, words, option('lie'));
    const dialect = DIALECTS[(req.url as string).replace('/v1/', '')] as UpstreamDialect;
    if (body.stream !== true) {
      call.sent = words;
      const more = usage === null ? '' : `,"usage":${usage}`;
      return res
        .writeHead(200, { 'content-type': 'application/json' })
        .end(`${dialect.whole(textOf(words))}${more}}`);
    }
    res.writeHead(200, { 'content-type': 'text/event-stream' });
    await stream(res, call, dialect, words, Number(option('pace') ?? 0), usage);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  life.teardown(() => {
    server.close();
    server.closeAllConnections();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`, calls };
}

async function stream(
  res: ServerResponse,
  call: ThinkingCall,
  dialect: UpstreamDialect,
  words: number,
  pace: number,
  usage: string | null,
): Promise<void> {
  res.write(dialect.start);
  for (; call.sent < words && !res.destroyed; call.sent++) {
    res.write(dialect.delta(JSON.stringify(WORDS[call.sent % WORDS.length])));
    if (pace > 0) await sleep(pace); // paced traffic
  }
  if (!res.destroyed) res.end(dialect.end(usage));
}

const WORDS = (TEXTS.prose as string).match(/\s*[A-Za-z]+/g) as string[];

function textOf(words: number): string {
  return JSON.stringify(Array.from({ length: words }, (_, n) => WORDS[n % WORDS.length]).join(''));
}

function usageOf(path: string, hidden: number, words: number, lie: string | undefined): string {
  const [prompt, completion] =
    lie === undefined ? ['12', `${hidden + words}`] : (LIES[lie] as [string, string]);
  const details = `{"reasoning_tokens":${hidden}}`;
  if (path.endsWith('/rerank')) return `{"prompt_tokens":${prompt},"total_tokens":${prompt}}`;
  return path.endsWith('/completions') || path.endsWith('/embeddings')
    ? `{"prompt_tokens":${prompt},"completion_tokens":${path.endsWith('/embeddings') && lie === undefined ? 0 : completion},"completion_tokens_details":${details}}`
    : `{"input_tokens":${prompt},"output_tokens":${completion},"output_tokens_details":${details}}`;
}

interface UpstreamDialect {
  /** A whole answer of a text, without its usage and its last brace. */
  whole(text: string): string;
  readonly start: string;
  delta(text: string): string;
  end(usage: string | null): string;
}

const chatChoice = (delta: string, finish = 'null'): string =>
  `data: {"model":"internal","choices":[{"index":0,"delta":${delta},"finish_reason":${finish}}]}\n\n`;
const textChoice = (text: string, finish = 'null'): string =>
  `data: {"model":"internal","choices":[{"index":0,"text":${text},"logprobs":null,"finish_reason":${finish}}]}\n\n`;
const typed = (type: string, more: string): string =>
  `event: ${type}\ndata: {"type":"${type}",${more}}\n\n`;

const DIALECTS: Readonly<Record<string, UpstreamDialect>> = {
  'chat/completions': {
    whole: (text) =>
      `{"model":"internal","choices":[{"index":0,"message":{"role":"assistant","content":${text}},"finish_reason":"stop"}]`,
    start: chatChoice('{"role":"assistant","content":""}'),
    delta: (text) => chatChoice(`{"content":${text}}`),
    end: (usage) =>
      `${chatChoice('{}', '"stop"')}${usage === null ? '' : `data: {"choices":[],"usage":${usage}}\n\n`}data: [DONE]\n\n`,
  },
  completions: {
    whole: (text) =>
      `{"model":"internal","choices":[{"index":0,"text":${text},"finish_reason":"stop"}]`,
    start: textChoice('""'),
    delta: (text) => textChoice(text),
    end: (usage) =>
      `${textChoice('""', '"stop"')}${usage === null ? '' : `data: {"choices":[],"usage":${usage}}\n\n`}data: [DONE]\n\n`,
  },
  responses: {
    whole: (text) =>
      `{"model":"internal","output":[{"type":"message","content":[{"type":"output_text","text":${text}}]}]`,
    start: typed('response.created', '"response":{"model":"internal","usage":null}'),
    delta: (text) => typed('response.output_text.delta', `"delta":${text}`),
    end: (usage) => typed('response.completed', `"response":{"model":"internal","usage":${usage}}`),
  },
  messages: {
    whole: (text) =>
      `{"type":"message","model":"internal","content":[{"type":"text","text":${text}}]`,
    start: typed(
      'message_start',
      '"message":{"model":"internal","usage":{"input_tokens":0,"output_tokens":0}}',
    ),
    delta: (text) =>
      typed('content_block_delta', `"index":0,"delta":{"type":"text_delta","text":${text}}`),
    end: (usage) =>
      typed(
        'message_delta',
        `"delta":{"stop_reason":"end_turn"},"usage":${usage ?? '{"output_tokens":0}'}`,
      ) + typed('message_stop', '"index":0'),
  },
  rerank: {
    whole: () => '{"model":"internal","results":[{"index":0,"relevance_score":0.5}]',
    start: '',
    delta: () => '',
    end: () => '',
  },
  embeddings: {
    whole: () => '{"model":"internal","data":[{"index":0,"embedding":[0.5]}]',
    start: '',
    delta: () => '',
    end: () => '',
  },
};
