import { lengthOf } from '../../json/splice.ts';
import { unescapeJson } from '../../json/text-sample.ts';
import type { Repeated } from '../budget.ts';
import { type Files, fileOf, NO_FILES, UNKNOWN_FILE } from './file.ts';
import { countTokens } from './tokens.ts';

/** Counting a longer body whole would block the event loop for too long. */
const MAX_COUNTED = 16_384;
/** A longer body is freed while its answer is awaited. */
const MAX_KEPT = 65_536;
const SAMPLES = 32;
const SAMPLE_BYTES = 256;
/** Of text, roughly. */
export const BYTES_PER_TOKEN = 4;
const QUOTE = 0x22;
/** Base64, or words that are joined by underscores. */
const ENCODED = Uint8Array.from({ length: 256 }, (_, c) =>
  /[A-Za-z0-9+/=_-]/.test(String.fromCharCode(c)) ? 1 : 0,
);
/** What stands before thoughts that only the provider can read: a model takes about as little for them as for a file. */
const SEALED = /"(?:encrypted_content|(?:thought_)?signature)"\s*:\s*$/;
/** What is kept of them: some one token. */
const SEALED_SAMPLE = Buffer.alloc(SAMPLE_BYTES, ' ');
/** The first piece of a call with token ids, an embedding most often: the first array is of numbers, or of such arrays. */
const FIRST_IDS = /^[^[]*\[[\s[]*\d/;
/** A piece of such a call: ids and brackets alone, behind the members before `input` in the first piece. */
const TOKEN_IDS = /^(?:[^[\]]*\[)?[\d\s,[\]]+$/;
/** Numbers without a comma between them, as in a table and not in JSON. */
const TABLE = /\d[\s[\]]+\d/;
/** Tokens that chat templates add to each message and to the whole prompt. */
const TOKENS_PER_MESSAGE = 4;
const TOKENS_PER_PROMPT = 3;

/**
 * The part of a request that is kept while it runs: a small body, or the text of a large one, of which 32 samples where
 * it is long. From it the tokens of the prompt are estimated if the upstream does not report them.
 */
export interface Prompt {
  /** Bytes of the whole body. */
  readonly bytes: number;
  readonly pieces: readonly Buffer[];
  /** A body short enough to be counted whole, a longer body, or text of a still longer one. */
  readonly kept: 'short' | 'long' | 'sampled';
  readonly files: Files;
  /** Which of the pieces of a longer body are files. */
  readonly filePieces: ReadonlySet<Buffer> | null;
  /** What the model reads more than once; null: nothing. */
  readonly repeated: Repeated | null;
}

/** The tokens of a prompt: those of text, in all languages alike, and those of files. */
export interface PromptTokens {
  text: number;
  files: number;
}

/**
 * @param body as it goes upstream, in pieces
 * @param filePieces those that are files; null: none is known
 */
export function keepPrompt(
  body: readonly Buffer[],
  files: Files = NO_FILES,
  filePieces: ReadonlySet<Buffer> | null = null,
  repeated: Repeated | null = null,
): Prompt {
  const bytes = lengthOf(body);
  if (bytes <= MAX_COUNTED)
    return { bytes, pieces: body, kept: 'short', files, filePieces, repeated };
  // copying samples takes 5 µs, a tenth of a request of 16 KiB, and they are rarely needed
  if (bytes <= MAX_KEPT) return { bytes, pieces: body, kept: 'long', files, filePieces, repeated };
  const copies = samplesOf(textOf(body, filePieces)).map((piece) => Buffer.from(piece)); // so that the rest of the body can be freed
  return { bytes, pieces: copies, kept: 'sampled', files, filePieces: null, repeated };
}

/** The pieces of a body that are no files. */
export function textOf(
  body: readonly Buffer[],
  filePieces: ReadonlySet<Buffer> | null,
): readonly Buffer[] {
  return filePieces === null || filePieces.size === 0
    ? body
    : body.filter((piece) => !filePieces.has(piece));
}

/**
 * Views of a text: all of a short one; else its beginning, and one at a random place of each equal part, which no caller
 * can foresee.
 */
function samplesOf(text: readonly Buffer[]): readonly Buffer[] {
  const bytes = lengthOf(text);
  if (bytes <= SAMPLES * SAMPLE_BYTES) return text;
  const samples: Buffer[] = [];
  const part = bytes / SAMPLES;
  let before = 0;
  let next = 0;
  for (const piece of text) {
    while (next + SAMPLE_BYTES <= before + piece.length) {
      const from = Math.max(0, Math.floor(next) - before);
      const sample = piece.subarray(from, from + SAMPLE_BYTES);
      samples.push(isSealed(piece, from, sample) ? SEALED_SAMPLE : sample);
      next = part * samples.length + Math.random() * (part - 2 * SAMPLE_BYTES);
    }
    before += piece.length;
  }
  return samples;
}

/** Whether a sample, which begins at `from`, is within what only the provider can read. */
function isSealed(piece: Buffer, from: number, sample: Buffer): boolean {
  for (const byte of sample) if (ENCODED[byte] === 0) return false; // of other text the first few bytes
  const quote = piece.lastIndexOf(QUOTE, from);
  return quote > 0 && SEALED.test(piece.toString('latin1', Math.max(0, quote - 32), quote));
}

/** A quick guess at the tokens of a prompt: the text of a body of up to 16 KiB is not counted. */
export function roughPromptTokens(prompt: Prompt): number {
  const { bytes, files, kept, repeated } = prompt;
  if (kept !== 'short') return Math.ceil(promptTokens(prompt));
  const again = repeated === null ? 0 : repeated.times * repeated.bytes;
  const media = repeated === null ? 0 : repeated.media * UNKNOWN_FILE;
  return Math.ceil((bytes - files.bytes + again) / BYTES_PER_TOKEN + files.tokens + media);
}

/** About how many tokens the prompt is. */
export function promptTokens(prompt: Prompt): number {
  const { text, files } = countPrompt(prompt);
  return text + files;
}

/** The same, apart: calls teach what a text weighs, and nothing of files. */
export function countPrompt(prompt: Prompt): PromptTokens {
  const { repeated } = prompt;
  const found = countOnce(prompt);
  if (repeated !== null) {
    found.text += repeated.times * textTokens(repeated);
    found.files += repeated.media * UNKNOWN_FILE;
  }
  return found;
}

/** The tokens of a text of which the beginning is kept. */
function textTokens({ beginning, bytes }: Repeated): number {
  const text = unescapeJson(beginning.toString('utf8', 0, beginning.length));
  return (countTokens(text) * bytes) / Math.max(1, beginning.length);
}

function countOnce({ bytes, pieces, kept, files, filePieces, repeated }: Prompt): PromptTokens {
  if (kept === 'short') {
    const body = Buffer.concat(pieces).toString();
    return repeated === null ? bodyTokens(body) : rerankTokens(body);
  }
  let tokens = 0;
  let size = 0;
  const samples = kept === 'sampled' ? pieces : samplesOf(textOf(pieces, filePieces));
  const hasIds = FIRST_IDS.test(samples[0]?.toString('latin1') ?? '');
  for (const piece of samples) {
    const text = unescapeJson(piece.toString('utf8', 0, piece.length));
    size += piece.length;
    if (hasIds && TOKEN_IDS.test(text) && !TABLE.test(text)) tokens += text.split(',').length - 1;
    else tokens += countTokens(text);
  }
  return { text: (tokens * (bytes - files.bytes)) / Math.max(1, size), files: files.tokens };
}

/** Members beside the messages that become a part of the prompt, as JSON. */
const OTHERS = [
  'tools',
  'functions',
  'response_format',
  'text',
  'output_format',
  'output_config',
  'documents',
];

function bodyTokens(json: string): PromptTokens {
  const body = JSON.parse(json) as Record<string, unknown>;
  const { messages, input, prompt, suffix, system, instructions } = body;
  const items = Array.isArray(messages) ? messages : isItems(input) ? input : null;
  const found = { text: items === null ? 0 : TOKENS_PER_PROMPT, files: 0 };
  if (items === null) for (const text of [input, prompt, suffix]) addTokens(found, text);
  for (const text of [...(items ?? []), system, instructions]) {
    if (text == null) continue;
    found.text += TOKENS_PER_MESSAGE;
    addTokens(found, text);
  }
  found.text += jsonTokens(OTHERS.map((name) => body[name]));
  return found;
}

/** The tokens of a query and of documents, each read once: a text, an object with one, or the fields of an object. */
function rerankTokens(json: string): PromptTokens {
  const { query, documents, rank_fields } = JSON.parse(json) as {
    query: string;
    documents: (string | { text?: unknown })[];
    rank_fields?: unknown;
  };
  const texts = documents.map((each) => {
    if (typeof each !== 'object') return each;
    return (rank_fields == null ? each.text : null) ?? JSON.stringify(each);
  });
  return {
    text: [query, ...texts].reduce<number>((sum, text) => sum + countTokens(String(text)), 0),
    files: 0,
  };
}

function jsonTokens(values: readonly unknown[]): number {
  return values.reduce<number>(
    (sum, value) => sum + (value == null ? 0 : countTokens(JSON.stringify(value))),
    0,
  );
}

/** Whether it is the input of a response in items, and not that of embeddings. */
function isItems(input: unknown): input is readonly object[] {
  return Array.isArray(input) && typeof input[0] === 'object' && !Array.isArray(input[0]);
}

/** The members of messages, items and parts that hold text, or parts. */
const TEXTS = [
  'text',
  'content',
  'thinking',
  'reasoning_content',
  'refusal',
  'arguments',
  'output',
  'summary',
];

/** Adds the tokens of a text, of token ids, of a message or part, or of several; parts without a text are files. */
function addTokens(found: PromptTokens, value: unknown): void {
  if (typeof value === 'string') found.text += countTokens(value);
  else if (typeof value === 'number') found.text++;
  else if (Array.isArray(value)) for (const part of value) addTokens(found, part);
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return;
  const part = value as Readonly<Record<string, unknown>>;
  const texts = TEXTS.filter((name) => part[name] != null);
  const calls = [part.tool_calls, part.function_call, part.input].filter((call) => call != null); // JSON for a tool
  if (texts.length === 0 && calls.length === 0)
    return 'role' in part ? undefined : addFile(found, part);
  found.text += jsonTokens(calls);
  for (const name of texts) addTokens(found, part[name]);
}

/** Adds the tokens of a file, whose content or address is in a member of the part or of an object in it. */
function addFile(found: PromptTokens, part: Readonly<Record<string, unknown>>): void {
  for (const holder of [part, ...Object.values(part)]) {
    if (typeof holder !== 'object' || holder === null) continue;
    const { type, data, content, detail, ...others } = holder as Readonly<Record<string, unknown>>;
    if (holder !== part && content != null) return addTokens(found, content);
    if (type === 'text') return addTokens(found, data);
    for (const text of [data, ...Object.values(others)]) {
      const file =
        typeof text === 'string' ? fileOf(text, text.length, true, detail === 'low') : null;
      if (file === null) continue;
      found.files += file.tokens;
      return;
    }
  }
  found.files += UNKNOWN_FILE;
}
