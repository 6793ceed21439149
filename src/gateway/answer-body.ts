import type { AnswerHead } from '../upstream/upstream.ts';

export function isEventStream(head: AnswerHead): boolean {
  return /^text\/event-stream\b/i.test(head.contentType ?? '') && isIdentity(head);
}

export function isJson(head: AnswerHead): boolean {
  return /^application\/(?:[\w.-]+\+)?json\b/i.test(head.contentType ?? '') && isIdentity(head);
}

/** The gateway asks for no compression; an answer that is compressed nevertheless cannot be edited. */
function isIdentity({ contentEncoding }: AnswerHead): boolean {
  return contentEncoding === undefined || contentEncoding.toLowerCase() === 'identity';
}

/** How much is kept of an answer that tells a failure: it has the reason. */
export const MAX_FAILURE_BYTES = 1024 * 1024;

const NONE = Buffer.alloc(0);

/** Collects a whole body, up to a limit. `bytes` may be a view of the buffer that was pushed last, and is valid as long as that. */
export class AnswerBody {
  readonly #limit: number;
  /** Has the body at its beginning: most bodies come in one read, and are not copied. */
  #buffer: Buffer = NONE;
  #size = 0;
  /** More arrived than is kept. */
  overflown = false;

  constructor(limit: number) {
    this.#limit = limit;
  }

  /**
   * @param bytes copied, unless they are the whole body
   * @param last no more follow
   */
  push(bytes: Buffer, last: boolean): void {
    if (this.overflown) return;
    const before = this.#size;
    this.#size += bytes.length;
    if (this.#size > this.#limit) this.overflown = true;
    else if (last && before === 0) this.#buffer = bytes;
    else {
      if (this.#size > this.#buffer.length) this.#grow(before);
      bytes.copy(this.#buffer, before);
    }
  }

  /** Twice what is there, so that a body in pieces of any size is copied three times at most. */
  #grow(kept: number): void {
    const larger = Buffer.allocUnsafe(Math.min(2 * this.#size, this.#limit));
    this.#buffer.copy(larger, 0, 0, kept);
    this.#buffer = larger;
  }

  /** Bytes that came so far. */
  get size(): number {
    return this.#size;
  }

  get bytes(): Buffer {
    return this.#buffer.length === this.#size ? this.#buffer : this.#buffer.subarray(0, this.#size);
  }
}
