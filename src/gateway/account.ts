import type { BookingWaiter } from '../domain/ports.ts';
import { type Admission, type Outcome, type Tokens, usageRecord } from '../domain/usage.ts';
import type { Logger } from '../log.ts';
import type { Services } from './services.ts';

/**
 * What one admitted call comes to: its ledger record, its metrics, its times. Settled
 * exactly once, by whoever handles the answer.
 */
export class Account {
  readonly log: Logger;
  readonly admission: Admission;
  readonly #services: Services;
  readonly #promptBytes: number;
  /** What was booked; null while or when nothing was. */
  tokens: Tokens | null = null;
  outcome: Outcome | null = null;
  /** Milliseconds from admission to the first byte sent to the client; -1 before. */
  firstByteMs = -1;

  /** @param promptBytes size of the prompt, for an estimate should the upstream tell no usage */
  constructor(services: Services, admission: Admission, promptBytes: number) {
    this.#services = services;
    this.admission = admission;
    this.log = services.log;
    this.#promptBytes = promptBytes;
  }

  firstByte(): void {
    if (this.firstByteMs < 0) this.firstByteMs = this.#services.clock() - this.admission.at;
  }

  /**
   * Books the call. A call that failed before any usage was known leaves no row; one that
   * ran without telling its usage is estimated and marked so.
   * @param usage as the upstream told it, even if it is zero, or null
   * @param events data events seen, 0 where the answer is not streamed
   * @param generatedBytes generated text seen
   * @param waiter told once when the end of the answer may leave; perhaps before this returns
   */
  settle(
    outcome: Outcome,
    usage: Tokens | null,
    events: number,
    generatedBytes: number,
    waiter: BookingWaiter | null,
  ): void {
    this.outcome = outcome;
    if (usage === null && outcome === 'upstream_failed') {
      this.#services.ledger.release(this.admission.requestId);
      return waiter?.onBooked();
    }
    const { estimator, metrics, ledger } = this.#services;
    const { upstream } = this.admission.model;
    const seen = { promptBytes: this.#promptBytes, events, generatedBytes };
    if (usage !== null && outcome === 'completed') estimator.learn(upstream, seen, usage);
    this.tokens = usage ?? estimator.estimate(upstream, seen);
    const record = usageRecord(this.admission, this.tokens, usage === null ? 'estimated' : 'upstream', outcome);
    metrics.booked(record);
    ledger.book(record, waiter);
  }

  /** Nothing was sent upstream: there is nothing to book. */
  drop(): void {
    this.#services.ledger.release(this.admission.requestId);
  }
}
