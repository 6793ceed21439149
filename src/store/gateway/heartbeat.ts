import { setTimeout as sleep } from 'node:timers/promises';
import type { GatewayState, GatewayStore } from './gateways.ts';

const EVERY_MS = 15_000;
/** Beats from one forgetting to the next: five minutes. */
const FORGET_EVERY = 20;
/** Less is the way to the database and back. */
const MOST_AHEAD_MS = 5000;

export interface HeartbeatOptions {
  /** Milliseconds since the epoch. */
  readonly clock: () => number;
  readonly log: { warn(fields: object, text: string): void };
  readonly everyMs?: number;
}

/**
 * Tells operators that this gateway lives: writes its row every 15 seconds, and removes it at a clean stop, unless
 * records stay in its spool. A beat that fails is left out; the ledger's log says that the database is away.
 * Every five minutes it has the database forget what pages keep no longer, although nobody opens them.
 * Each beat compares this clock with that of the database: a wrong one books calls into a wrong month.
 */
export class Heartbeat {
  readonly #store: GatewayStore;
  readonly #state: () => GatewayState;
  readonly #options: HeartbeatOptions;
  readonly #closing = new AbortController();
  readonly #running: Promise<void>;
  /** Milliseconds from the database's clock to this one; negative where this one is behind. */
  aheadMs = 0;
  #beats = 0;

  constructor(store: GatewayStore, state: () => GatewayState, options: HeartbeatOptions) {
    this.#store = store;
    this.#state = state;
    this.#options = options;
    this.#running = this.#run();
  }

  /** Resolves when the row is removed, or cannot be. @param booked when it settles, nothing more is booked */
  async close(booked: Promise<unknown>): Promise<void> {
    this.#closing.abort();
    await this.#running;
    await booked;
    const state = this.#state();
    await (state.backlog > 0 ? this.#store.beat(state) : this.#store.remove()).catch(() => {});
  }

  async #run(): Promise<void> {
    const { signal } = this.#closing;
    const { everyMs = EVERY_MS } = this.#options;
    while (!signal.aborted) {
      await this.#beat().catch(() => {});
      // with jitter, so that gateways started together do not write together
      await sleep(everyMs * (0.8 + Math.random() / 5), undefined, { ref: false, signal }).catch(
        () => {},
      );
    }
  }

  async #beat(): Promise<void> {
    const { clock } = this.#options;
    const sent = clock();
    const { due, at } = await this.#store.beat(this.#state());
    this.#compare((sent + clock()) / 2 - at);
    if (this.#closing.signal.aborted) return;
    if (due) await this.#store.mark();
    if (this.#beats++ % FORGET_EVERY === 0) await this.#store.forget();
  }

  #compare(aheadMs: number): void {
    const known = Math.abs(this.aheadMs) > MOST_AHEAD_MS;
    this.aheadMs = aheadMs;
    if (known || Math.abs(aheadMs) <= MOST_AHEAD_MS) return;
    const text =
      'this clock is not that of the database: calls are booked, and prices begin, by this clock';
    this.#options.log.warn({ seconds_ahead: Math.round(aheadMs / 1000) }, text);
  }
}
