import { createHash } from 'node:crypto';

/**
 * The answers of the demo upstream: text, tool calls, JSON and vectors. They follow from the
 * request alone, without clock and randomness: the same request has the same answer and token counts.
 */

/** Length of a vector when the request asks for none (spec section 2.4). */
const DIMENSIONS = 1024;
const MOST_DIMENSIONS = 4096;
/** Characters of the request that an answer repeats at most. */
const ECHO = 200;
/** Levels of a schema that a sample follows; recursive schemas have no end. */
const MOST_DEPTH = 16;

/** An answer, before it becomes JSON or events. */
export interface Answer {
  /** The text, or the arguments of the tool call, cut into tokens: one streamed event each. */
  readonly pieces: readonly string[];
  /** The function called instead of a text answer. */
  readonly tool: string | null;
  readonly finish: 'stop' | 'length' | 'tool_calls';
  readonly promptTokens: number;
}

/** A request that the reference format refuses. The answer is `{"error":{…}}` with this status. */
export class DemoError extends Error {
  readonly status: number;
  readonly code: string | null;
  readonly param: string | null;

  constructor(status: number, message: string, code: string | null = null, param: string | null = null) {
    super(message);
    this.status = status;
    this.code = code;
    this.param = param;
  }
}

type Json = Readonly<Record<string, unknown>>;

/**
 * Answers a chat request.
 * @param length repeat or cut the text to exactly this many tokens, for load tests; null: as it is
 * @throws DemoError when the reference format would refuse the request
 */
export function answerChat(body: Json, length: number | null): Answer {
  const messages = messagesOf(body);
  const last = messages.at(-1) as Json;
  const said = textOf((messages.findLast((message) => message.role === 'user') ?? last).content);
  const promptTokens = messages.reduce((sum, message) => sum + 4 + tokens(textOf(message.content)).length, 3);

  const tool = toolFor(body, last, said);
  if (tool !== null) {
    const call = JSON.stringify(sample(tool.parameters, said, tool.parameters));
    return { pieces: tokens(call), tool: tool.name as string, finish: 'tool_calls', promptTokens };
  }

  let pieces = tokens(jsonContent(body, said) ?? friendlyText(last, said));
  if (length !== null) pieces = Array.from({ length }, (_, i) => pieces[i % pieces.length] as string);
  const most = limitOf(body);
  if (most === null || pieces.length <= most) return { pieces, tool: null, finish: 'stop', promptTokens };
  return { pieces: pieces.slice(0, most), tool: null, finish: 'length', promptTokens };
}

/**
 * Answers an embeddings request with vectors of length 1.
 * @throws DemoError when the reference format would refuse the request
 */
export function answerEmbeddings(body: Json): { vectors: Float32Array[]; promptTokens: number } {
  const { input, dimensions = DIMENSIONS } = body;
  const texts = (Array.isArray(input) && input.length > 0 ? input : [input]) as unknown[];
  if (!texts.every((text) => typeof text === 'string' && text !== '')) {
    throw new DemoError(400, "'input' must be a string or an array of strings, none of them empty.", null, 'input');
  }
  if (!Number.isInteger(dimensions) || (dimensions as number) < 1 || (dimensions as number) > MOST_DIMENSIONS) {
    throw new DemoError(400, `'dimensions' must be an integer from 1 to ${MOST_DIMENSIONS}.`, null, 'dimensions');
  }
  const promptTokens = texts.reduce<number>((sum, text) => sum + tokens(text as string).length, 0);
  return { vectors: texts.map((text) => vector(text as string, dimensions as number)), promptTokens };
}

function vector(text: string, dimensions: number): Float32Array {
  const bytes = createHash('shake256', { outputLength: dimensions * 4 })
    .update(text)
    .digest();
  const values = Float32Array.from({ length: dimensions }, (_, i) => bytes.readInt32LE(i * 4) / 2 ** 31);
  const length = Math.hypot(...values);
  return values.map((value) => value / length);
}

/** Cuts text into words, parts of words of up to five letters, and single signs, each with the space before it. */
export function tokens(text: string): string[] {
  return text.match(/\s*(?:[\p{L}\p{N}]{1,5}|[^\s\p{L}\p{N}])|\s+/gu) ?? [];
}

