import { isUtf8 } from 'node:buffer';
import {
  BACKSLASH,
  beginning,
  CLOSE_BRACE,
  CLOSE_BRACKET,
  COLON,
  COMMA,
  CR,
  ESCAPED,
  type JsonFault,
  LF,
  LONG_STRING,
  MAX_DEPTH,
  MAX_MEMBERS,
  type Member,
  OPEN_BRACE,
  OPEN_BRACKET,
  OTHER_VALUE,
  type ParsedObject,
  QUOTE,
  REDUCED_DEPTH,
  REDUCED_NUMBER,
  SHORT_STRING,
  SPACE,
  STOPS,
  sequenceLength,
  setMember,
  TAB,
} from './members.ts';
import { load, MAX_LOAD, pass } from './strings.ts';

/** Of an array longer than this, items of the same kind as the one kept before them are left out, but for objects. */
export const REDUCED_ITEMS = 16_384;
/**
 * Values the reduced value may have; each costs a validator some 20 ns, and an object of as
 * many members is a pause of 5 ms whenever its table grows. A body needs 131 KB for so many,
 * and 20,000 messages are not that many.
 */
export const MAX_VALUES = 65_536;

/**
 * A strict JSON reader for large request bodies, fed chunks as they arrive, so that
 * judging 20 MiB neither pauses the event loop nor makes a value of 20 MiB. Accepts
 * exactly what parseObject accepts: RFC 8259, UTF-8, no byte order mark, one object, at most
 * MAX_DEPTH levels and MAX_MEMBERS members; and at most MAX_VALUES values.
 *
 * The value it gives is reduced (see ParsedObject), and arrays over REDUCED_ITEMS lack items
 * like their last: growing an array of millions is a pause of 70 ms. Spans are offsets in the
 * whole body.
 */
export class ObjectScanner {
  #state = START;
  #fault: JsonFault | null = null;
  /** Offset of the chunk being pushed in the whole body. */
  #offset = 0;
  #depth = 0;
  /** Put into the reduced value so far. */
  #values = 0;
  /** Kinds of the open containers by depth: 1 is an array. */
  readonly #kinds: number[] = [OBJECT];
  /** The open containers being built and the keys their next members go to, by depth. */
  readonly #containers: (Record<string, unknown> | unknown[])[] = [];
  readonly #keys: string[] = [];

  readonly #members: Member[] = [];
  #keyStart = 0;
  #keyEnd = 0;
  #valueStart = 0;

  /** The string being read: whether it is a key, has escapes, how long it is so far. */
  #isKey = false;
  #escaped = false;
  #rawLength = 0;
  /** Its first bytes, where it began in an earlier chunk. */
  #raw: Buffer = NONE;
  #rawKept = 0;
  #hexLeft = 0;
  /** What the number being read began with in earlier chunks, as far as it is looked at. */
  #numberText = '';
  #word = '';
  #wordAt = 0;

  /** An UTF-8 sequence a chunk ended in. */
  #seam: Buffer = NONE;
  #seamLength = 0;

