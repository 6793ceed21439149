/** Milliseconds from one turn to the next that counts. */
const TURN_MS = 20;
/** Turns without progress after which nothing more is expected: a second where the machine is quiet. */
const MOST_TURNS = 50;

/**
 * Waits for something on this machine without a look at the clock: it counts turns of the event loop, each of which reads
 * what has come. A process that gets no CPU has no turns, so a busy machine is not taken for one that does nothing.
 */
export class Patience {
  /** It ended because nothing happened. */
  isOver = false;
  #turns = 0;
  readonly #timer: NodeJS.Timeout;

  /** @param onOver called once where nothing happens any more */
  constructor(onOver: () => void) {
    this.#timer = setInterval(() => {
      if (++this.#turns < MOST_TURNS) return;
      this.isOver = true;
      this.end();
      onOver();
    }, TURN_MS);
  }

  /** Something happened: the wait begins again. */
  progress(): void {
    this.#turns = 0;
  }

  end(): void {
    clearInterval(this.#timer);
  }
}
