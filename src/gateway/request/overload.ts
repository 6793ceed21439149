import { monitorEventLoopDelay, performance } from 'node:perf_hooks';
import { mayTakePlace } from '../../domain/fair-share.ts';
import { IdleInterval } from '../../runtime/idle-interval.ts';
import { heapShare, residentBytes } from '../../runtime/memory.ts';
import { type CompanyLoad, FairShares } from './fair-shares.ts';

const SAMPLE_MS = 100;
/** Requests after which a sample is taken too: with more than 1024 busy connections libuv may run no timer for seconds. */
const SAMPLE_REQUESTS = 64;
/** Samples for which memory is read once: asking the system for it takes as long as three requests. */
const MEMORY_SAMPLES = 5;
const RESOLUTION_MS = 25;
/** Share of V8's own limit beyond which the process would soon die. */
const MAX_HEAP = 0.9;
/** Beyond this part of its memory limit, the gateway refuses a growing share of requests. */
const MEMORY_ROOM = 15 / 16;
/**
 * Share of MAX_REQUESTS still served while memory is full. malloc may never return a rush's memory to the system, so
 * refusing everything would not lower it, and new requests reuse it.
 */
const FEW = 1 / 64;
/**
 * Target delay while requests are refused, as a part of MAX_DELAY_MS. A request waits for the event loop several
 * times, so its whole wait is a multiple of the delay.
 */
const HELD_DELAY = 1 / 5;
/** Beyond this part of MAX_DELAY_MS requests of companies that ask for more than others wait for their turn. */
const BUSY_DELAY = 1 / 100;
/** Beyond this part of MAX_REQUESTS requests are counted by company. */
const COUNTED = 1 / 8;
/** Samples after an overload in which requests are still counted by company: a load that swings soon comes back. */
const CALM_SAMPLES = 50;

type ShedReason = keyof Overload['refused'];

/** What the gateway takes on before it refuses requests. */
interface LoadLimits {
  /** Requests in flight at once. */
  readonly maxRequests: number;
  /** Mean event-loop delay in milliseconds. */
  readonly maxDelayMs: number;
  /** Resident memory in bytes. */
  readonly maxMemoryBytes: number;
}

/**
 * Refuses new requests with 503, before their bodies are read, where they would harm those in flight. While the event
 * loop is late or memory short, it refuses a part of those of companies above their fair share: the part grows and
 * shrinks, so that the load does not swing. It refuses all requests when no place or no memory is left.
 */
