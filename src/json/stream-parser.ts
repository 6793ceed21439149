import {
  BACKSLASH,
  CLOSE_BRACE,
  CLOSE_BRACKET,
  COLON,
  COMMA,
  CR,
  DIGIT_0,
  DIGIT_9,
  decodeString,
  ESCAPED,
  HEX,
  LETTER_F,
  LETTER_T,
  LETTER_U,
  LF,
  LONG_STRING,
  MINUS_SIGN,
  OPEN_BRACE,
  OPEN_BRACKET,
  QUOTE,
  SPACE,
  STOPS,
  TAB,
} from './bytes.ts';
import {
  beginning,
  isAlike,
  type JsonFault,
  MAX_DEPTH,
  MAX_MEMBERS,
  MAX_NAMES,
  MAX_VALUES,
  type Member,
  mostItems,
  OTHER_VALUE,
  type ParsedObject,
  REDUCED_DEPTH,
  REDUCED_NUMBER,
  SHORT_STRING,
  SHORTENED,
  setMember,
} from './members.ts';
import { NameWatcher, type WatchedNames } from './name-watcher.ts';
import {
  DIGITS,
  EXPONENT_DIGITS,
  FAULT,
  FRACTION,
  MINUS,
  nextNumberState,
  ZERO,
} from './number-state.ts';
import { decodeShort, recentText } from './short-text.ts';
import { load, MAX_LOAD, pass } from './strings.ts';
import { Utf8Check } from './utf8-check.ts';

// What comes next. FAULT is 8; MINUS, 13, and what is above are states of a number. Between tokens:
const START = 0; // the object's opening brace
const VALUE = 1;
const VALUE_OR_CLOSE = 2;
const KEY = 3;
const KEY_OR_CLOSE = 4;
const COLON_NEXT = 5;
const AFTER = 6; // a comma or a closing bracket
const END = 7; // nothing but whitespace
// In true, false or null:
const WORD = 9;
// In a string:
const STRING = 10;
const ESCAPE = 11;
const HEX_DIGIT = 12;
const NONE = Buffer.alloc(0);
const NOT_WATCHED: Pick<NameWatcher, 'found' | 'retyped' | 'files'> = {
  found: [],
  retyped: [],
  files: [],
};
const OBJECT = 0;
const ARRAY = 1;

/**
 * Parses large request bodies chunk by chunk, so that 20 MiB neither pause the event loop nor become a value of 20 MiB.
 * Accepts one object of RFC 8259, in UTF-8 without a byte order mark, within MAX_DEPTH, MAX_MEMBERS and MAX_VALUES.
 * Arrays are thinned out, because growing an array to millions of items pauses for 70 ms.
 */
export class ObjectStreamParser {
  readonly #utf8 = new Utf8Check();
  #state = START;
  #fault: JsonFault | null = null;
  /** Bytes in the chunks before this one. */
  #offset = 0;
  #depth = 0;
  /** Values in the reduced value so far. */
  #values = 0;
  /** OBJECT or ARRAY for each open container, by depth. */
  readonly #kinds: number[] = [OBJECT];
  /** The open containers of the reduced value and the key of the member being read, by depth. */
  readonly #containers: (Record<string, unknown> | unknown[])[] = [];
  readonly #keys: string[] = [];

  readonly #members: Member[] = [];
  #valueStart = 0;
  readonly #watcher: NameWatcher | null;
  /** Whether it wants the text of the string being read. */
  #isWanted = false;
  /** Names below the top level, and the last one of each length: most occur again and again. */
  readonly #names = new Set<string>();
  readonly #lastNames: string[] = [];

  /** Where the string or number being read begins in this chunk; 0 if it began in an earlier one. */
  #tokenStart = 0;
  /** Whether the string being read is a key. */
  #isKey = false;
  #hexLeft = 0;
  /** The string's length in the chunks before this one, and a copy of the first LONG_STRING bytes of that. */
  #rawLength = 0;
  #raw: Buffer = NONE;
  #rawKept = 0;
  /** The bytes of this chunk that were given to `load`. */
  #loadedFrom = 0;
  #loadedTo = 0;
  /** The beginning of the number being read, from earlier chunks; no more than is looked at. */
  #numberText = '';
  /** The word being read, and how much of it was read. */
  #word = '';
  #wordLength = 0;

  constructor(watch: WatchedNames | null = null) {
    this.#watcher = watch === null ? null : new NameWatcher(watch);
  }

