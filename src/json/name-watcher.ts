import { BACKSLASH, decodeString, LONG_STRING } from './bytes.ts';
import { beginning, type WatchedFile, type WatchedMember } from './members.ts';

/** Names that are looked for at all levels from the third on, where their value is a string. */
export interface WatchedNames {
  /** Letters with which the names begin, and the two with which they end: other keys without escapes are not decoded. */
  readonly first: LetterSet;
  readonly ends: PairSet;
  /** Which string values of this key count; null if no reader takes the key for one of the names. */
  counts(key: string): RegExp | null;
  /** A name does not count below members of these names, in a message and in a part of one. */
  readonly notBelow: { readonly item: readonly string[]; readonly part: readonly string[] };
  /** The names of which the value may be a file, whatever `counts` says. */
  readonly files?: { has(key: string): boolean };
}

/** For each byte whether it may be one of some letters; escapes, and bytes beyond ASCII, may be any. */
type LetterSet = Uint8Array;

/** @param letters in lower case; those of the set are in upper case as well */
export function letterSet(letters: string): LetterSet {
  const set = new Uint8Array(256).fill(1, 0x80);
  for (const text of [letters, letters.toUpperCase(), '\\'])
    for (const c of Buffer.from(text)) set[c] = 1;
  return set;
}

/** The same of two bytes, by the first of them times 256 and the second. */
type PairSet = Uint8Array;

/** @param pairs of letters in lower case; those of the set are in upper case as well */
export function pairSet(...pairs: readonly string[]): PairSet {
  const set = new Uint8Array(65_536);
  for (const [one = '', two = ''] of pairs) {
    const [before, last] = [letterSet(one), letterSet(two)];
    for (let first = 0; first < 256; first++) {
      if (before[first] === 0) continue;
      for (let k = 0; k < 256; k++) if (last[k] === 1) set[first * 256 + k] = 1;
    }
  }
  return set;
}

/** The levels of the items of a top-level list, and of the parts of a message. */
const ITEM_LEVEL = 3;
const PART_LEVEL = 5;
const TYPE = 'type';
/** An object that holds an address, in a part of a message, and that address. */
const SOURCE = 'source';
const URL_KEY = 'url';
/** How much of an image the model is to see, beside its address; less with `low`. */
const DETAIL = 'detail';
const LOW = 'low';
const NO_FILES: readonly WatchedFile[] = [];
/** The most strings that are noted: what more there is counts as text. */
const MOST_FILES = 4096;
const NO_MEMBERS: readonly WatchedMember[] = [];
const NO_INDICES: readonly number[] = [];

/**
 * Notes the top-level members in which a name occurs, also so deep that names are not decoded, or in which an item
 * has two types, and what may be a file.
 */
export class NameWatcher {
  /** Where a name occurs: the first place in each top-level member. */
  found: readonly WatchedMember[] = NO_MEMBERS;
  /** Indices of members in an item of which `type` occurs twice. */
  retyped: readonly number[] = NO_INDICES;
  /** Strings that may be files. */
  files: readonly WatchedFile[] = NO_FILES;
  readonly #watch: WatchedNames;
  /** The level of a member below which names do not count; 0: of none. */
  #exempt = 0;
  /** Whether the member of PART_LEVEL that is being read is a SOURCE. */
  #isSource = false;
  #key = '';
  #level = 0;
  #counts: RegExp | null = null;
  /** Whether the value of the last key may be a file, or says how much of one is seen. */
  #mayBeFile = false;
  /** The level of an object whose URL_KEY is that of a file; 0: of none. */
  #holder = 0;
  /** The level of an object that asks for little detail, before its file comes, and that of the last file; 0: none. */
  #low = 0;
  #last = 0;
  /** How often `type` occurred in the item that is being read. */
  #types = 0;

  constructor(watch: WatchedNames) {
    this.#watch = watch;
  }

