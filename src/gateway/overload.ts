import { monitorEventLoopDelay } from 'node:perf_hooks';
import { getHeapStatistics } from 'node:v8';
import { IdleInterval } from '../runtime/idle-interval.ts';

const SAMPLE_MS = 100;
/** Memory is read every so many samples: asking the system for it takes as long as three requests. */
const MEMORY_SAMPLES = 5;
const RESOLUTION_MS = 25;
/** Share of V8's own limit beyond which the process would soon die. */
const MAX_HEAP = 0.9;
/** The largest share of requests that is refused for delay: those that get in learn when it is over. */
const MAX_SHARE = 0.95;
/** How much that share changes with a sample. */
const STEP = 0.1;

/** What the gateway takes on before it refuses requests. */
export interface LoadLimits {
  /** Requests in flight at once. */
  readonly maxRequests: number;
  /** Mean event-loop delay in milliseconds. */
  readonly maxDelayMs: number;
  /** Resident memory in bytes. */
  readonly maxMemoryBytes: number;
}

/**
 * Refuses new requests before their bodies are read, where they would harm those in flight (contract section 4:
 * 503). By number and by memory it refuses all that is too much; by event-loop delay a share that grows and
 * shrinks with the delay, because refusing all at once would make the load swing.
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
  /** The share of new requests to refuse, and the part of a request it has added up to. */
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
    if (this.#interval.resting) this.#begin();
    if (this.#inFlight >= this.#limits.maxRequests || this.#memoryFull || (this.#share > 0 && this.#isDue())) {
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
   * Takes in the state of the process.
   * @param delayMs mean event-loop delay since the last call
   * @param memory resident bytes
   * @param heap share of V8's limit in use
   */
  observe(delayMs: number, memory: number, heap: number): void {
    const { maxDelayMs, maxMemoryBytes } = this.#limits;
    this.#memoryFull = memory > maxMemoryBytes || heap > MAX_HEAP;
    this.#delayMs = (this.#delayMs + delayMs) / 2; // one pause is no overload
    const excess = this.#delayMs / maxDelayMs - 1;
    this.#share = excess > 0 ? Math.min(MAX_SHARE, this.#share + STEP * Math.min(excess, 1)) : this.#share - STEP;
    if (this.#share < 0) this.#share = 0;
  }

  close(): void {
    this.#interval.rest();
  }

  /** Whether the next request falls into the share to refuse. */
  #isDue(): boolean {
    this.#owed += this.#share;
    if (this.#owed < 1) return false;
    this.#owed--;
    return true;
  }

  /** Begins to sample. A delay while there was no request has harmed none. */
  #begin(): void {
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
    // it measures whole intervals: a loop at rest reads as the resolution
    const delay = count === 0 ? 0 : Math.max(0, mean / 1e6 - RESOLUTION_MS);
    if (this.#samples++ % MEMORY_SAMPLES === 0) this.#memory = residentBytes();
    this.observe(delay, this.#memory, heap.used_heap_size / heap.heap_size_limit);
    const busy = this.#asked || this.#inFlight > 0 || this.#share > 0 || this.#memoryFull;
    this.#asked = false;
    return busy;
  }
}

/** 0 where the system does not tell: without /proc. */
function residentBytes(): number {
  try {
    return process.memoryUsage.rss();
  } catch {
    return 0;
  }
}
