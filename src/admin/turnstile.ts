/** There are too many before you. Nothing was done. */
export class Busy extends Error {
  override readonly name = 'Busy';
}

/**
 * Lets a bounded number of tasks run at once and a bounded number wait; who comes beyond
 * that is refused at once.
 */
export class Turnstile {
  readonly #atOnce: number;
  readonly #places: number;
  #running = 0;
  readonly #waiting: (() => void)[] = [];

  constructor(options: { readonly atOnce: number; readonly places: number }) {
    this.#atOnce = options.atOnce;
    this.#places = options.places;
  }

  /** @throws Busy; errors of the work pass through */
  async run<T>(work: () => Promise<T>): Promise<T> {
    const leave = await this.enter();
    try {
      return await work();
    } finally {
      leave();
    }
  }

  /** Waits for a turn; the function it gives ends it, and is to be called once. @throws Busy */
  async enter(): Promise<() => void> {
    if (this.#running < this.#atOnce) this.#running++;
    else if (this.#waiting.length >= this.#places) throw new Busy('too many at once');
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    return () => {
      const next = this.#waiting.shift();
      if (next === undefined) this.#running--;
      else next(); // the turn is handed over
    };
  }
}
