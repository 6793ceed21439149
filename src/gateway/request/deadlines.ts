import { performance } from 'node:perf_hooks';
import type { ClientResponse } from '../../http/exchange.ts';
import { writeQueue } from '../../http/write-queue.ts';
import { type ActiveMember, ActiveSet } from '../../runtime/active-set.ts';
import { IdleInterval } from '../../runtime/idle-interval.ts';
import type { Deadline } from '../../upstream/failure.ts';
import type { Reply } from './reply.ts';

/** How late a deadline may be noticed. */
const TICK_MS = 100;
/** If the upstream was paused for this part of `totalMs`, the client's slow reading is why the call took too long. */
const HELD_PART = 0.1;
/** Ticks from one check of the clients to the next: reading their state costs more, and their limit is long. */
const CLIENT_TICKS = 10;
/** The part of the places for calls whose clients left that one company may have. */
const OF_COMPANY = 1 / 2;

// the states of a call
const CONNECTING = 0;
const WAITING = 1;
const ANSWERING = 2;
const SETTLED = 3;

/** How long each part of a request may take, in milliseconds. */
interface TimeLimits {
  /** Until there is a connection to the upstream. */
  readonly connectMs: number;
  /** Until the upstream's answer begins, connecting included. */
  readonly firstByteMs: number;
  /** A pause within its answer. */
  readonly idleMs: number;
  /** The whole answer. */
  readonly totalMs: number;
  /** How long a client may read nothing while bytes wait for it. */
  readonly stallMs: number;
  /** The most calls whose clients left and whose answers are still awaited. */
  readonly maxAbandoned: number;
}

/** Whoever waits for a call. */
export interface WatchedCall {
  /** Called at most once, and not after `settled`. */
  onDeadline(deadline: Deadline): void;
  /** The check of its deadlines threw. */
  onThrown(error: unknown): void;
}

/**
 * The deadlines of all calls, checked by one interval: 30 ns for each call and tick. A timer per call
 * would have to be set again with every chunk; here a chunk costs one store.
 */
export class Deadlines {
  readonly #limits: TimeLimits;
  readonly #open: WatchedCalls;
  readonly #interval: IdleInterval;
  #ticks = 0;

  constructor(limits: TimeLimits) {
    this.#limits = limits;
    this.#open = new WatchedCalls(limits.maxAbandoned);
    this.#interval = new IdleInterval(TICK_MS, () => {
      this.check(performance.now());
      return this.#open.size > 0;
    });
  }

  /** Watches a call that goes upstream now, until its response closes. */
  watch(res: ClientResponse, call: WatchedCall): Watch {
    this.#interval.wake();
    return new Watch(res, call, this.#open);
  }

  /** Watches the client alone, which has not read all of an answer that no relay sent. */
  watchReader(reply: Reply): void {
    const onThrown = (error: unknown): void => reply.onThrown(error);
    const watch = this.watch(reply.res, { onDeadline() {}, onThrown });
    watch.settled();
    reply.relay = { onClientClose: () => watch.close() };
  }

  /** @param now monotonic milliseconds */
  check(now: number): void {
    const checksClients = ++this.#ticks % CLIENT_TICKS === 0;
    this.#guarded((watch) => watch.check(now, this.#limits, checksClients));
  }

  /** Ends every call that still awaits something from the upstream: the gateway stops. */
  stop(): void {
    this.#guarded((watch) => watch.stop());
  }

  close(): void {
    this.#interval.rest();
  }

  /** Does this for each call; where it throws, it ends that call alone. */
  #guarded(part: (watch: Watch) => void): void {
    this.#open.each((watch) => {
      try {
        part(watch);
      } catch (error) {
        watch.call.onThrown(error);
      }
    });
  }
}

/** The calls under watch, and how many of them have lost their client. */
class WatchedCalls extends ActiveSet<Watch> {
  readonly #most: number;
  #abandoned = 0;
  readonly #byCompany = new Map<string, number>();

  /** @param most calls whose clients left */
  constructor(most: number) {
    super();
    this.#most = most;
  }

