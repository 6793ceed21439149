import { isUtf8 } from 'node:buffer';
import { COLON, CR, LF } from '../json/bytes.ts';
import { EventLines } from './event-lines.ts';
import { dataStart, FAILURE, faultOf, isEventName, nameStart, quoted } from './fields.ts';

/** Receives the bytes that may leave. A span is valid during the call only. */
export interface SpanSink {
  bytes(buffer: Buffer, start: number, end: number): void;
}

export type StreamState = 'open' | 'done' | 'broken';

const NONE = Buffer.alloc(0);
const BOM = Buffer.from([0xef, 0xbb, 0xbf]);
const GZIP = 0x1f; // its first byte, which no event stream begins with
const COMMENT = Buffer.from(':\n\n');
const KEEPALIVE = Buffer.from(': keepalive\n\n');
const LINE_FEED = Buffer.from('\n');
/** A larger chunk is looked at for bytes that are not UTF-8 as a whole: it is of many events. */
const MOST_UNASKED = 1024;
/** Data lines of one event: each takes some 200 bytes, however short it is. */
const MOST_LINES = 16_384;

// Values of #partial that are not an offset.
const NO_LINE = -1;
const IN_COMMENT = -2;

// What to do with an LF that follows a CR at the end of a chunk.
const NOTHING = 0;
const DROP_LF = 1;
const RELAY_LF = 2;
const ADD_LF = 3;
const NAME_LF = 4;

/**
 * The framing of an event stream (HTML standard, section 9.2.6). A dialect extends it and reads the
 * events. Whatever is complete goes to the sink before `push` returns, wherever chunks end. A comment
 * becomes ":\n\n"; fields other than data, and events without data, are dropped.
 */
export abstract class EventScanner {
  state: StreamState = 'open';
  /** Why the stream is broken, for the operator's log only: it may quote the upstream's error. */
  reason = '';
  /** Whether it is broken because an event is larger than this gateway takes. */
  isTooLarge = false;
  /** The data of the event that broke the stream, where it tells an error; null: it does not. */
  told: Buffer | null = null;
  /** The event being read. */
  protected readonly lines = new EventLines();
  /** Whether `event` lines are kept: for dialects whose events have names. */
  protected keepsNames = false;
  /** The `event` line of the event being read, with its line end; empty if there is none. */
  #nameLine: Buffer = NONE;
  /** The name in that line. */
  protected name = '';

  /** Whether an earlier chunk, in which the event being read began, may hold bytes that are not UTF-8. */
  #wasSuspect = false;
  /** The chunk at hand, and whether it is UTF-8 by itself: else it has other bytes, or ends inside a character. null: nobody asked. */
  #chunk: Buffer = NONE;
  #isClean: boolean | null = true;

  readonly #sink: SpanSink;
  readonly #maxEventBytes: number;
  /** The span that may leave and has not been given to the sink. */
  #span: Buffer = NONE;
  #spanStart = 0;
  #spanEnd = 0;

  /** Bytes of the event's lines so far, without line ends and comments. */
  #size = 0;
  /** Where the unfinished line begins in the lines' copy, or NO_LINE or IN_COMMENT. */
  #partial = NO_LINE;
  #afterCr = NOTHING;
  /** The next LF and CR in the chunk, if known to be at or after the current offset. */
  #nextLf = -1;
  #nextCr = -1;
  /** How many bytes of a byte order mark were seen at the beginning; 3 once it is decided whether there is one. */
  #bom = 0;

  /** @param maxEventBytes a larger event breaks the stream */
  constructor(sink: SpanSink, maxEventBytes: number) {
    this.#sink = sink;
    this.#maxEventBytes = maxEventBytes;
  }

  /**
   * Reads and relays the usual event, one data line and a blank line, if it is whole in the chunk.
   * Where names are kept, an `event` line may stand before it.
   * @param i where the line begins
   * @param room most bytes of the line
   * @returns the offset behind the event; 0 if it is not such an event, and nothing was done
   */
  protected abstract readWhole(chunk: Buffer, i: number, room: number): number;

  /** Reads the event in `lines`, which were joined. @returns whether it was relayed, so that its blank line is too */
  protected abstract readEvent(): boolean;

  /**
   * The upstream closed the stream without breaking it.
   * @param isCut inside a line
   */
  protected abstract onClose(isCut: boolean): void;

