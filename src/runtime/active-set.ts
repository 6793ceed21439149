/** A member of a crowd. */
export interface Member {
  /** Where it stands; the crowd's own. */
  place: number;
}

/**
 * Objects that come and go thousands of times a second, in no order. Unlike a Set: a Set
 * replaces its table every so often, and each table it leaves behind keeps whoever was in it
 * alive beyond the young generation. Half of all requests were; collecting them took a fifth
 * of the gateway's CPU.
 */
export class ActiveSet<T extends Member> {
  readonly #members: T[] = [];

  get size(): number {
    return this.#members.length;
  }

  join(member: T): void {
    member.place = this.#members.push(member) - 1;
  }

  /** Does nothing for one that has left. */
  leave(member: T): void {
    if (member.place < 0) return;
    const last = this.#members.pop() as T;
    if (last !== member) {
      this.#members[member.place] = last;
      last.place = member.place;
    }
    member.place = -1;
  }

  /** Each member; those called may leave. */
  each(call: (member: T) => void): void {
    // from the end: whoever leaves is replaced by one that was called already
    for (let i = this.#members.length - 1; i >= 0; i--) {
      const member = this.#members[i];
      if (member !== undefined) call(member);
    }
  }
}
