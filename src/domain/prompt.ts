import { unescapeJson } from '../json/text-sample.ts';
import { countTokens } from './tokens.ts';

/**
 * What of a request is kept while it runs, to tell its prompt's tokens should the upstream
 * not tell them: the body where it is small, else 32 pieces of it.
 */
export interface Prompt {
  /** Bytes of the whole body. */
  readonly bytes: number;
  readonly pieces: readonly Buffer[];
  /** What the pieces are: a body short enough to be counted whole, a longer one, or samples of one longer still. */
  readonly kept: 'short' | 'long' | 'sampled';
}

/** @param body as it goes upstream, in pieces */
export function keepPrompt(body: readonly Buffer[]): Prompt {
  let bytes = 0;
  for (let k = 0; k < body.length; k++) bytes += (body[k] as Buffer).length;
  if (bytes <= MOST_COUNTED) return { bytes, pieces: body, kept: 'short' };
  // 32 copies take 5 µs, a tenth of a request of 16 KiB, and nearly nobody asks for them
  if (bytes <= MOST_KEPT) return { bytes, pieces: body, kept: 'long' };
  const copies = samplesOf(body, bytes).map((piece) => Buffer.from(piece)); // the rest need not stay
  return { bytes, pieces: copies, kept: 'sampled' };
}

/** Views of the body at even distances. */
function samplesOf(body: readonly Buffer[], bytes: number): Buffer[] {
  const samples: Buffer[] = [];
  let before = 0;
  let next = 0;
  for (const piece of body) {
    for (; next + SAMPLE <= before + piece.length; next += bytes / SAMPLES) {
      const from = Math.max(0, Math.floor(next) - before);
      samples.push(piece.subarray(from, from + SAMPLE));
    }
    before += piece.length;
  }
  return samples;
}

/** About how many tokens the prompt is. */
export function promptTokens({ bytes, pieces, kept }: Prompt): number {
  if (kept === 'short') return bodyTokens(Buffer.concat(pieces).toString());
  let tokens = 0;
  let size = 0;
  for (const piece of kept === 'sampled' ? pieces : samplesOf(pieces, bytes)) {
    const text = unescapeJson(piece.utf8Slice(0, piece.length));
    size += piece.length;
    tokens += ENCODED.test(text) ? piece.length / BYTES_PER_FILE_TOKEN : countTokens(text);
  }
  return (tokens * bytes) / Math.max(1, size);
}

/** Counting longer ones whole would hold everything up. */
const MOST_COUNTED = 16_384;
/** A longer body is let go of while its answer is awaited. */
const MOST_KEPT = 65_536;
const SAMPLES = 32;
const SAMPLE = 256;
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
