import { GatewayError } from '../domain/errors.ts';
import { mayTakePlace } from '../domain/fair-share.ts';
import type { Payer } from '../domain/key.ts';
import type { Calls, LedgerStore, WantedCall } from '../domain/ports.ts';
import type { BookedCall } from '../domain/usage.ts';
import type { ReaderOptions } from './reader-options.ts';

const PAUSE_MS = 50; // between two looks
const PATIENCE_MS = 1000; // a record is in the database some 200 ms after its call, whichever gateway booked it
const MAX_WAITING = 200; // calls looked for in one statement
const MAX_OF_KEY = 10;

interface CallReaderOptions extends Pick<ReaderOptions, 'timing' | 'isAvailable'> {
  readonly store: Pick<LedgerStore, 'calls'>;
}

interface Waiting extends WantedCall {
  /** When it was asked for, in milliseconds of `uptime`. */
  readonly since: number;
  readonly promise: Promise<BookedCall | null>;
  readonly resolve: (call: BookedCall | null) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Finds the ledger rows of single calls: all that are asked for in one statement, twenty times a second at most. A row
 * that is not there is looked for again for a second, because its record may still wait in a gateway.
 */
export class CallReader implements Calls {
  readonly #options: CallReaderOptions;
  #waiting: Waiting[] = [];
  #running = false;

  constructor(options: CallReaderOptions) {
    this.#options = options;
  }

  find(payer: Payer, requestId: string, months: readonly string[]): Promise<BookedCall | null> {
    const { timing, isAvailable } = this.#options;
    const ofKey = this.#waiting.filter((waiting) => waiting.payer.id === payer.id);
    const same = ofKey.find((waiting) => waiting.requestId === requestId);
    if (same !== undefined) return same.promise;
    const ofCompany = this.#waiting.filter(
      (waiting) => waiting.payer.companyId === payer.companyId,
    ).length;
    const { promise, resolve, reject } = Promise.withResolvers<BookedCall | null>();
    if (ofKey.length >= MAX_OF_KEY) reject(new GatewayError('rate_limit_exceeded', TOO_MANY));
    else if (!isAvailable() || !mayTakePlace(ofCompany, this.#waiting.length, MAX_WAITING))
      reject(new GatewayError('service_unavailable'));
    else {
      this.#waiting.push({
        payer,
        requestId,
        months,
        since: timing.uptime(),
        promise,
        resolve,
        reject,
      });
      if (!this.#running) void this.#run();
    }
    return promise;
  }

  /** Looks until nobody waits. */
  async #run(): Promise<void> {
    this.#running = true;
    while (this.#waiting.length > 0) {
      await this.#look([...this.#waiting]);
      await new Promise<void>((resolve) => void this.#options.timing.after(PAUSE_MS, resolve));
    }
    this.#running = false;
  }

  async #look(wanted: readonly Waiting[]): Promise<void> {
    const { store, timing } = this.#options;
    const settled = new Set<Waiting>();
    try {
      const found = await store.calls(wanted);
      for (const waiting of wanted) {
        const { payer, requestId, since, resolve } = waiting;
        const call =
          found.find((one) => one.requestId === requestId && one.keyId === payer.id) ?? null;
        if (call === null && timing.uptime() - since < PATIENCE_MS) continue;
        settled.add(waiting);
        resolve(call);
      }
    } catch (error) {
      const isAway = (error as { unavailable?: boolean }).unavailable === true;
      for (const waiting of wanted) {
        settled.add(waiting);
        waiting.reject(isAway ? new GatewayError('service_unavailable') : error);
      }
    }
    this.#waiting = this.#waiting.filter((waiting) => !settled.has(waiting));
  }
}

const TOO_MANY = `This key asks for more than ${MAX_OF_KEY} requests at once. Try again later.`;
