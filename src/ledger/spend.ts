import type { Payer } from '../domain/key.ts';
import type { Femto } from '../domain/money.ts';
import { isOfDay, monthOfDay } from '../domain/month.ts';
import type { KeyMonth } from './key-month.ts';

const ZERO = 0n;

/**
 * What one company has spent in one month, or one key with a budget of its own; where either has a budget of the day,
 * also what both have spent on that day.
 */
export interface MonthSpend {
  /** See MonthSum in domain/ports.ts. */
  readonly id: string;
  readonly companyId: string;
  /** Its first day; of a day the day. */
  readonly month: string;
  /** What the budget gate reads: `pending`, plus the database's figure once that was read. */
  spent: Femto;
  /** Cost of our own records that the database has not confirmed yet; part of `spent`. */
  pending: Femto;
  /** Whether the database's figure was read. */
  read: boolean;
  /** Removed from the table: a reference to it has to be looked up again. */
  forgotten: boolean;
  /** For a key, its company's spend, in which it counts too; null for a company. */
  company: MonthSpend | null;
  /** For the day of a key: the month of the key, and the day of its company, in which it counts too. */
  others: readonly [MonthSpend, MonthSpend] | null;
}

/** What the ledger remembers of a key, so that a known key costs one look-up. The key itself is frozen. */
export interface KeyMemory {
  readonly keyId: string;
  readonly companyId: string;
  /** The id of its own spend; null: it has no budget, and none is kept. */
  readonly ownId: string | null;
  /** Where the company's spend was last found, and its own. */
  spend: MonthSpend | null;
  own: MonthSpend | null;
  /** The same of a day; null: nobody asked. */
  day: MonthSpend | null;
  companyDay: MonthSpend | null;
  /** When the key was last used, milliseconds since the epoch; 0 after the database was told. */
  usedAt: number;
  /** What it used in a month; null unless somebody asked. */
  used: KeyMonth | null;
}

/**
 * What each company has spent per billing month, and each key with a budget, as the budget gate reads it: the
 * database's figure plus our own records that are not yet in it. Only the ledger moves amounts from pending to
 * committed, and it reads the database between batches, so nothing counts twice. All empty `pending` are one bigint,
 * which spares the garbage collector.
 *
 *   month ─┬─ company ───── MonthSpend { spent, pending } <┄┄ KeyMemory of each key, until it is forgotten
 *          └─ company/key ─ MonthSpend { spent, pending, company }  <┄┄'
 *   day ───┬─ company//day ───── the same of a day, where there are budgets of days
 *          └─ company/key/day ─'
 */
export class SpendTable {
  /** By month, then by the id of a MonthSpend. */
  readonly #months = new Map<string, Map<string, MonthSpend>>();
  /** Spends of keys. */
  readonly #ofKeys = new Set<MonthSpend>();
  /** Those that were asked for since the last poll. */
  readonly #asked = new Set<MonthSpend>();
  /** Those that others may have changed. */
  readonly #doubted = new Set<MonthSpend>();
  /** By key. At 100,000 keys 0.2 µs, where a map by company id takes 1 µs; with few keys 5 and 20 ns. */
  readonly #keys = new WeakMap<Payer, KeyMemory>();
  /**
   * Figures that serve until the database's own is read: zero because the database was away when the month began,
   * or those of keys where the database did not say which records of a batch were new.
   */
  readonly #assumed = new Set<MonthSpend>();
  readonly #limit: number;

  /** @param limit companies and keys remembered per month; beyond it those without pending records are forgotten */
  constructor(limit = 200_000) {
    this.#limit = limit;
  }

  /** What is remembered of a key. */
  key(payer: Payer): KeyMemory {
    let key = this.#keys.get(payer);
    if (key === undefined) {
      const { id, companyId, restriction } = payer;
      const ownId = restriction == null || restriction.budget === null ? null : spendIdOf(companyId, id);
      key = { keyId: id, companyId, ownId, spend: null, own: null, day: null, companyDay: null, usedAt: 0, used: null };
      this.#keys.set(payer, key);
    }
    return key;
  }

