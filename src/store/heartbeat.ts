import { setTimeout as sleep } from 'node:timers/promises';
import type { GatewayState, GatewayStore } from './gateways.ts';

const EVERY_MS = 15_000;

/**
 * Tells operators that this gateway lives: writes its row every 15 seconds, and removes it at a clean stop, unless
 * records stay in its spool. A beat that fails is left out; the ledger's log says that the database is away.
 */
export class Heartbeat {
  readonly #store: GatewayStore;
  readonly #state: () => GatewayState;
  readonly #everyMs: number;
  readonly #closing = new AbortController();
  readonly #running: Promise<void>;

  constructor(store: GatewayStore, state: () => GatewayState, everyMs = EVERY_MS) {
    this.#store = store;
    this.#state = state;
    this.#everyMs = everyMs;
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
    while (!signal.aborted) {
      await this.#beat().catch(() => {});
      // with jitter, so that gateways started together do not write together
      await sleep(this.#everyMs * (0.8 + Math.random() / 5), undefined, { ref: false, signal }).catch(() => {});
    }
  }

  async #beat(): Promise<void> {
    if ((await this.#store.beat(this.#state())) && !this.#closing.signal.aborted) await this.#store.mark();
  }
}
