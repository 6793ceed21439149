import { LRUCache } from 'lru-cache';

/** Reads some subjects at once; those that do not exist are absent from the answer. */
export type Read<T> = (ids: readonly string[]) => Promise<ReadonlyMap<string, T>>;

export interface CacheOptions<T> {
  /** Most entries kept. */
  readonly max: number;
  /** Most that all entries may weigh together, and what one weighs; for values without a natural bound. */
  readonly maxWeight?: number;
  readonly weigh?: (value: T) => number;
  /** Milliseconds an absence is remembered; under one second, so that what is created works within one. */
  readonly absenceMs?: number;
}

/** Reads running at once, subjects per read, and readings of a subject that changes faster than it can be read. */
const READS = 2;
const BATCH = 500;
const READINGS = 3;
const ABSENCES = 10_000;
const RETRY_MS = 1000;
/** How long a reading may keep those waiting for whom there is a value in doubt: a database that answers at all takes less. */
const PATIENCE_MS = 250;

/** What is kept of a subject. Who remembers it finds the value without looking the subject up: see `still`. */
export interface Entry<T> {
  readonly id: string;
  /** null once the subject has changed or had to make room. */
  value: T | null;
  readonly epoch: number;
}

/** One subject on its way in; everyone who asks for it meanwhile waits for this one. */
interface Load<T> {
  readonly id: string;
  readonly promise: Promise<T | null>;
  readonly resolve: (value: T | null) => void;
  readonly reject: (error: unknown) => void;
  readings: number;
  /** A change arrived after the current reading began: what it returns may be the past. */
  overtaken: boolean;
}

/**
 * A bounded cache that is told of every change, so nothing in it expires: what is known
 * stays known for as long as a database outage lasts.
 *
 * - A hit is returned as it is: no promise, no allocation.
 * - A subject is read once however many ask; subjects missed while reads are running are
 *   read together, so a flood of unknown ones costs a few queries at a time, not one each.
 * - A reading overtaken by a change is read again and never kept.
 * - The least recently used make room. Who was used is noted only once there is none: it moves
 *   an entry in a list, and touches its neighbours' memory too, all of it cold with 100,000 of them.
 */
export class Cache<T extends object> {
  /** Counters for metrics; plain fields, read only outside. */
  hits = 0;
  misses = 0;
  reads = 0;
  drops = 0;

  readonly #read: Read<T>;
  readonly #entries: LRUCache<string, Entry<T>>;
  /** Entries by a number made of their id; of two with the same number one is here. */
  readonly #near = new Map<number, Entry<T>>();
  /** As many entries are sure to have room. */
  readonly #roomy: number;
  readonly #absent: LRUCache<string, true>;
  readonly #loads = new Map<string, Load<T>>();
  #waiting: Load<T>[] = [];
  #running = 0;
  /** Entries of an earlier epoch are in doubt. */
  #epoch = 0;
  #retryAt = 0;

