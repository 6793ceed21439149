import type { Femto } from '../domain/money.ts';
import { frameLength, frameRecord, writeFrame } from './frame.ts';

/** A record on its way to the database. */
export interface Entry {
  readonly requestId: string;
  readonly companyId: string;
  readonly month: string;
  /** Counted as pending in the spend of its company; 0 for records of processes that are gone. */
  readonly cost: Femto;
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
  #page: Page = newPage();
  readonly #free: Page[] = [];

  /** Keeps a record. @param at when it came, milliseconds since the epoch */
  keep(requestId: string, companyId: string, month: string, cost: Femto, at: number, json: string): Entry {
    const length = frameLength(json);
    if (length > PAGE_BYTES) return { requestId, companyId, month, cost, at, json };
    if (this.#page.used + length > PAGE_BYTES) this.#turn();
    const page = this.#page;
    const from = page.used;
    page.used = writeFrame(page.bytes, from, json);
    page.live++;
    return new KeptEntry(requestId, companyId, month, cost, at, this, page, from, page.used);
  }

  /** @internal */
  release(page: Page): void {
    page.live--;
    if (page.live > 0) return;
    page.used = 0;
    if (page !== this.#page && this.#free.length < MOST_FREE) this.#free.push(page);
  }

  #turn(): void {
    this.#page = this.#free.pop() ?? newPage();
  }
}

function newPage(): Page {
  return { bytes: Buffer.allocUnsafeSlow(PAGE_BYTES), used: 0, live: 0 };
}

class KeptEntry implements Entry {
  readonly requestId: string;
  readonly companyId: string;
  readonly month: string;
  readonly cost: Femto;
  readonly at: number;
  readonly #pages: Pages;
  readonly page: Page;
  readonly from: number;
  readonly to: number;

  constructor(
    requestId: string,
    companyId: string,
    month: string,
    cost: Femto,
    at: number,
    pages: Pages,
    page: Page,
    from: number,
    to: number,
  ) {
    this.requestId = requestId;
    this.companyId = companyId;
    this.month = month;
    this.cost = cost;
    this.at = at;
    this.#pages = pages;
    this.page = page;
    this.from = from;
    this.to = to;
  }

  get json(): string {
    return frameRecord(this.page.bytes, this.from, this.to);
  }

  release(): void {
    this.#pages.release(this.page);
  }
}

/** The frames of entries that were kept one after the other; null where they do not lie together. */
export function framesOf(entries: readonly Entry[]): Buffer | null {
  const first = entries[0];
  const last = entries.at(-1);
  if (!(first instanceof KeptEntry && last instanceof KeptEntry) || first.page !== last.page) return null;
  return first.page.bytes.subarray(first.from, last.to);
}
