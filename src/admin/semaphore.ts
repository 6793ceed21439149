/** Too many tasks are waiting already. Nothing was done. */
export class Busy extends Error {
  override readonly name = 'Busy';
}

/**
 * Runs at most `permits` tasks at once, lets at most `queue` more wait in order, and refuses the
 * rest. Libraries such as p-limit queue without a bound; a bound around one is as long as this class.
 */
export class Semaphore {
  #free: number;
  readonly #queue: number;
  readonly #waiting: (() => void)[] = [];

  constructor(options: { readonly permits: number; readonly queue: number }) {
    this.#free = options.permits;
    this.#queue = options.queue;
  }

  /** Runs a task when it gets a permit. @throws Busy; errors of the task pass through */
  async run<T>(task: () => T | Promise<T>): Promise<T> {
    const release = await this.acquire();
    try {
      return await task();
    } finally {
      release();
    }
  }

  /** Waits for a permit. @returns the function that gives it back, to be called once @throws Busy */
  async acquire(): Promise<() => void> {
    if (this.#free > 0) this.#free--;
    else if (this.#waiting.length >= this.#queue) throw new Busy('too many at once');
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    return () => {
      const next = this.#waiting.shift();
      if (next === undefined) this.#free++;
      else next(); // takes over the permit
    };
  }
}
