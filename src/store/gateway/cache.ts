import { isDeepStrictEqual } from 'node:util';
import { LRUCache } from 'lru-cache';

const CONCURRENT_READS = 2;
const MAX_PER_READ = 500;
const MAX_READINGS = 3; // how often a subject is read that changes during each reading
const MAX_ABSENT = 10_000;
const RETRY_MS = 1000; // how long values in doubt serve after a read failed or was slow
const PATIENCE_MS = 250; // how long a read may delay a caller who could have the old value

const NOTHING: ReadonlySet<string> = new Set();

/** Reads several subjects at once; those that do not exist are absent from the answer. */
type ReadMany<T> = (ids: readonly string[]) => Promise<ReadonlyMap<string, T>>;

interface CacheOptions<T> {
  readonly max: number;
  /** The most that all entries together may weigh, and the weight of one; for values without a natural bound. */
  readonly maxWeight?: number;
  readonly weigh?: (value: T) => number;
  /** Milliseconds for which an absence is remembered: below one second, so that a new thing works within one second. */
  readonly absenceMs?: number;
  /** The part by which two values of a subject are compared. Default: the whole value. */
  readonly facts?: (value: T) => unknown;
  /** The owner of a subject. Beyond `max`, an owner with more than an equal part displaces its own subjects; others displace the least recently used. */
  readonly ownerOf?: (id: string) => string;
  /** The name by which a value is known to `dropNamed`. */
  readonly nameOf?: (value: T) => string;
}

interface Entry<T> {
  value: T;
  readonly epoch: number;
}

/** A read of one subject that is under way; all requests for the subject wait for it. */
interface Load<T> extends PromiseWithResolvers<T | null> {
  readonly id: string;
  readings: number;
  /** A change arrived after the current reading began, so the reading may return the old value. */
  outdated: boolean;
  /** The callers that waited got the value in doubt; the reading goes on. */
  answered: boolean;
}

/**
 * A bounded cache that is told of every change, so its entries do not expire, not even in a database outage.
 * Subjects missed while reads are running are read together. The least recently used are evicted.
 */
export class Cache<T extends object> {
  /** Counters for metrics. */
  hits = 0;
  misses = 0;
  reads = 0;

  readonly #read: ReadMany<T>;
  readonly #options: CacheOptions<T>;
  #entries: LRUCache<string, Entry<T>>;
  readonly #absent: LRUCache<string, true>;
  /** Subjects by owner, in the order in which they came. */
  #owned = new Map<string, Set<string>>();
  /** Subjects by the name of their value. */
  #named = new Map<string, string>();
  readonly #loads = new Map<string, Load<T>>();
  #waiting: Load<T>[] = [];
  #running = 0;
  /** Entries of an earlier epoch are in doubt. */
  #epoch = 0;
  #retryAt = 0;

  constructor(read: ReadMany<T>, options: CacheOptions<T>) {
    this.#read = read;
    this.#options = options;
    this.#entries = this.#newEntries();
    const { absenceMs = 500 } = options;
    this.#absent = new LRUCache({ maxSize: MAX_ABSENT, sizeCalculation: () => 1, ttl: absenceMs });
  }

  #newEntries(): LRUCache<string, Entry<T>> {
    const { max, maxWeight, weigh, ownerOf, nameOf } = this.#options;
    const weighed = maxWeight !== undefined && weigh !== undefined;
    const dispose = ({ value }: Entry<T>, id: string): void => {
      if (ownerOf !== undefined) this.#disown(ownerOf(id), id);
      const name = nameOf?.(value);
      if (name !== undefined && this.#named.get(name) === id) this.#named.delete(name);
    };
    return new LRUCache<string, Entry<T>>({
      ...(ownerOf === undefined && nameOf === undefined ? {} : { dispose }),
      // with `max` alone the library would allocate a full cache at once
      ...(weighed
        ? { max, maxSize: maxWeight, sizeCalculation: ({ value }) => weigh(value) }
        : { maxSize: max, sizeCalculation: () => 1 }),
    });
  }

  get size(): number {
    return this.#entries.size;
  }

