import { free } from '../../runtime/body-memory.ts';
import type { AnswerHead } from '../../upstream/upstream.ts';

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
  readonly #announced: number;
  /** Has the body at its beginning: most bodies come in one read, and are not copied. */
  #buffer: Buffer = NONE;
  /** The buffer is this body's own. */
  #owned = false;
  #size = 0;
  /** More arrived than is kept; what fits is. */
  overflown = false;

  /** @param announced how long it will be, as far as was told: a body that is announced is copied once */
  constructor(limit: number, announced = 0) {
    this.#limit = limit;
    this.#announced = announced;
  }

  /**
   * @param bytes copied, unless they are the whole body
   * @param last no more follow
   */
  push(bytes: Buffer, last: boolean): void {
    if (this.overflown) return;
    const before = this.#size;
    if (before + bytes.length > this.#limit) {
      this.overflown = true;
      bytes = bytes.subarray(0, this.#limit - before);
    }
    this.#size += bytes.length;
    if (last && before === 0) this.#buffer = bytes;
    else {
      if (this.#size > this.#buffer.length) this.#grow(before);
      bytes.copy(this.#buffer, before);
    }
  }

  /** All that was announced, or twice what is there, so that a body in pieces of any size is copied three times at most. */
  #grow(kept: number): void {
    const room = this.#announced >= this.#size ? this.#announced : 2 * this.#size;
    const larger = Buffer.allocUnsafeSlow(Math.min(room, this.#limit));
    this.#buffer.copy(larger, 0, 0, kept);
    if (this.#owned) free(this.#buffer); // as garbage, several buffers of one large body would wait for V8
    this.#buffer = larger;
    this.#owned = true;
  }

  /** Frees the memory at once; `bytes` are not to be used any more. */
  release(): void {
    if (this.#owned) free(this.#buffer);
    this.#buffer = NONE;
    this.#size = 0;
  }

  /** Bytes that are kept. */
  get size(): number {
    return this.#size;
  }

  get bytes(): Buffer {
    return this.#buffer.length === this.#size ? this.#buffer : this.#buffer.subarray(0, this.#size);
  }
}

/** How much is kept of the end of an answer that is too large to be held. */
const END_BYTES = 16_384;
/** How much is read beyond what is held, to learn what the upstream charged. */
const MOST_BEYOND = 256 * 1024 * 1024;

/** The end of an answer that is too large to be held: what stands behind the result, such as a usage, is in it. */
export class AnswerEnd {
  #bytes: Buffer;
  readonly #held: number;
  #beyond = 0;

  /** @param held what came so far; copied as far as it is kept */
  constructor(held: Buffer) {
    this.#held = Math.max(1, held.length);
    this.#bytes = Buffer.from(held.subarray(-END_BYTES));
  }

  get bytes(): Buffer {
    return this.#bytes;
  }

  /** How many times as long as what was held the answer is, as far as it came. */
  get growth(): number {
    return 1 + this.#beyond / this.#held;
  }

  /** @returns false when nothing more is to be read: the answer may have no end */
  push(bytes: Buffer): boolean {
    this.#beyond += bytes.length;
    const last = bytes.subarray(-END_BYTES);
    this.#bytes = Buffer.concat([
      this.#bytes.subarray(Math.max(0, this.#bytes.length + last.length - END_BYTES)),
      last,
    ]);
    return this.#beyond <= MOST_BEYOND;
  }
}
