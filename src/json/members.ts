import {
  BACKSLASH,
  CLOSE_BRACE,
  CLOSE_BRACKET,
  COMMA,
  decodeString,
  LETTER_U,
  OPEN_BRACE,
  OPEN_BRACKET,
  QUOTE,
  sequenceLength,
  stringEnd,
} from './bytes.ts';

/**
 * What the two parsers of request bodies share: `parseObject` (parser.ts) for small bodies and
 * `ObjectStreamParser` (stream-parser.ts) for large ones. Both accept what JSON.parse accepts, within
 * the limits below.
 */

/** Most levels of nesting; the object itself is the first. */
export const MAX_DEPTH = 512;
/** Most top-level members: each is looked up in the list of refused parameters. */
export const MAX_MEMBERS = 1024;
/** Most different names below the top level: each costs V8 0.5 µs. */
export const MAX_NAMES = 2048;

/** As LONG_STRING, for strings below the top level, where only roles and types are looked up. */
export const SHORT_STRING = 32;
/** What stands for a string longer than SHORT_STRING. */
export const SHORTENED = '...';
/** Containers nested deeper than this are empty in the value; the top-level object is 1. */
export const REDUCED_DEPTH = 4;
/** Numbers written in more bytes than this are NaN in the value. */
export const REDUCED_NUMBER = 1024;
/** Most bytes, as written, that are shown of a shortened string. */
const SHOWN = 64;

/** The bytes that a JSON value other than an object begins with. */
export const OTHER_VALUE = Buffer.from('["-0123456789tfn');

/** In a longer array of a large body, an item of the same type as the last one kept is left out, unless it is an object. */
export const REDUCED_ITEMS = 16_384;
/** As REDUCED_ITEMS, below the second level: 2,048 lists of tokens are no more than 32,768 values. */
export const REDUCED_DEEP_ITEMS = 16;
/**
 * Most values in the reduced value. Each costs a validator about 20 ns, and an object with this
 * many members pauses for 5 ms whenever its hash table grows. 20,000 messages fit.
 */
export const MAX_VALUES = 65_536;

/** One top-level member, and the byte offsets of its value. */
export interface Member {
  /** Without escapes; shortened if it is longer than LONG_STRING bytes. */
  readonly name: string;
  readonly valueStart: number;
  readonly valueEnd: number;
}
export type Members = readonly Member[];

/** Where a watched name occurs. */
export interface WatchedMember {
  /** Index of the top-level member in which it does. */
  readonly member: number;
  readonly key: string;
}

/** A string that may be a file. */
export interface WatchedFile {
  /** Index of the top-level member in which it stands. */
  readonly member: number;
  /** Where its content begins in the body, and ends. */
  readonly from: number;
  readonly to: number;
  /** Its text; of a longer one the beginning. */
  readonly text: string;
  /** Whether it stands where an address is that of a file. */
  readonly isHeld: boolean;
  /** Whether the model is to see little detail of it. */
  readonly isLow: boolean;
}

/** A JSON object: its value for validation, and where its members are for edits. */
export interface ParsedObject {
  /**
   * What JSON.parse would give, reduced to what validators look at. Long strings and keys are their
   * beginning and "..."; below the top level strings longer than SHORT_STRING are "...". Containers
   * below REDUCED_DEPTH are empty, and long numbers NaN.
   */
  readonly value: Readonly<Record<string, unknown>>;
  readonly members: Members;
  /** The members in which a watched name occurs. */
  readonly watched: readonly WatchedMember[];
  /** The members, by index, that are lists with an item that has `type` twice; known only where names are watched. */
  readonly retyped: readonly number[];
  /** What may be a file, in the order of the body; known only where names are watched. */
  readonly files: readonly WatchedFile[];
}

/** Why a body is not accepted. */
export type JsonFault =
  | 'invalid_json'
  | 'not_an_object'
  | 'too_deep'
  | 'too_many_members'
  | 'too_many_names'
  | 'too_many_values';

/**
 * The shortened form of a long string whose content begins at `start`.
 * @param most bytes, as written, that are shown
 */
