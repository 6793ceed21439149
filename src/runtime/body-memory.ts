import { IdleInterval } from './idle-interval.ts';

/** Measured: from 2 to 6 MiB it is all the same, with 8 and 16 bodies of 16 KiB cost more than without. */
const MOST_BYTES = 4 * 1_048_576;
const SLAB_BYTES = 262_144;
/** Unused slabs kept: 64 MiB. */
const MOST_FREE = 256;
/** How often it is seen whether slabs are used; after ten looks in a row that saw none they go. */
const LOOK_MS = 1000;
/** Smaller pieces are not worth a call each. */
const LEAST_FREED = 4096;

/**
 * The memory that request bodies take, which is outside V8's heap.
 *
 * That of small ones is counted, and V8 made to collect its young generation before it is much.
 * V8 would do so when its heap is full, and a request leaves little there: bodies waited by tens
 * of megabytes, until V8 marked its whole heap for them, and every one of them came in memory
 * that no cache held. Collected after 4 MiB, which takes a millisecond, the same memory serves
 * again: 44 instead of 56 µs for a body of 16 KiB.
 *
 * Large ones lie in slabs, lent to one body at a time. As garbage, 20 MiB had V8 mark its whole
 * heap nearly every time: pauses of 17 ms, where 4 to 10 are left, and a quarter of the CPU. Memory
 * that the system has to clear before it serves was as much again, more than the copy costs.
 */
export class BodyMemory {
  readonly #collectYoung: (() => void) | null;
  #bytes = 0;
  #free: Buffer[] = [];
  #lent = false;
  readonly #interval = new IdleInterval(
    LOOK_MS,
    () => {
      const lent = this.#lent;
      this.#lent = false;
      return lent;
    },
    () => {
      this.#free = [];
    },
  );

  /** @param collectYoung null where the process is somebody else's */
  constructor(collectYoung: (() => void) | null) {
    this.#collectYoung = collectYoung;
  }

  /** A small body came, in memory of its own. */
  took(bytes: number): void {
    this.#bytes += bytes;
    if (this.#bytes < MOST_BYTES) return;
    this.#bytes = 0;
    this.#collectYoung?.();
  }

  /** A slab, for one borrower; what is in it is somebody else's. */
  lend(): Buffer {
    this.#lent = true;
    return this.#free.pop() ?? Buffer.allocUnsafeSlow(SLAB_BYTES);
  }

  /** Nothing uses the slabs any more. Those that are never given back are garbage as any other. */
  giveBack(slabs: readonly Buffer[]): void {
    for (const slab of slabs) if (this.#free.length < MOST_FREE) this.#free.push(slab);
    this.#interval.wake();
  }
}

/** The memory of one large body. */
export class Lease {
  readonly #memory: BodyMemory;
  #slabs: Buffer[] = [];
  /** Of the last slab. */
  #used = SLAB_BYTES;

  constructor(memory: BodyMemory) {
    this.#memory = memory;
  }

  /** Takes a copy. */
  add(piece: Buffer): void {
    for (let from = 0; from < piece.length; ) {
      if (this.#used === SLAB_BYTES) {
        this.#slabs.push(this.#memory.lend());
        this.#used = 0;
      }
      const copied = piece.copy(this.#slabs.at(-1) as Buffer, this.#used, from);
      this.#used += copied;
      from += copied;
    }
  }

  /** What was added, until the lease ends. */
  get pieces(): Buffer[] {
    const last = this.#slabs.length - 1;
    return this.#slabs.map((slab, k) => (k < last ? slab : slab.subarray(0, this.#used)));
  }

  /** Nobody looks at the pieces any more: other bodies are written over them. */
  end(): void {
    const slabs = this.#slabs;
    this.#slabs = []; // a slab given back twice would be lent to two bodies
    this.#used = SLAB_BYTES;
    this.#memory.giveBack(slabs);
  }
}

/**
 * Frees the memory of a piece of which a copy was made, where Node would leave it to the
 * collector: the next piece comes in the same memory, which the cache holds.
 */
export function free({ buffer, length }: Buffer): void {
  // a part of a larger buffer is not ours alone
  if (length >= LEAST_FREED && length === buffer.byteLength) (buffer as ArrayBuffer).transfer(0);
}
