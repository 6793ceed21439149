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

/** Collects a whole body, up to a limit. `bytes` may be a view of the buffer pushed last, and lives as long as that. */
export class AnswerBody {
  readonly #limit: number;
  #first: Buffer | null = null; // most bodies come in one read
  #rest: Buffer[] | null = null;
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
    this.#size += bytes.length;
    if (this.#size > this.#limit) this.overflown = true;
    else if (this.#first === null) this.#first = last ? bytes : Buffer.from(bytes);
    else {
      this.#rest ??= [this.#first];
      this.#rest.push(last ? bytes : Buffer.from(bytes));
    }
  }

  /** Bytes that came so far. */
  get size(): number {
    return this.#size;
  }

  get bytes(): Buffer {
    if (this.#rest !== null) return Buffer.concat(this.#rest);
    return this.#first ?? Buffer.alloc(0);
  }
}
