import { performance } from 'node:perf_hooks';
import type { Company } from '../domain/company.ts';
import { GatewayError } from '../domain/errors.ts';
import type { ApiKey } from '../domain/key.ts';
import {
  LIMIT_COLUMNS,
  type LimitKind,
  type Limits,
  type LimitsLeft,
  limitHeaders,
  limitText,
  tooLargeText,
} from '../domain/limits.ts';
import type { AskedUnits, Hold, Limiter, LimitStore, MaybeAsync } from '../domain/ports.ts';
import { type Logger, reasonOf } from '../log.ts';
import { IdleInterval } from '../runtime/idle-interval.ts';
import { RequestHold, type UnitSource } from './request-hold.ts';
import type { Share } from './share.ts';
import { LEASE_SECONDS, type SlotShare } from './slot-share.ts';
import { KeyShares, Subject } from './subject.ts';

const PLAN_MS = 250;
const AGAIN_MS = 40; // after which a slot that another gateway gave back can be leased
const RETRY_MS = 1000; // how often a database that is away is asked again
const MAX_ASKED = 500; // shares in one statement
const FORGET_MS = 65_000; // a window, and a little more
const TRIM_MS = 600_000;

/**
 * Limits over all gateways, by leases in the database (sql/schema/limits.sql). A request takes units that
 * were leased ahead; where there are none it waits for one statement, which serves all that wait. With the
 * database away each gateway goes on with its part.
 */
export class LeasedLimiter implements Limiter, UnitSource {
  /** Requests refused, by limit. */
  readonly refused: Record<LimitKind, number> = { requests: 0, tokens: 0, calls: 0 };
  readonly #store: LimitStore;
  /** Names this run of this gateway. */
  readonly #gateway: string;
  readonly #log: Logger;
  readonly #subjects = new Map<string, Subject>();
  readonly #keys = new WeakMap<ApiKey, KeyShares>();
  /** Shares that hold or want something, those asked for last at the end; and those of them that requests wait for. */
  readonly #active = new Set<Share>();
  readonly #wanted = new Set<Share>();
  readonly #interval = new IdleInterval(PLAN_MS, () => this.#tick());
  #isLeasing = false;
  /** The next statement is for all active shares, not only for those that requests wait for. */
  #isAllDue = false;
  #leased: Promise<void> = Promise.resolve();
  #away = false;
  /** How many gateways lease, as the database told last. */
  #gateways = 1;
  #askedAt = 0;
  #sweptAt = 0;
  #trimmedAt = performance.now();

  constructor(store: LimitStore, gateway: string, log: Logger) {
    this.#store = store;
    this.#gateway = gateway;
    this.#log = log;
  }

  /** The database could not be reached: this gateway goes on with its part. */
  get isAlone(): boolean {
    return this.#away;
  }

  enter(key: ApiKey, company: Company): MaybeAsync<Hold | null> {
    if (key.limits === null && company.limits === null) return null;
    const shares = this.#sharesOf(key, company);
    const taken = this.takeAll(shares, shares.entry, 1);
    return taken instanceof Promise
      ? taken.then(() => new RequestHold(shares, this))
      : new RequestHold(shares, this);
  }

  async left(key: ApiKey, company: Company, isFresh: boolean): Promise<LimitsLeft> {
    const shares = this.#sharesOf(key, company);
    if (!isFresh) await this.#update(shares.all);
    return shares.left(performance.now());
  }

  /** Returns every unit, so that other gateways may use them at once. */
  async close(): Promise<void> {
    this.#interval.rest();
    await this.#leased;
    // twice: slots are returned that were free since the plan before
    for (let turn = 0; turn < 2 && !this.#away; turn++) {
      this.#lease(true);
      await this.#leased;
    }
    if (!this.#away) await this.#store.lease(this.#gateway, 0, []).catch(() => {}); // counts no longer
  }

  takeAll(ofKey: KeyShares, shares: readonly Share[], units: number): MaybeAsync<void> {
    const now = performance.now();
    for (let taken = 0; taken < shares.length; taken++) {
      const share = shares[taken] as Share;
      share.forgetOld(now);
      if (share.take(units)) continue;
      while (taken > 0) (shares[--taken] as Share).untake(units);
      return this.#takeLater(ofKey, shares, units);
    }
  }

  release(slots: SlotShare): void {
    slots.untake(1);
    if (slots.isScarce && !this.#away) this.#want(slots);
  }

  /** Takes units of one share after the other, and waits for each that has too few in hand. */
  async #takeLater(ofKey: KeyShares, shares: readonly Share[], units: number): Promise<void> {
    const taken: Share[] = [];
    try {
      for (const share of shares) {
        await this.#take(ofKey, share, units);
        taken.push(share);
      }
    } catch (error) {
      for (const share of taken) share.untake(units);
      throw error;
    }
  }

  #take(ofKey: KeyShares, share: Share, units: number): MaybeAsync<void> {
    if (share.take(units)) return;
    const now = performance.now();
    if (this.#away) {
      if (!share.takeAlone(units, this.#gateways, now)) throw this.#refusal(ofKey, share, 1);
      return;
    }
    const seconds = share.refusedSeconds(units, now);
    if (seconds > 0) throw this.#refusal(ofKey, share, seconds);
    return this.#await(share, units).then(async (seconds) => {
      if (seconds === 0) return;
      await this.#update(ofKey.all.filter((other) => other !== share)); // for the headers
      throw this.#refusal(ofKey, share, seconds);
    });
  }

