import type { Femto } from '../domain/money.ts';
import { RecordWriter, readRecordCost } from '../domain/record.ts';
import type { UsageRecord } from '../domain/usage.ts';
import { blankHead, closeArray, closeFrame, frameLength, frameRecord, HEAD, writeMember } from './frame.ts';
import type { MonthSpend } from './spend.ts';

/** A record on its way to the database. */
export interface Entry {
  readonly requestId: string;
  readonly companyId: string;
  readonly month: string;
  /** Counted as pending in the spend of its company; 0 for records of processes that are gone. */
  readonly cost: Femto;
  /** Where it is counted; null for what was read back from the disk, which is looked up. */
  readonly account: MonthSpend | null;
  /** When it came, milliseconds since the epoch. */
  readonly at: number;
  readonly json: string;
  /** Nobody will ask for `json` any more. */
  release?(): void;
}

const PAGE_BYTES = 262_144;
/** Empty pages kept for use again; what a second of high load takes. */
const MOST_FREE = 32;

interface Page {
  readonly owner: Pages;
  readonly bytes: Buffer;
  used: number;
  /** Entries that still need their text. */
  live: number;
}

/**
 * Where records wait: as frames of the spool, one behind the other, outside V8's heap. As
 * strings they outlived the young generation by the thousand, were copied twice and then
 * collected by marking the whole heap: V8's threads for that took 17 % of the CPU, now 9.
 */
export class Pages {
  readonly #records = new RecordWriter();
  #page: Page = newPage(this, PAGE_BYTES);
  readonly #free: Page[] = [];

  /** Keeps a record. @param at when it came, milliseconds since the epoch */
  keep(record: UsageRecord, account: MonthSpend, at: number): Entry {
    const room = frameLength(this.#records.room(record));
    if (this.#page.used + room > this.#page.bytes.length) this.#turn(room);
    const page = this.#page;
    const from = page.used;
    page.used = closeFrame(page.bytes, from, this.#records.write(record, page.bytes, from + HEAD));
    page.live++;
    return new KeptEntry(account, record.cost, at, page, from, page.used);
  }

  /** @internal */
  release(page: Page): void {
    page.live--;
    if (page.live > 0) return;
    page.used = 0;
    const usual = page.bytes.length === PAGE_BYTES;
    if (page !== this.#page && usual && this.#free.length < MOST_FREE) this.#free.push(page);
  }

  #turn(room: number): void {
    this.#page = room > PAGE_BYTES ? newPage(this, room) : (this.#free.pop() ?? newPage(this, PAGE_BYTES));
  }
}

function newPage(owner: Pages, size: number): Page {
  return { owner, bytes: Buffer.allocUnsafeSlow(size), used: 0, live: 0 };
}

class KeptEntry implements Entry {
  readonly account: MonthSpend;
  readonly cost: Femto;
  readonly at: number;
  readonly page: Page;
  readonly from: number;
  readonly to: number;

  constructor(account: MonthSpend, cost: Femto, at: number, page: Page, from: number, to: number) {
    this.account = account;
    this.cost = cost;
    this.at = at;
    this.page = page;
    this.from = from;
    this.to = to;
  }

  /** Read back where it is asked for, with a strict budget: Node makes an id of some twenty strings, kept alive for each record. */
  get requestId(): string {
    return readRecordCost(this.json)?.requestId ?? '';
  }

  get companyId(): string {
    return this.account.companyId;
  }

  get month(): string {
    return this.account.month;
  }

  get json(): string {
    return frameRecord(this.page.bytes, this.from, this.to);
  }

  release(): void {
    this.page.owner.release(this.page);
  }
}

/** The frames of entries that were kept one after the other; null where they do not lie together. */
export function framesOf(entries: readonly Entry[]): Buffer | null {
  const first = entries[0];
  const last = entries.at(-1);
  if (!(first instanceof KeptEntry && last instanceof KeptEntry) || first.page !== last.page) return null;
  return first.page.bytes.subarray(first.from, last.to);
}

/**
 * Makes one JSON array of the records of a batch. They are put together as bytes, page by page,
 * with punctuation over the heads of their frames, and leave as they are:
 *
 *   000001c3 5f0a9c21 {"billing_month":…}⏎000001bf 77ab01d4 {"billing_month":…}⏎
 *                    [{"billing_month":…}                  ,{"billing_month":…}]
 *
 * A string for each record, joined, took 0.35 µs of a row more; one of all of them is a large
 * object of V8's for every batch, and made it collect its whole heap more often.
 */
export class BatchText {
  #bytes = Buffer.alloc(0);

  /** The array's bytes, until the next one is made or they are let go of. */
  of(entries: readonly Entry[]): Buffer {
    const bytes = this.#room(entries);
    let at = 0;
    for (let next = 0; next < entries.length; ) {
      const entry = entries[next] as Entry;
      if (entry instanceof KeptEntry) {
        const { page, from } = entry;
        const end = endOfRun(entries, next);
        const shift = at - from;
        at += page.bytes.copy(bytes, at, from, (entries[end - 1] as KeptEntry).to);
        for (; next < end; next++) blankHead(bytes, shift + (entries[next] as KeptEntry).from);
      } else {
        at = writeMember(bytes, at, entry.json);
        next += 1;
      }
    }
    return closeArray(bytes, at);
  }

  /** Somebody may still read the last array: it is left as it is. */
  letGo(): void {
    this.#bytes = Buffer.alloc(0);
  }

  #room(entries: readonly Entry[]): Buffer {
    let room = 0;
    for (const entry of entries)
      room += entry instanceof KeptEntry ? entry.to - entry.from : frameLength(entry.json.length);
    if (room > this.#bytes.length) this.#bytes = Buffer.allocUnsafeSlow(2 * room);
    return this.#bytes;
  }
}

/** Where entries that lie together from one on end. */
function endOfRun(entries: readonly Entry[], from: number): number {
  let last = entries[from] as KeptEntry;
  for (let next = from + 1; next < entries.length; next++) {
    const entry = entries[next];
    if (!(entry instanceof KeptEntry) || entry.page !== last.page || entry.from !== last.to) return next;
    last = entry;
  }
  return entries.length;
}
