/** Too many tasks are waiting already. Nothing was done. */
export class Busy extends Error {
  override readonly name = 'Busy';
}

/** A task that waits for a permit. */
interface Waiting {
  readonly who: string;
  readonly begin: () => void;
}

/**
 * Runs at most `permits` tasks at once, lets at most `queue` more wait in order, and refuses the rest. One company, or
 * one user of none, gets half of both at most, so what takes minutes keeps nobody else waiting. Libraries such as
 * p-limit queue without a bound; a bound around one is as long as this class.
 */
export class Semaphore {
  #free: number;
  readonly #queue: number;
  readonly #mostPermits: number;
  readonly #mostWaiting: number;
  readonly #waiting: Waiting[] = [];
  /** Permits by who holds them. */
  readonly #held = new Map<string, number>();

  constructor(options: { readonly permits: number; readonly queue: number }) {
    this.#free = options.permits;
    this.#queue = options.queue;
    this.#mostPermits = Math.ceil(options.permits / 2);
    this.#mostWaiting = Math.ceil(options.queue / 2);
  }

  /** Runs a task when it gets a permit. @throws Busy; errors of the task pass through */
  async run<T>(who: string, task: () => T | Promise<T>): Promise<T> {
    const release = await this.acquire(who);
    try {
      return await task();
    } finally {
      release();
    }
  }

  /** Waits for a permit. @returns the function that gives it back, to be called once @throws Busy */
  async acquire(who: string): Promise<() => void> {
    if (this.#mayTake(who)) this.#take(who);
    else {
      const own = this.#waiting.filter((waiting) => waiting.who === who).length;
      if (own >= this.#mostWaiting || this.#waiting.length >= this.#queue) throw new Busy('too many at once');
      await new Promise<void>((begin) => this.#waiting.push({ who, begin }));
    }
    return () => this.#release(who);
  }

  #mayTake(who: string): boolean {
    return this.#free > 0 && (this.#held.get(who) ?? 0) < this.#mostPermits;
  }

  #take(who: string): void {
    this.#free--;
    this.#held.set(who, (this.#held.get(who) ?? 0) + 1);
  }

  /** Gives a permit back: the first task that may have it begins. */
  #release(who: string): void {
    const held = (this.#held.get(who) as number) - 1;
    if (held === 0) this.#held.delete(who);
    else this.#held.set(who, held);
    this.#free++;
    const index = this.#waiting.findIndex((waiting) => this.#mayTake(waiting.who));
    const [next] = index < 0 ? [] : this.#waiting.splice(index, 1);
    if (next === undefined) return;
    this.#take(next.who);
    next.begin();
  }
}