  /** @returns false when too many answers are awaited like that already */
  abandon(company: string): boolean {
    const own = this.#byCompany.get(company) ?? 0;
    if (this.#abandoned >= this.#most || own >= OF_COMPANY * this.#most) return false;
    this.#abandoned++;
    this.#byCompany.set(company, own + 1);
    return true;
  }

  /** The answer is awaited no longer. */
  forget(company: string): void {
    this.#abandoned--;
    const own = (this.#byCompany.get(company) as number) - 1;
    if (own === 0) this.#byCompany.delete(company);
    else this.#byCompany.set(company, own);
  }
}

/** One call under watch. */
export class Watch implements ActiveMember {
  index = -1;
  /** Set by the relay whenever the upstream sends something. */
  active = true;
  /** The upstream is paused because the client reads slowly; such a pause does not count. */
  paused = false;
  #state = CONNECTING;
  readonly #res: ClientResponse;
  readonly call: WatchedCall;
  readonly #open: WatchedCalls;
  /** The company whose client left while its answer is still awaited. */
  #abandoned: string | null = null;
  /** When it was first checked, and the last check that found it active or paused. */
  #began = -1;
  #since = -1;
  /** How long the upstream was paused, in milliseconds, as the checks saw it. */
  #heldMs = 0;
  /** Bytes that waited for the client at the last check, those of them in the socket, and since when it takes none. */
  #waiting = 0;
  #queue = 0;
  #waitingSince = -1;

  constructor(res: ClientResponse, call: WatchedCall, open: WatchedCalls) {
    this.#res = res;
    this.call = call;
    this.#open = open;
    open.join(this);
  }

  /** The request was handed to a connection. */
  sent(): void {
    if (this.#state === CONNECTING) this.#state = WAITING;
  }

  /** The answer has begun. */
  answered(): void {
    if (this.#state < ANSWERING) this.#state = ANSWERING;
    this.active = true;
  }

  /** Nothing more is awaited from the upstream; the client may still be reading its answer. */
  settled(): void {
    this.#state = SETTLED;
  }

  /**
   * Keeps waiting for the answer after the client left, within the same limits.
   * @returns false when too many answers are awaited like that already
   */
  abandon(company: string): boolean {
    if (!this.#open.abandon(company)) return false;
    this.#abandoned = company;
    return true;
  }

  /** The client's side is over, and nothing more is awaited. */
  close(): void {
    if (this.#abandoned !== null) this.#open.forget(this.#abandoned);
    this.#abandoned = null;
    this.#open.leave(this);
  }

  /** @param checksClient whether its client is checked too */
  check(now: number, limits: TimeLimits, checksClient: boolean): void {
    if (this.#began < 0) this.#began = now;
    if (checksClient && this.#stalls(now, limits.stallMs)) {
      this.close();
      this.#res.destroy();
      return;
    }
    if (this.#state === SETTLED) return;
    if (this.active || this.paused) {
      this.active = false;
      this.#since = now;
    }
    if (this.paused) this.#heldMs += TICK_MS;
    const age = now - this.#began;
    if (this.#state === CONNECTING) {
      if (age >= Math.min(limits.connectMs, limits.firstByteMs)) this.#expire('connect');
    } else if (age >= limits.totalMs)
      this.#expire(this.#heldMs < HELD_PART * limits.totalMs ? 'total' : 'reading');
    else if (this.#state === ANSWERING) {
      if (now - this.#since >= limits.idleMs) this.#expire('idle');
    } else if (age >= limits.firstByteMs) this.#expire('first_byte');
  }

  stop(): void {
    if (this.#state !== SETTLED) this.#expire('stop');
  }

  #expire(deadline: Deadline): void {
    this.#state = SETTLED;
    this.call.onDeadline(deadline);
  }

  /** Whether the client has read nothing for too long although bytes wait for it. */
  #stalls(now: number, stallMs: number): boolean {
    const { socket } = this.#res; // null: the answer waits for an earlier one on the same connection
    const waiting = socket === null ? 0 : this.#res.writableLength;
    const queue = waiting === 0 ? 0 : writeQueue(socket);
    if (waiting === 0 || waiting < this.#waiting || queue !== this.#queue) this.#waitingSince = -1;
    this.#waiting = waiting;
    this.#queue = queue;
    if (waiting === 0) return false;
    if (this.#waitingSince < 0) this.#waitingSince = now;
    return now - this.#waitingSince >= stallMs;
  }
}