  /** Takes the key with the content [start, end). */
  key(b: Buffer, start: number, end: number, level: number): void {
    this.#counts = null;
    this.#mayBeFile = false;
    if (level < ITEM_LEVEL) return;
    const { first, ends, notBelow, files } = this.#watch;
    if (this.#exempt !== 0 && level > this.#exempt) return;
    if (level === ITEM_LEVEL || level === PART_LEVEL) {
      const names = level === ITEM_LEVEL ? notBelow.item : notBelow.part;
      this.#exempt = 0;
      for (const name of names) if (isKey(b, start, end, name)) this.#exempt = level;
      if (level === PART_LEVEL) this.#isSource = isKey(b, start, end, SOURCE);
      else if (isKey(b, start, end, TYPE)) this.#types++;
    }
    if (first[b[start] as number] === 0 || !mayBeName(b, start, end, ends)) return;
    this.#key = textOf(b, start, end);
    this.#level = level;
    this.#counts = this.#watch.counts(this.#key);
    this.#mayBeFile = files !== undefined && (this.#key === DETAIL || files.has(this.#key));
  }

  /**
   * Takes the beginning of a value: behind the last key, or an item.
   * @param member index of the top-level member that is being read
   * @returns whether its text is wanted
   */
  value(isString: boolean, member: number): boolean {
    if (this.#types > 1 && this.retyped.at(-1) !== member) this.retyped = [...this.retyped, member];
    if (this.#counts !== null && (!isString || this.found.at(-1)?.member === member))
      this.#counts = null;
    if (this.#mayBeFile && !isString) {
      if (this.#key !== DETAIL) this.#holder = this.#level + 1;
      this.#mayBeFile = false;
    }
    return this.#counts !== null || this.#mayBeFile;
  }

  /**
   * Takes the text [start, end) of that value, or its first LONG_STRING bytes.
   * @param from where it stands in the body, with the offset behind it in `to`
   */
  text(b: Buffer, start: number, end: number, member: number, from: number, to: number): void {
    const counts = this.#counts;
    const text = textOf(b, start, end);
    this.#counts = null;
    if (counts?.test(text) === true) this.found = [...this.found, { member, key: this.#key }];
    if (!this.#mayBeFile) return;
    this.#mayBeFile = false;
    const level = this.#level;
    if (this.#key === DETAIL) {
      if (text !== LOW) return;
      if (this.#last === level) this.#noteLow();
      else this.#low = level;
      return;
    }
    const isHeld =
      this.#key !== URL_KEY ||
      this.#holder === level ||
      (this.#isSource && level === PART_LEVEL + 1);
    const file = { member, from, to, text, isHeld, isLow: this.#low === level };
    if (this.files === NO_FILES) this.files = [file];
    else if (this.files.length < MOST_FILES) (this.files as WatchedFile[]).push(file);
    this.#last = level;
  }

  /** The last file is to be seen with little detail. */
  #noteLow(): void {
    const files = this.files as WatchedFile[];
    files.push({ ...(files.pop() as WatchedFile), isLow: true });
  }

  /** An object of this level ends. */
  close(level: number): void {
    if (level === this.#exempt) this.#exempt = 0;
    if (level === ITEM_LEVEL) this.#types = 0;
    if (level === this.#low) this.#low = 0;
    if (level === this.#last) this.#last = 0;
    if (level === this.#holder) this.#holder = 0;
  }
}

/** Whether the key with the content [start, end), which begins like one of the names, may be one. */
function mayBeName(b: Buffer, start: number, end: number, ends: PairSet): boolean {
  if (ends[((b[end - 2] as number) << 8) | (b[end - 1] as number)] === 1) return true;
  for (let i = start; i < end; i++) if (b[i] === BACKSLASH || (b[i] as number) >= 0x80) return true;
  return false;
}

/** Whether the key with the content [start, end) is this name, which is ASCII. */
function isKey(b: Buffer, start: number, end: number, name: string): boolean {
  const first = b[start];
  if (first !== name.charCodeAt(0) && first !== BACKSLASH) return false;
  const length = end - start;
  for (let i = 0; i < length; i++) {
    if (b[start + i] === BACKSLASH) return textOf(b, start, end) === name;
    if (b[start + i] !== name.charCodeAt(i)) return false;
  }
  return length === name.length;
}

/** The text of a string; the beginning of one that is, or may be, longer than LONG_STRING. */
function textOf(b: Buffer, start: number, end: number): string {
  return end - start < LONG_STRING ? decodeString(b, start, end) : beginning(b, start, LONG_STRING);
}
