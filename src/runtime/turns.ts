/**
 * Parts of long work, one in each turn of the event loop: what else there is to do waits for one part at most,
 * however many want to go on.
 */
export class Turns {
  readonly #waiting: (() => void)[] = [];
  readonly #next = (): void => {
    const part = this.#waiting.shift();
    if (this.#waiting.length > 0) setImmediate(this.#next);
    part?.();
  };

  /** Calls back in a later turn, after those that entered before. */
  enter(part: () => void): void {
    this.#waiting.push(part);
    if (this.#waiting.length === 1) setImmediate(this.#next);
  }
}
