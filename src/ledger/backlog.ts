import { readRecordCost, readRecordTime } from '../domain/record.ts';
import { reasonOf } from '../log.ts';
import type { SpoolFile } from './disk.ts';
import { copyOfLines, linesOf, type PendingRecord, RecordBlocks } from './record-block.ts';
import type { Spool, SpoolOptions } from './spool.ts';
import { lineLength, readLines, type SpoolLine } from './spool-line.ts';

const TRIAL_BYTES = 4096;

export interface BacklogOptions {
  /** null: records wait in memory only. */
  readonly spool: Spool | null;
  readonly clock: () => number;
  readonly log: SpoolOptions['log'];
  /** Records kept in memory that are on the disk too. Default 50,000. */
  readonly maxInMemory?: number;
  /** Records kept in memory that are nowhere else; more are lost. Default 200,000. */
  readonly maxUnspooled?: number;
  /** Bytes of a segment after which the next one begins. Default 4 MiB. */
  readonly maxFileBytes?: number;
}

interface Segment {
  /** null: in memory only. */
  path: string | null;
  /** Open while it is appended to. */
  file: SpoolFile | null;
  /** null: on the disk only. */
  memory: PendingRecord[] | null;
  damaged: SpoolLine[];
  /** Records that are not settled. */
  waiting: number;
  /** Bytes of all its lines, those of settled records too. */
  bytes: number;
  /** When the first of its records was appended, milliseconds since the epoch; of one left by others, its call's time. */
  since: number;
  /** Left by another process. */
  foreign: boolean;
  /** The disk did not give its file back, which is tried again at each beat. Of a foreign one, one record is counted. */
  unreadable: boolean;
}

/**
 * The records that are not yet in the database, oldest first: a list of segments, each a file of the spool.
 * Up to a limit their records are kept in memory too. Normally there is one segment, which every batch empties.
 *
 *   drained ─> [file] [file, on disk only] … [file, on disk only] <─ appended to
 */
export class Backlog {
  readonly #options: Required<BacklogOptions>;
  /** The bytes of all records in memory. */
  readonly blocks = new RecordBlocks();
  #segments: Segment[] = [];
  #inMemory = 0;
  /** Pending records. */
  size = 0;
  /** Pending records in files that the disk does not give back. */
  unreadable = 0;
  /** Records lost since the start because neither disk nor memory had room, or no disk when it was closed. */
  lost = 0;
  /** False from a record that the disk refused until it takes others and all that wait are on it; true without a spool. */
  spooling = true;
  /** Whether the disk refused the last records. */
  #refused = false;

