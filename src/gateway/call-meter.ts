import type { ServerResponse } from 'node:http';
import type { Company } from '../domain/company.ts';
import type { Generated } from '../domain/estimate.ts';
import type { BookingWaiter } from '../domain/ports.ts';
import { keepPrompt, type Prompt } from '../domain/prompt.ts';
import { scrub } from '../domain/redact.ts';
import { type Admission, type Outcome, type Tokens, usageRecord } from '../domain/usage.ts';
import type { Metrics } from '../metrics.ts';
import type { Deadline, Watch } from './deadlines.ts';
import type { Services } from './services.ts';
import type { Slabs } from './stream-writer.ts';

/**
 * What one admitted call comes to: its ledger record and its metrics. Settled
 * exactly once, by whoever handles the answer.
 */
export class CallMeter {
  readonly admission: Admission;
  readonly #services: Services;
  readonly #company: Company;
  readonly #prompt: Prompt;
  /** What was booked; null while or when nothing was. */
  tokens: Tokens | null = null;
  outcome: Outcome | null = null;

  /** @param sent what goes upstream: an error may repeat it, which no log may hold, and an estimate needs it */
  constructor(services: Services, admission: Admission, company: Company, sent: readonly Buffer[]) {
    this.#services = services;
    this.admission = admission;
    this.#company = company;
    this.#prompt = keepPrompt(sent);
  }

  /** What was sent is looked at until it is settled. */
  get keepsSent(): boolean {
    return this.#prompt.kept !== 'sampled';
  }

  get maxEventBytes(): number {
    return this.#services.maxEventBytes;
  }

  get metrics(): Metrics {
    return this.#services.metrics;
  }

  get slabs(): Slabs {
    return this.#services.slabs;
  }

  /** What an answer to a client must not hold besides what redact finds by its form. */
  get secrets(): readonly string[] {
    const { ownModels, sharedModels } = this.#company;
    // after a fallback a router names models that were not asked for
    const names = [...ownModels.values(), ...sharedModels.values()].map(({ upstream }) => upstream);
    return [...this.#services.upstream.secrets, ...names.filter((name) => name !== this.admission.model.upstream)];
  }

  /** Watches the answer's deadlines until the response closes. */
  watch(res: ServerResponse, onDeadline: (deadline: Deadline) => void): Watch {
    return this.#services.deadlines.watch(res, onDeadline);
  }

  /** Tells the operator why the upstream failed, in its own words but without prompts and keys. */
  upstreamFailed(reason: string): void {
    const { requestId, model } = this.admission;
    const { kept, pieces } = this.#prompt; // of a longer request nothing that the upstream says is logged
    // the internal name went along, and may be told
    const prompt =
      kept === 'short' ? Buffer.concat(pieces).toString().replace(JSON.stringify(model.upstream), '') : null;
    this.#services.log.warn(
      { request_id: requestId, reason: scrub(reason, this.#services.upstream.keys, prompt) },
      'upstream failed',
    );
  }

  /**
   * Books the call. A call that failed before any usage was known leaves no row; one that
   * ran without telling its usage is estimated and marked so.
   * @param usage as the upstream told it, even if it is zero, or null
   * @param waiter told once when the end of the answer may leave; perhaps before this returns
   */
  settle(outcome: Outcome, usage: Tokens | null, generated: Generated, waiter: BookingWaiter | null): void {
    this.outcome = outcome;
    if (usage === null && outcome === 'upstream_failed') {
      this.#services.ledger.release(this.admission.requestId);
      return waiter?.onBooked();
    }
    const { estimator, metrics, ledger } = this.#services;
    const { upstream } = this.admission.model;
    if (usage !== null && outcome === 'completed')
      estimator.learn(upstream, this.admission.at, this.#prompt, generated, usage);
    this.tokens = usage ?? estimator.estimate(upstream, this.#prompt, generated);
    const record = usageRecord(this.admission, this.tokens, usage === null ? 'estimated' : 'upstream', outcome);
    metrics.booked(record);
    ledger.book(record, waiter);
  }

  /** Nothing was sent upstream: there is nothing to book. */
  drop(): void {
    this.#services.ledger.release(this.admission.requestId);
  }
}
