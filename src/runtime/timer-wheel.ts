import { performance } from 'node:perf_hooks';
import { type ActiveMember, ActiveSet } from './active-set.ts';
import { IdleInterval } from './idle-interval.ts';

/** The length of a tick in milliseconds: a member may be called so much too early. */
const TICK_MS = 250;

/** A member of a wheel, whose `onInactive` is called when it was inactive for the wheel's time. */
export interface WheelMember extends ActiveMember {
  /** Written by the wheel: the slot that the member is in; null outside of the wheel. */
  slot: ActiveSet<WheelMember> | null;
  /** The wheel's `now` at the member's last activity; the member writes it. */
  activeAt: number;
  /** Called after each period without activity. The member may leave the wheel in this call. */
  onInactive(): void;
}

/**
 * Calls members after a time without activity, all by one interval. A member sits in the slot of the tick in which it is
 * looked at next. Activity does not move it: only when the wheel comes to its slot is a member that was active meanwhile
 * put into a later one. So activity costs one store, and each member is looked at once in that time.
 *
 *   slots: … | now | now + 1 | … | now + ticks |   one for each tick; the wheel comes round after the last
 */
export class TimerWheel {
  /** The present tick. */
  now = 0;
  readonly #ticks: number;
  readonly #slots: readonly ActiveSet<WheelMember>[];
  readonly #interval: IdleInterval;
  readonly #clock: () => number;
  #size = 0;

  /**
   * @param inactiveMs after how long members are called: a multiple of 250
   * @param clock monotonic milliseconds
   */
  constructor(inactiveMs: number, clock = () => performance.now()) {
    this.#ticks = inactiveMs / TICK_MS;
    this.#slots = Array.from({ length: this.#ticks + 1 }, () => new ActiveSet<WheelMember>());
    this.#clock = clock;
    this.#interval = new IdleInterval(TICK_MS, () => {
      this.turn();
      return this.#size > 0;
    });
  }

  get #tick(): number {
    return Math.floor(this.#clock() / TICK_MS);
  }

  /** Adds a member, which is active now. */
  join(member: WheelMember): void {
    if (this.#interval.resting) {
      this.now = this.#tick; // the slots that this passes over are empty
      this.#interval.wake();
    }
    this.#size++;
    member.activeAt = this.now;
    this.#hang(member);
  }

  /** Takes a member out; one that has left already may be given. */
  leave(member: WheelMember): void {
    if (member.slot === null) return;
    member.slot.leave(member);
    member.slot = null;
    this.#size--;
  }

  /** Looks at the members whose time may have come. */
  turn(): void {
    const before = this.now;
    this.now = this.#tick;
    const { length } = this.#slots;
    // after a long pause of the process each slot is due once
    for (let tick = Math.max(before + 1, this.now - this.#ticks); tick <= this.now; tick++) {
      this.#slots[tick % length]?.each((member) => this.#look(member));
    }
  }

  close(): void {
    this.#interval.rest();
  }

  #look(member: WheelMember): void {
    if (member.activeAt + this.#ticks <= this.now) {
      member.activeAt = this.now;
      member.onInactive();
    }
    if (member.slot === null) return;
    member.slot.leave(member);
    this.#hang(member);
  }

  #hang(member: WheelMember): void {
    const slot = this.#slots[
      (member.activeAt + this.#ticks) % this.#slots.length
    ] as ActiveSet<WheelMember>;
    slot.join(member);
    member.slot = slot;
  }
}
