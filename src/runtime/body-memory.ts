import { IdleInterval } from './idle-interval.ts';
import { Turns } from './turns.ts';

/** Small bodies read before V8 is asked to collect: 2 to 6 MiB measured the same, 8 and 16 no better than without. */
const COLLECT_BYTES = 4 * 1_048_576;
const SLAB_BYTES = 262_144;
/** Unused slabs kept: 64 MiB, and those above that were used since the last check. */
const MAX_FREE = 256;
/** How often the use of slabs is checked; after ten checks in a row without any the unused ones go. */
const CHECK_MS = 1000;
/** How long one turn of the event loop may check large bodies, while there is other work. */
const WHOLE_MS = 3;
/** Freeing a smaller piece costs more than it saves. */
const LEAST_FREED = 4096;

/**
 * The memory of request bodies, outside V8's heap. Every 4 MiB of small bodies V8 collects its young generation: left
 * alone it waits for tens of megabytes (56 instead of 44 µs for 16 KiB). Large bodies lie in slabs, lent to one at a
 * time: as garbage, 20 MiB had V8 mark its whole heap and pause for 17 ms instead of 4 to 10.
 */
export class BodyMemory {
  /** The turns in which large bodies are read. */
  readonly turns = new Turns();
  /** The turns in which large bodies that are whole are checked: some of them in each turn. */
  readonly wholeTurns = new Turns(WHOLE_MS);
  readonly #collectYoung: (() => void) | undefined;
  #bytes = 0;
  #free: Buffer[] = [];
  #lent = false;
  /** The fewest slabs that were free since the last check: these were not needed. */
  #spare = 0;
  readonly #interval = new IdleInterval(
    CHECK_MS,
    () => {
      const lent = this.#lent;
      this.#lent = false;
      const surplus = Math.min(this.#spare, this.#free.length - MAX_FREE);
      if (surplus > 0) for (const slab of this.#free.splice(0, surplus)) free(slab);
      this.#spare = this.#free.length;
      return lent;
    },
    () => {
      this.#free = [];
    },
  );

  /** @param collectYoung makes V8 collect its young generation; missing in a process that is not the gateway's own */
  constructor(collectYoung?: () => void) {
    this.#collectYoung = collectYoung;
  }

  /** Notes a small body, which has memory of its own. */
  noteSmall(bytes: number): void {
    this.turns.noteOther();
    this.#bytes += bytes;
    if (this.#bytes < COLLECT_BYTES) return;
    this.#bytes = 0;
    this.#collectYoung?.();
  }

  /** Lends a slab. It still holds bytes of another body. */
  lend(): Buffer {
    this.#lent = true;
    const slab = this.#free.pop() ?? Buffer.allocUnsafeSlow(SLAB_BYTES);
    this.#spare = Math.min(this.#spare, this.#free.length);
    return slab;
  }

  /** Takes back slabs that nobody uses any more. Slabs never given back are collected as any garbage. */
  giveBack(slabs: readonly Buffer[]): void {
    this.#free.push(...slabs);
    this.#interval.wake();
  }
}

/** The memory of one large body. */
export class LentSlabs {
  readonly #memory: BodyMemory;
  #slabs: Buffer[] = [];
  /** Bytes used of the last slab. */
  #used = SLAB_BYTES;

  constructor(memory: BodyMemory) {
    this.#memory = memory;
  }

  /** Copies a piece. */
  add(piece: Buffer): void {
    for (let from = 0; from < piece.length; ) {
      const copied = piece.copy(this.#last(), this.#used, from);
      this.#used += copied;
      from += copied;
    }
  }

  /** Memory for the next bytes, at most so many of them: they are written there, and then told to `fill`. */
  room(most: number): Buffer {
    const slab = this.#last();
    return slab.subarray(this.#used, Math.min(SLAB_BYTES, this.#used + most));
  }

  /** Adds the bytes that were written to the beginning of the room. @returns them */
  fill(bytes: number): Buffer {
    const from = this.#used;
    this.#used += bytes;
    return (this.#slabs.at(-1) as Buffer).subarray(from, this.#used);
  }

  /** The slab that has room. */
  #last(): Buffer {
    if (this.#used === SLAB_BYTES) {
      this.#slabs.push(this.#memory.lend());
      this.#used = 0;
    }
    return this.#slabs.at(-1) as Buffer;
  }

  /** The bytes that were added, until they are given back. */
  get pieces(): Buffer[] {
    const last = this.#slabs.length - 1;
    return this.#slabs.map((slab, k) => (k < last ? slab : slab.subarray(0, this.#used)));
  }

  /** Other bodies are written over the pieces. */
  giveBack(): void {
    const slabs = this.#slabs;
    this.#slabs = []; // a slab given back twice would be lent to two bodies
    this.#used = SLAB_BYTES;
    this.#memory.giveBack(slabs);
  }
}

/** Frees the memory of a copied piece at once: the next piece then comes in memory that the cache still holds. */
export function free({ buffer, length }: Buffer): void {
  // a part of a larger buffer shares its memory with others
  if (length >= LEAST_FREED && length === buffer.byteLength) (buffer as ArrayBuffer).transfer(0);
}
