import { LRUCache } from 'lru-cache';
import type { EndUser, Payer } from '../domain/key.ts';
import { isOfDay, isOfPerson, monthOfDay } from '../domain/month.ts';
import type { MonthSum } from '../domain/ports.ts';
import { type Femto, parseEur } from '../domain/pricing/money.ts';
import type { KeyMonth } from './key-month.ts';

const ZERO = 0n;
/** Keys of which the line is remembered for records that come back from the disk; of others it is read again with the next poll. */
const MOST_LINES = 16_384;

/**
 * What one company has spent in one month, or one key with a budget of its own, or one end user of a key with an
 * allowance; where company or key has a budget of the day, also what both have spent on that day.
 */
export interface MonthSpend {
  /** See MonthSum in domain/ports.ts. */
  readonly id: string;
  readonly companyId: string;
  /** Of an end user: of the keys. */
  readonly line: string;
  /** The first day of the month; of a budget of the day, that day. */
  readonly month: string;
  /** What the budget gate reads: `pending`, plus the database's figure once that was read. */
  spent: Femto;
  /** Cost of our own records that the database has not confirmed yet; part of `spent`. */
  pending: Femto;
  /** Whether the database's figure was read. */
  read: boolean;
  /** The number of polls when the figure was read; of a company, when a poll last told that it changed. */
  polls: number;
  /** Whether it was asked for since the table last looked for what to forget. */
  used: boolean;
  /** Removed from the table: a reference to it has to be looked up again. */
  forgotten: boolean;
  /** The month of its company; null for a company. */
  company: MonthSpend | null;
  /** Those of the record that was last added here; of a company: itself alone. */
  figures: Figures | null;
}

/** The figures in which a record counts: the month of its company, and all else that is kept of its key. Many records share one. */
export interface Figures {
  readonly company: MonthSpend;
  readonly others: readonly MonthSpend[];
  /** What it was made from, see `figuresOf`. */
  readonly base: Figures | null;
  readonly beside: MonthSpend | null;
}

/** The figures of one month, or one day. */
interface Month {
  /** Companies and keys by the id of a MonthSpend. */
  readonly spends: Map<string, MonthSpend>;
  /** End users likewise, by company. They are apart since there may be so many that they would displace companies. */
  readonly people: Map<string, Map<string, MonthSpend>>;
}

/** What the ledger remembers of a key, so that a known key costs one look-up. The key itself is frozen. */
export interface KeyMemory {
  readonly keyId: string;
  /** See Payer: keys of one line share their figures. */
  readonly line: string;
  readonly companyId: string;
  /** The id of its own spend; null: it has no budget, and none is kept. */
  readonly ownId: string | null;
  /** Whether its end users have an allowance, so that what each spent is kept. */
  readonly hasAllowance: boolean;
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
 * What each company has spent per billing month, and each key with a budget, together with those that were made in each
 * other's place (a line), and each end user with an allowance, as
 * the budget gate reads it: the database's figure plus our own records that are not yet in it. Only the ledger moves
 * amounts from pending to committed, and it reads the database between batches, or where no record is pending, so nothing
 * counts twice. All empty `pending` are one bigint, which spares the garbage collector.
 *
 *   month ─┬─ company ───────── MonthSpend { spent, pending } <┄┄ KeyMemory of each key, until it is forgotten
 *          ├─ company/line ──── MonthSpend { spent, pending, company }  <┄┄'
 *          └─ company/line/end user
 *   day ───┬─ company//day ──── the same of a day, where there are budgets of days
 *          └─ company/line/day
 *
 * A poll tells which companies changed. All else that is kept of them is in doubt then, since it was read before; nothing
 * has to look at it until it is asked for.
 */
export class SpendTable {
  /** By month or day. */
  readonly #months = new Map<string, Month>();
  /** Figures besides those of companies that were asked for since the last poll. */
  readonly #asked = new Set<MonthSpend>();
  #polls = 0;
  /** By end user, of whichever key was asked for last. As below: at 100,000 of them the long id takes 5 µs. */
  readonly #people = new WeakMap<EndUser, MonthSpend>();
  /** By key. At 100,000 keys 0.2 µs, where a map by company id takes 1 µs; with few keys 5 and 20 ns. */
  readonly #keys = new WeakMap<Payer, KeyMemory>();
  /** The lines of keys that were made in the place of others, by the id of the key. */
  readonly #lines = new LRUCache<string, string>({ maxSize: MOST_LINES, sizeCalculation: () => 1 });
  /**
   * Figures that serve until the database's own is read: zero because the database was away when the month began,
   * or those of keys where the database did not say which records of a batch were new.
   */
  readonly #assumed = new Set<MonthSpend>();
  readonly #limit: number;
  readonly #mostPeople: number;

