import type { ToldUsage } from '../../src/json/usage.ts';
import type { StreamState } from '../../src/sse/scanner.ts';

/** A usage without the details of its counts. */
export type Counts = Pick<ToldUsage, 'prompt' | 'completion'>;

export function countsOf(usage: ToldUsage | null): Counts | null {
  return usage && { prompt: usage.prompt, completion: usage.completion };
}

/**
 * Streams as upstreams send them, and what becomes of them. In texts, "⏎" is the
 * upstream's line end (LF, CRLF or CR, the same throughout a stream); a line feed is ours.
 */
export interface StreamFixture {
  readonly name: string;
  readonly input: string;
  readonly output: string;
  readonly state: Exclude<StreamState, 'open'>;
  readonly usage: Counts | null;
  /** Bytes of generated text relayed, as written in JSON. */
  readonly generated?: number;
}

export const SLUG = 'acme/large';
export const LINE_ENDS = ['\n', '\r\n', '\r'] as const;
/** No event of the fixtures is larger; the one that is too large is. */
export const MAX_EVENT_BYTES = 4000;

/** The bytes of a fixture's text with one kind of line end. */
export function framed(text: string, lineEnd: string): Buffer {
  return Buffer.from(text.replaceAll('⏎', lineEnd));
}

const event = (json: string) => `data: ${json}⏎⏎`;
/** How a whole stream ends, if its own events do not tell: the reason of a choice, and [DONE]. */
const FINISH = event('{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}');
const UPSTREAM_END = 'data: [DONE]⏎⏎';
const UPSTREAM_DONE = FINISH + UPSTREAM_END;
const END = 'data: [DONE]\n\n';
const DONE = FINISH + END;
/** What leaves: the model's name exchanged, the price and what bears a provider's name gone. */
const slugged = (text: string) =>
  text
    .replaceAll('internal-7b', SLUG)
    .replace('"cost":0.00071,', '')
    .replaceAll(/,"x_groq":(?:\[\]|\{[^{}]*(?:\{[^{}]*\})?\})/g, '');

/** An OpenAI chunk: what the benchmark replays too. */
export function chunk(delta: string, finish = 'null', more = ''): string {
  return `{"id":"chatcmpl-B9Ykz2","object":"chat.completion.chunk","created":1763714523,"model":"internal-7b","service_tier":"default","system_fingerprint":"fp_44709d6fcb","choices":[{"index":0,"delta":${delta},"logprobs":null,"finish_reason":${finish}}]${more}}`;
}

const ROLE = event(chunk('{"role":"assistant","content":"","refusal":null}'));
const HELLO = event(chunk('{"content":"Hello"}'));
const STOP = event(chunk('{}', '"stop"'));
const USAGE = event(
  '{"id":"chatcmpl-B9Ykz2","object":"chat.completion.chunk","created":1763714523,"model":"internal-7b","choices":[],"usage":{"prompt_tokens":19,"completion_tokens":10,"total_tokens":29,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0}}}',
);

/** An OpenAI stream of this many content events, between role and usage events. */
export function chatStream(contentEvents: number): string {
  let text = ROLE;
  for (let i = 0; i < contentEvents; i++) text += event(chunk(`{"content":" token${i % 100}"}`));
  return `${text + STOP + USAGE}data: [DONE]⏎⏎`;
}

interface Ending {
  readonly state?: StreamFixture['state'];
  readonly usage?: Counts | null;
  readonly generated?: number;
}

/** A stream whose events are relayed with the model's name exchanged, and no other difference. */
function relayed(name: string, events: string, ending: Ending = {}): StreamFixture {
  return whole(name, events + UPSTREAM_DONE, slugged(events) + DONE, ending);
}

function whole(name: string, input: string, output: string, ending: Ending = {}): StreamFixture {
  return { name, input, output, state: 'done', usage: null, ...ending };
}

function broken(name: string, input: string, output: string, ending: Ending = {}): StreamFixture {
  return { name, input, output, state: 'broken', usage: null, ...ending };
}

/** One event, finished, so that only the event itself matters. */
function one(name: string, input: string, output: string, ending: Ending = {}): StreamFixture {
  return whole(name, event(input) + UPSTREAM_DONE, event(output) + DONE, ending);
}

/** Tool-call arguments, as JSON strings. */
const PIECES = [
  '"{\\"mod"',
  '"el\\": \\""',
  '"internal-7b\\"}"',
  '"model"',
  '""',
  '":\\\\\\"internal\\\\\\""',
];

const USED = { prompt: 19, completion: 10 };
const TOLD = '"usage":{"prompt_tokens":19,"completion_tokens":10}';
const NO_TEXT = '"usage":{"prompt_tokens":19,"completion_tokens":0}';
const NOTHING = { ...USED, completion: null };

