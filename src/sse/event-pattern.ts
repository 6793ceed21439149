import {
  BACKSLASH,
  CLOSE_BRACE,
  CLOSE_BRACKET,
  COLON,
  LF,
  OPEN_BRACE,
  OPEN_BRACKET,
  QUOTE,
  SPACE,
  stringEnd,
} from '../json/members.ts';
import { isGenerated, type ObjectWalk } from '../json/object-walk.ts';

/**
 * What the data events of one stream have in common. Nearly all of them are the same
 * bytes, save the generated text and perhaps a number:
 *
 *   data: {"created":17,"model":"x","choices":[{"delta":{"content":" Hello"},"finish_reason":null}]}⏎⏎
 *   '--- literal ---'gap'------------- literal ----------------' gap -'--------- literal ---------'
 *
 * A pattern is learned from two events that were walked, with the edits it takes, and then
 * compared with those that follow, eight bytes at a time. A match leaves in the walk what
 * walking the event would have left there. An event of 260 bytes takes 0.1 µs instead of 0.6.
 */
export class Repetition {
  readonly #walk: ObjectWalk;
  /** An event to compare others with. */
  #sample: Buffer = NONE;
  /** Without gaps there is no pattern. */
  #gaps: Gap[] = [];
  #literals: Literal[] = [];
  #edits: Place[] = [];
  #usage: Place | null = null;
  /** Bytes of generated text that are in the literals. */
  #generated = 0;
  /** Events in a row that did not match, and events that did since the pattern was learned. */
  #misses = 0;
  #matches = 0;
  #tries = MAX_TRIES;

  /** The memory of the last chunk: all reads share theirs. A view of it takes 1 µs to make. */
  #memory: ArrayBufferLike | null = null;
  #view: DataView = NO_VIEW;

  constructor(walk: ObjectWalk) {
    this.#walk = walk;
  }

  /**
   * Matches the event whose line begins at i.
   * @returns the offset behind its blank line, or 0
   */
  match(b: Buffer, i: number): number {
    const gaps = this.#gaps;
    const literals = this.#literals;
    if (gaps.length === 0) return 0;
    const memory = b.buffer;
    if (memory !== this.#memory) {
      this.#memory = memory;
      this.#view = new DataView(memory);
    }
    const view = this.#view;
    const offset = b.byteOffset;
    const end = offset + b.length;
    let at = i;
    let generated = this.#generated;
    let textStart = 0;
    let textEnd = 0;
    for (let k = 0; ; k++) {
      const literal = literals[k] as Literal;
      if (!literal.isAt(view, offset + at, end)) return 0;
      literal.start = at;
      at += literal.length;
      if (k === gaps.length) break;
      const from = at;
      const kind = gaps[k];
      at = kind === DIGITS ? digitsEnd(b, at, b.length) : stringEnd(b, at, b.length);
      if (at < 0) return 0;
      // 017 is no number, though it may be the end of one: the walk tells
      if (kind === DIGITS && at > from + 1 && b[from] === 0x30) return 0;
      if (kind !== GENERATED) continue;
      generated += at - from;
      if (at - from > textEnd - textStart) {
        textStart = from;
        textEnd = at;
      }
    }
    this.#misses = 0;
    this.#matches++;
    const walk = this.#walk;
    walk.begin();
    walk.generated = generated;
    walk.textStart = textStart;
    walk.textEnd = textEnd;
    const edits = this.#edits;
    for (let k = 0; k < edits.length; k++) {
      const { first, start, end, kind } = edits[k] as Place;
      walk.edit(first.start + start, first.start + end, kind);
    }
    if (this.#usage !== null) {
      const { first, start, last, end } = this.#usage;
      walk.usageStart = first.start + start;
      walk.usageEnd = last.start + end;
    }
    return at;
  }

