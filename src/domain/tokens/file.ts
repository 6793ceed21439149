import type { WatchedFile } from '../../json/members.ts';

/*
 * What models take for files, by what is known of them without reading them: the kind and the bytes of base64. Read in
 * November 2026 in the documents of OpenAI, Anthropic, Google and Qwen, and in what others measured. They are for calls
 * whose usage nobody tells, for limits of tokens and for reservations.
 */

/** A photograph of 190 KB, which is 256 KB in base64, is about 1000 tokens; one with `detail: low` is 85 for OpenAI. */
const BYTES_PER_IMAGE_TOKEN = 256;
const LOW_IMAGE = 85;
/** OpenAI counts 255 tokens for an image that fits a tile; whatever their size, 1445 (OpenAI), 1568 (Claude), 1120 (Gemini). */
const LEAST_IMAGE = 255;
const MOST_IMAGE = 1600;
/** No model is known to count more for one image: gpt-4o-mini up to 48,169, Qwen 16,384, Claude 4784. */
const IMAGE_BOUND = 50_000;
/** Sound is 10 to 32 tokens a second, which takes 16 KB compressed; of video 290 for some 300 KB. */
const BYTES_PER_MEDIA_TOKEN = 1000;
/** A page is 560 (Gemini) to 2350 (Claude) tokens: 75 KB of base64 with text, 400 KB scanned. Claude takes 100 pages. */
const BYTES_PER_DOCUMENT_TOKEN = 100;
const LEAST_DOCUMENT = 1500;
const MOST_DOCUMENT = 200_000;
/** Four letters of text, in base64. */
const BYTES_PER_TEXT_TOKEN = 16 / 3;
/** A file of which the address alone is known, or its id. */
export const UNKNOWN_FILE = 1000;

type Kind = 'image' | 'media' | 'document' | 'text' | 'unknown';

const DATA = /^data:([^;,]*)[^,]*;base64,/i;
const ADDRESS = /^https?:/i;
/** Base64 of either alphabet; readers skip line ends. What is shorter may be a word. */
const BASE64 = /^[\w+/=\r\n-]*$/;
const LEAST_BASE64 = 32;
const TEXT_TYPE = /^text\/|json|xml|yaml|csv|javascript/i;
/** How many characters say what a file is: a prefix and the first bytes. */
const LOOKED_AT = 200;
/** The first bytes of images and of PDF, as Latin-1. */
const IMAGE = /^(?:\x89PNG|\xff\xd8\xff|GIF8|RIFF.{4}WEBP|II\*|MM.\*|.{4}ftyp(?:avi|hei|mif))/s;
const PDF = /^%PDF/;

/** What is known of a file: its kind, and about how many tokens a model takes for it. */
interface KnownFile {
  readonly kind: Kind;
  readonly tokens: number;
}

/**
 * Reads the value of a member that may hold a file; null: it holds none.
 * @param text its beginning, at least 200 characters if it is longer @param bytes as written
 * @param isHeld whether an address there is that of a file
 */
export function fileOf(
  text: string,
  bytes: number,
  isHeld: boolean,
  isLow: boolean,
): KnownFile | null {
  const kind = kindOf(text.slice(0, LOOKED_AT), isHeld);
  return kind === null ? null : { kind, tokens: tokensOf(kind, bytes, isLow) };
}

function tokensOf(kind: Kind, bytes: number, isLow: boolean): number {
  switch (kind) {
    case 'image':
      return isLow ? LOW_IMAGE : within(LEAST_IMAGE, bytes / BYTES_PER_IMAGE_TOKEN, MOST_IMAGE);
    case 'media':
      return bytes / BYTES_PER_MEDIA_TOKEN;
    case 'document':
      return within(LEAST_DOCUMENT, bytes / BYTES_PER_DOCUMENT_TOKEN, MOST_DOCUMENT);
    case 'text':
      return bytes / BYTES_PER_TEXT_TOKEN;
    default:
      return isLow ? LOW_IMAGE : UNKNOWN_FILE;
  }
}

function within(least: number, tokens: number, most: number): number {
  return Math.min(most, Math.max(least, tokens));
}

function kindOf(text: string, isHeld: boolean): Kind | null {
  const [prefix = '', type] = DATA.exec(text) ?? [];
  const content = text.slice(prefix.length);
  if (!BASE64.test(content) || (prefix === '' && content.length < LEAST_BASE64))
    return isHeld && ADDRESS.test(text) ? 'unknown' : null;
  const first = Buffer.from(content, 'base64').toString('latin1');
  if (IMAGE.test(first)) return 'image';
  if (PDF.test(first)) return 'document';
  if (type === undefined) return 'media'; // samples of sound have no first bytes of their own
  if (/^image\//i.test(type)) return 'image';
  if (/^(?:audio|video)\//i.test(type)) return 'media';
  return TEXT_TYPE.test(type) ? 'text' : 'document';
}

/** The files in a request. */
export interface Files {
  /** Where their contents are in the body: of all but short ones, which count as text besides. */
  readonly spans: readonly { readonly from: number; readonly to: number }[];
  /** Bytes of the spans. */
  readonly bytes: number;
  /** About how many tokens a model takes for them. */
  readonly tokens: number;
  /** The most tokens for them, where all of them are images; of others it is what is likely. */
  readonly most: number;
  readonly areImages: boolean;
}

export const NO_FILES: Files = { spans: [], bytes: 0, tokens: 0, most: 0, areImages: true };
/** A shorter file is not taken out of the text. */
const LEAST_SPAN = 512;

export function filesOf(found: readonly WatchedFile[]): Files {
  if (found.length === 0) return NO_FILES;
  const files = { spans: [] as WatchedFile[], bytes: 0, tokens: 0, most: 0, areImages: true };
  for (const each of found) {
    const { from, to, text, isHeld, isLow } = each;
    const file = fileOf(text, to - from, isHeld, isLow);
    if (file === null) continue;
    files.tokens += file.tokens;
    files.most += file.kind === 'image' ? IMAGE_BOUND : file.tokens;
    files.areImages &&= file.kind === 'image';
    if (to - from < LEAST_SPAN) continue;
    files.spans.push(each);
    files.bytes += to - from;
  }
  return files;
}