  /** @returns false once the body cannot become acceptable: reading on is pointless */
  push(chunk: Buffer): boolean {
    if (this.#fault !== null) return false;
    if (chunk.length === 0) return true;
    if (this.#isText(chunk)) this.#scan(chunk);
    else this.#fault = 'invalid_json';
    this.#offset += chunk.length;
    return this.#fault === null;
  }

  /** The object, or why it is none. Of several reasons it gives the first one met. */
  end(): ParsedObject | JsonFault {
    if (this.#fault !== null) return this.#fault;
    if (this.#state !== END || this.#seamLength > 0) return 'invalid_json';
    return { value: this.#containers[1] as Record<string, unknown>, members: this.#members };
  }

  #scan(b: Buffer): void {
    const length = b.length;
    let state = this.#state;
    let tokenStart = 0; // of the string or number that is being read, in this chunk
    let loadedFrom = 0; // what of the chunk was given to skim.ts
    let loadedTo = 0;
    let i = 0;
    scan: while (i < length) {
      const c = b[i] as number;
      switch (state) {
        case STRING: {
          const near = Math.min(length, i + 12); // most strings are short
          while (i < near && STOPS[b[i] as number] === 0) i++;
          if (i === near && i < length) {
            if (i >= loadedTo) {
              loadedFrom = i;
              loadedTo = Math.min(length, i + MAX_LOAD);
              load(b, loadedFrom, loadedTo);
            }
            const passed = pass(i - loadedFrom);
            if ((passed & 1) === 1) this.#escaped = true;
            i = loadedFrom + (passed >> 1);
            if (i === loadedTo) continue;
          }
          if (i === length) break scan;
          const stop = b[i] as number;
          if (stop === QUOTE) {
            state = this.#endString(b, tokenStart, i);
            i++;
          } else if (stop === BACKSLASH) {
            this.#escaped = true;
            state = ESCAPE;
            i++;
          } else {
            state = FAULT;
            break scan;
          }
          continue;
        }
        case ESCAPE:
          if (c === 0x75) {
            this.#hexLeft = 4;
            state = HEX;
          } else if (ESCAPED[c] === 1) state = STRING;
          else {
            state = FAULT;
            break scan;
          }
          i++;
          continue;
        case HEX:
          if (!((c >= 0x30 && c <= 0x39) || ((c | 0x20) >= 0x61 && (c | 0x20) <= 0x66))) {
            state = FAULT;
            break scan;
          }
          if (--this.#hexLeft === 0) state = STRING;
          i++;
          continue;
        case WORD:
          if (c !== this.#word.charCodeAt(this.#wordAt)) {
            state = FAULT;
            break scan;
          }
          i++;
          if (++this.#wordAt === this.#word.length) {
            state = this.#endScalar(i, this.#word === 'null' ? null : this.#word === 'true');
          }
          continue;
        case MINUS:
        case ZERO:
        case DIGITS:
        case POINT:
        case FRACTION:
        case EXPONENT:
        case EXPONENT_SIGN:
        case EXPONENT_DIGITS: {
          const next = numberState(state, c);
          if (next === FAULT) {
            if (state !== ZERO && state !== DIGITS && state !== FRACTION && state !== EXPONENT_DIGITS) {
              state = FAULT;
              break scan;
            }
            state = this.#endNumber(b, tokenStart, i); // c is looked at again
          } else {
            state = next;
            i++;
          }
          continue;
        }
      }

      // between tokens
      if (c <= SPACE) {
        if (c !== SPACE && c !== LF && c !== CR && c !== TAB) {
          state = FAULT;
          break;
        }
        i++;
        continue;
      }
      switch (state) {
        case AFTER:
          if (c === COMMA) state = this.#kinds[this.#depth] === ARRAY ? VALUE : KEY;
          else if (c === CLOSE_BRACE || c === CLOSE_BRACKET) state = this.#close(i, c);
          else state = FAULT;
          break;
        case KEY_OR_CLOSE:
        case KEY:
          if (c === QUOTE) {
            if (this.#depth === 1) this.#keyStart = this.#offset + i;
            this.#beginString(true);
            tokenStart = i + 1;
            state = STRING;
          } else if (c === CLOSE_BRACE && state === KEY_OR_CLOSE) state = this.#close(i, c);
          else state = FAULT;
          break;
        case COLON_NEXT:
          state = c === COLON ? VALUE : FAULT;
          break;
        case VALUE_OR_CLOSE:
        case VALUE:
          if (this.#depth === 1) this.#valueStart = this.#offset + i;
          if (c === QUOTE) {
            this.#beginString(false);
            tokenStart = i + 1;
            state = STRING;
          } else if (c === OPEN_BRACE || c === OPEN_BRACKET) state = this.#open(c);
          else if (c === CLOSE_BRACKET && state === VALUE_OR_CLOSE) state = this.#close(i, c);
          else if (c === 0x2d || (c >= 0x30 && c <= 0x39)) {
            tokenStart = i;
            this.#numberText = '';
            state = c === 0x2d ? MINUS : c === 0x30 ? ZERO : DIGITS;
            if (state === DIGITS) {
              // a short whole number, as in arrays of tokens: seven times faster than by its text
              const most = Math.min(length, i + 9);
              let value = 0;
              let k = i;
              for (; k < most; k++) {
                const digit = (b[k] as number) - 0x30;
                if (digit < 0 || digit > 9) break;
                value = value * 10 + digit;
              }
              if (k < most && (b[k] === COMMA || b[k] === CLOSE_BRACKET)) {
                state = this.#endScalar(k, value);
                i = k;
                continue;
              }
            }
          } else state = this.#beginWord(c);
          break;
        case START:
          if (c === OPEN_BRACE) state = this.#open(c);
          else {
            this.#fault = OTHER_VALUE.includes(c) ? 'not_an_object' : 'invalid_json';
            return;
          }
          break;
        default: // END: nothing may follow
          state = FAULT;
      }
      if (state === FAULT) break;
      i++;
    }
    this.#state = state;
    if (state === FAULT) this.#fault ??= 'invalid_json';
    else if (state >= MINUS) this.#numberText = this.#numberUpTo(b, tokenStart, length);
    else if (state >= STRING && state <= HEX) this.#keepRaw(b, tokenStart, length);
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
    if (this.#kinds[this.#depth] !== (c === CLOSE_BRACE ? OBJECT : ARRAY)) return FAULT;
    if (--this.#depth === 0) return END;
    return this.#endMember(i + 1);
  }

  #beginWord(c: number): number {
    this.#word = c === 0x74 ? 'true' : c === 0x66 ? 'false' : 'null';
    this.#wordAt = 1;
    return c === this.#word.charCodeAt(0) ? WORD : FAULT;
  }

  #endScalar(end: number, value: unknown): number {
    return this.#put(value) ? this.#endMember(end) : FAULT;
  }

  #endNumber(b: Buffer, start: number, end: number): number {
    if (this.#depth > REDUCED_DEPTH) return AFTER;
    const text = this.#numberUpTo(b, start, end);
    return this.#endScalar(end, text.length > REDUCED_NUMBER ? Number.NaN : Number(text));
  }

  /** The text of the number so far, but no more of it than is looked at: of 20 MiB it would be a pause of 40 ms. */
  #numberUpTo(b: Buffer, start: number, end: number): string {
    return this.#numberText + b.latin1Slice(start, Math.min(end, start + REDUCED_NUMBER + 1 - this.#numberText.length));
  }

  #beginString(isKey: boolean): void {
    this.#isKey = isKey;
    this.#escaped = false;
    this.#rawLength = 0;
    this.#rawKept = 0;
  }

  /** The string whose bytes in this chunk are [start, end) is whole. */
  #endString(b: Buffer, start: number, end: number): number {
    if (this.#depth <= REDUCED_DEPTH) {
      const most = this.#isKey || this.#depth === 1 ? LONG_STRING : SHORT_STRING;
      let text: string;
      if (this.#rawLength === 0) text = reduced(b, start, end, end - start, most, this.#escaped);
      else {
        this.#keepRaw(b, start, end);
        text = reduced(this.#raw, 0, this.#rawKept, this.#rawLength, most, this.#escaped);
      }
      if (!this.#isKey) return this.#endScalar(end + 1, text);
      this.#keys[this.#depth] = text;
      if (this.#depth === 1) this.#keyEnd = this.#offset + end + 1;
    }
    return this.#isKey ? COLON_NEXT : AFTER;
  }

  /** Keeps the beginning of a string that goes on in the next chunk. */
  #keepRaw(b: Buffer, start: number, end: number): void {
    this.#rawLength += end - start;
    if (this.#depth > REDUCED_DEPTH) return;
    if (this.#raw.length === 0) this.#raw = Buffer.allocUnsafe(LONG_STRING);
    this.#rawKept += b.copy(this.#raw, this.#rawKept, start, end);
  }

  /** @returns false when there are too many values */
  #put(value: unknown): boolean {
    const depth = this.#depth;
    if (depth === 0 || depth > REDUCED_DEPTH) return true;
    const container = this.#containers[depth] as Record<string, unknown> | unknown[];
    if (Array.isArray(container)) {
      if (container.length >= REDUCED_ITEMS && isAlike(container[container.length - 1], value)) return true;
      container.push(value);
    } else {
      const key = this.#keys[depth] as string;
      setMember(container, key, value);
    }
    if (++this.#values <= MAX_VALUES) return true;
    this.#fault = 'too_many_values';
    return false;
  }

  /** @returns the state after it */
  #endMember(end: number): number {
    if (this.#depth !== 1) return AFTER;
    if (this.#members.length === MAX_MEMBERS) {
      this.#fault = 'too_many_members';
      return FAULT;
    }
    this.#members.push({
      name: this.#keys[1] as string,
      keyStart: this.#keyStart,
      keyEnd: this.#keyEnd,
      valueStart: this.#valueStart,
      valueEnd: this.#offset + end,
    });
    return AFTER;
  }

  /** Whether the bytes so far are UTF-8. The sequence a chunk ends in is judged with the next chunk. */
  #isText(b: Buffer): boolean {
    let from = 0;
    if (this.#seamLength > 0) {
      const whole = sequenceLength(this.#seam[0] as number);
      while (this.#seamLength < whole && from < b.length) this.#seam[this.#seamLength++] = b[from++] as number;
      if (this.#seamLength < whole) return true;
      this.#seamLength = 0;
      if (!isUtf8(this.#seam.subarray(0, whole))) return false;
    }
    let to = b.length;
    for (let k = 1; k <= 3 && to - k >= from; k++) {
      const c = b[to - k] as number;
      if ((c & 0xc0) === 0x80) continue;
      if (sequenceLength(c) > k) {
        to -= k;
        if (this.#seam === NONE) this.#seam = Buffer.allocUnsafe(4);
        this.#seamLength = b.copy(this.#seam, 0, to);
      }
      break;
    }
    return isUtf8(from === 0 && to === b.length ? b : b.subarray(from, to));
  }
}

const NONE = Buffer.alloc(0);

const OBJECT = 0;
const ARRAY = 1;

const START = 0;
const VALUE = 1;
const VALUE_OR_CLOSE = 2;
const KEY = 3;
const KEY_OR_CLOSE = 4;
const COLON_NEXT = 5;
const AFTER = 6;
const END = 7;
const FAULT = 8;
const WORD = 9;
const STRING = 10;
const ESCAPE = 11;
const HEX = 12;
const MINUS = 13;
const ZERO = 14;
const DIGITS = 15;
const POINT = 16;
const FRACTION = 17;
const EXPONENT = 18;
const EXPONENT_SIGN = 19;
const EXPONENT_DIGITS = 20;

/** The state of a number after one more byte; FAULT when the byte does not go on with it. */
function numberState(state: number, c: number): number {
  if (c >= 0x30 && c <= 0x39) {
    switch (state) {
      case MINUS:
        return c === 0x30 ? ZERO : DIGITS;
      case ZERO:
        return FAULT;
      case DIGITS:
        return DIGITS;
      case POINT:
      case FRACTION:
        return FRACTION;
      default:
        return EXPONENT_DIGITS;
    }
  }
  if (c === 0x2e) return state === ZERO || state === DIGITS ? POINT : FAULT;
  if (c === 0x65 || c === 0x45) return state === ZERO || state === DIGITS || state === FRACTION ? EXPONENT : FAULT;
  if (c === 0x2b || c === 0x2d) return state === EXPONENT ? EXPONENT_SIGN : FAULT;
  return FAULT;
}

/** Whether a validator that takes one takes the other: by type, objects never. */
function isAlike(one: unknown, other: unknown): boolean {
  if (typeof one !== 'object' || one === null)
    return typeof one === typeof other && (one === null) === (other === null);
  return Array.isArray(one) && Array.isArray(other);
}

/**
 * The string's text, or what stands for it.
 * @param rawLength of the whole string, of which [start, end) holds at least the first LONG_STRING bytes
 * @param most bytes whose text is made whole
 */
function reduced(b: Buffer, start: number, end: number, rawLength: number, most: number, escaped: boolean): string {
  if (rawLength > most) return most === LONG_STRING ? beginning(b, start) : '...';
  const text = b.utf8Slice(start, end);
  return escaped ? JSON.parse(`"${text}"`) : text;
}
