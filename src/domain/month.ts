import { dayOf } from './iso.ts';

/**
 * Billing months (contract, BILLING_TIMEZONE): the calendar month in a time zone, named by its first
 * day ("2026-11-01"), and the calendar date that assistants are told.
 */

const SLOT_MS = 900_000; // offsets are multiples of 15 minutes, so no zone changes its date within a slot
const MONTH_SLOTS = 32 * 96; // more than any month has

/** Calendar of one time zone. Instants are milliseconds since the epoch. */
export class Calendar {
  readonly timeZone: string;
  /** null: UTC. */
  readonly #date: Intl.DateTimeFormat | null;
  /** The last slot asked for, with its date and month. */
  #slot = Number.NaN;
  #today = '';
  #month = '';
  /** The last month whose end was asked for. */
  #endOf = '';
  #end = '';

  constructor(timeZone: string) {
    this.timeZone = timeZone;
    const date = { year: 'numeric', month: '2-digit', day: '2-digit' } as const;
    this.#date = timeZone === 'UTC' ? null : new Intl.DateTimeFormat('en-CA', { timeZone, ...date });
  }

  /** The date at an instant, "2026-11-21". */
  date(at: number): string {
    this.#update(at);
    return this.#today;
  }

  /** The billing month of an instant as its first day, "2026-11-01". */
  month(at: number): string {
    this.#update(at);
    return this.#month;
  }

  /** When the billing month of an instant ends, which is when the next one begins: "2026-12-01T00:00:00Z", in UTC. */
  monthEnd(at: number): string {
    const month = this.month(at);
    if (month !== this.#endOf) {
      this.#end = this.#findEnd(month, Math.floor(at / SLOT_MS));
      this.#endOf = month;
    }
    return this.#end;
  }

  /** @param within a slot of the month */
  #findEnd(month: string, within: number): string {
    let after = within + MONTH_SLOTS;
    while (after - within > 1) {
      const middle = (within + after) >> 1;
      if (this.#dateAt(middle * SLOT_MS).startsWith(month.slice(0, 7))) within = middle;
      else after = middle;
    }
    return `${new Date(after * SLOT_MS).toISOString().slice(0, 19)}Z`;
  }

  #update(at: number): void {
    const slot = Math.floor(at / SLOT_MS);
    if (slot === this.#slot) return;
    this.#today = this.#dateAt(at);
    this.#month = `${this.#today.slice(0, 7)}-01`;
    this.#slot = slot;
  }

  #dateAt(at: number): string {
    return this.#date?.format(at) ?? dayOf(at);
  }
}
