import {
  CLOSE_BRACE,
  COLON,
  COMMA,
  DIGIT_0,
  DIGIT_9,
  equals,
  LETTER_N,
  NULL,
  OPEN_BRACE,
  QUOTE,
  skipSpace,
} from './bytes.ts';
import { kindAmong, type NameTable, nameTable } from './member-table.ts';
import { usageMembers } from './usage.ts';
import { type Members, PARTS_ALONE } from './usage-counts.ts';

// What the members of a usage are named.
const PROMPT = 1;
const COMPLETION = 2;
const TOTAL = 3;
const PROMPT_DETAILS = 4;
const COMPLETION_DETAILS = 5;
const NAMES = nameTable([
  ['prompt_tokens', PROMPT],
  ['completion_tokens', COMPLETION],
  ['total_tokens', TOTAL],
  ['prompt_tokens_details', PROMPT_DETAILS],
  ['completion_tokens_details', COMPLETION_DETAILS],
]);
const CACHED = 1;
const CACHE_WRITE = 2;
const AUDIO = 3;
const REASONING = 4;
const CACHE_CREATION = 5;
const IMAGE = 6;
const SKIPPED = 7;
const DETAILS = nameTable([
  ...PARTS_ALONE.map((name) => [name, SKIPPED] as const),
  ['cached_tokens', CACHED],
  ['cache_write_tokens', CACHE_WRITE],
  ['audio_tokens', AUDIO],
  ['image_tokens', IMAGE],
  ['reasoning_tokens', REASONING],
  ['cache_creation_tokens', CACHE_CREATION],
]);
const MOST_DIGITS = 15; // a number is exact up to here

/** A count; null where that is what was written, undefined where nothing was. */
type Written = number | null | undefined;

/** What details consist of. */
type Details = {
  [name in
    | 'cached_tokens'
    | 'cache_write_tokens'
    | 'audio_tokens'
    | 'image_tokens'
    | 'reasoning_tokens'
    | 'cache_creation_tokens']?: Written;
};

type Usage = { [name in 'prompt_tokens' | 'completion_tokens' | 'total_tokens']?: Written } & {
  [name in 'prompt_tokens_details' | 'completion_tokens_details']?: Details | null;
};

/** Reads from the place it has reached; -1 once there was something else than it takes. */
class Cursor {
  #b: Buffer = Buffer.alloc(0);
  #end = 0;
  at = -1;

  begin(b: Buffer, at: number, end: number): void {
    this.#b = b;
    this.#end = end;
    this.at = at;
  }

  /** Goes to the value of the next member. @returns what its name is among these; 0: nothing, or there is none */
  member(names: NameTable): number {
    const b = this.#b;
    const from = skipSpace(b, this.at + 1, this.#end) + 1;
    let to = from;
    if (b[from - 1] === QUOTE) while (to < this.#end && isOfName(b[to] as number)) to++;
    const colon = skipSpace(b, to + 1, this.#end);
    this.at =
      to > from && b[to] === QUOTE && b[colon] === COLON ? skipSpace(b, colon + 1, this.#end) : -1;
    return this.at < 0 ? 0 : kindAmong(names, b, from, to - from);
  }

  /** Whether a member follows; else the object ended. */
  follows(): boolean {
    if (this.at < 0) return false;
    const i = skipSpace(this.#b, this.at, this.#end);
    const c = this.#b[i];
    this.at = i < this.#end && (c === COMMA || c === CLOSE_BRACE) ? (c === COMMA ? i : i + 1) : -1;
    return this.at >= 0 && c === COMMA;
  }

  count(): Written {
    const b = this.#b;
    const from = this.at;
    if (from < 0 || from >= this.#end) return undefined;
    if (b[from] === LETTER_N) {
      this.at = equals(b, from, NULL.length, NULL) ? from + NULL.length : -1;
      return null;
    }
    let value = 0;
    let i = from;
    for (; i < this.#end && (b[i] as number) >= DIGIT_0 && (b[i] as number) <= DIGIT_9; i++) {
      value = value * 10 + (b[i] as number) - DIGIT_0;
    }
    const digits = i - from;
    this.at = digits === 0 || digits > MOST_DIGITS || (digits > 1 && b[from] === DIGIT_0) ? -1 : i;
    return value;
  }

  details(): Details | null {
    const details: Details = {}; // with what is told alone, since readers walk it
    if (this.at < 0 || this.#b[this.at] !== OPEN_BRACE)
      return this.count() === null ? null : this.#give();
    do {
      const kind = this.member(DETAILS);
      const count = this.count();
      if (kind === CACHED) details.cached_tokens = count;
      else if (kind === CACHE_WRITE) details.cache_write_tokens = count;
      else if (kind === AUDIO) details.audio_tokens = count;
      else if (kind === IMAGE) details.image_tokens = count;
      else if (kind === REASONING) details.reasoning_tokens = count;
      else if (kind === CACHE_CREATION) details.cache_creation_tokens = count;
      else if (kind !== SKIPPED) return this.#give();
    } while (this.follows());
    return details;
  }

  #give(): null {
    this.at = -1;
    return null;
  }
}

/** Letters and underscores: no escapes. */
function isOfName(c: number): boolean {
  return c === UNDERSCORE || (c >= LETTER_A && c <= LETTER_Z);
}

const UNDERSCORE = 0x5f;
const LETTER_A = 0x61;
const LETTER_Z = 0x7a;
const CURSOR = new Cursor();

/** The members of the usage in [start, end), as far as readers look at them; null when it is no object. */
export function usageAt(b: Buffer, start: number, end: number): Members | null {
  return plainUsage(b, start, end) ?? usageMembers(b.toString('latin1', start, end));
}

/**
 * Reads the usage that most answers have: five members that all readers know, whole numbers, and no escapes. It takes
 * a third of what text and JSON.parse take.
 * @returns what JSON.parse would give, as far as readers look at it; null for any other usage, which may be one as well
 */
export function plainUsage(b: Buffer, start: number, end: number): Members | null {
  const usage: Usage = {};
  if (b[start] !== OPEN_BRACE) return null;
  const cursor = CURSOR;
  cursor.begin(b, start, end);
  do {
    const kind = cursor.member(NAMES);
    if (kind === PROMPT) usage.prompt_tokens = cursor.count();
    else if (kind === COMPLETION) usage.completion_tokens = cursor.count();
    else if (kind === TOTAL) usage.total_tokens = cursor.count();
    else if (kind === PROMPT_DETAILS) usage.prompt_tokens_details = cursor.details();
    else if (kind === COMPLETION_DETAILS) usage.completion_tokens_details = cursor.details();
    else return null;
  } while (cursor.follows());
  return cursor.at === end ? usage : null;
}
