import { randomUUID } from 'node:crypto';
import type { Answer, Part } from './answer.ts';
import { type DemoEvent, type Dialect, ownCost, usageOf } from './dialect.ts';
import {
  choiceOf,
  contentText,
  limitOf,
  messagesOf,
  type Question,
  type Turn,
  toolsOf,
} from './question.ts';
import type { DemoError, Json, ModelRequest } from './request.ts';

/** The Messages API. */
export const messages: Dialect = { read, whole, events };

/** The body of a refusal. */
export function messagesError({ status, message }: DemoError): Json {
  const type = TYPES[status] ?? (status < 500 ? 'invalid_request_error' : 'api_error');
  return { type: 'error', error: { type, message }, request_id: `req_demo_${status}` };
}

/** Types of errors by status; other refusals are invalid requests, other failures are of the API. */
const TYPES: Readonly<Record<number, string>> = {
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  429: 'rate_limit_error',
  529: 'overloaded_error',
};

const REASONS = { end: 'end_turn', stop: 'stop_sequence', length: 'max_tokens', tools: 'tool_use' };

function read(body: Json): Question {
  const turns = messagesOf(body).map(turnOf);
  const system =
    body.system === undefined ? [] : [turnOf({ role: 'system', content: body.system })];
  const choice = body.tool_choice as { disable_parallel_tool_use?: boolean } | undefined;
  return {
    turns: [...system, ...turns],
    tools: toolsOf(body.tools),
    choice: choiceOf(choice),
    parallel: choice?.disable_parallel_tool_use !== true,
    format: (body.output_config as { format?: Question['format'] } | undefined)?.format ?? {},
    limit: limitOf(body, ['max_tokens'], 0),
    stops: (body.stop_sequences ?? []) as string[],
    choices: 1,
  };
}

function turnOf({ role, content }: Json): Turn {
  const parts: Json[] = Array.isArray(content) ? content : [];
  const isResult = parts.some(({ type }) => type === 'tool_result');
  return {
    role: isResult ? 'tool' : (role as string),
    text: contentText(content),
    cached: parts.some(({ cache_control }) => (cache_control ?? null) !== null),
  };
}

function whole(answer: Answer, { model }: ModelRequest) {
  return {
    id: `msg_${randomUUID()}`,
    type: 'message',
    role: 'assistant',
    model,
    content: answer.parts.map(blockOf),
    stop_reason: REASONS[answer.finish],
    stop_sequence: answer.stop,
    usage: messageUsage(answer),
  };
}

/** Cached tokens come on top of the input tokens. */
function messageUsage(answer: Answer) {
  const counted = usageOf(answer);
  const { prompt_tokens, completion_tokens } = counted;
  const cached = Math.min(answer.cachedTokens, prompt_tokens);
  return {
    input_tokens: prompt_tokens - cached,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: cached,
    output_tokens: completion_tokens,
    service_tier: 'standard',
    cost: ownCost(counted, cached),
  };
}

function blockOf({ tool, callId, pieces }: Part): Json {
  const text = pieces.join('');
  if (tool === null) return { type: 'text', text };
  return { type: 'tool_use', id: `toolu_${callId}`, name: tool.name, input: JSON.parse(text) };
}

function* events(answer: Answer, request: ModelRequest): Generator<DemoEvent> {
  const { content, stop_reason, stop_sequence, usage, ...head } = whole(answer, request);
  const event = (type: string, members: Json = {}) => ({ name: type, data: { type, ...members } });

  const begun = { ...usage, output_tokens: Math.min(1, usage.output_tokens) };
  const empty = { content: [], stop_reason: null, stop_sequence: null };
  yield event('message_start', { message: { ...head, ...empty, usage: begun } });
  for (const [index, part] of answer.parts.entries()) {
    const content_block = {
      ...blockOf(part),
      ...(part.tool === null ? { text: '' } : { input: {} }),
    };
    yield event('content_block_start', { index, content_block });
    if (index === 0) yield event('ping');
    for (const piece of part.pieces) {
      const delta =
        part.tool === null
          ? { type: 'text_delta', text: piece }
          : { type: 'input_json_delta', partial_json: piece };
      yield event('content_block_delta', { index, delta });
    }
    yield event('content_block_stop', { index });
  }
  yield event('message_delta', { delta: { stop_reason, stop_sequence }, usage });
  yield event('message_stop');
}