  constructor(read: Read<T>, options: CacheOptions<T>) {
    const { max, maxWeight, weigh, absenceMs = 500 } = options;
    this.#read = read;
    const weighed = maxWeight !== undefined && weigh !== undefined;
    this.#roomy = weighed ? 0 : max - 1;
    // `max` takes the memory of a full cache at once
    this.#entries = new LRUCache({
      ...(weighed
        ? { max, maxSize: maxWeight, sizeCalculation: ({ value }: Entry<T>) => weigh(value as T) }
        : { maxSize: max, sizeCalculation: () => 1 }),
      dispose: (entry) => {
        entry.value = null;
        const number = numberOf(entry.id);
        if (this.#near.get(number) === entry) this.#near.delete(number);
      },
    });
    this.#absent = new LRUCache({ maxSize: ABSENCES, sizeCalculation: () => 1, ttl: absenceMs });
  }

  get size(): number {
    return this.#entries.size;
  }

  /** The value, null when it does not exist; a promise only when it has to be read. Rejects as the read did. */
  get(id: string): T | null | Promise<T | null> {
    const entry = this.#entries.size <= this.#roomy ? this.#find(id) : this.#entries.get(id);
    const value = entry === undefined ? null : this.still(entry);
    if (value !== null) return value;
    if (this.#absent.has(id)) {
      this.hits++;
      return null;
    }
    this.misses++;
    return (this.#loads.get(id) ?? this.#load(id)).promise;
  }

  /** The entry a get in the same tick found, to be remembered. */
  entry(id: string): Entry<T> | null {
    return this.#find(id) ?? null;
  }

  /**
   * By number first: to look up a string that was made a moment ago V8 finds the one string that
   * is it, elsewhere in cold memory, before it looks at the map: 0.8 µs among 100,000.
   */
  #find(id: string): Entry<T> | undefined {
    const near = this.#near.get(numberOf(id));
    return near !== undefined && near.id === id ? near : this.#entries.peek(id);
  }

  /** The value of an entry, as a get would find it; null where only a get can tell. No use that counts when room is made. */
  still(entry: Entry<T>): T | null {
    if (entry.value === null) return null;
    if (entry.epoch !== this.#epoch && performance.now() >= this.#retryAt) return null;
    this.hits++;
    return entry.value;
  }

  /** A subject changed: forgets it and whatever is being read of it. */
  drop(id: string): void {
    this.drops++;
    this.#entries.delete(id);
    this.#absent.delete(id);
    const load = this.#loads.get(id);
    if (load !== undefined) load.overtaken = true;
  }

  /** Everything changed. */
  clear(): void {
    this.#entries.clear();
    this.doubt();
  }

  /**
   * Changes may have been missed. Every entry is read again before it is used, yet where it
   * cannot be read, or not at once, it still serves: doubt alone must not turn an outage into
   * refusals, nor a database that froze into seconds of waiting.
   */
  doubt(): void {
    this.drops++;
    this.#epoch++;
    this.#retryAt = 0;
    this.#absent.clear();
    for (const load of this.#loads.values()) load.overtaken = true;
  }

  #load(id: string): Load<T> {
    const load = { id, ...Promise.withResolvers<T | null>(), readings: 0, overtaken: false };
    this.#loads.set(id, load);
    this.#waiting.push(load);
    this.#readWaiting();
    if (this.#entries.peek(id) !== undefined) this.#bePatient(load);
    return load;
  }

  /** Answers with the value in doubt where the reading takes long; the reading goes on. */
  #bePatient(load: Load<T>): void {
    const timer = setTimeout(() => {
      const doubted = this.#entries.peek(load.id); // unless it is known to have changed meanwhile
      if (doubted === undefined) return;
      this.#retryAt = performance.now() + RETRY_MS;
      load.resolve(doubted.value);
    }, PATIENCE_MS);
    const stop = (): void => clearTimeout(timer);
    load.promise.then(stop, stop);
  }

  #readWaiting(): void {
    while (this.#running < READS && this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, BATCH);
      this.#running++;
      void this.#readBatch(batch).finally(() => {
        this.#running--;
        this.#readWaiting();
      });
    }
  }

  async #readBatch(batch: readonly Load<T>[]): Promise<void> {
    this.reads++;
    for (const load of batch) {
      load.readings++;
      load.overtaken = false;
    }
    let found: ReadonlyMap<string, T>;
    try {
      found = await this.#read(batch.map((load) => load.id));
    } catch (error) {
      this.#retryAt = performance.now() + RETRY_MS;
      for (const load of batch) this.#fail(load, error);
      return;
    }
    this.#retryAt = 0;
    for (const load of batch) this.#settle(load, found.get(load.id) ?? null);
  }

  #settle(load: Load<T>, value: T | null): void {
    // the last reading is answered though overtaken, so that a storm of changes starves nobody; it is not kept
    if (load.overtaken && load.readings < READINGS) {
      this.#waiting.push(load);
      return;
    }
    this.#loads.delete(load.id);
    this.#entries.delete(load.id);
    if (!load.overtaken) {
      if (value === null) this.#absent.set(load.id, true);
      else this.#keep({ id: load.id, value, epoch: this.#epoch });
    }
    load.resolve(value);
  }

  #keep(entry: Entry<T>): void {
    this.#entries.set(entry.id, entry);
    if (this.#entries.has(entry.id)) this.#near.set(numberOf(entry.id), entry); // not what weighs too much
  }

  #fail(load: Load<T>, error: unknown): void {
    this.#loads.delete(load.id);
    const doubted = this.#entries.peek(load.id);
    if (doubted === undefined) load.reject(error);
    else load.resolve(doubted.value);
  }
}

/** The first seven digits of a hexadecimal id, which are as good as random; of others something, always the same. */
function numberOf(id: string): number {
  let number = 0;
  for (let i = 0; i < 7; i++) {
    const c = id.charCodeAt(i);
    number = (number << 4) | ((c & 15) + (c > 0x39 ? 9 : 0));
  }
  return number;
}