export class Overload {
  /** Requests refused so far, by the resource that was short. */
  readonly refused = { requests: 0, memory: 0, delay: 0 };
  readonly #limits: LoadLimits;
  readonly #now: () => number;
  /** null before the first request, because it takes 370 KB. */
  #loop: ReturnType<typeof monitorEventLoopDelay> | null = null;
  readonly #interval = new IdleInterval(
    SAMPLE_MS,
    () => this.#tick(),
    () => this.#loop?.disable(),
  );
  readonly #shares = new FairShares();
  #inFlight = 0;
  /** A request came since the last sample. */
  #hadRequest = false;
  #delayMs = 0;
  #samples = 0;
  #sampledAt = 0;
  #tickedAt = 0;
  #entered = 0;
  #memory = 0;
  #heap = 0;
  /** The share of all work to refuse for want of memory: 1 where it is full. */
  #memoryExcess = 0;
  /** Samples since the load was last at a limit, or near one. */
  #calm = CALM_SAMPLES;
  /** Sum of the shares to refuse since the last refusal; at 1 the next request is refused. */
  #refusalDue = 0;

  /** @param now monotonic milliseconds */
  constructor(limits: LoadLimits, now = () => performance.now()) {
    this.#limits = limits;
    this.#now = now;
  }

  get inFlight(): number {
    return this.#inFlight;
  }
  get delayMs(): number {
    return this.#delayMs;
  }

  /** Whether all the memory is taken: large bodies are refused then. */
  get isFull(): boolean {
    return this.#memoryExcess === 1;
  }

  /** Whether `enter` needs the company that sends a request: the load is near a limit, or was a moment ago. */
  get needsCompany(): boolean {
    return (
      (this.#calm < CALM_SAMPLES || this.#inFlight >= COUNTED * this.#limits.maxRequests) &&
      this.#shortage() === null
    );
  }

  /**
   * @param company that sends the request; null where it was not looked for
   * @param bodyBytes of the request; -1 where they are not announced
   * @returns null when the request is to be refused; else what `leave` takes when it is over
   */
  enter(company: string | null, bodyBytes = -1): CompanyLoad | null {
    this.#hadRequest = true;
    if (this.#interval.resting) this.#begin();
    if (++this.#entered % SAMPLE_REQUESTS === 0) this.#sampleIfOverdue();
    const load =
      company === null ? this.#shares.unattributed : this.#shares.addRequest(company, bodyBytes);
    const reason = this.#shortage() ?? (company === null ? null : this.#excess(load));
    if (reason !== null) {
      this.refused[reason]++;
      return null;
    }
    this.#inFlight++;
    load.inFlight++;
    return load;
  }

  /** Whether a request of this company waits for others: the gateway is busy, and the company asks for more than most. */
  delays(load: CompanyLoad): boolean {
    return this.#calm < CALM_SAMPLES && this.#shares.isAboveMean(load);
  }

  leave(load: CompanyLoad): void {
    this.#inFlight--;
    load.inFlight--;
  }

  /**
   * Takes in the state of the process.
   * @param delayMs mean event-loop delay since the last call
   * @param memory resident bytes
   * @param heap share of V8's limit in use
   * @param ms since the last call
   */
  observe(delayMs: number, memory: number, heap: number, ms = SAMPLE_MS): void {
    const { maxRequests, maxDelayMs, maxMemoryBytes } = this.#limits;
    const full = Math.max(memory / maxMemoryBytes, heap / MAX_HEAP);
    this.#memoryExcess = Math.min(1, Math.max(0, (full - MEMORY_ROOM) / (1 - MEMORY_ROOM)));
    this.#delayMs = (this.#delayMs + delayMs) / 2; // one pause is no overload
    const excess = this.#delayMs / (this.#shares.short ? HELD_DELAY * maxDelayMs : maxDelayMs) - 1;
    const isBusy = this.#delayMs > BUSY_DELAY * maxDelayMs;
    const isNear = isBusy || this.#memoryExcess > 0 || this.#inFlight >= COUNTED * maxRequests;
    this.#calm = isNear || this.#shares.short ? 0 : this.#calm + 1;
    const memoryExcess = this.#inFlight < FEW * maxRequests ? 0 : this.#memoryExcess;
    if (this.#calm < CALM_SAMPLES)
      this.#shares.sample(excess, memoryExcess, Math.max(1, ms / SAMPLE_MS));
    else this.#shares.rest();
  }

  close(): void {
    this.#interval.rest();
  }

  /** The resource that is used up, so that every request is refused; null: none is. */
  #shortage(): ShedReason | null {
    return this.#inFlight < this.#places ? null : this.#missing;
  }

  /** How many requests may be in flight. */
  get #places(): number {
    return (this.isFull ? FEW : 1) * this.#limits.maxRequests;
  }

  /** Why no more may be. */
  get #missing(): ShedReason {
    return this.isFull ? 'memory' : 'requests';
  }

  /** The resource for which the company's next request is refused, having used more than its fair share; null: none. */
  #excess(load: CompanyLoad): ShedReason | null {
    if (!mayTakePlace(load.inFlight, this.#inFlight, this.#places)) return this.#missing;
    const share = this.#shares.refusedShare(load);
    if (share === 0) return null;
    this.#refusalDue += share;
    if (this.#refusalDue < 1) return null;
    this.#refusalDue--;
    return this.#memoryExcess > 0 ? 'memory' : 'delay';
  }

  /** Begins to sample. Delays before the first request do not count: they harmed no request. */
  #begin(): void {
    this.#loop ??= monitorEventLoopDelay({ resolution: RESOLUTION_MS });
    this.#loop.reset();
    this.#loop.enable();
    this.#sampledAt = this.#tickedAt = this.#now();
    this.#interval.wake();
  }

  /** @returns whether sampling is to go on */
  #tick(): boolean {
    const { count = 0, mean = 0 } = this.#loop ?? {};
    this.#loop?.reset();
    const now = this.#now();
    this.#tickedAt = now;
    // the histogram measures whole intervals, so a loop at rest shows the resolution
    this.#sample(count === 0 ? 0 : Math.max(0, mean / 1e6 - RESOLUTION_MS), now);
    const busy = this.#hadRequest || this.#inFlight > 0 || this.#calm < CALM_SAMPLES;
    this.#hadRequest = false;
    return busy;
  }

  /** Takes a sample when the timer is overdue. */
  #sampleIfOverdue(): void {
    const now = this.#now();
    if (now - this.#sampledAt > 2 * SAMPLE_MS) this.#sample(now - this.#tickedAt, now);
  }

  #sample(delayMs: number, now: number): void {
    if (this.#samples++ % MEMORY_SAMPLES === 0) {
      this.#heap = heapShare();
      this.#memory = residentBytes();
    }
    this.observe(delayMs, this.#memory, this.#heap, now - this.#sampledAt);
    this.#sampledAt = now;
  }
}
