/** Unused buffers kept: a stream that ends keeps its own until it is booked, as may others that end with it. */
const MAX_FREE = 32;

/**
 * Buffers of one size, lent to one user at a time. A new buffer for each write is garbage outside
 * V8's heap, and V8 collects that by marking its whole heap: a third of the CPU of busy streams.
 */
export class BufferPool {
  readonly #size: number;
  readonly #free: Buffer[] = [];

  constructor(size: number) {
    this.#size = size;
  }

  take(): Buffer {
    return this.#free.pop() ?? Buffer.allocUnsafeSlow(this.#size);
  }

  /** Returns a buffer that nobody uses any more. */
  give(buffer: Buffer): void {
    if (this.#free.length < MAX_FREE) this.#free.push(buffer);
  }
}
