import { LRUCache } from 'lru-cache';
import type { Clock } from '../domain/ports.ts';

/** The least recently used beyond these are forgotten. The option `max` would take their memory, and 7 ms, at once. */
const SUBJECTS = { maxSize: 100_000, sizeCalculation: () => 1 };

/** After so many failures within a window, attempts are refused until it ends. */
type Limit = { readonly failures: number; readonly windowMs: number };

/**
 * Counts failures per subject, in memory of this process: a failed sign-in writes nothing. An
 * attempt counts before its outcome is known, so that a burst of attempts is limited as well.
 */
export class Throttle {
  readonly #limit: Limit;
  readonly #clock: Clock;
  readonly #windows = new LRUCache<string, { count: number; readonly until: number }>(SUBJECTS);

  constructor(limit: Limit, clock: Clock) {
    this.#limit = limit;
    this.#clock = clock;
  }

  /** Seconds until another attempt is allowed; 0 when it is allowed now. */
  closedFor(subject: string): number {
    const window = this.#windows.get(subject);
    const now = this.#clock();
    if (window === undefined || window.until <= now || window.count < this.#limit.failures) return 0;
    return Math.ceil((window.until - now) / 1000);
  }

  attempt(subject: string): void {
    const window = this.#windows.get(subject);
    const now = this.#clock();
    if (window !== undefined && window.until > now) window.count++;
    else this.#windows.set(subject, { count: 1, until: now + this.#limit.windowMs });
  }

  /** Takes back an attempt that succeeded or could not be decided. */
  forgive(subject: string): void {
    const window = this.#windows.get(subject);
    if (window !== undefined && window.count > 0) window.count--;
  }
}

const WINDOW_MS = 15 * 60_000;

export type Attempts = ReturnType<typeof attemptLimits>;

/**
 * Failed attempts to sign in or to open an invitation are counted per address and account, per address, and per
 * account. The last limit is high, so that a stranger's few guesses lock nobody out.
 */
export function attemptLimits(clock: Clock) {
  const most = (failures: number) => new Throttle({ failures, windowMs: WINDOW_MS }, clock);
  const [ofBoth, ofAddress, ofAccount] = [most(5), most(30), most(100)];
  return (address: string, account: string) => {
    const both = `${address} ${account}`;
    const counters = new Map([
      [ofBoth, both],
      [ofAddress, address],
      [ofAccount, account],
    ]);
    return {
      /** Seconds until another attempt is allowed; 0 when it is allowed now. */
      closedFor: () => Math.max(...[...counters].map(([throttle, subject]) => throttle.closedFor(subject))),
      count: () => counters.forEach((subject, throttle) => void throttle.attempt(subject)),
      forgive: () => counters.forEach((subject, throttle) => void throttle.forgive(subject)),
    };
  };
}

/** Invitations of one company: enough to invite a department, too few for a flood of e-mails. */
export function invitationLimit(clock: Clock): Throttle {
  return new Throttle({ failures: 30, windowMs: WINDOW_MS }, clock);
}

/** When to try again, as a sentence. */
export function waitText(seconds: number): string {
  return `Try again in ${seconds <= 60 ? '1 minute' : `${Math.ceil(seconds / 60)} minutes`}.`;
}
