import { performance } from 'node:perf_hooks';
import { IdleInterval } from '../runtime/idle-interval.ts';
import { Address, type Lines, PATIENCE, type Peer, type PeerState, pauseMs } from './address.ts';
import { LACKING, ownShortage } from './failure.ts';

const CHECK_MS = 1000;
/** Checks from one look-up of the names to the next, while there are requests. */
const LOOK_CHECKS = 10;
/** A peer that lives is not asked more often, however long models think. */
const MOST_PATIENCE = 30;
/** How long a peer may take for the answer that shows that it lives. */
const ASK_MS = 2000;
/** So many calls in a row fail at a peer before it is left out. */
const STRIKES = 3;
/** Statuses below 500 that speak of the router, its key or its load, and not of the caller's request. */
const OF_ROUTER: ReadonlySet<number> = new Set([401, 402, 404, 407, 408, 429]);

/** One of the addresses can be used from now on, or no longer. */
export interface AddressChange {
  /** Its place in UPSTREAM_URL, from 1 on. */
  readonly address: number;
  /** undefined: the name could not be looked up, or can again. */
  readonly ip: string | undefined;
  /** Why it cannot be used; null: it can. */
  readonly reason: string | null;
}

/** What waits for a connection. */
interface Search {
  stop(reason: Error): void;
}

interface AddressesOptions<L extends Lines> {
  readonly urls: readonly URL[];
  /** Makes the place for connections to an IP. */
  readonly open: (url: URL, ip: string) => L;
  /** Asks the router at an IP for any answer. @returns null, or why there is none */
  readonly ask: (url: URL, ip: string, signal: AbortSignal) => Promise<Error | null>;
  readonly onChange: (change: AddressChange) => void;
}

/**
 * The addresses of the router, and which of their peers take requests now: those that are up, or all where none is. A
 * peer that is down is asked for an answer after pauses that grow, beside all requests. A peer whose calls fail would have
 * the fewest requests, and get all of them: it is left out, and gets one call after each pause, until one succeeds.
 */
export class Addresses<L extends Lines> {
  readonly all: readonly Address<L>[];
  /** Those under way. */
  readonly searches = new Set<Search>();
  readonly #ask: AddressesOptions<L>['ask'];
  readonly #onChange: AddressesOptions<L>['onChange'];
  /** Peers of the families that are used. */
  #peers: readonly Peer<L>[] = [];
  /** Those of them that take requests. */
  #taking: readonly Peer<L>[] = [];
  #isWatched = false;
  /** Those that are left out and get the next call. */
  #trials: Peer<L>[] = [];
  /** Names that could not be looked up. */
  readonly #lost = new Set<Address<L>>();
  /** With whom a search for the peer with the fewest requests begins. */
  #turn = 0;
  #checks = 0;
  readonly #checker = new IdleInterval(CHECK_MS, () => this.#check());
  readonly #closing = new AbortController();

  constructor({ urls, open, ask, onChange }: AddressesOptions<L>) {
    this.all = urls.map((url, at) => new Address(at + 1, url, open));
    this.#ask = ask;
    this.#onChange = onChange;
    this.#update();
  }

  /** All to whom there may be connections. */
  get peers(): readonly Peer<L>[] {
    return this.all.flatMap(({ all }) => all);
  }

  /** Whether a request has the choice between peers. */
  get isChoice(): boolean {
    return this.#peers.length > 1;
  }

  /** The peer with the fewest requests and failures, in turn where several have as few; null: none is known yet. */
  choose(): Peer<L> | null {
    if (this.#isWatched) this.#checker.wake();
    return this.#trials.length > 0 ? this.#nextTrial() : this.#fewest(this.#taking);
  }

  #nextTrial(): Peer<L> | null {
    const peer = this.#trials.shift() as Peer<L>;
    if (peer.state !== 'failing' || !peer.address.peers.includes(peer)) return this.choose();
    this.#planTrial(peer); // where this call tells nothing, because the client left
    return peer;
  }

