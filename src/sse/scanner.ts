import { COLON, CR, LF, OPEN_BRACE, OPEN_BRACKET, QUOTE, SPACE, TAB } from '../json/members.ts';
import { ObjectWalk, REPLACE } from '../json/object-walk.ts';
import { TextSample } from '../json/text-sample.ts';
import { readUsageText, type TokenCounts } from '../json/usage.ts';
import { Repetition } from './event-pattern.ts';

/** Takes what may leave. The span is valid during the call only. */
export interface FrameSink {
  bytes(buffer: Buffer, start: number, end: number): void;
}

export type StreamState = 'open' | 'done' | 'broken';

/**
 * The upstream's event stream, patched while it passes (contract section 4, "Streams").
 * Push chunks as they come; whatever is complete leaves through the sink before `push`
 * returns, in as few spans as possible. Pure: no clock, no socket; the output depends on
 * the bytes alone, never on how they were cut into chunks.
 *
 * A data event is relayed byte for byte as soon as its blank line is seen, save the value
 * of its top-level `model`, which becomes the slug, and members that name what stands
 * behind, which go. Each comment line becomes an event of its own, ":\n\n". Events
 * without data and all other fields are dropped. `[DONE]` leaves as "data: [DONE]\n\n" and ends
 * the answer.
 */
export class StreamScanner {
  state: StreamState = 'open';
  /** Why the stream is broken; for the operator's log only: it may quote the upstream's error. */
  reason = '';
  /** Data events relayed. */
  events = 0;
  /** Those of them that brought generated text, and its bytes as written in JSON. */
  textEvents = 0;
  generatedBytes = 0;
  /** Some choice was given a finish_reason. */
  finished = false;
  /** Some of the generated text, should its tokens have to be estimated. */
  readonly sample = new TextSample();

  readonly #slug: Buffer;
  readonly #sink: FrameSink;
  readonly #maxEventBytes: number;
  readonly #walk = new ObjectWalk();
  readonly #repetition = new Repetition(this.#walk);

  // The span that may leave but was not handed to the sink yet.
  #span: Buffer = NONE;
  #spanFrom = 0;
  #spanTo = 0;

  // The event being read: its data lines as quadruples in `#base`: start of line, start and
  // end of payload, end of line. While an event straddles chunks, `#held` is that base:
  //   held: data: {"a":1,⏎data: "b":2}⏎dat        partial line from #partial on
  #base: Buffer = NONE;
  readonly #lines: number[] = [];
  /** Bytes of the event's lines so far, line ends and comments not counted. */
  #size = 0;
  #held: Buffer = NONE;
  #heldLength = 0;
  /** Where the unfinished line begins in `#held`, or one of the two below. */
  #partial = NO_LINE;
  /** What becomes of an LF that may follow the CR the last chunk ended with. */
  #afterCr = NOTHING;
  /** Where the next LF and CR stand in the chunk, if that was looked for. */
  #nextLf = -1;
  #nextCr = -1;
  /** Bytes of a byte order mark seen at the start; 3 when that is settled. */
  #bom = 0;

  // The last usage object: as text, or where in the chunk being pushed it stands.
  #usageText = '';
  #usageBuffer: Buffer = NONE;
  #usageStart = 0;
  #usageEnd = 0;

  /**
   * @param slug the slug as a JSON string, quotes included
   * @param maxEventBytes an event with more bytes than this breaks the stream
   */
  constructor(slug: Buffer, sink: FrameSink, maxEventBytes: number) {
    this.#slug = slug;
    this.#sink = sink;
    this.#maxEventBytes = maxEventBytes;
  }

