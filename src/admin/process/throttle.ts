import { LRUCache } from 'lru-cache';
import type { Words } from '../../domain/language/en.ts';
import type { Clock } from '../../domain/ports.ts';

/** The least recently used beyond these are forgotten. The option `max` would take their memory, and 7 ms, at once. */
const SUBJECTS = { maxSize: 100_000, sizeCalculation: () => 1 };

/** Failures within a window, or as much of anything else, after which attempts are refused until it ends. */
type Limit = { readonly most: number; readonly windowMs: number };

/**
 * Counts failures per subject, or other things, in memory of this process: a failed sign-in writes nothing. An
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
    const left = this.#left(subject);
    if (left === 0 || (this.#windows.get(subject)?.count ?? 0) < this.#limit.most) return 0;
    return Math.ceil(left / 1000);
  }

  attempt(subject: string, count = 1): void {
    const window = this.#windows.get(subject);
    if (window !== undefined && this.#left(subject) > 0) window.count += count;
    else this.#windows.set(subject, { count, until: this.#clock() + this.#limit.windowMs });
  }

  /** Takes back an attempt that succeeded or could not be decided. */
  forgive(subject: string): void {
    const window = this.#windows.get(subject);
    if (window !== undefined && window.count > 0) window.count--;
  }

  /** Milliseconds until the window of a subject ends; 0: it has none. One that a clock set back made longer has ended. */
  #left(subject: string): number {
    const { until = 0 } = this.#windows.get(subject) ?? {};
    const left = until - this.#clock();
    return left > 0 && left <= this.#limit.windowMs ? left : 0;
  }
}

const WINDOW_MS = 15 * 60_000;

/** Bytes that the changes of a company may have within an hour. A form or body counts CHANGE_BYTES besides its own. */
const CHANGED_BYTES = 32 << 20;
/** The same for a member, who is counted alone: nobody else of the company notices. */
const MEMBER_BYTES = 1 << 20;
const HOUR_MS = 3_600_000;
const CHANGE_BYTES = 2048;

export type Attempts = ReturnType<typeof attemptThrottles>;

/** An address of IPv4, or the block of IPv6 networks (/48) that a network is of: one connection may have all of it. */
export function blockOf(address: string): string {
  return address.includes('.') ? address : address.split(':', 3).join(':');
}

/**
 * Failed attempts to sign in or to open an invitation are counted per address and account, per block and account, per
 * address, and per account. The last limit is high, so that few strangers lock nobody out. Those of a browser that is
 * known are counted for it alone (sign-in-attempt.ts).
 */
export function attemptThrottles(clock: Clock) {
  const failures = (most: number) => new Throttle({ most, windowMs: WINDOW_MS }, clock);
  const [ofBoth, ofBlock, ofAddress, ofAccount] = [
    failures(5),
    failures(30),
    failures(30),
    failures(100),
  ];
  return (address: string, account: string, browser: string | null = null) => {
    const ofStranger = [
      [ofBoth, `${address} ${account}`],
      [ofBlock, `${blockOf(address)} ${account}`],
      [ofAddress, address],
      [ofAccount, account],
    ] as const;
    const counters = new Map(browser === null ? ofStranger : [[ofBoth, `${browser} ${account}`]]);
    return {
      /** Seconds until another attempt is allowed; 0 when it is allowed now. */
      closedFor: () =>
        Math.max(...[...counters].map(([throttle, subject]) => throttle.closedFor(subject))),
      count: () => counters.forEach((subject, throttle) => void throttle.attempt(subject)),
      forgive: () => counters.forEach((subject, throttle) => void throttle.forgive(subject)),
    };
  };
}

/** Invitations of one company: enough to invite a department, too few for a flood of e-mails. */
export function invitationThrottle(clock: Clock): Throttle {
  return new Throttle({ most: 30, windowMs: WINDOW_MS }, clock);
}

export type ChangeThrottle = ReturnType<typeof changeThrottle>;

/**
 * Limits what the users and administration tokens of a company write: each change stays in the audit log, before and after, in a
 * database that all companies share. Operators, whose company is null, are not limited. A member is limited alone.
 */
export function changeThrottle(clock: Clock) {
  const ofCompany = new Throttle({ most: CHANGED_BYTES, windowMs: HOUR_MS }, clock);
  const ofMember = new Throttle({ most: MEMBER_BYTES, windowMs: HOUR_MS }, clock);
  const counted = (company: string | null, member: string | null) =>
    member === null ? ([ofCompany, company] as const) : ([ofMember, member] as const);
  return {
    /**
     * Counts a change before it is made.
     * @param bytes of the form or body
     * @param member id of the member who makes it; null: another role, or a token
     * @returns seconds until the company, or the member, may change something again; 0: now, and this change was counted
     */
    begin(company: string | null, bytes: number, member: string | null = null): number {
      const [throttle, subject] = counted(company, member);
      if (subject === null) return 0;
      const seconds = throttle.closedFor(subject);
      if (seconds === 0) throttle.attempt(subject, bytes + CHANGE_BYTES);
      return seconds;
    },
    /** Counts the bytes that the change adds to the audit log, beyond those counted before. @param kept bytes */
    end(company: string | null, bytes: number, kept: number, member: string | null = null): void {
      const [throttle, subject] = counted(company, member);
      if (subject !== null) throttle.attempt(subject, Math.max(0, kept - bytes - CHANGE_BYTES));
    },
  };
}

/** Why a change is refused with 429. */
export function tooManyChanges(words: Words, seconds: number, isMember = false): string {
  const megabytes = (isMember ? MEMBER_BYTES : CHANGED_BYTES) / (1 << 20);
  return words.errors.tooManyChanges({ megabytes, isMember, wait: waitText(words, seconds) });
}

/** When to try again, as a sentence. */
export function waitText({ errors }: Words, seconds: number): string {
  return errors.wait(Math.max(1, Math.ceil(seconds / 60)));
}
