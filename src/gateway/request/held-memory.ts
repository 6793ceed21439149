import { mayTakePlace } from '../../domain/fair-share.ts';

/** Bodies and answers up to this size are not counted: the requests in flight bound them. */
export const SMALL_BYTES = 65_536;

/**
 * Bytes of large bodies and answers that requests hold, by company. Clients decide how long: whoever sends or reads
 * slowly holds them for minutes. Without a bound for each company, one of them could fill the memory, and the gateway
 * would refuse all of them.
 */
export class HeldMemory {
  /** Counter for metrics: requests refused. */
  refused = 0;
  readonly #most: number;
  readonly #byCompany = new Map<string, number>();
  #all = 0;

  /** @param most bytes that all companies may hold together */
  constructor(most: number) {
    this.#most = most;
  }

  /** Bytes that are held now. */
  get all(): number {
    return this.#all;
  }

  /** Takes bytes for a company. @returns false where it would hold more than its share */
  take(company: string, bytes: number): boolean {
    const own = (this.#byCompany.get(company) ?? 0) + bytes;
    if (!mayTakePlace(own, this.#all + bytes, this.#most)) {
      this.refused++;
      return false;
    }
    this.#byCompany.set(company, own);
    this.#all += bytes;
    return true;
  }

  give(company: string, bytes: number): void {
    const own = (this.#byCompany.get(company) ?? 0) - bytes;
    if (own > 0) this.#byCompany.set(company, own);
    else this.#byCompany.delete(company);
    this.#all -= bytes;
  }
}

/** The memory that one request holds for a large body or answer. */
export class RequestMemory {
  readonly #memory: HeldMemory;
  readonly #company: string;
  #bytes = 0;

  constructor(memory: HeldMemory, company: string) {
    this.#memory = memory;
    this.#company = company;
  }

  /** @returns false where the company would hold more than its share */
  take(bytes: number): boolean {
    if (!this.#memory.take(this.#company, bytes)) return false;
    this.#bytes += bytes;
    return true;
  }

  /** Holds so many bytes in place of what was taken, even where that is more than its share: what ran is not refused. */
  hold(bytes: number): void {
    this.#memory.give(this.#company, this.#bytes - bytes);
    this.#bytes = bytes;
  }

  /** Gives back all that was taken. It may take again. */
  end(): void {
    if (this.#bytes > 0) this.#memory.give(this.#company, this.#bytes);
    this.#bytes = 0;
  }
}
