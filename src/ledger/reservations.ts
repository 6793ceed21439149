import { GatewayError } from '../domain/errors.ts';
import type { Fit, LedgerStore, Reservation } from '../domain/ports.ts';
import type { Timing } from './timing.ts';

const LEASE_SECONDS = 60; // how long a reservation outlives the process that made it
const DELETE_MS = 500; // how often ended reservations are deleted
const RENEW_MS = 20_000; // how often the leases of the others are renewed
const MAX_ENDED = 10_000; // kept to be deleted while the database is away: the leases of others run out

interface Wanted extends PromiseWithResolvers<Fit> {
  readonly reservation: Reservation;
}

/**
 * Reservations of requests of companies with a strict budget (reserve_budget in sql/schema/budgets.sql).
 * Requests that arrive during a round trip share the next one, so none waits for more than two.
 * Inserting a record ends its reservation in the database; requests without a record release it here.
 */
export class Reservations {
  readonly #store: LedgerStore;
  readonly #writer: string;
  readonly #timing: Timing;
  readonly #open = new Map<string, Reservation>();
  #wanted: Wanted[] = [];
  #ended: string[] = [];
  #asking = false;
  #deletedAt = Number.NEGATIVE_INFINITY;
  #renewedAt = Number.NEGATIVE_INFINITY;

  constructor(store: LedgerStore, writer: string, timing: Timing) {
    this.#store = store;
    this.#writer = writer;
    this.#timing = timing;
  }

  /** Reservations of requests whose records are not in the database yet. */
  get size(): number {
    return this.#open.size;
  }

  /** No reservation is to be renewed or deleted. */
  get isQuiet(): boolean {
    return this.#open.size === 0 && this.#ended.length === 0;
  }

  reserve(reservation: Reservation): Promise<Fit> {
    const wanted = { reservation, ...Promise.withResolvers<Fit>() };
    this.#wanted.push(wanted);
    if (!this.#asking) void this.#ask();
    return wanted.promise;
  }

  /** The request leaves no record. */
  release(requestId: string): void {
    if (this.#open.delete(requestId)) this.#ended.push(requestId);
  }

  /** The record of the request is in the database. */
  booked(requestId: string): void {
    this.#open.delete(requestId);
  }

  /**
   * Deletes ended reservations and renews the others, if it is time.
   * @param atOnce deletes whether or not it is time
   * @throws as the store does
   */
  async keep(atOnce: boolean): Promise<void> {
    const now = this.#timing.uptime();
    const renew = this.#open.size > 0 && now - this.#renewedAt >= RENEW_MS;
    if (!renew && (this.#ended.length === 0 || (!atOnce && now - this.#deletedAt < DELETE_MS)))
      return;
    const ended = this.#ended;
    this.#ended = [];
    try {
      await this.#store.keepReservations(
        this.#writer,
        ended,
        renew ? [...this.#open.values()] : [],
        LEASE_SECONDS,
      );
    } catch (error) {
      this.#end(ended);
      throw error;
    }
    this.#deletedAt = now;
    if (renew) this.#renewedAt = now;
  }

  /** Notes reservations to be deleted; of too many the newest. */
  #end(requestIds: readonly string[]): void {
    this.#ended = [...this.#ended, ...requestIds].slice(-MAX_ENDED);
  }

  async #ask(): Promise<void> {
    this.#asking = true;
    while (this.#wanted.length > 0) {
      const wanted = this.#wanted;
      this.#wanted = [];
      const reservations = wanted.map(({ reservation }) => reservation);
      try {
        // first those that ended give their place up, and leases that ran out while the database was away are renewed
        await this.keep(true);
        if (this.#open.size === 0) this.#renewedAt = this.#timing.uptime();
        const fitting = await this.#store.reserve(this.#writer, LEASE_SECONDS, reservations);
        for (const { reservation, resolve } of wanted) {
          const fits = fitting.get(reservation.requestId) ?? false;
          if (fits === true) this.#open.set(reservation.requestId, reservation);
          resolve(fits);
        }
      } catch {
        // the database may have made them although its answer was lost
        this.#end(reservations.map(({ requestId }) => requestId));
        for (const { reject } of wanted) reject(new GatewayError('service_unavailable'));
      }
    }
    this.#asking = false;
  }
}
