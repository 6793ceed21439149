import type { Bound, Repeated } from '../../domain/budget.ts';
import type { Company } from '../../domain/company.ts';
import { isUpstreamsFailure } from '../../domain/errors.ts';
import type { BookingListener, Hold, UpstreamFailure } from '../../domain/ports.ts';
import { formatEur } from '../../domain/pricing/money.ts';
import type { CallFacts } from '../../domain/pricing/prices.ts';
import { tierOf, tiersOf } from '../../domain/pricing/rates.ts';
import { OwnBody } from '../../domain/request/own-body.ts';
import { scrub } from '../../domain/request/redact.ts';
import { type Charge, chargeOf, withoutFalseZero } from '../../domain/tokens/charged-tokens.ts';
import {
  type Echo,
  type Estimate,
  type Generated,
  withEcho,
} from '../../domain/tokens/estimate.ts';
import { type Files, NO_FILES } from '../../domain/tokens/file.ts';
import { keepPrompt, type Prompt, roughPromptTokens } from '../../domain/tokens/prompt.ts';
import { type Admission, FREE_ENDPOINT, type Outcome, usageRecord } from '../../domain/usage.ts';
import type { ClientResponse } from '../../http/exchange.ts';
import type { Members } from '../../json/members.ts';
import { type TokenCounts, type ToldUsage, withCost } from '../../json/usage.ts';
import type { Metrics } from '../../metrics.ts';
import type { Watch, WatchedCall } from '../request/deadlines.ts';
import { addWork, type CompanyLoad } from '../request/fair-shares.ts';
import { noteFault } from '../request/fault.ts';
import { RequestMemory } from '../request/held-memory.ts';
import type { Keepalive } from '../request/keepalive.ts';
import type { ModelNames } from '../request/model-names.ts';
import type { Services } from '../request/services.ts';

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
  /** The caller's files in it. */
  readonly body: { readonly files: Files; readonly filePieces: ReadonlySet<Buffer> };
  /** The most tokens that it lets the model generate; null: no limit. */
  readonly limit: number | null;
  /** The service tier that it asks for; null: the standard one. */
  readonly tier: string | null;
  readonly request: {
    readonly members: Members;
    readonly repeated?: Repeated;
    /** Whether its prompt is the text of the body alone; asked where the body is not kept. */
    isTextAlone(): boolean;
    readonly echo?: Echo;
  };
}

/** Turns one admitted call into its ledger record and its metrics. Its relay settles it exactly once. */
export class CallMeter {
  readonly admission: Admission;
  /** A relay adds its own work. */
  readonly load: CompanyLoad;
  readonly #services: Services;
  readonly #company: Company;
  readonly #members: Members;
  readonly #prompt: Prompt;
  readonly #limit: number | null;
  /** The service tier that the request asks for; null: the standard one. */
  readonly #tier: string | null;
  /** What of the prompt the answer repeats; null: nothing. */
  readonly #echo: Echo | null;
  readonly #isTextAlone: boolean | null;
  readonly #hold: Hold | null;
  readonly #memory: RequestMemory | null;
  /** What a strict budget reserved for it; null: nothing. */
  reserved: Bound | null = null;
  /** What was booked; null before, and where nothing is. */
  tokens: TokenCounts | null = null;
  /** In EUR, as decimal text. */
  cost: string | null = null;
  outcome: Outcome | null = null;
  /** What the call cost the upstream, by a header of the answer; undefined: not told. */
  toldCost: string | undefined;
  /** The service tier that the answer says it was served with; undefined: it says none. */
  toldTier: string | undefined;
  /** Why the upstream failed; null: it did not. */
  failure: UpstreamFailure | null = null;

