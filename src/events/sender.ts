import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type Channel,
  type CompanyEvent,
  type Delivery,
  messageOf,
  pauseAfter,
} from '../domain/event.ts';
import type { EventReceivers, EventStore } from '../domain/ports.ts';
import { reasonOf } from '../log.ts';

/**
 * Sends a message to one receiver: an event, or by e-mail several of one company, in the receiver's language where that is known; all as a Delivery has it. Rejects with
 * a short reason that holds no secret.
 */
export type Send = (
  events: readonly [CompanyEvent, ...CompanyEvent[]],
  receiver: Pick<Delivery, 'recipient' | 'language' | 'outsider'>,
) => Promise<void>;

/** How long one attempt may take. */
export const ATTEMPT_MS = 10_000;

export interface EventSenderOptions {
  readonly store: EventStore;
  /** This gateway among those that share the database: a uuid. */
  readonly holder: string;
  /** How to send; a channel that is not set is absent. */
  readonly channels: Readonly<Partial<Record<Channel, Send>>>;
  /** E-mail addresses that get every budget alert besides the company's own people. */
  readonly operators: readonly string[];
  readonly log: {
    warn(fields: object, text: string): void;
    info(fields: object, text: string): void;
  };
  /** Milliseconds between turns, and between looks where no spend changed and no channel is set. */
  readonly everyMs?: number;
  readonly quietEveryMs?: number;
  /** Milliseconds between looks at the budgets of cost centres. */
  readonly costCentersEveryMs?: number;
  /** Milliseconds between looks at what is unusual. */
  readonly unusualEveryMs?: number;
}

const EVERY_MS = 3000;
const QUIET_EVERY_MS = 30_000;
const COST_CENTERS_EVERY_MS = 60_000; // their sums have more rows than those of companies
const UNUSUAL_EVERY_MS = 300_000;
const UNUSUAL_MS = 500; // of a turn: the rest of a look waits for the next one, as deliveries and the lease do not
const PAUSE_OF_LOOK = 50; // times as long as a look at them took: 2 % of the time of a connection
const FULL_EVERY_MS = 300_000; // for budgets that were lowered, and forecasts after the first two days
const LEASE_SECONDS = 8; // also renewed while an attempt takes longer
const RENEW_SECONDS = 3.5; // left of it when it is renewed: at about every second turn
const AT_ONCE = 4; // attempts of each channel
const WRITE_AGAIN_MS = 1000;

/**
 * Sends events, and looks for budgets that reached a threshold, which become events: on whichever gateway holds the
 * lease. Those of cost centres once a minute at most, what is unusual every five minutes.
 *
 *   lease ─> look ─> rows in budget_alerts ─> new rows in events, whoever wrote them, get rows in event_deliveries
 *              └──> each channel: due deliveries ─> attempt ─> delivered, or pending with a longer pause, or dead
 *
 * The database makes sure that each event is written once; the lease saves the other gateways the work. A process
 * killed after a receiver took an event, and before that was written, leaves it to be sent again, under the same id.
 */
export class EventSender {
  /** Attempts by channel and result, since the start. */
  readonly counts = { webhook: { delivered: 0, failed: 0 }, email: { delivered: 0, failed: 0 } };
  /** Deliveries that were given up; null on gateways without the lease. */
  dead: Readonly<Record<Channel, number>> | null = null;

  readonly #options: Required<EventSenderOptions>;
  readonly #channels: readonly Channel[];
  readonly #receivers: EventReceivers;
  readonly #closing = new AbortController();
  readonly #running: Promise<void>;
  /** Channels that are sending. */
  readonly #sending = new Map<Channel, Promise<void>>();
  #cursor: string | null = null;
  #costCenters: string | null = null;
  #costCentersAt = 0;
  /** The last company whose day was compared; null: the next look begins with the first. */
  #compared: string | null = null;
  #comparedMs = 0;
  #unusualAt = 0;
  #fullAt = 0;
  #quietAt = 0;
  /** Spend changed, or a delivery ended, since the last look. */
  #isNews = true;
  /** Until when the lease holds for sure, in milliseconds of `performance.now`. */
  #leaseUntil = 0;
  #failing = false;

