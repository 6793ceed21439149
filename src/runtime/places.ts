import type { Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import { networkOf } from './node-http.ts';

/** When only this part of the places is free, as many idle connections are closed: so that new ones need not be. */
const AHEAD = 1 / 16;
const AHEAD_MS = 1000;

interface PlacesOptions {
  /** How many there are. */
  readonly count: number;
  /** All connections come from proxies, which bring those of everybody: none has too many. */
  readonly areProxied: boolean;
  /** Whether a request of this connection is under way. */
  isBusy(socket: Socket): boolean;
  /** A connection is closed because all places are taken. */
  onFull?(): void;
}

/**
 * The places for connections of a listener. Where all are taken a new connection gets the place of another one, of the
 * network that has the most: so nobody keeps others out by being first. In a network those that never had an answer go
 * before idle ones, and older ones before younger ones; none whose request is under way.
 */
export class Places {
  readonly #count: number;
  readonly #areProxied: boolean;
  readonly #isBusy: PlacesOptions['isBusy'];
  readonly #onFull: () => void;
  /** The connections of each network, the oldest first. */
  readonly #networks = new Map<string, Set<Socket>>();
  #taken = 0;
  /** Idle connections that are being closed. */
  readonly #leaving = new Set<Socket>();
  #aheadAt = Number.NEGATIVE_INFINITY;

  constructor({ count, areProxied, isBusy, onFull = () => {} }: PlacesOptions) {
    this.#count = count;
    this.#areProxied = areProxied;
    this.#isBusy = isBusy;
    this.#onFull = onFull;
  }

  /** Gives a new connection a place. @returns whether there is one: else all others have a request under way */
  take(socket: Socket): boolean {
    const network = this.#areProxied ? '' : networkOf(socket.remoteAddress);
    const own = this.#networks.get(network) ?? new Set();
    this.#networks.set(network, own.add(socket));
    this.#taken++;
    socket.once('close', () => this.#leave(network, socket));
    if (this.#taken > (1 - AHEAD) * this.#count && AHEAD * this.#count > 1) this.#makeRoom(socket);
    if (this.#taken <= this.#count) return true;
    this.#onFull();
    const [from, victim] = this.#victim(socket) ?? [network, socket];
    this.#leave(from, victim);
    if (victim === socket) return false;
    if (hadAnswer(victim) && this.#leaving.size < Math.ceil(AHEAD * this.#count))
      this.#close(victim);
    else victim.destroy();
    return true;
  }

  /** The connection that gives up its place, the new one if its network has no other; null: all have a request under way. */
  #victim(fresh: Socket): [network: string, Socket] | null {
    let [found, most]: [[string, Socket] | null, number] = [null, 0];
    for (const [network, all] of this.#networks) {
      if (all.size <= most) continue;
      const own = all.has(fresh) ? fresh : null;
      const socket = this.#firstOf(all, fresh, false) ?? this.#firstOf(all, fresh, true) ?? own;
      if (socket !== null) [found, most] = [[network, socket], all.size];
    }
    return found;
  }

  #leave(network: string, socket: Socket): void {
    this.#leaving.delete(socket);
    const all = this.#networks.get(network);
    if (!all?.delete(socket)) return;
    this.#taken--;
    if (all.size === 0) this.#networks.delete(network);
  }

  /** Closes the oldest idle connections of the network that has the most, unless others would go before them. */
  #makeRoom(fresh: Socket): void {
    const now = performance.now();
    if (now - this.#aheadAt < AHEAD_MS) return;
    this.#aheadAt = now;
    const [network, victim] = this.#victim(fresh) ?? ['', fresh];
    if (!hadAnswer(victim)) return;
    const idle = [...(this.#networks.get(network) ?? [])].filter(
      (each) => hadAnswer(each) && !this.#isBusy(each),
    );
    for (const socket of idle.slice(0, Math.ceil(AHEAD * this.#count))) {
      this.#leave(network, socket);
      this.#close(socket);
    }
  }

  /** Closes an idle connection, unless the next request is coming. */
  #close(socket: Socket): void {
    this.#leaving.add(socket);
    socket.setTimeout(1);
  }

  /** @param fresh is left out. @param idle whether it had an answer */
  #firstOf(sockets: Iterable<Socket>, fresh: Socket, idle: boolean): Socket | null {
    for (const socket of sockets) {
      if (socket !== fresh && hadAnswer(socket) === idle && !this.#isBusy(socket)) return socket;
    }
    return null;
  }
}

/** Whether a connection had an answer: with it Node begins to wait for the next request. */
function hadAnswer({ timeout = 0 }: Socket): boolean {
  return timeout > 0;
}