  /** The value, null when it does not exist; a promise only when it has to be read. Rejects as the read did. */
  get(id: string): T | null | Promise<T | null> {
    const entry = this.#entries.get(id);
    if (entry !== undefined && (entry.epoch === this.#epoch || performance.now() < this.#retryAt)) {
      this.hits++;
      return entry.value;
    }
    if (this.#absent.has(id)) {
      this.hits++;
      return null;
    }
    this.misses++;
    return (this.#loads.get(id) ?? this.#load(id)).promise;
  }

  /** The value in memory, perhaps outdated; else null. Does not count as use for eviction. */
  peek(id: string): T | null {
    return this.#entries.peek(id)?.value ?? null;
  }

  /** Puts a value in place of the one in memory, if there is one. */
  replace(id: string, value: T): void {
    const entry = this.#entries.peek(id);
    if (entry !== undefined) entry.value = value;
  }

  /** Forgets a subject that changed, and the reads of it that are under way. */
  drop(id: string): void {
    this.#entries.delete(id);
    this.#absent.delete(id);
    const load = this.#loads.get(id);
    if (load !== undefined) this.#outdate(load);
  }

  /** Forgets the subjects whose values have these names, and all reads under way: they may bring such a value. */
  dropNamed(names: readonly string[]): void {
    for (const name of names) {
      const id = this.#named.get(name);
      if (id !== undefined) this.#entries.delete(id);
    }
    for (const load of this.#loads.values()) this.#outdate(load);
  }

  /** Forgets everything, at once: freeing the memory is left to the collector. */
  clear(): void {
    this.#owned = new Map();
    this.#named = new Map();
    this.#entries = this.#newEntries();
    this.doubt();
    for (const load of this.#loads.values()) this.#outdate(load);
  }

  /** The subjects in memory, the one used last first. */
  get ids(): string[] {
    return [...this.#entries.keys()];
  }

  /**
   * Compares these subjects with the database, and forgets those that differ.
   * @returns how many @throws as the read does
   */
  async check(ids: readonly string[]): Promise<number> {
    const before = new Map(ids.map((id) => [id, this.#entries.peek(id)]));
    const found = await this.#read(ids);
    const { facts = (value: T) => value } = this.#options;
    let outdated = 0;
    for (const [id, entry] of before) {
      if (entry === undefined || this.#entries.peek(id) !== entry) continue; // it was forgotten, or read again, meanwhile
      const value = found.get(id);
      if (value !== undefined && isDeepStrictEqual(facts(value), facts(entry.value))) continue;
      this.drop(id);
      outdated++;
    }
    return outdated;
  }

  /**
   * Changes may have been missed: every entry is read again before it is used. While it cannot be read quickly, the old
   * value serves, so that calls are not refused in an outage.
   */
  doubt(): void {
    this.#epoch++;
    this.#retryAt = 0;
    this.#absent.clear();
    for (const load of this.#loads.values()) load.outdated = true;
  }

  /** The subject changed: questions from now on are not answered with the old value. */
  #outdate(load: Load<T>): void {
    load.outdated = true;
    if (load.answered) this.#loads.delete(load.id);
  }

  #load(id: string): Load<T> {
    const load = {
      id,
      ...Promise.withResolvers<T | null>(),
      readings: 0,
      outdated: false,
      answered: false,
    };
    this.#loads.set(id, load);
    this.#waiting.push(load);
    this.#readWaiting();
    if (this.#entries.peek(id) !== undefined) this.#limitWait(load);
    return load;
  }

  /** Answers with the value in doubt if the reading takes long; the reading goes on. */
  #limitWait(load: Load<T>): void {
    const timer = setTimeout(() => {
      const doubted = this.#entries.peek(load.id); // absent if it is known to have changed meanwhile
      if (doubted === undefined) return;
      this.#retryAt = performance.now() + RETRY_MS;
      load.answered = true;
      load.resolve(doubted.value);
    }, PATIENCE_MS);
    load.promise.catch(() => {}).finally(() => clearTimeout(timer));
  }

  #readWaiting(): void {
    while (this.#running < CONCURRENT_READS && this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, MAX_PER_READ);
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
      load.outdated = false;
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
    if (this.#loads.get(load.id) !== load) return; // nobody waits for it: see #outdate
    // the last reading is an answer even if it is outdated, so that frequent changes starve nobody; it is not kept
    if (load.outdated && load.readings < MAX_READINGS) {
      this.#waiting.push(load);
      return;
    }
    this.#loads.delete(load.id);
    this.#entries.delete(load.id);
    if (!load.outdated) {
      if (value === null) this.#absent.set(load.id, true);
      else this.#keep(load.id, value);
    }
    load.resolve(value);
  }

  #keep(id: string, value: T): void {
    const { max, ownerOf, nameOf } = this.#options;
    if (ownerOf !== undefined) {
      const owner = ownerOf(id);
      const [oldest] = this.#owned.get(owner) ?? NOTHING;
      const own = this.#owned.get(owner)?.size ?? 0;
      if (oldest !== undefined && this.#entries.size >= max && own > max / this.#owned.size)
        this.#entries.delete(oldest);
      const owned = this.#owned.get(owner) ?? new Set();
      this.#owned.set(owner, owned.add(id));
    }
    if (nameOf !== undefined) this.#named.set(nameOf(value), id);
    this.#entries.set(id, { value, epoch: this.#epoch }); // not kept when it weighs too much
  }

  #disown(owner: string, id: string): void {
    const owned = this.#owned.get(owner);
    owned?.delete(id);
    if (owned?.size === 0) this.#owned.delete(owner);
  }

  #fail(load: Load<T>, error: unknown): void {
    if (this.#loads.get(load.id) !== load) return;
    this.#loads.delete(load.id);
    const doubted = this.#entries.peek(load.id);
    if (doubted === undefined) load.reject(error);
    else load.resolve(doubted.value);
  }
}
