import type { Answer } from './answer.ts';
import { finishOf, headOf, lastEvents } from './chat.ts';
import { type DemoEvent, type Dialect, ownCost, type Usage, usageOf } from './dialect.ts';
import { choicesOf, limitOf, type Question } from './question.ts';
import { DemoError, type Json, type ModelRequest } from './request.ts';

/** Text completions. All prompts of a list have the answer to the last one. */
export const completions: Dialect = { read, whole, events };

function read(body: Json): Question {
  const prompts = promptsOf(body);
  return {
    turns: prompts.map((text) => ({ role: 'user', text })),
    tools: [],
    choice: 'none',
    parallel: false,
    format: {},
    limit: limitOf(body, ['max_tokens'], 0),
    stops: [body.stop ?? []].flat() as string[],
    choices: prompts.length * choicesOf(body),
  };
}

/** The texts of the prompts; token ids stand for themselves. @throws DemoError */
function promptsOf({ prompt }: Json): string[] {
  const isIds = Array.isArray(prompt) && typeof prompt[0] === 'number';
  const prompts = Array.isArray(prompt) && !isIds ? prompt : [prompt];
  const isPrompt = (one: unknown): boolean =>
    typeof one === 'string' || (Array.isArray(one) && one.length > 0);
  if (prompts.length > 0 && prompts.every(isPrompt)) return prompts.map(String);
  throw new DemoError(400, "'prompt' must be texts or lists of token ids.", null, 'prompt');
}

function whole(answer: Answer, request: ModelRequest): Json {
  const text = answer.parts.flatMap(({ pieces }) => pieces).join('');
  const choices = echoes(answer, request).map((echo, index) =>
    choice(index, echo + text, finishOf(answer)),
  );
  return { ...headOf('cmpl', 'text_completion', request), choices, usage: usageMembers(answer) };
}

function* events(answer: Answer, request: ModelRequest): Generator<DemoEvent> {
  const common = headOf('cmpl', 'text_completion', request);
  const first = echoes(answer, request);
  const one = (index: number, text: string, finish: string | null) => ({
    data: { ...common, choices: [choice(index, text, finish)] },
  });
  for (const [index, echo] of first.entries()) if (echo !== '') yield one(index, echo, null);
  for (const piece of answer.parts.flatMap(({ pieces }) => pieces)) {
    for (const index of first.keys()) yield one(index, piece, null);
  }
  for (const index of first.keys()) yield one(index, '', finishOf(answer));
  yield* lastEvents(common, request, usageMembers(answer));
}

/** What stands before the text of each choice: the prompt where the request wants it repeated. */
function echoes({ choices }: Answer, request: ModelRequest): string[] {
  const prompts = promptsOf(request);
  const each = choices / prompts.length;
  return Array.from({ length: choices }, (_, index) =>
    request.echo === true ? (prompts[Math.floor(index / each)] as string) : '',
  );
}

function choice(index: number, text: string, finish_reason: string | null): Json {
  return { index, text, logprobs: null, finish_reason };
}

function usageMembers(answer: Answer): Usage & Json {
  const usage = usageOf(answer);
  return { ...usage, prompt_tokens_details: { cached_tokens: 0 }, cost: ownCost(usage, 0) };
}
