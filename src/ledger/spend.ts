import type { Femto } from '../domain/money.ts';

/** One company in one month. */
export interface Account {
  readonly companyId: string;
  readonly month: string;
  /** What the database has counted, as last read; null before it was ever read. */
  committed: Femto | null;
  /** Cost of our own records the database has not confirmed yet. */
  pending: Femto;
}

/**
 * What each company has spent, per billing month, as the budget gate reads it: the
 * database's figure plus our own records still on their way.
 *
 *   month ── company ── { committed, pending }
 *
 * The writer alone moves amounts from pending to committed, and reads the database only
 * between batches: a figure read never contains a batch that is still pending, so nothing
 * is counted twice and no company is refused early.
 */
export class Spend {
  readonly #months = new Map<string, Map<string, Account>>();
  /** Assumed to start at zero because the database was away when the month began. */
  readonly #assumed = new Set<Account>();
  readonly #limit: number;

  /** @param limit companies remembered per month; beyond it those without pending records are forgotten */
  constructor(limit = 200_000) {
    this.#limit = limit;
  }

  /** Femto-EUR, or undefined when the figure has to be loaded first. */
  get(companyId: string, month: string): Femto | undefined {
    const account = this.#months.get(month)?.get(companyId);
    return account === undefined || account.committed === null ? undefined : account.committed + account.pending;
  }

  /**
   * A record was made: counts from this very tick.
   * @returns where it counts: not forgotten before its pending amount is taken back
   */
  add(companyId: string, month: string, cost: Femto): Account {
    const account = this.#account(companyId, month);
    account.pending += cost;
    return account;
  }

  /** A figure read from the database. */
  set(companyId: string, month: string, committed: Femto): void {
    const account = this.#account(companyId, month);
    account.committed = committed;
    this.#assumed.delete(account);
  }

  /** A figure that changed in the database; companies never asked for are left out. */
  refresh(companyId: string, month: string, committed: Femto): void {
    const account = this.#months.get(month)?.get(companyId);
    if (account === undefined) return;
    account.committed = committed;
    this.#assumed.delete(account);
  }

  /** A batch is settled: `written` of the `pending` amount is new in the database, the rest was there before. */
  settle(companyId: string, month: string, pending: Femto, written: Femto): void {
    const account = this.#account(companyId, month);
    account.pending -= pending;
    if (account.committed !== null) account.committed += written;
  }

  /** Whether the company was asked for in any month. */
  knows(companyId: string): boolean {
    for (const companies of this.#months.values()) if (companies.has(companyId)) return true;
    return false;
  }

  /** Companies asked for in earlier months, but not yet in this one. */
  unread(month: string): string[] {
    const current = this.#months.get(month);
    const known = new Set<string>();
    for (const [name, companies] of this.#months) {
      if (name < month) for (const id of companies.keys()) if (current?.get(id)?.committed == null) known.add(id);
    }
    return [...known];
  }

  /** Counts as pending exactly what is given. */
  resetPending(pending: Iterable<{ companyId: string; month: string; cost: Femto }>): void {
    for (const companies of this.#months.values()) for (const account of companies.values()) account.pending = 0n;
    for (const { companyId, month, cost } of pending) if (cost !== 0n) this.add(companyId, month, cost);
  }

  /** The month began while the database was away: start at zero until it can be asked. */
  assume(companyId: string, month: string): void {
    const account = this.#account(companyId, month);
    account.committed = 0n;
    this.#assumed.add(account);
  }

  /** Companies whose figure was assumed, to be loaded when the database is back. */
  assumed(): Iterable<Account> {
    return this.#assumed;
  }

  /** Forgets months before the given one, and everything beyond the limit, where nothing is pending. */
  prune(month: string): void {
    for (const [name, companies] of this.#months) {
      let surplus = name < month ? companies.size : companies.size - this.#limit;
      for (const [companyId, account] of companies) {
        if (surplus <= 0) break;
        if (account.pending !== 0n || this.#assumed.has(account)) continue;
        companies.delete(companyId);
        surplus -= 1;
      }
      if (companies.size === 0) this.#months.delete(name);
    }
  }

  #account(companyId: string, month: string): Account {
    let companies = this.#months.get(month);
    if (companies === undefined) {
      companies = new Map();
      this.#months.set(month, companies);
    }
    let account = companies.get(companyId);
    if (account === undefined) {
      account = { companyId, month, committed: null, pending: 0n };
      companies.set(companyId, account);
    }
    return account;
  }
}
