import type { Counts } from './fixtures.ts';
import { MAX_EVENT_BYTES, SLUG, type StreamFixture } from './fixtures.ts';

/** Streams of the Responses API and of the Messages API, and what becomes of them; as in fixtures.ts. */

/** An event with its `event` line. @param more the members behind the type, with the comma before them */
export function typed(type: string, more = ''): string {
  return `event: ${type}⏎data: {"type":"${type}"${more}}⏎⏎`;
}

/** What leaves: the model's name exchanged, prices gone. */
const slugged = (text: string) =>
  text.replaceAll('internal-7b', SLUG).replaceAll('"cost":0.00071,', '');

interface Ending {
  readonly state?: StreamFixture['state'];
  readonly usage?: Counts | null;
  readonly generated?: number;
}

function whole(
  name: string,
  input: string,
  output = slugged(input),
  ending: Ending = {},
): StreamFixture {
  return { name, input, output, state: 'done', usage: null, ...ending };
}

function relayed(name: string, input: string, ending: Ending = {}): StreamFixture {
  return whole(name, input, slugged(input), ending);
}

function broken(name: string, input: string, output: string, ending: Ending = {}): StreamFixture {
  return { name, input, output: slugged(output), state: 'broken', usage: null, ...ending };
}

// Responses

const ID = 'msg_67c9fdcf37fc8190ba82116e33fb28c507b8b0ad4e5eb654';
const USED = { prompt: 37, completion: 11 };
const USAGE =
  '{"input_tokens":37,"input_tokens_details":{"cached_tokens":0},"output_tokens":11,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":48}';

function response(
  status: string,
  { output = '', usage = 'null', more = '', error = 'null' } = {},
): string {
  return `{"id":"resp_67c9fdcecf488190bdd9a0409de3a1ec","object":"response","created_at":1741290958,"status":"${status}","error":${error},"incomplete_details":null,"instructions":null,"model":"internal-7b","output":[${output}],"reasoning":{"effort":null},"store":false,"text":{"format":{"type":"text"}},"tools":[],"usage":${usage},"user":null,"metadata":{}${more}}`;
}

/** An event of a response with a number, which differs and is the same each time. */
function numbered(type: string, more: string): string {
  return typed(type, `,"sequence_number":${more.length},${more}`);
}
function of(type: string, object = response(type.slice('response.'.length))): string {
  return numbered(type, `"response":${object}`);
}
const at = `"item_id":"${ID}","output_index":0,"content_index":0`;
function delta(text: string, kind = 'output_text'): string {
  return numbered(
    `response.${kind}.delta`,
    `${at},"delta":${JSON.stringify(text)},"logprobs":[],"obfuscation":"x9Qf"`,
  );
}

const message = (text: string) =>
  `{"id":"${ID}","type":"message","status":"completed","content":[{"type":"output_text","annotations":[],"logprobs":[],"text":${JSON.stringify(text)}}],"role":"assistant"}`;

const CREATED = of('response.created', response('in_progress')) + of('response.in_progress');
const OPENED =
  numbered(
    'response.output_item.added',
    `"output_index":0,"item":{"id":"${ID}","type":"message","status":"in_progress","content":[],"role":"assistant"}`,
  ) +
  numbered(
    'response.content_part.added',
    `${at},"part":{"type":"output_text","annotations":[],"text":""}`,
  );
const HELLO = ['Hello', '!', ' How', ' can', ' I', ' help'].map((text) => delta(text)).join('');
const CLOSED =
  numbered('response.output_text.done', `${at},"text":"Hello! How can I help"`) +
  numbered(
    'response.content_part.done',
    `${at},"part":{"type":"output_text","annotations":[],"text":"Hello! How can I help"}`,
  ) +
  numbered(
    'response.output_item.done',
    `"output_index":0,"item":${message('Hello! How can I help')}`,
  );
