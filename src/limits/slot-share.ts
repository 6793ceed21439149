import type { LimitLeft } from '../domain/limits.ts';
import type { AskedUnits, LeasedUnits } from '../domain/ports.ts';
import { Share } from './share.ts';

/** How often the lease of slots is renewed; it lasts LEASE_SECONDS. */
const RENEW_MS = 3000;
/** How long slots outlive the gateway that leased them. */
export const LEASE_SECONDS = 10;

/** A share of the calls in flight at once. */
export class SlotShare extends Share {
  #inFlight = 0;
  /** The fewest slots that were free since the last plan. */
  #lowest = 0;
  #others = 0;
  /** Other gateways may want slots, and every slot is leased: one that is free goes back at once. */
  isScarce = false;
  #askedAt = 0;
  #askedLimit = 0;
  /** Slots no gateway had when the database last told; null: it never told. */
  #unleased: number | null = null;
  /** Slots this gateway had then. */
  #leased = 0;

  forgetOld(now: number): void {
    if (this.free > 0 && now - this.#askedAt > LEASE_SECONDS * 1000) this.free = 0;
  }

  take(units: number): boolean {
    if (this.free < units) return false;
    this.free -= units;
    this.#inFlight += units;
    this.#lowest = Math.min(this.#lowest, this.free);
    return true;
  }

  takeAlone(units: number, gateways: number): boolean {
    const most = this.#leased + Math.floor((this.#unleased ?? this.limit) / gateways);
    if (this.#inFlight >= Math.max(1, most)) return false;
    this.free -= units;
    this.#inFlight += units;
    return true;
  }

  /** A call is over. */
  untake(units: number): void {
    this.free += units;
    this.#inFlight -= units;
  }

  plan(now: number): AskedUnits | null {
    const surplus = Math.max(0, this.isScarce ? this.free : Math.min(this.#lowest, this.free));
    this.#lowest = this.free;
    const held = this.#inFlight;
    const isDue =
      (now - this.#askedAt >= RENEW_MS && (held > 0 || this.free > 0)) ||
      this.#askedLimit !== this.limit;
    if (surplus === 0 && this.waiting.length === 0 && !isDue) return null;
    this.free -= surplus;
    this.#askedAt = now;
    this.#askedLimit = this.limit;
    const { subject, kind, limit } = this;
    return {
      subject,
      kind,
      limit,
      want: Math.max(0, this.free) + this.askForWaiting(),
      owed: 0,
      back: [],
      held,
    };
  }

  get asksAgain(): boolean {
    return this.isScarce;
  }

  get isIdle(): boolean {
    return this.free === 0 && this.#inFlight === 0 && this.waiting.length === 0;
  }

  rest(): void {}

  left(): LimitLeft {
    const remaining = Math.max(0, this.limit - this.#others - this.#inFlight);
    return { limit: this.limit, remaining, resetSeconds: remaining < this.limit ? 1 : 0 };
  }

  protected secondsUntil(): number {
    return this.#others + this.#inFlight < this.limit ? 0 : 1;
  }

  protected receive({ granted, others }: LeasedUnits, gateways: number): void {
    this.free = granted - this.#inFlight; // below 0 after the limit was lowered
    this.#lowest = this.free;
    this.#others = others;
    this.#leased = granted;
    this.#unleased = this.limit - others - granted;
    this.isScarce = gateways > 1 && this.#unleased <= 0;
  }
}
