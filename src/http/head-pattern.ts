import { CR, DIGIT_0, LF, SPACE } from '../json/bytes.ts';

/** The longest head that is kept with its connection. */
const MOST_BYTES = 4096;
/** The longest token, in bytes. */
const MOST_TOKEN = 512;

/**
 * The head of an HTTP/1.1 request (RFC 9112) as a pattern for later requests: a client sends the same head again
 * and again, with another length of the body and perhaps another key. A head that is equal byte for byte, except for
 * the number in the place of the length and the token in the place of the key, needs no parser: it means the same.
 *
 *   POST /v1/chat/completions HTTP/1.1⏎host: …⏎authorization: Bearer ░░░░⏎content-length: ░░⏎…⏎⏎
 *   '-------- fixed part ----------------------------------------'    '--- fixed part ---'  '-'
 *
 * Pure: no socket, no clock.
 */
export class HeadPattern {
  /** Length and bearer token (latin1) of the head that was matched last; the token is null where the pattern has none. */
  contentLength: number;
  token: string | null;
  /** Whether that head had the token of the pattern's own head. */
  sameToken = true;

  readonly #bytes: Buffer;
  readonly #length: number;
  readonly #token: string | null;
  readonly #fixedParts: Buffer[] = [];
  readonly #holes: ('length' | 'token')[] = [];

  private constructor(bytes: Buffer, length: Hole, token: Hole | null) {
    this.#bytes = bytes;
    this.#length = this.contentLength = Number(bytes.toString('latin1', length.from, length.to));
    this.#token = this.token =
      token === null ? null : bytes.toString('latin1', token.from, token.to);
    const holes = token === null ? [length] : [length, token].sort((a, b) => a.from - b.from);
    let at = 0;
    for (const hole of holes) {
      this.#fixedParts.push(bytes.subarray(at, hole.from));
      this.#holes.push(hole === length ? 'length' : 'token');
      at = hole.to;
    }
    this.#fixedParts.push(bytes.subarray(at));
  }

  /**
   * Makes a pattern of a head that Node's parser has accepted, its blank line included.
   * @param head is copied
   * @returns null when the head is too long, or has no length in the usual form
   */
  static of(head: Buffer): HeadPattern | null {
    if (head.length > MOST_BYTES) return null;
    const text = head.toString('latin1');
    const length = onlyHole(text, LENGTH, LENGTH_NAME);
    if (length === null) return null;
    const copy = Buffer.allocUnsafeSlow(head.length); // a slice of Node's pool would keep all of that alive with the connection
    head.copy(copy);
    return new HeadPattern(copy, length, onlyHole(text, TOKEN, TOKEN_NAME));
  }

  /**
   * @param end of the bytes
   * @returns where the body begins; -1 when they do not begin with a whole head of this pattern
   */
  match(bytes: Buffer, end: number): number {
    // with keys that alternate on a connection, the whole head never matches: skip that comparison
    if (this.sameToken && startsAt(bytes, 0, end, this.#bytes)) {
      this.contentLength = this.#length;
      this.token = this.#token;
      return this.#bytes.length;
    }
    let at = 0;
    for (let i = 0; i < this.#holes.length; i++) {
      const part = this.#fixedParts[i] as Buffer;
      if (!startsAt(bytes, at, end, part)) return -1;
      at += part.length;
      at =
        this.#holes[i] === 'length'
          ? this.#readLength(bytes, at, end)
          : this.#readToken(bytes, at, end);
      if (at < 0) return -1;
    }
    const last = this.#fixedParts.at(-1) as Buffer;
    return startsAt(bytes, at, end, last) ? at + last.length : -1;
  }

  /** Reads a number without leading zeros. @returns the offset behind it, or -1 */
  #readLength(bytes: Buffer, at: number, end: number): number {
    const from = at;
    let length = 0;
    for (; at < end && at - from < 8; at++) {
      const digit = (bytes[at] as number) - DIGIT_0;
      if (digit < 0 || digit > 9) break;
      length = length * 10 + digit;
    }
    if (at === from || (bytes[from] === DIGIT_0 && at > from + 1)) return -1;
    this.contentLength = length;
    return at;
  }

  /** Reads visible characters up to the line's end. @returns the offset behind them, or -1 */
  #readToken(bytes: Buffer, from: number, end: number): number {
    let at = from;
    while (at < end && (bytes[at] as number) > SPACE && (bytes[at] as number) < DELETE) at++;
    if (at === from || at - from > MOST_TOKEN) return -1;
    this.token = bytes.toString('latin1', from, at);
    this.sameToken = this.token === this.#token;
    return at;
  }
}

interface Hole {
  readonly from: number;
  readonly to: number;
}

const DELETE = 0x7f;
const LENGTH_NAME = /\r\ncontent-length/gi;
const LENGTH = /\r\ncontent-length: (0|[1-9]\d{0,7})(?=\r\n)/gi;
const TOKEN_NAME = /\r\nauthorization/gi;
const TOKEN = /\r\nauthorization: bearer ([!-~]{1,512})(?=\r\n)/gi;

/** Where the value of a header stands; null unless the header is there once and in the usual form. */
function onlyHole(text: string, form: RegExp, name: RegExp): Hole | null {
  const found = [...text.matchAll(form)];
  const [only] = found;
  if (only === undefined || found.length > 1 || text.match(name)?.length !== 1) return null;
  const to = only.index + only[0].length;
  return { from: to - (only[1] as string).length, to };
}

function startsAt(bytes: Buffer, at: number, end: number, part: Buffer): boolean {
  const to = at + part.length;
  return to <= end && bytes.compare(part, 0, part.length, at, to) === 0;
}

/**
 * Where the head that begins at `start` ends, behind its blank line.
 * @returns -1 when the bytes hold no whole one, or empty lines stand before it
 */
export function headEnd(bytes: Buffer, start: number): number {
  if (bytes[start] === CR || bytes[start] === LF) return -1;
  const blank = bytes.indexOf(BLANK_LINE, start);
  return blank < 0 ? -1 : blank + BLANK_LINE.length;
}

const BLANK_LINE = Buffer.from([CR, LF, CR, LF]);
