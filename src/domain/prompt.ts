import { unescapeJson } from '../json/text-sample.ts';
import { countTokens } from './tokens.ts';

/** Counting a longer body whole would block the event loop for too long. */
const MAX_COUNTED = 16_384;
/** A longer body is freed while its answer is awaited. */
const MAX_KEPT = 65_536;
const SAMPLES = 32;
const SAMPLE_BYTES = 256;
/** A file in base64, of which a model sees an image rather than letters. */
const ENCODED = /^[A-Za-z0-9+/=_-]+$/;
/** Of an embedding call, one token each; the first piece has members before them. */
const TOKEN_IDS = /^(?:\{[^[]*)?[\d\s,[\]]+$/;
/** An image of 250 KB is about 1000 tokens. */
const BYTES_PER_FILE_TOKEN = 256;
const TOKENS_PER_FILE = 1000;
/** Tokens that chat templates add to each message and to the whole prompt. */
const TOKENS_PER_MESSAGE = 4;
const TOKENS_PER_PROMPT = 3;

/**
 * What is kept of a request while it runs, to estimate the tokens of its prompt if the upstream does
 * not report them: a small body, or 32 samples of a large one.
 */
export interface Prompt {
  /** Bytes of the whole body. */
  readonly bytes: number;
  readonly pieces: readonly Buffer[];
  /** A body short enough to be counted whole, a longer body, or samples of a still longer one. */
  readonly kept: 'short' | 'long' | 'sampled';
}

/** @param body as it goes upstream, in pieces */
export function keepPrompt(body: readonly Buffer[]): Prompt {
  let bytes = 0;
  for (let k = 0; k < body.length; k++) bytes += (body[k] as Buffer).length;
  if (bytes <= MAX_COUNTED) return { bytes, pieces: body, kept: 'short' };
  // copying samples takes 5 µs, a tenth of a request of 16 KiB, and they are rarely needed
  if (bytes <= MAX_KEPT) return { bytes, pieces: body, kept: 'long' };
  const copies = samplesOf(body, bytes).map((piece) => Buffer.from(piece)); // so that the rest of the body can be freed
  return { bytes, pieces: copies, kept: 'sampled' };
}

/** Views of the body at even distances. */
function samplesOf(body: readonly Buffer[], bytes: number): Buffer[] {
  const samples: Buffer[] = [];
  let before = 0;
  let next = 0;
  for (const piece of body) {
    for (; next + SAMPLE_BYTES <= before + piece.length; next += bytes / SAMPLES) {
      const from = Math.max(0, Math.floor(next) - before);
      samples.push(piece.subarray(from, from + SAMPLE_BYTES));
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
    const text = unescapeJson(piece.toString('utf8', 0, piece.length));
    size += piece.length;
    if (TOKEN_IDS.test(text)) tokens += text.split(',').length - 1;
    else tokens += ENCODED.test(text) ? piece.length / BYTES_PER_FILE_TOKEN : countTokens(text);
  }
  return (tokens * bytes) / Math.max(1, size);
}

function bodyTokens(json: string): number {
  const { messages, tools, input } = JSON.parse(json) as Record<string, unknown>;
  if (!Array.isArray(messages)) return textTokens(input);
  const tokens = messages.reduce<number>(
    (sum, message) => sum + TOKENS_PER_MESSAGE + messageTokens(message),
    TOKENS_PER_PROMPT,
  );
  return tokens + (Array.isArray(tools) ? countTokens(JSON.stringify(tools)) : 0);
}

function messageTokens(message: unknown): number {
  const { content, tool_calls: calls } = (message ?? {}) as { content?: unknown; tool_calls?: unknown };
  return textTokens(content) + (Array.isArray(calls) ? countTokens(JSON.stringify(calls)) : 0);
}

/** The tokens of a text, of texts, of token ids, or of parts; those other than text are images, sound or files. */
function textTokens(value: unknown): number {
  if (typeof value === 'string') return countTokens(value);
  if (!Array.isArray(value)) return 0;
  return value.reduce<number>((sum, part) => {
    if (typeof part === 'string') return sum + countTokens(part);
    if (Array.isArray(part)) return sum + part.length;
    const text = (part as { text?: unknown } | null)?.text;
    return sum + (typeof text === 'string' ? countTokens(text) : typeof part === 'number' ? 1 : TOKENS_PER_FILE);
  }, 0);
}
