import { LRUCache } from 'lru-cache';
import type { EndUser, Payer } from '../domain/key.ts';
import { isOfDay, isOfPerson, monthOfDay } from '../domain/month.ts';
import type { MonthSum } from '../domain/ports.ts';
import { type Femto, parseEur } from '../domain/pricing/money.ts';
import type { KeyMonth } from './key-month.ts';

const ZERO = 0n;
/** How many keys have their line (see `SpendTable`) remembered, for records that come back from the disk; other lines are read with the next poll. */
const MOST_LINES = 16_384;

/**
 * The spend of one company in one month; likewise of a key with a budget of its own, and of an end user with an allowance.
 * Where company or key has a budget of the day, there is one for that day too.
 */
export interface MonthSpend {
  /** See MonthSum in domain/ports.ts. */
  readonly id: string;
  readonly companyId: string;
  /** The line of the key; of an end user, that of the key that named the person. */
  readonly line: string;
  /** The first day of the month; for a budget of the day, that day. */
  readonly month: string;
  /** What the budget gate reads: `pending`, plus the database's figure once that was read. */
  spent: Femto;
  /** Cost of our own records that the database has not confirmed yet; part of `spent`. */
  pending: Femto;
  /** Whether the database's figure was read. */
  read: boolean;
  /** The number of the poll at which the figure was read; for a company, the last poll that told of a change. */
  polls: number;
  /** Whether it was used since the table last looked for figures to forget. */
  used: boolean;
  /** Removed from the table: a reference to it has to be looked up again. */
  forgotten: boolean;
  /** The spend of its company; null for a company. */
  company: MonthSpend | null;
  /** The figures of the record that was last added here; for a company, itself alone. */
  figures: Figures | null;
}

/** The figures to which a record adds: those of its company, its key, its end user. Records with the same figures share one object. */
export interface Figures {
  readonly company: MonthSpend;
  readonly others: readonly MonthSpend[];
  /** The figures from which `figuresOf` made these. */
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

/** The ledger's notes on a key, so that a known key costs one look-up; the key itself is frozen. */
export interface KeyMemory {
  readonly keyId: string;
  /** See Payer: keys of one line share their figures. */
  readonly line: string;
  readonly companyId: string;
  /** The id of its own spend; null: it has no budget, and none is kept. */
  readonly ownId: string | null;
  /** Whether its end users have an allowance, so that the spend of each is kept. */
  readonly hasAllowance: boolean;
  /** The company's spend and the key's own, as last looked up. */
  spend: MonthSpend | null;
  own: MonthSpend | null;
  /** The same for a day; null: not looked up. */
  day: MonthSpend | null;
  companyDay: MonthSpend | null;
  /** When the key was last used, milliseconds since the epoch; 0 once the database has it. */
  usedAt: number;
  /** Its usage of a month; null: nobody asked for it. */
  used: KeyMonth | null;
}

/**
 * The spend that the budget gate reads, by billing month: of each company, each end user with an allowance, and each
 * line of keys with a budget. A line is a key with the keys whose places it took, one after the other. A figure is the
 * database's plus our own records that are not yet in it. Only the ledger moves amounts from pending to committed, and
 * it reads the database between batches, or where no record is pending, so nothing counts twice. All empty `pending`
 * are one bigint, which spares the garbage collector.
 *
 *   month ─┬─ company ───────── MonthSpend { spent, pending } <┄┄ KeyMemory of each key, until it is forgotten
 *          ├─ company/line ──── MonthSpend { spent, pending, company }  <┄┄'
 *          └─ company/line/end user
 *   day ───┬─ company//day ──── the same of a day, where there are budgets of days
 *          └─ company/line/day
 *
 * A poll tells which companies changed. From then on the figures of their keys and end users are in doubt, until they
 * are used and read again.
 */
export class SpendTable {
  /** The figures by month or day. */
  readonly #months = new Map<string, Month>();
  /** Figures of keys and end users that were used since the last poll. */
  readonly #asked = new Set<MonthSpend>();
  #polls = 0;
  /** The spend of an end user, by the key that was asked for last. At 100,000 people a look-up by the long id takes 5 µs. */
  readonly #people = new WeakMap<EndUser, MonthSpend>();
  /** The notes by key: at 100,000 keys 0.2 µs a look-up, where a map by company id takes 1 µs; with few keys 5 and 20 ns. */
  readonly #keys = new WeakMap<Payer, KeyMemory>();
  /** The lines of keys that were made in the place of others, by the id of the key. */
  readonly #lines = new LRUCache<string, string>({ maxSize: MOST_LINES, sizeCalculation: () => 1 });
  /**
   * Figures that are assumed until the database's are read: zero, because the database was away when the month began, or
   * those of keys for which the database did not say which records of a batch were new.
   */
  readonly #assumed = new Set<MonthSpend>();
  readonly #limit: number;
  readonly #mostPeople: number;

  /**
   * @param limit companies and keys remembered per month; beyond it those without pending records are forgotten
   * @param mostPeople end users remembered, 450 bytes each; beyond it those are forgotten that were not used lately, of
   *   companies that have more than an equal part
   */
  constructor(limit = 200_000, mostPeople = 131_072) {
    this.#limit = limit;
    this.#mostPeople = mostPeople;
  }

  /** The line of a key: the id of its first key; its own id where nothing else is known. */
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
   * Whether a figure can be read at any time, because none of this process's records that count in it waits for the
   * database. Records of an end user are counted apart; those of a key that got its budget just now are not.
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

  /** The spend of a key with a budget of its own; undefined also for a figure in doubt, which `get` returns. */
  ofOwn(key: KeyMemory, month: string): Femto | undefined {
    if (!isCurrent(key.own, month)) key.own = this.#lookUp(key.ownId as string, month) ?? null;
    return this.#undoubted(key.own);
  }

  /** What a key, or its company, has spent on a day; undefined as for `ofOwn`. */
  onDay(key: KeyMemory, day: string, whose: 'company' | 'key'): Femto | undefined {
    const member = whose === 'key' ? 'day' : 'companyDay';
    if (!isCurrent(key[member], day)) key[member] = this.#lookUp(dayIdOf(key, whose), day) ?? null;
    return this.#undoubted(key[member]);
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
   * Adds a new record, so that the next check sees it.
   * @param day the day of a budget of the day; empty: there is none
   * @param endUser the person with an allowance; null: nobody
   * @returns the figures that have it, which are not forgotten before the amount is settled
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
   * Takes the figures of companies that changed, from a poll; companies that are not in the table are ignored.
   * @returns figures of their keys and end users that were used since the poll before: they are to be read again at once,
   *   others when they are used
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

  /** Settles a record that was read back from the disk, in a figure of its key, which may have had no budget at that time. */
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
   * Companies and keys that were used in earlier months, and are not yet read in the month of a day; likewise of days.
   * End users are too many: they are read when they are used.
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

  /** The assumed figures, to be read when the database is back. */
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

/** Whether the company changed since the figure was read, by a poll, or may have changed because nobody kept it. */
function isDoubted({ company, polls }: MonthSpend): boolean {
  return company !== null && (company.forgotten || company.polls > polls);
}

/** The figures `base` with `spend`, and `beside` where given; the object that the record before had, if it is the same. */
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

/** Settles a figure of a key, of no more than is pending: records from before it had a budget are not in it. */
function settleOfKey(spend: MonthSpend, cost: Femto): void {
  settleOne(spend, cost < spend.pending ? cost : spend.pending, true);
}

function addPending(spend: MonthSpend, cost: Femto): void {
  spend.pending = spend.pending === ZERO ? cost : spend.pending + cost;
  spend.spent += cost;
}
