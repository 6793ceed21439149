import type { LedgerStore } from '../domain/ports.ts';
import type { Timing } from './timing.ts';

/** What the readers of the database need that the ledger calls between batches. */
export interface ReaderOptions {
  readonly store: LedgerStore;
  readonly timing: Timing;
  /** Whether the database answered last time. */
  readonly isAvailable: () => boolean;
  /** Called when a request waits. */
  readonly onRequest: () => void;
}