  /** Learns from the event [i, next), which did not match and was walked. */
  learn(b: Buffer, i: number, next: number): void {
    if (this.#gaps.length > 0 && ++this.#misses < PATIENCE) return;
    if (this.#matches > WORTH) this.#tries = MAX_TRIES;
    const walk = this.#walk;
    // what a match does not tell must not be in it; and a CR at the end may be half of a line end
    if (this.#tries === 0 || walk.finished || walk.groqStart >= 0 || b[next - 1] !== LF || next - i > MAX_PATTERN)
      return;
    this.#tries--;
    this.#misses = 0;
    this.#matches = 0;
    // the sample stays: what it has in common with later events, once a second is over, is more truly common
    if (this.#sample.length > 0 && this.#compare(b, i, next)) return;
    this.#gaps = [];
    const length = next - i;
    const sample = this.#sample;
    this.#sample = sample.length < length ? Buffer.allocUnsafe(length) : sample.subarray(0, length);
    b.copy(this.#sample, 0, i, next);
  }

  /** Makes a pattern of the sample and the event [i, next), where they differ in gaps only. */
  #compare(b: Buffer, i: number, next: number): boolean {
    const other = this.#sample;
    const reader = new Reader(other);
    const gaps: Gap[] = [];
    const literals: Literal[] = [];
    let told = 0;
    let literalStart = i;
    let at = i;
    while (at < next && reader.at < other.length) {
      if (b[at] === other[reader.at]) {
        reader.next();
        at++;
        continue;
      }
      // back to where the gap begins in both
      const gap = reader.gap();
      if (gap === null || gaps.length === MAX_GAPS) return false;
      const from = at - (reader.at - reader.gapStart);
      if (from <= literalStart) return false; // behind a gap that ended differently
      at = gap === DIGITS ? digitsEnd(b, from, next) : stringEnd(b, from, next);
      if (at < 0 || !reader.skip(gap)) return false;
      if (gap === GENERATED) told += at - from;
      gaps.push(gap);
      literals.push(new Literal(b, literalStart, from));
      literalStart = at;
    }
    if (at < next || reader.at < other.length || gaps.length === 0) return false;
    literals.push(new Literal(b, literalStart, next));

    const { edits, editCount, usageStart, usageEnd, generated } = this.#walk;
    const places: Place[] = [];
    for (let k = 0; k < editCount; k += 3) {
      const [start, end, kind] = edits.slice(k, k + 3) as [number, number, number];
      const place = placeOf(literals, start, end, kind);
      if (place === null || place.first !== place.last) return false;
      places.push(place);
    }
    this.#usage = null;
    if (usageStart >= 0) {
      this.#usage = placeOf(literals, usageStart, usageEnd, 0);
      if (this.#usage === null) return false;
    }
    this.#edits = places;
    this.#literals = literals;
    this.#gaps = gaps;
    this.#generated = generated - told;
    return true;
  }
}

/** What may differ: a string value, a string value of generated text, a run of digits. */
type Gap = typeof TEXT | typeof GENERATED | typeof DIGITS;
const TEXT = 0;
const GENERATED = 1;
const DIGITS = 2;

const MAX_GAPS = 8;
const MAX_PATTERN = 2048;
/** Events in a row that may differ before another pattern is looked for. */
const PATIENCE = 2;
/** A pattern that matched so often was worth learning; the tries begin anew. */
const WORTH = 32;
/** Comparisons in vain before a stream's events are taken to have nothing in common. */
const MAX_TRIES = 16;

const NONE = Buffer.alloc(0);
const NO_VIEW = new DataView(new ArrayBuffer(0));

/** Bytes all events share, and where they stand in the event at hand. */
class Literal {
  start: number;
  readonly length: number;
  /** Eight bytes each; the last eight may overlap those before. */
  readonly #words: Float64Array;
  /** Fewer than eight. */
  readonly #bytes: Buffer;

  constructor(b: Buffer, start: number, end: number) {
    this.start = start;
    this.length = end - start;
    this.#bytes = this.length < 8 ? Buffer.from(b.subarray(start, end)) : NONE;
    const view = new DataView(b.buffer, b.byteOffset + start, end - start);
    const count = this.length < 8 ? 0 : Math.ceil(this.length / 8);
    this.#words = Float64Array.from({ length: count }, (_, k) =>
      view.getFloat64(Math.min(k * 8, this.length - 8), true),
    );
  }

  /** Doubles that are equal are equal bytes: neither zeros nor NaNs can be made of JSON's bytes. */
  isAt(view: DataView, at: number, limit: number): boolean {
    const length = this.length;
    if (at + length > limit) return false;
    if (length < 8) {
      for (let k = 0; k < length; k++) if (view.getUint8(at + k) !== this.#bytes[k]) return false;
      return true;
    }
    const words = this.#words;
    const last = words.length - 1;
    const end = at + length - 8;
    for (let k = 0; k < last; k++, at += 8) if (view.getFloat64(at, true) !== words[k]) return false;
    return view.getFloat64(end, true) === words[last];
  }
}

/** A span told by the literals it begins and ends in. */
interface Place {
  readonly first: Literal;
  readonly start: number;
  readonly last: Literal;
  readonly end: number;
  /** As in ObjectWalk's edits. */
  readonly kind: number;
}

function placeOf(literals: readonly Literal[], start: number, end: number, kind: number): Place | null {
  const first = literals.find((literal) => start >= literal.start && start < literal.start + literal.length);
  const last = literals.find((literal) => end > literal.start && end <= literal.start + literal.length);
  if (first === undefined || last === undefined) return null;
  return { first, start: start - first.start, last, end: end - last.start, kind };
}

/** Reads an event token by token, to know where a gap may be. */
class Reader {
  at = 0;
  /** Where the gap last asked for begins. */
  gapStart = 0;
  readonly #b: Buffer;
  #depth = 0;
  #inString = false;
  #escaped = false;
  #stringStart = 0;
  #stringEnd = 0;
  /** What the string being read, or the next one, is: null when it is no value. */
  #string: typeof TEXT | typeof GENERATED | null = null;

  constructor(b: Buffer) {
    this.#b = b;
  }

  next(): void {
    const c = this.#b[this.at++] as number;
    if (this.#inString) {
      if (this.#escaped) this.#escaped = false;
      else if (c === BACKSLASH) this.#escaped = true;
      else if (c === QUOTE) {
        this.#inString = false;
        this.#stringEnd = this.at - 1;
        this.#string = null;
      }
    } else if (c === QUOTE) {
      this.#inString = true;
      this.#stringStart = this.at;
    } else if (c === COLON) {
      const length = this.#stringEnd - this.#stringStart;
      this.#string = this.#depth > 1 && isGenerated(this.#b, this.#stringStart, length) ? GENERATED : TEXT;
    } else if (c === OPEN_BRACE || c === OPEN_BRACKET) {
      this.#depth++;
      this.#string = null;
    } else if (c === CLOSE_BRACE || c === CLOSE_BRACKET) this.#depth--;
    else if (c > SPACE) this.#string = null;
  }

  /** The kind of gap that lies here; null when none may. */
  gap(): Gap | null {
    if (this.#inString) {
      this.gapStart = this.#stringStart;
      return this.#string;
    }
    let start = this.at;
    while (isDigit(this.#b[start - 1])) start--;
    this.gapStart = start;
    return DIGITS;
  }

  /** Passes over the gap. */
  skip(gap: Gap): boolean {
    const end = gap === DIGITS ? digitsEnd : stringEnd;
    const at = end(this.#b, this.gapStart, this.#b.length);
    this.at = at;
    this.#escaped = false;
    return at >= 0;
  }
}

/** The end of a run of digits that begins at i; -1 when there is none. */
function digitsEnd(b: Buffer, i: number, end: number): number {
  const start = i;
  while (i < end && isDigit(b[i])) i++;
  return i === start ? -1 : i;
}

function isDigit(c: number | undefined): boolean {
  return c !== undefined && c >= 0x30 && c <= 0x39;
}