  /**
   * @param limit companies and keys remembered per month; beyond it those without pending records are forgotten
   * @param mostPeople end users likewise, of companies with more than an equal part, those first that were not asked for
   *   lately; 450 bytes each
   */
  constructor(limit = 200_000, mostPeople = 131_072) {
    this.#limit = limit;
    this.#mostPeople = mostPeople;
  }

  /** The line of a key; itself where nothing else is known. */
  lineOf(keyId: string): string {
    return this.#lines.get(keyId) ?? keyId;
  }

  /** What is remembered of a key. */
  key(payer: Payer): KeyMemory {
    let key = this.#keys.get(payer);
    if (key === undefined) {
      const { id, companyId, restriction, line = id } = payer;
      if (line !== id) this.#lines.set(id, line);
      const ownId =
        restriction == null || restriction.budget === null ? null : spendIdOf(companyId, line);
      const hasAllowance = restriction?.endUserBudget != null;
      const known = { spend: null, own: null, day: null, companyDay: null, usedAt: 0, used: null };
      key = { keyId: id, line, companyId, ownId, hasAllowance, ...known };
      this.#keys.set(payer, key);
    }
    return key;
  }

  /**
   * What a company or key has spent, in femto-EUR; undefined when the figure has to be read first.
   * @param id see MonthSpend
   */
  get(id: string, month: string): Femto | undefined {
    return figureOf(this.#lookUp(id, month));
  }

  /**
   * Whether no record of this process that counts in a figure waits for the database, so that it can be read at any time.
   * An end user's calls are told apart; those of a key that got its budget just now are not.
   */
  isUntouched(id: string, month: string): boolean {
    const spend = this.#lookUp(id, month);
    if (isOfPerson(id)) return spend === undefined || spend.pending === ZERO;
    const slash = id.indexOf('/');
    if (slash > 0 && this.#lookUp(id.slice(0, slash), monthOfDay(month))?.pending) return false;
    return spend === undefined || (!spend.read && spend.pending === ZERO);
  }

  /** What the company of a key has spent, in femto-EUR; undefined when the figure has to be read first. */
  of(key: KeyMemory, month: string): Femto | undefined {
    if (!isCurrent(key.spend, month)) key.spend = this.#lookUp(key.companyId, month) ?? null;
    return figureOf(key.spend ?? undefined);
  }

  /** What a key with a budget of its own has spent; undefined also for a figure in doubt, which `get` still tells. */
  ofOwn(key: KeyMemory, month: string): Femto | undefined {
    if (!isCurrent(key.own, month)) key.own = this.#lookUp(key.ownId as string, month) ?? null;
    return this.#undoubted(key.own);
  }

  /** What a key, or its company, has spent on a day; undefined as for `ofOwn`. */
  onDay(key: KeyMemory, day: string, whose: 'company' | 'key'): Femto | undefined {
    const kept = whose === 'key' ? 'day' : 'companyDay';
    if (!isCurrent(key[kept], day)) key[kept] = this.#lookUp(dayIdOf(key, whose), day) ?? null;
    return this.#undoubted(key[kept]);
  }

  /** What an end user of a key with an allowance has spent; undefined as for `ofOwn`. */
  ofEndUser(key: KeyMemory, month: string, endUser: EndUser): Femto | undefined {
    return this.#undoubted(this.#ofPerson(key, month, endUser));
  }

  #ofPerson(key: KeyMemory, month: string, endUser: EndUser): MonthSpend | null {
    const known = this.#people.get(endUser) ?? null;
    if (isCurrent(known, month) && known.line === key.line) return known;
    const found = this.#lookUp(personIdOf(key, endUser.id), month) ?? null;
    if (found !== null) this.#people.set(endUser, found);
    return found;
  }

  #undoubted(spend: MonthSpend | null): Femto | undefined {
    if (spend === null || isDoubted(spend)) return undefined;
    this.#asked.add(spend);
    spend.used = true;
    return figureOf(spend);
  }

  /**
   * Counts a new record from this very tick.
   * @param day where a budget of the day is to hold; empty: none
   * @param endUser who has an allowance, if the key gives one; null: nobody
   * @returns where it counts; not forgotten before its pending amount is settled
   */
  add(
    key: KeyMemory,
    month: string,
    cost: Femto,
    day = '',
    endUser: EndUser | null = null,
  ): Figures {
    if (!isCurrent(key.spend, month)) key.spend = this.#find(key.companyId, month);
    addPending(key.spend, cost);
    let figures = key.spend.figures as Figures;
    if (key.ownId !== null || day !== '') {
      if (!isCurrent(key.own, month))
        key.own = this.#find(key.ownId ?? spendIdOf(key.companyId, key.line), month);
      addPending(key.own, cost);
      figures = figuresOf(key.own, figures);
      if (day !== '') figures = this.#addOnDay(key, figures, day, cost);
    }
    if (!key.hasAllowance || endUser === null) return figures;
    const person =
      this.#ofPerson(key, month, endUser) ?? this.#find(personIdOf(key, endUser.id), month);
    addPending(person, cost);
    return figuresOf(person, figures);
  }

