import type { Answer } from './answer.ts';
import { type Behaviour, leakyError } from './fault.ts';

/** A chat answer on the wire: one JSON object or the events of a stream, with faults. */

export interface Usage {
  readonly prompt_tokens: number;
  readonly completion_tokens?: number;
  readonly total_tokens: number;
}

/** What identifies a completion. */
export interface Identity {
  readonly id: string;
  /** Unix seconds. */
  readonly created: number;
  /** The requested internal model name. */
  readonly model: string;
}

/** The bytes of an event, and its usage if it has one. */
export interface DemoEvent {
  readonly text: string;
  readonly usage?: Usage;
}

type Json = Readonly<Record<string, unknown>>;

/** The body of a non-streaming answer. */
export function completion(answer: Answer, identity: Identity, behaviour: Behaviour): Json & { usage?: Usage } {
  const content = answer.pieces.join('');
  const message =
    answer.tool === null ? { content } : { content: null, tool_calls: [functionCall(answer.tool, content)] };
  return {
    ...head('chat.completion', identity, behaviour),
    choices: [{ index: 0, message: { role: 'assistant', ...message }, finish_reason: answer.finish }],
    ...(behaviour.usage === 'none' ? {} : { usage: usageOf(answer, answer.pieces.length, behaviour) }),
  };
}

/**
 * The events of a stream, one per token, up to the end that the behaviour selects.
 * @param includeUsage `stream_options.include_usage` of the request
 */
export function* events(
  answer: Answer,
  identity: Identity,
  behaviour: Behaviour,
  includeUsage: boolean,
): Generator<DemoEvent> {
  const { eol, noise, ending } = behaviour;
  const usageIn = includeUsage ? behaviour.usage : 'none';
  const common = head('chat.completion.chunk', identity, behaviour);

  const frame = (data: string): string => `data: ${data}${eol}${eol}`;
  const event = (choices: unknown[], usage?: Usage | null): DemoEvent => {
    const object = { ...common, choices, ...(usage === undefined ? {} : { usage }) };
    const text = frame(JSON.stringify(behaviour.model === 'alphabetical' ? sorted(object) : object));
    return usage ? { text, usage } : { text };
  };
  const running = (sent: number): Usage | null | undefined => {
    if (usageIn === 'every') return usageOf(answer, sent, behaviour);
    return usageIn === 'null-first' ? null : undefined;
  };

  if (noise) yield { text: openingNoise(identity.model, eol) };
  if (behaviour.model === 'alphabetical') yield { text: frame('{"choices":[],"id":"","model":"","object":""}') };
  yield event(delta(openingDelta(answer.tool)), running(0));

  for (const [i, piece] of answer.pieces.entries()) {
    if (i === behaviour.endAfter) break;
    if (noise && i % 8 === 0) yield { text: `: ${identity.model} keep-alive${eol}${eol}` };
    const part =
      answer.tool === null ? { content: piece } : { tool_calls: [{ index: 0, function: { arguments: piece } }] };
    yield event(delta(part), running(i + 1));
  }
  if (ending === 'torn') yield { text: event(delta({ content: 'never whole' })).text.slice(0, 40) };
  if (ending === 'error') yield { text: frame(leakyError(500, identity.model)) };
  if (ending !== 'whole') return;

  const usage = usageOf(answer, answer.pieces.length, behaviour);
  yield event(delta({}, answer.finish), usageIn === 'finish' ? usage : running(answer.pieces.length));
  if (usageIn === 'last' || usageIn === 'null-first') yield event([], usage);
  if (behaviour.done) yield { text: frame('[DONE]') };
}

export function reportedModel(model: string, behaviour: Behaviour): string {
  return behaviour.model === 'other' ? 'internal-demo-fallback' : model;
}

function head(object: string, { id, created, model }: Identity, behaviour: Behaviour): Json {
  if (behaviour.model === 'missing') return { id, object, created };
  return { id, object, created, model: reportedModel(model, behaviour) };
}

function usageOf({ promptTokens }: Answer, sent: number, { zero }: Behaviour): Usage {
  if (zero) return { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 };
  return { prompt_tokens: promptTokens, completion_tokens: sent, total_tokens: promptTokens + sent };
}

/** The delta of the first chunk: the role, and the name of the called function if there is one. */
function openingDelta(tool: string | null): Json {
  if (tool === null) return { role: 'assistant', content: '' };
  return { role: 'assistant', content: null, tool_calls: [{ index: 0, ...functionCall(tool, '') }] };
}

function functionCall(name: string, args: string): Json {
  return { id: `call_demo_${name}`, type: 'function', function: { name, arguments: args } };
}

function delta(content: Json, finish: string | null = null): Json[] {
  return [{ index: 0, delta: content, finish_reason: finish }];
}

/** Lines that some routers send although the reference format has none of them. All name the model. */
function openingNoise(model: string, eol: string): string {
  const noise = `\ufeff: ${model} is thinking\n\nevent: ping\n\nid: ${model}\nretry: 1\nevent: message\n`;
  return noise.replaceAll('\n', eol);
}

function sorted(object: Json): Json {
  return Object.fromEntries(Object.entries(object).sort(([a], [b]) => (a < b ? -1 : 1)));
}
