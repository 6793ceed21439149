import { type LimitKind, type Limits, type LimitsLeft, tighter } from '../domain/limits.ts';
import { RateShare } from './rate-share.ts';
import type { Share } from './share.ts';
import { SlotShare } from './slot-share.ts';

/** A company or a key, with this gateway's shares of its limits. */
export class Subject {
  readonly id: string;
  requests: RateShare | null = null;
  tokens: RateShare | null = null;
  calls: SlotShare | null = null;
  /** Removed from the limiter's table: a reference to it has to be looked up again. */
  forgotten = false;
  /** The kinds that were limited before. Calls of that time are still in flight. */
  readonly #made: { requests?: RateShare; tokens?: RateShare; calls?: SlotShare } = {};
  #wasIdle = false;

  constructor(id: string) {
    this.id = id;
  }

  setLimits(limits: Limits | null): void {
    const { id } = this;
    const made = this.#made;
    const { requestsPerMinute = null, tokensPerMinute = null, maxConcurrent = null } = limits ?? {};
    if (requestsPerMinute !== null)
      made.requests ??= new RateShare(id, 'requests', requestsPerMinute);
    if (tokensPerMinute !== null) made.tokens ??= new RateShare(id, 'tokens', tokensPerMinute);
    if (maxConcurrent !== null) made.calls ??= new SlotShare(id, 'calls', maxConcurrent);
    this.requests = limited(made.requests, requestsPerMinute);
    this.tokens = limited(made.tokens, tokensPerMinute);
    this.calls = limited(made.calls, maxConcurrent);
  }

  /** Whether it was inactive at the last two questions. Then it is forgotten. */
  mayForget(): boolean {
    const isIdle = Object.values(this.#made).every(({ active }) => !active);
    this.forgotten = isIdle && this.#wasIdle;
    this.#wasIdle = isIdle;
    return this.forgotten;
  }
}

function limited<T extends Share>(share: T | undefined, limit: number | null): T | null {
  if (share === undefined || limit === null) return null;
  share.setLimit(limit);
  return share;
}

/** The shares of one key: its own and its company's. */
export class KeyShares {
  readonly key: Subject | null;
  readonly company: Subject | null;
  readonly companyLimits: Limits | null;
  readonly all: readonly Share[];
  /**
   * Taken by each request, in this order. The key's come first, so that a refusal by the key takes nothing from its
   * company. Of either, slots come first: one is asked for again after a second, requests after up to a minute.
   */
  readonly entry: readonly Share[];
  readonly calls: readonly SlotShare[];
  readonly tokens: readonly RateShare[];

  constructor(key: Subject | null, company: Subject | null, companyLimits: Limits | null) {
    this.key = key;
    this.company = company;
    this.companyLimits = companyLimits;
    this.tokens = [key?.tokens, company?.tokens].filter((share) => share != null);
    this.calls = [key?.calls, company?.calls].filter((share) => share != null);
    const entry = [key?.calls, key?.requests, company?.calls, company?.requests];
    this.entry = entry.filter((share) => share != null);
    this.all = [...this.entry, ...this.tokens];
  }

  get isForgotten(): boolean {
    return this.key?.forgotten === true || this.company?.forgotten === true;
  }

  left(now: number): LimitsLeft {
    const of = (kind: LimitKind) =>
      tighter(this.key?.[kind]?.left(now) ?? null, this.company?.[kind]?.left(now) ?? null);
    return { requests: of('requests'), tokens: of('tokens'), calls: of('calls') };
  }
}