  #addOnDay(key: KeyMemory, figures: Figures, day: string, cost: Femto): Figures {
    if (!isCurrent(key.companyDay, day)) key.companyDay = this.#find(dayIdOf(key, 'company'), day);
    if (!isCurrent(key.day, day)) key.day = this.#find(dayIdOf(key, 'key'), day);
    addPending(key.companyDay, cost);
    addPending(key.day, cost);
    return figuresOf(key.day, figures, key.companyDay);
  }

  /** Takes a figure read from the database. */
  set(id: string, month: string, committed: Femto): void {
    this.#commit(this.#find(id, month), committed);
  }

  /**
   * Takes what a poll told: the figures of companies that changed, of which those that were never asked for are ignored.
   * @returns what else is in doubt now and was asked for since the poll before: it is to be read again at once, the rest
   *   when it is asked for
   */
  changed(sums: readonly MonthSum[]): MonthSpend[] {
    this.#polls++;
    for (const { id, month, eur } of sums) {
      const spend = this.#lookUp(id, month);
      if (spend !== undefined) this.#commit(spend, parseEur(eur));
    }
    const inUse = [...this.#asked].filter(isDoubted);
    for (const spend of inUse) spend.polls = this.#polls; // serves until it is read
    this.#asked.clear();
    return inUse;
  }

  /** Settles a record. @param inserted false: the sums of its batch tell whether it was in the database before */
  settle({ company, others }: Figures, cost: Femto, inserted: boolean): void {
    settleOne(company, cost, inserted);
    for (const each of others) {
      settleOfKey(each, cost);
      if (!inserted) this.#assumed.add(each); // sums are those of the months of companies
    }
  }

  /** Settles sums of a company: `pending` is pending no longer, `inserted` is new in the database. */
  settleSum(companyId: string, month: string, pending: Femto, inserted: Femto): void {
    const spend = this.#find(companyId, month);
    spend.pending -= pending;
    spend.spent += spend.read ? inserted - pending : -pending;
  }

  /** Settles a record read back from the disk in a figure of its key; whether there was a budget then is not known. */
  settleOwn(id: string, month: string, cost: Femto): void {
    const spend = this.#lookUp(id, month);
    if (spend === undefined) return;
    settleOfKey(spend, cost);
    this.#assumed.add(spend);
  }

  /** Whether the company, key or end user was asked for in any month. */
  knows(id: string): boolean {
    for (const month of this.#months.keys()) if (this.#lookUp(id, month) !== undefined) return true;
    return false;
  }

  /**
   * Companies and keys asked for in earlier months, but not yet read in that of a day; of days the same. End users are too
   * many: they are read when they are asked for.
   */
  unread(day: string): { readonly id: string; readonly month: string }[] {
    const begun = new Map<string, string>();
    for (const [other, { spends }] of this.#months) {
      for (const [id, { read }] of spends) {
        const month = isOfDay(id) ? day : monthOfDay(day);
        if (other < month && (read || !isOfDay(id)) && this.#lookUp(id, month)?.read !== true)
          begun.set(id, month);
      }
    }
    return Array.from(begun, ([id, month]) => ({ id, month }));
  }

  /** Makes exactly the given records pending. */
  resetPending(
    records: Iterable<{ figures: Figures | null; companyId: string; month: string; cost: Femto }>,
  ): void {
    for (const { spends, people } of this.#months.values()) {
      for (const all of [spends, ...people.values()])
        for (const spend of all.values()) {
          spend.spent -= spend.pending;
          spend.pending = ZERO;
        }
    }
    for (const { figures, companyId, month, cost } of records) {
      if (cost === ZERO) continue;
      addPending(this.#find(companyId, month), cost);
      if (figures !== null) for (const each of figures.others) addPending(each, cost);
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

  /** Forgets months and days before that of a day, and what is beyond the limits, where nothing is pending. */
  prune(day: string): void {
    const month = monthOfDay(day);
    for (const [other, { spends, people }] of this.#months) {
      const isOver = other !== month && other < day;
      this.#forget(spends, isOver ? 0 : this.#limit);
      this.#forgetPeople(people, isOver ? 0 : this.#mostPeople);
      if (spends.size + people.size === 0) this.#months.delete(other);
    }
  }

  /** Forgets end users beyond a limit, but none of a company that has no more than an equal part of it. */
  #forgetPeople(people: Month['people'], limit: number): void {
    let surplus = -limit;
    for (const { size } of people.values()) surplus += size;
    const part = Math.floor(limit / people.size);
    for (const [company, spends] of people) {
      if (surplus <= 0) break;
      const { size } = spends;
      if (size > part) this.#forget(spends, Math.max(part, size - surplus));
      surplus -= size - spends.size;
      if (spends.size === 0) people.delete(company);
    }
  }

  /** Forgets the first of a map beyond a limit; one that was used meanwhile is put at its end once more. */
  #forget(spends: Map<string, MonthSpend>, limit: number): void {
    let surplus = spends.size - limit;
    for (const [id, spend] of spends) {
      if (surplus <= 0) break;
      if (spend.pending !== ZERO || this.#assumed.has(spend)) continue;
      spends.delete(id);
      if (spend.used && limit > 0) {
        spend.used = false;
        spends.set(id, spend);
        continue;
      }
      spend.forgotten = true;
      this.#asked.delete(spend);
      surplus -= 1;
    }
  }

  #commit(spend: MonthSpend, committed: Femto): void {
    const spent = committed + spend.pending;
    if (spend.spent !== spent) spend.spent = spent;
    spend.read = true;
    spend.polls = this.#polls;
    if (this.#assumed.size > 0) this.#assumed.delete(spend);
  }

  #lookUp(id: string, month: string): MonthSpend | undefined {
    const found = this.#months.get(month);
    if (found === undefined || !isOfPerson(id)) return found?.spends.get(id);
    return found.people.get(companyOf(id))?.get(id);
  }

  /** The spend of a company, key or end user, created where it is missing, with that of its company. */
  #find(id: string, month: string): MonthSpend {
    let found = this.#months.get(month);
    if (found === undefined) {
      found = { spends: new Map(), people: new Map() };
      this.#months.set(month, found);
    }
    const companyId = companyOf(id);
    const isPerson = isOfPerson(id);
    const spends = isPerson ? peopleOf(found, companyId) : found.spends;
    let spend = spends.get(id);
    if (spend !== undefined && spend.company?.forgotten !== true) return spend;
    const line = isPerson ? id.slice(companyId.length + 1, id.lastIndexOf('/')) : '';
    const company = companyId === id ? null : this.#find(companyId, monthOfDay(month));
    if (spend === undefined) {
      const state = { read: false, polls: this.#polls, used: false, forgotten: false };
      spend = {
        id,
        companyId,
        line,
        month,
        spent: ZERO,
        pending: ZERO,
        ...state,
        company,
        figures: null,
      };
      if (company === null)
        spend.figures = { company: spend, others: [], base: null, beside: null };
      spends.set(id, spend);
    } else spend.company = company;
    return spend;
  }
}

/** The company of a MonthSpend. */
function companyOf(id: string): string {
  const slash = id.indexOf('/');
  return slash < 0 ? id : id.slice(0, slash);
}

function peopleOf({ people }: Month, companyId: string): Map<string, MonthSpend> {
  let found = people.get(companyId);
  if (found === undefined) {
    found = new Map();
    people.set(companyId, found);
  }
  return found;
}

/** See MonthSpend. */
export function spendIdOf(companyId: string, line: string): string {
  return `${companyId}/${line}`;
}

/** The id of the day of a key, or of its company. */
export function dayIdOf(
  { companyId, line }: Pick<KeyMemory, 'companyId' | 'line'>,
  whose: 'company' | 'key',
): string {
  return `${spendIdOf(companyId, whose === 'key' ? line : '')}/day`;
}

/** The id of an end user of a key. */
export function personIdOf(
  { companyId, line }: Pick<KeyMemory, 'companyId' | 'line'>,
  endUserId: string,
): string {
  return `${companyId}/${line}/${endUserId}`;
}

/** Whether a poll has told that the company changed since the figure was read, or may have told it unheard. */
function isDoubted({ company, polls }: MonthSpend): boolean {
  return company !== null && (company.forgotten || company.polls > polls);
}

/** The figures of a record that also counts in `spend`, and in one beside it: those of the record before, if they are the same. */
function figuresOf(spend: MonthSpend, base: Figures, beside: MonthSpend | null = null): Figures {
  if (spend.figures?.base !== base || spend.figures.beside !== beside) {
    const others = [...base.others, spend, ...(beside === null ? [] : [beside])];
    spend.figures = { company: base.company, others, base, beside };
  }
  return spend.figures;
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

/** Of all but a company: no more than is pending, since records that were booked before it had a budget are not in it. */
function settleOfKey(spend: MonthSpend, cost: Femto): void {
  settleOne(spend, cost < spend.pending ? cost : spend.pending, true);
}

function addPending(spend: MonthSpend, cost: Femto): void {
  spend.pending = spend.pending === ZERO ? cost : spend.pending + cost;
  spend.spent += cost;
}
