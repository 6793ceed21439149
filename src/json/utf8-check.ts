import { isUtf8 } from 'node:buffer';
import { sequenceLength } from './bytes.ts';

/** Checks that chunks together are UTF-8. A sequence that a chunk cuts is checked with the next chunk. */
export class Utf8Check {
  /** The beginning of the sequence at the end of the last chunk. */
  readonly #cut = Buffer.alloc(4);
  #cutLength = 0;

  /** Whether the last chunk ended inside a sequence. */
  get isCut(): boolean {
    return this.#cutLength > 0;
  }

  /** @returns false if the bytes so far are not UTF-8 */
  push(b: Buffer): boolean {
    let from = 0;
    if (this.#cutLength > 0) {
      const whole = sequenceLength(this.#cut[0] as number);
      while (this.#cutLength < whole && from < b.length)
        this.#cut[this.#cutLength++] = b[from++] as number;
      if (this.#cutLength < whole) return true;
      this.#cutLength = 0;
      if (!isUtf8(this.#cut.subarray(0, whole))) return false;
    }
    let to = b.length;
    for (let k = 1; k <= 3 && to - k >= from; k++) {
      const c = b[to - k] as number;
      if ((c & 0xc0) === 0x80) continue;
      if (sequenceLength(c) > k) {
        to -= k;
        this.#cutLength = b.copy(this.#cut, 0, to);
      }
      break;
    }
    return isUtf8(from === 0 && to === b.length ? b : b.subarray(from, to));
  }
}
