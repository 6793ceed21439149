import type { Company } from '../domain/company.ts';
import type { Generated } from '../domain/estimate.ts';
import { formatEur } from '../domain/money.ts';
import type { BookingListener, Hold, UpstreamFailure } from '../domain/ports.ts';
import { keepPrompt, type Prompt, roughPromptTokens } from '../domain/prompt.ts';
import { scrub } from '../domain/redact.ts';
import { type Admission, FREE_ENDPOINT, type Outcome, usageRecord } from '../domain/usage.ts';
import type { ClientResponse } from '../http/exchange.ts';
import { type TokenCounts, type ToldUsage, withCost } from '../json/usage.ts';
import type { Metrics } from '../metrics.ts';
import type { Deadline } from '../upstream/failure.ts';
import type { Watch } from './deadlines.ts';
import { addWork, type CompanyLoad } from './fair-shares.ts';
import { RequestMemory } from './held-memory.ts';
import type { ModelNames } from './model-names.ts';
import type { Services } from './services.ts';

/** How many times as much as reading a prompt it costs to remove the prompt from a reason. */
const SCRUB_COST = 40;

/** An admitted call, and what it holds. */
interface MeteredCall {
  readonly admission: Admission;
  readonly company: Company;
  /** What goes upstream: estimates are made from it, and errors are logged without what they quote of it. */
  readonly sent: readonly Buffer[];
  /** What it took of its limits; null: none apply. */
  readonly hold: Hold | null;
  /** The memory of its request body; null: the body is small. */
  readonly memory: RequestMemory | null;
  /** The company's use of the event loop. */
  readonly load: CompanyLoad;
}

/** Turns one admitted call into its ledger record and its metrics. Its relay settles it exactly once. */
export class CallMeter {
  readonly admission: Admission;
  /** A relay adds its own work. */
  readonly load: CompanyLoad;
  readonly #services: Services;
  readonly #company: Company;
  readonly #prompt: Prompt;
  readonly #hold: Hold | null;
  readonly #memory: RequestMemory | null;
  /** What was booked; null before, and where nothing is. */
  tokens: TokenCounts | null = null;
  /** In EUR, as decimal text. */
  cost: string | null = null;
  outcome: Outcome | null = null;
  /** What the call cost the upstream, by a header of the answer; undefined: not told. */
  toldCost: string | undefined;
  /** Why the upstream failed; null: it did not. */
  failure: UpstreamFailure | null = null;

  constructor(services: Services, { admission, company, sent, hold, memory, load }: MeteredCall) {
    this.#services = services;
    this.admission = admission;
    this.load = load;
    this.#company = company;
    this.#hold = hold;
    this.#memory = memory;
    this.#prompt = keepPrompt(sent);
  }

