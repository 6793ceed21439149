/** A taker of connections. */
export interface Taker<C> {
  /** Connections it has, and those on their way to it. */
  readonly load: number;
  give(connection: C): void;
}

/**
 * Spreads connections: each goes to the taker with the fewest, in turn where several have as few. Counting open
 * connections, instead of taking turns, keeps the spread even after a taker was replaced. Connections wait while there
 * is no taker.
 */
export class Spread<C> {
  #takers: Taker<C>[] = [];
  #waiting: C[] = [];
  /** Where the search begins, so that takers with the same load take turns. */
  #next = 0;

  get waiting(): number {
    return this.#waiting.length;
  }

  get takers(): number {
    return this.#takers.length;
  }

  add(taker: Taker<C>): void {
    this.#takers.push(taker);
    for (const connection of this.#waiting.splice(0)) this.offer(connection);
  }

  remove(taker: Taker<C>): void {
    this.#takers = this.#takers.filter((each) => each !== taker);
  }

  offer(connection: C): void {
    const { length } = this.#takers;
    if (length === 0) return void this.#waiting.push(connection);
    let least = this.#takers[this.#next % length] as Taker<C>;
    for (let k = 1; k < length; k++) {
      const other = this.#takers[(this.#next + k) % length] as Taker<C>;
      if (other.load < least.load) least = other;
    }
    this.#next = (this.#takers.indexOf(least) + 1) % length;
    least.give(connection);
  }

  /** Takes out the connections that wait. */
  clear(): C[] {
    return this.#waiting.splice(0);
  }
}
