import { COLON, CR, DIGIT_0, HEX, LF, SPACE, TAB } from '../json/bytes.ts';

type ResponseState = 'open' | 'done' | 'broken';

/**
 * Reads HTTP/1.1 answers to POST requests (RFC 9112), one after the other. After each read of the socket it has the
 * head (if `hasHead`) and the new bytes of the body: [bodyStart, bodyEnd) in the buffer of that read. The data of
 * several chunks is moved together there, so one read yields one span, however many chunks it holds.
 *
 *   buffer: 1a CR LF data: {…}⏎⏎ CR LF 1b CR LF data: {…}⏎⏎ CR LF
 *                    ^ bodyStart      '--------- moved to the left, up to bodyEnd
 *
 * Accepts only answers that every reader understands in the same way. An answer is broken if it has both a length
 * and chunks, another transfer coding than chunks, line ends other than CR LF, or folded headers. Pure: no socket, no
 * clock.
 */
export class ResponseReader {
  state: ResponseState = 'open';
  /** Why the answer is broken; for the operator's log. */
  reason = '';
  /** Whether the head of the final answer was read. */
  hasHead = false;
  status = 0;
  contentType: string | undefined;
  contentEncoding: string | undefined;
  contentLength = -1;
  retryAfter: string | undefined;
  /** The cost of the call to the router, by its own account. */
  responseCost: string | undefined;
  /** Whether another request may follow on the connection after this answer. */
  reusable = true;
  /** Whether any byte of the body was read. */
  hasBody = false;
  /** How long the other side keeps the unused connection open, in seconds; Infinity: it does not say. */
  keepAliveSeconds = Number.POSITIVE_INFINITY;
  bodyStart = 0;
  bodyEnd = 0;

  #expected = STATUS_LINE;
  /** Bytes of the head, or of the trailers, that were read. */
  #headBytes = 0;
  /** Bytes that are missing of the body, or of the chunk. */
  #rest = 0;
  #isHttp10 = false;
  #chunked = false;
  /** The beginning of a line that the next read goes on with. */
  #held: Buffer = NONE;

  /** Forgets the answer, so that another one can be read. */
  reset(): void {
    this.state = 'open';
    this.reason = '';
    this.hasHead = false;
    this.#expected = STATUS_LINE;
    this.#held = NONE;
    this.#forgetHead();
  }

  /** Reads the bytes [i, end). Bytes of the body may be moved within that span. */
  read(b: Buffer, i: number, end: number): void {
    this.bodyStart = 0;
    this.bodyEnd = 0;
    while (i < end) {
      if (this.state !== 'open') {
        this.reusable = false; // bytes after the end of the answer
        return;
      }
      switch (this.#expected) {
        case LENGTH:
        case CHUNK_DATA:
          i = this.#data(b, i, end);
          break;
        case UNTIL_CLOSE:
          this.#span(b, i, end);
          i = end;
          break;
        default:
          i = this.#line(b, i, end);
      }
    }
  }

