import { load, MAX_LOAD, pass } from './strings.ts';

/**
 * What the two parsers of request bodies share: `parseObject` (parser.ts) for small bodies and
 * `ObjectScanner` (stream-parser.ts) for large ones. Both accept what JSON.parse accepts, within
 * the limits below.
 */

/** Most levels of nesting; the object itself is the first. */
export const MAX_DEPTH = 512;
/** Most top-level members: each is looked up in the list of refused parameters. */
export const MAX_MEMBERS = 1024;
/** Most different names below the top level: each costs V8 0.5 µs. */
export const MAX_NAMES = 2048;

/** Longer strings, in bytes as written, are shortened in the value; no name that is looked up is so long. */
export const LONG_STRING = 512;
/** The same limit below the top level, where only roles and types are looked up. */
export const SHORT_STRING = 32;
/** What stands for such a string. */
export const SHORTENED = '...';
/** Containers nested deeper than this are empty in the value; the top-level object is 1. */
export const REDUCED_DEPTH = 4;
/** Numbers written in more bytes than this are NaN in the value. */
export const REDUCED_NUMBER = 1024;
/** Most bytes, as written, that are shown of a shortened string. */
const SHOWN = 64;

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

/** The bytes that a JSON value other than an object begins with. */
export const OTHER_VALUE = Buffer.from('["-0123456789tfn');

/** The value of a hexadecimal digit; -1 for other bytes. */
export const HEX = Int8Array.from({ length: 256 }, (_, c) =>
  '0123456789abcdef'.indexOf(String.fromCharCode(c).toLowerCase()),
);
/** 1 for bytes that form a whole escape together with the backslash before them. */
export const ESCAPED = Uint8Array.from({ length: 256 }, (_, c) =>
  '"\\/bfnrt'.includes(String.fromCharCode(c)) ? 1 : 0,
);
/** 1 for bytes that are not plain string content. */
export const STOPS = Uint8Array.from({ length: 256 }, (_, c) => (c < SPACE || c === QUOTE || c === BACKSLASH ? 1 : 0));

/** One top-level member, and the byte offsets of its value. */
export interface Member {
  /** Without escapes; shortened if it is longer than LONG_STRING bytes. */
  readonly name: string;
  readonly valueStart: number;
  readonly valueEnd: number;
}
export type Members = readonly Member[];

/** A JSON object: its value for validation, and where its members are for edits. */
export interface ParsedObject {
  /**
   * What JSON.parse would give, reduced to what validators look at. Long strings and keys are their
   * beginning and "..."; below the top level strings longer than SHORT_STRING are "...". Containers
   * below REDUCED_DEPTH are empty, and long numbers NaN.
   */
  readonly value: Readonly<Record<string, unknown>>;
  readonly members: Members;
  /** The members, by index, in which the watched name occurs. */
  readonly watched: readonly number[];
  /** The members, by index, that are lists with an item that has `type` twice; known only where a name is watched. */
  readonly retyped: readonly number[];
}

/** Why a body is not accepted. */
export type JsonFault =
  | 'invalid_json'
  | 'not_an_object'
  | 'too_deep'
  | 'too_many_members'
  | 'too_many_names'
  | 'too_many_values';

/** The shortened form of a long string whose content begins at `start`. */
export function beginning(b: Buffer, start: number): string {
  let end = start;
  for (;;) {
    const c = b[end] as number;
    const length = c !== BACKSLASH ? sequenceLength(c) : b[end + 1] === 0x75 ? 6 : 2;
    if (end + length > start + SHOWN) break;
    end += length;
  }
  return `${unescaped(b, start, end)}...`;
}

/** Defines a member as JSON.parse does: assigning to `__proto__` would set the prototype. */
export function setMember(object: Record<string, unknown>, name: string, value: unknown): void {
  if (name !== '__proto__') object[name] = value;
  else Object.defineProperty(object, name, { value, writable: true, enumerable: true, configurable: true });
}

/** The length of the UTF-8 sequence that begins with this byte. */
export function sequenceLength(lead: number): number {
  return lead < 0xc0 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}

/**
 * The name of a governed member that other parsers could read differently, or null: it occurs twice,
 * or a member's name differs from it only in case (see FOLDED).
 * @param governed names in lower case ASCII
 */
export function ambiguous(members: Members, governed: readonly string[]): string | null {
  for (let i = 0; i < members.length; i++) {
    const { name } = members[i] as Member;
    for (const plain of governed) {
      if (!foldsTo(name, plain)) continue;
      if (name !== plain) return plain;
      for (let j = 0; j < i; j++) if ((members[j] as Member).name === name) return name;
    }
  }
  return null;
}

/**
 * The lower-case letter that some parser could take a UTF-16 unit for: Go folds ſ and the Kelvin
 * sign, Java folds the dotless and the dotted i of Turkish. Other units stand for themselves.
 */
