import type { ServerResponse } from 'node:http';
import { performance } from 'node:perf_hooks';
import { ActiveSet, type Member } from '../runtime/active-set.ts';
import { IdleInterval } from '../runtime/idle-interval.ts';

/** How long each part of a request may take, in milliseconds. */
export interface TimeLimits {
  /** Until a connection to the upstream stands. */
  readonly connectMs: number;
  /** Until its answer begins, connecting included. */
  readonly firstByteMs: number;
  /** Silence within its answer. */
  readonly idleMs: number;
  /** The whole answer. */
  readonly totalMs: number;
  /** A client that takes nothing although something waits for it. */
  readonly stallMs: number;
}

export type Deadline = 'connect' | 'first_byte' | 'idle' | 'total';

/** How late a deadline may be noticed. */
const TICK_MS = 100;
/** Clients are looked at less often: reading their state costs more, and their limit is long. */
const CLIENT_TICKS = 10;

/**
 * The deadlines of all requests under one timer. A timer per request would be armed and
 * disarmed with every chunk; here a chunk costs one store, and every tick looks at each
 * request once: 30 ns each, 3 ms a second for a thousand.
 */
export class Deadlines {
  readonly #limits: TimeLimits;
  readonly #open = new Watches();
  readonly #interval: IdleInterval;
  #ticks = 0;

  constructor(limits: TimeLimits) {
    this.#limits = limits;
    this.#interval = new IdleInterval(TICK_MS, () => {
      this.look(performance.now());
      return this.#open.size > 0;
    });
  }

  /**
   * Watches a request that goes upstream now, until its response closes.
   * @param onDeadline told at most once, and not after `settled`
   */
  watch(res: ServerResponse, onDeadline: (deadline: Deadline) => void): Watch {
    this.#interval.wake();
    return new Watch(res, onDeadline, this.#open);
  }

  /** @param now monotonic milliseconds */
  look(now: number): void {
    const clients = ++this.#ticks % CLIENT_TICKS === 0;
    this.#open.each((watch) => watch.look(now, this.#limits, clients));
  }

  close(): void {
    this.#interval.rest();
  }
}

/** Calls that are read on though their clients left. */
const MOST_ABANDONED = 1000;

/** The requests under watch, and how many of them have no client any more. */
class Watches extends ActiveSet<Watch> {
  abandoned = 0;
}

const CONNECTING = 0;
const WAITING = 1;
const ANSWERING = 2;
const SETTLED = 3;

/** One request under watch. */
export class Watch implements Member {
  place = -1;
  /** Set by whoever hears from the upstream. */
  active = true;
  /** The client holds the upstream back: its silence is not its fault. */
  paused = false;
  #state = CONNECTING;
  readonly #res: ServerResponse;
  readonly #onDeadline: (deadline: Deadline) => void;
  readonly #open: Watches;
  #abandoned = false;
  #began = -1;
  #since = -1;
  #waiting = 0;
  #waitingSince = -1;

  constructor(res: ServerResponse, onDeadline: (deadline: Deadline) => void, open: Watches) {
    this.#res = res;
    this.#onDeadline = onDeadline;
    this.#open = open;
    open.join(this);
  }

  /** The connection stands. */
  sent(): void {
    if (this.#state === CONNECTING) this.#state = WAITING;
  }

  /** The answer has begun. */
  answered(): void {
    if (this.#state < ANSWERING) this.#state = ANSWERING;
    this.active = true;
  }

  /** Nothing more is awaited from the upstream; the client may still be taking what it was sent. */
  settled(): void {
    this.#state = SETTLED;
  }

  /**
   * The client left, and the answer is awaited all the same, within the same limits.
   * @returns false when too many are awaited in vain already
   */
  abandon(): boolean {
    if (this.#open.abandoned >= MOST_ABANDONED) return false;
    this.#open.abandoned++;
    this.#abandoned = true;
    return true;
  }

  /** The client's side is over, and nothing more is awaited. */
  close(): void {
    if (this.#abandoned) this.#open.abandoned--;
    this.#abandoned = false;
    this.#open.leave(this);
  }

  look(now: number, limits: TimeLimits, client: boolean): void {
    if (this.#began < 0) this.#began = now;
    if (client && this.#stalls(now, limits.stallMs)) {
      this.close();
      this.#res.destroy();
      return;
    }
    if (this.#state === SETTLED) return;
    if (this.active || this.paused) {
      this.active = false;
      this.#since = now;
    }
    const age = now - this.#began;
    if (this.#state === CONNECTING) {
      if (age >= Math.min(limits.connectMs, limits.firstByteMs)) this.#expire('connect');
    } else if (age >= limits.totalMs) this.#expire('total');
    else if (this.#state === ANSWERING) {
      if (now - this.#since >= limits.idleMs) this.#expire('idle');
    } else if (age >= limits.firstByteMs) this.#expire('first_byte');
  }

  #expire(deadline: Deadline): void {
    this.#state = SETTLED;
    this.#onDeadline(deadline);
  }

  /** Whether what waits for the client has not become less for too long. */
  #stalls(now: number, stallMs: number): boolean {
    const waiting = this.#res.writableLength;
    if (waiting === 0 || waiting < this.#waiting) this.#waitingSince = -1;
    this.#waiting = waiting;
    if (waiting === 0) return false;
    if (this.#waitingSince < 0) this.#waitingSince = now;
    return now - this.#waitingSince >= stallMs;
  }
}