  push(chunk: Buffer): void {
    if (this.state !== 'open' || chunk.length === 0) return;
    if (this.#bom < 3) {
      chunk = this.#dropBom(chunk);
      if (chunk.length === 0) return;
    }
    const length = chunk.length;
    let i = 0;
    this.#nextLf = -1;
    this.#nextCr = -1;
    if (this.#afterCr !== NOTHING) i = this.#joinLf(chunk);
    while (i < length) {
      if (this.#lines.length === 0 && this.#partial === NO_LINE) {
        for (let next = this.#fast(chunk, i); next > 0; next = i < length ? this.#fast(chunk, i) : 0) i = next;
        if (i === length) break;
      }
      i = this.#line(chunk, i);
      if (this.#isOver()) break;
    }
    this.#keep(chunk);
    this.#flush();
  }

  /** The upstream closed cleanly. A stream whose answer was finished is whole without `[DONE]`: it is added. */
  end(): void {
    if (this.state !== 'open') return;
    const cut = this.#partial >= 0;
    if (cut) {
      this.#take(this.#held, this.#partial, this.#heldLength, this.#heldLength);
      if (this.#isOver()) return;
    }
    // [DONE] says all there is to say, even when its line ends are missing
    if (this.#lines.length > 0 ? this.#isDone() : !cut && this.finished) this.#finish();
    else if (cut || this.#lines.length > 0) this.#fail('closed inside an event');
    else this.#fail('closed without [DONE] and without a finish_reason');
    this.#flush();
  }

  /** The last usage the upstream told; null when there was none or it cannot be read. */
  usage(): TokenCounts | null {
    if (this.#usageText === '') return null;
    try {
      return readUsageText(this.#usageText);
    } catch {
      return null;
    }
  }

  /**
   * The way nearly every event takes: one data line and a blank line, whole in this chunk.
   * It is matched by what it repeats of those before it or else walked, and one pass over
   * the object finds everything, its end included.
   * @returns the offset behind the event; 0 when it is none of these, and nothing was done
   */
  #fast(b: Buffer, i: number): number {
    if (this.events === 0) return 0; // the first may need a model
    let next = this.#repetition.match(b, i);
    if (next === 0 || this.#size + next - i > this.#maxEventBytes) {
      next = this.#walkEvent(b, i);
      if (next === 0) return 0;
      this.#repetition.learn(b, i, next);
    }
    this.#size = 0;
    this.#accept(b);
    this.#relayPatched(b, i, next);
    return next;
  }

  /** Walks the event [i, …) and returns the offset behind its blank line, or 0. */
  #walkEvent(b: Buffer, i: number): number {
    const length = b.length;
    let next = i + DATA.length;
    if (!startsWith(b, i, length, DATA)) return 0;
    if (next < length && b[next] === SPACE) next++;
    next = this.#walk.walk(b, next, length, false);
    if (next < 0 || this.#walk.errorStart >= 0 || next + 1 >= length) return 0;
    if (this.#size + next - i > this.#maxEventBytes) return 0;
    let c = b[next++];
    if (c === CR) {
      if (b[next] === LF && ++next >= length) return 0;
    } else if (c !== LF) return 0;
    c = b[next++];
    if (c === CR) {
      if (next === length) this.#afterCr = RELAY_LF;
      else if (b[next] === LF) next++;
    } else if (c !== LF) return 0;
    return next;
  }

  /** Reads one line, or the unfinished rest of the chunk, and returns the offset behind it. */
  #line(chunk: Buffer, i: number): number {
    const length = chunk.length;
    const end = this.#lineEnd(chunk, i);
    if (end === length) {
      this.#holdLine(chunk, i);
      return length;
    }
    let next = end + 1;
    const cr = chunk[end] === CR && next === length;
    if (chunk[end] === CR && chunk[next] === LF) next++;
    let after: number;
    if (this.#partial >= 0) {
      const start = this.#partial;
      this.#partial = NO_LINE;
      this.#hold(chunk, i, next);
      after = this.#take(this.#held, start, this.#heldLength - (next - end), this.#heldLength);
    } else if (this.#partial === IN_COMMENT) {
      this.#partial = NO_LINE;
      this.#relay(COMMENT, 0, COMMENT.length);
      after = DROP_LF;
    } else {
      after = this.#take(chunk, i, end, next);
    }
    if (cr) this.#afterCr = after;
    return next;
  }

  /** The first CR or LF at or after i, or the chunk's length. */
  #lineEnd(chunk: Buffer, i: number): number {
    const length = chunk.length;
    const near = Math.min(i + 64, length);
    for (; i < near; i++) {
      const c = chunk[i] as number;
      if (c <= CR && (c === LF || c === CR)) return i;
    }
    // each is looked for once in a chunk: an event of megabytes takes a fiftieth of the time
    if (this.#nextLf < i) this.#nextLf = (chunk.indexOf(LF, i) + 1 || length + 1) - 1;
    if (this.#nextCr < i) this.#nextCr = (chunk.indexOf(CR, i) + 1 || length + 1) - 1;
    return Math.min(this.#nextLf, this.#nextCr);
  }

  /** Takes a whole line and returns what becomes of an LF behind its CR. */
  #take(b: Buffer, start: number, end: number, next: number): number {
    if (start === end) return this.#dispatch(b, start, next);
    const first = b[start] as number;
    if (first === COLON) {
      this.#relay(COMMENT, 0, COMMENT.length);
      return DROP_LF;
    }
    this.#size += end - start;
    if (this.#size > this.#maxEventBytes) {
      this.#fail('an event larger than allowed');
      return NOTHING;
    }
    if (isField(b, start, end, DATA)) {
      this.#addLine(b, start, end, next);
      return HOLD_LF;
    }
    if (b === this.#held) this.#heldLength = start;
    const fault = faultOf(b, start, end);
    if (fault !== '') this.#fail(fault);
    return DROP_LF;
  }

  #addLine(b: Buffer, start: number, end: number, next: number): void {
    const lines = this.#lines;
    if (lines.length === 0) this.#base = b;
    let shift = 0;
    if (b !== this.#base) {
      shift = this.#heldLength - start;
      this.#hold(b, start, next);
    }
    let payload = Math.min(start + DATA.length, end);
    if (payload < end && b[payload] === SPACE) payload++;
    lines.push(start + shift, payload + shift, end + shift, next + shift);
  }

  /** The blank line [start, next) ends an event. */
  #dispatch(b: Buffer, start: number, next: number): number {
    const after = this.#lines.length === 0 ? DROP_LF : this.#event(b, start, next);
    this.#lines.length = 0;
    this.#size = 0;
    this.#heldLength = 0;
    if (this.#held.length > MAX_KEPT_HELD) this.#held = NONE;
    this.#base = NONE;
    return after;
  }

  #event(b: Buffer, blank: number, next: number): number {
    const lines = this.#lines;
    const single = lines.length === 4;
    const buffer = single ? this.#base : this.#joined();
    const end = single ? (lines[2] as number) : buffer.length;
    const start = skipBlank(buffer, single ? (lines[1] as number) : 0, end);
    if (start === end) return DROP_LF; // no data: official SDKs crash on it
    if (this.#isDone()) {
      this.#finish();
      return NOTHING;
    }
    const walk = this.#walk;
    const at = walk.walk(buffer, start, end, !single);
    if (at < 0 || skipBlank(buffer, at, end) !== end) {
      this.#fail('an event that is not a JSON object');
      return NOTHING;
    }
    if (walk.errorStart >= 0) {
      this.#fail(
        `an error in the stream: ${buffer.utf8Slice(walk.errorStart, Math.min(walk.errorEnd, walk.errorStart + MAX_QUOTED))}`,
      );
      return NOTHING;
    }
    const insertAt = this.events === 0 && !walk.hasModel ? start + 1 : -1;
    this.#accept(buffer);
    this.#keepUsage(); // the buffer is used again for the next event
    if (single) {
      let from = lines[0] as number;
      if (insertAt >= 0) {
        this.#relay(buffer, from, insertAt);
        this.#insertModel();
        from = insertAt;
      }
      this.#relayPatched(buffer, from, lines[3] as number);
    } else {
      this.#relayLines(insertAt);
    }
    this.#relay(b, blank, next);
    return RELAY_LF;
  }

  /** Notes what the walked event tells besides its bytes. */
  #accept(b: Buffer): void {
    const walk = this.#walk;
    this.events++;
    if (walk.generated > 0) {
      this.generatedBytes += walk.generated;
      this.textEvents++;
      if (this.generatedBytes > this.sample.due) {
        this.sample.add(b, walk.textStart, walk.textEnd, this.generatedBytes);
      }
    }
    if (walk.finished) this.finished = true;
    if (walk.usageStart >= 0) {
      this.#usageBuffer = b;
      this.#usageStart = walk.usageStart;
      this.#usageEnd = walk.usageEnd;
    } else if (walk.groqStart >= 0) this.#readGroq(b);
  }

  /** Groq puts an object into its first and last event; only the last one's holds the usage. */
  #readGroq(b: Buffer): void {
    try {
      const { usage } = JSON.parse(b.utf8Slice(this.#walk.groqStart, this.#walk.groqEnd)) as { usage?: unknown };
      if (typeof usage !== 'object' || usage === null) return;
      this.#usageText = JSON.stringify(usage);
      this.#usageBuffer = NONE;
    } catch {
      // not ours to judge: the event is relayed as it is
    }
  }

  /** Relays [from, to) of the walked buffer with its edits made. */
  #relayPatched(b: Buffer, from: number, to: number): void {
    const { edits, editCount } = this.#walk;
    for (let k = 0; k < editCount; k += 3) {
      this.#relay(b, from, edits[k] as number);
      if (edits[k + 2] === REPLACE) this.#relay(this.#slug, 0, this.#slug.length);
      from = edits[k + 1] as number;
    }
    this.#relay(b, from, to);
  }

  /**
   * Relays the event's data lines with edits that were found in the joined payload. Line
   * breaks stay even where what they break goes.
   */
  #relayLines(insertAt: number): void {
    const { edits, editCount } = this.#walk;
    const lines = this.#lines;
    const base = this.#base;
    let joinedStart = 0;
    for (let k = 0; k < lines.length; k += 4) {
      const payload = lines[k + 1] as number;
      const shift = payload - joinedStart;
      const joinedEnd = (lines[k + 2] as number) - shift;
      let from = lines[k] as number;
      if (insertAt >= joinedStart && insertAt <= joinedEnd) {
        this.#relay(base, from, insertAt + shift);
        this.#insertModel();
        from = insertAt + shift;
      }
      for (let e = 0; e < editCount; e += 3) {
        const start = edits[e] as number;
        const end = edits[e + 1] as number;
        if (start > joinedEnd || end < joinedStart) continue;
        this.#relay(base, from, Math.max(start, joinedStart) + shift);
        if (start >= joinedStart && edits[e + 2] === REPLACE) this.#relay(this.#slug, 0, this.#slug.length);
        from = Math.min(end, joinedEnd) + shift;
      }
      this.#relay(base, from, lines[k + 3] as number);
      joinedStart = joinedEnd + 1;
    }
  }

  #insertModel(): void {
    this.#relay(MODEL_KEY, 0, MODEL_KEY.length);
    this.#relay(this.#slug, 0, this.#slug.length);
    if (this.#walk.kept > 0) this.#relay(COMMA, 0, 1);
  }

  /** The payload of an event of several lines, joined by LF as the standard has it. */
  #joined(): Buffer {
    const parts: Buffer[] = [];
    for (let k = 0; k < this.#lines.length; k += 4) {
      if (k > 0) parts.push(LINE_FEED);
      parts.push(this.#base.subarray(this.#lines[k + 1], this.#lines[k + 2]));
    }
    return Buffer.concat(parts);
  }

  #isDone(): boolean {
    if (this.#lines.length !== 4) return false;
    const end = this.#lines[2] as number;
    const start = skipBlank(this.#base, this.#lines[1] as number, end);
    return startsWith(this.#base, start, end, DONE) && skipBlank(this.#base, start + DONE.length, end) === end;
  }

  #finish(): void {
    this.#relay(DONE_EVENT, 0, DONE_EVENT.length);
    this.state = 'done';
  }

  #fail(reason: string): void {
    this.reason = reason;
    this.state = 'broken';
  }

  #isOver(): boolean {
    return this.state !== 'open';
  }

  /** Keeps the unfinished line that begins or goes on at i. A comment is not kept. */
  #holdLine(chunk: Buffer, i: number): void {
    if (this.#partial === IN_COMMENT) return;
    if (this.#partial === NO_LINE) {
      if (chunk[i] === COLON) {
        this.#partial = IN_COMMENT;
        return;
      }
      this.#holdLines(chunk);
      this.#partial = this.#heldLength;
    }
    if (this.#size + this.#heldLength - this.#partial + chunk.length - i > this.#maxEventBytes) {
      this.#fail('an event larger than allowed');
      return;
    }
    this.#hold(chunk, i, chunk.length);
  }

  /** Copies the event's data lines out of the chunk they were found in. */
  #holdLines(chunk: Buffer): void {
    const lines = this.#lines;
    if (lines.length === 0 || this.#base !== chunk) return;
    for (let k = 0; k < lines.length; k += 4) {
      const start = lines[k] as number;
      const shift = this.#heldLength - start;
      this.#hold(chunk, start, lines[k + 3] as number);
      for (let n = k; n < k + 4; n++) lines[n] = (lines[n] as number) + shift;
    }
    this.#base = this.#held;
  }

  #hold(chunk: Buffer, start: number, end: number): void {
    const length = this.#heldLength + end - start;
    if (length > this.#held.length) {
      const larger = Buffer.allocUnsafe(Math.max(512, length * 2));
      this.#held.copy(larger, 0, 0, this.#heldLength);
      if (this.#base === this.#held) this.#base = larger;
      this.#held = larger;
    }
    chunk.copy(this.#held, this.#heldLength, start, end);
    this.#heldLength = length;
  }

  /** An LF that belongs to the CR before it. */
  #joinLf(chunk: Buffer): number {
    const after = this.#afterCr;
    this.#afterCr = NOTHING;
    if (chunk[0] !== LF) return 0;
    if (after === RELAY_LF) this.#relay(chunk, 0, 1);
    if (after === HOLD_LF) {
      this.#hold(chunk, 0, 1);
      const last = this.#lines.length - 1;
      this.#lines[last] = (this.#lines[last] as number) + 1;
    }
    return 1;
  }

  #dropBom(chunk: Buffer): Buffer {
    const seen = this.#bom;
    let i = 0;
    while (this.#bom < 3 && i < chunk.length && chunk[i] === BOM[this.#bom]) {
      i++;
      this.#bom++;
    }
    if (this.#bom === 3) return chunk.subarray(i);
    if (i === chunk.length) return NONE;
    this.#bom = 3; // it only began like one
    return seen === 0 ? chunk : Buffer.concat([BOM.subarray(0, seen), chunk]);
  }

  /** Keeps what is needed of a chunk. */
  #keep(chunk: Buffer): void {
    this.#holdLines(chunk);
    this.#keepUsage();
  }

  #keepUsage(): void {
    if (this.#usageBuffer === NONE) return;
    this.#usageText = this.#usageBuffer.latin1Slice(this.#usageStart, this.#usageEnd);
    this.#usageBuffer = NONE;
  }

  /** Adds to what may leave; spans that meet become one. */
  #relay(b: Buffer, from: number, to: number): void {
    if (from === this.#spanTo && b === this.#span) {
      this.#spanTo = to;
      return;
    }
    if (this.#spanTo > this.#spanFrom) this.#sink.bytes(this.#span, this.#spanFrom, this.#spanTo);
    this.#span = b;
    this.#spanFrom = from;
    this.#spanTo = to;
  }

  #flush(): void {
    this.#relay(NONE, 0, 0);
  }
}

const NONE = Buffer.alloc(0);
const BOM = Buffer.from([0xef, 0xbb, 0xbf]);
const DATA = Buffer.from('data:');
const EVENT = Buffer.from('event:');
const ERROR = Buffer.from('error:');
const DONE = Buffer.from('[DONE]');
const DONE_EVENT = Buffer.from('data: [DONE]\n\n');
const COMMENT = Buffer.from(':\n\n');
const MODEL_KEY = Buffer.from('"model":');
const COMMA = Buffer.from(',');
const LINE_FEED = Buffer.from('\n');

const NO_LINE = -1;
const IN_COMMENT = -2;

const NOTHING = 0;
const DROP_LF = 1;
const RELAY_LF = 2;
const HOLD_LF = 3;

/** A straddling event's buffer up to this size is kept for the next. */
const MAX_KEPT_HELD = 4096;
/** Bytes of an upstream's error quoted in `reason`. */
const MAX_QUOTED = 500;

/** Why a line that is neither data nor comment breaks the stream; empty when it does not. */
function faultOf(b: Buffer, start: number, end: number): string {
  if (isField(b, start, end, ERROR)) return quote('an error line: ', b, start, end);
  if (isField(b, start, end, EVENT)) {
    let value = Math.min(start + EVENT.length, end);
    if (value < end && b[value] === SPACE) value++;
    return end - value === 5 && startsWith(b, value, end, ERROR.subarray(0, 5)) ? 'an error event' : '';
  }
  const content = skipBlank(b, start, end);
  const first = content < end ? b[content] : SPACE;
  if (first === OPEN_BRACE || first === OPEN_BRACKET || first === QUOTE || first === LESS_THAN) {
    return quote('a line that is no event: ', b, start, end);
  }
  return '';
}

const LESS_THAN = 0x3c;

function quote(what: string, b: Buffer, start: number, end: number): string {
  return what + b.utf8Slice(start, Math.min(end, start + MAX_QUOTED));
}

/** Whether the line is a field of this name, given with its colon; the colon may be missing. */
function isField(b: Buffer, start: number, end: number, name: Buffer): boolean {
  const length = name.length - 1;
  if (end - start < length) return false;
  for (let i = 0; i < length; i++) if (b[start + i] !== name[i]) return false;
  return end - start === length || b[start + length] === COLON;
}

function startsWith(b: Buffer, start: number, end: number, prefix: Buffer): boolean {
  const length = prefix.length;
  if (end - start < length) return false;
  for (let i = 0; i < length; i++) if (b[start + i] !== prefix[i]) return false;
  return true;
}

/** The first byte at or after i that is no JSON whitespace, or end. */
function skipBlank(b: Buffer, i: number, end: number): number {
  while (i < end) {
    const c = b[i];
    if (c !== SPACE && c !== TAB && c !== LF) return i;
    i++;
  }
  return end;
}
