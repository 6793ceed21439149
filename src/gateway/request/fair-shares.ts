import { fairLevel } from '../../domain/fair-share.ts';

/** The part of past work that still counts after each sample: half is left after three. */
const KEPT = 0.8;
/** A company with less work than this is forgotten. */
const LEAST_WORK = 0.01;
/** Bytes of a request body that cost about as much as a request without one, where it is one long text. */
const WORK_BYTES = 65_536;
/** The same of a packet of a stream: its events are read one by one. */
const PACKET_BYTES = 16_384;
/** Milliseconds that a request without a large body takes. */
const WORK_MS = 0.05;
/** By what part of itself the capacity changes with a sample. Down faster than up: late events harm all companies. */
const STEP_DOWN = 0.3;
const STEP_UP = 0.07;
/** The least capacity, as a part of the most work there ever was: some work has to show when an overload is over. */
const LEAST_CAPACITY = 0.05;
/** The least that counts as the most work: with far less in a sample, a late event loop has other causes. */
const COMMON_WORK = 400;
/** The overload is over when the capacity is this many times the most work. */
const ENOUGH = 2;

/** What one company uses of the gateway. */
export interface CompanyLoad {
  /** Requests in flight. */
  inFlight: number;
  /**
   * Work of the last moment, in requests of some 50 µs: 64 KiB of a request body count as one more, unless reading it
   * took longer, and so does each packet of a stream, and each 16 KiB of a large one. Refused requests count too: the company would use as much.
   */
  work: number;
}

/** Adds the work of reading bytes. */
export function addWork(load: CompanyLoad, bytes: number): void {
  load.work += bytes / WORK_BYTES;
}

/** Adds the work of a packet of a stream. */
export function addPacket(load: CompanyLoad, bytes: number): void {
  load.work += bytes > PACKET_BYTES ? bytes / PACKET_BYTES : 1;
}

/**
 * Adds what reading a body took beyond what its bytes counted as: 88 KB of 3,000 short messages take ten times as long
 * as one text.
 * @param ms in all
 */
export function addTime(load: CompanyLoad, ms: number, bytes: number): void {
  load.work += Math.max(0, ms / WORK_MS - 1 - bytes / WORK_BYTES);
}

/** The loads of all companies during an overload, and the level above which their requests are refused. */
export class FairShares {
  /** The load of requests whose company was not looked for. */
  readonly unattributed: CompanyLoad = { inFlight: 0, work: 0 };
  readonly #loads = new Map<string, CompanyLoad>();
  #counts = false;
  /** The number of samples that the work comes from; older ones count less. */
  #span = 0;
  /** All work of earlier samples that still counts. */
  #past = 0;
  /** The work that can be done in a sample, as far as is known; Infinity: there is no overload. */
  #capacity = Number.POSITIVE_INFINITY;
  /** The most work that one sample let in. */
  #most = COMMON_WORK;
  /** The mean work of the companies in the last sample. */
  #mean = Number.POSITIVE_INFINITY;
  /** The most work of a company of which nothing is refused. */
  #level = Number.POSITIVE_INFINITY;

  /** Whether there is, or was a moment ago, more work than can be done. */
  get short(): boolean {
    return this.#capacity < Number.POSITIVE_INFINITY;
  }

  /** Whether a company asks for more than others do, on average; alone it does not. */
  isAboveMean({ work }: CompanyLoad): boolean {
    return this.#loads.size > 1 && work > this.#mean;
  }

  /**
   * Adds the work of one more request to the load of its company.
   * @param bodyBytes -1 where they are not announced
   */
  addRequest(company: string, bodyBytes: number): CompanyLoad {
    let load = this.#loads.get(company);
    if (load === undefined) {
      load = { inFlight: 0, work: 0 };
      this.#loads.set(company, load);
    }
    load.work++;
    if (bodyBytes > 0) addWork(load, bodyBytes);
    return load;
  }

  /** The share of a company's requests to refuse: 0 for all that use no more than their fair share. */
  refusedShare({ work }: CompanyLoad): number {
    return work > this.#level ? 1 - this.#level / work : 0;
  }

  /**
   * Finds the capacity and the fair level of it, and lets work age.
   * @param excess how much too late the event loop is, as a part of the delay that it may have; negative: in time
   * @param memoryExcess the share of all work to refuse for want of memory
   * @param samples how long the sample was; 1 where the event loop was in time
   */
  sample(excess: number, memoryExcess: number, samples: number): void {
    if (!this.#counts) {
      this.#counts = true; // from now on
      return;
    }
    const works = Float64Array.from(
      [this.unattributed, ...this.#loads.values()],
      ({ work }) => work,
    );
    const all = works.reduce((sum, work) => sum + work, 0);
    this.#mean = all / this.#loads.size;
    this.#span += samples;
    this.#adapt(excess, (all - this.#past) / samples);
    // before the work ages, so that a company that goes on at the same rate stays on its side of the level
    const bearable = memoryExcess > 0 ? (1 - memoryExcess) * all : Number.POSITIVE_INFINITY;
    const capacity = Math.min(this.#capacity * this.#span, bearable);
    this.#level = capacity < all ? fairLevel(works, capacity) : Number.POSITIVE_INFINITY;
    this.#span *= KEPT;
    this.#past = all * KEPT;
    this.unattributed.work *= KEPT;
    for (const [company, load] of this.#loads) {
      load.work *= KEPT;
      if (load.work < LEAST_WORK && load.inFlight === 0) this.#loads.delete(company);
    }
  }

  /** Forgets all work: the overload is over. Requests in flight still count for their company in the next one. */
  rest(): void {
    this.#counts = false;
    this.#span = this.#past = this.unattributed.work = 0;
    this.#mean = Number.POSITIVE_INFINITY;
    for (const [company, load] of this.#loads) {
      load.work = 0;
      if (load.inFlight === 0) this.#loads.delete(company);
    }
  }

  /**
   * At first the capacity is a part of the work that is asked for. Later it does not follow that work: clients that
   * wait for their refusal ask for less meanwhile, and a capacity that fell with it would refuse others.
   * @param recent work of the last sample
   */
  #adapt(excess: number, recent: number): void {
    if (!this.short) this.#most = Math.max(this.#most, recent);
    const begun = this.short ? Math.min(this.#capacity, this.#most) : recent;
    if (excess > 0) this.#capacity = begun * (1 - STEP_DOWN * Math.min(excess, 1));
    else this.#capacity *= 1 + STEP_UP;
    this.#capacity = Math.max(this.#capacity, LEAST_CAPACITY * this.#most);
    if (this.#capacity > ENOUGH * this.#most) this.#capacity = Number.POSITIVE_INFINITY;
  }
}
