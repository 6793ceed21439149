import { unescapeJson } from '../bytes/sample.ts';
import { countTokens } from './tokens.ts';

/**
 * What of a request is kept while it runs, to tell its prompt's tokens should the upstream
 * not tell them: the body where it is small, and is kept anyhow, else 32 pieces of it.
 */
export interface Prompt {
  /** Bytes of the whole body. */
  readonly bytes: number;
  readonly pieces: readonly Buffer[];
  readonly whole: boolean;
}

/** @param body as it goes upstream, in pieces */
export function keepPrompt(body: readonly Buffer[]): Prompt {
  const bytes = body.reduce((sum, { length }) => sum + length, 0);
  if (bytes <= MOST_WHOLE) return { bytes, pieces: body, whole: true };
  const pieces: Buffer[] = [];
  let before = 0;
  let next = 0;
  for (const piece of body) {
    for (; next + PIECE <= before + piece.length; next += bytes / PIECES) {
      const from = Math.max(0, Math.floor(next) - before);
      pieces.push(Buffer.from(piece.subarray(from, from + PIECE))); // a copy: the rest need not stay
    }
    before += piece.length;
  }
  return { bytes, pieces, whole: false };
}

/** About how many tokens the prompt is. */
export function promptTokens({ bytes, pieces, whole }: Prompt): number {
  if (whole) return bodyTokens(Buffer.concat(pieces).toString());
  let tokens = 0;
  let size = 0;
  for (const piece of pieces) {
    const text = unescapeJson(piece.utf8Slice(0, piece.length));
    size += piece.length;
    tokens += ENCODED.test(text) ? piece.length / BYTES_PER_FILE_TOKEN : countTokens(text);
  }
  return (tokens * bytes) / Math.max(1, size);
}

const MOST_WHOLE = 16_384;
const PIECES = 32;
const PIECE = 256;
/** A file in base64; a model sees an image, and not its letters. */
const ENCODED = /^[A-Za-z0-9+/=_-]+$/;
/** An image of 250 KB is about 1000 tokens to those who tell. */
const BYTES_PER_FILE_TOKEN = 256;
/** What chat templates put around each message and the whole. */
const PER_MESSAGE = 4;
const PER_PROMPT = 3;
const PER_FILE = 1000;

interface Body {
  readonly messages?: unknown;
  readonly tools?: unknown;
  readonly input?: unknown;
}

function bodyTokens(json: string): number {
  const { messages, tools, input } = JSON.parse(json) as Body;
  if (!Array.isArray(messages)) return textTokens(input);
  const told = messages.reduce<number>((sum, message) => sum + PER_MESSAGE + messageTokens(message), PER_PROMPT);
  return told + (Array.isArray(tools) ? countTokens(JSON.stringify(tools)) : 0);
}

function messageTokens(message: unknown): number {
  const { content, tool_calls: calls } = (message ?? {}) as { content?: unknown; tool_calls?: unknown };
  return textTokens(content) + (Array.isArray(calls) ? countTokens(JSON.stringify(calls)) : 0);
}

/** A text, texts, or parts of which those that are no text are images, sound or files. */
function textTokens(value: unknown): number {
  if (typeof value === 'string') return countTokens(value);
  if (!Array.isArray(value)) return 0;
  return value.reduce<number>((sum, part) => {
    if (typeof part === 'string') return sum + countTokens(part);
    const text = (part as { text?: unknown } | null)?.text;
    return sum + (typeof text === 'string' ? countTokens(text) : typeof part === 'number' ? 1 : PER_FILE);
  }, 0);
}
