import { type LimitLeft, leftOf, secondsUntilFree } from '../domain/limits.ts';
import type { AskedUnits, LeasedUnits } from '../domain/ports.ts';
import { Share } from './share.ts';

/** Seconds of demand that are leased ahead, and the most that all gateways together lease ahead of what is left. */
const AHEAD_SECONDS = 0.5;
const AHEAD_OF_LEFT = 0.25;
/** How long a unit counts (sql/schema/limits.sql). */
const WINDOW_SECONDS = 62;
/** How long a leased unit may be held: used later, it would count for less than a minute. */
const HELD_MS = 2000;
/** The shortest time over which demand is measured. */
const MEASURED_MS = 200;
/** Less than this is no demand: tokens or requests a second. */
const NO_DEMAND = 0.1;
/** The weight of the last call in `typical`, against all calls before it. */
const TYPICAL_WEIGHT = 0.1;

const NO_UNITS: readonly number[] = [];

/** A share of requests or tokens per minute. */
export class RateShare extends Share {
  /** The units that a call takes, smoothed. */
  typical = 500;
  /** Requests that may still take, settle or return units. */
  holds = 0;
  /** Units taken since the last measurement, and the units of a second, smoothed. */
  #taken = 0;
  #demand = 0;
  #measuredAt = 0;
  /** Units to return that are not in `free`, by the second of their lease; below 0: taken without one. null: none. */
  #refunds: Map<number, number> | null = null;
  /** Units this gateway leased, by second of the monotonic clock, the oldest first. */
  readonly #own = new Map<number, number>();
  #plannedAt = 0;
  /**
   * The units that all gateways leased in each of the last seconds, and when the database told them. Leading zeros may
   * be missing.
   */
  #units = NO_UNITS;
  #toldAt = 0;
  #mostAhead = 0;
  /**
   * The units left of the limit when the database told last, and those that this gateway had leased by then; null: it
   * never told.
   */
  #leftThen: number | null = null;
  #ownThen = 0;

  forgetOld(now: number): void {
    if (this.free <= 0 || now - this.#plannedAt <= HELD_MS) return;
    this.refund(this.free, this.#plannedAt);
    this.free = 0;
  }

  take(units: number): boolean {
    if (this.free < units) return false;
    this.free -= units;
    this.#taken += units;
    return true;
  }

  untake(units: number): void {
    this.free += units;
    this.#taken -= units;
  }

  /** A call is over that used other than the units taken for it at an instant. */
  settle(taken: number, used: number, takenAt: number): void {
    this.typical += TYPICAL_WEIGHT * (used - this.typical);
    if (used > taken) this.free -= used - taken;
    else this.refund(taken - used, takenAt);
  }

  /** Units that were taken at an instant and not used. */
  refund(units: number, takenAt: number): void {
    if (units === 0) return;
    count(this.#own, secondOf(takenAt), -units);
    this.#refunds ??= new Map();
    count(this.#refunds, secondOf(takenAt), units);
  }

  takeAlone(units: number, gateways: number, now: number): boolean {
    const used = this.#ownUnits(now);
    const most = this.#ownThen + Math.floor((this.#leftThen ?? this.limit) / gateways);
    if (used > 0 && used + units > most) return false;
    this.refund(-units, now); // told to the database when it is back, as long as they count
    return true;
  }

  plan(now: number): AskedUnits | null {
    this.forgetOld(now);
    this.#plannedAt = now;
    const elapsed = now - this.#measuredAt;
    if (elapsed >= MEASURED_MS) {
      this.#demand = (this.#demand + (1000 * this.#taken) / elapsed) / 2;
      if (this.#demand < NO_DEMAND) this.#demand = 0;
      this.#taken = 0;
      this.#measuredAt = now;
    }
    const ahead = Math.min(Math.floor(this.#demand * AHEAD_SECONDS), this.#mostAhead);
    const surplus = Math.max(0, this.free - ahead);
    const isDue =
      this.free < 0 || surplus > ahead || this.free < ahead / 2 || this.#refunds !== null;
    if (!isDue && this.waiting.length === 0) return null;
    if (surplus > 0) this.refund(surplus, now);
    const back = this.#returned(now);
    const owed = Math.max(0, -this.free);
    this.free += owed - surplus;
    const { subject, kind, limit } = this;
    return {
      subject,
      kind,
      limit,
      want: Math.max(0, ahead - this.free) + this.askForWaiting(),
      owed,
      back,
      held: 0,
    };
  }

  override failed(asked: AskedUnits, gateways: number, now: number): void {
    this.free -= asked.owed;
    for (const [age, units] of asked.back) {
      if (units >= 0) continue;
      this.#refunds ??= new Map();
      count(this.#refunds, secondOf(this.#plannedAt) - age, units);
    }
    super.failed(asked, gateways, now);
  }

  get asksAgain(): boolean {
    return false;
  }

  get isIdle(): boolean {
    const isUsed = this.holds > 0 || this.#demand > 0 || this.#taken > 0 || this.waiting.length > 0;
    return !isUsed && this.free === 0 && this.#refunds === null;
  }

  rest(): void {
    // most were leased in the last few seconds; where none were, one zero is kept
    this.#units = this.#units.slice(this.#units.findIndex((leased) => leased > 0));
  }

  left(now: number): LimitLeft {
    return leftOf(this.#aged(now), this.limit, Math.max(0, this.free));
  }

  protected secondsUntil(units: number, now: number): number {
    return secondsUntilFree(this.#aged(now), this.limit, units);
  }

  protected receive({ granted, units }: LeasedUnits, gateways: number, now: number): void {
    this.#units = units;
    this.#toldAt = now;
    this.free += granted;
    count(this.#own, secondOf(now), granted);
    this.#ownThen = this.#ownUnits(now);
    this.#leftThen = Math.max(0, this.limit - units.reduce((sum, each) => sum + each, 0));
    this.#mostAhead = Math.floor((this.#leftThen / gateways) * AHEAD_OF_LEFT);
  }

  /** The units that all gateways leased in each second, up to the last answer of the database. */
  #aged(now: number): readonly number[] {
    const gone = Math.floor((now - this.#toldAt) / 1000) + this.#units.length - WINDOW_SECONDS;
    return gone >= 0
      ? this.#units.slice(gone)
      : [...new Array<number>(-gone).fill(0), ...this.#units];
  }

  /** The units that this gateway leased in the last minute and did not return. */
  #ownUnits(now: number): number {
    let sum = 0;
    for (const [second, units] of this.#own) {
      if (second <= secondOf(now) - WINDOW_SECONDS) this.#own.delete(second);
      else sum += units;
    }
    return sum;
  }

  /** Takes the units to return, with the age of their lease. */
  #returned(now: number): (readonly [number, number])[] {
    const back: (readonly [number, number])[] = [];
    for (const [second, units] of this.#refunds ?? []) {
      const age = secondOf(now) - second;
      if (age >= WINDOW_SECONDS) continue; // they count no longer
      back.push([age, units]);
    }
    this.#refunds = null;
    return back;
  }
}

function secondOf(ms: number): number {
  return Math.floor(ms / 1000);
}

function count(counts: Map<number, number>, second: number, units: number): void {
  counts.set(second, (counts.get(second) ?? 0) + units);
}