const COMPLETED = of(
  'response.completed',
  response('completed', { output: message('Hello! How can I help'), usage: USAGE }),
);
const TOLD = { usage: USED, generated: 21 };
const BEGUN = CREATED + OPENED + HELLO;

/** A response of this many deltas. */
export function responseStream(deltas: number): string {
  let text = CREATED + OPENED;
  for (let i = 0; i < deltas; i++) text += delta(` token${i % 100}`);
  return text + CLOSED + COMPLETED;
}

const PIECES = ['{"mod', 'el":"', 'internal-7b', '","', 'type', '":"error"}'];
const CALL =
  numbered(
    'response.output_item.added',
    '"output_index":0,"item":{"type":"function_call","id":"fc_1","call_id":"call_1","name":"get_weather","arguments":""}',
  ) +
  PIECES.map((piece) => delta(piece, 'function_call_arguments')).join('') +
  numbered(
    'response.function_call_arguments.done',
    `"item_id":"fc_1","arguments":${JSON.stringify(PIECES.join(''))}`,
  );

export const RESPONSE_STREAMS: readonly StreamFixture[] = [
  relayed('text', BEGUN + CLOSED + COMPLETED, TOLD),
  relayed('many deltas', responseStream(9), { usage: USED, generated: 63 }),
  whole(
    'tool calls, with the internal name in their arguments',
    CREATED + CALL + COMPLETED,
    slugged(CREATED) + CALL + slugged(COMPLETED),
    { usage: USED, generated: 46 },
  ),
  relayed(
    'reasoning, its summary, refusals and custom tools',
    CREATED +
      ['reasoning_summary_text', 'reasoning_text', 'refusal', 'custom_tool_call_input']
        .flatMap((kind) => ['hm', ' so', '.'].map((text) => delta(text, kind)))
        .join('') +
      COMPLETED,
    { usage: USED, generated: 24 },
  ),
  relayed(
    'annotations and search results by turns with text',
    CREATED +
      [1, 2, 3, 4, 5]
        .map(
          (n) =>
            delta(`t${n}`) +
            numbered(
              'response.output_text.annotation.added',
              `${at},"annotation_index":${n},"annotation":{"type":"url_citation","url":"https://example.com/${n}","title":"T"}`,
            ),
        )
        .join('') +
      COMPLETED,
    { usage: USED, generated: 10 },
  ),
  relayed(
    'incomplete',
    BEGUN + of('response.incomplete', response('incomplete', { usage: USAGE })),
    TOLD,
  ),
  relayed('no usage', BEGUN + of('response.completed'), { generated: 21 }),
  relayed(
    'a usage without output tokens',
    BEGUN + of('response.completed', response('completed', { usage: '{"input_tokens":37}' })),
    { usage: { prompt: 37, completion: null }, generated: 21 },
  ),
  relayed(
    'a usage with a total in place of output tokens',
    BEGUN +
      of(
        'response.completed',
        response('completed', { usage: '{"input_tokens":10,"total_tokens":30}' }),
      ),
    { usage: { prompt: 10, completion: 20 }, generated: 21 },
  ),
  relayed(
    'a usage that tells its price',
    of(
      'response.completed',
      response('completed', { usage: USAGE.replace('{', '{"cost":0.00071,') }),
    ),
    { usage: USED },
  ),
  whole(
    'members that leak, in the event and in the response',
    typed('response.created', `,"provider":"Internal","response":${response('in_progress')}`) +
      [1, 2, 3, 4]
        .map((n) => typed('response.output_text.delta', `,"_hidden_params":{"a":${n}},"delta":"x"`))
        .join('') +
      typed(
        'response.completed',
        `,"response":${response('completed', { more: ',"provider":"Internal","deployment":{"a":[1]}' })}`,
      ),
    slugged(typed('response.created', `,"response":${response('in_progress')}`)) +
      typed('response.output_text.delta', ',"delta":"x"').repeat(4) +
      slugged(typed('response.completed', `,"response":${response('completed')}`)),
    { generated: 4 },
  ),
  whole(
    'the internal name in other values, and in generated text',
    typed(
      'response.created',
      `,"response":${response('in_progress', { more: ',"via":{"x":["by internal-7b"]}' })}`,
    ) +
      typed(
        'response.output_text.delta',
        ',"item_id":"internal-7b-1","delta":"internal-7b"',
      ).repeat(4) +
      typed('response.completed', `,"response":${response('completed')},"served":"internal-7b"`),
    slugged(
      typed(
        'response.created',
        `,"response":${response('in_progress', { more: ',"via":{"x":["by internal-7b"]}' })}`,
      ),
    ) +
      typed('response.output_text.delta', `,"item_id":"${SLUG}-1","delta":"internal-7b"`).repeat(
        4,
      ) +
      slugged(
        typed('response.completed', `,"response":${response('completed')},"served":"internal-7b"`),
      ),
    { generated: 44 },
  ),
  whole(
    'a model of the event itself, and another after a fallback',
    [...'aaabbb']
      .map((c) => typed('response.output_text.delta', `,"model":"internal-${c}","delta":"${c}"`))
      .join('') +
      typed(
        'response.completed',
        `,"response":${response('completed').replace('internal-7b', 'other')}`,
      ),
    [...'aaabbb']
      .map((c) => typed('response.output_text.delta', `,"model":"${SLUG}","delta":"${c}"`))
      .join('') + slugged(typed('response.completed', `,"response":${response('completed')}`)),
    { generated: 6 },
  ),

  // framing
  whole(
    '[DONE] behind the end',
    `${HELLO}${COMPLETED}data: [DONE]⏎⏎`,
    HELLO + slugged(COMPLETED),
    TOLD,
  ),
  whole(
    'anything behind the end',
    `${COMPLETED}${HELLO}data: {"error":1}⏎⏎<html>`,
    slugged(COMPLETED),
    {
      usage: USED,
    },
  ),
  relayed('events without an event line', (BEGUN + COMPLETED).replace(/event: [^⏎]*⏎/g, ''), TOLD),
  relayed(
    'no space behind the colons',
    (BEGUN + COMPLETED).replaceAll('event: ', 'event:').replaceAll('data: ', 'data:'),
    TOLD,
  ),
  whole(
    'comments, ids, unknown fields and blank lines',
    `\ufeff⏎: internal-7b⏎⏎id: internal⏎${HELLO.replaceAll('data:', ': x⏎retry: 5⏎data:')}x: y⏎⏎${COMPLETED}`,
    `:\n\n${HELLO.replaceAll('event:', ':\n\nevent:')}${slugged(COMPLETED)}`,
    TOLD,
  ),
  whole(
    'an event line behind the data',
    `data: {"type":"response.a.b"}⏎event: response.a.b⏎⏎${COMPLETED}`,
    `event: response.a.b⏎data: {"type":"response.a.b"}⏎⏎${slugged(COMPLETED)}`,
    { usage: USED },
  ),
  whole(
    'an event line that names another type, or stands alone',
    `event: internal⏎data: {"type":"response.a.b"}⏎⏎event: response.a.b⏎⏎event: response.a.b⏎event: response.c.d⏎data: {"type":"response.c.d"}⏎⏎${'event: internal⏎data: {"type":"response.x.delta","delta":"x"}⏎⏎'.repeat(4)}${COMPLETED}`,
    `data: {"type":"response.a.b"}⏎⏎event: response.c.d⏎data: {"type":"response.c.d"}⏎⏎${'data: {"type":"response.x.delta","delta":"x"}⏎⏎'.repeat(4)}${slugged(COMPLETED)}`,
    { usage: USED, generated: 4 },
  ),
  whole(
    'several data lines',
    `${HELLO}event: response.completed⏎data: {"type":⏎data: "response.completed",⏎data:"response":{"model"⏎data: :"internal-7b","provider":⏎data: 1}⏎data: }⏎⏎`,
    `${HELLO}event: response.completed⏎data: {"type":⏎data: "response.completed",⏎data:"response":{"model"⏎data: :"${SLUG}"⏎data: }⏎data: }⏎⏎`,
    { generated: 21 },
  ),
  relayed(
    'types written with escapes',
    `${HELLO}${'data: {"type":"response\\u002ex.delta","delta":"a"}⏎⏎'.repeat(4)}data: {"\\u0074ype":"response\\u002ecompleted"}⏎⏎`,
    { generated: 25 },
  ),
  whole(
    'a type that is none, or none of the format',
    `data: {"type":1}⏎⏎data: {"type":null}⏎⏎data: {}⏎⏎event: response.output_text.delta⏎data: {"delta":"x"}⏎⏎${[
      'codex.response.metadata',
      'codex.rate_limits',
      'response.metadata',
      'responsesapi.websocket_timing',
      'keepalive',
      'message_start',
      'response.',
      'response..delta',
      'response.Internal 7b.delta',
      'x.response.created',
    ]
      .map((type) =>
        typed(type, ',"headers":{"openai-model":"internal-9b"},"response":{"model":"internal-9b"}'),
      )
      .join('')}${COMPLETED}`,
    slugged(COMPLETED),
    { usage: USED },
  ),
  whole(
    'events of another format between deltas, and the usage in one of them',
    ['a', 'b', 'c', 'd', 'e', 'f']
      .map((c) => delta(c) + typed('codex.x.delta', `,"delta":"${c}"`))
      .join('') +
      typed('usage', `,"usage":${USAGE}`) +
      typed('response.completed'),
    ['a', 'b', 'c', 'd', 'e', 'f'].map((c) => delta(c)).join('') + typed('response.completed'),
    { usage: { prompt: 37, completion: null }, generated: 6 },
  ),
  relayed(
    'types of the format that are not known yet',
    ['response.cancelled', 'response.new_part.added', 'response.a2.b_c.delta']
      .map((type) => typed(type))
      .join('') + COMPLETED,
    { usage: USED },
  ),

  // broken
  broken('nothing at all', '', ''),
  broken('closed without the last event', BEGUN + CLOSED, BEGUN + CLOSED, { generated: 21 }),
  broken('[DONE] before the last event', `${HELLO}data: [DONE]⏎⏎${COMPLETED}`, HELLO),
  broken('the last event is cut', HELLO + COMPLETED.slice(0, -9), HELLO),
  broken('the last event lacks its blank line', HELLO + COMPLETED.slice(0, -1), HELLO),
  broken('cut inside an event line', `${HELLO}event: response.comp`, HELLO),
  broken('closed after an event line', `${HELLO}event: response.completed⏎`, HELLO),
  broken(
    'failed, after what it used',
    BEGUN +
      of(
        'response.failed',
        response('failed', { usage: USAGE, error: '{"code":"x","message":"internal-7b"}' }),
      ) +
      COMPLETED,
    BEGUN,
    TOLD,
  ),
  broken(
    'an error event',
    `${BEGUN}${typed('error', ',"code":"x","message":"internal-7b","param":null')}${COMPLETED}`,
    BEGUN,
  ),
  broken(
    'an error event with an error',
    `${BEGUN}${typed('error', ',"error":{"message":"internal-7b"}')}${COMPLETED}`,
    BEGUN,
  ),
  broken(
    'a response with an error',
    HELLO +
      of('response.completed', response('completed', { usage: USAGE, error: '{"code":"x"}' })),
    HELLO,
    TOLD,
  ),
  broken(
    'an error without a type',
    `${HELLO}event: error⏎data: {"message":"internal-7b"}⏎⏎${COMPLETED}`,
    HELLO,
  ),
  broken(
    'an error whose type is another',
    `${HELLO}event: error⏎data: {"type":"internal"}⏎⏎${COMPLETED}`,
    HELLO,
  ),
  ...['null', '"InternalServerError"', '"server_error"'].map((type) =>
    broken(
      `an error without a member for it, of type ${type}`,
      `${HELLO}data: {"object":"error","message":"internal-7b","type":${type},"code":500}⏎⏎${COMPLETED}`,
      HELLO,
    ),
  ),
  ...[
    '{"type":"exception","message":"internal-7b"}',
    '{"detail":"internal-7b"}',
    '{"message":"internal-7b","code":1}',
  ].map((fault) =>
    broken(`an error in another shape: ${fault}`, `${HELLO}data: ${fault}⏎⏎${COMPLETED}`, HELLO),
  ),
  broken(
    'an exception by its name',
    `${HELLO}event: exception⏎data: {"type":"internal"}⏎⏎${COMPLETED}`,
    HELLO,
  ),
  broken('an error without data', `${HELLO}event: error⏎⏎${COMPLETED}`, HELLO),
  broken('an error with empty data', `${HELLO}event: error⏎data:⏎⏎${COMPLETED}`, HELLO),
  broken(
    'an error amid deltas',
    `${HELLO}data: {"type":"response.output_text.delta","error":{"a":1},"delta":"a"}⏎⏎${COMPLETED}`,
    HELLO,
  ),
  broken(
    'a type of error written with escapes',
    `${HELLO}data: {"type":"\\u0065rror"}⏎⏎${COMPLETED}`,
    HELLO,
  ),
  broken('an event that is no JSON', `${HELLO}event: a⏎data: internal-7b⏎⏎${COMPLETED}`, HELLO),
  broken('an event that is cut short', `${HELLO}event: a⏎data: {"type":"a"⏎⏎${COMPLETED}`, HELLO),
  broken(
    'a last event with garbage behind',
    `${HELLO}data: {"type":"response.completed"}}⏎⏎`,
    HELLO,
  ),
  broken(
    'a JSON line, after an event line as well',
    `${HELLO}event: a⏎{"error":{"message":"x"}}⏎⏎${COMPLETED}`,
    HELLO,
  ),
  broken(
    'an error line, after an event line as well',
    `${HELLO}event: a⏎error: x⏎data: {}⏎⏎${COMPLETED}`,
    HELLO,
  ),
  broken('an HTML body', '<!DOCTYPE html>⏎<html></html>⏎', ''),
  broken(
    'an event larger than allowed',
    `${HELLO}data: {"type":"a","x":"${'x'.repeat(MAX_EVENT_BYTES)}"}⏎⏎${COMPLETED}`,
    HELLO,
  ),
  broken(
    'an event line larger than allowed',
    `${HELLO}event: ${'x'.repeat(MAX_EVENT_BYTES)}⏎data: {}⏎⏎${COMPLETED}`,
    HELLO,
  ),
  broken('a stream of chat completions', 'data: {"choices":[]}⏎⏎data: [DONE]⏎⏎', ''),
].map((fixture) =>
  fixture.generated === undefined && fixture.input.startsWith(HELLO)
    ? { ...fixture, generated: 21 }
    : fixture,
);

