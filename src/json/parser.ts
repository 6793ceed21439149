import { isUtf8 } from 'node:buffer';
import {
  CLOSE_BRACE,
  CLOSE_BRACKET,
  COLON,
  COMMA,
  DIGIT_0,
  decodeString,
  equals,
  FALSE,
  LETTER_F,
  LETTER_N,
  LETTER_T,
  LONG_STRING,
  NULL,
  numberEnd,
  OPEN_BRACE,
  OPEN_BRACKET,
  QUOTE,
  skipSpace,
  stringEnd,
  TRUE,
} from './bytes.ts';
import {
  beginning,
  type JsonFault,
  MAX_DEPTH,
  MAX_MEMBERS,
  MAX_NAMES,
  MAX_VALUES,
  type Member,
  OTHER_VALUE,
  type ParsedObject,
  REDUCED_DEPTH,
  REDUCED_NUMBER,
  SHORT_STRING,
  SHORTENED,
  setMember,
  type WatchedFile,
  type WatchedMember,
} from './members.ts';
import { NameWatcher, type WatchedNames } from './name-watcher.ts';
import { decodeShort, recentText } from './short-text.ts';
import { ObjectStreamParser } from './stream-parser.ts';

const NONE = Buffer.alloc(0);
const NO_NAMES: readonly WatchedMember[] = [];
const NO_INDICES: readonly number[] = [];
const NO_FILES: readonly WatchedFile[] = [];

/** The largest body that is parsed whole, in bytes: each value takes two at least, and a millisecond is no pause. */
export const MOST_WHOLE = 2 * MAX_VALUES;

/**
 * Parses a small JSON object in one pass. Accepts what ObjectStreamParser accepts, and returns the same, but has no
 * limit of values: a body of MOST_WHOLE bytes cannot reach it. A body of 1 KiB takes 1.2 µs instead of the 2.2 of
 * ObjectStreamParser, one with 8 messages 2.9 instead of 5.2.
 */
export function parseObject(
  body: Buffer,
  watch: WatchedNames | null = null,
): ParsedObject | JsonFault {
  const parsed = PARSER.parse(body, watch);
  if (parsed !== 'too_many_names') return parsed;
  const parser = new ObjectStreamParser(watch); // which tells names apart
  parser.push(body);
  return parser.end();
}

class ObjectParser {
  #b: Buffer = NONE;
  /** The offset of the next byte. */
  #at = 0;
  #end = 0;
  #fault: JsonFault = 'invalid_json';
  #members: Member[] = [];
  #watcher: NameWatcher | null = null;
  /** How often a name was decoded; recent ones do not count. */
  #names = 0;

  parse(body: Buffer, watch: WatchedNames | null): ParsedObject | JsonFault {
    const end = body.length;
    const start = skipSpace(body, 0, end);
    if (body[start] !== OPEN_BRACE) {
      return start < end && OTHER_VALUE.includes(body[start] as number)
        ? 'not_an_object'
        : 'invalid_json';
    }
    if (!isUtf8(body)) return 'invalid_json';
    const members: Member[] = [];
    this.#b = body;
    this.#at = start;
    this.#end = end;
    this.#fault = 'invalid_json';
    this.#members = members;
    const watcher = watch === null ? null : new NameWatcher(watch);
    this.#watcher = watcher;
    this.#names = 0;
    const value = this.#object(1);
    this.#b = NONE;
    if (value === undefined) return this.#fault;
    return skipSpace(body, this.#at, end) === end
      ? {
          value,
          members,
          watched: watcher?.found ?? NO_NAMES,
          retyped: watcher?.retyped ?? NO_INDICES,
          files: watcher?.files ?? NO_FILES,
        }
      : 'invalid_json';
  }

  // The methods below return undefined when the value is invalid or not accepted.

  #value(depth: number): unknown {
    switch (this.#b[this.#at]) {
      case QUOTE:
        return this.#string(depth);
      case OPEN_BRACE:
        return this.#object(depth + 1);
      case OPEN_BRACKET:
        return this.#array(depth + 1);
      case LETTER_T:
        return this.#word(TRUE) ? true : undefined;
      case LETTER_F:
        return this.#word(FALSE) ? false : undefined;
      case LETTER_N:
        return this.#word(NULL) ? null : undefined;
      default:
        return this.#number(depth);
    }
  }

