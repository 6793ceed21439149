import {
  CLOSE_BRACE,
  CLOSE_BRACKET,
  COLON,
  COMMA,
  CR,
  DIGIT_9,
  equals,
  escapesPassed,
  LETTER_N,
  LF,
  OPEN_BRACE,
  OPEN_BRACKET,
  QUOTE,
  SPACE,
  scalarEnd,
  stringEnd,
  TAB,
} from './bytes.ts';
import { ID_PREFIX, ownIdStart } from './coded-id.ts';
import { containerEnd, spaceEnd, valueEnd } from './container-end.ts';
import type { Hidden, HiddenSpans } from './hidden.ts';
import {
  AGAIN,
  CHOICES,
  CODED_ID,
  DELTA,
  ERROR,
  GROQ,
  INPUT,
  kindAmong,
  kindOfEscaped,
  LEAKING,
  META,
  type MemberTable,
  MODEL,
  type NameTable,
  NESTED,
  NO_NAMES,
  OF_RESULT,
  OTHER,
  PROBS,
  RESULT,
  TIER,
  TYPE,
  USAGE,
} from './member-table.ts';

/** Kinds of edits. */
export const REMOVE = 0;
export const REPLACE = 1;
const REPLACE_WITHIN = 2; // without the slug's quotes
export const ADD_CHOICE = 3; // an empty choice

/** Kinds of `values`. */
export const TEXT = 0;
export const GENERATED = 1; // generated text
export const NUMBER = 2;

// What may come next in a nested value, ordered so that one comparison decides.
const VALUE = 0;
const VALUE_OR_CLOSE = 1;
const KEY = 2;
const KEY_OR_CLOSE = 3;
const COLON_ONLY = 4;
const AFTER_VALUE = 5;

/** How many levels of brackets have their kinds in the bits of one `stack`. */
const MAX_LEVELS = 31;
/** The most stacks, each for the levels below the one before: an answer of more levels, some 2,000, is broken. */
const MAX_STACKS = 64;

const FINISH_REASON = Buffer.from('finish_reason');
const USAGE_KEY = Buffer.from('usage');
const ERROR_KEY = Buffer.from('error');
/** The value of an `error` that says there is none. */
const NO_ERROR = /^(?:false|-?0(?:\.0+)?|""|\[\s*\]|\{\s*\})$/;
const MOST_OF_NO_ERROR = 64;

/**
 * Reads one JSON object of an upstream in one pass: finds the edits (model, leaking members, what is hidden), the
 * usage, an error and the generated text. Accepts what JSON.parse accepts. A leaking member is removed with the
 * comma before it, or with all up to the next member that is kept.
 */
export class ObjectWalk implements HiddenSpans {
  readonly #table: MemberTable;
  /** The texts that no string may contain, generated text apart. */
  readonly hidden: Hidden | null;
  /** The shortest hidden text, in bytes: shorter strings are not searched. */
  readonly #shortest: number;
  /** Reads a nested object. */
  #inner: ObjectWalk | null = null;
  /** The walk of the nested object that was read; null: there was none. */
  nested: ObjectWalk | null = null;
  /** Triples start, end, kind: REPLACE and REPLACE_WITHIN put the slug there, REMOVE nothing. */
  readonly edits: number[] = [];
  editCount = 0;
  hasModel = false;
  /** Whether `choices`, or the member that takes its place, is an array. */
  hasResult = false;
  /** Where the closing bracket of `choices` is, if it is empty; else -1. */
  emptyChoicesAt = -1;
  /** Whether an event with a usage and without a choice gets one (contract section 4). */
  addsChoice = false;
  /** The type of the event, without its quotes; typeStart is -1 without one. */
  typeStart = -1;
  typeEnd = -1;
  /** Members that remain after the edits. */
  kept = 0;
  /** The span of the last `error` that says something, at the top level or in a choice; errorStart is -1 without one. */
  errorStart = -1;
  errorEnd = -1;
  /** The span of the last non-empty `usage` object; usageStart is -1 without one. */
  usageStart = -1;
  usageEnd = -1;
  /** The span of a nested `usage`: in `x_groq`, in `meta`, or in a choice, as Moonshot has it. */
  innerUsageStart = -1;
  innerUsageEnd = -1;
  /** The id of an answer that may name what is behind, without its quotes; idStart is -1 without one. */
  idStart = -1;
  idEnd = -1;
  /** The service tier, without its quotes; tierStart is -1 without one. */
  tierStart = -1;
  tierEnd = -1;
  /** Whether a choice has a finish_reason. */
  finished = false;
  /** Bytes of generated text, as written in JSON. */
  generated = 0;
  /** The longest generated text, without its quotes. */
  textStart = 0;
  textEnd = 0;
  /** The pattern that matched, if no number in its gaps is 0; null: the object was walked. */
  pattern: object | null = null;
  collecting = false;
  /** String and number values: triples start, end, kind. Strings are without their quotes. */
  values: number[] = [];
  /** `escapesPassed` when a key was last looked at for escapes. */
  #escapes = 0;

