import type { Lines, Peer } from './address.ts';
import type { Addresses } from './addresses.ts';

/** After so long without a connection another peer is tried too. */
const STAGGER_MS = 1000;
const SLOW = `no connection within ${STAGGER_MS} ms`;

interface DialEvents<L extends Lines> {
  /** Opens a connection to this peer. It tells of itself by `take` or `failed`. */
  open(peer: Peer<L>, dial: Dial<L>): void;
  /** There is no connection, nothing was sent, and nothing more is tried. */
  onFailed(error: Error): void;
  /** A part of the search threw: a fault of the gateway. */
  onThrown(error: unknown): void;
}

/**
 * The search for a connection for one request: one peer after the other is tried, until a connection is made. From then
 * on nothing is tried for it.
 */
export class Dial<L extends Lines> {
  readonly #addresses: Addresses<L>;
  readonly #events: DialEvents<L>;
  readonly #tried = new Set<Peer<L>>();
  readonly #opening = new Set<Peer<L>>();
  #looking = 0;
  #isOver = false;
  #error = new Error('the address has no IP');
  #timer: NodeJS.Timeout | undefined;

  constructor(addresses: Addresses<L>, events: DialEvents<L>) {
    this.#addresses = addresses;
    this.#events = events;
  }

  /** @param first the peer to try first; null: any. @param looks whether names are looked up before */
  begin(first: Peer<L> | null, looks = true): void {
    this.#addresses.searches.add(this);
    const due = looks ? this.#addresses.due() : [];
    if (due.length > 0 || this.#addresses.isChoice) {
      this.#timer = setInterval(() => this.guarded(() => this.#tryAnother()), STAGGER_MS).unref();
    }
    for (const address of due) void this.#look(address);
    if (due.length === this.#addresses.all.length) return; // none of the IPs known is fresh
    if (first === null || due.includes(first.address)) this.#next();
    else this.#open(first);
  }

  /** There is a connection. @returns whether the request may be sent on it: it is the first */
  take(peer: Peer<L>): boolean {
    this.#addresses.connected(peer);
    return this.#end();
  }

  /** No connection to this peer could be made. */
  failed(peer: Peer<L>, error: Error): void {
    this.#opening.delete(peer);
    this.#addresses.failed(peer, error);
    this.#error = error;
    if (!this.#isOver) this.#next();
  }

  /** Tries nothing more. */
  stop(reason: Error): void {
    if (this.#end()) this.#events.onFailed(reason);
  }

  async #look(address: Parameters<Addresses<L>['look']>[0]): Promise<void> {
    this.#looking++;
    const error = await this.#addresses.look(address);
    this.#looking--;
    if (error !== null) this.#error = error;
    this.guarded(() => {
      if (!this.#isOver && this.#opening.size === 0) this.#next();
    });
  }

  /** Does what a timer or an event begins. What it throws ends the search. */
  guarded(part: () => void): void {
    try {
      part();
    } catch (error) {
      this.#end();
      this.#events.onThrown(error);
    }
  }

  #next(): void {
    const peer = this.#addresses.next(this.#tried);
    if (peer !== null) return this.#open(peer);
    if (this.#opening.size === 0 && this.#looking === 0) this.stop(this.#error);
  }

  #open(peer: Peer<L>): void {
    this.#tried.add(peer);
    this.#opening.add(peer);
    this.#events.open(peer, this);
  }

  /** Takes those that are slow for unreachable where there is another one. */
  #tryAnother(): void {
    if (!this.#addresses.hasAnother(this.#tried)) return;
    for (const peer of this.#opening) this.#addresses.failed(peer, new Error(SLOW));
    this.#next();
  }

  /** @returns false when it was over before */
  #end(): boolean {
    if (this.#isOver) return false;
    this.#isOver = true;
    clearInterval(this.#timer);
    this.#addresses.searches.delete(this);
    return true;
  }
}
