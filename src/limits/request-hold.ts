import { performance } from 'node:perf_hooks';
import type { GatewayError } from '../domain/errors.ts';
import type { Hold, MaybeAsync } from '../domain/ports.ts';
import type { Share } from './share.ts';
import type { SlotShare } from './slot-share.ts';
import type { KeyShares } from './subject.ts';

/** Where a hold takes units, and returns them. */
export interface UnitSource {
  /** Takes units of each of several shares of a key, or of none. @throws GatewayError 429, also as a rejection */
  takeAll(ofKey: KeyShares, shares: readonly Share[], units: number): MaybeAsync<void>;
  /** Refuses a request that needs more units than the limit of a share has. @returns the error: 429 */
  refuse(ofKey: KeyShares, share: Share, units: number, prompt: number): GatewayError;
  /** A call is over. */
  release(slots: SlotShare): void;
}

/** The units that one request took of its limits. */
export class RequestHold implements Hold {
  readonly #shares: KeyShares;
  readonly #source: UnitSource;
  /** Tokens reserved, and when. */
  #reserved = 0;
  #reservedAt = 0;
  #ended = false;

  constructor(shares: KeyShares, source: UnitSource) {
    this.#shares = shares;
    this.#source = source;
    for (const share of shares.tokens) share.holds++;
  }

  get countsTokens(): boolean {
    return this.#shares.tokens.length > 0;
  }

  reserve(prompt: number, completion: number | null): MaybeAsync<void> {
    const { tokens } = this.#shares;
    let units = completion === null ? prompt : prompt + completion;
    for (const share of tokens)
      if (units > share.limit) throw this.#source.refuse(this.#shares, share, units, prompt);
    for (const { typical } of tokens)
      if (completion === null) units = Math.max(units, Math.ceil(typical));
    for (const { limit } of tokens) units = Math.min(units, limit); // others were larger, and this one may not be
    const taken = this.#source.takeAll(this.#shares, tokens, units);
    return taken instanceof Promise ? taken.then(() => this.#took(units)) : this.#took(units);
  }

  settle(tokens: number): void {
    if (this.#ended) return;
    for (const share of this.#shares.tokens) share.settle(this.#reserved, tokens, this.#reservedAt);
    this.#reserved = 0;
    this.end();
  }

  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    for (const share of this.#shares.calls) this.#source.release(share);
    for (const share of this.#shares.tokens) share.holds--;
    this.#refund();
  }

  #took(units: number): void {
    this.#reserved = units;
    this.#reservedAt = performance.now();
    if (this.#ended) this.#refund(); // the client left while the units were waited for
  }

  #refund(): void {
    for (const share of this.#shares.tokens) share.refund(this.#reserved, this.#reservedAt);
    this.#reserved = 0;
  }
}