  /** Waits for units. @returns seconds until there may be some; 0: they were taken */
  #await(share: Share, units: number): Promise<number> {
    const { promise, resolve } = Promise.withResolvers<number>();
    share.waiting.push({ units, again: false, settle: resolve });
    this.#want(share);
    return promise;
  }

  /** Asks the database for the units that are left, because other gateways lease too. */
  #update(shares: readonly Share[]): Promise<unknown> {
    return Promise.all(shares.map((share) => this.#await(share, 0)));
  }

  #want(share: Share): void {
    this.#activate(share);
    this.#wanted.add(share);
    this.#lease(false);
  }

  #refusal(ofKey: KeyShares, share: Share, seconds: number): GatewayError {
    const error = this.#error(ofKey, share, (whose) =>
      limitText(share.kind, whose, share.limit, seconds),
    );
    error.retryAfter = `${seconds}`;
    return error;
  }

  refuse(ofKey: KeyShares, share: Share, units: number, prompt: number): GatewayError {
    const error = this.#error(ofKey, share, (whose) =>
      tooLargeText(whose, share.limit, units, prompt),
    );
    error.retry = false; // it would be refused again
    return error;
  }

  #error(
    ofKey: KeyShares,
    { kind, subject }: Share,
    text: (whose: 'key' | 'company') => string,
  ): GatewayError {
    this.refused[kind]++;
    const whose = ofKey.key?.id === subject ? 'key' : 'company';
    const error = new GatewayError('rate_limit_exceeded', text(whose));
    error.headers = limitHeaders(ofKey.left(performance.now()));
    return error.by(`${whose}.${LIMIT_COLUMNS[kind]}`);
  }

  #activate(share: Share): void {
    share.active = true;
    this.#active.add(share);
    this.#interval.wake();
  }

  #sharesOf(key: ApiKey, company: Company): KeyShares {
    let shares = this.#keys.get(key);
    if (shares === undefined || shares.companyLimits !== company.limits || shares.isForgotten) {
      shares = new KeyShares(
        this.#subject(key.id, key.limits),
        this.#subject(company.id, company.limits),
        company.limits,
      );
      this.#keys.set(key, shares);
    }
    for (const share of shares.all) if (!share.active) this.#activate(share);
    return shares;
  }

  #subject(id: string, limits: Limits | null): Subject | null {
    if (limits === null && !this.#subjects.has(id)) return null;
    const subject = this.#subjects.get(id) ?? new Subject(id);
    this.#subjects.set(id, subject);
    subject.setLimits(limits);
    return subject;
  }

  #tick(): boolean {
    const now = performance.now();
    if (!this.#away || now - this.#askedAt >= RETRY_MS) this.#lease(true);
    if (now - this.#sweptAt >= FORGET_MS) {
      this.#sweptAt = now;
      for (const [id, subject] of this.#subjects)
        if (subject.mayForget()) this.#subjects.delete(id);
    }
    if (now - this.#trimmedAt >= TRIM_MS) {
      this.#trimmedAt = now;
      this.#store
        .trim()
        .catch((error) =>
          this.#log.warn({ reason: reasonOf(error) }, 'limits: could not delete old rows'),
        );
    }
    return this.#active.size > 0;
  }

  /**
   * Asks the database for the units that shares need. A statement that is under way is followed by another.
   * @param all true: for all active shares; false: only for shares that requests wait for
   */
  #lease(all: boolean): void {
    this.#isAllDue ||= all;
    if (!this.#isLeasing) this.#leased = this.#leaseWhileWanted();
  }

  async #leaseWhileWanted(): Promise<void> {
    this.#isLeasing = true;
    try {
      for (;;) {
        const unitsByShare = new Map<Share, AskedUnits>();
        // half is for renewals, however many requests wait
        this.#plan(this.#wanted, unitsByShare, this.#isAllDue ? MAX_ASKED / 2 : MAX_ASKED);
        if (this.#isAllDue) this.#plan(this.#active, unitsByShare, MAX_ASKED);
        this.#isAllDue &&= unitsByShare.size === MAX_ASKED;
        if (unitsByShare.size > 0) await this.#ask(unitsByShare);
        if (!this.#isAllDue && this.#wanted.size === 0) return;
      }
    } finally {
      this.#isLeasing = false;
    }
  }

  /** Adds what to ask for. @param most shares to ask for at once */
  #plan(shares: ReadonlySet<Share>, asked: Map<Share, AskedUnits>, most: number): void {
    const now = performance.now();
    for (const share of shares) {
      if (asked.size === most) return;
      if (asked.has(share)) continue;
      this.#wanted.delete(share);
      const units = share.plan(now);
      if (units !== null) {
        asked.set(share, units);
        this.#active.delete(share);
        this.#active.add(share);
      } else if (share.isIdle) {
        share.active = false;
        share.rest();
        this.#active.delete(share);
      }
    }
  }

  async #ask(asked: ReadonlyMap<Share, AskedUnits>): Promise<void> {
    this.#askedAt = performance.now();
    const byName = new Map(
      [...asked.keys()].map((share) => [`${share.subject} ${share.kind}`, share]),
    );
    try {
      const { gateways, leased } = await this.#store.lease(this.#gateway, LEASE_SECONDS, [
        ...asked.values(),
      ]);
      if (this.#away) this.#log.info('limits: shared with the other gateways again');
      this.#away = false;
      this.#gateways = Math.max(1, gateways);
      for (const each of leased) {
        const share = byName.get(`${each.subject} ${each.kind}`) as Share;
        share.accept(each, this.#gateways, performance.now());
        if (share.waiting.some(({ again }) => again)) setTimeout(() => this.#want(share), AGAIN_MS);
      }
    } catch (error) {
      if (!this.#away)
        this.#log.warn({ reason: reasonOf(error) }, 'limits: this gateway goes on with its part');
      this.#away = true;
      for (const [share, units] of asked) share.failed(units, this.#gateways, performance.now());
    }
  }
}