  constructor(options: EventSenderOptions) {
    this.#options = {
      everyMs: EVERY_MS,
      quietEveryMs: QUIET_EVERY_MS,
      costCentersEveryMs: COST_CENTERS_EVERY_MS,
      unusualEveryMs: UNUSUAL_EVERY_MS,
      ...options,
    };
    const { channels, operators } = options;
    this.#channels = Object.keys(channels) as Channel[];
    this.#receivers = {
      webhook: channels.webhook !== undefined,
      email: channels.email !== undefined,
      operators,
    };
    this.#running = this.#run();
  }

  /** Somebody saw that a company's spend changed: the next turn looks at the budgets. */
  spent(): void {
    this.#isNews = true;
  }

  /** Resolves when attempts that are on their way have ended and are written, and the lease is free; after 10 s anyway. */
  async close(): Promise<void> {
    this.#closing.abort();
    await Promise.race([this.#end(), sleep(ATTEMPT_MS, undefined, { ref: false })]);
  }

  async #end(): Promise<void> {
    await this.#running;
    await Promise.all(this.#sending.values());
    if (this.#leaseUntil > 0)
      await this.#options.store.release(this.#options.holder).catch(() => {});
  }

  async #run(): Promise<void> {
    const { signal } = this.#closing;
    while (!signal.aborted) {
      // with jitter, so that gateways started together do not ask together
      await sleep(this.#options.everyMs * (0.8 + Math.random() / 5), undefined, {
        ref: false,
        signal,
      }).catch(() => {});
      if (signal.aborted) return;
      try {
        await this.#turn();
        if (this.#failing) this.#options.log.info({}, 'events: looking again');
        this.#failing = false;
      } catch (error) {
        this.#cursor = this.dead = null; // another server may answer next
        this.#leaseUntil = Math.min(this.#leaseUntil, performance.now() + RENEW_SECONDS * 1000); // and not know the lease
        if (!this.#failing && !signal.aborted)
          this.#options.log.warn({ reason: reasonOf(error) }, 'events: cannot look');
        this.#failing = true;
      }
    }
  }

  async #turn(): Promise<void> {
    const { store, holder, quietEveryMs } = this.#options;
    const now = performance.now();
    if (this.#leaseUntil - now < RENEW_SECONDS * 1000) {
      if (!(await store.lease(holder, LEASE_SECONDS))) {
        this.#leaseUntil = 0;
        this.#cursor = this.dead = null;
        return;
      }
      this.#leaseUntil = now + LEASE_SECONDS * 1000;
    }
    for (const channel of this.#channels) this.#sendSoon(channel);
    const isFull = this.#cursor === null || now >= this.#fullAt;
    // events are written by others as well, and receivers are not to wait for them
    const mayRest = !isFull && !this.#isNews && this.#channels.length === 0;
    if (mayRest && now < this.#quietAt) return;
    this.#isNews = false; // before looking: the look may miss news that arrive meanwhile
    this.#quietAt = now + quietEveryMs;
    const { cursor, told, dead } = await store.look(isFull ? null : this.#cursor, this.#receivers);
    if (isFull) this.#fullAt = now + FULL_EVERY_MS;
    this.#cursor = cursor;
    this.dead = dead;
    if (told > 0) for (const channel of this.#channels) this.#sendSoon(channel);
    if (isFull) await store.trim();
    if (isFull || now >= this.#costCentersAt)
      await this.#lookAtCostCenters(isFull ? null : this.#costCenters);
    if (performance.now() >= this.#unusualAt) await this.#lookAtUnusual();
  }

  /** Compares some companies; after the last one it rests. Where it cannot, it goes on behind a random one: no company keeps others from it. */
  async #lookAtUnusual(): Promise<void> {
    const { store, unusualEveryMs, log } = this.#options;
    const begins = performance.now();
    let isOver = false;
    try {
      do this.#compared = await store.lookAtUnusual(this.#compared);
      while (this.#compared !== null && performance.now() < begins + UNUSUAL_MS);
      isOver = this.#compared === null;
    } catch (error) {
      this.#compared = randomUUID();
      isOver = true;
      const isClosing = this.#closing.signal.aborted;
      if (!isClosing) log.warn({ reason: reasonOf(error) }, 'events: cannot compare with usual');
    }
    const ends = performance.now();
    this.#comparedMs += ends - begins;
    if (!isOver) {
      this.#isNews = true; // the next turn goes on
      return;
    }
    this.#unusualAt = ends + Math.max(unusualEveryMs, PAUSE_OF_LOOK * this.#comparedMs);
    this.#comparedMs = 0;
  }

  /** The next turn tells what it finds. Where it cannot look, the rest goes on. */
  async #lookAtCostCenters(cursor: string | null): Promise<void> {
    const { store, costCentersEveryMs, log } = this.#options;
    const begins = performance.now();
    try {
      this.#costCenters = await store.lookAtCostCenters(cursor);
      if (this.#costCenters !== null) this.#isNews = true;
    } catch (error) {
      this.#costCenters = null;
      const isClosing = this.#closing.signal.aborted;
      if (!isClosing) log.warn({ reason: reasonOf(error) }, 'events: cannot look at cost centres');
    }
    const ends = performance.now();
    this.#costCentersAt = ends + Math.max(costCentersEveryMs, PAUSE_OF_LOOK * (ends - begins));
  }

  /** Sends the due deliveries, unless this channel is sending already. */
  #sendSoon(channel: Channel): void {
    if (this.#sending.has(channel)) return;
    const sending = this.#sendDue(channel)
      .catch(() => {}) // the database is away: the next turn tells
      .finally(() => this.#sending.delete(channel));
    this.#sending.set(channel, sending);
  }

  async #sendDue(channel: Channel): Promise<void> {
    const { store, operators } = this.#options;
    while (!this.#closing.signal.aborted && performance.now() < this.#leaseUntil) {
      const due = await store.due(channel, AT_ONCE, operators);
      const messages = [...Map.groupBy(due, messageOf).values()];
      await Promise.all(
        messages.map((message) => this.#attempt(message as [Delivery, ...Delivery[]])),
      );
      if (due.length < AT_ONCE) return;
    }
  }

  async #attempt(message: readonly [Delivery, ...Delivery[]]): Promise<void> {
    const { channels } = this.#options;
    const [{ channel }] = message;
    const events = message.map(({ event }) => event) as [CompanyEvent, ...CompanyEvent[]];
    let error: string | null = null;
    try {
      await channels[channel]?.(events, message[0]);
    } catch (reason) {
      error = reasonOf(reason);
    }
    this.counts[channel][error === null ? 'delivered' : 'failed']++;
    for (const delivery of message) await this.#write(delivery, error);
  }

  /** @param error why the message was not taken; null: it was */
  async #write(delivery: Delivery, error: string | null): Promise<void> {
    const { store, log } = this.#options;
    const { event, channel, attempts } = delivery;
    const pause = pauseAfter(attempts + 1, Math.random());
    if (error !== null && pause === null) {
      log.warn({ event: event.id, channel, reason: error }, 'events: one could not be delivered');
    }
    const write = () =>
      error === null ? store.delivered(delivery) : store.failed(delivery, error, pause);
    // deliveries whose result is not written are sent again
    for (;;) {
      try {
        await write();
        this.#isNews = true;
        return;
      } catch {
        if (this.#closing.signal.aborted) return;
        await sleep(WRITE_AGAIN_MS, undefined, { ref: false, signal: this.#closing.signal }).catch(
          () => {},
        );
      }
    }
  }
}