  /** @returns false if the body is refused: further chunks are ignored */
  push(chunk: Buffer): boolean {
    if (this.#fault !== null) return false;
    if (chunk.length === 0) return true;
    if (this.#utf8.push(chunk)) this.#scan(chunk);
    else this.#fault = 'invalid_json';
    this.#offset += chunk.length;
    return this.#fault === null;
  }

  /** The object, or the first reason why there is none. */
  end(): ParsedObject | JsonFault {
    if (this.#fault !== null) return this.#fault;
    if (this.#state !== END || this.#utf8.isCut) return 'invalid_json';
    const { found: watched, retyped, files } = this.#watcher ?? NOT_WATCHED;
    return {
      value: this.#containers[1] as Record<string, unknown>,
      members: this.#members,
      watched,
      retyped,
      files,
    };
  }

  #scan(b: Buffer): void {
    const length = b.length;
    this.#tokenStart = 0;
    this.#loadedTo = 0;
    let i = 0;
    while (i < length && this.#state !== FAULT) {
      if (this.#state < WORD) i = this.#readStructure(b, i);
      else if (this.#state === WORD) i = this.#readWord(b, i);
      else if (this.#state < MINUS) i = this.#readString(b, i);
      else i = this.#readNumber(b, i);
    }
    const state = this.#state;
    if (state === FAULT) this.#fault ??= 'invalid_json';
    else if (state >= MINUS) this.#numberText = this.#numberUpTo(b, length);
    else if (state >= STRING) this.#keepRaw(b, length);
  }

  // The `read` methods return the offset at which they stopped.

  /** Reads brackets, commas, colons and whitespace until a string, number or word begins. */
  #readStructure(b: Buffer, i: number): number {
    const length = b.length;
    let state = this.#state;
    for (; i < length && state < FAULT; i++) {
      const c = b[i] as number;
      if (c <= SPACE) {
        if (c !== SPACE && c !== LF && c !== CR && c !== TAB) state = FAULT;
        continue;
      }
      switch (state) {
        case AFTER:
          if (c === COMMA) state = this.#kinds[this.#depth] === ARRAY ? VALUE : KEY;
          else state = this.#close(i, c);
          break;
        case KEY_OR_CLOSE:
        case KEY:
          if (c === QUOTE) state = this.#beginString(i, true);
          else state = state === KEY_OR_CLOSE ? this.#close(i, c) : FAULT;
          break;
        case COLON_NEXT:
          state = c === COLON ? VALUE : FAULT;
          break;
        case VALUE_OR_CLOSE:
        case VALUE:
          if (c > DIGIT_0 && c <= DIGIT_9) {
            // whole numbers of up to 8 digits, as in arrays of tokens: seven times faster than from text
            const most = Math.min(length, i + 9);
            let value = c - DIGIT_0;
            let k = i + 1;
            for (; k < most && (b[k] as number) >= DIGIT_0 && (b[k] as number) <= DIGIT_9; k++) {
              value = value * 10 + (b[k] as number) - DIGIT_0;
            }
            if (k < most && (b[k] === COMMA || b[k] === CLOSE_BRACKET)) {
              if (this.#depth === 1) this.#valueStart = this.#offset + i;
              state = this.#endValue(k, value);
              i = k - 1;
              break;
            }
          }
          state =
            c === CLOSE_BRACKET && state === VALUE_OR_CLOSE
              ? this.#close(i, c)
              : this.#beginValue(i, c);
          break;
        case START:
          if (c === OPEN_BRACE) state = this.#open(c);
          else {
            this.#fault = OTHER_VALUE.includes(c) ? 'not_an_object' : 'invalid_json';
            state = FAULT;
          }
          break;
        default: // END
          state = FAULT;
      }
    }
    this.#state = state;
    return i;
  }

  #readString(b: Buffer, i: number): number {
    const length = b.length;
    let state = this.#state;
    while (i < length) {
      if (state === STRING) {
        const near = Math.min(length, i + 12); // most strings are short
        while (i < near && STOPS[b[i] as number] === 0) i++;
        if (i < length && (i === near || b[i] === BACKSLASH)) {
          if (i >= this.#loadedTo) {
            this.#loadedFrom = i;
            this.#loadedTo = Math.min(length, i + MAX_LOAD);
            load(b, i, this.#loadedTo);
          }
          i = this.#loadedFrom + pass(i - this.#loadedFrom);
          if (i === this.#loadedTo) continue;
        }
        if (i === length) break;
        const stop = b[i++] as number;
        if (stop === BACKSLASH) state = ESCAPE;
        else {
          this.#state = stop === QUOTE ? this.#endString(b, i - 1) : FAULT;
          return i;
        }
      } else if (state === ESCAPE) {
        const c = b[i++] as number;
        if (c === LETTER_U) {
          this.#hexLeft = 4;
          state = HEX_DIGIT;
        } else if (ESCAPED[c] === 1) state = STRING;
        else {
          this.#state = FAULT;
          return i;
        }
      } else if ((HEX[b[i++] as number] as number) < 0) {
        this.#state = FAULT;
        return i;
      } else if (--this.#hexLeft === 0) state = STRING;
    }
    this.#state = state;
    return i;
  }

  #readNumber(b: Buffer, i: number): number {
    let state = this.#state;
    for (; i < b.length; i++) {
      const next = nextNumberState(state, b[i] as number);
      if (next === FAULT) {
        const mayEnd =
          state === ZERO || state === DIGITS || state === FRACTION || state === EXPONENT_DIGITS;
        this.#state = mayEnd ? this.#endNumber(b, i) : FAULT;
        return i;
      }
      state = next;
      if (state === DIGITS || state === FRACTION || state === EXPONENT_DIGITS) {
        while (i + 1 < b.length && ((b[i + 1] as number) ^ DIGIT_0) < 10) i++; // digits: a third less for long numbers
      }
    }
    this.#state = state;
    return i;
  }

  #readWord(b: Buffer, i: number): number {
    const word = this.#word;
    for (; i < b.length && this.#wordLength < word.length; i++) {
      if (b[i] !== word.charCodeAt(this.#wordLength++)) {
        this.#state = FAULT;
        return i;
      }
    }
    if (this.#wordLength === word.length)
      this.#state = this.#endValue(i, word === 'null' ? null : word === 'true');
    return i;
  }

  // The methods below return the next state.

  #beginValue(i: number, c: number): number {
    if (this.#depth === 1) this.#valueStart = this.#offset + i;
    if (this.#watcher !== null)
      this.#isWanted = this.#watcher.value(c === QUOTE, this.#members.length);
    if (c === QUOTE) return this.#beginString(i, false);
    if (c === OPEN_BRACE || c === OPEN_BRACKET) return this.#open(c);
    if (c === MINUS_SIGN || (c >= DIGIT_0 && c <= DIGIT_9)) {
      this.#tokenStart = i;
      this.#numberText = '';
      return c === MINUS_SIGN ? MINUS : c === DIGIT_0 ? ZERO : DIGITS;
    }
    this.#word = c === LETTER_T ? 'true' : c === LETTER_F ? 'false' : 'null';
    this.#wordLength = 1;
    return c === this.#word.charCodeAt(0) ? WORD : FAULT;
  }

  #open(c: number): number {
    if (this.#depth === MAX_DEPTH) {
      this.#fault = 'too_deep';
      return FAULT;
    }
    const container = c === OPEN_BRACE ? {} : [];
    if (!this.#put(container)) return FAULT;
    this.#depth++;
    this.#kinds[this.#depth] = c === OPEN_BRACE ? OBJECT : ARRAY;
    if (this.#depth <= REDUCED_DEPTH) this.#containers[this.#depth] = container;
    return c === OPEN_BRACE ? KEY_OR_CLOSE : VALUE_OR_CLOSE;
  }

  #close(i: number, c: number): number {
    if (c !== (this.#kinds[this.#depth] === OBJECT ? CLOSE_BRACE : CLOSE_BRACKET)) return FAULT;
    if (c === CLOSE_BRACE) this.#watcher?.close(this.#depth);
    return --this.#depth === 0 ? END : this.#endMember(i + 1);
  }

  #endValue(end: number, value: unknown): number {
    return this.#put(value) ? this.#endMember(end) : FAULT;
  }

  #endMember(end: number): number {
    if (this.#depth !== 1) return AFTER;
    if (this.#members.length === MAX_MEMBERS) {
      this.#fault = 'too_many_members';
      return FAULT;
    }
    this.#members.push({
      name: this.#keys[1] as string,
      valueStart: this.#valueStart,
      valueEnd: this.#offset + end,
    });
    return AFTER;
  }

  #endNumber(b: Buffer, end: number): number {
    if (this.#depth > REDUCED_DEPTH) return AFTER;
    const text = this.#numberUpTo(b, end);
    return this.#endValue(end, text.length > REDUCED_NUMBER ? Number.NaN : Number(text));
  }

  #beginString(i: number, isKey: boolean): number {
    this.#tokenStart = i + 1;
    this.#isKey = isKey;
    this.#rawLength = 0;
    this.#rawKept = 0;
    return STRING;
  }

  /** @param end offset of the closing quote */
  #endString(b: Buffer, end: number): number {
    if (this.#watcher !== null && (this.#isKey || this.#isWanted))
      this.#give(this.#watcher, b, end);
    if (!this.#isKey && this.#isLeftOut()) return this.#endMember(end + 1);
    if (this.#depth <= REDUCED_DEPTH) {
      const most = this.#isKey || this.#depth === 1 ? LONG_STRING : SHORT_STRING;
      const start = this.#tokenStart;
      let text: string;
      if (this.#rawLength === 0) text = reduced(b, start, end, end - start, most);
      else {
        this.#keepRaw(b, end);
        text = reduced(this.#raw, 0, this.#rawKept, this.#rawLength, most);
      }
      if (!this.#isKey) return this.#endValue(end + 1, text);
      this.#keys[this.#depth] = text;
      if (this.#depth > 1 && this.#lastNames[text.length] !== text) {
        this.#lastNames[text.length] = text;
        if (this.#names.add(text).size > MAX_NAMES) {
          this.#fault = 'too_many_names';
          return FAULT;
        }
      }
    }
    return this.#isKey ? COLON_NEXT : AFTER;
  }

  /** Gives the watcher the key or value that ends here. */
  #give(watcher: NameWatcher, b: Buffer, end: number): void {
    let start = this.#tokenStart;
    const to = this.#offset + end;
    const from = to - this.#rawLength - (end - start);
    if (this.#rawLength > 0) {
      this.#keepRaw(b, end);
      this.#tokenStart = end; // all of it is kept now
      b = this.#raw;
      start = 0;
      end = this.#rawKept;
    }
    if (this.#isKey) watcher.key(b, start, end, this.#depth);
    else watcher.text(b, start, end, this.#members.length, from, to);
    this.#isWanted = false;
  }

  /** Whether a string that ends here is an item that is left out. */
  #isLeftOut(): boolean {
    const depth = this.#depth;
    const container = depth <= REDUCED_DEPTH ? this.#containers[depth] : undefined;
    return (
      Array.isArray(container) &&
      container.length >= mostItems(depth) &&
      typeof container.at(-1) === 'string'
    );
  }

  /** Keeps the beginning of a string that continues in the next chunk. */
  #keepRaw(b: Buffer, end: number): void {
    this.#rawLength += end - this.#tokenStart;
    if (this.#depth > REDUCED_DEPTH && !this.#isKey && !this.#isWanted) return;
    if (this.#raw.length === 0) this.#raw = Buffer.allocUnsafe(LONG_STRING);
    this.#rawKept += b.copy(this.#raw, this.#rawKept, this.#tokenStart, end);
  }

  /** The text of the number so far, at most one character more than is looked at: 20 MiB of it would be a pause of 40 ms. */
  #numberUpTo(b: Buffer, end: number): string {
    const most = this.#tokenStart + REDUCED_NUMBER + 1 - this.#numberText.length;
    return this.#numberText + b.toString('latin1', this.#tokenStart, Math.min(end, most));
  }

  /** Puts a value into the open container. @returns false when there are too many values */
  #put(value: unknown): boolean {
    const depth = this.#depth;
    if (depth === 0 || depth > REDUCED_DEPTH) return true;
    const container = this.#containers[depth] as Record<string, unknown> | unknown[];
    if (Array.isArray(container)) {
      if (container.length >= mostItems(depth) && isAlike(container[container.length - 1], value))
        return true;
      container.push(value);
    } else {
      setMember(container, this.#keys[depth] as string, value);
    }
    if (++this.#values <= MAX_VALUES) return true;
    this.#fault = 'too_many_values';
    return false;
  }
}

/**
 * The string's text, or its shortened form.
 * @param rawLength of the whole string; [start, end) holds at least its first LONG_STRING bytes
 * @param most longer strings, in bytes, are shortened
 */
function reduced(b: Buffer, start: number, end: number, rawLength: number, most: number): string {
  if (rawLength > most) return most === LONG_STRING ? beginning(b, start) : SHORTENED;
  if (end - start > SHORT_STRING) return decodeString(b, start, end);
  return recentText(b, start, end) ?? decodeShort(b, start, end);
}
