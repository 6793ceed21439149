import { DemoError, type Json } from './request.ts';

/** `n` at most. */
const MOST_CHOICES = 128;

/** The question of a request in any dialect. */
export interface Question {
  /** The conversation, instructions first; never empty. */
  readonly turns: readonly Turn[];
  readonly tools: readonly Tool[];
  /** `any`: one tool at least must be called. */
  readonly choice: 'auto' | 'none' | 'any' | { readonly name: string };
  /** Several tools may be called at once. */
  readonly parallel: boolean;
  readonly format: {
    readonly type?: 'text' | 'json_object' | 'json_schema' | undefined;
    readonly schema?: unknown;
  };
  /** Most tokens of the answer. */
  readonly limit: number | null;
  /** Texts before which the answer ends. */
  readonly stops: readonly string[];
  /** How many times it is answered. */
  readonly choices: number;
}

export interface Turn {
  /** `tool`: the result of a call. */
  readonly role: string;
  readonly text: string;
  /** Everything up to here is to be cached. */
  readonly cached?: boolean;
}

export interface Tool {
  readonly name: string;
  /** JSON Schema of the arguments; null: the input is free text. */
  readonly schema: unknown;
}

/**
 * The messages of a chat or Messages request.
 * @throws DemoError
 */
export function messagesOf({ messages }: Json): Json[] {
  if (!Array.isArray(messages) || messages.length === 0) {
    throw new DemoError(
      400,
      "'messages' must be an array of at least one message.",
      null,
      'messages',
    );
  }
  messages.forEach((message, i) => {
    const isMessage =
      typeof message === 'object' && message !== null && typeof message.role === 'string';
    if (!isMessage)
      throw new DemoError(400, `'messages[${i}]' needs a role.`, null, `messages[${i}].role`);
  });
  return messages;
}

/** The text of a content: a string, or the text parts of multimodal content and tool results. */
export function contentText(content: unknown): string {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return '';
  return content
    .map(
      (part) =>
        part?.text ??
        (part?.content === undefined ? `[${part?.type ?? 'part'}]` : contentText(part.content)),
    )
    .join(' ');
}

/** Tools as any of the dialects writes them. */
export function toolsOf(tools: unknown): Tool[] {
  if (!Array.isArray(tools)) return [];
  return tools
    .map(flat)
    .flatMap(({ type, name, parameters, input_schema: schema = parameters }) => {
      if (typeof name !== 'string') return [];
      return [{ name, schema: type === 'custom' && schema === undefined ? null : schema }];
    });
}

/** `tool_choice` as any of the dialects writes it. */
export function choiceOf(choice: unknown): Question['choice'] {
  const {
    type,
    name,
    mode = type,
  } = flat(typeof choice === 'string' ? { type: choice } : (choice as Json));
  if (typeof name === 'string') return { name };
  if (mode === 'none') return 'none';
  return mode === 'required' || mode === 'any' ? 'any' : 'auto';
}

/** A tool or a choice with the members that chat completions keep in an object of their own. */
function flat(tool: Json | null | undefined): Json {
  const { function: called, custom, allowed_tools } = tool ?? {};
  return Object.assign({}, tool, called, custom, allowed_tools);
}

/** How many times a request of chat or text completions is answered. @throws DemoError */
export function choicesOf(body: Json): number {
  return Math.min(limitOf(body, ['n']) ?? 1, MOST_CHOICES);
}

/**
 * The first of these limits that is set.
 * @param least 0 in formats in which that is a limit: nothing is generated
 * @throws DemoError unless it is an integer of at least that
 */
export function limitOf(body: Json, names: readonly string[], least = 1): number | null {
  const name = names.find((name) => (body[name] ?? null) !== null);
  if (name === undefined) return null;
  const limit = body[name];
  if (Number.isInteger(limit) && (limit as number) >= least) return limit as number;
  throw new DemoError(400, `'${name}' must be an integer of at least ${least}.`, null, name);
}
