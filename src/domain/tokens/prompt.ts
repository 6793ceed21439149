import { unescapeJson } from '../../json/text-sample.ts';
import { countTokens, isRandom } from './tokens.ts';

/** Counting a longer body whole would block the event loop for too long. */
const MAX_COUNTED = 16_384;
/** A longer body is freed while its answer is awaited. */
const MAX_KEPT = 65_536;
const SAMPLES = 32;
const SAMPLE_BYTES = 256;
const BYTES_PER_TOKEN = 4;
/** The characters of base64, and of words that are joined by underscores. */
const ENCODED = /^[A-Za-z0-9+/=_-]+$/;
/** Characters of base64 after which samples and pixels of 1 to 4 bytes begin in the same place again. */
const PERIOD = 16;
/** The first piece of an embedding call with token ids: the first array is of numbers, or of such arrays. */
const FIRST_IDS = /^[^[]*\[[\s[]*\d/;
/** A piece of such a call: ids and brackets alone, behind the members before `input` in the first piece. */
const TOKEN_IDS = /^(?:\{[^[]*)?[\d\s,[\]]+$/;
/** Numbers without a comma between them, as in a table and not in JSON. */
const TABLE = /\d[\s[\]]+\d/;
/** An image of 250 KB is about 1000 tokens. */
const BYTES_PER_FILE_TOKEN = 256;
const TOKENS_PER_FILE = 1000;
/** Tokens that chat templates add to each message and to the whole prompt. */
const TOKENS_PER_MESSAGE = 4;
const TOKENS_PER_PROMPT = 3;

/**
 * The part of a request that is kept while it runs: a small body, or 32 samples of a large one. From it the tokens of
 * the prompt are estimated if the upstream does not report them.
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

/**
 * Views of the body: of its beginning, and one at a random place of each equal part, which no caller can foresee. None is
 * of the end, where JSON behind a file would count as if all of the body were such text.
 */
function samplesOf(body: readonly Buffer[], bytes: number): Buffer[] {
  const samples: Buffer[] = [];
  const part = bytes / SAMPLES;
  let before = 0;
  let next = 0;
  for (const piece of body) {
    while (next + SAMPLE_BYTES <= before + piece.length) {
      const from = Math.max(0, Math.floor(next) - before);
      samples.push(piece.subarray(from, from + SAMPLE_BYTES));
      next = part * samples.length + Math.random() * (part - 2 * SAMPLE_BYTES);
    }
    before += piece.length;
  }
  return samples;
}

/** A quick guess at the tokens of a prompt: a body of up to 16 KiB is taken for text. */
export function roughPromptTokens(prompt: Prompt): number {
  return prompt.kept === 'short' ? Math.ceil(prompt.bytes / BYTES_PER_TOKEN) : Math.ceil(promptTokens(prompt));
}

/** About how many tokens the prompt is. */
export function promptTokens({ bytes, pieces, kept }: Prompt): number {
  if (kept === 'short') return bodyTokens(Buffer.concat(pieces).toString());
  let tokens = 0;
  let size = 0;
  const samples = kept === 'sampled' ? pieces : samplesOf(pieces, bytes);
  const hasIds = FIRST_IDS.test(samples[0]?.toString('latin1') ?? '');
  for (const piece of samples) {
    const text = unescapeJson(piece.toString('utf8', 0, piece.length));
    size += piece.length;
    if (hasIds && TOKEN_IDS.test(text) && !TABLE.test(text)) tokens += text.split(',').length - 1;
    else tokens += isFile(text) ? piece.length / BYTES_PER_FILE_TOKEN : countTokens(text);
  }
  return (tokens * bytes) / Math.max(1, size);
}

/**
 * Whether a sample is of a file in base64, of which a model sees an image rather than letters: its characters change
 * kind as in no words, or recur, as those of silence or a plain area do.
 */
function isFile(text: string): boolean {
  if (!ENCODED.test(text)) return false;
  if (isRandom(text)) return true;
  let same = 0;
  for (let i = PERIOD; i < text.length; i++) if (text[i] === text[i - PERIOD]) same++;
  return same > text.length / 4;
}

/** Members beside the messages that become a part of the prompt, as JSON. */
const OTHERS = ['tools', 'functions', 'response_format', 'text', 'output_format', 'output_config', 'documents'];

function bodyTokens(json: string): number {
  const body = JSON.parse(json) as Record<string, unknown>;
  const { messages, input, system, instructions } = body;
  const items = Array.isArray(messages) ? messages : isItems(input) ? input : null;
  let tokens = items === null ? textTokens(input) : TOKENS_PER_PROMPT;
  for (const item of items ?? []) tokens += TOKENS_PER_MESSAGE + textTokens(item);
  for (const text of [system, instructions]) if (text != null) tokens += TOKENS_PER_MESSAGE + textTokens(text);
  return tokens + jsonTokens(OTHERS.map((name) => body[name]));
}

function jsonTokens(values: readonly unknown[]): number {
  return values.reduce<number>((sum, value) => sum + (value == null ? 0 : countTokens(JSON.stringify(value))), 0);
}

/** Whether it is the input of a response in items, and not that of embeddings. */
function isItems(input: unknown): input is readonly object[] {
  return Array.isArray(input) && typeof input[0] === 'object' && !Array.isArray(input[0]);
}

/** The members of messages, items and parts that hold text, or parts. */
const TEXTS = ['text', 'content', 'thinking', 'reasoning_content', 'refusal', 'arguments', 'output', 'summary'];

/** The tokens of a text, of token ids, of a message or part, or of several; parts without a text are images, sound or files. */
function textTokens(value: unknown): number {
  if (typeof value === 'string') return countTokens(value);
  if (typeof value === 'number') return 1;
  if (Array.isArray(value)) return value.reduce<number>((sum, part) => sum + textTokens(part), 0);
  if (typeof value !== 'object' || value === null) return 0;
  const part = value as Readonly<Record<string, unknown>>;
  const texts = TEXTS.filter((name) => part[name] != null);
  const calls = [part.tool_calls, part.function_call, part.input].filter((call) => call != null); // JSON for a tool
  if (texts.length === 0 && calls.length === 0) return 'role' in part ? 0 : TOKENS_PER_FILE;
  return texts.reduce((sum, name) => sum + textTokens(part[name]), jsonTokens(calls));
}
