import { BACKSLASH, decodeString, LONG_STRING } from './bytes.ts';

/** A name that is looked for at all levels from the third on, where its value is a string. */
export interface WatchedName {
  /** Letters that every spelling of the name begins with, in lower case; keys that begin otherwise are not decoded. */
  readonly beginning: string;
  /** Whether some reader could take a key for the name. */
  isName(key: string): boolean;
  /** The name does not count below a member of this name in a part of a message. */
  readonly notBelow: string;
}

/** The levels of the items of a top-level list, and of the parts of a message. */
const ITEM_LEVEL = 3;
const PART_LEVEL = 5;
const TYPE = 'type';
const NONE: readonly number[] = [];

/**
 * Notes the top-level members in which the name occurs, also so deep that names are not decoded, or in which an item
 * has two types.
 */
export class NameWatcher {
  /** Indices of members. */
  found: readonly number[] = NONE;
  /** Indices of members in an item of which `type` occurs twice. */
  retyped: readonly number[] = NONE;
  readonly #watch: WatchedName;
  /** Whether the name does not count in the member of PART_LEVEL that is being read. */
  #isExempt = false;
  #isName = false;
  /** How often `type` occurred in the item that is being read. */
  #types = 0;

  constructor(watch: WatchedName) {
    this.#watch = watch;
  }

  /** Takes the key with the content [start, end). */
  key(b: Buffer, start: number, end: number, level: number): void {
    this.#isName = false;
    if (level < ITEM_LEVEL) return;
    const { beginning, notBelow } = this.#watch;
    if (level === ITEM_LEVEL && isKey(b, start, end, TYPE)) this.#types++;
    else if (level === PART_LEVEL) this.#isExempt = isKey(b, start, end, notBelow);
    if (level > PART_LEVEL && this.#isExempt) return;
    this.#isName = mayBegin(b, start, beginning) && this.#watch.isName(textOf(b, start, end));
  }

  /** Takes the value behind the last key. @param member index of the top-level member that is being read */
  value(isString: boolean, member: number): void {
    if (this.#isName && isString && this.found.at(-1) !== member) this.found = [...this.found, member];
    this.#isName = false;
    if (this.#types > 1 && this.retyped.at(-1) !== member) this.retyped = [...this.retyped, member];
  }

  /** An object of this level ends. */
  close(level: number): void {
    if (level === PART_LEVEL) this.#isExempt = false;
    else if (level === ITEM_LEVEL) this.#types = 0;
  }
}

/** Whether the key at `start` may begin with these letters: an escape or a byte beyond ASCII counts as yes. */
function mayBegin(b: Buffer, start: number, beginning: string): boolean {
  for (let i = 0; i < beginning.length; i++) {
    const c = b[start + i] as number;
    if (c === BACKSLASH || c >= 0x80) return true;
    if ((c | 0x20) !== beginning.charCodeAt(i)) return false;
  }
  return true;
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

/** The text of a key; of a longer one, the beginning. */
function textOf(b: Buffer, start: number, end: number): string {
  return decodeString(b, start, Math.min(end, start + LONG_STRING));
}
