import type { MonthSpend } from '../domain/budget.ts';
import type { Payer } from '../domain/key.ts';
import type { Femto } from '../domain/money.ts';

/**
 * What each company has spent, per billing month, as the budget gate reads it: the
 * database's figure plus our own records still on their way.
 *
 *   month ── company ── account { spent, pending } <┄┄ keys remember theirs, until it is forgotten
 *
 * The writer alone moves amounts from pending to what the database has, and reads the database
 * only between batches: a figure read never contains a batch that is still pending, so nothing
 * is counted twice and no company is refused early.
 *
 * Both figures are written only where they change, and a pending amount that is gone is the one
 * zero: of 100,000 companies each new number is one more object that survives its youth.
 */
export class Spend {
  readonly #months = new Map<string, Map<string, MonthSpend>>();
  /** Assumed to start at zero because the database was away when the month began. */
  readonly #assumed = new Set<MonthSpend>();
  readonly #limit: number;

  /** @param limit companies remembered per month; beyond it those without pending records are forgotten */
  constructor(limit = 200_000) {
    this.#limit = limit;
  }

  /** Femto-EUR, or undefined when the figure has to be loaded first. */
  get(companyId: string, month: string): Femto | undefined {
    return figure(this.#months.get(month)?.get(companyId));
  }

  /** The same for the company of a key. */
  of(payer: Payer, month: string): Femto | undefined {
    if (!stands(payer.account, month)) payer.account = this.#months.get(month)?.get(payer.companyId) ?? null;
    return figure(payer.account ?? undefined);
  }

  /**
   * A record was made: counts from this very tick.
   * @returns where it counts: not forgotten before its pending amount is taken back
   */
  add(payer: Payer, month: string, cost: Femto): MonthSpend {
    let { account } = payer;
    if (!stands(account, month)) {
      account = this.#account(payer.companyId, month);
      payer.account = account;
    }
    addPending(account, cost);
    return account;
  }

  /** A figure read from the database. */
  set(companyId: string, month: string, committed: Femto): void {
    this.#commit(this.#account(companyId, month), committed);
  }

  /** A figure that changed in the database; companies never asked for are left out. */
  refresh(companyId: string, month: string, committed: Femto): void {
    const account = this.#months.get(month)?.get(companyId);
    if (account !== undefined) this.#commit(account, committed);
  }

  /** A record counted in an account is settled: new in the database, or there before. */
  settle(account: MonthSpend, cost: Femto, written: boolean): void {
    account.pending = account.pending === cost ? ZERO : account.pending - cost;
    if (!written || !account.read) account.spent -= cost;
  }

  /** The same for records that stand in no account: `pending` no longer is, and `written` is new in the database. */
  settleSum(companyId: string, month: string, pending: Femto, written: Femto): void {
    const account = this.#account(companyId, month);
    account.pending -= pending;
    account.spent += account.read ? written - pending : -pending;
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
      if (name < month) for (const id of companies.keys()) if (current?.get(id)?.read !== true) known.add(id);
    }
    return [...known];
  }

  /** Counts as pending exactly what is given. */
  resetPending(pending: Iterable<{ companyId: string; month: string; cost: Femto }>): void {
    for (const companies of this.#months.values()) {
      for (const account of companies.values()) {
        account.spent -= account.pending;
        account.pending = ZERO;
      }
    }
    for (const { companyId, month, cost } of pending) {
      if (cost !== ZERO) addPending(this.#account(companyId, month), cost);
    }
  }

  /** The month began while the database was away: start at zero until it can be asked. */
  assume(companyId: string, month: string): void {
    const account = this.#account(companyId, month);
    this.#commit(account, ZERO);
    this.#assumed.add(account);
  }

  /** Companies whose figure was assumed, to be loaded when the database is back. */
  assumed(): Iterable<MonthSpend> {
    return this.#assumed;
  }

  /** Forgets months before the given one, and everything beyond the limit, where nothing is pending. */
  prune(month: string): void {
    for (const [name, companies] of this.#months) {
      let surplus = name < month ? companies.size : companies.size - this.#limit;
      for (const [companyId, account] of companies) {
        if (surplus <= 0) break;
        if (account.pending !== ZERO || this.#assumed.has(account)) continue;
        account.forgotten = true;
        companies.delete(companyId);
        surplus -= 1;
      }
      if (companies.size === 0) this.#months.delete(name);
    }
  }

  #commit(account: MonthSpend, committed: Femto): void {
    const spent = committed + account.pending;
    if (account.spent !== spent) account.spent = spent;
    account.read = true;
    if (this.#assumed.size > 0) this.#assumed.delete(account);
  }

  #account(companyId: string, month: string): MonthSpend {
    let companies = this.#months.get(month);
    if (companies === undefined) {
      companies = new Map();
      this.#months.set(month, companies);
    }
    let account = companies.get(companyId);
    if (account === undefined) {
      account = { companyId, month, spent: ZERO, pending: ZERO, read: false, forgotten: false };
      companies.set(companyId, account);
    }
    return account;
  }
}

const ZERO = 0n;

function stands(account: MonthSpend | null, month: string): account is MonthSpend {
  return account !== null && account.month === month && !account.forgotten;
}

function figure(account: MonthSpend | undefined): Femto | undefined {
  return account?.read ? account.spent : undefined;
}

function addPending(account: MonthSpend, cost: Femto): void {
  account.pending = account.pending === ZERO ? cost : account.pending + cost;
  account.spent += cost;
}
