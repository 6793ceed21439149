import { readRecordCost } from '../domain/record.ts';
import type { SpoolFile } from './disk.ts';
import { type Frame, frameLength, readFrames, writeFrame } from './frame.ts';
import { type Entry, framesOf } from './page.ts';
import type { Spool } from './spool.ts';

/** The oldest records that wait. */
export interface Batch {
  readonly entries: readonly Entry[];
  /** Lines of a spool file that are no whole records any more. */
  readonly damaged: readonly Frame[];
}

export interface BacklogOptions {
  /** null: records wait in memory alone. */
  readonly spool: Spool | null;
  readonly clock: () => number;
  readonly log: { warn(fields: object, text: string): void; error(fields: object, text: string): void };
  /** Records kept in memory while they are on the disk too. */
  readonly maxInMemory?: number;
  /** Records kept in memory when they are nowhere else; beyond it they are lost. */
  readonly maxUnspooled?: number;
  /** Size of a spool file after which the next one begins. */
  readonly maxFileBytes?: number;
}

interface Segment {
  /** null: in memory alone. */
  path: string | null;
  /** Open while it is appended to. */
  file: SpoolFile | null;
  /** null: on the disk alone. */
  memory: Entry[] | null;
  damaged: Frame[];
  count: number;
  settled: number;
  bytes: number;
  /** When the first of its records came. */
  since: number;
  /** Left by another process. */
  foreign: boolean;
}

/**
 * The records that are not yet in the database, oldest first: a list of segments, each a
 * file of the spool. The newest is appended to, the oldest is drained; up to a limit their
 * records are kept in memory too, beyond it they are read back when their turn comes.
 *
 *   drained ─> [file] [file, on disk alone] … [file, on disk alone] <─ appended to
 *
 * In calm times there is one segment, emptied with every batch.
 */
export class Backlog {
  readonly #options: Required<BacklogOptions>;
  #segments: Segment[] = [];
  #inMemory = 0;
  #scratch = Buffer.allocUnsafe(16 * 1024);
  /** Records waiting, and the bytes of the spool files they wait in. */
  size = 0;
  bytes = 0;
  /** Records lost for want of both disk and database, since the start. */
  lost = 0;
  /** Whether the last records reached the disk; true without a spool. */
  spooling = true;

  constructor(options: BacklogOptions) {
    this.#options = { maxInMemory: 50_000, maxUnspooled: 200_000, maxFileBytes: 4 * 1024 * 1024, ...options };
  }

  /** Whether records wait in several files. */
  get isLong(): boolean {
    return this.#segments.filter(isWaiting).length > 1;
  }

  /** When the oldest record came, milliseconds since the epoch; null when none waits. */
  get since(): number | null {
    const oldest = this.#segments.find(isWaiting);
    return oldest === undefined ? null : (oldest.memory?.[0]?.at ?? oldest.since);
  }

  /** The records survive the death of the process when this returns, if `spooling` says so. Never throws. */
  append(entries: readonly Entry[]): void {
    const { spool, maxUnspooled } = this.#options;
    const spooled = spool !== null && this.#write(spool, entries);
    if (!spooled) {
      if (this.#inMemory + entries.length > maxUnspooled) {
        this.lost += entries.length;
        for (const entry of entries) entry.release?.();
        return;
      }
      this.#unspooledSegment();
    }
    const segment = this.#segments.at(-1) as Segment;
    if (!isWaiting(segment)) segment.since = this.#options.clock();
    segment.count += entries.length;
    this.size += entries.length;
    if (segment.memory !== null) {
      for (const entry of entries) segment.memory.push(entry);
      this.#inMemory += entries.length;
    } else for (const entry of entries) entry.release?.();
  }

