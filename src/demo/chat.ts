import { randomUUID } from 'node:crypto';
import type { Answer, Part } from './answer.ts';
import { cachedOf, type DemoEvent, type Dialect, ownCost, usageOf } from './dialect.ts';
import { choiceOf, contentText, limitOf, messagesOf, type Question, type Tool, toolsOf } from './question.ts';
import { type DemoRequest, type Json, reportedModel, type Usage } from './request.ts';

/** `n` at most. */
const MOST_CHOICES = 128;

/** Chat completions, the reference format. */
export const chat: Dialect = {
  read,
  whole,
  events,
  error: ({ status, message, code, param }) => {
    const type = status < 429 ? 'invalid_request_error' : 'upstream_error';
    return { error: { message, type, code, param } };
  },
  errorEvent: (error) => ({ data: chat.error(error) }),
};

function read(body: Json): Question {
  const { type, json_schema } = (body.response_format ?? {}) as Question['format'] & { json_schema?: Json };
  return {
    turns: messagesOf(body).map(({ role, content }) => ({ role: role as string, text: contentText(content) })),
    tools: toolsOf(body.tools),
    choice: choiceOf(body.tool_choice),
    parallel: body.parallel_tool_calls !== false,
    format: { type, schema: json_schema?.schema },
    limit: limitOf(body, 'max_completion_tokens', 'max_tokens'),
    stops: [body.stop ?? []].flat() as string[],
    choices: Math.min(limitOf(body, 'n') ?? 1, MOST_CHOICES),
  };
}

function whole(answer: Answer, request: DemoRequest): Json {
  const { parts, choices } = answer;
  const calls = parts.flatMap((part) => toolCall(part, part.pieces.join('')) ?? []);
  const message = {
    role: 'assistant',
    content: calls.length > 0 ? null : parts.flatMap(({ pieces }) => pieces).join(''),
    tool_calls: calls.length > 0 ? calls : undefined,
  };
  const { behaviour } = request;
  return {
    ...head('chat.completion', request),
    choices: Array.from({ length: choices }, (_, index) => ({ index, message, finish_reason: finishOf(answer) })),
    usage: behaviour.usage === 'none' ? undefined : detailedUsage(answer, request),
  };
}

function detailedUsage(answer: Answer, { behaviour }: DemoRequest, sent?: number): Usage & Json {
  const usage = usageOf(answer, behaviour, sent);
  const cached_tokens = cachedOf(answer, usage);
  const details = {
    prompt_tokens_details: { cached_tokens, audio_tokens: 0 },
    completion_tokens_details: { reasoning_tokens: 0, audio_tokens: 0 },
  };
  return { ...usage, ...details, cost: ownCost(usage, cached_tokens) };
}

function* events(answer: Answer, request: DemoRequest): Generator<DemoEvent> {
  const { body, behaviour } = request;
  const includeUsage = (body.stream_options as Json | undefined)?.include_usage === true;
  const usageIn = includeUsage ? behaviour.usage : 'none';
  const common = head('chat.completion.chunk', request);
  let sent = 0;

  const chunk = (choices: unknown[], phase: DemoEvent['phase'], isLast: boolean): DemoEvent => {
    const isTold = usageIn === 'every' || isLast;
    const usage = isTold ? detailedUsage(answer, request, sent) : undefined;
    const data = { ...common, choices, usage: usage ?? (usageIn === 'null-first' ? null : undefined) };
    return { data, usage, phase };
  };

  if (behaviour.model === 'alphabetical') yield { data: { choices: [], id: '', model: '', object: '' } };
  for (const [delta, phase] of deltas(answer)) {
    for (let index = 0; index < answer.choices; index++) {
      if (phase === 'token') sent++;
      const finish_reason = phase === 'end' ? finishOf(answer) : null;
      yield chunk([{ index, delta, finish_reason }], phase, phase === 'end' && usageIn === 'finish');
    }
  }
  if (usageIn === 'last' || usageIn === 'null-first') yield chunk([], 'end', true);
  if (behaviour.done) yield { data: '[DONE]', phase: 'end' };
}

/** The deltas of one choice: the role, then the text or each call, then nothing, with the reason. */
function* deltas({ parts, finish }: Answer): Generator<[delta: Json, phase?: DemoEvent['phase']]> {
  yield [{ role: 'assistant', content: finish === 'tools' ? null : '' }];
  for (const [index, part] of parts.entries()) {
    const { tool, pieces } = part;
    if (tool !== null) yield [{ tool_calls: [{ index, ...toolCall(part, '') }] }];
    for (const piece of pieces) {
      yield [tool === null ? { content: piece } : { tool_calls: [{ index, ...input(tool, piece) }] }, 'token'];
    }
  }
  yield [{}, 'end'];
}

function finishOf({ finish }: Answer): string {
  if (finish === 'tools') return 'tool_calls';
  return finish === 'length' ? 'length' : 'stop';
}

function head(object: string, request: DemoRequest): Json {
  const created = Math.floor(Date.now() / 1000);
  return { id: `chatcmpl-${randomUUID()}`, object, created, model: reportedModel(request) };
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
