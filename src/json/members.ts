import { load, MAX_LOAD, pass } from './strings.ts';

/**
 * JSON objects by their bytes. Small request bodies are read whole (`parseObject` in parse.ts),
 * large ones as they arrive (`ObjectScanner` in scan.ts). Both accept exactly what JSON.parse
 * accepts, save objects nested too deep or with too many members. Here is what they share.
 */

/** Levels of nesting accepted, the object itself being the first. */
export const MAX_DEPTH = 512;
/** Top-level members accepted: each is held against the list of refused ones, for 0.5 to 2 µs. */
export const MAX_MEMBERS = 1024;

/** One top-level member. Spans are byte offsets; the key's holds its quotes. */
export interface Member {
  /** Decoded: escapes are resolved. */
  readonly name: string;
  readonly keyStart: number;
  readonly keyEnd: number;
  readonly valueStart: number;
  readonly valueEnd: number;
}
export type Members = readonly Member[];

/** A JSON object that was judged by its value and may be spliced by its bytes. */
export interface ParsedObject {
  /**
   * What JSON.parse would give, reduced to what validators look at: strings over LONG_STRING
   * bytes (keys too) are their beginning and "...", those over SHORT_STRING below the top
   * level "..." alone, containers below REDUCED_DEPTH are empty, and numbers over
   * REDUCED_NUMBER bytes are NaN.
   */
  readonly value: Readonly<Record<string, unknown>>;
  readonly members: Members;
}

/** Why a body is no object we accept. */
export type JsonFault = 'invalid_json' | 'not_an_object' | 'too_deep' | 'too_many_members' | 'too_many_values';

/** Raw bytes a shortened string shows at most. */
const SHOWN = 64;

/** Where the beginning ends that is shown of a long string whose content begins at `start`: between characters. */
function beginningEnd(b: Buffer, start: number): number {
  let end = start;
  for (;;) {
    const c = b[end] as number;
    const unit = c !== BACKSLASH ? sequenceLength(c) : b[end + 1] === 0x75 ? 6 : 2;
    if (end + unit > start + SHOWN) return end;
    end += unit;
  }
}

/** What is shown of a long string. */
export function beginning(b: Buffer, start: number): string {
  return JSON.parse(`"${b.utf8Slice(start, beginningEnd(b, start))}..."`);
}

/** Makes a member of its own, as JSON.parse does: an assignment of `__proto__` would set the prototype. */
export function setMember(object: Record<string, unknown>, name: string, value: unknown): void {
  if (name !== '__proto__') object[name] = value;
  else Object.defineProperty(object, name, { value, writable: true, enumerable: true, configurable: true });
}

/** Bytes of the UTF-8 sequence a lead byte begins. */
export function sequenceLength(lead: number): number {
  return lead < 0xc0 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}

/**
 * Finds the top-level members of one JSON object, optional whitespace round it. The
 * object's validity is judged elsewhere: here only what bounds members is looked at.
 * @returns null when it is not one balanced object, or nested deeper than MAX_DEPTH
 */
export function locateMembers(bytes: Buffer, start = 0, end: number = bytes.length): Member[] | null {
  const members: Member[] = [];
  let i = skipSpace(bytes, start, end);
  if (i >= end || bytes[i] !== OPEN_BRACE) return null;
  i = skipSpace(bytes, i + 1, end);
  if (i < end && bytes[i] === CLOSE_BRACE) return skipSpace(bytes, i + 1, end) === end ? members : null;
  for (;;) {
    if (i >= end || bytes[i] !== QUOTE) return null;
    const keyStart = i;
    const keyLast = stringEnd(bytes, i + 1, end);
    if (keyLast < 0) return null;
    i = skipSpace(bytes, keyLast + 1, end);
    if (i >= end || bytes[i] !== COLON) return null;
    const valueStart = skipSpace(bytes, i + 1, end);
    const valueEnd = valueEndOf(bytes, valueStart, end);
    if (valueEnd < 0) return null;
    const name = usualText(bytes, keyStart + 1, keyLast) ?? decodeString(bytes, keyStart, keyLast + 1);
    if (name === null) return null;
    members.push({ name, keyStart, keyEnd: keyLast + 1, valueStart, valueEnd });
    i = skipSpace(bytes, valueEnd, end);
    if (i >= end) return null;
    const c = bytes[i];
    if (c === CLOSE_BRACE) return skipSpace(bytes, i + 1, end) === end ? members : null;
    if (c !== COMMA) return null;
    i = skipSpace(bytes, i + 1, end);
  }
}