  /** At most `max` of the oldest records; null when none wait. They stay until they are settled. */
  next(max: number): Batch | null {
    for (;;) {
      const segment = this.#segments.find(isWaiting);
      if (segment === undefined) return null;
      if (segment.memory === null && !this.#load(segment)) continue;
      const entries = (segment.memory as Entry[]).slice(0, max);
      return { entries, damaged: segment.damaged };
    }
  }

  /** The damaged lines of the last batch are dealt with. */
  settleDamaged(): void {
    const segment = this.#segments.find(isWaiting) as Segment;
    segment.damaged = [];
    if (!isWaiting(segment)) this.#emptied(segment);
  }

  /** The first `count` records of the last batch are dealt with. */
  settle(count: number): void {
    const segment = this.#segments.find(isWaiting) as Segment;
    for (const entry of (segment.memory as Entry[]).splice(0, count)) entry.release?.();
    segment.settled += count;
    this.#inMemory -= count;
    this.size -= count;
    if (!isWaiting(segment)) this.#emptied(segment);
  }

  /** Takes over what processes left that are gone. @returns the number of records */
  adopt(): number {
    const { spool, clock, log } = this.#options;
    let records = 0;
    for (const path of spool?.adopt() ?? []) {
      let frames: Frame[];
      try {
        frames = readFrames((spool as Spool).read(path));
      } catch (error) {
        this.#unreadable(path, error);
        continue;
      }
      if (frames.length === 0) {
        (spool as Spool).discard(path);
        continue;
      }
      const bytes = frames.reduce((sum, { record }) => sum + frameLength(record.length), 0);
      const segment = { path, file: null, memory: null, damaged: [], settled: 0, since: clock(), foreign: true };
      this.#segments.unshift({ ...segment, count: frames.length, bytes });
      this.size += frames.length;
      this.bytes += bytes;
      records += frames.length;
    }
    if (records > 0) log.warn({ records }, 'spool: took over the records of a gateway that is gone');
    return records;
  }

  /** Shows that this process lives. @returns false when its files belong to another one now */
  beat(): boolean {
    const { spool, log } = this.#options;
    try {
      if (spool === null || spool.beat()) return true;
    } catch (error) {
      log.error({ reason: reasonOf(error) }, 'spool: the folder cannot be written');
      return true;
    }
    // what is in memory may be written by both: the database takes each record once
    for (const segment of this.#segments) {
      this.#closeFile(segment);
      this.bytes -= segment.bytes;
      segment.bytes = 0;
      segment.path = null;
      if (segment.memory === null) {
        this.size -= segment.count - segment.settled;
        segment.settled = segment.count;
      }
    }
    this.#segments = this.#segments.filter(isWaiting);
    return false;
  }

  /** Closes the files; those that still hold records stay. */
  close(): void {
    for (const segment of this.#segments) this.#closeFile(segment);
    const empty = this.#segments.filter((segment) => !isWaiting(segment) && segment.path !== null);
    for (const { path } of empty) this.#attempt(() => this.#options.spool?.discard(path as string));
    this.#attempt(() => this.#options.spool?.close());
  }

  /** All records in memory. */
  *entries(): Iterable<Entry> {
    for (const { memory } of this.#segments) if (memory !== null) yield* memory;
  }

  /** Appends to the newest file. False when the disk refused; then nothing of it counts as written. */
  #write(spool: Spool, entries: readonly Entry[]): boolean {
    const frames = framesOf(entries) ?? this.#framed(entries);
    const { length } = frames;
    let segment: Segment | undefined;
    try {
      segment = this.#openSegment(spool, entries.length);
      (segment.file as SpoolFile).append(frames, length);
      segment.bytes += length;
      this.bytes += length;
      if (!this.spooling) this.#options.log.warn({}, 'spool: records reach the disk again');
      this.spooling = true;
      return true;
    } catch (error) {
      if (this.spooling) {
        this.#options.log.error(
          { reason: reasonOf(error) },
          'spool: the disk refuses records; until it takes them, they are lost if this process dies',
        );
      }
      this.spooling = false;
      if (segment !== undefined) this.#abandonFile(segment);
      return false;
    }
  }

  #framed(entries: readonly Entry[]): Buffer {
    let length = 0;
    for (const { json } of entries) length += frameLength(json.length);
    if (length > this.#scratch.length) this.#scratch = Buffer.allocUnsafe(length * 2);
    let at = 0;
    for (const { json } of entries) at = writeFrame(this.#scratch, at, json);
    return this.#scratch.subarray(0, at);
  }

  /** The segment to append to, with a file: the newest one unless it is full. @throws when the disk refuses */
  #openSegment(spool: Spool, count: number): Segment {
    const { maxFileBytes, maxInMemory } = this.#options;
    const newest = this.#segments.at(-1);
    const overflows = this.#inMemory + count > maxInMemory;
    const fits = newest?.file != null && newest.bytes < maxFileBytes && !(overflows && newest.memory !== null);
    if (fits) return newest as Segment;
    const opened = spool.newFile();
    if (newest !== undefined) this.#closeFile(newest);
    const segment = this.#newSegment({ ...opened, memory: overflows ? null : [] });
    if (newest !== undefined && !isWaiting(newest)) this.#emptied(newest);
    return segment;
  }

  #unspooledSegment(): void {
    const newest = this.#segments.at(-1);
    if (newest !== undefined && newest.path === null && newest.memory !== null) return;
    this.#newSegment({ path: null, file: null, memory: [] });
  }

