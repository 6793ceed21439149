const NONE = Buffer.alloc(0);
/** An event with fewer bytes of text than this is small: it holds few tokens. */
const SMALL = 12;
/** Events after which it is decided whether events are small on average. */
const FIRST_EVENTS = 8;
/** Bytes of text that are kept whole if events are not small. */
const FIRST = 4096;
/** Most bytes of one piece. */
const PIECE = 256;
/** Bytes after which no more is kept. */
const MOST = 16_384 - PIECE;

const ESCAPES: Readonly<Record<string, string>> = { n: '\n', t: '\t', r: '\r', b: '\b', f: '\f' };

/** A part of a generated text: the text of one event, or part of it. */
export interface Piece {
  readonly text: string;
  /** How many times the piece it represents. */
  readonly weight: number;
}

/**
 * Keeps pieces of a streamed text, so that its tokens can be estimated: the first 8 small events or
 * 4 KiB, then one piece each time the text has grown by a fixed share. A text of 100 KB leaves 1 KiB
 * (small events) or 14 KiB. An event that is not kept costs one comparison.
 */
export class TextSample {
  /** An event is added when the text with it is longer than this. */
  due = 0;
  #kept: Buffer = NONE;
  #length = 0;
  /** Whether events are small on average. */
  #sparse = false;
  /** Pairs: where a piece begins in the text, and where it ends in `#kept`. */
  readonly #pieces: number[] = [];

  /**
   * Adds [from, to), the text of one event.
   * @param size bytes of the whole text so far, this event included
   */
  add(b: Buffer, from: number, to: number, size: number): void {
    const start = size - (to - from);
    // decided once: which text is kept must not depend on that text
    if (this.#pieces.length === 2 * FIRST_EVENTS) this.#sparse = start < SMALL * FIRST_EVENTS;
    // a small event is kept whole, because it ends where a token ends
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
   * The pieces. Each represents the text up to the next one, so its weight is per byte: large events
   * are kept more often than small ones, and unweighted sums would favour long words.
   * @param size bytes of the whole text
   * @param after bytes at its beginning that do not count
   */
  read(size: number, after = 0): readonly Piece[] {
    const pieces: Piece[] = [];
    let from = 0;
    for (let k = 0; k < this.#pieces.length; k += 2) {
      const to = this.#pieces[k + 1] as number;
      const cut = Math.max(0, Math.round(after) - (this.#pieces[k] as number));
      const share = (this.#pieces[k + 2] ?? size) - (this.#pieces[k] as number) - cut;
      const start = from + cut;
      if (start < to) {
        pieces.push({
          text: unescapeJson(this.#kept.toString('utf8', start, to)),
          weight: share / (to - start),
        });
      }
      from = to;
    }
    return pieces;
  }

  /** The beginning of the text, until the first gap: of small events at least eight, of others 4 KiB. */
  beginning(): string {
    let end = 0;
    for (let k = 0; k < this.#pieces.length && this.#pieces[k] === end; k += 2)
      end = this.#pieces[k + 1] as number;
    return unescapeJson(this.#kept.toString('utf8', 0, end));
  }

  #keep(b: Buffer, from: number, size: number, at: number): void {
    const length = this.#length;
    let sample = this.#kept;
    if (length + size > sample.length) {
      // not from Node's pool, of which a long stream would keep 64 KiB alive
      sample = Buffer.allocUnsafeSlow(
        Math.min(MOST + PIECE, Math.max(256, 2 * sample.length, length + size)),
      );
      this.#kept.copy(sample, 0, 0, length);
      this.#kept = sample;
    }
    b.copy(sample, length, from, from + size);
    this.#length = length + size;
    this.#pieces.push(at, this.#length);
  }
}

/** The text of JSON string content. An escape that was cut stays as it is. */
export function unescapeJson(text: string): string {
  if (!text.includes('\\')) return text;
  return text.replace(/\\(?:u([\dA-Fa-f]{4})|(.))/g, (_, code: string | undefined, char: string) =>
    code === undefined ? (ESCAPES[char] ?? char) : String.fromCharCode(Number.parseInt(code, 16)),
  );
}