  constructor(table: MemberTable, hidden: Hidden | null) {
    this.#table = table;
    this.hidden = hidden;
    this.#shortest = hidden?.shortest ?? Number.MAX_SAFE_INTEGER;
  }

  /**
   * Reads the object that begins at i.
   * @param lineEnds whether CR and LF are whitespace; otherwise they are invalid
   * @returns the offset behind its closing brace; -1 if it is cut or invalid
   */
  walk(b: Buffer, i: number, end: number, lineEnds: boolean): number {
    let comma = -1; // before this member
    let removeFrom = -1; // leaking members at the beginning of the object
    let removeTo = -1;
    this.clear();
    if (this.collecting) this.values = [];
    if (i >= end || b[i] !== OPEN_BRACE) return -1;
    i = spaceEnd(b, i + 1, end, lineEnds);
    if (i < end && b[i] === CLOSE_BRACE) return i + 1;
    for (;;) {
      if (i >= end || b[i] !== QUOTE) return -1;
      const keyStart = i;
      i = stringEnd(b, i + 1, end);
      if (i < 0) return -1;
      const kind = this.#kindOf(this.#table.topLevel, b, keyStart + 1, i - keyStart - 1);
      const leaks = kind === LEAKING || kind === GROQ;
      if (!leaks && removeFrom >= 0) {
        this.addEdit(removeFrom, keyStart, REMOVE);
        removeFrom = -1;
      }
      if (i - keyStart > this.#shortest && kind === OTHER)
        this.hidden?.find(b, keyStart + 1, i, true, this);
      const { editCount } = this;
      i = spaceEnd(b, i + 1, end, lineEnds);
      if (i >= end || b[i] !== COLON) return -1;
      const valueStart = spaceEnd(b, i + 1, end, lineEnds);
      i =
        kind === LEAKING
          ? valueEnd(b, valueStart, end, lineEnds)
          : this.#valueEnd(b, valueStart, end, kind, lineEnds);
      if (i < 0) return -1;

      if (leaks) {
        this.editCount = editCount;
        if (this.kept > 0) this.addEdit(comma, i, REMOVE);
        else {
          if (removeFrom < 0) removeFrom = keyStart;
          removeTo = i;
        }
      } else {
        this.kept++;
        if (kind === MODEL) this.editCount = editCount;
        if (kind !== OTHER) this.#noteMember(b, kind, valueStart, i, lineEnds, editCount);
      }

      i = spaceEnd(b, i, end, lineEnds);
      if (i >= end) return -1;
      if (b[i] === CLOSE_BRACE) break;
      if (b[i] !== COMMA) return -1;
      comma = i;
      i = spaceEnd(b, i + 1, end, lineEnds);
    }
    if (removeFrom >= 0) this.addEdit(removeFrom, removeTo, REMOVE);
    const hasUsage = this.usageStart >= 0 || this.innerUsageStart >= 0;
    if (this.addsChoice && hasUsage && this.emptyChoicesAt >= 0)
      this.#addChoice(this.emptyChoicesAt);
    return i + 1;
  }

  #kindOf(names: NameTable, b: Buffer, start: number, length: number): number {
    const kind = kindAmong(names, b, start, length);
    if (kind !== OTHER || this.#escapes === escapesPassed) return kind;
    this.#escapes = escapesPassed;
    return kindOfEscaped(names, b, start, length);
  }

  /** Forgets what the last call found. */
  clear(): void {
    this.editCount = 0;
    this.hasModel = false;
    this.hasResult = false;
    this.emptyChoicesAt = -1;
    this.nested = null;
    this.typeStart = -1;
    this.kept = 0;
    this.errorStart = -1;
    this.usageStart = -1;
    this.innerUsageStart = -1;
    this.idStart = -1;
    this.tierStart = -1;
    this.finished = false;
    this.generated = 0;
    this.textStart = 0;
    this.textEnd = 0;
    this.pattern = null;
  }

  /** Adds an edit; edits are added in order. */
  addEdit(start: number, end: number, kind: number): void {
    const at = this.editCount;
    this.edits[at] = start;
    this.edits[at + 1] = end;
    this.edits[at + 2] = kind;
    this.editCount = at + 3;
  }

  /** Adds an edit at its place among the others. */
  #addChoice(at: number): void {
    const { edits } = this;
    this.addEdit(at, at, ADD_CHOICE);
    for (let k = this.editCount - 3; k > 0 && (edits[k - 3] as number) > at; k -= 3) {
      edits.splice(k - 3, 6, at, at, ADD_CHOICE, ...edits.slice(k - 3, k));
    }
  }