  constructor(options: BacklogOptions) {
    this.#options = {
      maxInMemory: 50_000,
      maxUnspooled: 200_000,
      maxFileBytes: 4 * 1024 * 1024,
      ...options,
    };
  }

  /** Whether records that can be read wait in several files. */
  get isLong(): boolean {
    return this.#segments.filter(isReadable).length > 1;
  }

  /** Bytes of the spool files in which records wait. */
  get bytes(): number {
    return this.#segments.reduce((sum, { path, bytes }) => (path === null ? sum : sum + bytes), 0);
  }

  /** When the oldest record was booked, milliseconds since the epoch; null when none waits. */
  get since(): number | null {
    // its own are in order, those of others in any
    const waiting = this.#segments.filter(isWaiting);
    const own = waiting.find(({ foreign }) => !foreign);
    const first = waiting.filter((segment) => segment.foreign || segment === own);
    return first.length === 0
      ? null
      : Math.min(...first.map(({ memory, since }) => memory?.[0]?.at ?? since));
  }

  /** Appends records. When it returns they survive the death of the process, if `spooling` says so. Never throws. */
  append(records: readonly PendingRecord[]): void {
    const { spool, clock, maxUnspooled, maxFileBytes } = this.#options;
    const spooled = spool !== null && this.#write(spool, records);
    if (!spooled) {
      if (this.#inMemory + records.length > maxUnspooled) {
        this.lost += records.length;
        for (const record of records) record.release();
        return;
      }
      let newest = this.#segments.at(-1);
      if (newest === undefined || newest.path !== null || newest.bytes >= maxFileBytes) {
        newest = this.#newSegment({ path: null, file: null, memory: [] });
      }
      if (spool !== null) newest.bytes += linesOf(records).length;
    }
    const segment = this.#segments.at(-1) as Segment;
    if (!isWaiting(segment)) segment.since = clock();
    segment.waiting += records.length;
    this.size += records.length;
    if (segment.memory !== null) {
      for (const record of records) segment.memory.push(record);
      this.#inMemory += records.length;
    } else for (const record of records) record.release();
  }

  /**
   * At most `max` of the oldest records, and the damaged lines of their spool file; null when none that can be read wait.
   * They stay until they are settled.
   */
  next(max: number): { records: readonly PendingRecord[]; damaged: readonly SpoolLine[] } | null {
    for (;;) {
      const segment = this.#segments.find(isReadable);
      if (segment === undefined) return null;
      if (segment.memory === null && !this.#load(segment)) continue;
      const records = (segment.memory as PendingRecord[]).slice(0, max);
      return { records, damaged: segment.damaged };
    }
  }

  /** The damaged lines of the last batch are dealt with. */
  settleDamaged(): void {
    const segment = this.#segments.find(isReadable) as Segment;
    segment.damaged = [];
    if (!isWaiting(segment)) this.#emptied(segment);
  }

  /** The first `count` records of the last batch are dealt with. */
  settle(count: number): void {
    const segment = this.#segments.find(isReadable) as Segment;
    for (const record of (segment.memory as PendingRecord[]).splice(0, count)) record.release();
    segment.waiting -= count;
    this.#inMemory -= count;
    this.size -= count;
    if (!isWaiting(segment)) this.#emptied(segment);
  }

  /**
   * Takes over what dead processes left, and tries again to read what could not be read.
   * @returns the number of records; @throws when the folder cannot be read
   */
  adopt(): number {
    const { spool, log } = this.#options;
    if (spool === null) return 0;
    for (const segment of this.#segments.filter(({ unreadable }) => unreadable))
      this.#count(segment);
    let records = 0;
    for (const path of spool.adopt()) {
      // since the beginning of time: until it can be read, its records may be of any month
      const parts = {
        damaged: [],
        waiting: 0,
        bytes: 0,
        since: 0,
        foreign: true,
        unreadable: false,
      };
      const segment = { path, file: null, memory: null, ...parts };
      this.#segments.unshift(segment);
      this.#count(segment);
      records += segment.waiting;
    }
    if (records > 0)
      log.warn({ records }, 'spool: took over the records of a gateway that is gone');
    return records;
  }

  /** Shows that this process lives. @returns false when another process has taken over its files */
  beat(): boolean {
    const { spool, log } = this.#options;
    if (spool === null) return true;
    let isOurs: boolean;
    try {
      isOurs = spool.beat();
    } catch (error) {
      log.error({ reason: reasonOf(error) }, 'spool: the folder cannot be written');
      return true;
    }
    if (!isOurs) this.#leaveFiles();
    this.#writeRest(spool);
    return isOurs;
  }

  /** Closes the files, of which those that still hold records stay. @returns how many records they hold */
  close(): number {
    const { spool } = this.#options;
    if (spool !== null) this.#writeRest(spool);
    let spooled = 0;
    for (const segment of this.#segments) {
      this.#closeFile(segment);
      const { path, waiting } = segment;
      if (path === null) this.lost += waiting;
      else spooled += waiting;
      if (!isWaiting(segment) && path !== null) this.#attempt(() => spool?.discard(path));
    }
    this.#attempt(() => spool?.close());
    return spooled;
  }

  /** All records in memory. */
  *records(): Iterable<PendingRecord> {
    for (const { memory } of this.#segments) if (memory !== null) yield* memory;
  }

  /** Appends to the newest file. False when the disk refused; then none of the records count as written. */
  #write(spool: Spool, records: readonly PendingRecord[]): boolean {
    const lines = linesOf(records);
    const { length } = lines;
    let segment: Segment | undefined;
    try {
      segment = this.#openSegment(spool, records.length);
      (segment.file as SpoolFile).append(lines, length);
      segment.bytes += length;
    } catch (error) {
      this.#refused = true;
      this.#tellRefusal(error);
      if (segment !== undefined) this.#abandonFile(segment);
      return false;
    }
    if (this.#refused) {
      this.#refused = false;
      this.#writeRest(spool);
    }
    return true;
  }

  /** Writes the records that are in memory only to new files. What the disk refuses is tried again at the next beat. */
  #writeRest(spool: Spool): void {
    try {
      for (const segment of this.#segments) {
        if (segment.path === null) this.#writeFile(spool, segment);
      }
      // nothing is left to write: bytes that are no line show whether the disk takes records again
      if (this.#refused) spool.discard(this.#newFileOf(spool, Buffer.alloc(TRIAL_BYTES)));
    } catch (error) {
      this.#tellRefusal(error);
      return;
    }
    if (this.spooling || this.#refused) return;
    this.spooling = true;
    this.#options.log.warn({}, 'spool: records reach the disk again');
  }

  /** Writes a segment that is in memory only to a new file. @throws when the disk refuses */
  #writeFile(spool: Spool, segment: Segment): void {
    const lines = copyOfLines(segment.memory as PendingRecord[]);
    segment.path = this.#newFileOf(spool, lines);
    segment.bytes = lines.length;
  }

  /** Makes a file of these bytes. @returns its path @throws when the disk refuses */
  #newFileOf(spool: Spool, bytes: Buffer): string {
    const { path, file } = spool.newFile();
    try {
      file.append(bytes, bytes.length);
    } catch (error) {
      this.#attempt(() => spool.discard(path));
      throw error;
    } finally {
      this.#attempt(() => file.close());
    }
    this.#refused = false;
    return path;
  }

  #tellRefusal(error: unknown): void {
    const text =
      'spool: the disk refuses records; until it takes them, they are lost if this process dies';
    if (this.spooling) this.#options.log.error({ reason: reasonOf(error) }, text);
    this.spooling = false;
  }

  /** Another process has the files. What is in memory may be written by both: the database takes each record once. */
  #leaveFiles(): void {
    for (const segment of this.#segments) {
      this.#closeFile(segment);
      segment.path = null;
      if (segment.memory === null) {
        this.size -= segment.waiting;
        segment.waiting = 0;
      }
    }
    this.unreadable = 0;
    this.#segments = this.#segments.filter(isWaiting);
  }

  /** The segment to append to, with a file: the newest one unless it is full. @throws when the disk refuses */
  #openSegment(spool: Spool, count: number): Segment {
    const { maxInMemory, maxFileBytes } = this.#options;
    const newest = this.#segments.at(-1);
    const overflows = this.#inMemory + count > maxInMemory;
    const fits =
      newest?.file != null && newest.bytes < maxFileBytes && !(overflows && newest.memory !== null);
    if (fits) {
      if (newest.memory === null) spool.check(); // else memory has the records too
      return newest;
    }
    const opened = spool.newFile();
    if (newest !== undefined) this.#closeFile(newest);
    const segment = this.#newSegment({ ...opened, memory: overflows ? null : [] });
    if (newest !== undefined && !isWaiting(newest)) this.#emptied(newest);
    return segment;
  }

  #newSegment(parts: Pick<Segment, 'path' | 'file' | 'memory'>): Segment {
    const segment = {
      ...parts,
      damaged: [],
      waiting: 0,
      bytes: 0,
      since: 0,
      foreign: false,
      unreadable: false,
    };
    this.#segments.push(segment);
    return segment;
  }

  /** Stops appending to a file in which a failed write may have left half a line. */
  #abandonFile(segment: Segment): void {
    this.#attempt(() => segment.file?.truncate(segment.bytes));
    this.#closeFile(segment);
    if (!isWaiting(segment)) this.#emptied(segment);
  }

  /** Counts the records of a segment that others left, if it can be read now. */
  #count(segment: Segment): void {
    const lines = this.#read(segment);
    if (lines === null || !segment.foreign) return;
    segment.bytes = lines.reduce((sum, { record }) => sum + lineLength(record.length), 0);
    segment.since =
      readRecordTime(lines.find(({ damage }) => damage === null)?.record ?? '') ??
      this.#options.clock();
    this.size += lines.length - segment.waiting;
    segment.waiting = lines.length;
    if (!isWaiting(segment)) this.#emptied(segment);
  }

  /** Reads a segment back from the disk. False when it cannot be read, or nothing of it waits any more. */
  #load(segment: Segment): boolean {
    this.#closeFile(segment); // new records go into the next one
    const lines = this.#read(segment);
    if (lines === null) return false;
    segment.damaged = lines.filter(({ damage }) => damage !== null);
    segment.memory = lines
      .filter(({ damage }) => damage === null)
      .map(({ record }) => this.#restore(record, segment));
    this.size += segment.memory.length - segment.waiting;
    this.#inMemory += segment.memory.length;
    segment.waiting = segment.memory.length;
    if (isWaiting(segment)) return true;
    this.#emptied(segment);
    return false;
  }

  /** Records of other processes were never counted as pending here. */
  #restore(json: string, { foreign, since }: Segment): PendingRecord {
    return this.blocks.restore(json, foreign ? 0n : (readRecordCost(json)?.cost ?? 0n), since);
  }

  /** The lines of a segment's file, none where it is gone; null where the disk does not give it back now. */
  #read(segment: Segment): SpoolLine[] | null {
    const { spool, log } = this.#options;
    const file = segment.path as string;
    let lines: SpoolLine[] = [];
    try {
      lines = readLines((spool as Spool).read(file));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') {
        const text =
          'spool: a file cannot be read; it is tried again every few seconds, and its records wait';
        if (this.unreadable === 0) log.error({ file, reason: reasonOf(error) }, text);
        this.#mark(segment, true);
        return null;
      }
      log.error({ file }, 'spool: a file is gone, and its records with it');
    }
    this.#mark(segment, false);
    return lines;
  }

  /** Notes whether a segment can be read. One whose records were never counted has one at least. */
  #mark(segment: Segment, unreadable: boolean): void {
    if (segment.unreadable === unreadable) return;
    if (segment.waiting === 0) {
      segment.waiting = 1;
      this.size += 1;
    }
    this.unreadable += unreadable ? segment.waiting : -segment.waiting;
    segment.unreadable = unreadable;
  }

  /** Everything in a segment is in the database. The newest one's file is emptied and used again. */
  #emptied(segment: Segment): void {
    const { spool } = this.#options;
    segment.bytes = 0;
    if (segment === this.#segments.at(-1) && segment.file !== null) {
      segment.memory = [];
      if (this.#attempt(() => segment.file?.truncate(0))) return;
    }
    this.#closeFile(segment);
    this.#segments.splice(this.#segments.indexOf(segment), 1);
    const { path } = segment;
    if (path !== null) this.#attempt(() => spool?.discard(path));
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
  return segment.waiting > 0 || segment.damaged.length > 0;
}

function isReadable(segment: Segment): boolean {
  return isWaiting(segment) && !segment.unreadable;
}