  push(chunk: Buffer): void {
    if (this.state !== 'open' || chunk.length === 0) return;
    if (this.#bom < BOM.length) {
      chunk = this.#dropBom(chunk);
      if (chunk.length === 0) return;
    }
    const { length } = chunk;
    let i = 0;
    this.#chunk = chunk;
    this.#isClean = length > MOST_UNASKED ? isUtf8(chunk) : null;
    this.#nextLf = -1;
    this.#nextCr = -1;
    if (this.#afterCr !== NOTHING) i = this.#joinLf(chunk);
    while (i < length && this.state === 'open') {
      const next = this.#isBetweenEvents()
        ? this.readWhole(chunk, i, this.#maxEventBytes - this.#size)
        : 0;
      if (next > 0) {
        this.#size = 0;
        i = next;
        if (i === length && chunk[i - 1] === CR) this.#afterCr = RELAY_LF;
      } else i = this.#readLine(chunk, i);
      if (this.#wasSuspect && this.#isBetweenEvents()) this.#wasSuspect = false;
    }
    if (!this.#isBetweenEvents()) this.#wasSuspect = this.isSuspect;
    this.#chunk = NONE;
    this.#isClean = true;
    this.lines.copyFrom(chunk);
    this.#flush();
  }

  /**
   * Whether the event being read may hold bytes that are not UTF-8. Looking at a chunk takes 0.1 µs, which is much for
   * one of a single event: there it is left out where a reader knows better.
   */
  protected get isSuspect(): boolean {
    if (this.#wasSuspect) return true;
    this.#isClean ??= isUtf8(this.#chunk);
    return !this.#isClean;
  }

  /** Whether it is known, without looking, that nothing of the chunk at hand is suspect. */
  protected get isKnownClean(): boolean {
    return this.#isClean === true && !this.#wasSuspect;
  }

  /**
   * What may leave now to keep a silent stream alive: whatever was relayed ended with an event. A CR at its end is made a
   * CRLF, and the LF that may still come for it is dropped.
   */
  keepalive(): Buffer {
    if (this.#afterCr !== RELAY_LF) return this.keepaliveEvent;
    this.#afterCr = DROP_LF;
    return Buffer.concat([LINE_FEED, this.keepaliveEvent]);
  }

  /** What clients of the dialect read and ignore. */
  protected get keepaliveEvent(): Buffer {
    return KEEPALIVE;
  }

  /** The upstream closed the connection without an error. */
  end(): void {
    if (this.state !== 'open') return;
    const { lines } = this;
    const isCut = this.#partial >= 0;
    if (isCut) this.#takeLine(lines.copy, this.#partial, lines.copyLength, lines.copyLength);
    if (this.state !== 'open') return;
    if (FAILURE.test(this.name)) this.fail('an error event that is cut');
    else this.onClose(isCut);
    this.#flush();
  }

  /** Adds a span to what may leave; adjacent spans become one. */
  protected relay(b: Buffer, start: number, end: number): void {
    if (start === this.#spanEnd && b === this.#span) {
      this.#spanEnd = end;
      return;
    }
    if (this.#spanEnd > this.#spanStart)
      this.#sink.bytes(this.#span, this.#spanStart, this.#spanEnd);
    this.#span = b;
    this.#spanStart = start;
    this.#spanEnd = end;
  }

  /** Relays the `event` line of the event being read. */
  protected relayName(): void {
    this.relay(this.#nameLine, 0, this.#nameLine.length);
  }

  protected fail(reason: string): void {
    this.reason = reason;
    this.state = 'broken';
  }

  #failTooLarge(): void {
    this.isTooLarge = true;
    this.fail(`an event larger than MAX_EVENT_BYTES (${this.#maxEventBytes})`);
  }

  /** Breaks the stream by the error in [start, end). */
  protected failBy(reason: string, b: Buffer, start: number, end: number): void {
    this.told = Buffer.from(b.subarray(start, end));
    this.fail(reason);
  }

  #flush(): void {
    this.relay(NONE, 0, 0);
  }

  #isBetweenEvents(): boolean {
    return this.lines.offsets.length === 0 && this.#partial === NO_LINE && this.#nameLine === NONE;
  }

  /** Reads one line, or the unfinished rest of the chunk. @returns the offset behind it */
  #readLine(chunk: Buffer, i: number): number {
    const { length } = chunk;
    const end = this.#lineEnd(chunk, i);
    if (end === length) {
      this.#keepPartial(chunk, i);
      return length;
    }
    let next = end + 1;
    const isCrLast = chunk[end] === CR && next === length;
    if (chunk[end] === CR && chunk[next] === LF) next++;
    let after: number;
    const partial = this.#partial;
    this.#partial = NO_LINE;
    if (partial >= 0) {
      const { lines } = this;
      lines.append(chunk, i, next);
      after = this.#takeLine(
        lines.copy,
        partial,
        lines.copyLength - (next - end),
        lines.copyLength,
      );
    } else if (partial === IN_COMMENT) {
      this.relay(COMMENT, 0, COMMENT.length);
      after = DROP_LF;
    } else after = this.#takeLine(chunk, i, end, next);
    if (isCrLast) this.#afterCr = after;
    return next;
  }

  /** The first CR or LF at or after i, or the chunk's length. */
  #lineEnd(chunk: Buffer, i: number): number {
    const { length } = chunk;
    const near = Math.min(i + 64, length);
    for (; i < near; i++) {
      const c = chunk[i] as number;
      if (c <= CR && (c === LF || c === CR)) return i;
    }
    // each is searched once per chunk: an event of megabytes takes a fiftieth of the time
    if (this.#nextLf < i) this.#nextLf = (chunk.indexOf(LF, i) + 1 || length + 1) - 1;
    if (this.#nextCr < i) this.#nextCr = (chunk.indexOf(CR, i) + 1 || length + 1) - 1;
    return Math.min(this.#nextLf, this.#nextCr);
  }

  /** Takes the line [start, end), followed by its line end. @returns what to do with an LF behind its CR */
  #takeLine(b: Buffer, start: number, end: number, next: number): number {
    if (start === end) return this.#endEvent(b, start, next);
    if (b[start] === COLON) {
      this.relay(COMMENT, 0, COMMENT.length);
      return DROP_LF;
    }
    this.#size += end - start;
    if (this.#size > this.#maxEventBytes) {
      this.#failTooLarge();
      return NOTHING;
    }
    const { lines } = this;
    const value = dataStart(b, start, end);
    if (value >= 0) {
      lines.add(b, start, value, end, next);
      if (lines.count > MOST_LINES) this.fail('an event of too many lines');
      return ADD_LF;
    }
    if (b === lines.copy) lines.copyLength = start; // forget the line
    if (isEventName(b, start, end)) {
      const name = b.toString('utf8', nameStart(b, start, end), end);
      if (!this.keepsNames && !FAILURE.test(name)) return DROP_LF;
      this.#nameLine = Buffer.from(b.subarray(start, next));
      this.name = name;
      return NAME_LF;
    }
    const fault = faultOf(b, start, end);
    if (fault !== null) this.failBy(`${fault.what}: ${quoted(b, start, end)}`, b, fault.start, end);
    return DROP_LF;
  }

  /** The blank line [start, next) ends the event. */
  #endEvent(b: Buffer, start: number, next: number): number {
    const { lines } = this;
    let after = DROP_LF;
    if (lines.offsets.length > 0) lines.join();
    // an event without data is dropped: official SDKs crash on it
    if (lines.offsets.length === 0 || lines.start >= lines.end) {
      if (FAILURE.test(this.name)) this.fail('an error event without data');
    } else if (this.readEvent()) {
      this.relay(b, start, next);
      after = RELAY_LF;
    }
    lines.clear();
    if (this.#nameLine !== NONE) {
      this.#nameLine = NONE;
      this.name = '';
    }
    this.#size = 0;
    return after;
  }

  /** Keeps the rest of the chunk, which begins or continues a line. A comment is not kept. */
  #keepPartial(chunk: Buffer, i: number): void {
    const { lines } = this;
    if (this.#partial === IN_COMMENT) return;
    if (this.#partial === NO_LINE) {
      if (chunk[i] === COLON) {
        this.#partial = IN_COMMENT;
        return;
      }
      lines.copyFrom(chunk);
      this.#partial = lines.copyLength;
    }
    if (this.#size + lines.copyLength - this.#partial + chunk.length - i > this.#maxEventBytes) {
      this.#failTooLarge();
      return;
    }
    lines.append(chunk, i, chunk.length);
  }

  /** Handles an LF that belongs to the CR at the end of the last chunk. @returns the offset behind it */
  #joinLf(chunk: Buffer): number {
    const after = this.#afterCr;
    this.#afterCr = NOTHING;
    if (chunk[0] !== LF) return 0;
    if (after === RELAY_LF) this.relay(chunk, 0, 1);
    if (after === ADD_LF) this.lines.addLf(chunk);
    if (after === NAME_LF) this.#nameLine = Buffer.concat([this.#nameLine, LINE_FEED]);
    return 1;
  }

  #dropBom(chunk: Buffer): Buffer {
    const seen = this.#bom;
    let i = 0;
    while (this.#bom < BOM.length && i < chunk.length && chunk[i] === BOM[this.#bom]) {
      i++;
      this.#bom++;
    }
    if (this.#bom === BOM.length) return chunk.subarray(i);
    if (i === chunk.length) return NONE;
    this.#bom = BOM.length; // other bytes that begin like one
    if (seen === 0 && chunk[0] === GZIP) this.fail('compressed, and no header said so');
    return seen === 0 ? chunk : Buffer.concat([BOM.subarray(0, seen), chunk]);
  }
}