  /** Is told that the other side closed the connection. */
  close(): void {
    this.reusable = false;
    if (this.state !== 'open') return;
    if (this.#expected === UNTIL_CLOSE) this.state = 'done';
    else this.#break(this.hasHead ? 'closed within the answer' : 'closed without an answer');
  }

  /** Reads a line, or holds its beginning, and returns the offset behind it. */
  #line(b: Buffer, i: number, end: number): number {
    if (this.#held !== NONE) return this.#restOfLine(b, i, end);
    let to = i;
    while (to < end && CONTROL[b[to] as number] === 0) to++;
    if (to === end || (b[to] === CR && to + 1 === end)) return this.#hold(b, i, end);
    if (b[to] !== CR || b[to + 1] !== LF) {
      this.#break('a control character in the head');
      return end;
    }
    this.#headBytes += to + 2 - i;
    if (this.#headBytes > MAX_HEAD_BYTES) this.#break(TOO_LARGE);
    else this.#take(b, i, to);
    return to + 2;
  }

  /** Completes the line that is held, or holds more of it. */
  #restOfLine(b: Buffer, i: number, end: number): number {
    const lf = b.indexOf(LF, i);
    if (lf < 0 || lf >= end) return this.#hold(b, i, end);
    const line = Buffer.concat([this.#held, b.subarray(i, lf + 1)]);
    this.#held = NONE;
    this.#line(line, 0, line.length);
    return lf + 1;
  }

  #hold(b: Buffer, i: number, end: number): number {
    this.#held = Buffer.concat([this.#held, b.subarray(i, end)]);
    if (this.#headBytes + this.#held.length > MAX_HEAD_BYTES) this.#break(TOO_LARGE);
    return end;
  }

  #take(b: Buffer, from: number, to: number): void {
    switch (this.#expected) {
      case STATUS_LINE:
        return this.#statusLine(b, from, to);
      case HEADER:
        return from === to ? this.#headEnd() : this.#header(b, from, to);
      case CHUNK_SIZE:
        return this.#chunkSize(b, from, to);
      case CHUNK_END:
        this.#headBytes = 0;
        this.#expected = CHUNK_SIZE;
        return from === to ? undefined : this.#break('a chunk longer than it said');
      default: // trailers are skipped
        if (from === to) this.state = 'done';
        else if (nameEnd(b, from, to) < 0) this.#break('a malformed trailer');
    }
  }

  #statusLine(b: Buffer, from: number, to: number): void {
    const version = b.toString('latin1', from, Math.min(from + 9, to));
    if (to - from < 12 || (version !== 'HTTP/1.1 ' && version !== 'HTTP/1.0 ')) {
      return this.#break('no HTTP/1.1 answer');
    }
    let status = 0;
    for (let k = from + 9; k < from + 12; k++) {
      const digit = (b[k] as number) - DIGIT_0;
      if (digit < 0 || digit > 9) return this.#break('no HTTP/1.1 answer');
      status = status * 10 + digit;
    }
    if (status < 100 || status > 599 || (to - from > 12 && b[from + 12] !== SPACE)) {
      return this.#break('no HTTP/1.1 answer');
    }
    this.status = status;
    this.#isHttp10 = version === 'HTTP/1.0 ';
    this.#expected = HEADER;
  }

  #header(b: Buffer, from: number, to: number): void {
    const colon = nameEnd(b, from, to);
    if (colon < 0) return this.#break('a malformed header');
    // the lengths tell most names apart
    switch (colon - from) {
      case 10:
        if (isName(b, from, CONNECTION)) {
          if (/(?:^|,)[ \t]*close[ \t]*(?:,|$)/i.test(textOf(b, colon, to))) this.reusable = false;
        } else if (isName(b, from, KEEP_ALIVE)) {
          const seconds = /(?:^|[, \t])timeout=(\d{1,9})/i.exec(textOf(b, colon, to))?.[1];
          if (seconds !== undefined) this.keepAliveSeconds = Number(seconds);
        }
        break;
      case 11:
        if (isName(b, from, RETRY_AFTER)) this.retryAfter = textOf(b, colon, to);
        break;
      case 12:
        if (isName(b, from, CONTENT_TYPE)) this.contentType = textOf(b, colon, to);
        break;
      case 14:
        if (isName(b, from, CONTENT_LENGTH)) this.#length(b, colon, to);
        break;
      case 16:
        if (isName(b, from, CONTENT_ENCODING)) this.contentEncoding = textOf(b, colon, to);
        break;
      case 17:
        if (!isName(b, from, TRANSFER_ENCODING)) break;
        if (this.#chunked || textOf(b, colon, to).toLowerCase() !== 'chunked') {
          return this.#break('a transfer coding that was not asked for');
        }
        this.#chunked = true;
        break;
      case 23:
        if (isName(b, from, RESPONSE_COST)) this.responseCost = textOf(b, colon, to);
    }
  }

