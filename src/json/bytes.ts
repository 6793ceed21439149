import { load, MAX_LOAD, pass } from './strings.ts';

/** JSON as bytes: its characters, and where whitespace, strings and numbers end. */

export const TAB = 0x09;
export const LF = 0x0a;
export const CR = 0x0d;
export const SPACE = 0x20;
export const QUOTE = 0x22;
export const PLUS_SIGN = 0x2b;
export const COMMA = 0x2c;
export const MINUS_SIGN = 0x2d;
export const DOT = 0x2e;
export const DIGIT_0 = 0x30;
export const DIGIT_9 = 0x39;
export const COLON = 0x3a;
export const CAPITAL_E = 0x45;
export const OPEN_BRACKET = 0x5b;
export const BACKSLASH = 0x5c;
export const CLOSE_BRACKET = 0x5d;
export const LETTER_E = 0x65;
export const LETTER_F = 0x66;
export const LETTER_N = 0x6e;
export const LETTER_T = 0x74;
export const LETTER_U = 0x75;
export const OPEN_BRACE = 0x7b;
export const CLOSE_BRACE = 0x7d;

export const TRUE = Buffer.from('true');
export const FALSE = Buffer.from('false');
export const NULL = Buffer.from('null');

/** The longest string that is decoded whole, in bytes as written: no name that is looked up is longer. */
export const LONG_STRING = 512;

/** The value of a hexadecimal digit; -1 for other bytes. */
export const HEX = Int8Array.from({ length: 256 }, (_, c) =>
  '0123456789abcdef'.indexOf(String.fromCharCode(c).toLowerCase()),
);
/** 1 for bytes that form a whole escape together with the backslash before them. */
export const ESCAPED = Uint8Array.from({ length: 256 }, (_, c) =>
  '"\\/bfnrt'.includes(String.fromCharCode(c)) ? 1 : 0,
);
/** 1 for bytes that are not plain string content. */
export const STOPS = Uint8Array.from({ length: 256 }, (_, c) =>
  c < SPACE || c === QUOTE || c === BACKSLASH ? 1 : 0,
);

/** Whether the `length` bytes at `start` are this name. */
export function equals(b: Buffer, start: number, length: number, name: Buffer): boolean {
  if (length !== name.length) return false;
  for (let i = 0; i < length; i++) if (b[start + i] !== name[i]) return false;
  return true;
}

/** The length of the UTF-8 sequence that begins with this byte. */
export function sequenceLength(lead: number): number {
  return lead < 0xc0 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
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

/** The end of a number, true, false or null, or -1. Does not check what follows. */
export function scalarEnd(b: Buffer, i: number, end: number): number {
  const first = b[i] as number;
  if (first === LETTER_N) return i + 4 <= end && equals(b, i, 4, NULL) ? i + 4 : -1;
  if (first === LETTER_T) return i + 4 <= end && equals(b, i, 4, TRUE) ? i + 4 : -1;
  if (first === LETTER_F) return i + 5 <= end && equals(b, i, 5, FALSE) ? i + 5 : -1;
  return numberEnd(b, i, end);
}

/** The end of the number that begins at i, or -1. Does not check what follows. */
export function numberEnd(b: Buffer, i: number, end: number): number {
  if (i < end && b[i] === MINUS_SIGN) i++;
  let from = i;
  if (i < end && b[i] === DIGIT_0) i++;
  else i = digitsEnd(b, i, end);
  if (i === from) return -1;
  if (i < end && b[i] === DOT) {
    from = ++i;
    i = digitsEnd(b, i, end);
    if (i === from) return -1;
  }
  if (i < end && (b[i] === LETTER_E || b[i] === CAPITAL_E)) {
    i++;
    if (i < end && (b[i] === PLUS_SIGN || b[i] === MINUS_SIGN)) i++;
    from = i;
    i = digitsEnd(b, i, end);
    if (i === from) return -1;
  }
  return i;
}

function digitsEnd(b: Buffer, i: number, end: number): number {
  while (i < end && (b[i] as number) >= DIGIT_0 && (b[i] as number) <= DIGIT_9) i++;
  return i;
}

/** The offset of the closing quote of a string whose content begins at i; -1 if the string is cut or invalid. */
export function stringEnd(b: Buffer, i: number, end: number): number {
  // escapes are handled elsewhere: with an outer loop for them V8 takes twice as long
  const near = Math.min(i + 64, end);
  while (i < near && STOPS[b[i] as number] === 0) i++;
  return i < end && b[i] === QUOTE ? i : longStringEnd(b, i, end);
}

/** How many strings had an escape in their first 64 bytes. A reader of keys learns by it that one may have some. */
export let escapesPassed = 0;

/** As `stringEnd`, for long strings and for strings with escapes: 800 bytes take 0.1 µs instead of 0.8. */
function longStringEnd(b: Buffer, i: number, end: number): number {
  if (b[i] === BACKSLASH) escapesPassed++;
  for (let size = 512; i < end; size = Math.min(size * 4, MAX_LOAD)) {
    const from = i;
    const to = Math.min(end, i + size);
    load(b, from, to);
    while (i < to) {
      i = from + pass(i - from);
      if (i === to) break;
      const c = b[i];
      if (c === QUOTE) return i;
      if (c !== BACKSLASH || i + 1 >= end) return -1;
      if (b[i + 1] === LETTER_U) {
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

/** The text of string content [start, end), whose escapes are valid. */
export function decodeString(b: Buffer, start: number, end: number): string {
  const text = b.toString('utf8', start, end);
  return text.includes('\\') ? JSON.parse(`"${text}"`) : text;
}
