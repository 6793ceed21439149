import type { LimitKind, LimitLeft } from '../domain/limits.ts';
import type { AskedUnits, LeasedUnits } from '../domain/ports.ts';

/** How long a refusal is repeated without asking the database: other gateways may return units. */
const REFUSED_MS = 250;

/** A request that waits for units. */
interface Waiting {
  readonly units: number;
  /** The request was refused once, and waits for units that another gateway is returning. */
  again: boolean;
  /** @param seconds 0: the units were taken for it; else when they may be free */
  readonly settle: (seconds: number) => void;
}

/**
 * This gateway's share of one limit of one company or key: units it leased and may use. Units that demand does not need
 * go back, and missing units are asked for. The limiter does both for all shares in one statement.
 *
 *   database ── lease ──> free ── take ──> used
 *            <── back ───┘
 */
export abstract class Share {
  readonly subject: string;
  readonly kind: LimitKind;
  limit: number;
  /** Units that may be taken; below 0, the number of those that were used without a lease. */
  free = 0;
  /** Requests that wait, and how many of them the present question to the database counts. */
  waiting: Waiting[] = [];
  #asking: Waiting[] = [];
  /** The limiter has it among its active shares. */
  active = false;
  /** Until then nothing is free anywhere: monotonic milliseconds. */
  #refusedUntil = 0;

  constructor(subject: string, kind: LimitKind, limit: number) {
    this.subject = subject;
    this.kind = kind;
    this.limit = limit;
  }

  /** A changed limit holds from the next request on. */
  setLimit(limit: number): void {
    if (limit === this.limit) return;
    this.limit = limit;
    this.#refusedUntil = 0;
  }

  /** Units that were free while the gateway was suspended are free no longer: others may have leased them since. */
  abstract forgetOld(now: number): void;

  /** @returns whether the units were free, and are taken */
  abstract take(units: number): boolean;

  /**
   * Takes units with the database away: no more than this gateway's part.
   * @param gateways how many leased last, 1 at least
   * @returns whether the units were taken
   */
  abstract takeAlone(units: number, gateways: number, now: number): boolean;

  /** Units were taken, and then another limit refused the request. */
  abstract untake(units: number): void;

  /** Whether a refused request waits 40 ms and asks once more, because another gateway may be giving a slot back. */
  abstract get asksAgain(): boolean;

  /** The question for the database; null: none now. Units that go back are no longer free. */
  abstract plan(now: number): AskedUnits | null;

  /** Nothing is held, and nobody waits. */
  abstract get isIdle(): boolean;

  /** Called when the share is idle, maybe for long. It then keeps only the units by which it can tell how many are left. */
  abstract rest(): void;

  /** The units left of the limit, as far as this gateway knows. */
  abstract left(now: number): LimitLeft;

  /** Seconds to wait, where the database refused a moment ago; else 0. */
  refusedSeconds(units: number, now: number): number {
    return now < this.#refusedUntil ? this.secondsUntil(units, now) : 0;
  }

  /** Takes the leased units, and settles the requests that wait. @param gateways how many lease, 1 at least */
  accept(leased: LeasedUnits, gateways: number, now: number): void {
    this.receive(leased, gateways, now);
    for (const waiting of this.#takeAsking()) {
      if (this.take(waiting.units)) waiting.settle(0);
      else if (this.asksAgain && !waiting.again) {
        waiting.again = true;
        this.waiting.push(waiting);
      } else {
        this.#refusedUntil = now + REFUSED_MS;
        waiting.settle(Math.max(1, this.secondsUntil(waiting.units, now)));
      }
    }
  }

  /**
   * The database is away: settles the requests that wait. Units that were on their way back are lost until they no
   * longer count.
   */
  failed(_asked: AskedUnits, gateways: number, now: number): void {
    for (const { units, settle } of this.#takeAsking()) {
      settle(this.take(units) || this.takeAlone(units, gateways, now) ? 0 : 1);
    }
  }

  protected abstract receive(leased: LeasedUnits, gateways: number, now: number): void;

  /** Seconds until so many units may be free; 0: they may be now. */
  protected abstract secondsUntil(units: number, now: number): number;

  /** The units for the requests that wait, which are asked for now. */
  protected askForWaiting(): number {
    this.#asking = this.waiting;
    this.waiting = [];
    return this.#asking.reduce((sum, { units }) => sum + units, 0);
  }

  #takeAsking(): Waiting[] {
    const asking = this.#asking;
    this.#asking = [];
    return asking;
  }
}
