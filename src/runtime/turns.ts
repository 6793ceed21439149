/**
 * Runs parts of long work, a few in each turn of the event loop. Other work waits for these few only, however many want
 * to go on.
 */
export class Turns {
  readonly #waiting: (() => void)[] = [];
  readonly #ms: number;

  /** @param ms how long the parts of one turn may take together; 0: one part in each turn */
  constructor(ms = 0) {
    this.#ms = ms;
  }

  /** Calls back in a later turn, after those that entered before. */
  enter(part: () => void): void {
    this.#waiting.push(part);
    if (this.#waiting.length === 1) setImmediate(this.#next);
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
