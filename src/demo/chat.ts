import { randomUUID } from 'node:crypto';
import type { Answer, Part } from './answer.ts';
import { cachedOf, type DemoEvent, type Dialect, ownCost, type Usage, usageOf } from './dialect.ts';
import {
  choiceOf,
  choicesOf,
  contentText,
  limitOf,
  messagesOf,
  type Question,
  type Tool,
  toolsOf,
} from './question.ts';
import type { DemoError, Json, ModelRequest } from './request.ts';

/** Chat completions, the reference format. */
export const chat: Dialect = { read, whole, events };

/** The body of a refusal, as all but the Messages API have it. */
export function chatError({ status, message, code, param }: DemoError): Json {
  const type = status < 429 ? 'invalid_request_error' : 'upstream_error';
  return { error: { message, type, code, param } };
}

function read(body: Json): Question {
  const { type, json_schema } = (body.response_format ?? {}) as Question['format'] & {
    json_schema?: Json;
  };
  return {
    turns: messagesOf(body).map(({ role, content }) => ({
      role: role as string,
      text: contentText(content),
    })),
    tools: toolsOf(body.tools),
    choice: choiceOf(body.tool_choice),
    parallel: body.parallel_tool_calls !== false,
    format: { type, schema: json_schema?.schema },
    limit: limitOf(body, ['max_completion_tokens', 'max_tokens']),
    stops: [body.stop ?? []].flat() as string[],
    choices: choicesOf(body),
  };
}

function whole(answer: Answer, request: ModelRequest): Json {
  const { parts, choices } = answer;
  const calls = parts.flatMap((part) => toolCall(part, part.pieces.join('')) ?? []);
  const message = {
    role: 'assistant',
    content: calls.length > 0 ? null : parts.flatMap(({ pieces }) => pieces).join(''),
    tool_calls: calls.length > 0 ? calls : undefined,
  };
  return {
    ...headOf('chatcmpl', 'chat.completion', request),
    choices: Array.from({ length: choices }, (_, index) => ({
      index,
      message,
      finish_reason: finishOf(answer),
    })),
    usage: detailedUsage(answer),
  };
}

function detailedUsage(answer: Answer): Usage & Json {
  const usage = usageOf(answer);
  const cached_tokens = cachedOf(answer, usage);
  const details = {
    prompt_tokens_details: { cached_tokens, audio_tokens: 0 },
    completion_tokens_details: { reasoning_tokens: 0, audio_tokens: 0 },
  };
  return { ...usage, ...details, cost: ownCost(usage, cached_tokens) };
}

function* events(answer: Answer, request: ModelRequest): Generator<DemoEvent> {
  const common = headOf('chatcmpl', 'chat.completion.chunk', request);
  for (const delta of deltas(answer)) {
    const finish_reason = Object.keys(delta).length === 0 ? finishOf(answer) : null;
    for (let index = 0; index < answer.choices; index++) {
      yield { data: { ...common, choices: [{ index, delta, finish_reason }] } };
    }
  }
  yield* lastEvents(common, request, detailedUsage(answer));
}

/** The usage, where the request wants it, and the end. */
export function* lastEvents(
  common: Json,
  { stream_options }: ModelRequest,
  usage: Json,
): Generator<DemoEvent> {
  const { include_usage } = (stream_options ?? {}) as { include_usage?: unknown };
  if (include_usage === true) yield { data: { ...common, choices: [], usage } };
  yield { data: '[DONE]' };
}

/** The deltas of one choice: the role, then the text or each call, then nothing, with the reason. */
function* deltas({ parts, finish }: Answer): Generator<Json> {
  yield { role: 'assistant', content: finish === 'tools' ? null : '' };
  for (const [index, part] of parts.entries()) {
    const { tool, pieces } = part;
    if (tool !== null) yield { tool_calls: [{ index, ...toolCall(part, '') }] };
    for (const piece of pieces) {
      yield tool === null ? { content: piece } : { tool_calls: [{ index, ...input(tool, piece) }] };
    }
  }
  yield {};
}

export function finishOf({ finish }: Answer): string {
  if (finish === 'tools') return 'tool_calls';
  return finish === 'length' ? 'length' : 'stop';
}

export function headOf(prefix: string, object: string, { model }: ModelRequest): Json {
  const created = Math.floor(Date.now() / 1000);
  return { id: `${prefix}-${randomUUID()}`, object, created, model };
}

/** The call of a part with this input; null: the part is a text. */
function toolCall({ tool, callId }: Part, text: string): Json | null {
  if (tool === null) return null;
  const id = `call_${callId}`;
  if (tool.schema === null) return { id, type: 'custom', custom: { name: tool.name, input: text } };
  return { id, type: 'function', function: { name: tool.name, arguments: text } };
}

function input({ schema }: Tool, piece: string): Json {
  return schema === null ? { custom: { input: piece } } : { function: { arguments: piece } };
}
