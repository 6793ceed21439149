import { randomUUID } from 'node:crypto';
import type { EndUser, Payer } from '../domain/key.ts';
import type { Calendar } from '../domain/month.ts';
import type {
  BookingListener,
  Clock,
  Fit,
  Ledger,
  LedgerStore,
  MaybeAsync,
  MonthSum,
  RefusedRecord,
  Reservation,
} from '../domain/ports.ts';
import { type Femto, parseEur } from '../domain/pricing/money.ts';
import {
  type RecordCost,
  readRecordCost,
  readRecordEndUser,
  readRecordTime,
} from '../domain/record.ts';
import type { KeyUsage, UsageRecord } from '../domain/usage.ts';
import { faultFields, reasonOf } from '../log.ts';
import { Backlog, type BacklogOptions } from './backlog.ts';
import { KeyUsageReader } from './key-usage-reader.ts';
import { LastUsed } from './last-used.ts';
import { BatchJson, type PendingRecord, totalOf } from './record-block.ts';
import { Reservations } from './reservations.ts';
import { dayIdOf, type Figures, personIdOf, SpendTable, spendIdOf } from './spend.ts';
import { SpendReader } from './spend-reader.ts';
import { BEAT_MS, type Spool } from './spool.ts';
import { systemTiming, type Timing } from './timing.ts';

const FLUSH_MS = 100; // how long a record waits for others to share its statement
const FEW_FLUSH_MS = 250; // the same where fewer than FEW came meanwhile: a statement costs as much as ten requests
const FEW = 500;
const BACKOFF_MS = 500; // pause after the database failed
const MAX_BATCH = 2000; // records in one statement
const MIN_BATCH = 50; // what a batch shrinks to while the database cannot take it in time
const CONFLICT_TRIES = 10;
/** Deadlock and serialization failure: nothing was written, and another try is likely to succeed. */
const CONFLICTS = ['40P01', '40001'];
/** Our deadline, and that of the server (statement_timeout), which may be shorter. */
const TOO_SLOW = ['DEADLINE', '57014'];

export interface LedgerOptions
  extends Pick<BacklogOptions, 'log' | 'maxInMemory' | 'maxUnspooled' | 'maxFileBytes'> {
  readonly store: LedgerStore;
  readonly clock: Clock;
  readonly calendar: Pick<Calendar, 'date'>;
  /** Where records wait durably; without it they die with the process. */
  readonly spool?: Spool | null;
  /** Names this process in seals and reservations. */
  readonly writer?: string;
  readonly timing?: Timing;
}

/**
 * Metering (spec section 8). The records of one turn of the event loop are appended to the spool together. One loop
 * writes the backlog to the database and reads spend in between (see SpendTable), asleep while nothing happens.
 *
 *   book ─┐                                ┌─> listeners: the last bytes leave
 *   book ─┼─ end of this turn ─ one append ┤
 *   book ─┘                                └─> backlog ─ one statement each 250 ms, 100 for many ─> Postgres
 */
export class BatchLedger implements Ledger {
  readonly #options: LedgerOptions;
  readonly #timing: Timing;
  readonly #writer: string;
  readonly #json = new BatchJson();
  readonly #spend = new SpendTable();
  readonly #backlog: Backlog;
  readonly #spendReader: SpendReader;
  readonly #usageReader: KeyUsageReader;
  readonly #reservations: Reservations;
  readonly #lastUsed: LastUsed;
  /** What was booked in this turn, where it counts, and when the first of it was. */
  #group: { readonly record: UsageRecord; readonly figures: Figures }[] = [];
  #groupAt = 0;
  #listeners: BookingListener[] = [];
  readonly #commitGroup = (): void => this.#commit();
  #batchSize = MAX_BATCH;
  /**
   * The last record of a batch that may have been committed although its answer was lost. No spend may be read
   * then: the figures could contain what still counts as pending.
   */
  #uncertain: PendingRecord | null = null;
  #beatAt = Number.NEGATIVE_INFINITY;
  /** Ends the sleep. */
  #wake = (): void => {};
  /** Sleeping with nothing to write. */
  #idle = false;
  #closing = false;
  /** Records lost by a fault of our own. */
  #unwritable = 0;
  #abandoned = false;
  #running: Promise<void> | null = null;
  /** Whether the database answered last time. */
  available = true;
  /** Records that the database refused for good, since the start. */
  setAside = 0;