function messagesOf({ messages }: Json): Json[] {
  if (!Array.isArray(messages) || messages.length === 0) {
    throw new DemoError(400, "'messages' must be an array of at least one message.", null, 'messages');
  }
  messages.forEach((message, i) => {
    const isMessage = typeof message === 'object' && message !== null && typeof message.role === 'string';
    if (!isMessage) throw new DemoError(400, `'messages[${i}]' needs a role.`, null, `messages[${i}].role`);
  });
  return messages as Json[];
}

/** The text of a message: a string, or the text parts of multimodal content. */
function textOf(content: unknown): string {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return '';
  return content.map((part) => (typeof part?.text === 'string' ? part.text : `[${part?.type ?? 'part'}]`)).join(' ');
}

function limitOf({ max_tokens, max_completion_tokens }: Json): number | null {
  const limit = max_completion_tokens ?? max_tokens ?? null;
  if (limit === null) return null;
  if (!Number.isInteger(limit) || (limit as number) < 1) {
    throw new DemoError(400, "'max_tokens' must be a positive integer.", null, 'max_tokens');
  }
  return limit as number;
}

function friendlyText(last: Json, said: string): string {
  const about = last.role === 'tool' ? `The tool returned: ${clip(textOf(last.content))}` : `You wrote: ${clip(said)}`;
  return `Hello from the Tollgate demo upstream. No language model is connected here. ${about} To get real answers, set UPSTREAM_URL.`;
}

function clip(text: string): string {
  return text.length <= ECHO ? text : `${text.slice(0, ECHO).toWellFormed()}…`;
}

/** The function to call: the one in tool_choice, the first if a call is "required", or one that the user mentions. */
function toolFor({ tools, tool_choice: choice }: Json, last: Json, said: string): Json | null {
  if (!Array.isArray(tools) || choice === 'none') return null;
  const functions: Json[] = tools.map((tool) => tool?.function ?? {}).filter((tool) => typeof tool.name === 'string');
  const named = (choice as { function?: Json } | undefined)?.function?.name;
  if (named !== undefined) return functions.find((tool) => tool.name === named) ?? null;
  if (choice === 'required') return functions[0] ?? null;
  if (last.role !== 'user') return null;
  const plain = (text: string) => text.toLowerCase().replace(/[\s_-]+/g, ' ');
  return functions.find((tool) => plain(said).includes(plain(tool.name as string))) ?? null;
}

/** The content for `response_format`; null when the request asks for text. */
function jsonContent({ response_format: format }: Json, said: string): string | null {
  const { type, json_schema } = (format ?? {}) as { type?: string; json_schema?: { schema?: unknown } };
  if (type === 'json_schema') return JSON.stringify(sample(json_schema?.schema, said, json_schema?.schema));
  if (type === 'json_object') return JSON.stringify({ demo: true, echo: clip(said) });
  return null;
}

/** A value for a JSON Schema of the kind that SDKs generate from tool and output types. */
function sample(schema: unknown, text: string, root: unknown, depth = 0): unknown {
  if (typeof schema !== 'object' || schema === null || depth > MOST_DEPTH) return {};
  const shape = schema as Json;
  const inner = (part: unknown) => sample(part, text, root, depth + 1);
  if (typeof shape.$ref === 'string') return inner(resolve(shape.$ref, root));
  if ('const' in shape) return shape.const;
  if (Array.isArray(shape.enum)) return shape.enum[0];
  const options = shape.anyOf ?? shape.oneOf ?? shape.allOf;
  if (Array.isArray(options)) return inner(options[0]);

  const type = Array.isArray(shape.type) ? shape.type.find((name) => name !== 'null') : shape.type;
  switch (type) {
    case 'string':
      return clip(text).slice(0, (shape.maxLength as number | undefined) ?? ECHO);
    case 'integer':
    case 'number':
      return shape.minimum ?? Math.min(1, (shape.maximum as number | undefined) ?? 1);
    case 'boolean':
      return true;
    case 'null':
      return null;
    case 'array':
      return Array.from({ length: (shape.minItems as number | undefined) ?? 1 }, () => inner(shape.items));
    default:
      return Object.fromEntries(Object.entries(shape.properties ?? {}).map(([name, part]) => [name, inner(part)]));
  }
}

/** The target of a local reference such as `#/$defs/City`. */
function resolve(reference: string, root: unknown): unknown {
  const path = reference.replace(/^#\/?/, '').split('/').filter(Boolean);
  return path.reduce((at: unknown, name) => (at as Json | undefined)?.[name.replaceAll('~1', '/')], root);
}
