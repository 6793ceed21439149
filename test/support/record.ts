import { RecordWriter } from '../../src/domain/record.ts';
import type { UsageRecord } from '../../src/domain/usage.ts';

/** A record as the ledger writes it. */
export function recordText(record: UsageRecord): string {
  const writer = new RecordWriter();
  const bytes = Buffer.alloc(writer.room(record));
  return bytes.toString('latin1', 0, writer.write(record, bytes, 0));
}
