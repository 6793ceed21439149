import { folded } from '../../json/members.ts';

const DASH = 0x2d;
const UNDERSCORE = 0x5f;

/** The unit that some parser takes a UTF-16 unit for: as `folded` has it, and `_` for `-`. */
function plain(unit: number): number {
  return unit === DASH ? UNDERSCORE : folded(unit);
}

/** One character of an entry. Most have one that follows: a map for each took two megabytes. */
interface Node {
  readonly unit: number;
  /** The first of the characters that follow, and the next one of those that follow where this one does. */
  child: Node | null;
  readonly sibling: Node | null;
  /** An entry ends here. */
  ends: boolean;
  /** The end that a name must have, for entries with a `*` here. */
  endings: readonly string[];
}

const NONE: readonly string[] = [];

/**
 * A set of member names. `*` in an entry stands for one or more characters. `apiBase`,
 * `API_BASE` and `api-base` count as `api_base`, as some parsers have it, and a NUL ends a name.
 * A name of any length takes as long as the longest entry, and nothing is allocated.
 */
export class NameSet {
  readonly #root: Node = node(-1, null);
  /** The nodes of first characters, by their unit: there are many. */
  readonly #firsts: (Node | undefined)[] = [];
  /** Ends of names, for entries that begin with a `*`, by their last character. */
  readonly #endings = new Map<number, string[]>();

  constructor(names: readonly string[]) {
    for (const name of names) {
      const [before, after] = name.split('*') as [string, string | undefined];
      if (before === '' && after !== undefined) this.#addEnding(after);
      else this.#add(before, after);
    }
  }

  has(name: string): boolean {
    let end = name.indexOf('\0');
    if (end < 0) end = name.length;
    let at = this.#root;
    for (let i = 0; i < end; i++) {
      if (endsWithAny(name, i, end, at.endings)) return true;
      const unit = name.charCodeAt(i);
      let next = at;
      if (i > 0 && isUpper(unit) && isLower(name.charCodeAt(i - 1))) {
        const gap = this.#after(at, UNDERSCORE);
        if (gap === undefined) return this.#hasEnding(name, end);
        if (endsWithAny(name, i, end, gap.endings)) return true;
        next = gap;
      }
      const found = this.#after(next, plain(unit));
      if (found === undefined) return this.#hasEnding(name, end);
      at = found;
    }
    return at.ends || this.#hasEnding(name, end);
  }

  #after(at: Node, unit: number): Node | undefined {
    if (at === this.#root) return this.#firsts[unit];
    for (let next = at.child; next !== null; next = next.sibling)
      if (next.unit === unit) return next;
    return undefined;
  }

  #hasEnding(name: string, end: number): boolean {
    const endings = end === 0 ? undefined : this.#endings.get(plain(name.charCodeAt(end - 1)));
    return endings !== undefined && endsWithAny(name, 0, end, endings);
  }

  #add(before: string, after: string | undefined): void {
    let at = this.#root;
    for (let i = 0; i < before.length; i++) {
      const unit = before.charCodeAt(i);
      let next = this.#after(at, unit);
      if (next === undefined) {
        next = node(unit, at.child);
        at.child = next;
        if (at === this.#root) this.#firsts[unit] = next;
      }
      at = next;
    }
    if (after === undefined) at.ends = true;
    else at.endings = [...at.endings, after];
  }

  #addEnding(ending: string): void {
    const last = ending === '' ? -1 : ending.charCodeAt(ending.length - 1);
    if (last < 0) this.#root.endings = [...this.#root.endings, ''];
    else this.#endings.set(last, [...(this.#endings.get(last) ?? []), ending]);
  }
}

function node(unit: number, sibling: Node | null): Node {
  return { unit, child: null, sibling, ends: false, endings: NONE };
}

/** Not `some`: its closure would be allocated for every name. */
function endsWithAny(
  name: string,
  start: number,
  end: number,
  endings: readonly string[],
): boolean {
  for (const ending of endings) if (endsWith(name, start, end, ending)) return true;
  return false;
}

/** Whether [start, end) ends with `ending`, behind at least one other character. */
function endsWith(name: string, start: number, end: number, ending: string): boolean {
  let i = end;
  for (let k = ending.length - 1; k >= 0; k--) {
    if (--i < start) return false;
    const unit = name.charCodeAt(i);
    if (plain(unit) !== ending.charCodeAt(k)) return false;
    // aB is a_b
    if (
      i > 0 &&
      isUpper(unit) &&
      isLower(name.charCodeAt(i - 1)) &&
      k > 0 &&
      ending.charCodeAt(--k) !== UNDERSCORE
    ) {
      return false;
    }
  }
  return i > start;
}

function isUpper(unit: number): boolean {
  return unit >= 0x41 && unit <= 0x5a;
}

/** A letter or digit after which an upper-case letter begins a word. */
function isLower(unit: number): boolean {
  return (unit >= 0x61 && unit <= 0x7a) || (unit >= 0x30 && unit <= 0x39);
}
