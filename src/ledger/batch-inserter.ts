import { type Femto, parseEur } from '../domain/money.ts';
import type { LedgerStore, MonthSum, RefusedRecord } from '../domain/ports.ts';
import type { Backlog } from './backlog.ts';
import { BatchJson, type PendingRecord } from './record-block.ts';
import type { Reservations } from './reservations.ts';
import type { SpendTable } from './spend.ts';

export const MAX_BATCH = 2000; // records in one statement
const MIN_BATCH = 50; // what a batch shrinks to while the database cannot take it in time
const CONFLICT_TRIES = 10;
/** Deadlock and serialization failure: nothing was written, and another try is likely to succeed. */
const CONFLICTS = ['40P01', '40001'];

export interface BatchInserterOptions {
  readonly store: LedgerStore;
  /** Names this process in seals. */
  readonly writer: string;
  readonly backlog: Backlog;
  readonly spend: SpendTable;
  readonly reservations: Reservations;
  /** Called when records were dealt with. */
  readonly onSettled: () => void;
  readonly log: { error(fields: object, text: string): void };
}

/** Moves records from the backlog to the database, one batch at a time. */
export class BatchInserter {
  readonly #options: BatchInserterOptions;
  readonly #json = new BatchJson();
  #batchSize = MAX_BATCH;
  /** The last record of a batch that may have been committed although its answer was lost. */
  #uncertain: PendingRecord | null = null;
  /** Records dealt with, and those of them that were set aside, since the start. */
  settled = 0;
  setAside = 0;

  constructor(options: BatchInserterOptions) {
    this.#options = options;
  }

  /**
   * Whether the last batch may have been committed although its answer was lost. No spend may be
   * read then: the figures could contain what still counts as pending.
   */
  get isUncertain(): boolean {
    return this.#uncertain !== null;
  }

  get hasFullBatch(): boolean {
    return this.#options.backlog.size >= this.#batchSize;
  }

  /** The backlog was taken over by another process: what was uncertain is its business now. */
  forgetUncertain(): void {
    this.#uncertain = null;
  }

  /** Inserts one batch, if any record waits. @throws as the store does when it is unavailable */
  async insertNext(): Promise<void> {
    const batch = this.#options.backlog.next(this.#batchSize);
    if (batch === null) {
      this.#uncertain = null;
      return;
    }
    if (batch.damaged.length > 0) {
      await this.#putAside(batch.damaged.map(({ record, damage }) => ({ record, reason: damage as string })));
      this.#options.backlog.settleDamaged();
    }
    try {
      await this.#insertOrHalve(batch.records);
      this.#batchSize = Math.min(MAX_BATCH, this.#batchSize * 2);
    } catch (error) {
      // a batch that the database cannot take in time would never get through: try a smaller one
      if (codeOf(error) === 'DEADLINE') this.#batchSize = Math.max(MIN_BATCH, this.#batchSize >> 1);
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
      if (isUnavailable(error)) throw error;
      if (batch.length === 1) {
        const reason = error instanceof Error ? error.message : String(error);
        await this.#putAside([{ record: (batch[0] as PendingRecord).json, reason }]);
        this.#settle(batch, []);
        return;
      }
      const half = batch.length >> 1;
      await this.#insertOrHalve(batch.slice(0, half));
      await this.#insertOrHalve(batch.slice(half));
    }
  }

  async #insert(batch: readonly PendingRecord[]): Promise<MonthSum[] | 'all'> {
    const { store, writer } = this.#options;
    const json = this.#json.of(batch);
    const total = totalOf(batch);
    for (let tried = 1; ; tried++) {
      try {
        return await store.insert(writer, json, total);
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
    const { backlog, spend: table, reservations, onSettled } = this.#options;
    if (reservations.size > 0) for (const { requestId } of batch) reservations.booked(requestId);
    backlog.settle(batch.length);
    if (this.#uncertain !== null && batch.includes(this.#uncertain)) this.#uncertain = null;
    for (const record of batch) {
      const { spend, cost } = record;
      if (spend !== null) table.settle(spend, cost, inserted === 'all');
      else if (cost !== 0n) table.settleSum(record.companyId, record.month, cost, 0n);
    }
    if (inserted !== 'all') {
      for (const { companyId, month, eur } of inserted) table.settleSum(companyId, month, 0n, parseEur(eur));
    }
    this.settled += batch.length;
    onSettled();
  }
}

/**
 * What the records cost together; null when some were read back, whose cost may count for nobody
 * here. With it the database need not return sums: 0.6 µs of a row where each is another company's.
 */
function totalOf(batch: readonly PendingRecord[]): Femto | null {
  let total = 0n;
  for (const { spend, cost } of batch) {
    if (spend === null) return null;
    total += cost;
  }
  return total;
}

function codeOf(error: unknown): string {
  return (error as { code?: string }).code ?? '';
}

function isUnavailable(error: unknown): boolean {
  return (error as { unavailable?: boolean }).unavailable !== false;
}