// Messages

const START = typed(
  'message_start',
  ',"message":{"id":"msg_01XFDUDYJgAACzvnptvVoYEL","type":"message","role":"assistant","content":[],"model":"internal-7b","stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":25,"cache_creation_input_tokens":100,"cache_read_input_tokens":1000,"output_tokens":1}}',
);
const PING = typed('ping').replace('"type":"ping"', '"type": "ping"');
const block = (index: number, content: string) =>
  typed('content_block_start', `,"index":${index},"content_block":${content}`);
const piece = (index: number, content: string) =>
  typed('content_block_delta', `,"index":${index},"delta":${content}`);
const stop = (index: number) => typed('content_block_stop', `,"index":${index}`);
const text = (value: string) => piece(0, `{"type":"text_delta","text":${JSON.stringify(value)}}`);
const ended = (usage = '{"output_tokens":15}', reason = 'end_turn') =>
  typed(
    'message_delta',
    `,"delta":{"stop_reason":"${reason}","stop_sequence":null}${usage && `,"usage":${usage}`}`,
  );
const STOP = typed('message_stop');
const SAID =
  block(0, '{"type":"text","text":""}') +
  PING +
  ['Hello', '!', ' How', ' are', ' you'].map(text).join('') +
  stop(0);
const MESSAGE_USED = { prompt: 1125, completion: 15 };
/** Before the end: the prompt alone is known. */
const PROMPT = { prompt: 1125, completion: null };

