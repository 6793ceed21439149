import { BACKSLASH, unescaped } from './members.ts';

/** A name to look out for at all levels from the third on, with a string as its value. */
export interface Watch {
  readonly name: string;
  /** Below a member of this name in a part of a message it does not count. */
  readonly notBelow: string;
}

/** The levels of the items of a top-level list, and of the parts of a message. */
const ITEM_LEVEL = 3;
const PART_LEVEL = 5;
const NONE: readonly number[] = [];

/** Notes in which top-level members a name occurs, at levels whose names are not decoded too. */
export class Watcher {
  /** Indices of members. */
  found: readonly number[] = NONE;
  readonly #watch: Watch;
  /** The name does not count in the member of PART_LEVEL that is being read. */
  #isExempt = false;
  #isName = false;

  constructor(watch: Watch) {
    this.#watch = watch;
  }

  /** Takes the key with the content [start, end). */
  key(b: Buffer, start: number, end: number, level: number): void {
    const { name, notBelow } = this.#watch;
    if (level === PART_LEVEL) this.#isExempt = isKey(b, start, end, notBelow);
    this.#isName = level >= ITEM_LEVEL && isKey(b, start, end, name) && !(level > PART_LEVEL && this.#isExempt);
  }

  /** Takes the value behind the last key. @param member index of the top-level member that is being read */
  value(isString: boolean, member: number): void {
    if (this.#isName && isString && this.found.at(-1) !== member) this.found = [...this.found, member];
    this.#isName = false;
  }
}

/** Whether the key with the content [start, end) is this name, which is ASCII. */
function isKey(b: Buffer, start: number, end: number, name: string): boolean {
  const first = b[start];
  if (first !== name.charCodeAt(0) && first !== BACKSLASH) return false;
  const length = end - start;
  if (length < name.length || length > 6 * name.length) return false;
  if (length > name.length) {
    for (let i = start; i < end; i++) if (b[i] === BACKSLASH) return unescaped(b, start, end) === name;
    return false;
  }
  for (let i = 0; i < length; i++) if (b[start + i] !== name.charCodeAt(i)) return false;
  return true;
}
