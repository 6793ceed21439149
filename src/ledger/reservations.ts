import { GatewayError } from '../domain/errors.ts';
import type { LedgerStore, Reservation } from '../domain/ports.ts';
import type { Timing } from './timing.ts';

const LEASE_SECONDS = 60; // how long a reservation outlives the process that made it
const DELETE_MS = 500; // how often ended reservations are deleted
const RENEW_MS = 20_000; // how often the leases of the others are renewed

interface Wanted extends PromiseWithResolvers<boolean> {
  readonly reservation: Reservation;
}

/**
 * Reservations of requests of companies with a strict budget (sql/0010_strict_budgets.sql).
 * Requests that arrive during a round trip share the next one, so none waits for more than two.
 * Inserting a record ends its reservation in the database; requests without a record release it here.
 */
export class Reservations {
  readonly #store: LedgerStore;
  readonly #writer: string;
  readonly #timing: Timing;
  readonly #open = new Set<string>();
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

  /** There is none to renew or to delete. */
  get isQuiet(): boolean {
    return this.#open.size === 0 && this.#ended.length === 0;
  }

  reserve(reservation: Reservation): Promise<boolean> {
    const wanted = { reservation, ...Promise.withResolvers<boolean>() };
    this.#wanted.push(wanted);
    if (!this.#asking) void this.#ask();
    return wanted.promise;
  }

  /** The request leaves no record. */
  release(requestId: string): void {
    if (this.#open.delete(requestId)) this.#ended.push(requestId);
  }

  /** Its record is in the database. */
  booked(requestId: string): void {
    this.#open.delete(requestId);
  }

  /** Deletes ended reservations and renews the others, if it is time; with `final` deletes them now. @throws as the store does */
  async keep(final: boolean): Promise<void> {
    const now = this.#timing.uptime();
    const renew = this.#open.size > 0 && now - this.#renewedAt >= RENEW_MS;
    if (!renew && (this.#ended.length === 0 || (!final && now - this.#deletedAt < DELETE_MS))) return;
    const ended = this.#ended;
    await this.#store.keepReservations(ended, renew ? [...this.#open] : [], LEASE_SECONDS);
    this.#ended = this.#ended.slice(ended.length);
    this.#deletedAt = now;
    if (renew) this.#renewedAt = now;
  }

  async #ask(): Promise<void> {
    this.#asking = true;
    while (this.#wanted.length > 0) {
      const wanted = this.#wanted;
      this.#wanted = [];
      const asked = wanted.map(({ reservation }) => reservation);
      try {
        const fitting = await this.#store.reserve(this.#writer, LEASE_SECONDS, asked);
        for (const id of fitting) this.#open.add(id);
        for (const { reservation, resolve } of wanted) resolve(fitting.has(reservation.requestId));
      } catch {
        this.#ended.push(...asked.map(({ requestId }) => requestId)); // the database may have made them although its answer was lost
        for (const { reject } of wanted) reject(new GatewayError('service_unavailable'));
      }
    }
    this.#asking = false;
  }
}