  #newSegment(parts: Pick<Segment, 'path' | 'file' | 'memory'>): Segment {
    const segment = { ...parts, damaged: [], count: 0, settled: 0, bytes: 0, since: 0, foreign: false };
    this.#segments.push(segment);
    return segment;
  }

  /** A write may have left half a line: what follows must not touch it. */
  #abandonFile(segment: Segment): void {
    this.#attempt(() => segment.file?.truncate(segment.bytes));
    this.#closeFile(segment);
    if (!isWaiting(segment)) this.#emptied(segment);
  }

  /** Reads a segment back from the disk. False when it could not be, and is gone from the list. */
  #load(segment: Segment): boolean {
    this.#closeFile(segment); // records to come go into the next one
    let frames: Frame[];
    try {
      frames = readFrames((this.#options.spool as Spool).read(segment.path as string));
    } catch (error) {
      this.#unreadable(segment.path as string, error);
      this.#forget(segment);
      return false;
    }
    segment.damaged = frames.filter(({ damage }) => damage !== null);
    segment.memory = frames.filter(({ damage }) => damage === null).map(({ record }) => toEntry(record, segment));
    this.size += segment.memory.length - segment.count;
    this.#inMemory += segment.memory.length;
    segment.count = segment.memory.length;
    if (isWaiting(segment)) return true;
    this.#emptied(segment);
    return false;
  }

  #unreadable(path: string, error: unknown): void {
    this.#options.log.error({ file: path, reason: reasonOf(error) }, 'spool: a file cannot be read and is left aside');
    this.#attempt(() => this.#options.spool?.putAside(path));
  }

  #forget(segment: Segment): void {
    this.size -= segment.count - segment.settled;
    this.bytes -= segment.bytes;
    this.#segments.splice(this.#segments.indexOf(segment), 1);
  }

  /** Everything in a segment is in the database: its file is used again while it is the newest. */
  #emptied(segment: Segment): void {
    const { spool } = this.#options;
    this.bytes -= segment.bytes;
    segment.bytes = 0;
    segment.count = 0;
    segment.settled = 0;
    if (segment === this.#segments.at(-1) && segment.file !== null) {
      segment.memory = [];
      if (this.#attempt(() => segment.file?.truncate(0))) return;
    }
    this.#closeFile(segment);
    this.#segments.splice(this.#segments.indexOf(segment), 1);
    if (segment.path !== null) this.#attempt(() => spool?.discard(segment.path as string));
  }

  #closeFile(segment: Segment): void {
    this.#attempt(() => segment.file?.close());
    segment.file = null;
  }

  #attempt(work: () => unknown): boolean {
    try {
      work();
      return true;
    } catch (error) {
      this.#options.log.error({ reason: reasonOf(error) }, 'spool: the disk refuses');
      return false;
    }
  }
}

function isWaiting(segment: Segment): boolean {
  return segment.settled < segment.count || segment.damaged.length > 0;
}

function toEntry(json: string, { foreign, since: at }: Segment): Entry {
  const cost = readRecordCost(json);
  if (cost === null) return { requestId: '', companyId: '', month: '', account: null, cost: 0n, at, json };
  return { ...cost, cost: foreign ? 0n : cost.cost, account: null, at, json };
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