  /** A quick estimate before the call runs: token limits reserve by it. */
  get promptTokens(): number {
    return roughPromptTokens(this.#prompt);
  }

  /** Whether the sent bytes are needed until the call is settled. */
  get keepsSent(): boolean {
    return this.#prompt.kept !== 'sampled';
  }

  get maxEventBytes(): number {
    return this.#services.settings.maxEventBytes;
  }

  get maxAnswerBytes(): number {
    return this.#services.settings.maxAnswerBytes;
  }

  /** How long an answer is read on after its client left, in milliseconds. */
  get readOnMs(): { readonly streamed: number; readonly whole: number } {
    return this.#services.settings.readOnMs;
  }

  /** For the memory of a large answer. */
  newMemory(): RequestMemory {
    return new RequestMemory(this.#services.heldMemory, this.admission.payer.companyId);
  }

  get metrics(): Metrics {
    return this.#services.metrics;
  }

  /** The names of the call's model. */
  get names(): ModelNames {
    return this.#services.names.of(this.admission.model);
  }

  /** What no answer to a client may hold, besides what `redact` finds by its form. */
  get secrets(): readonly string[] {
    const { ownModels, sharedModels } = this.#company;
    // after a fallback a router names models other than the one asked for
    const names = [...ownModels.values(), ...sharedModels.values()].map(({ upstream }) => upstream);
    return [...this.#services.upstream.secrets, ...names.filter((name) => name !== this.admission.model.upstream)];
  }

  /** Watches the answer's deadlines until the response closes. */
  watch(res: ClientResponse, onDeadline: (deadline: Deadline) => void): Watch {
    return this.#services.deadlines.watch(res, onDeadline);
  }

  /** Logs why the upstream failed, in its own words but without prompts and keys. @param status of its answer; null: none */
  upstreamFailed(reason: string, status: number | null = null): void {
    const { requestId, model } = this.admission;
    const { kept, pieces } = this.#prompt; // a longer prompt is not at hand to be removed from the reason
    // the internal name was sent too, and may be logged
    const prompt =
      kept === 'short' ? Buffer.concat(pieces).toString().replace(JSON.stringify(model.upstream), '') : null;
    if (prompt !== null) addWork(this.load, SCRUB_COST * prompt.length);
    this.failure = { status, reason: scrub(reason, this.#services.upstream.keys, prompt) };
    this.#services.log.warn({ request_id: requestId, reason: this.failure.reason }, 'upstream failed');
  }

  /** Logs what the gateway had too little of to send the call: no fault of the upstream's. */
  ranShort(reason: string): void {
    this.#services.log.error({ request_id: this.admission.requestId, reason }, 'a call could not be sent');
  }

  /** Logs a fault of our own in handling the answer. */
  threw(error: unknown): void {
    this.#services.log.error({ request_id: this.admission.requestId, err: error }, 'request failed');
  }

  /** The token counts of a call: what the upstream told, and an estimate of what it did not. */
  tokensOf(usage: ToldUsage | null, generated: Generated): TokenCounts {
    if (isWhole(usage)) return usage;
    const { prompt, completion } = this.#services.estimator.estimate(this.admission, this.#prompt, generated);
    return { prompt: usage?.prompt ?? prompt, completion: usage?.completion ?? completion };
  }

  /**
   * Books the call. Counts that the upstream did not tell are estimated, and the row says so. A call that failed
   * before any usage was known is not booked, nor is one of the endpoint that only counts tokens.
   * @param usage as the upstream told it, even if it is zero; else null
   * @param listener called once when the end of the answer may be sent; perhaps before this returns
   */
  settle(outcome: Outcome, usage: ToldUsage | null, generated: Generated, listener: BookingListener | null): void {
    this.outcome = outcome;
    this.#memory?.end(); // nothing more of the body is sent
    const { endpoint } = this.admission;
    if ((usage === null && outcome === 'upstream_failed') || endpoint === FREE_ENDPOINT) {
      this.drop();
      return listener?.onBooked();
    }
    const { estimator, metrics, ledger, settings } = this.#services;
    const isTold = isWhole(usage);
    if (isTold && outcome === 'completed') estimator.learn(this.admission, this.#prompt, generated, usage);
    this.tokens = this.tokensOf(usage, generated);
    const source = isTold ? 'upstream' : 'estimated';
    const details = withCost(usage === null ? null : usage.details, this.toldCost);
    const record = usageRecord(this.admission, this.tokens, source, outcome, details, settings.upstreamCurrency);
    this.#hold?.settle(this.tokens.prompt + this.tokens.completion);
    this.cost = formatEur(record.cost);
    metrics.booked(record);
    ledger.book(record, listener);
  }

  /** Ends the call without booking it. */
  drop(): void {
    this.#hold?.end();
    this.#memory?.end();
    this.#services.ledger.release(this.admission.requestId);
  }
}

function isWhole(usage: ToldUsage | null): usage is ToldUsage & TokenCounts {
  return usage !== null && usage.prompt !== null && usage.completion !== null;
}
