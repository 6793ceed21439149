import { randomUUID } from 'node:crypto';
import type { Answer, Part } from './answer.ts';
import { cachedOf, type DemoEvent, type Dialect, ownCost, usageOf } from './dialect.ts';
import { choiceOf, contentText, limitOf, type Question, type Turn, toolsOf } from './question.ts';
import { DemoError, type Json, type ModelRequest } from './request.ts';

/** The Responses API. */
export const responses: Dialect = { read, whole, events };

/** Members of a request that its response repeats, as they are when the request has none. */
const REPEATED: Json = {
  background: false,
  instructions: null,
  max_output_tokens: null,
  max_tool_calls: null,
  metadata: {},
  parallel_tool_calls: true,
  previous_response_id: null,
  prompt_cache_key: null,
  reasoning: { effort: null, summary: null },
  safety_identifier: null,
  service_tier: 'default',
  store: true,
  temperature: 1,
  text: { format: { type: 'text' }, verbosity: 'medium' },
  tool_choice: 'auto',
  tools: [],
  top_logprobs: 0,
  top_p: 1,
  truncation: 'disabled',
  user: null,
};

/** Begin of the names of an item's events, and the member that has its text. */
const EVENTS = {
  message: ['response.output_text', 'text'],
  function_call: ['response.function_call_arguments', 'arguments'],
  custom_tool_call: ['response.custom_tool_call_input', 'input'],
} as const;

interface Response extends Json {
  readonly status: string;
  readonly output: readonly Item[];
}

interface Item extends Json {
  readonly type: keyof typeof EVENTS;
  readonly id: string;
}

function read(body: Json): Question {
  const { input, instructions, text } = body;
  const items = typeof input === 'string' ? [{ role: 'user', content: input }] : input;
  if (!Array.isArray(items) || items.length === 0) {
    throw new DemoError(
      400,
      "'input' must be a string or an array of at least one item.",
      null,
      'input',
    );
  }
  const system = typeof instructions === 'string' ? [{ role: 'system', text: instructions }] : [];
  return {
    turns: [...system, ...items.map(turnOf)],
    tools: toolsOf(body.tools),
    choice: choiceOf(body.tool_choice),
    parallel: body.parallel_tool_calls !== false,
    format: (text as { format?: Question['format'] } | undefined)?.format ?? {},
    limit: limitOf(body, ['max_output_tokens']),
    stops: [],
    choices: 1,
  };
}

/** A message, a call or its result. */
function turnOf({ type, role, content, output, arguments: args, input = args }: Json): Turn {
  const isResult = typeof type === 'string' && type.endsWith('_output');
  return {
    role: isResult ? 'tool' : ((role ?? 'assistant') as string),
    text: contentText(content ?? output ?? input),
  };
}

function whole(answer: Answer, request: ModelRequest): Response {
  const created = Math.floor(Date.now() / 1000);
  const isCut = answer.finish === 'length';
  const status = isCut ? 'incomplete' : 'completed';
  return {
    id: `resp_${randomUUID()}`,
    object: 'response',
    created_at: created,
    completed_at: isCut ? null : created,
    status,
    error: null,
    incomplete_details: isCut ? { reason: 'max_output_tokens' } : null,
    model: request.model,
    output: answer.parts.map((part) => itemOf(part, status)),
    ...Object.fromEntries(
      Object.entries(REPEATED).map(([name, value]) => [name, request[name] ?? value]),
    ),
    usage: responseUsage(answer),
  };
}

function responseUsage(answer: Answer): Json {
  const usage = usageOf(answer);
  const { prompt_tokens, completion_tokens, total_tokens } = usage;
  const cached_tokens = cachedOf(answer, usage);
  return {
    input_tokens: prompt_tokens,
    input_tokens_details: { cached_tokens },
    output_tokens: completion_tokens,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens,
    cost: ownCost(usage, cached_tokens),
  };
}

function itemOf({ tool, callId, pieces }: Part, status: string): Item {
  const text = pieces.join('');
  const id = randomUUID();
  if (tool === null) {
    return {
      type: 'message',
      id: `msg_${id}`,
      status,
      role: 'assistant',
      content: [outputText(text)],
    };
  }
  const call = { status, call_id: `call_${callId}`, name: tool.name };
  if (tool.schema === null)
    return { type: 'custom_tool_call', id: `ctc_${id}`, ...call, input: text };
  return { type: 'function_call', id: `fc_${id}`, ...call, arguments: text };
}

function outputText(text: string): Json {
  return { type: 'output_text', text, annotations: [], logprobs: [] };
}

function* events(answer: Answer, request: ModelRequest): Generator<DemoEvent> {
  const response = whole(answer, request);
  const { status, output } = response;
  let sequence_number = 0;
  const event = (type: string, members: Json): { name: string; data: Json } => ({
    name: type,
    data: { type, sequence_number: sequence_number++, ...members },
  });

  const open = {
    completed_at: null,
    status: 'in_progress',
    incomplete_details: null,
    output: [],
    usage: null,
  };
  yield event('response.created', { response: { ...response, ...open } });
  yield event('response.in_progress', { response: { ...response, ...open } });
  for (const [output_index, { pieces }] of answer.parts.entries()) {
    const item = output[output_index] as Item;
    const [name, member] = EVENTS[item.type];
    const isMessage = item.type === 'message';
    const text = pieces.join('');
    const place = { item_id: item.id, output_index, ...(isMessage && { content_index: 0 }) };
    const logprobs = isMessage ? [] : undefined;

    const begun = {
      ...item,
      status: 'in_progress',
      ...(isMessage ? { content: [] } : { [member]: '' }),
    };
    yield event('response.output_item.added', { output_index, item: begun });
    if (isMessage) yield event('response.content_part.added', { ...place, part: outputText('') });
    for (const delta of pieces) yield event(`${name}.delta`, { ...place, delta, logprobs });
    yield event(`${name}.done`, { ...place, [member]: text, name: item.name, logprobs });
    if (isMessage) yield event('response.content_part.done', { ...place, part: outputText(text) });
    yield event('response.output_item.done', { output_index, item });
  }
  yield event(`response.${status}`, { response });
}