export const FOLDED = Uint16Array.from({ length: 0x10000 }, (_, c) => (c >= 0x41 && c <= 0x5a ? c + 0x20 : c));
FOLDED[0x17f] = 0x73; // s
FOLDED[0x212a] = 0x6b; // k
FOLDED[0x130] = 0x69; // i
FOLDED[0x131] = 0x69;

/** Whether some parser could take a name for this one, which is lower-case ASCII. For some, a NUL ends the name. */
export function foldsTo(name: string, plain: string): boolean {
  const { length } = plain;
  if (name.length < length) return false;
  for (let i = 0; i < length; i++) if (FOLDED[name.charCodeAt(i)] !== plain.charCodeAt(i)) return false;
  return name.length === length || name.charCodeAt(length) === 0;
}

/** The offset of the first byte at or after i that is not JSON whitespace, or end. */
export function skipSpace(bytes: Uint8Array, i: number, end: number): number {
  while (i < end) {
    const c = bytes[i] as number;
    if (c > SPACE || (c !== SPACE && c !== LF && c !== CR && c !== TAB)) return i;
    i++;
  }
  return end;
}

/** Where a value begins and ends, with blanks around it. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

/**
 * The items of a list.
 * @param b valid JSON; anything but a list has none
 * @param most bytes that are read, those within strings apart
 * @returns null where the list has more
 */
export function itemsOf(b: Buffer, most: number): Span[] | null {
  const items: Span[] = [];
  if (b[0] !== OPEN_BRACKET) return items;
  let depth = 0;
  let start = 1;
  let read = 0;
  for (let i = 0; i < b.length; i++) {
    if (++read > most) return null;
    const c = b[i] as number;
    if (c === QUOTE) i = stringEnd(b, i + 1, b.length);
    else if (c === OPEN_BRACE || c === OPEN_BRACKET) depth++;
    else if ((c === CLOSE_BRACE || c === CLOSE_BRACKET ? --depth : c === COMMA ? depth - 1 : -1) === 0) {
      items.push({ start, end: i });
      start = i + 1;
    }
  }
  return items;
}

/** The end of the number that begins at i, or -1. Does not check what follows. */
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

/** The offset of the closing quote of a string whose content begins at i; -1 if the string is cut or invalid. */
export function stringEnd(b: Buffer, i: number, end: number): number {
  // escapes are handled elsewhere: with an outer loop for them V8 takes twice as long
  const near = Math.min(i + 64, end);
  while (i < near && STOPS[b[i] as number] === 0) i++;
  return i < end && b[i] === QUOTE ? i : longStringEnd(b, i, end);
}

/** The same for long strings and for strings with escapes: 800 bytes take 0.1 µs instead of 0.8. */
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

/** The text of string content [start, end), whose escapes are valid; LONG_STRING bytes at most. */
export function decodeString(b: Buffer, start: number, end: number): string {
  let all = 0;
  for (let i = start; i < end; i++) {
    const c = b[i] as number;
    if (c === BACKSLASH) return unescaped(b, start, end);
    all |= c;
  }
  return b.toString(all < 0x80 ? 'latin1' : 'utf8', start, end);
}

/** UTF-16 of the string being decoded, low bytes first. */
const UNITS = Buffer.alloc(2 * LONG_STRING + 2);
/** What the escape of one letter stands for. */
const LETTERS = Uint8Array.from({ length: 256 }, (_, c) => c);
for (const [k, letter] of Buffer.from('bfnrt').entries()) LETTERS[letter] = '\b\f\n\r\t'.charCodeAt(k);

/**
 * The text of string content [start, end) with escapes, which are valid; LONG_STRING bytes at most.
 * JSON.parse takes three times as long.
 */
export function unescaped(b: Buffer, start: number, end: number): string {
  let length = 0;
  for (let i = start; i < end; ) {
    let c = b[i++] as number;
    if (c === BACKSLASH) {
      c = LETTERS[b[i++] as number] as number;
      if (c === 0x75) {
        c = (hex(b, i) << 8) | hex(b, i + 2);
        i += 4;
      }
    } else if (c >= 0x80) {
      const more = sequenceLength(c) - 1;
      c &= 0x3f >> more;
      for (let k = 0; k < more; k++) c = (c << 6) | ((b[i++] as number) & 0x3f);
      if (c > 0xffff) {
        const high = 0xd7c0 + (c >> 10); // 0xd800 - (0x10000 >> 10)
        UNITS[length++] = high;
        UNITS[length++] = high >> 8;
        c = 0xdc00 | (c & 0x3ff);
      }
    }
    UNITS[length++] = c;
    UNITS[length++] = c >> 8;
  }
  return UNITS.toString('utf16le', 0, length);
}

/** The byte written in the two hexadecimal digits at i. */
function hex(b: Buffer, i: number): number {
  return ((HEX[b[i] as number] as number) << 4) | (HEX[b[i + 1] as number] as number);
}