export const STREAMS: readonly StreamFixture[] = [
  // usage, wherever it arrives
  relayed('usage in its own chunk (OpenAI, vLLM)', ROLE + HELLO + HELLO + HELLO + STOP + USAGE, {
    usage: USED,
    generated: 15,
  }),
  relayed(
    'usage with the finish_reason (Mistral, DeepSeek)',
    HELLO +
      event(
        chunk(
          '{"content":""}',
          '"stop"',
          ',"usage":{"prompt_tokens":19,"total_tokens":29,"completion_tokens":10}',
        ),
      ),
    { usage: USED },
  ),
  relayed(
    'usage in every chunk, cumulative (Perplexity, Gemini)',
    [1, 2, 5, 7, 10]
      .map((n) =>
        event(
          chunk(
            '{"content":"a"}',
            n === 10 ? '"stop"' : 'null',
            `,"usage":{"prompt_tokens":19,"completion_tokens":${n},"total_tokens":${19 + n}}`,
          ),
        ),
      )
      .join(''),
    { usage: USED, generated: 5 },
  ),
  relayed(
    'usage null until the last chunk',
    event(chunk('{"content":"a"}', 'null', ',"usage":null')).repeat(4) +
      event(chunk('{}', '"stop"', ',"usage":null')) +
      USAGE,
    { usage: USED },
  ),
  relayed(
    'usage null or empty after the last one said nothing new',
    USAGE +
      event(chunk('{}', '"stop"', ',"usage":null')) +
      event(chunk('{}', '"stop"', ',"usage": { }')),
    { usage: USED },
  ),
  relayed(
    'a usage without counts after the one with them',
    HELLO +
      USAGE +
      ['{"total_time":1}', '{"prompt_tokens":null}']
        .map((usage) => event(chunk('{}', '"stop"', `,"usage":${usage}`)))
        .join(''),
    { usage: USED },
  ),
  relayed(
    'usage under x_groq',
    event(chunk('{"content":"a"}', 'null', ',"x_groq":{"id":"req_01"}')) +
      HELLO +
      event(
        chunk(
          '{}',
          '"stop"',
          ',"x_groq":{"id":"req_01","usage":{"queue_time":0.02,"prompt_tokens":19,"completion_tokens":10}}',
        ),
      ),
    { usage: USED },
  ),
  relayed(
    'top-level usage before x_groq in one chunk',
    event(
      chunk(
        '{}',
        '"stop"',
        ',"usage":{"prompt_tokens":19,"completion_tokens":10},"x_groq":{"usage":{"prompt_tokens":1,"completion_tokens":1}}',
      ),
    ),
    { usage: USED },
  ),
  relayed(
    'usage in a chunk without choices, with other members and whole floats',
    HELLO +
      STOP +
      event(
        '{"model":"internal-7b","usage":{"cost":0.00071,"completion_tokens_details":{"reasoning_tokens":4},"total_tokens":29.0,"completion_tokens":1e1,"prompt_tokens":19.0}}',
      ),
    { usage: USED },
  ),
  relayed(
    'usage of zero',
    STOP + event('{"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}'),
    {
      usage: { prompt: null, completion: 0 },
    },
  ),
  relayed(
    'usage of which a half cannot be',
    STOP + event('{"usage":{"prompt_tokens":-1,"completion_tokens":2}}'),
    {
      usage: { prompt: null, completion: 2 },
    },
  ),
  relayed('usage that is no object', STOP + event('{"usage":"19","x_groq":[]}')),
  relayed(
    'usage inside other members',
    STOP +
      event(
        '{"a":{"usage":{"prompt_tokens":1,"completion_tokens":1}},"choices":[{"delta":{"usage":{"prompt_tokens":1}}}]}',
      ),
  ),
  relayed(
    'usage in a choice (Moonshot)',
    HELLO +
      event(
        chunk('{}', '"stop"').replace(
          '"finish_reason":"stop"',
          '"finish_reason":"stop","usage":{"prompt_tokens":19,"completion_tokens":10}',
        ),
      ),
    { usage: USED },
  ),
  relayed(
    'usage in each choice, and one outside that counts nothing',
    HELLO +
      [1, 2, 3, 4, 7, 9, 10]
        .map((n) =>
          event(
            `{"choices":[{"delta":{"content":"a"},"usage":{"prompt_tokens":19,"completion_tokens":${n}}}],"usage":{"prompt_tokens":0,"completion_tokens":0}}`,
          ),
        )
        .join('') +
      STOP,
    { usage: USED, generated: 12 },
  ),
  relayed(
    'parts of a usage, and zeros, behind the one with the counts',
    HELLO +
      event(
        chunk(
          '{}',
          '"stop"',
          ',"usage":{"prompt_tokens":19,"completion_tokens":10,"total_tokens":29}',
        ),
      ) +
      [
        '{"prompt_tokens_details":{"cached_tokens":4}}',
        '{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}',
      ]
        .map((usage) => event(chunk('{}', 'null', `,"usage":${usage}`)))
        .join(''),
    { usage: USED },
  ),
  relayed(
    'a usage in parts',
    HELLO +
      STOP +
      [
        '{"completion_tokens":10}',
        '{"prompt_tokens":-1}',
        '{"prompt_tokens":19,"completion_tokens":-1}',
      ]
        .map((usage) => event(`{"choices":[],"usage":${usage}}`))
        .join(''),
    { usage: USED },
  ),
  relayed(
    'a usage before the text alone',
    event(
      chunk('{"role":"assistant"}', 'null', ',"usage":{"prompt_tokens":19,"completion_tokens":1}'),
    ) +
      HELLO.repeat(3) +
      STOP,
    { usage: { prompt: 19, completion: null } },
  ),

  // model, wherever it stands
  relayed(
    'keys in alphabetical order, an empty model first (Azure)',
    event(
      '{"choices":[],"created":0,"id":"","model":"internal-7b","object":"","prompt_filter_results":[{"prompt_index":0}]}',
    ) +
      [' of', ' course', '!', '\\n', ' x'].map((text) => alphabetical(text)).join('') +
      event(
        '{"choices":[{"delta":{},"finish_reason":"stop","index":0,"logprobs":null}],"created":1,"id":"c","model":"internal-7b"}',
      ),
    { generated: 15 },
  ),
  one(
    'an empty model',
    '{"choices":[],"model":"","id":""}',
    `{"choices":[],"model":"${SLUG}","id":""}`,
  ),
  relayed(
    'model second to last (Alibaba)',
    ['a', 'bc', 'def', 'g', 'h']
      .map((text) =>
        event(
          `{"choices":[{"delta":{"content":"${text}"},"finish_reason":null,"index":0}],"object":"chat.completion.chunk","usage":null,"created":1763714523,"system_fingerprint":null,"model":"internal-7b","id":"chatcmpl-1"}`,
        ),
      )
      .join('') + STOP,
    { generated: 8 },
  ),
  one('a model of null', '{"model":null,"choices":[]}', `{"model":"${SLUG}","choices":[]}`),
  one(
    'a model that is an object',
    '{"model":{"name":"internal","n":[1]},"a":1}',
    `{"model":"${SLUG}","a":1}`,
  ),
  one('a model that is a number, last', '{"a":1,"model":-1.5e3}', `{"a":1,"model":"${SLUG}"}`),
  one(
    'two models',
    '{"model":"internal","a":1,"model":"internal"}',
    `{"model":"${SLUG}","a":1,"model":"${SLUG}"}`,
  ),
  one('a model written with escapes', '{"\\u006dodel":"internal"}', `{"\\u006dodel":"${SLUG}"}`),
  one(
    'a model with quotes in its name',
    '{"model":"in\\"ternal\\\\","a":"\\\\"}',
    `{"model":"${SLUG}","a":"\\\\"}`,
  ),
  one(
    'names that only look like it',
    '{"mode":1,"models":2,"Model":3,"model\\u0000":4,"choices":[]}',
    `{"model":"${SLUG}","mode":1,"models":2,"Model":3,"model\\u0000":4,"choices":[]}`,
  ),
  one(
    'a first event without model',
    '{"id":"x","choices":[]}',
    `{"model":"${SLUG}","id":"x","choices":[]}`,
  ),
  one('a first event of a usage alone', '{"usage":{}}', `{"model":"${SLUG}","usage":{}}`),
  one(
    'a first event that only says what it is',
    '{ "object":"chat.completion.chunk"}',
    `{"model":"${SLUG}", "object":"chat.completion.chunk"}`,
  ),
  whole(
    'later events without model',
    event('{"model":"internal","a":1}') +
      event('{"a":1,"choices":[]}') +
      event('{"choices":null}') +
      UPSTREAM_DONE,
    event(`{"model":"${SLUG}","a":1}`) +
      event('{"a":1,"choices":[]}') +
      event('{"choices":null}') +
      DONE,
  ),
  whole(
    'events that are no chunks, first and later',
    [
      '{}',
      '{ "provider":"Internal" }',
      '{"headers":{"openai-model":"internal"}}',
      '{"id":"x","object":"ping"}',
    ]
      .map(event)
      .join('') +
      HELLO +
      event('{"type":"codex.rate_limits","model":"internal"}') +
      `event: codex.response.metadata⏎${event('{"type":"codex.response.metadata","usage":{"prompt_tokens":19,"completion_tokens":10}}')}` +
      HELLO +
      STOP,
    slugged(HELLO + HELLO + STOP) + END,
    { usage: USED, generated: 10 },
  ),
  whole(
    'another model after a fallback',
    [...'aaaabbbb']
      .map((c) => event(chunk(`{"content":"${c}"}`).replace('internal-7b', `internal-${c}`)))
      .join('') + UPSTREAM_DONE,
    [...'aaaabbbb']
      .map((c) => event(chunk(`{"content":"${c}"}`).replace('internal-7b', SLUG)))
      .join('') + DONE,
    { generated: 8 },
  ),
  one(
    'the same text elsewhere',
    '{"a":{"model":"internal"},"b":["model",{"model":1}],"c":"\\"model\\":\\"internal\\"","model":"internal","d":"model"}',
    `{"a":{"model":"internal"},"b":["model",{"model":1}],"c":"\\"model\\":\\"internal\\"","model":"${SLUG}","d":"model"}`,
  ),
  whole(
    'the same text in tool-call arguments, in pieces',
    PIECES.map((text) => event(toolCall(text))).join('') + STOP + UPSTREAM_DONE,
    PIECES.map((text) => event(toolCall(text).replace('internal-7b', SLUG))).join('') +
      slugged(STOP) +
      DONE,
    { generated: 50 },
  ),
  relayed(
    'reasoning, refusal, tools and several choices',
    event(chunk('{"role":"assistant","reasoning_content":"hm"}')) +
      event(chunk('{"reasoning":"so","content":null}')) +
      event(chunk('{"refusal":"no"}')) +
      event(
        '{"model":"internal-7b","choices":[{"index":1,"delta":{"content":[{"type":"text","text":"part"}]}},{"index":0,"text":"old","finish_reason":""}]}',
      ) +
      STOP,
    { generated: 13 },
  ),

  // what stands behind
  one(
    'provider first (OpenRouter)',
    '{"provider":"Internal","model":"internal","a":1}',
    `{"model":"${SLUG}","a":1}`,
  ),
  one(
    'provider in the middle',
    '{"model":"internal", "provider" : "Internal" , "a":1}',
    `{"model":"${SLUG}" , "a":1}`,
  ),
  one('provider last', '{"model":"internal","provider":"Internal"}', `{"model":"${SLUG}"}`),
  one(
    'provider alone',
    '{ "provider":"Internal" ,"usage":null}',
    `{"model":"${SLUG}", "usage":null}`,
  ),
  one(
    'all of them, twice, in a row',
    '{"_hidden_params":{"api_base":"http://internal"}, "provider":"x","provider":"y","id":"1","provider_specific_fields":{"a":[1,"}"]},"\\u0070rovider":null ,"model":"internal" }',
    `{"id":"1" ,"model":"${SLUG}" }`,
  ),
  one(
    'all of them and nothing else',
    '{"provider":1,"_hidden_params":{},"model":"internal","provider_specific_fields":[]}',
    `{"model":"${SLUG}"}`,
  ),
  one(
    'names inside other members',
    '{"model":"m","a":{"provider":1},"b":[{"_hidden_params":1},{"x":1, "cost":[{"a":"}"}] ,"y":[2]},{"cost":1 , "cost_x":"\\"",\t"x_cost":null,"y":{"totalCost":-1.5e3}}]}',
    `{"model":"${SLUG}","a":{},"b":[{},{"x":1 ,"y":[2]},{"y":{}}]}`,
  ),
  one(
    'names inside other members, as no list of ours has them',
    '{"model":"m","a":{"\\u0070rovider":1,"b":"\\n","provider_x":{"c":1},"X-Y":"z","x-":1,"cos":2,"headers":{"a":1},"d":{"hidden_params":1},"st":3}}',
    `{"model":"${SLUG}","a":{"b":"\\n","x-":1,"cos":2,"d":{},"st":3}}`,
  ),
  whole(
    'names inside choices of every event, and in the arguments of a tool',
    ['a', 'b', 'c', 'd', 'e']
      .map((c) =>
        event(
          chunk(
            `{"provider_specific_fields":null,"content":"${c}"}`,
            'null',
            ',"cost":0.1',
          ).replace(
            '"index":0',
            '"_hidden_params":{"api_base":"http://internal"},"index":0,"cost":{"total":0.5}',
          ),
        ),
      )
      .join('') +
      event(
        chunk(
          '{"tool_calls":[{"index":0,"cost":1,"function":{"arguments":{"provider":"mine","cost":[1]}}}]}',
        ),
      ) +
      UPSTREAM_DONE,
    slugged(
      ['a', 'b', 'c', 'd', 'e'].map((c) => event(chunk(`{"content":"${c}"}`))).join('') +
        event(
          chunk(
            '{"tool_calls":[{"index":0,"function":{"arguments":{"provider":"mine","cost":[1]}}}]}',
          ),
        ),
    ) + DONE,
    { generated: 5 + '"provider":"mine","cost":[1]'.length },
  ),
  one(
    'a price in a usage, however deep, and a model in it',
    '{"model":"m","choices":[],"usage":{"a":{"cost":1,"b":[{"cost_x":1,"model":"internal"}]},"model":"internal"}}',
    `{"model":"${SLUG}","choices":[],"usage":{"a":{"b":[{"model":"${SLUG}"}]},"model":"${SLUG}"}}`,
  ),
  whole(
    'provider in every event',
    ['a', 'b', 'c', 'd']
      .map((c) =>
        event(
          `{"id":"gen-1","provider":"Internal","model":"internal-7b","choices":[{"index":0,"delta":{"content":"${c}"},"finish_reason":null}]}`,
        ),
      )
      .join('') + UPSTREAM_DONE,
    ['a', 'b', 'c', 'd']
      .map((c) =>
        event(
          `{"id":"gen-1","model":"${SLUG}","choices":[{"index":0,"delta":{"content":"${c}"},"finish_reason":null}]}`,
        ),
      )
      .join('') + DONE,
    { generated: 4 },
  ),
  whole(
    'provider and a second model behind what events have in common',
    ['', ',"provider":"Internal"', ',"model":"internal"', ',"a":{"provider":1}', '']
      .map((more) => event(chunk('{"content":"a"}', 'null', more)))
      .join('') + UPSTREAM_DONE,
    ['', '', `,"model":"${SLUG}"`, ',"a":{}', '']
      .map((more) => slugged(event(chunk('{"content":"a"}', 'null', more))))
      .join('') + DONE,
    { generated: 5 },
  ),
  relayed(
    'an error that is null',
    event(chunk('{"content":"a"}', 'null', ',"error":null')).repeat(4),
  ),

  // framing
  whole(
    'no space behind the colon',
    `data:${chunk('{}', '"stop"')}⏎⏎data:[DONE]⏎⏎`,
    slugged(`data:${chunk('{}', '"stop"')}⏎⏎`) + END,
  ),
  whole(
    'more space round the payload',
    `data: \t {"model":"x"} \t⏎⏎${FINISH}data:  [DONE] ⏎⏎`,
    `data: \t {"model":"${SLUG}"} \t⏎⏎${DONE}`,
  ),
  relayed(
    'JSON with spaces (Python)',
    event(
      '{"id": "x", "model": "internal-7b", "choices": [{"index": 0, "delta": {"content": "a, b"}, "finish_reason": null}], "usage": {"prompt_tokens": 19, "completion_tokens": 10}}',
    ).repeat(4),
    { usage: USED, generated: 16 },
  ),
  whole('a byte order mark', `\ufeff${HELLO}${UPSTREAM_DONE}`, slugged(HELLO) + DONE),
  whole(
    'a second byte order mark',
    `\ufeff\ufeff${HELLO}${STOP}${UPSTREAM_END}`,
    slugged(STOP) + END,
  ),
  whole(
    'blank lines while a request queues',
    `⏎⏎⏎${HELLO}⏎⏎${HELLO}⏎${UPSTREAM_DONE}`,
    slugged(HELLO + HELLO) + DONE,
  ),
  whole(
    'comments',
    `: OPENROUTER PROCESSING⏎⏎: internal-7b⏎⏎${HELLO}:⏎:⏎⏎${HELLO}: x⏎${HELLO}${UPSTREAM_DONE}`,
    `:\n\n:\n\n${slugged(HELLO)}:\n\n:\n\n${slugged(HELLO)}:\n\n${slugged(HELLO)}${DONE}`,
  ),
  whole(
    'a comment within an event',
    `data: {"model":⏎: internal⏎data: "x"}⏎: y⏎⏎${UPSTREAM_DONE}`,
    `:\n\n:\n\ndata: {"model":⏎data: "${SLUG}"}⏎⏎${DONE}`,
  ),
  whole(
    'event, id, retry and unknown fields',
    `event: message⏎id: internal⏎retry: 5⏎data: {"model":"x"}⏎unknown: internal⏎⏎id: 2⏎⏎event: ping⏎⏎retry: 3000⏎⏎x⏎⏎errors: none⏎⏎event: errors⏎⏎datum: 1⏎⏎ data: {"a":1}⏎⏎${HELLO}id⏎${UPSTREAM_DONE}`,
    `data: {"model":"${SLUG}"}⏎⏎${slugged(HELLO)}${DONE}`,
  ),
  whole(
    'events without data',
    `data⏎⏎data:⏎⏎data: ⏎⏎data:  ⏎data⏎⏎event: a⏎data:⏎⏎${HELLO}${UPSTREAM_DONE}`,
    slugged(HELLO) + DONE,
  ),
  whole(
    'an event of several lines',
    'data: {"a":1,⏎data:"model" :⏎data: ⏎data: "internal"⏎data⏎data:  ,"provider":⏎data: {"a"⏎data: :1},"z":[1,⏎data: 2]}⏎⏎' +
      UPSTREAM_DONE,
    `data: {"a":1,⏎data:"model" :⏎data: ⏎data: "${SLUG}"⏎data⏎data:  ⏎data: ⏎data: ,"z":[1,⏎data: 2]}⏎⏎${DONE}`,
  ),
  whole(
    'several lines, model inserted',
    `data: {⏎data: "choices":[]}⏎⏎${UPSTREAM_DONE}`,
    `data: {"model":"${SLUG}",⏎data: "choices":[]}⏎⏎${DONE}`,
  ),
  whole(
    'several lines, a model of several lines',
    `data:⏎data: {"model":[1,⏎data: 2],"a":1⏎data: }⏎⏎${UPSTREAM_DONE}`,
    `data:⏎data: {"model":"${SLUG}"⏎data: ,"a":1⏎data: }⏎⏎${DONE}`,
  ),
  relayed(
    'text of many bytes',
    event(chunk('{"content":"Größe 漢字 😀 \\u00e9 \\ud83d\\ude00 \\\\ \\" \\n"}')).repeat(4),
    { generated: 192 },
  ),
  relayed(
    'events with nothing in common',
    event('{"id":"a","model":"internal-7b"}') +
      event('{"x":{"y":"z"},"model":"internal-7b"}') +
      event('{"model":"internal-7b"}') +
      event('{"choices":[{"delta":{"content":"a"}}]}') +
      event('[]').replace('[]', '{"b":[[[{"c":"d"}]]],"choices":null}'),
    { generated: 1 },
  ),
  relayed(
    'numbers that end differently',
    ['1', '12', '1.5', '7', '1e5', '-1', '0', '1 ', '33', '"1"', '9']
      .map((n) => event(`{"model":"internal-7b","created":${n},"a":[${n}]}`))
      .join(''),
  ),
  relayed('events that have all in common', HELLO.repeat(6), { generated: 30 }),
  relayed(
    'two kinds of events by turns',
    (HELLO + event(chunk('{"reasoning_content":"hm"}'))).repeat(6),
    {
      generated: 42,
    },
  ),
  relayed(
    'deeply nested',
    event(`{"model":"internal-7b","a":${'[{"b":'.repeat(50)}1${'}]'.repeat(50)}}`).repeat(3),
  ),
  relayed('larger than others', event(chunk(`{"content":"${'lorem ipsum '.repeat(200)}"}`)), {
    generated: 2400,
  }),

  // endings
  whole(
    'anything behind [DONE]',
    `${HELLO}${UPSTREAM_DONE}${HELLO}data: {"error":1}⏎⏎<html>`,
    slugged(HELLO) + DONE,
  ),
  whole(
    '[DONE] with other fields',
    `${HELLO}${FINISH}event: done⏎id: 1⏎data: [DONE]⏎⏎`,
    slugged(HELLO) + DONE,
  ),
  whole('[DONE] without its blank line', `${HELLO}${FINISH}data: [DONE]⏎`, slugged(HELLO) + DONE),
  whole('[DONE] without its line end', `${HELLO}${FINISH}data: [DONE]`, slugged(HELLO) + DONE),
  whole('[DONE] and a line of blanks', `${HELLO}${FINISH}data: [DONE]⏎ `, slugged(HELLO) + DONE),
  whole('lines of blanks', ` ⏎⏎\t⏎${HELLO} ⏎${UPSTREAM_DONE}`, slugged(HELLO) + DONE),
  whole(
    'no [DONE], but a finish_reason',
    HELLO + STOP + USAGE,
    slugged(HELLO + STOP + USAGE) + END,
    { usage: USED },
  ),
  whole(
    'no [DONE], a finish_reason, then blank lines and a comment',
    `${STOP}⏎⏎: bye`,
    slugged(STOP) + END,
  ),
  whole(
    'no [DONE], a finish_reason in one of several choices',
    event('{"choices":[{"finish_reason" : "length"},{"finish_reason":null}]}'),
    event(`{"model":"${SLUG}","choices":[{"finish_reason" : "length"},{"finish_reason":null}]}`) +
      END,
  ),
  whole(
    '[DONE], a finish_reason of one of several choices, amid the text of another',
    event(chunk('{"content":"a"}', '"stop"')) + HELLO + UPSTREAM_END,
    slugged(event(chunk('{"content":"a"}', '"stop"')) + HELLO) + END,
    { generated: 6 },
  ),

  ...Object.entries({
    'a usage alone': USAGE,
    'text, a usage and no finish_reason': HELLO + USAGE,
    'text, a usage beside nothing, an event without either': HELLO + USAGE + event(chunk('{}')),
  }).flatMap(([name, events]) =>
    ['⏎⏎', ''].map((end) =>
      whole(`[DONE]${end} behind ${name}`, `${events}data: [DONE]${end}`, slugged(events) + END, {
        usage: USED,
      }),
    ),
  ),

  // broken
  broken('nothing at all', '', ''),
  broken('nothing but [DONE]', UPSTREAM_END, ''),
  ...(
    [
      ['no finish_reason', HELLO, null],
      ['a usage before the text', USAGE + HELLO, { ...USED, completion: null }],
      ['a usage with the text', event(chunk('{"content":"a"}', 'null', `,${TOLD}`)), USED],
      ['a usage of no completion', HELLO + event(chunk('{}', 'null', `,${NO_TEXT}`)), NOTHING],
      ['an empty finish_reason', HELLO + event(chunk('{}', '""')), null],
      [
        'a finish_reason of no choice',
        event(
          '{"model":"internal-7b","finish_reason":"stop","choices":[{"delta":{"finish_reason":"stop"}}]}',
        ),
        null,
      ],
    ] as const
  ).flatMap(([name, events, usage]) =>
    ['⏎⏎', ''].map((end) =>
      broken(`[DONE]${end} behind ${name}`, `${events}data: [DONE]${end}`, slugged(events), {
        usage,
      }),
    ),
  ),
  broken(
    'usage that is no JSON',
    STOP + event('{"usage":{"prompt_tokens":nineteen}}') + STOP,
    slugged(STOP),
  ),
  broken(
    'x_groq that is no JSON',
    STOP + event('{"x_groq":{"usage":nothing}}') + STOP,
    slugged(STOP),
  ),
  broken('a word cut short', STOP + event('{"choices":[{"x":tru}]}') + STOP, slugged(STOP)),
  broken('a number that is none', STOP + event('{"choices":[{"x":[01]}]}') + STOP, slugged(STOP)),
  broken('an escape that is none', STOP + event('{"choices":[{"x":"\\x"}]}') + STOP, slugged(STOP)),
  broken('no comma', STOP + event('{"choices":[{"x":1 "y":2}]}') + STOP, slugged(STOP)),
  broken('a comma too many', STOP + event('{"choices":[1,]}') + STOP, slugged(STOP)),
  broken('a member without a value', STOP + event('{"choices":[{"x"}]}') + STOP, slugged(STOP)),
  broken('comments alone', ': x⏎⏎', ':\n\n'),
  broken('just stops between events', HELLO + HELLO, slugged(HELLO + HELLO), { generated: 10 }),
  broken(
    'stops with an empty finish_reason',
    event(chunk('{}', '""')),
    slugged(event(chunk('{}', '""'))),
  ),
  broken(
    'a finish_reason that is none of a choice',
    event(
      '{"finish_reason":"stop","choices":[{"delta":{"finish_reason":"stop"}}],"a":[{"finish_reason":"stop"}]}',
    ),
    event(
      `{"model":"${SLUG}","finish_reason":"stop","choices":[{"delta":{"finish_reason":"stop"}}],"a":[{"finish_reason":"stop"}]}`,
    ),
  ),
  broken('stops within an event', `${STOP}data: {"model":"internal`, slugged(STOP)),
  broken('stops before the blank line', `${STOP}data: {"model":"internal"}⏎`, slugged(STOP)),
  broken('stops within a field name', `${STOP}da`, slugged(STOP)),
  broken('stops within [DONE]', `${STOP}data: [DON`, slugged(STOP)),
  broken('stops in an event of several lines', `${STOP}data: [DONE]⏎data: [DONE]⏎`, slugged(STOP)),
  broken(
    'an error in a choice',
    `${HELLO}${event('{"choices":[{"index":0,"delta":{},"finish_reason":"error","error":{"message":"internal"}}]}')}${STOP}${UPSTREAM_DONE}`,
    slugged(HELLO),
    { generated: 5 },
  ),
  broken(
    'an error with an integer code',
    `${HELLO}data: {"error":{"message":"internal-host down","code":503}}⏎⏎${HELLO}${UPSTREAM_DONE}`,
    slugged(HELLO),
  ),
  broken(
    'an error with a string code, first',
    'data: {"error":{"message":"no","code":"internal"}}⏎⏎',
    '',
  ),
  broken(
    'an error that is a string',
    `${HELLO}data: {"model":"m","error":"overloaded"}⏎⏎`,
    slugged(HELLO),
  ),
  broken('an error that is false', `${HELLO}data: {"error":false}⏎⏎`, slugged(HELLO)),
  broken(
    'an error behind choices',
    HELLO.repeat(4) +
      event(chunk('{"content":"Hello"}', '"error"', ',"error":{"code":502}')) +
      HELLO,
    slugged(HELLO.repeat(4)),
  ),
  broken('an error written with escapes', `${HELLO}data: {"\\u0065rror":1}⏎⏎`, slugged(HELLO)),
  broken(
    'an error without a member for it',
    `${HELLO}data: {"object":"error","message":"internal","type":null,"code":500}⏎⏎${UPSTREAM_DONE}`,
    slugged(HELLO),
  ),
  broken(
    'the same first',
    `data: {"message":"internal","\\u006fbject":"\\u0065rror"}⏎⏎${UPSTREAM_DONE}`,
    '',
  ),
  broken('the same in several lines', `data: {"object":⏎data: "error"}⏎⏎${UPSTREAM_DONE}`, ''),
  broken(
    'the same by its type',
    `${HELLO}data: {"type":"error","message":"internal"}⏎⏎${UPSTREAM_DONE}`,
    slugged(HELLO),
  ),
  ...[
    '{"detail":"worker internal-7b died"}',
    '{"message":"internal","code":429}',
    '{"code":500,"msg":"internal"}',
    '{"errors":[{"message":"internal"}],"success":false}',
    '{"success":false,"result":null}',
    '{"status":500,"errorMessage":"internal","usage":null}',
    '{"type":"exception","text":"internal"}',
  ].map((fault) =>
    broken(
      `an error in another shape: ${fault}`,
      HELLO + event(fault) + UPSTREAM_DONE,
      slugged(HELLO),
    ),
  ),
  relayed(
    'members that could tell an error and tell none',
    HELLO +
      ['false', '0', '0.0', '""', '[ ]', '{ }']
        .map((none) =>
          event(`{"choices":[{"delta":{},"error":${none}}],"error":${none},"errors":${none}}`),
        )
        .join('') +
      [
        '{"errors":[],"usage":null}',
        '{"detail":null,"choices":null}',
        '{"usage":{"total_tokens":0},"message":"x"}',
      ]
        .map(event)
        .join(''),
  ),
  broken(
    'the end of one choice amid the text of another',
    event(chunk('{"content":"a"}', '"stop"')) + HELLO,
    slugged(event(chunk('{"content":"a"}', '"stop"')) + HELLO),
  ),
  relayed(
    'an object that is called an error and has choices',
    HELLO + event('{"object":"error","choices":[]}'),
  ),
  broken('an error of several lines', `${HELLO}data: {"error":⏎data: 1}⏎⏎`, slugged(HELLO)),
  broken(
    'event: error',
    `${HELLO}event: error⏎data: {"message":"x"}⏎⏎${UPSTREAM_DONE}`,
    slugged(HELLO),
  ),
  broken(
    'event: exception',
    `${HELLO}event: InternalServerException⏎data: {"a":"x"}⏎⏎${UPSTREAM_DONE}`,
    slugged(HELLO),
  ),
  broken('event:error without space', `${HELLO}event:error⏎⏎${UPSTREAM_DONE}`, slugged(HELLO)),
  broken('an error line', `${HELLO}error: {"message":"x"}⏎⏎${UPSTREAM_DONE}`, slugged(HELLO)),
  broken('an error line without value', `${HELLO}error⏎⏎${UPSTREAM_DONE}`, slugged(HELLO)),
  broken('a bare JSON line', `${HELLO}{"error":{"message":"x"}}⏎⏎${UPSTREAM_DONE}`, slugged(HELLO)),
  broken('a JSON body instead of a stream', '⏎⏎ {⏎  "error": {}⏎}⏎', ''),
  broken('a bare JSON array', `${HELLO}[{"error":1}]⏎⏎`, slugged(HELLO)),
  broken('a bare JSON string', `${HELLO}"error"⏎⏎`, slugged(HELLO)),
  broken('an HTML body', '<!DOCTYPE html>⏎<html><body>502</body></html>⏎', ''),
  broken('plain text', 'upstream connect error⏎⏎', ''),
  broken('an event that is no object: text', `${HELLO}data: hello⏎⏎`, slugged(HELLO)),
  broken(
    'an event that is no object: array',
    `${HELLO}data: [{"model":"internal"}]⏎⏎`,
    slugged(HELLO),
  ),
  broken('an event that is no object: null', `${HELLO}data: null⏎⏎`, slugged(HELLO)),
  broken('an event that is cut short', `${HELLO}data: {"model":"internal"⏎⏎`, slugged(HELLO)),
  broken('an event with garbage behind', `${HELLO}data: {"model":"internal"}x⏎⏎`, slugged(HELLO)),
  broken(
    'an event with two objects',
    `${HELLO}data: {"model":"internal"}⏎data: {"model":"internal"}⏎⏎`,
    slugged(HELLO),
  ),
  ...[
    '{"a"}',
    '{"a":}',
    '{"a":1,}',
    '{a:1}',
    '{"a":1 "b":2}',
    '{"a":[}',
    '{"a":[1}]}',
    '{"a":{]}',
    '{"a":"b}',
    '{"a":"\t"}',
    '{"a":x}',
    '{,}',
    '{',
    '{"a',
    '{"a":1]',
    '{"a":[1,2',
    '{"a":"b\\"}',
    '{"a":{"b":"\u0001"}}',
    '{"a":[\u0001]}',
    `{"a":"\\\u0001"}`,
  ].map((json) =>
    broken(
      `no object: ${JSON.stringify(json)}`,
      `${STOP}data: ${json}⏎⏎${UPSTREAM_DONE}`,
      slugged(STOP),
    ),
  ),
  broken('text broken over lines', `${HELLO}data: {"a":"b⏎data: c"}⏎⏎`, slugged(HELLO)),
  broken('[DONE] and more', `${STOP}data: [DONE]x⏎⏎`, slugged(STOP)),
  broken(
    'an event larger than allowed',
    `${HELLO}data: {"a":"${'x'.repeat(MAX_EVENT_BYTES)}"}⏎⏎`,
    slugged(HELLO),
  ),
  broken(
    'an event larger than allowed, in lines',
    `${HELLO}${'data: 123456789⏎'.repeat(MAX_EVENT_BYTES / 10)}⏎`,
    slugged(HELLO),
  ),
  broken(
    'fields larger than allowed',
    `${HELLO}${'id: 12345678901234⏎'.repeat(MAX_EVENT_BYTES / 10)}⏎`,
    slugged(HELLO),
  ),
];

function alphabetical(text: string): string {
  return event(
    `{"choices":[{"content_filter_results":{"hate":{"filtered":false,"severity":"safe"}},"delta":{"content":"${text}"},"finish_reason":null,"index":0,"logprobs":null}],"created":1763714523,"id":"chatcmpl-1","model":"internal-7b","object":"chat.completion.chunk","obfuscation":"x${text.length}"}`,
  );
}

function toolCall(text: string): string {
  return chunk(
    `{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"model","arguments":${text}}}]}`,
  );
}
