import { RecordWriter } from '../../src/domain/record.ts';
import type { UsageRecord } from '../../src/domain/usage.ts';

/** A record as the ledger writes it. */
export function recordText(record: UsageRecord): string {
  return new RecordWriter().text(record);
}
