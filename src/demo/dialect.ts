import type { Answer } from './answer.ts';
import { type Behaviour, leakyMessage } from './fault.ts';
import type { Question } from './question.ts';
import { DemoError, type DemoRequest, type Json, type Usage } from './request.ts';

/** One API for conversations: how it asks, answers, streams and refuses. */
export interface Dialect {
  /** @throws DemoError when the API would refuse the request */
  read(body: Json): Question;
  /** The body of an answer that is not streamed. */
  whole(answer: Answer, request: DemoRequest): Json;
  events(answer: Answer, request: DemoRequest): Iterable<DemoEvent>;
  /** The body of a refusal. */
  error(error: DemoError): Json;
  /** The event that breaks a stream off. */
  errorEvent(error: DemoError): DemoEvent;
}

/** An event of a stream. */
export interface DemoEvent {
  /** Value of the `event` line, if there is one. */
  readonly name?: string;
  /** JSON, or text as it is. */
  readonly data: Json | string;
  /** token: one token of the answer; end: what follows the answer. */
  readonly phase?: 'token' | 'end' | undefined;
  /** The usage in the data, if any. */
  readonly usage?: Usage | undefined;
}

/** The bytes of an event, and its usage if it has one. */
export interface Frame {
  readonly text: string;
  readonly usage?: Usage | undefined;
}

/** The events as bytes, up to the end that the behaviour selects. */
export function* framed(dialect: Dialect, answer: Answer, request: DemoRequest): Generator<Frame> {
  const { model, behaviour } = request;
  const { eol, noise, ending, endAfter } = behaviour;
  let sent = 0;

  if (noise) yield { text: openingNoise(model, eol) };
  for (const event of dialect.events(answer, request)) {
    const { phase, usage } = event;
    if (ending !== 'whole' && (phase === 'end' || (phase === 'token' && sent === endAfter))) break;
    if (phase === 'token' && noise && sent % 8 === 0) yield { text: `: ${model} keep-alive${eol}${eol}` };
    if (phase === 'token') sent++;
    yield { text: frame(event, behaviour), usage };
  }
  if (ending === 'torn') yield { text: 'data: {"id":"never whole' };
  if (ending === 'error') {
    const error = new DemoError(500, leakyMessage(500, model), '500');
    yield { text: frame(dialect.errorEvent(error), behaviour) };
  }
}

/**
 * The token counts of an answer.
 * @param sent tokens streamed so far; all of them if not given
 */
export function usageOf({ parts, choices, promptTokens }: Answer, { zero }: Behaviour, sent?: number): Usage {
  if (zero) return { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 };
  const completion = sent ?? choices * parts.reduce((sum, { pieces }) => sum + pieces.length, 0);
  return { prompt_tokens: promptTokens, completion_tokens: completion, total_tokens: promptTokens + completion };
}

/** USD for a token of the prompt and of the completion. Cached tokens are free here. */
const COSTS = { prompt: 0.000_000_4, completion: 0.000_001_6 };

/** The cost of an answer to this upstream in USD, as it tells it. */
export function ownCost({ prompt_tokens, completion_tokens = 0 }: Usage, cached: number): number {
  return Number(((prompt_tokens - cached) * COSTS.prompt + completion_tokens * COSTS.completion).toFixed(9));
}

/** How many of the prompt tokens came from the cache, where the cache works by itself. */
export function cachedOf({ repeatedTokens }: Answer, { prompt_tokens }: Usage): number {
  return Math.min(repeatedTokens, prompt_tokens);
}

function frame({ name, data }: DemoEvent, { eol, model }: Behaviour): string {
  const named = name === undefined ? '' : `event: ${name}${eol}`;
  const text = typeof data === 'string' ? data : JSON.stringify(model === 'alphabetical' ? sorted(data) : data);
  return `${named}data: ${text}${eol}${eol}`;
}

/** Lines that some routers send although the reference format has none of them. All name the model. */
function openingNoise(model: string, eol: string): string {
  const noise = `\ufeff: ${model} is thinking\n\nevent: ping\n\nid: ${model}\nretry: 1\nevent: message\n`;
  return noise.replaceAll('\n', eol);
}

function sorted(object: Json): Json {
  return Object.fromEntries(Object.entries(object).sort(([a], [b]) => (a < b ? -1 : 1)));
}
