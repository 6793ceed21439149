/**
 * Billing months (contract, BILLING_TIMEZONE): the calendar month in a time zone, named by its first
 * day ("2026-11-01"), and the calendar date that assistants are told.
 */

const SLOT_MS = 900_000;
const EARLIEST_MS = 15 * 3_600_000; // no zone is further ahead of UTC

/** Calendar of one time zone. Instants are milliseconds since the epoch. */
export class Calendar {
  readonly timeZone: string;
  /** null: UTC. */
  readonly #date: Intl.DateTimeFormat | null;
  // the last quarter hour: offsets are multiples of 15 minutes, so no zone changes its date within one
  #slot = Number.NaN;
  #today = '';
  #month = '';

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

  /** When the billing month of an instant ends. Tries quarter hours, 0.1 ms with a time zone. */
  end(at: number): number {
    const month = this.month(at);
    const [year, number] = month.split('-').map(Number) as [number, number];
    let end = Date.UTC(year, number, 1) - EARLIEST_MS;
    while (this.month(end) <= month) end += SLOT_MS;
    return end;
  }

  #update(at: number): void {
    const slot = Math.floor(at / SLOT_MS);
    if (slot === this.#slot) return;
    this.#today = this.#date?.format(at) ?? new Date(at).toISOString().slice(0, 10);
    this.#month = `${this.#today.slice(0, 7)}-01`;
    this.#slot = slot;
  }
}