  constructor(services: Services, call: MeteredCall) {
    const { admission, company, sent, hold, memory, load } = call;
    this.#services = services;
    this.admission = admission;
    this.load = load;
    this.#company = company;
    this.#hold = hold;
    this.#memory = memory;
    this.#members = call.request.members;
    const { files, filePieces } = call.body;
    const { repeated } = call.request;
    // fields of documents are text, whatever they hold
    this.#prompt =
      repeated === undefined
        ? keepPrompt(sent, files, filePieces)
        : keepPrompt(sent, NO_FILES, null, repeated);
    this.#limit = call.limit;
    this.#tier = call.tier;
    this.#echo = call.request.echo ?? null;
    this.#isTextAlone = this.keepsSent ? null : call.request.isTextAlone();
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

  /** null: silent streams are left silent. */
  get keepalive(): Keepalive | null {
    return this.#services.keepalive;
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
    return [
      ...this.#services.upstream.secrets,
      ...names.filter((name) => name !== this.admission.model.upstream),
    ];
  }

  /** The caller's body, for names of members that the upstream tells. */
  get ownBody(): OwnBody {
    const sent = this.keepsSent ? this.#prompt.pieces : null;
    return new OwnBody(this.#members, sent, this.admission.endpoint === 'assistants.run');
  }

  /** Watches the answer's deadlines until the response closes. */
  watch(res: ClientResponse, call: WatchedCall): Watch {
    return this.#services.deadlines.watch(res, call);
  }

  /**
   * Logs why the upstream failed, or refused what the caller sent: in its own words, but without prompts and keys.
   * @param status of its answer; null: none
   * @param told the status that the client is told; 0: it is not known yet, and no mistake of the client
   */
  upstreamFailed(reason: string, status: number | null = null, told = 0): void {
    const { requestId, model } = this.admission;
    const { kept, pieces } = this.#prompt; // a longer prompt is not at hand to be removed from the reason
    // the internal name was sent too, and may be logged
    const prompt =
      kept === 'short'
        ? Buffer.concat(pieces).toString().replace(JSON.stringify(model.upstream), '')
        : null;
    if (prompt !== null) addWork(this.load, SCRUB_COST * prompt.length);
    this.failure = { status, reason: scrub(reason, this.#services.upstream.keys, prompt) };
    const line = { request_id: requestId, reason: this.failure.reason };
    if (told === 0 || isUpstreamsFailure(told, status))
      this.#services.log.warn(line, 'upstream failed');
    else this.#services.log.info(line, 'upstream refused the request');
  }

  /** Logs what the gateway had too little of to send the call: no fault of the upstream's. */
  ranShort(reason: string): void {
    this.#services.log.error(
      { request_id: this.admission.requestId, reason },
      'a call could not be sent',
    );
  }

  /** Logs a fault of our own in handling the answer. */
  threw(error: unknown): void {
    noteFault(this.#services, this.admission.requestId, error);
  }

  /** The token counts that a call is charged for. */
  tokensOf(usage: ToldUsage | null, seen: Generated): TokenCounts {
    const generated = this.#withEcho(seen);
    return this.#chargeOf(withoutFalseZero(usage, generated, this.#limit), generated).tokens;
  }

  #withEcho(seen: Generated): Generated {
    return this.#echo === null ? seen : withEcho(seen, this.#echo);
  }

  /** What decides which rate holds: the tier is the one asked for where the answer says none. */
  get #facts(): CallFacts {
    const { at } = this.admission;
    const tier = this.toldTier === undefined ? this.#tier : tierOf(this.toldTier);
    return { at, tier };
  }

  #chargeOf(usage: ToldUsage | null, generated: Generated): Charge {
    const { estimator } = this.#services;
    const estimate = (): Estimate =>
      estimator.estimate(this.admission, this.#prompt, generated, this.#limit);
    const { prices } = this.admission.model;
    const bounds = {
      limit: this.#limit,
      prompt: this.#prompt,
      isTextAlone: this.#isTextAlone,
      reserved: this.reserved,
      prices,
      facts: this.#facts,
      askedTier: this.#tier,
    };
    return chargeOf(bounds, usage, estimate);
  }

  /**
   * Books the call. Counts that the upstream did not tell, or told above what the call allows, are estimated, and the
   * row says so. A call that failed before any usage was known is not booked, nor is one of the endpoint that only counts tokens.
   * @param told the usage as the upstream told it; else null
   * @param seen of the answer
   * @param listener called once when the end of the answer may be sent; perhaps before this returns
   */
  settle(
    outcome: Outcome,
    told: ToldUsage | null,
    seen: Generated,
    listener: BookingListener | null,
  ): void {
    this.outcome = outcome;
    this.#memory?.end(); // nothing more of the body is sent
    const { endpoint } = this.admission;
    if ((told === null && outcome === 'upstream_failed') || endpoint === FREE_ENDPOINT) {
      this.drop();
      return listener?.onBooked();
    }
    const { estimator, metrics, ledger, settings } = this.#services;
    const generated = this.#withEcho(seen);
    const usage = withoutFalseZero(told, generated, this.#limit);
    const charge = this.#chargeOf(usage, generated);
    this.tokens = charge.tokens;
    if (charge.isBeyond) this.#noteBeyond(usage as ToldUsage);
    else if (isWhole(usage) && outcome === 'completed' && this.#echo === null) {
      estimator.learn(this.admission, this.#prompt, generated, usage, charge.details?.reasoning);
    }
    if (usage?.rest !== undefined || usage?.unread !== undefined)
      this.#services.usageNotes.note(this.admission, usage);
    if (this.toldTier !== undefined) this.#noteTier(this.toldTier);
    const isLess = usage?.rest !== undefined && usage.rest < 0;
    const isTold = charge.isPromptTold && charge.isCompletionTold && !charge.isBeyond && !isLess;
    const source = isTold ? 'upstream' : 'estimated';
    const details = withCost(charge.details, this.toldCost);
    const record = usageRecord(
      this.admission,
      this.tokens,
      source,
      outcome,
      details,
      settings.upstreamCurrency,
      charge.prices,
    );
    this.#hold?.settle(this.tokens.prompt + this.tokens.completion);
    this.cost = formatEur(record.cost);
    metrics.booked(record);
    ledger.book(record, listener);
  }

  /** A tier without a rate costs the base price, of which operators are told. */
  #noteTier(told: string): void {
    const tier = tierOf(told);
    if (tier !== null && !tiersOf(this.admission.model.prices).has(tier))
      this.#services.usageNotes.noteTier(this.admission, tier);
  }

  #noteBeyond({ prompt, completion, details }: ToldUsage): void {
    const cache = details && {
      cached_tokens: details.cached,
      cache_write_tokens: details.cacheWrite,
    };
    const { requestId: request_id } = this.admission;
    const fields = { request_id, prompt_tokens: prompt, completion_tokens: completion, ...cache };
    this.#services.log.warn(fields, 'the upstream told more tokens than the call allows');
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