/** A message of this many deltas. */
export function messageStream(deltas: number): string {
  let events = START + block(0, '{"type":"text","text":""}');
  for (let i = 0; i < deltas; i++) events += text(` token${i % 100}`);
  return events + stop(0) + ended() + STOP;
}

const ARGUMENTS = ['', '{"loc', 'ation": "San', ' Francisco', ', CA"', ', "model": "internal-7b"}'];
const TOOLS = block(1, '{"type":"tool_use","id":"toolu_01","name":"get_weather","input":{}}');
const toolPieces = ARGUMENTS.map((json) =>
  piece(1, `{"type":"input_json_delta","partial_json":${JSON.stringify(json)}}`),
).join('');

export const MESSAGE_STREAMS: readonly StreamFixture[] = [
  relayed('text', START + SAID + ended() + STOP, { usage: MESSAGE_USED, generated: 18 }),
  relayed('many deltas', messageStream(9), { usage: MESSAGE_USED, generated: 63 }),
  whole(
    'a tool call, with the internal name in its arguments',
    START + TOOLS + toolPieces + stop(1) + ended('{"output_tokens":15}', 'tool_use') + STOP,
    slugged(START) +
      TOOLS +
      toolPieces +
      stop(1) +
      ended('{"output_tokens":15}', 'tool_use') +
      STOP,
    { usage: MESSAGE_USED, generated: 65 },
  ),
  relayed(
    'thinking, its signature, then text',
    START +
      block(0, '{"type":"thinking","thinking":"","signature":""}') +
      ['Let', ' me', ' see', '.']
        .map((part) => piece(0, `{"type":"thinking_delta","thinking":"${part}"}`))
        .join('') +
      piece(0, '{"type":"signature_delta","signature":"EqQBCgIYAhIM1gbcDa9GJwZA2b3h"}') +
      stop(0) +
      block(1, '{"type":"redacted_thinking","data":"EmwKAhgBEgy3"}') +
      stop(1) +
      SAID +
      ended() +
      STOP,
    { usage: MESSAGE_USED, generated: 29 },
  ),
  relayed(
    'citations by turns with text',
    START +
      ['a', 'b', 'c', 'd']
        .map(
          (c) =>
            text(c) +
            piece(
              0,
              `{"type":"citations_delta","citation":{"type":"char_location","cited_text":"${c}","document_index":0}}`,
            ),
        )
        .join('') +
      ended() +
      STOP,
    { usage: MESSAGE_USED, generated: 4 },
  ),
  relayed(
    'usage all at the end, cumulative, with nulls and zeros for what the beginning told',
    START +
      ended(
        '{"input_tokens":null,"cache_creation_input_tokens":null,"cache_read_input_tokens":0,"output_tokens":7}',
      ) +
      ended('{"input_tokens":0,"output_tokens":15,"server_tool_use":{"web_search_requests":0}}') +
      STOP,
    { usage: MESSAGE_USED },
  ),
  relayed(
    'usage of the prompt at the end alone',
    START.replace(/"usage":\{[^}]*\}/, '"usage":{"input_tokens":0,"output_tokens":0}') +
      ended('{"input_tokens":9,"output_tokens":4}') +
      STOP,
    { usage: { prompt: 9, completion: 4 } },
  ),
  relayed(
    'a completion of 0 tokens behind text',
    START + SAID + ended('{"output_tokens":0}') + STOP,
    {
      usage: PROMPT,
      generated: 18,
    },
  ),
  relayed(
    'many ends, as the pattern learns them',
    START + [1, 2, 5, 9, 12, 15].map((n) => ended(`{"output_tokens":${n}}`)).join('') + STOP,
    {
      usage: MESSAGE_USED,
    },
  ),
  relayed(
    'a total at the end, which the format has not',
    START + SAID + ended('{"total_tokens":1140}') + STOP,
    {
      usage: PROMPT,
      generated: 18,
    },
  ),
  relayed('no usage at the end', START + SAID + ended('') + STOP, { usage: PROMPT, generated: 18 }),
  relayed('no end but the stop', START + SAID + STOP, { usage: PROMPT, generated: 18 }),
  relayed('an empty usage at the end', START + SAID + ended('{}') + STOP, {
    usage: PROMPT,
    generated: 18,
  }),
  relayed('a usage that is no count', START + SAID + ended('{"output_tokens":-1}') + STOP, {
    usage: { prompt: 1125, completion: null },
    generated: 18,
  }),
  relayed('no usage anywhere', START.replace(/,"usage":\{[^}]*\}/, '') + SAID + ended('') + STOP, {
    generated: 18,
  }),
  whole(
    'members that leak, prices, and the internal name in other values',
    START.replace(
      '"usage":{',
      '"provider":"x","host":"h","via":["internal-7b"],"usage":{"cost":0.00071,',
    ) +
      text('internal-7b').repeat(4) +
      ended('{"cost":0.00071,"output_tokens":15}').replace(
        ',"delta"',
        ',"provider":"Internal","delta"',
      ) +
      STOP,
    slugged(START).replace('"usage":{', `"via":["${SLUG}"],"usage":{`) +
      text('internal-7b').repeat(4) +
      ended() +
      STOP,
    { usage: MESSAGE_USED, generated: 44 },
  ),
  whole(
    'a model of the event itself',
    [1, 2, 3, 4]
      .map((n) => typed('content_block_delta', `,"model":"internal-${n}","delta":{"text":"a"}`))
      .join('') + STOP,
    typed('content_block_delta', `,"model":"${SLUG}","delta":{"text":"a"}`).repeat(4) + STOP,
    { generated: 4 },
  ),
  relayed(
    'text that looks like events',
    START +
      ['message_stop', '"type":"error"', '\n\nevent: error\n', 'error'].map(text).join('') +
      STOP,
    {
      usage: PROMPT,
      generated: 53,
    },
  ),
  whole('[DONE] behind the end', `${START}${STOP}data: [DONE]⏎⏎`, slugged(START) + STOP, {
    usage: PROMPT,
  }),
  relayed('two messages in one stream: the first ends it', START + STOP, { usage: PROMPT }),

  broken('closed without the stop', START + SAID + ended(), START + SAID + ended(), {
    usage: MESSAGE_USED,
    generated: 18,
  }),
  broken('the stop is cut', START + SAID + STOP.slice(0, -1), START + SAID, {
    usage: PROMPT,
    generated: 18,
  }),
  broken(
    'overloaded in between',
    `${START}${SAID}${typed('error', ',"error":{"type":"overloaded_error","message":"internal-7b is overloaded"}')}${STOP}`,
    START + SAID,
    { usage: PROMPT, generated: 18 },
  ),
  broken(
    'overloaded at once',
    typed('error', ',"error":{"type":"overloaded_error","message":"internal-7b"}'),
    '',
  ),
  broken('an error among pings', `${PING.repeat(5)}event: error⏎data: {}⏎⏎${STOP}`, PING.repeat(5)),
  broken('a whole message instead of a stream', '{"type":"message","model":"internal-7b"}⏎⏎', ''),
];
