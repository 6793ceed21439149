/** A piece of a text that was written in JSON: a whole event, or part of a large one. */
export interface Piece {
  readonly text: string;
  /** How many times itself it stands for. */
  readonly weight: number;
}

/**
 * Keeps some of a generated text while it passes, so that its tokens can be estimated. Of a
 * stream of small events, where the events count better, the first 8 and then one about
 * every 128 bytes; of others the first 4 KiB whole. Later on a piece each time the text has
 * grown by a share of itself, so that what comes late counts as much as what came early: a
 * stream of 100 KB leaves 1 KiB or 14, and none more than 16. An event that is not due
 * costs its stream one comparison.
 */
export class TextSample {
  /** An event is to be added when the text has grown beyond this. */
  due = 0;
  #kept: Buffer = NONE;
  #length = 0;
  /** Events bring a few letters each. */
  #sparse = false;
  /** Pairs: where a piece begins in the text, and where it ends in what is kept. */
  readonly #pieces: number[] = [];

  /**
   * Takes [from, to), the text of one event.
   * @param size bytes of the whole text with it
   */
  add(b: Buffer, from: number, to: number, size: number): void {
    const start = size - (to - from);
    // decided once: where to go on must not depend on what was just seen
    if (this.#pieces.length === 2 * FIRST_EVENTS) this.#sparse = start < SMALL * FIRST_EVENTS;
    // an event is kept whole: it ends where a token ends
    let at = to - from <= PIECE ? start : Math.max(start, this.due);
    while (at < size && this.#length <= MOST) {
      const taken = Math.min(size - at, PIECE);
      this.#keep(b, from + at - start, taken, at);
      if (this.#sparse) at += Math.max(128, at >> 4);
      else at = Math.max(at + taken, at < FIRST ? 0 : at + (at >> 7));
    }
    this.due = this.#length <= MOST ? at : Number.POSITIVE_INFINITY;
  }

  /**
   * A piece stands for all up to the next. The larger an event the likelier it was kept, so
   * each tells its tokens per byte: sums of both would favour texts of long words.
   * @param size bytes of the whole text
   */
  read(size: number): readonly Piece[] {
    const pieces: Piece[] = [];
    let from = 0;
    for (let k = 0; k < this.#pieces.length; k += 2) {
      const to = this.#pieces[k + 1] as number;
      const share = (this.#pieces[k + 2] ?? size) - (this.#pieces[k] as number);
      pieces.push({ text: unescapeJson(this.#kept.utf8Slice(from, to)), weight: share / (to - from) });
      from = to;
    }
    return pieces;
  }

  #keep(b: Buffer, from: number, size: number, at: number): void {
    const length = this.#length;
    let kept = this.#kept;
    if (length + size > kept.length) {
      // not of Node's pool: a stream that lasts would keep the 64 KiB alive that others have long left
      kept = Buffer.allocUnsafeSlow(Math.min(MOST + PIECE, Math.max(256, 2 * kept.length, length + size)));
      this.#kept.copy(kept, 0, 0, length);
      this.#kept = kept;
    }
    b.copy(kept, length, from, from + size);
    this.#length = length + size;
    this.#pieces.push(at, this.#length);
  }
}

const NONE = Buffer.alloc(0);
/** An event with less text than this holds few tokens. */
const SMALL = 12;
const FIRST_EVENTS = 8;
const FIRST = 4096;
const PIECE = 256;
/** Nothing more is kept beyond this. */
const MOST = 16_384 - PIECE;

/** The text of JSON string content; what was cut in two stays as it is. */
export function unescapeJson(text: string): string {
  if (!text.includes('\\')) return text;
  return text.replace(/\\(?:u([\dA-Fa-f]{4})|(.))/g, (_, code: string | undefined, char: string) =>
    code === undefined ? (ESCAPES[char] ?? char) : String.fromCharCode(Number.parseInt(code, 16)),
  );
}

const ESCAPES: Readonly<Record<string, string>> = { n: '\n', t: '\t', r: '\r', b: '\b', f: '\f' };