  /**
   * What a company or key has spent, in femto-EUR; undefined when the figure has to be read first.
   * @param id see MonthSpend
   */
  get(id: string, month: string): Femto | undefined {
    return figureOf(this.#months.get(month)?.get(id));
  }

  /** Whether the figure was not read yet, and no record of this process that counts in it waits for the database. */
  isUntouched(id: string, month: string): boolean {
    const spends = this.#months.get(month);
    const slash = id.indexOf('/');
    if (slash > 0 && this.#months.get(monthOfDay(month))?.get(id.slice(0, slash))?.pending) return false;
    const spend = spends?.get(id);
    return spend === undefined || (!spend.read && spend.pending === ZERO);
  }

  /** What the company of a key has spent, in femto-EUR; undefined when the figure has to be read first. */
  of(key: KeyMemory, month: string): Femto | undefined {
    if (!isCurrent(key.spend, month)) key.spend = this.#months.get(month)?.get(key.companyId) ?? null;
    return figureOf(key.spend ?? undefined);
  }

  /** What a key with a budget of its own has spent; undefined also for a figure in doubt, which `get` still tells. */
  ofOwn(key: KeyMemory, month: string): Femto | undefined {
    if (!isCurrent(key.own, month)) key.own = this.#months.get(month)?.get(key.ownId as string) ?? null;
    return this.#undoubted(key.own);
  }

  /** What a key, or its company, has spent on a day; undefined as for `ofOwn`. */
  onDay(key: KeyMemory, day: string, whose: 'company' | 'key'): Femto | undefined {
    const kept = whose === 'key' ? 'day' : 'companyDay';
    if (!isCurrent(key[kept], day)) key[kept] = this.#months.get(day)?.get(dayIdOf(key, whose)) ?? null;
    return this.#undoubted(key[kept]);
  }

  #undoubted(spend: MonthSpend | null): Femto | undefined {
    if (spend === null || this.#doubted.has(spend)) return undefined;
    this.#asked.add(spend);
    return figureOf(spend);
  }

  /**
   * Counts a new record from this very tick.
   * @param day where a budget of the day is to hold; empty: none
   * @returns where it counts; not forgotten before its pending amount is settled
   */
  add(key: KeyMemory, month: string, cost: Femto, day = ''): MonthSpend {
    if (!isCurrent(key.spend, month)) key.spend = this.#find(key.companyId, month);
    addPending(key.spend, cost);
    if (key.ownId === null && day === '') return key.spend;
    if (!isCurrent(key.own, month)) key.own = this.#find(key.ownId ?? spendIdOf(key.companyId, key.keyId), month);
    key.own.company = key.spend;
    addPending(key.own, cost);
    return day === '' ? key.own : this.#addOnDay(key, key.spend, key.own, day, cost);
  }

  #addOnDay(key: KeyMemory, company: MonthSpend, own: MonthSpend, day: string, cost: Femto): MonthSpend {
    if (!isCurrent(key.companyDay, day)) key.companyDay = this.#find(dayIdOf(key, 'company'), day);
    if (!isCurrent(key.day, day)) key.day = this.#find(dayIdOf(key, 'key'), day);
    const spend = key.day;
    spend.company = company;
    if (spend.others?.[0] !== own || spend.others[1] !== key.companyDay) spend.others = [own, key.companyDay];
    addPending(key.companyDay, cost);
    addPending(spend, cost);
    return spend;
  }

  /** Takes a figure read from the database. */
  set(id: string, month: string, committed: Femto): void {
    this.#commit(this.#find(id, month), committed);
  }

  /** Takes a figure that changed in the database; ignores what was never asked for. */
  refresh(id: string, month: string, committed: Femto): void {
    const spend = this.#months.get(month)?.get(id);
    if (spend !== undefined) this.#commit(spend, committed);
  }

  /**
   * Notes that others changed the spend of some companies, each for a month. Of their keys and days, those asked for since the
   * last time are to be read now; the others count as unknown until they are asked for.
   */
  doubtKeys(companies: readonly { readonly id: string; readonly month: string }[]): MonthSpend[] {
    const months = new Map<string, Set<string>>();
    if (this.#ofKeys.size > 0)
      for (const { id, month } of companies) months.set(month, (months.get(month) ?? new Set()).add(id));
    const inUse: MonthSpend[] = [];
    for (const spend of months.size > 0 ? this.#ofKeys : []) {
      if (months.get(monthOfDay(spend.month))?.has(spend.companyId) !== true) continue;
      if (this.#asked.has(spend)) inUse.push(spend);
      else this.#doubted.add(spend);
    }
    this.#asked.clear();
    return inUse;
  }

  /** Settles a record. @param inserted false: the sums of its batch tell whether it was in the database before */
  settle(spend: MonthSpend, cost: Femto, inserted: boolean): void {
    const { company, others } = spend;
    if (company === null) return settleOne(spend, cost, inserted);
    settleOne(company, cost, inserted);
    this.#settleOf(spend, cost, inserted);
    if (others !== null) for (const each of others) this.#settleOf(each, cost, inserted);
  }

  #settleOf(spend: MonthSpend, cost: Femto, inserted: boolean): void {
    settleOfKey(spend, cost);
    if (!inserted) this.#assumed.add(spend); // sums are those of the months of companies
  }

  /** Settles sums of a company: `pending` is pending no longer, `inserted` is new in the database. */
  settleSum(companyId: string, month: string, pending: Femto, inserted: Femto): void {
    const spend = this.#find(companyId, month);
    spend.pending -= pending;
    spend.spent += spend.read ? inserted - pending : -pending;
  }

  /** Settles a record that was read back from the disk, of a key or a day; whether it had a budget then is not known. */
  settleOwn(id: string, month: string, cost: Femto): void {
    const spend = this.#months.get(month)?.get(id);
    if (spend === undefined) return;
    settleOfKey(spend, cost);
    this.#assumed.add(spend);
  }

  /** Whether the company or key was asked for in any month. */
  knows(id: string): boolean {
    for (const spends of this.#months.values()) if (spends.has(id)) return true;
    return false;
  }

  /** Companies and keys asked for in earlier months, but not yet read in that of a day; of days the same. */
  unread(day: string): { readonly id: string; readonly month: string }[] {
    const begun = new Map<string, string>();
    for (const [other, spends] of this.#months) {
      for (const [id, { read }] of spends) {
        const month = isOfDay(id) ? day : monthOfDay(day);
        if (other < month && (read || !isOfDay(id)) && this.#months.get(month)?.get(id)?.read !== true)
          begun.set(id, month);
      }
    }
    return Array.from(begun, ([id, month]) => ({ id, month }));
  }

  /** Makes exactly the given records pending. */
  resetPending(records: Iterable<{ spend: MonthSpend | null; companyId: string; month: string; cost: Femto }>): void {
    for (const spends of this.#months.values()) {
      for (const spend of spends.values()) {
        spend.spent -= spend.pending;
        spend.pending = ZERO;
      }
    }
    for (const { spend, companyId, month, cost } of records) {
      if (cost === ZERO) continue;
      addPending(this.#find(companyId, month), cost);
      if (spend !== null && spend.company !== null)
        for (const each of [spend, ...(spend.others ?? [])]) addPending(each, cost);
    }
  }

  /** Starts a month that began while the database was away at zero, until the database can be asked. */
  assume(id: string, month: string): void {
    const spend = this.#find(id, month);
    this.#commit(spend, ZERO);
    this.#assumed.add(spend);
  }

  /** What was assumed, to be read when the database is back. */
  assumed(): Iterable<MonthSpend> {
    return this.#assumed;
  }

  /** Forgets months and days before that of a day, and what is beyond the limit, where nothing is pending. */
  prune(day: string): void {
    const month = monthOfDay(day);
    for (const [other, spends] of this.#months) {
      let surplus = other !== month && other < day ? spends.size : spends.size - this.#limit;
      for (const [id, spend] of spends) {
        if (surplus <= 0) break;
        if (spend.pending !== ZERO || this.#assumed.has(spend)) continue;
        spend.forgotten = true;
        spends.delete(id);
        for (const set of [this.#ofKeys, this.#asked, this.#doubted]) set.delete(spend);
        surplus -= 1;
      }
      if (spends.size === 0) this.#months.delete(other);
    }
  }

  #commit(spend: MonthSpend, committed: Femto): void {
    const spent = committed + spend.pending;
    if (spend.spent !== spent) spend.spent = spent;
    spend.read = true;
    if (this.#assumed.size > 0) this.#assumed.delete(spend);
    if (this.#doubted.size > 0) this.#doubted.delete(spend);
  }

  /** The spend of a company or key, created where it is missing. */
  #find(id: string, month: string): MonthSpend {
    let spends = this.#months.get(month);
    if (spends === undefined) {
      spends = new Map();
      this.#months.set(month, spends);
    }
    let spend = spends.get(id);
    if (spend === undefined) {
      const slash = id.indexOf('/');
      const companyId = slash < 0 ? id : id.slice(0, slash);
      spend = {
        id,
        companyId,
        month,
        spent: ZERO,
        pending: ZERO,
        read: false,
        forgotten: false,
        company: null,
        others: null,
      };
      spends.set(id, spend);
      if (slash > 0) this.#ofKeys.add(spend);
    }
    return spend;
  }
}

/** See MonthSpend. */
export function spendIdOf(companyId: string, keyId: string): string {
  return `${companyId}/${keyId}`;
}

/** The id of the day of a key, or of its company. */
export function dayIdOf(
  { companyId, keyId }: Pick<KeyMemory, 'companyId' | 'keyId'>,
  whose: 'company' | 'key',
): string {
  return `${spendIdOf(companyId, whose === 'key' ? keyId : '')}/day`;
}

function isCurrent(spend: MonthSpend | null, month: string): spend is MonthSpend {
  return spend !== null && spend.month === month && !spend.forgotten;
}

function figureOf(spend: MonthSpend | undefined): Femto | undefined {
  return spend?.read ? spend.spent : undefined;
}

function settleOne(spend: MonthSpend, cost: Femto, inserted: boolean): void {
  spend.pending = spend.pending === cost ? ZERO : spend.pending - cost;
  if (!inserted || !spend.read) spend.spent -= cost;
}

/** Of a key or a day: no more than is pending, since records that were booked before it had a budget are not in it. */
function settleOfKey(spend: MonthSpend, cost: Femto): void {
  settleOne(spend, cost < spend.pending ? cost : spend.pending, true);
}

function addPending(spend: MonthSpend, cost: Femto): void {
  spend.pending = spend.pending === ZERO ? cost : spend.pending + cost;
  spend.spent += cost;
}
