import { monitorEventLoopDelay } from 'node:perf_hooks';
import { getHeapStatistics } from 'node:v8';
import { IdleInterval } from '../runtime/idle-interval.ts';

/** What the gateway takes on before it refuses. */
export interface LoadLimits {
  /** Requests in flight at once. */
  readonly maxRequests: number;
  /** Mean event-loop delay in milliseconds. */
  readonly maxDelayMs: number;
  /** Resident memory in bytes. */
  readonly maxMemoryBytes: number;
}

const SAMPLE_MS = 100;
/** Memory is looked at less often: asking the system for it takes as long as answering three requests. */
const MEMORY_SAMPLES = 5;
const RESOLUTION_MS = 25;
/** Of V8's own limit: beyond it the process would soon die. */
const MOST_HEAP = 0.9;

/**
 * Refuses new requests before a byte of their body is read, when taking them on would
 * harm those in flight (contract section 4: 503). By number and by memory it refuses
 * whatever is too many. By event-loop delay it refuses a share that grows while the delay
 * is too long and shrinks when it is not: refusing all at once would idle the gateway, let
 * all in again, and swing.
 */
export class Overload {
  readonly #limits: LoadLimits;
  /** null before the first request: it takes 370 KB. */
  #loop: ReturnType<typeof monitorEventLoopDelay> | null = null;
  readonly #interval = new IdleInterval(
    SAMPLE_MS,
    () => this.#sample(),
    () => this.#loop?.disable(),
  );
  #inFlight = 0;
  /** A request came since the last sample. */
  #asked = false;
  #refused = 0;
  #delayMs = 0;
  #memoryFull = false;
  #samples = 0;
  #memory = 0;
  /** Of new requests, the share to refuse; and how much of a request that makes so far. */
  #share = 0;
  #owed = 0;

  constructor(limits: LoadLimits) {
    this.#limits = limits;
  }

  get inFlight(): number {
    return this.#inFlight;
  }
  get refused(): number {
    return this.#refused;
  }
  get delayMs(): number {
    return this.#delayMs;
  }

  /** @returns false when the request is to be refused; else `leave` ends it */
  enter(): boolean {
    this.#asked = true;
    if (this.#interval.resting) this.#watch();
    if (this.#inFlight >= this.#limits.maxRequests || this.#memoryFull || (this.#share > 0 && this.#drop())) {
      this.#refused++;
      return false;
    }
    this.#inFlight++;
    return true;
  }

  leave(): void {
    this.#inFlight--;
  }

  /**
   * Takes in how the process is doing.
   * @param delayMs mean event-loop delay since the last time
   * @param memory resident bytes
   * @param heap share of V8's limit in use
   */
  observe(delayMs: number, memory: number, heap: number): void {
    const { maxDelayMs, maxMemoryBytes } = this.#limits;
    this.#memoryFull = memory > maxMemoryBytes || heap > MOST_HEAP;
    this.#delayMs = (this.#delayMs + delayMs) / 2; // one pause is no overload
    const excess = this.#delayMs / maxDelayMs - 1;
    this.#share = excess > 0 ? Math.min(MOST_REFUSED, this.#share + STEP * Math.min(excess, 1)) : this.#share - STEP;
    if (this.#share < 0) this.#share = 0;
  }

  close(): void {
    this.#interval.rest();
  }

  #drop(): boolean {
    this.#owed += this.#share;
    if (this.#owed < 1) return false;
    this.#owed--;
    return true;
  }

  /** Begins to sample: whatever held up the loop while nobody asked harmed no request. */
  #watch(): void {
    this.#loop ??= monitorEventLoopDelay({ resolution: RESOLUTION_MS });
    this.#loop.reset();
    this.#loop.enable();
    this.#interval.wake();
  }

  /** @returns whether sampling is to go on */
  #sample(): boolean {
    const { count = 0, mean = 0 } = this.#loop ?? {};
    this.#loop?.reset();
    const heap = getHeapStatistics();
    // it measures whole intervals, so a loop at rest reads as the resolution
    const delay = count === 0 ? 0 : Math.max(0, mean / 1e6 - RESOLUTION_MS);
    if (this.#samples++ % MEMORY_SAMPLES === 0) this.#memory = residentBytes();
    this.observe(delay, this.#memory, heap.used_heap_size / heap.heap_size_limit);
    const busy = this.#asked || this.#inFlight > 0 || this.#share > 0 || this.#memoryFull;
    this.#asked = false;
    return busy;
  }
}

const MOST_REFUSED = 0.95; // some always get in: who waits learns that it is over
const STEP = 0.1;

/** 0 where the system does not tell. */
function residentBytes(): number {
  try {
    return process.memoryUsage.rss();
  } catch {
    return 0; // there is no /proc
  }
}