/**
 * Tells whether readers could disagree about a governed member: it occurs twice, or some
 * member is spelt like it but for case (foldCase tells how). An escaped spelling is the
 * name it decodes to.
 * @param governed names in lower case ASCII
 * @returns the governed name in doubt, or null
 */
export function ambiguous(members: Members, governed: readonly string[]): string | null {
  for (let i = 0; i < members.length; i++) {
    const { name } = members[i] as Member;
    const folded = foldCase(name);
    if (!governed.includes(folded)) continue;
    if (folded !== name) return folded;
    for (let j = 0; j < i; j++) if ((members[j] as Member).name === name) return name;
  }
  return null;
}

/**
 * Folds a name as far as some reader could take it for a lower-case ASCII one: Go folds ſ and
 * the Kelvin sign, Java the Turkish i without and with its dot, and where strings end at a
 * NUL, so does the name.
 */
export function foldCase(name: string): string {
  for (let i = 0; i < name.length; i++) {
    const c = name.charCodeAt(i);
    if ((c >= 0x41 && c <= 0x5a) || c === 0 || c === 0x17f || c === 0x212a || c === 0x130 || c === 0x131) {
      return (name.split('\0', 1)[0] as string)
        .replace(/[\u0130\u0131]/g, 'i')
        .toLowerCase()
        .replaceAll('\u017f', 's')
        .replaceAll('\u212a', 'k');
    }
  }
  return name; // nearly every name: nothing is allocated
}

export const TAB = 0x09;
export const LF = 0x0a;
export const CR = 0x0d;
export const SPACE = 0x20;
export const QUOTE = 0x22;
export const COMMA = 0x2c;
export const COLON = 0x3a;
export const OPEN_BRACKET = 0x5b;
export const BACKSLASH = 0x5c;
export const CLOSE_BRACKET = 0x5d;
export const OPEN_BRACE = 0x7b;
export const CLOSE_BRACE = 0x7d;

/** What a JSON value other than an object begins with. */
export const OTHER_VALUE = Buffer.from('["-0123456789tfn');

/** The first byte at or after i that is no JSON whitespace, or end. */
export function skipSpace(bytes: Uint8Array, i: number, end: number): number {
  while (i < end) {
    const c = bytes[i] as number;
    if (c > SPACE || (c !== SPACE && c !== LF && c !== CR && c !== TAB)) return i;
    i++;
  }
  return end;
}

/** The end of the number that begins at i, or -1. What follows it is not looked at. */
export function numberEnd(b: Buffer, i: number, end: number): number {
  if (i < end && b[i] === 0x2d) i++;
  let from = i;
  if (i < end && b[i] === 0x30) i++;
  else i = digitsEnd(b, i, end);
  if (i === from) return -1;
  if (i < end && b[i] === 0x2e) {
    from = ++i;
    i = digitsEnd(b, i, end);
    if (i === from) return -1;
  }
  if (i < end && (b[i] === 0x65 || b[i] === 0x45)) {
    i++;
    if (i < end && (b[i] === 0x2b || b[i] === 0x2d)) i++;
    from = i;
    i = digitsEnd(b, i, end);
    if (i === from) return -1;
  }
  return i;
}

function digitsEnd(b: Buffer, i: number, end: number): number {
  while (i < end && (b[i] as number) >= 0x30 && (b[i] as number) <= 0x39) i++;
  return i;
}

/** The closing quote of a string whose content begins at i; -1 when there is none, or before it what no string has. */
export function stringEnd(b: Buffer, i: number, end: number): number {
  // one plain loop and nothing else: with escapes handled in a loop round it, V8 takes twice as long
  const near = Math.min(i + 64, end);
  while (i < near && STOPS[b[i] as number] === 0) i++;
  return i < end && b[i] === QUOTE ? i : longStringEnd(b, i, end);
}

/** The same for strings with escapes and long ones: 800 bytes take 0.1 µs instead of 0.8. */
function longStringEnd(b: Buffer, i: number, end: number): number {
  for (let size = 512; i < end; size = Math.min(size * 4, MAX_LOAD)) {
    const from = i;
    const to = Math.min(end, i + size);
    load(b, from, to);
    while (i < to) {
      i = from + (pass(i - from) >> 1);
      if (i === to) break;
      const c = b[i];
      if (c === QUOTE) return i;
      if (c !== BACKSLASH || i + 1 >= end) return -1;
      if (b[i + 1] === 0x75) {
        if (!isHex(b, i + 2, Math.min(i + 6, end))) return -1;
        i += 6;
      } else if (ESCAPED[b[i + 1] as number] === 1) i += 2;
      else return -1;
    }
  }
  return -1;
}

