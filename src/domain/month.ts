import { dayOf } from './iso.ts';

/**
 * Billing months (contract, BILLING_TIMEZONE): the calendar month in a time zone, named by its first
 * day ("2026-11-01"), and the calendar date that assistants are told.
 */

const SLOT_MS = 900_000; // offsets are multiples of 15 minutes, so no zone changes its date within a slot
const MONTH_SLOTS = 32 * 96; // more than any month has
const DAY_SLOTS = 27 * 4;

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
  /** The last day whose end was asked for. */
  #dayEndOf = '';
  #dayEnd = '';

  constructor(timeZone: string) {
    this.timeZone = timeZone;
    const date = { year: 'numeric', month: '2-digit', day: '2-digit' } as const;
    this.#date =
      timeZone === 'UTC' ? null : new Intl.DateTimeFormat('en-CA', { timeZone, ...date });
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
      this.#end = this.#findEnd(month.slice(0, 7), at, MONTH_SLOTS);
      this.#endOf = month;
    }
    return this.#end;
  }

  /** When the day of an instant ends, likewise: after 23, 24 or 25 hours. */
  dayEnd(at: number): string {
    const day = this.date(at);
    if (day !== this.#dayEndOf) {
      this.#dayEnd = this.#findEnd(day, at, DAY_SLOTS);
      this.#dayEndOf = day;
    }
    return this.#dayEnd;
  }

  /** @param dates what all dates of it begin with @param at an instant of it @param slots more than it has */
  #findEnd(dates: string, at: number, slots: number): string {
    let within = Math.floor(at / SLOT_MS);
    let after = within + slots;
    while (after - within > 1) {
      const middle = (within + after) >> 1;
      if (this.#dateAt(middle * SLOT_MS).startsWith(dates)) within = middle;
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

/** The billing month of a day, or of a month. */
export function monthOfDay(day: string): string {
  return `${day.slice(0, 8)}01`;
}

/** Whether a figure of spend is that of a day: its id ends so, see MonthSum in ports.ts. */
export function isOfDay(id: string): boolean {
  return id.endsWith('/day');
}

/** Whether it is that of an end user: its id has three parts. */
export function isOfPerson(id: string): boolean {
  return id.indexOf('/') !== id.lastIndexOf('/') && !isOfDay(id);
}
