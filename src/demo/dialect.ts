import type { Answer } from './answer.ts';
import type { Question } from './question.ts';
import type { Json, ModelRequest } from './request.ts';

/** One API for conversations: how it asks, answers and streams. */
export interface Dialect {
  /** @throws DemoError when the API would refuse the request */
  read(body: Json): Question;
  /** The body of an answer that is not streamed. */
  whole(answer: Answer, request: ModelRequest): Json;
  events(answer: Answer, request: ModelRequest): Iterable<DemoEvent>;
}

/** An event of a stream. */
export interface DemoEvent {
  /** Value of the `event` line, if there is one. */
  readonly name?: string;
  /** JSON, or text as it is. */
  readonly data: Json | string;
}

/** Token counts as chat completions name them. */
export interface Usage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
}

/** The token counts of an answer. */
export function usageOf({ parts, choices, promptTokens }: Answer): Usage {
  const completion = choices * parts.reduce((sum, { pieces }) => sum + pieces.length, 0);
  return {
    prompt_tokens: promptTokens,
    completion_tokens: completion,
    total_tokens: promptTokens + completion,
  };
}

/** USD for a token of the prompt and of the completion. Cached tokens are free here. */
const COSTS = { prompt: 0.000_000_4, completion: 0.000_001_6 };

/** The cost of an answer to this upstream in USD, as it tells it. */
export function ownCost({ prompt_tokens, completion_tokens }: Usage, cached: number): number {
  return Number(
    ((prompt_tokens - cached) * COSTS.prompt + completion_tokens * COSTS.completion).toFixed(9),
  );
}

/** How many of the prompt tokens came from the cache, where the cache works by itself. */
export function cachedOf({ repeatedTokens }: Answer, { prompt_tokens }: Usage): number {
  return Math.min(repeatedTokens, prompt_tokens);
}