export function beginning(b: Buffer, start: number, most = SHOWN): string {
  let end = start;
  for (;;) {
    const c = b[end] as number;
    const length = c !== BACKSLASH ? sequenceLength(c) : b[end + 1] === LETTER_U ? 6 : 2;
    if (end + length > start + most) break;
    end += length;
  }
  return `${decodeString(b, start, end)}...`;
}

/** The least number of items that are kept of an array of a large body. @param depth of the array */
export function mostItems(depth: number): number {
  return depth > 2 ? REDUCED_DEEP_ITEMS : REDUCED_ITEMS;
}

/** Whether validators treat both values alike: they have the same type, and are not objects. */
export function isAlike(one: unknown, other: unknown): boolean {
  if (typeof one !== 'object' || one === null)
    return typeof one === typeof other && (one === null) === (other === null);
  return Array.isArray(one) && Array.isArray(other);
}

/** Defines a member as JSON.parse does: assigning to `__proto__` would set the prototype. */
export function setMember(object: Record<string, unknown>, name: string, value: unknown): void {
  if (name !== '__proto__') object[name] = value;
  else
    Object.defineProperty(object, name, {
      value,
      writable: true,
      enumerable: true,
      configurable: true,
    });
}

/**
 * The name of a governed member that other parsers could read differently, or null: it occurs twice,
 * or a member's name differs from it only in case (see `folded`).
 * @param governed names in lower case ASCII
 */
export function ambiguous(members: Members, governed: readonly string[]): string | null {
  const letters = governed.length > 2 ? firstLetters(governed) : null;
  for (let i = 0; i < members.length; i++) {
    const { name } = members[i] as Member;
    const first = folded(name.charCodeAt(0));
    if (letters !== null && letters[first] !== 1) continue;
    for (const plain of governed) {
      if (plain.charCodeAt(0) !== first || !foldsTo(name, plain)) continue;
      if (name !== plain) return plain;
      for (let j = 0; j < i; j++) if ((members[j] as Member).name === name) return name;
    }
  }
  return null;
}

/** 1 for each character with which one of the names begins. Made once for each list: most members begin with none. */
function firstLetters(governed: readonly string[]): Uint8Array {
  let letters = FIRST_LETTERS.get(governed);
  if (letters === undefined) {
    letters = new Uint8Array(0x80);
    for (const name of governed) letters[name.charCodeAt(0)] = 1;
    FIRST_LETTERS.set(governed, letters);
  }
  return letters;
}

const FIRST_LETTERS = new WeakMap<readonly string[], Uint8Array>();

/**
 * The lower-case letter that some parser could take a UTF-16 unit for: Go folds ſ and the Kelvin
 * sign, Java folds the dotless and the dotted i of Turkish. Other units stand for themselves.
 */
export function folded(unit: number): number {
  if (unit < 0x80) return FOLDED[unit] as number;
  if (unit === 0x17f) return 0x73; // s
  if (unit === 0x212a) return 0x6b; // k
  return unit === 0x130 || unit === 0x131 ? 0x69 : unit; // i
}

const FOLDED = Uint8Array.from({ length: 0x80 }, (_, c) => (c >= 0x41 && c <= 0x5a ? c + 0x20 : c));

/** Whether some parser could take a name for this one, which is lower-case ASCII. For some, a NUL ends the name. */
export function foldsTo(name: string, plain: string): boolean {
  const { length } = plain;
  if (name.length < length) return false;
  for (let i = 0; i < length; i++)
    if (folded(name.charCodeAt(i)) !== plain.charCodeAt(i)) return false;
  return name.length === length || name.charCodeAt(length) === 0;
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
    else if (
      (c === CLOSE_BRACE || c === CLOSE_BRACKET ? --depth : c === COMMA ? depth - 1 : -1) === 0
    ) {
      items.push({ start, end: i });
      start = i + 1;
    }
  }
  return items;
}

/** The first top-level member of this name. */
export function memberNamed(members: Members, name: string): Member | undefined {
  for (const member of members) if (member.name === name) return member;
  return undefined;
}
