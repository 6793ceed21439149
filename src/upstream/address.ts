import dns from 'node:dns';
import { isIP } from 'node:net';
import { performance } from 'node:perf_hooks';

/** How long an IP is used after the last answer that had it: some name servers tell a part of them at a time. */
const KEPT_MS = 30_000;
/** How long the answer of a name server holds for further connections. */
const FRESH_MS = 1000;
/** So many checks a peer may be silent while it has requests, before it is asked whether it lives. */
export const PATIENCE = 3;
const FIRST_PAUSE_MS = 1000;
const LONGEST_PAUSE_MS = 30_000;

/** How long to leave alone what failed so many times in a row, in milliseconds: half of it is random. */
export function pauseMs(failures: number): number {
  return (
    Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** (failures - 1)) * (0.5 + Math.random() / 2)
  );
}

/** The connections to one peer, as a pool has them. */
export interface Lines {
  /** Connections that are opening or have a request. */
  readonly busy: number;
  /** Closes the unused connections now, and each other one after its answer. */
  retire(): void;
}

/**
 * `unreachable`: no connection can be made. `silent`: it takes requests and answers none. `failing`: its calls fail, one
 * after the other.
 */
export type PeerState = 'up' | 'unreachable' | 'silent' | 'failing';

/** One IP of an address, and the connections to it. */
export class Peer<L extends Lines> {
  readonly address: Address<L>;
  readonly ip: string;
  /** 4 or 6. */
  readonly family: number;
  readonly lines: L;
  state: PeerState = 'up';
  /** Trials in a row that failed. */
  failures = 0;
  /** Calls in a row that failed. */
  strikes = 0;
  /** Waits for the next trial. */
  timer: NodeJS.Timeout | undefined;
  /** Whether a byte of an answer came since the last check. */
  heard = false;
  /** Checks in a row in which it had requests and sent nothing, and how many of them are borne. */
  silence = 0;
  patience = PATIENCE;
  /** Whether somebody was told that it is down. */
  isTold = false;
  /** When the last answer of a name server had it; monotonic milliseconds. */
  seenAt = performance.now();

  constructor(address: Address<L>, ip: string, lines: L) {
    this.address = address;
    this.ip = ip;
    this.family = isIP(ip);
    this.lines = lines;
  }
}

/**
 * One address of UPSTREAM_URL: an IP, or a name that stands for some. Of a name with IPs of both families those of one
 * are used, because they lead to the same machines: the family that the system puts first, or the other one where no
 * peer of the first can be used.
 */
export class Address<L extends Lines> {
  /** Its place in UPSTREAM_URL, from 1 on. */
  readonly index: number;
  readonly url: URL;
  readonly isName: boolean;
  /** Why the last look-up failed; null: it did not. */
  lookError: Error | null = null;
  readonly #host: string;
  readonly #open: (url: URL, ip: string) => L;
  readonly #known = new Map<string, Peer<L>>();
  /** Peers whose last answers are awaited: new requests go elsewhere. */
  #leaving: readonly Peer<L>[] = [];
  #family = 0;
  #failures = 0;
  /** Monotonic milliseconds. */
  #answeredAt = Number.NEGATIVE_INFINITY;
  #dueAt = Number.NEGATIVE_INFINITY;
  #looking: Promise<Error | null> | null = null;

  constructor(index: number, url: URL, open: (url: URL, ip: string) => L) {
    this.index = index;
    this.url = url;
    this.#host = url.hostname.replace(/^\[|\]$/g, ''); // of an IPv6 address
    this.#open = open;
    this.isName = isIP(this.#host) === 0;
    if (!this.isName) this.#know(this.#host);
    this.settle();
  }

  /** The peers of the family that is used. */
  get peers(): Peer<L>[] {
    return this.known.filter(({ family }) => family === this.#family);
  }

  /** The peers of both families. */
  get known(): Peer<L>[] {
    return [...this.#known.values()];
  }

  /** All to whom there may be connections. */
  get all(): Peer<L>[] {
    return [...this.#known.values(), ...this.#leaving];
  }

  /** Whether the name has to be looked up before its IPs are used. */
  isDue(now: number): boolean {
    return this.isName && now >= this.#dueAt;
  }

  /** Whether connections may be made to the IPs that are known. */
  isFresh(now: number): boolean {
    return !this.isName || now < this.#answeredAt + KEPT_MS;
  }

  /** The share of its peers that are up, 0 to 1. */
  get share(): number {
    if (this.lookError !== null && !this.isFresh(performance.now())) return 0;
    const { peers } = this;
    return peers.length === 0
      ? 1
      : peers.filter(({ state }) => state === 'up').length / peers.length;
  }

  /** Looks the name up, once for all who ask meanwhile. @returns null, or why there is no answer */
  look(): Promise<Error | null> {
    this.#looking ??= this.#look().finally(() => {
      this.#looking = null;
    });
    return this.#looking;
  }

  async #look(): Promise<Error | null> {
    const answer = await lookUp(this.#host);
    const now = performance.now();
    if (answer instanceof Error) {
      this.lookError = answer;
      this.#dueAt = now + pauseMs(++this.#failures);
      return answer;
    }
    this.lookError = null;
    this.#failures = 0;
    this.#answeredAt = now;
    this.#dueAt = now + FRESH_MS;
    for (const { address } of answer) this.#know(address).seenAt = now;
    this.#leaving = this.#leaving.filter(({ lines }) => lines.busy > 0);
    for (const peer of this.known) if (peer.seenAt < now - KEPT_MS) this.#forget(peer);
    this.settle();
    return null;
  }

  #know(ip: string): Peer<L> {
    let peer = this.#known.get(ip);
    if (peer === undefined) {
      peer = new Peer(this, ip, this.#open(this.url, ip));
      this.#known.set(ip, peer);
    }
    return peer;
  }

  #forget(peer: Peer<L>): void {
    this.#known.delete(peer.ip);
    this.#leaving = [...this.#leaving, peer];
    clearTimeout(peer.timer);
    peer.lines.retire();
  }

  /** Takes the other family where only that one has a peer that is up. @returns whether it did */
  settle(): boolean {
    const { known } = this;
    const family = this.#family;
    if (known.some((peer) => peer.family === family && peer.state === 'up')) return false;
    const other =
      known.find(({ state }) => state === 'up') ?? (this.peers.length === 0 ? known[0] : undefined);
    this.#family = other?.family ?? family;
    return this.#family !== family;
  }
}

/** The IPs of a name in the order of the system, or why there are none. */
function lookUp(name: string): Promise<dns.LookupAddress[] | Error> {
  return new Promise((resolve) => {
    // the options by which net.connect looks names up
    dns.lookup(name, { all: true, hints: dns.ADDRCONFIG }, (error, found) =>
      resolve(error ?? found),
    );
  });
}