  /** The next peer to try for a request, among those that it has not tried; null: there is none. */
  next(tried: ReadonlySet<Peer<L>>): Peer<L> | null {
    const isUntried = untried(tried);
    return (
      this.#fewest(this.#taking.filter(isUntried)) ?? this.#fewest(this.#peers.filter(isUntried))
    );
  }

  /** Whether there is a peer that a request has not tried, of any family. */
  hasAnother(tried: ReadonlySet<Peer<L>>): boolean {
    return this.all.some(({ known }) => known.some(untried(tried)));
  }

  #fewest(peers: readonly Peer<L>[]): Peer<L> | null {
    if (peers.length < 2) return peers[0] ?? null;
    const first = this.#turn++ % peers.length;
    let found = peers[first] as Peer<L>;
    for (let k = 1; k < peers.length; k++) {
      const peer = peers[(first + k) % peers.length] as Peer<L>;
      if (peer.lines.busy + peer.strikes < found.lines.busy + found.strikes) found = peer;
    }
    return found;
  }

  /** The names to look up before a connection is made: where no peer is up, also those that are left alone for a while. */
  due(): Address<L>[] {
    const now = performance.now();
    const isAnyUp = this.#taking.some(
      ({ state, address }) => state === 'up' && address.isFresh(now),
    );
    return this.all.filter(
      (address) => address.isDue(now) || (address.lookError !== null && !isAnyUp),
    );
  }

  /** @returns null, or why the name has no answer */
  async look(address: Address<L>): Promise<Error | null> {
    const error = await address.look();
    if (this.#isClosed) return error;
    this.#update();
    const isNews = error === null ? this.#lost.delete(address) : !this.#lost.has(address);
    if (error !== null) this.#lost.add(address);
    if (isNews)
      this.#onChange({ address: address.index, ip: undefined, reason: error?.message ?? null });
    return error;
  }

  /** A connection to this peer was made. A system accepts connections for a process that is frozen, too. */
  connected(peer: Peer<L>): void {
    if (peer.state === 'unreachable') this.#isUp(peer);
  }

  /** No connection to this peer can be made, or not soon. */
  failed(peer: Peer<L>, error: Error & { code?: string }): void {
    const isOurs = ownShortage(error) !== null && error.code !== 'EADDRNOTAVAIL';
    if (!isOurs) this.#isDown(peer, 'unreachable', error);
  }

  /**
   * A call that was sent to this peer ended, or its answer began.
   * @param status of the answer; 0: the connection broke before a byte of its body
   * @param isOptional whether routers may lack the endpoint
   */
  judge(peer: Peer<L>, status: number, isOptional = false): void {
    if (isOptional && LACKING.has(status)) return;
    if (status >= 200 && status < 400) {
      if (peer.strikes === 0) return;
      peer.strikes = 0;
      if (peer.state !== 'failing') return;
      const wasAnyUp = this.#peers.some(({ state }) => state === 'up');
      this.#isUp(peer);
      if (!wasAnyUp) this.#trials = this.#peers.filter(({ state }) => state === 'failing'); // what failed them all is over
    } else if ((status < 400 || status >= 500 || OF_ROUTER.has(status)) && this.isChoice) {
      if (++peer.strikes >= STRIKES) this.#isDown(peer, 'failing', new Error(FAILING));
    }
  }

  /** The share of each address' peers that are up, in their order. */
  get shares(): number[] {
    return this.all.map(({ share }) => share);
  }

  /** Stops the searches under way, and asks and looks for nothing any more. */
  close(reason: Error): void {
    this.#closing.abort();
    this.#checker.rest();
    for (const { timer } of this.peers) clearTimeout(timer);
    for (const search of this.searches) search.stop(reason);
  }

  get #isClosed(): boolean {
    return this.#closing.signal.aborted;
  }

  #update(): void {
    this.#peers = this.all.flatMap(({ peers }) => peers);
    const up = this.#peers.filter(({ state }) => state === 'up');
    // at most half are left out for what they answer: the rest would get too much. Their failures count as requests
    const failing = this.#peers
      .filter(({ state }) => state === 'failing')
      .slice(Math.ceil(this.#peers.length / 2));
    this.#taking = up.length > 0 ? [...up, ...failing] : this.#peers;
    this.#isWatched = this.#peers.length > 1 || this.all.some(({ isName }) => isName);
  }

  #isUp(peer: Peer<L>): void {
    clearTimeout(peer.timer);
    peer.state = 'up';
    peer.failures = 0;
    peer.strikes = 0;
    peer.silence = 0;
    peer.patience = PATIENCE;
    peer.address.settle();
    this.#update();
    if (peer.isTold) this.#onChange({ address: peer.address.index, ip: peer.ip, reason: null });
    peer.isTold = false;
  }

  #isDown(peer: Peer<L>, state: Exclude<PeerState, 'up'>, { message, name }: Error): void {
    if (this.#isClosed || peer.state !== 'up') return;
    peer.state = state;
    this.#planTrial(peer);
    const changesFamily = peer.address.settle();
    this.#update();
    // who has IPs of a family that this machine cannot use is told nothing: the other family serves
    if (changesFamily) return;
    peer.isTold = true;
    this.#onChange({ address: peer.address.index, ip: peer.ip, reason: message || name });
  }

  #planTrial(peer: Peer<L>): void {
    clearTimeout(peer.timer);
    peer.timer = setTimeout(() => void this.#try(peer), pauseMs(++peer.failures)).unref();
  }

  /** Asks a peer that is down for an answer; one whose calls fail may answer, and gets a call. */
  async #try(peer: Peer<L>): Promise<void> {
    const { address } = peer;
    if (!address.peers.includes(peer)) {
      peer.state = 'up'; // as far as anybody knows: its family is not used
      address.settle();
      return this.#update();
    }
    if (peer.state === 'failing') return void this.#trials.push(peer);
    const error = await this.#answerOf(peer);
    if (this.#isClosed || peer.state === 'up' || !address.known.includes(peer)) return;
    if (error === null) this.#isUp(peer);
    else this.#planTrial(peer);
  }

  /** @returns null, or why there is none */
  #answerOf({ address, ip }: Peer<L>): Promise<Error | null> {
    return this.#ask(
      address.url,
      ip,
      AbortSignal.any([AbortSignal.timeout(ASK_MS), this.#closing.signal]),
    );
  }

  /** Looks for peers that take requests and answer none, and whether names have other IPs. @returns whether there are requests */
  #check(): boolean {
    if (++this.#checks % LOOK_CHECKS === 0) {
      for (const address of this.all) if (address.isName) void this.look(address);
    }
    for (const peer of this.#peers) {
      if (peer.lines.busy === 0 || peer.heard) {
        if (peer.heard && peer.state === 'silent') this.#isUp(peer);
        peer.heard = false;
        peer.silence = 0;
        peer.patience = PATIENCE;
      } else if (
        ++peer.silence >= peer.patience &&
        peer.state === 'up' &&
        this.#taking.length > 1
      ) {
        void this.#checkLife(peer);
      }
    }
    return this.#peers.some(({ lines }) => lines.busy > 0);
  }

  /** Asks a peer whether it lives: models may think long, so silence alone shows nothing. */
  async #checkLife(peer: Peer<L>): Promise<void> {
    peer.silence = Number.NEGATIVE_INFINITY; // it is asked once at a time
    const error = await this.#answerOf(peer);
    peer.silence = 0;
    peer.patience = Math.min(MOST_PATIENCE, 2 * peer.patience);
    if (error !== null && !peer.heard) this.#isDown(peer, 'silent', new Error(SILENT));
  }
}

/** Judges whether a request may try a peer. */
function untried<L extends Lines>(tried: ReadonlySet<Peer<L>>): (peer: Peer<L>) => boolean {
  const now = performance.now();
  return (peer) => !tried.has(peer) && peer.address.isFresh(now);
}

const FAILING = `${STRIKES} calls in a row failed`;
const SILENT = 'it has requests, sends nothing and does not answer HEAD /models';