  #length(b: Buffer, colon: number, to: number): void {
    const value = textOf(b, colon, to);
    if (this.contentLength >= 0 || !/^0*\d{1,15}$/.test(value))
      return this.#break('a malformed content-length');
    this.contentLength = Number(value);
  }

  #headEnd(): void {
    const { status } = this;
    if (status < 200) {
      if (status === 101) return this.#break('another protocol, which was not asked for');
      this.#forgetHead();
      this.#expected = STATUS_LINE;
      return;
    }
    if (this.#chunked && this.contentLength >= 0) return this.#break('both a length and chunks');
    if (this.#isHttp10) {
      if (this.#chunked) return this.#break('chunks in an HTTP/1.0 answer');
      this.reusable = false;
    }
    this.hasHead = true;
    this.#headBytes = 0;
    if (status === 204 || status === 304) this.state = 'done';
    else if (this.#chunked) this.#expected = CHUNK_SIZE;
    else if (this.contentLength >= 0) {
      this.#rest = this.contentLength;
      this.#expected = LENGTH;
      if (this.#rest === 0) this.state = 'done';
    } else {
      this.reusable = false;
      this.#expected = UNTIL_CLOSE;
    }
  }

  #chunkSize(b: Buffer, from: number, to: number): void {
    let size = 0;
    let k = from;
    for (; k < to; k++) {
      const digit = HEX[b[k] as number] as number;
      if (digit < 0 || size > MAX_CHUNK_BYTES) break;
      size = size * 16 + digit;
    }
    if (k === from || size > MAX_CHUNK_BYTES) return this.#break('a malformed chunk size');
    while (k < to && (b[k] === SPACE || b[k] === TAB)) k++;
    if (k < to && b[k] !== SEMICOLON) return this.#break('a malformed chunk size'); // chunk extensions are skipped
    this.#headBytes = 0;
    this.#rest = size;
    this.#expected = size === 0 ? TRAILER : CHUNK_DATA;
  }

  /** Takes the bytes of the body, or of a chunk, from this read. */
  #data(b: Buffer, i: number, end: number): number {
    const to = Math.min(end, i + this.#rest);
    this.#span(b, i, to);
    this.#rest -= to - i;
    if (this.#rest === 0) {
      if (this.#expected === LENGTH) this.state = 'done';
      else this.#expected = CHUNK_END;
    }
    return to;
  }

  #span(b: Buffer, from: number, to: number): void {
    if (this.bodyEnd === this.bodyStart) {
      this.hasBody = true;
      this.bodyStart = from;
      this.bodyEnd = to;
    } else {
      b.copyWithin(this.bodyEnd, from, to);
      this.bodyEnd += to - from;
    }
  }

  #forgetHead(): void {
    this.status = 0;
    this.contentType = undefined;
    this.contentEncoding = undefined;
    this.retryAfter = undefined;
    this.responseCost = undefined;
    this.reusable = true;
    this.hasBody = false;
    this.keepAliveSeconds = Number.POSITIVE_INFINITY;
    this.#headBytes = 0;
    this.contentLength = -1;
    this.#chunked = false;
  }

  #break(reason: string): void {
    this.state = 'broken';
    this.reason = reason;
    this.reusable = false;
  }
}

// the part that is expected next
const STATUS_LINE = 0;
const HEADER = 1;
const LENGTH = 2;
const CHUNK_SIZE = 3;
const CHUNK_DATA = 4;
const CHUNK_END = 5;
const TRAILER = 6;
const UNTIL_CLOSE = 7;

/** The largest head, and the largest trailers: the limit that Node has too. */
const MAX_HEAD_BYTES = 16_384;
const TOO_LARGE = 'a head larger than allowed';
const MAX_CHUNK_BYTES = 2 ** 32;

const NONE = Buffer.alloc(0);
const CONNECTION = Buffer.from('connection');
const KEEP_ALIVE = Buffer.from('keep-alive');
const RETRY_AFTER = Buffer.from('retry-after');
const CONTENT_TYPE = Buffer.from('content-type');
const CONTENT_LENGTH = Buffer.from('content-length');
const CONTENT_ENCODING = Buffer.from('content-encoding');
const TRANSFER_ENCODING = Buffer.from('transfer-encoding');
const RESPONSE_COST = Buffer.from('x-litellm-response-cost');

const SEMICOLON = 0x3b;

/** Control characters, which a line may have at its end alone. */
const CONTROL = Uint8Array.from({ length: 256 }, (_, c) =>
  (c < SPACE && c !== TAB) || c === 0x7f ? 1 : 0,
);

/** Characters of a header's name (RFC 9110, section 5.6.2). */
const TOKEN = Uint8Array.from({ length: 256 }, (_, c) =>
  /[!#$%&'*+\-.^_`|~0-9A-Za-z]/.test(String.fromCharCode(c)) ? 1 : 0,
);

/** The offset of the colon behind the name that begins the line; -1 when it has none. */
function nameEnd(b: Buffer, from: number, to: number): number {
  let k = from;
  while (k < to && TOKEN[b[k] as number] === 1) k++;
  return k > from && k < to && b[k] === COLON ? k : -1;
}

function textOf(b: Buffer, colon: number, to: number): string {
  let from = colon + 1;
  while (from < to && (b[from] === SPACE || b[from] === TAB)) from++;
  while (to > from && (b[to - 1] === SPACE || b[to - 1] === TAB)) to--;
  return b.toString('latin1', from, to);
}

/** Whether the header's name is this one, which has the same length and is in lower case. */
function isName(b: Buffer, from: number, name: Buffer): boolean {
  for (let k = 0; k < name.length; k++)
    if (((b[from + k] as number) | 0x20) !== name[k]) return false;
  return true;
}
