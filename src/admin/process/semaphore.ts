/** Too many tasks are waiting already. Nothing was done. */
export class Busy extends Error {
  override readonly name = 'Busy';
}

interface Permit {
  readonly who: string;
  /** Ends the task if it may be ended for others. @returns whether it did */
  readonly giveWay: () => boolean;
}

/** A task that waits for a permit. */
interface Waiting {
  readonly permit: Permit;
  readonly begin: () => void;
}

/**
 * Runs at most `permits` tasks at once, lets at most `queue` more wait, and refuses the rest; p-limit queues without a
 * bound. One company, or one user of none, gets as many permits and places in the queue as it leaves free: of 16 the
 * first may have 8, the next 4, then 2, 1 and 1. Whoever has fewest tasks is next, so long ones leave places to others.
 */
export class Semaphore {
  #free: number;
  readonly #queue: number;
  readonly #waiting: Waiting[] = [];
  readonly #held = new Set<Permit>();

  constructor(options: { readonly permits: number; readonly queue: number }) {
    this.#free = options.permits;
    this.#queue = options.queue;
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

  /**
   * Waits for a permit, or takes one of a task that gives way.
   * @param giveWay asked when somebody finds no permit; see `Permit`
   * @returns the function that gives it back @throws Busy
   */
  async acquire(who: string, giveWay = () => false): Promise<() => void> {
    if (!this.#mayTake(who)) this.#makeWay(who);
    const permit = { who, giveWay };
    if (this.#mayTake(who)) this.#take(permit);
    else {
      if (this.#waitingOf(who) >= this.#queue - this.#waiting.length)
        throw new Busy('too many at once');
      await new Promise<void>((begin) => this.#waiting.push({ permit, begin }));
    }
    return () => this.#release(permit);
  }

  #mayTake(who: string): boolean {
    return this.#heldBy(who) < this.#free;
  }

  #heldBy(who: string): number {
    return [...this.#held].filter((permit) => permit.who === who).length;
  }

  /** A sharer with a permit takes the place of its own tasks only. */
  #makeWay(who: string): void {
    const hasNone = this.#heldBy(who) === 0;
    const given = [...this.#held].find(
      (permit) => (permit.who === who || hasNone) && permit.giveWay(),
    );
    if (given !== undefined) this.#release(given);
  }

  #take(permit: Permit): void {
    this.#free--;
    this.#held.add(permit);
  }

  #waitingOf(who: string): number {
    return this.#waiting.filter(({ permit }) => permit.who === who).length;
  }

  /** Gives a permit back, once. Of the tasks that may take it, the oldest of the sharer with the fewest begins. */
  #release(permit: Permit): void {
    if (!this.#held.delete(permit)) return;
    this.#free++;
    const able = this.#waiting.filter((waiting) => this.#mayTake(waiting.permit.who));
    const [next] = able.toSorted(
      (a, b) => this.#waitingOf(a.permit.who) - this.#waitingOf(b.permit.who),
    );
    if (next === undefined) return;
    this.#waiting.splice(this.#waiting.indexOf(next), 1);
    this.#take(next.permit);
    next.begin();
  }
}