/** Whether [i, end) is four hexadecimal digits. */
function isHex(b: Buffer, i: number, end: number): boolean {
  let value = end - i === 4 ? 0 : -1;
  for (; i < end && value >= 0; i++) value = HEX[b[i] as number] as number;
  return value >= 0;
}

/** The value of a hexadecimal digit; -1 for other bytes. */
export const HEX = Int8Array.from({ length: 256 }, (_, c) =>
  /[\da-fA-F]/.test(String.fromCharCode(c)) ? Number.parseInt(String.fromCharCode(c), 16) : -1,
);

/** 1 for bytes that make a whole escape with the backslash before them. */
export const ESCAPED = Uint8Array.from({ length: 256 }, (_, c) =>
  '"\\/bfnrt'.includes(String.fromCharCode(c)) ? 1 : 0,
);

/** 1 for bytes that end a plain run of string content. */
export const STOPS = Uint8Array.from({ length: 256 }, (_, c) => (c < SPACE || c === QUOTE || c === BACKSLASH ? 1 : 0));

/** Texts met in nearly every request, by their length: found by their bytes, they are not made anew. */
const USUAL: readonly (readonly { readonly name: string; readonly bytes: Buffer }[])[] = Array.from(
  { length: 22 },
  (_, length) =>
    ['model', 'messages', 'stream', 'stream_options', 'include_usage', 'temperature', 'top_p', 'tools', 'tool_choice']
      .concat(['max_tokens', 'max_completion_tokens', 'input', 'user', 'seed', 'response_format', 'metadata'])
      .concat(['role', 'content', 'system', 'developer', 'assistant', 'tool', 'type', 'text', 'function', 'name'])
      .filter((name) => name.length === length)
      .map((name) => ({ name, bytes: Buffer.from(name) })),
);

export function usualText(b: Buffer, start: number, end: number): string | null {
  const length = end - start;
  const candidates = USUAL[length];
  if (candidates === undefined) return null;
  for (let k = 0; k < candidates.length; k++) {
    const { name, bytes } = candidates[k] as { name: string; bytes: Buffer };
    let i = 0;
    while (i < length && b[start + i] === bytes[i]) i++;
    if (i === length) return name;
  }
  return null;
}

/** The text of a string literal, quotes included in the span; null when its escapes are wrong. */
export function decodeString(bytes: Buffer, start: number, end: number): string | null {
  for (let i = start + 1; i < end - 1; i++) {
    const c = bytes[i] as number;
    if (c === BACKSLASH || c > 0x7e) {
      try {
        return JSON.parse(bytes.utf8Slice(start, end));
      } catch {
        return null;
      }
    }
  }
  return bytes.latin1Slice(start + 1, end - 1);
}

/** Strings of more bytes than this, as they are written, are shortened in the value; longer than any name we look up. */
export const LONG_STRING = 512;
/** The same below the top level, where nothing is looked up but roles and types. */
export const SHORT_STRING = 32;
/** Containers nested deeper than this are empty in the value; the top-level object is 1. */
export const REDUCED_DEPTH = 4;
/** Numbers written in more bytes than this are NaN in the value. */
export const REDUCED_NUMBER = 1024;

/** The end of the value that begins at i, or -1. Brackets are counted, not told apart. */
function valueEndOf(bytes: Buffer, i: number, end: number): number {
  if (i >= end) return -1;
  let c = bytes[i] as number;
  if (c === QUOTE) return stringEnd(bytes, i + 1, end) + 1 || -1;
  if (c !== OPEN_BRACE && c !== OPEN_BRACKET) {
    const start = i;
    for (; i < end; i++) {
      c = bytes[i] as number;
      if (c <= SPACE || c === COMMA || c === CLOSE_BRACE || c === CLOSE_BRACKET) break;
    }
    return i === start ? -1 : i;
  }
  let depth = 1; // the top-level object
  for (; i < end; i++) {
    c = bytes[i] as number;
    if (c === QUOTE) {
      i = stringEnd(bytes, i + 1, end);
      if (i < 0) return -1;
    } else if (c === OPEN_BRACE || c === OPEN_BRACKET) {
      if (++depth > MAX_DEPTH) return -1;
    } else if (c === CLOSE_BRACE || c === CLOSE_BRACKET) {
      if (--depth === 1) return i + 1;
    }
  }
  return -1;
}