  hide(start: number, end: number, isName: boolean, isWhole: boolean): void {
    this.addEdit(start, end, !isName ? REMOVE : isWhole ? REPLACE : REPLACE_WITHIN);
  }

  /** @param editCount how many edits there were before the value */
  #noteMember(
    b: Buffer,
    kind: number,
    start: number,
    end: number,
    lineEnds: boolean,
    editCount: number,
  ): void {
    const first = b[start];
    if (kind === MODEL) {
      this.hasModel = true;
      this.addEdit(start, end, REPLACE);
    } else if (kind === ERROR) {
      this.#noteError(b, start, end);
    } else if (kind === USAGE) {
      if (first !== OPEN_BRACE || spaceEnd(b, start + 1, end, lineEnds) === end - 1) return;
      this.usageStart = start;
      this.usageEnd = end;
    } else if (kind === CHOICES || kind === RESULT) {
      this.hasResult = first === OPEN_BRACKET || (kind === RESULT && this.hasResult); // of reranking either of two
      if (this.hasResult && spaceEnd(b, start + 1, end, lineEnds) === end - 1)
        this.emptyChoicesAt = end - 1;
    } else if (kind === CODED_ID && first === QUOTE) {
      this.idStart = start + 1;
      this.idEnd = end - 1;
      const own = ownIdStart(b, start + 1, end - 1);
      if (own < 0) return;
      this.editCount = editCount;
      this.addEdit(start + 1 + ID_PREFIX.length, own, REMOVE);
    } else if (kind === TYPE && first === QUOTE) {
      this.typeStart = start + 1;
      this.typeEnd = end - 1;
    } else if (kind === TIER && first === QUOTE) {
      [this.tierStart, this.tierEnd] = [start + 1, end - 1];
    } else if (kind === NESTED && first === OPEN_BRACE) {
      this.#inner ??= new ObjectWalk(this.#table.nested as MemberTable, this.hidden);
      this.nested = this.#inner;
      this.#walkAgain(this.#inner, b, start, end, lineEnds, editCount);
    } else if (kind === META && first === OPEN_BRACE) {
      [this.innerUsageStart, this.innerUsageEnd] = [start, end];
    }
  }

  /**
   * Takes the finish_reason of a choice, its usage, or its error: OpenRouter tells it there.
   * @param from where the key's content begins, which ends at `to`
   * @param i the offset behind the colon
   */
  #noteChoiceMember(
    b: Buffer,
    from: number,
    to: number,
    i: number,
    end: number,
    lineEnds: boolean,
  ): void {
    if (equals(b, from, to - from, FINISH_REASON)) {
      const value = spaceEnd(b, i, end, lineEnds);
      if (value + 1 < end && b[value] === QUOTE && b[value + 1] !== QUOTE) this.finished = true;
    } else if (equals(b, from, to - from, ERROR_KEY)) {
      const value = spaceEnd(b, i, end, lineEnds);
      this.#noteError(b, value, valueEnd(b, value, end, lineEnds));
    } else this.#noteInnerUsage(b, from, to, i, end, lineEnds);
  }

  /** Takes a nested usage. Its parameters are those of `#noteChoiceMember`. */
  #noteInnerUsage(
    b: Buffer,
    from: number,
    to: number,
    i: number,
    end: number,
    lineEnds: boolean,
  ): void {
    if (!equals(b, from, to - from, USAGE_KEY)) return;
    const value = spaceEnd(b, i, end, lineEnds);
    if (b[value] !== OPEN_BRACE) return;
    this.innerUsageStart = value;
    this.innerUsageEnd = containerEnd(b, value, end, lineEnds);
  }

  /** Takes an error, unless it says that there is none: null, false, 0, "", [] or {}. */
  #noteError(b: Buffer, start: number, end: number): void {
    if (
      b[start] === LETTER_N ||
      NO_ERROR.test(b.toString('latin1', start, Math.min(end, start + MOST_OF_NO_ERROR)))
    )
      return;
    this.errorStart = start;
    this.errorEnd = end;
  }

  /** Reads a nested object by a walk of its own, whose edits replace those already found in that span. */
  #walkAgain(
    inner: ObjectWalk,
    b: Buffer,
    start: number,
    end: number,
    lineEnds: boolean,
    editCount: number,
  ): void {
    inner.walk(b, start, end, lineEnds);
    this.editCount = editCount;
    for (let k = 0; k < inner.editCount; k += 3) {
      this.addEdit(
        inner.edits[k] as number,
        inner.edits[k + 1] as number,
        inner.edits[k + 2] as number,
      );
    }
  }

  #noteText(start: number, end: number): void {
    this.generated += end - start;
    if (end - start <= this.textEnd - this.textStart) return;
    this.textStart = start;
    this.textEnd = end;
  }

  /** The end of a member's value, or -1. */
  #valueEnd(b: Buffer, i: number, end: number, kind: number, lineEnds: boolean): number {
    if (i >= end) return -1;
    const first = b[i] as number;
    if (first === QUOTE) return this.#stringValueEnd(b, i, end, kind);
    if (first === OPEN_BRACE || first === OPEN_BRACKET)
      return this.#nestedEnd(b, i, end, kind, lineEnds);
    const last = scalarEnd(b, i, end);
    if (this.collecting && first <= DIGIT_9) this.values.push(i, last, NUMBER); // the sign and the digits come before letters
    return last;
  }

  /** The table of names for the members within a value of this kind. */
  #namesIn(kind: number): NameTable {
    const { below, ofUsage, ofProbs } = this.#table;
    if (kind < INPUT) return kind === USAGE ? ofUsage : below;
    return kind === PROBS ? ofProbs : NO_NAMES;
  }

  /** The end of a string that is a member's value, or -1. */
  #stringValueEnd(b: Buffer, i: number, end: number, kind: number): number {
    const last = stringEnd(b, i + 1, end);
    if (last < 0 && kind === DELTA) this.#noteText(i + 1, end);
    if (last < 0) return -1;
    if (kind === DELTA) this.#noteText(i + 1, last);
    else if (last - i > this.#shortest && kind !== MODEL)
      this.hidden?.find(b, i + 1, last, false, this);
    // all events of a pattern have one type and tier
    if (this.collecting && kind !== TYPE && kind !== TIER)
      this.values.push(i + 1, last, kind === DELTA ? GENERATED : TEXT);
    return last + 1;
  }

  /**
   * The end of an object or array that is a member's value and generated text or the caller's; -1: it is cut or invalid.
   * @param stacks how many stacks are around it
   */
  #nestedEnd(
    b: Buffer,
    i: number,
    end: number,
    kind: number,
    lineEnds: boolean,
    stacks = 0,
  ): number {
    const isInput = kind === INPUT || kind === AGAIN;
    const values = this.collecting && kind < INPUT ? this.values : null;
    const names = this.#namesIn(kind);
    const { counts } = this.#table;
    const isList = b[i] === OPEN_BRACKET;
    let depth = 1; // open brackets
    let stack = isList ? 1 : 0; // their kinds, innermost lowest: 1 is an array
    let next = isList ? VALUE_OR_CLOSE : KEY_OR_CLOSE;
    let said = OTHER; // what the key before this value says of it: MODEL, DELTA and the kinds behind it
    let before = i; // the bracket or comma before the last key
    let from = 0; // the content of the last string, which a colon makes a key
    let to = 0;
    for (i++; i < end; i++) {
      const c = b[i] as number;
      if (c === SPACE || c === TAB) continue;
      if (c === QUOTE) {
        if (next >= COLON_ONLY) return -1;
        next = next >= KEY ? COLON_ONLY : AFTER_VALUE;
        from = i + 1;
        i = to = stringEnd(b, from, end);
        if (i < 0 && said >= DELTA && counts) this.#noteText(from, end);
        if (i < 0) return -1;
        if (said === MODEL) this.addEdit(from - 1, to + 1, REPLACE);
        else if (said === DELTA || said === INPUT) {
          if (counts) this.#noteText(from, to);
        } else if (to - from >= this.#shortest && !isInput)
          this.hidden?.find(b, from, to, next === COLON_ONLY, this);
        if (said === TIER) {
          if (depth === 1) [this.tierStart, this.tierEnd] = [from, to];
        } else if (values !== null && next === AFTER_VALUE)
          values.push(from, to, said > MODEL && counts ? GENERATED : TEXT);
        said = OTHER;
      } else if (c === COLON) {
        if (next !== COLON_ONLY) return -1;
        next = VALUE;
        said = this.#kindOf(names, b, from, to - from);
        if (said === LEAKING) {
          i = this.#leave(b, from - 1, before, i + 1, end, lineEnds);
          if (i < 0) return -1;
          next = b[i] === COMMA ? KEY : AFTER_VALUE;
          said = OTHER;
        } else if (kind === CHOICES && depth === 2)
          this.#noteChoiceMember(b, from, to, i + 1, end, lineEnds);
        else if (kind === GROQ && depth === 1)
          this.#noteInnerUsage(b, from, to, i + 1, end, lineEnds);
        if (said === OF_RESULT) said = kind === RESULT && depth === 2 ? INPUT : OTHER;
      } else if (c === COMMA) {
        if (next !== AFTER_VALUE) return -1;
        next = (stack & 1) === 1 ? VALUE : KEY;
        said = OTHER;
        before = i;
      } else if (c === OPEN_BRACE || c === OPEN_BRACKET) {
        if (next > VALUE_OR_CLOSE) return -1;
        if (said >= INPUT || depth === MAX_LEVELS) {
          from = i + 1;
          i = this.#apartEnd(b, i, end, said >= INPUT ? said : kind, lineEnds, stacks) - 1;
          if (i < 0) return -1;
          if (said === INPUT && counts) this.#noteText(from, i);
          next = AFTER_VALUE;
          said = OTHER;
          continue;
        }
        next = c === OPEN_BRACKET ? VALUE_OR_CLOSE : KEY_OR_CLOSE;
        said = OTHER;
        before = i;
        depth++;
        stack = (stack << 1) | (c === OPEN_BRACKET ? 1 : 0);
      } else if (c === CLOSE_BRACE || c === CLOSE_BRACKET) {
        if (next !== AFTER_VALUE && next !== (c === CLOSE_BRACKET ? VALUE_OR_CLOSE : KEY_OR_CLOSE))
          return -1;
        if ((stack & 1) !== (c === CLOSE_BRACKET ? 1 : 0)) return -1;
        stack >>>= 1;
        next = AFTER_VALUE;
        if (--depth === 0) return i + 1;
      } else if (c === LF || c === CR) {
        if (!lineEnds) return -1;
      } else {
        if (next > VALUE_OR_CLOSE) return -1;
        next = AFTER_VALUE;
        const last = scalarEnd(b, i, end);
        if (last < 0) return -1;
        if (values !== null && c <= DIGIT_9) values.push(i, last, NUMBER);
        i = last - 1;
      }
    }
    return -1;
  }

  /**
   * The end of a nested object or array that has a stack of its own: it is generated, the caller's, or deeper than one
   * stack reaches. A single stack of any depth would cost every answer.
   */
  #apartEnd(
    b: Buffer,
    i: number,
    end: number,
    kind: number,
    lineEnds: boolean,
    stacks: number,
  ): number {
    if (stacks === MAX_STACKS) return -1;
    return this.#nestedEnd(
      b,
      i,
      end,
      kind === CHOICES || kind === RESULT || kind === GROQ ? OTHER : kind,
      lineEnds,
      stacks + 1,
    );
  }

  /**
   * Removes a nested member, with the comma before it, or behind it where it is the first.
   * @param key where its key begins, with the quote
   * @param before the bracket or comma before it
   * @param i the offset behind its colon
   * @returns the offset of the last byte that was read: of its value, or the comma behind it; -1 if it is cut or invalid
   */
  #leave(
    b: Buffer,
    key: number,
    before: number,
    i: number,
    end: number,
    lineEnds: boolean,
  ): number {
    while (this.editCount > 0 && (this.edits[this.editCount - 3] as number) >= key)
      this.editCount -= 3; // of the key
    i = spaceEnd(b, i, end, lineEnds);
    if (i >= end) return -1;
    const last = valueEnd(b, i, end, lineEnds);
    if (last < 0) return -1;
    if (b[before] === COMMA) {
      this.addEdit(before, last, REMOVE);
      return last - 1;
    }
    const comma = spaceEnd(b, last, end, lineEnds);
    if (comma >= end || b[comma] !== COMMA) {
      this.addEdit(key, last, REMOVE);
      return last - 1;
    }
    this.addEdit(key, spaceEnd(b, comma + 1, end, lineEnds), REMOVE);
    return comma;
  }
}