  #object(depth: number): Record<string, unknown> | undefined {
    if (depth > MAX_DEPTH) return this.#refuse('too_deep');
    const b = this.#b;
    const end = this.#end;
    const watcher = this.#watcher;
    let isWanted = false;
    const object: Record<string, unknown> = {};
    let at = skipSpace(b, this.#at + 1, end);
    if (b[at] === CLOSE_BRACE && at < end) {
      this.#at = at + 1;
      return object;
    }
    for (;;) {
      if (b[at] !== QUOTE || at >= end) return undefined;
      const keyEnd = stringEnd(b, at + 1, end);
      if (keyEnd < 0) return undefined;
      const keyStart = at + 1;
      const name = depth <= REDUCED_DEPTH ? this.#text(keyStart, keyEnd, true) : '';
      if (this.#names > MAX_NAMES) return this.#refuse('too_many_names');
      at = skipSpace(b, keyEnd + 1, end);
      if (b[at] !== COLON || at >= end) return undefined;
      const valueStart = skipSpace(b, at + 1, end);
      if (watcher !== null) {
        watcher.key(b, keyStart, keyEnd, depth);
        isWanted = watcher.value(b[valueStart] === QUOTE, this.#members.length);
      }
      this.#at = valueStart;
      const value = this.#value(depth);
      if (value === undefined) return undefined;
      if (isWanted)
        watcher?.text(
          b,
          valueStart + 1,
          this.#at - 1,
          this.#members.length,
          valueStart + 1,
          this.#at - 1,
        );
      const valueEnd = this.#at;
      at = skipSpace(b, valueEnd, end);
      const c = b[at];
      if (at >= end || (c !== COMMA && c !== CLOSE_BRACE)) return undefined;
      if (depth === 1) {
        if (this.#members.length === MAX_MEMBERS) return this.#refuse('too_many_members');
        this.#members.push({ name, valueStart, valueEnd });
      }
      if (depth <= REDUCED_DEPTH) setMember(object, name, value);
      if (c === CLOSE_BRACE) {
        watcher?.close(depth);
        this.#at = at + 1;
        return object;
      }
      at = skipSpace(b, at + 1, end);
    }
  }

  #array(depth: number): unknown[] | undefined {
    if (depth > MAX_DEPTH) return this.#refuse('too_deep');
    const b = this.#b;
    const end = this.#end;
    const array: unknown[] = [];
    let at = skipSpace(b, this.#at + 1, end);
    if (b[at] === CLOSE_BRACKET && at < end) {
      this.#at = at + 1;
      return array;
    }
    for (;;) {
      this.#at = at;
      const value = this.#value(depth);
      if (value === undefined) return undefined;
      if (depth <= REDUCED_DEPTH) array.push(value);
      at = skipSpace(b, this.#at, end);
      const c = b[at];
      if (at >= end || (c !== COMMA && c !== CLOSE_BRACKET)) return undefined;
      if (c === CLOSE_BRACKET) {
        this.#at = at + 1;
        return array;
      }
      at = skipSpace(b, at + 1, end);
    }
  }

  #string(depth: number): string | undefined {
    const b = this.#b;
    const start = this.#at + 1;
    const last = stringEnd(b, start, this.#end);
    if (last < 0) return undefined;
    this.#at = last + 1;
    if (last - start > (depth > 1 ? SHORT_STRING : LONG_STRING))
      return depth > 1 ? SHORTENED : beginning(b, start);
    if (depth > REDUCED_DEPTH) return '';
    return this.#text(start, last, false);
  }

  #number(depth: number): number | undefined {
    const b = this.#b;
    const start = this.#at;
    const end = numberEnd(b, start, this.#end);
    if (end < 0) return undefined;
    this.#at = end;
    if (depth > REDUCED_DEPTH) return 0;
    if (end - start === 1) return (b[start] as number) - DIGIT_0;
    return end - start > REDUCED_NUMBER ? Number.NaN : Number(b.toString('latin1', start, end));
  }

  #word(word: Buffer): boolean {
    if (!equals(this.#b, this.#at, word.length, word)) return false;
    this.#at += word.length;
    return true;
  }

  /** The text of a name or of a value, whose content is [start, end). */
  #text(start: number, end: number, isName: boolean): string {
    const b = this.#b;
    const length = end - start;
    if (length > SHORT_STRING) {
      if (isName) this.#names++;
      return length > LONG_STRING ? beginning(b, start) : decodeString(b, start, end);
    }
    const recent = recentText(b, start, end);
    if (recent !== null) return recent;
    if (isName) this.#names++;
    return decodeShort(b, start, end);
  }

  #refuse(fault: JsonFault): undefined {
    this.#fault = fault;
  }
}

const PARSER = new ObjectParser();
