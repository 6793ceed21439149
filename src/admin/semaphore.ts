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
 * Runs at most `permits` tasks at once, lets at most `queue` more wait, and refuses the rest. One company, or one user
 * of none, gets half of the permits and as many places in the queue as it leaves free; who waits with fewest tasks is
 * next. So what takes minutes keeps nobody else waiting. Libraries such as p-limit queue without a bound; a bound
 * around one is as long as this class.
 */
export class Semaphore {
  #free: number;
  readonly #queue: number;
  readonly #mostPermits: number;
  readonly #waiting: Waiting[] = [];
  /** Permits by who holds them. */
  readonly #held = new Map<string, number>();

  constructor(options: { readonly permits: number; readonly queue: number }) {
    this.#free = options.permits;
    this.#queue = options.queue;
    this.#mostPermits = Math.ceil(options.permits / 2);
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
      if (this.#waitingOf(who) >= this.#queue - this.#waiting.length) throw new Busy('too many at once');
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

  #waitingOf(who: string): number {
    return this.#waiting.filter((waiting) => waiting.who === who).length;
  }

  /** Gives a permit back: of the tasks that may have it, the first of those who wait with fewest begins. */
  #release(who: string): void {
    const held = (this.#held.get(who) as number) - 1;
    if (held === 0) this.#held.delete(who);
    else this.#held.set(who, held);
    this.#free++;
    const able = this.#waiting.filter((waiting) => this.#mayTake(waiting.who));
    const [next] = able.toSorted((a, b) => this.#waitingOf(a.who) - this.#waitingOf(b.who));
    if (next === undefined) return;
    this.#waiting.splice(this.#waiting.indexOf(next), 1);
    this.#take(next.who);
    next.begin();
  }
}