  constructor(options: LedgerOptions) {
    const {
      store,
      clock,
      calendar,
      spool = null,
      writer = randomUUID(),
      timing = systemTiming(clock),
    } = options;
    this.#options = options;
    this.#timing = timing;
    this.#writer = writer;
    this.#backlog = new Backlog({ ...options, spool, clock: timing.now });
    this.#reservations = new Reservations(store, writer, timing);
    this.#lastUsed = new LastUsed(store, timing);
    const source = { store, timing, isAvailable: () => this.available };
    this.#spendReader = new SpendReader({
      ...source,
      table: this.#spend,
      calendar,
      onRequest: () => this.#wake(),
    });
    this.#usageReader = new KeyUsageReader({
      ...source,
      onRequest: () => {
        if (this.#idle) this.#wake(); // else its turn comes with the next batch
      },
    });
  }

  /** Takes over what dead processes left, and begins to write. */
  start(): void {
    if (this.#running !== null) return;
    this.#adopt();
    this.#running = this.#run();
  }

  /** Takes over now what dead processes left, which otherwise happens every few seconds. */
  adopt(): void {
    this.#beatAt = Number.NEGATIVE_INFINITY;
    this.#wake();
  }

  /** Records not yet in the database. */
  get backlog(): number {
    return this.#backlog.size + this.#group.length;
  }

  /** Records of the backlog that can be written now. */
  get #readable(): number {
    return this.#backlog.size - this.#backlog.unreadable;
  }

  /** Bytes of the spool files in which records wait. */
  get spoolBytes(): number {
    return this.#backlog.bytes;
  }

  /** False while records wait that the disk refused, or does not give back. */
  get spooling(): boolean {
    return this.#backlog.spooling && this.#backlog.unreadable === 0;
  }

  /** Milliseconds the oldest record has waited for the database; 0 when none does. */
  get lag(): number {
    const since = this.#backlog.since;
    return since === null ? 0 : Math.max(0, this.#timing.now() - since);
  }

  get lost(): number {
    return this.#backlog.lost + this.#unwritable;
  }

  get reservations(): number {
    return this.#reservations.size;
  }

  spentOf(payer: Payer, month: string): MaybeAsync<Femto> {
    return (
      this.#spend.of(this.#spend.key(payer), month) ??
      this.#spendReader.request(payer.companyId, month)
    );
  }

  spentByKey(payer: Payer, month: string): MaybeAsync<Femto> {
    const key = this.#spend.key(payer);
    return this.#spend.ofOwn(key, month) ?? this.#spendReader.request(key.ownId as string, month);
  }

  spentOnDay(payer: Payer, day: string, whose: 'company' | 'key'): MaybeAsync<Femto> {
    const key = this.#spend.key(payer);
    return (
      this.#spend.onDay(key, day, whose) ?? this.#spendReader.request(dayIdOf(key, whose), day)
    );
  }

  spentByEndUser(payer: Payer, month: string, endUser: EndUser): MaybeAsync<Femto> {
    const key = this.#spend.key(payer);
    const spent = this.#spend.ofEndUser(key, month, endUser);
    return spent ?? this.#spendReader.request(personIdOf(key, endUser.id), month);
  }

  usageOf(payer: Payer, month: string): MaybeAsync<KeyUsage> {
    return this.#usageReader.request(this.#spend.key(payer), month);
  }

  book(record: UsageRecord, listener: BookingListener | null): void {
    const { payer, month, day, at, endUser } = record.admission;
    const key = this.#spend.key(payer);
    const figures = this.#spend.add(key, month, record.cost, day, endUser);
    this.#lastUsed.note(key, at);
    if (key.used !== null) key.used.book(record);
    if (this.#group.length === 0) {
      this.#timing.soon(this.#commitGroup);
      this.#groupAt = this.#timing.now();
    }
    this.#group.push({ record, figures });
    if (listener !== null) this.#listeners.push(listener);
  }

  /** The change feed has looked at the database. @param changed whether any company's spend may have changed since */
  heard(changed: boolean): void {
    this.#spendReader.heard(changed);
    // also where it sleeps on: a timer that ends meanwhile would wake the whole process
    if (this.#idle) this.#wake();
  }

  reserve(reservation: Reservation): Promise<Fit> {
    return this.#reservations.reserve(reservation);
  }

  release(requestId: string): void {
    this.#reservations.release(requestId);
  }

  /**
   * Writes what waits and stops. What the database does not take in time stays in the spool.
   * @param patienceMs how long to go on while the database fails
   * @returns the number of records lost because neither database nor disk took them
   */
  async close(patienceMs: number): Promise<number> {
    this.#commit();
    this.#closing = true;
    this.#wake();
    const late = Promise.withResolvers<void>();
    const cancel = this.#timing.after(patienceMs, late.resolve);
    await Promise.race([this.#running, late.promise]);
    cancel();
    this.#abandoned = true;
    this.#wake();
    const records = this.#backlog.close();
    if (records > 0)
      this.#options.log.warn({ records }, 'ledger: records stay in the spool for the next start');
    return this.lost;
  }

  /** Appends the records of this turn, then tells their listeners. */
  #commit(): void {
    if (this.#group.length === 0) return;
    // written one behind the other now, the records cost 0.5 µs less each than when booked, between other work
    const { blocks } = this.#backlog;
    const records: PendingRecord[] = [];
    for (const { record, figures } of this.#group) {
      try {
        records.push(blocks.add(record, figures, this.#groupAt));
      } catch (error) {
        this.#unwritable++; // those of others are written
        const { requestId } = record.admission;
        const fields = { request_id: requestId, ...faultFields(error) };
        this.#options.log.error(fields, 'ledger: a record could not be written, and is lost');
      }
    }
    const listeners = this.#listeners;
    this.#group = [];
    this.#listeners = [];
    const lost = this.#backlog.lost;
    this.#backlog.append(records);
    if (lost === 0 && this.#backlog.lost > 0) {
      this.#options.log.error(
        {},
        'ledger: neither disk nor database takes records, and memory is full: they are lost',
      );
    }
    for (const listener of listeners) {
      try {
        listener.onBooked();
      } catch (error) {
        listener.onThrown(error);
      }
    }
    if (this.#idle || (this.#readable >= MAX_BATCH && this.available)) this.#wake();
  }

  async #run(): Promise<void> {
    while (!this.#abandoned && (!this.#closing || this.#readable > 0)) {
      try {
        this.#beat();
        await this.#reservations.keep(false).catch(() => {}); // tried again; leases run out also where no batch is taken
        await this.#insertNext();
        if (this.#uncertain !== null) continue;
        await this.#spendReader.poll(); // the first one before anything is read: later ones tell what changed since
        await this.#spendReader.answer();
        await this.#answerUsage();
        await this.#lastUsed.store(false);
        if (!this.available)
          this.#options.log.warn({ records: this.backlog }, 'ledger: the database is back');
        this.available = true;
        const isBusy =
          this.#readable >= this.#batchSize || this.#backlog.isLong || this.#spendReader.isWanted;
        if (!isBusy) await this.#sleepUntilNeeded();
      } catch (error) {
        if (this.available) {
          this.#options.log.warn(
            { reason: reasonOf(error) },
            'ledger: the database is away; records wait',
          );
        }
        this.available = false;
        this.#spendReader.fail();
        this.#usageReader.fail();
        if (!this.#abandoned) await this.#sleep(BACKOFF_MS);
      }
    }
    await this.#lastUsed.store(true).catch(() => {});
    await this.#reservations.keep(true).catch(() => {});
  }

  /** Inserts one batch, if any record waits. @throws as the store does when it is unavailable */
  async #insertNext(): Promise<void> {
    const batch = this.#backlog.next(this.#batchSize);
    if (batch === null) {
      this.#uncertain = null;
      return;
    }
    if (batch.damaged.length > 0) {
      await this.#putAside(
        batch.damaged.map(({ record, damage }) => ({ record, reason: damage as string })),
      );
      this.#backlog.settleDamaged();
    }
    try {
      await this.#insertOrHalve(batch.records);
      this.#batchSize = Math.min(MAX_BATCH, this.#batchSize * 2);
    } catch (error) {
      // a batch that the database cannot take in time would never get through: try a smaller one
      if (TOO_SLOW.includes(codeOf(error)))
        this.#batchSize = Math.max(MIN_BATCH, this.#batchSize >> 1);
      this.#uncertain ??= batch.records.at(-1) ?? null;
      throw error;
    }
  }

  /** All or nothing; a batch that the database refuses is halved until the bad records stand alone. */
  async #insertOrHalve(batch: readonly PendingRecord[]): Promise<void> {
    if (batch.length === 0) return;
    try {
      this.#settle(batch, await this.#insert(batch));
    } catch (error) {
      if (!isOfRecord(error)) throw error;
      if (batch.length === 1) {
        await this.#putAside([
          { record: (batch[0] as PendingRecord).json, reason: reasonOf(error) },
        ]);
        this.#settle(batch, []);
        return;
      }
      const half = batch.length >> 1;
      await this.#insertOrHalve(batch.slice(0, half));
      await this.#insertOrHalve(batch.slice(half));
    }
  }

  async #insert(batch: readonly PendingRecord[]): Promise<MonthSum[] | 'all'> {
    const json = this.#json.of(batch);
    const total = totalOf(batch);
    for (let tried = 1; ; tried++) {
      try {
        return await this.#options.store.insert(this.#writer, json, total);
      } catch (error) {
        if (CONFLICTS.includes(codeOf(error)) && tried < CONFLICT_TRIES) continue;
        this.#json.abandon();
        throw error;
      }
    }
  }

  async #putAside(refused: readonly RefusedRecord[]): Promise<void> {
    const { store, log } = this.#options;
    await store.setAside(refused);
    this.setAside += refused.length;
    log.error(
      { records: refused.length, reason: refused[0]?.reason },
      'ledger: records that can never be booked were set aside',
    );
  }

  /** The oldest records of the backlog are dealt with. */
  #settle(batch: readonly PendingRecord[], inserted: readonly MonthSum[] | 'all'): void {
    const table = this.#spend;
    if (this.#reservations.size > 0)
      for (const { requestId } of batch) this.#reservations.booked(requestId);
    this.#backlog.settle(batch.length);
    if (this.#uncertain !== null && batch.includes(this.#uncertain)) this.#uncertain = null;
    for (const record of batch) {
      const { figures, cost } = record;
      if (figures !== null) table.settle(figures, cost, inserted === 'all');
      else if (cost !== 0n) this.#settleRestored(record);
    }
    if (inserted !== 'all') {
      for (const { id, month, eur } of inserted) table.settleSum(id, month, 0n, parseEur(eur));
    }
    this.#spendReader.pollSoon();
  }

  /** Settles a record of this process that was on the disk only. */
  #settleRestored({ json, cost }: PendingRecord): void {
    const { companyId, keyId, month } = readRecordCost(json) as RecordCost;
    this.#spend.settleSum(companyId, month, cost, 0n);
    const line = this.#spend.lineOf(keyId);
    this.#spend.settleOwn(spendIdOf(companyId, line), month, cost);
    const day = this.#options.calendar.date(readRecordTime(json) ?? 0);
    for (const whose of ['company', 'key'] as const)
      this.#spend.settleOwn(dayIdOf({ companyId, line }, whose), day, cost);
    const endUserId = readRecordEndUser(json);
    if (endUserId !== null)
      this.#spend.settleOwn(personIdOf({ companyId, line }, endUserId), month, cost);
  }

  /** Reads what keys used, for requests that wait; after the next batch where much waits. @throws as the store does */
  async #answerUsage(): Promise<void> {
    if (this.#usageReader.dueAt > this.#timing.uptime()) return;
    this.#commit();
    const { size } = this.#backlog;
    const pending = size > MAX_BATCH ? [] : [...this.#backlog.records()];
    // a record that was read back from the disk may be in the database already
    if (pending.length < size || pending.some(({ figures }) => figures === null)) return;
    await this.#usageReader.answer(
      pending.map(({ json }) => readRecordCost(json)).filter((record) => record !== null),
    );
  }

  /** There is nothing to do before the next beat. A turn of the loop costs some 300 µs in a process at rest. */
  get #isAtRest(): boolean {
    if (this.backlog > 0 || this.#closing || !this.#lastUsed.isEmpty) return false;
    const now = this.#timing.uptime();
    if (
      now - this.#beatAt >= BEAT_MS ||
      now >= this.#usageReader.dueAt ||
      !this.#reservations.isQuiet
    )
      return false;
    return this.available && !this.#spendReader.isWanted && !this.#spendReader.isDue;
  }

  /** Sleeps until a record comes, then while others join it; or until spend is to be read. */
  async #sleepUntilNeeded(): Promise<void> {
    if (this.#beatAt === Number.NEGATIVE_INFINITY) return; // asked to adopt meanwhile
    if (this.backlog === 0 && !this.#closing) {
      this.#idle = true;
      do {
        const dueAt = Math.min(this.#spendReader.dueAt, this.#usageReader.dueAt);
        await this.#sleep(Math.max(1, dueAt - this.#timing.uptime()));
      } while (this.#isAtRest);
      this.#idle = false;
    }
    if (this.#mayGather) await this.#sleep(FLUSH_MS);
    if (this.#mayGather && this.backlog < FEW) await this.#sleep(FEW_FLUSH_MS - FLUSH_MS);
  }

  /** Records wait, and may wait for others. */
  get #mayGather(): boolean {
    return this.backlog > 0 && !this.#spendReader.isWanted && !this.#closing;
  }

  /** Shows every BEAT_MS that this process lives, and takes over what dead ones left. */
  #beat(): void {
    const now = this.#timing.uptime();
    if (now - this.#beatAt < BEAT_MS) return;
    this.#beatAt = now;
    if (!this.#backlog.beat()) {
      this.#commit(); // what was booked in this turn has a new file to go to
      this.#spend.resetPending(this.#backlog.records());
      this.#uncertain = null; // whoever took the files over writes those records
    }
    this.#adopt();
  }

  #adopt(): void {
    try {
      this.#backlog.adopt();
    } catch (error) {
      this.#options.log.error({ reason: reasonOf(error) }, 'spool: the folder cannot be read');
    }
  }

  async #sleep(ms: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const cancel = this.#timing.after(ms, resolve);
    this.#wake = resolve;
    await promise;
    cancel();
  }
}

/**
 * Whether the database refuses a record for good. Not where a table, a function or a right to it is missing, as in the
 * middle of a restore: then it would refuse any record, and takes all once that is mended.
 */
function isOfRecord(error: unknown): boolean {
  return (
    (error as { unavailable?: boolean }).unavailable === false && !/^(42|3F)/.test(codeOf(error))
  );
}

/** The code of a failure, as Postgres, Node and the store name it; empty where it has none. */
function codeOf(error: unknown): string {
  return (error as { code?: string }).code ?? '';
}
