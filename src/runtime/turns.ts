/** How long after the last other work nobody else is thought to ask for any. */
const ALONE_MS = 1000;

/**
 * Runs parts of long work, a few in each turn of the event loop. Other work waits for these few only, however many want
 * to go on.
 */
export class Turns {
  readonly #waiting: (() => void)[] = [];
  readonly #ms: number;
  /** Other work was noted since that was last looked at; and when it was noted, in monotonic milliseconds. */
  #hadOther = false;
  #otherAt = Number.NEGATIVE_INFINITY;

  /** @param ms how long the parts of one turn may take together; 0: one part in each turn */
  constructor(ms = 0) {
    this.#ms = ms;
  }

  /** Calls back in a later turn, after those that entered before. */
  enter(part: () => void): void {
    this.#waiting.push(part);
    if (this.#waiting.length === 1) setImmediate(this.#next);
  }

  /** Notes other work, which waits as long as a part takes. */
  noteOther(): void {
    this.#hadOther = true;
  }

  /** Whether there was no other work of late: parts may be longer. */
  get isAlone(): boolean {
    const now = performance.now();
    if (this.#hadOther) this.#otherAt = now;
    this.#hadOther = false;
    return now - this.#otherAt > ALONE_MS;
  }

  readonly #next = (): void => {
    const until = performance.now() + this.#ms;
    // parts that arrive meanwhile come after those of this turn
    const parts = this.#ms === 0 ? 1 : this.#waiting.length;
    let done = 0;
    try {
      do {
        (this.#waiting[done++] as () => void)();
      } while (done < parts && performance.now() < until);
    } finally {
      this.#waiting.splice(0, done);
      if (this.#waiting.length > 0) setImmediate(this.#next);
    }
  };
}
