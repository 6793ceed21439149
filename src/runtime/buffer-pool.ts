/** Unused buffers of a size kept: a stream that ends keeps its own until it is booked, as may others that end with it. */
const MAX_FREE = 32;

/**
 * Buffers of two sizes, lent to one user at a time. A new buffer for each write is garbage outside
 * V8's heap, and V8 collects that by marking its whole heap: a third of the CPU of busy streams.
 */
export class BufferPool {
  readonly #size: number;
  readonly #largeSize: number;
  readonly #free: Buffer[] = [];
  readonly #largeFree: Buffer[] = [];

  /** @param largeSize in bytes, like `size` */
  constructor(size: number, largeSize: number) {
    this.#size = size;
    this.#largeSize = largeSize;
  }

  take(isLarge = false): Buffer {
    if (isLarge) return this.#largeFree.pop() ?? Buffer.allocUnsafeSlow(this.#largeSize);
    return this.#free.pop() ?? Buffer.allocUnsafeSlow(this.#size);
  }

  /** Returns a buffer that nobody uses any more. */
  give(buffer: Buffer): void {
    const free = buffer.length > this.#size ? this.#largeFree : this.#free;
    if (free.length < MAX_FREE) free.push(buffer);
  }
}
