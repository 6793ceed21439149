import { performance } from 'node:perf_hooks';
import { admitBudget, type Bound, budgetReached } from '../domain/budget.ts';
import type { Company } from '../domain/company.ts';
import { GatewayError } from '../domain/errors.ts';
import { admitModel, admitTier } from '../domain/gate.ts';
import {
  type ApiKey,
  type EndUser,
  isWithin,
  REVOKED,
  type Restriction,
  SCOPE_BIT,
} from '../domain/key.ts';
import { isTextAlone } from '../domain/members/text-alone.ts';
import { modelAt } from '../domain/model.ts';
import type { Hold, MaybeAsync } from '../domain/ports.ts';
import type { Femto } from '../domain/pricing/money.ts';
import { pricesToBound } from '../domain/pricing/prices.ts';
import { clientAddress } from '../domain/request/client-address.ts';
import { costCenterIn } from '../domain/request/cost-center.ts';
import { endUserInBody, endUserInHeaders } from '../domain/request/end-user.ts';
import { textOf } from '../domain/tokens/prompt.ts';
import { type Admission, FREE_ENDPOINT } from '../domain/usage.ts';
import type { ClientRequest, ClientResponse } from '../http/exchange.ts';
import type { RequestHead } from '../http/request-head.ts';
import type { Members, ParsedObject } from '../json/members.ts';
import { parseObject } from '../json/parser.ts';
import { lengthOf } from '../json/splice.ts';
import { newRequestId } from '../runtime/request-id.ts';
import { CallMeter } from './answer/call-meter.ts';
import type { Call, Endpoint, Lookup } from './endpoints/call.ts';
import { type BodyListener, type RequestBody, readBody, TIMED_BYTES } from './request/body.ts';
import { addTime, addWork, type CompanyLoad } from './request/fair-shares.ts';
import { noteFault } from './request/fault.ts';
import { RequestMemory } from './request/held-memory.ts';
import { RequestSummary } from './request/log.ts';
import { budgetsOf, QuotaReply } from './request/quota.ts';
import { Reply, type ReplyListener } from './request/reply.ts';
import type { Services } from './request/services.ts';
import { requireJson, requireOneMeaning } from './request-checks.ts';
import { findRoute } from './router.ts';
import { errorsAt } from './unknown-path.ts';

const NO_HEADERS: readonly string[] = [];
/** The largest body, in bytes, that is parsed whole for a strict budget: one millisecond, of small values three. */
const MOST_PARSED = 262_144;

/**
 * Answers one API request. Never throws: every failure is answered and logged.
 * @param arrived whether head and body came together. If not, refusing the key closes the connection. The state on
 *   arrival decides: the present one would tell how long the lookup took, and so whether the key was in memory
 */
export function handle(
  services: Services,
  req: ClientRequest,
  res: ClientResponse,
  load: CompanyLoad,
  arrived: boolean,
): void {
  new ApiRequest(services, req, res, load, Reply).begin(arrived);
}

/** The same with QUOTA_HEADERS. */
export function handleWithQuota(
  ...[services, req, res, load, arrived]: Parameters<typeof handle>
): void {
  new QuotaRequest(services, req, res, load).begin(arrived);
}

/**
 * One API request from its head to its answer, the checks in the order of the contract: key, scope,
 * body, model or assistant, EU gate, budget, upstream. What they need is nearly always in memory,
 * and then nothing is awaited: a promise costs a turn of its own.
 */
class ApiRequest implements BodyListener, ReplyListener {
  readonly #services: Services;
  readonly #req: ClientRequest;
  readonly #summary: RequestSummary;
  readonly #load: CompanyLoad;
  #endpoint: Endpoint | null = null;
  /** The identifier in the path. */
  #id = '';
  #key: ApiKey | null = null;
  /** What the request took of its limits; null: none apply. */
  #hold: Hold | null = null;
  /** The memory of its body; null: the body is small. */
  #memory: RequestMemory | null = null;

  constructor(
    services: Services,
    req: ClientRequest,
    res: ClientResponse,
    load: CompanyLoad,
    AReply: typeof Reply,
  ) {
    const at = Date.now();
    const reply = new AReply(res, newRequestId(at), this);
    this.#services = services;
    this.#req = req;
    this.#load = load;
    this.#summary = new RequestSummary(reply, at);
  }

  protected get reply(): Reply {
    return this.#summary.reply;
  }

  begin(arrived: boolean): void {
    const { basePath, maxHeaders } = this.#services.settings;
    const { method, url, head, httpVersionMinor } = this.#req;
    const { tracer } = this.#services;
    try {
      if (tracer !== null) this.#summary.trace = tracer.begin(this.#req, this.reply.requestId);
      requireOneMeaning(head, httpVersionMinor, maxHeaders); // 400, 431
      const route = findRoute(method, url, basePath, head); // 404, 405, 426
      this.#summary.route = route.template;
      if (route.kind === 'lookup') return void this.#lookUp(route.lookup, route.id, arrived);
      this.#endpoint = route.endpoint;
      this.#id = route.id;
      this.#summary.endpoint = route.endpoint.name;
      this.#summary.reply.errors = route.endpoint.errors;
      const found = this.authenticate(route.endpoint.takesApiKeyHeader); // 401, 403
      if (!(found instanceof Promise)) return this.#receive(found);
      found.then((key) => this.#receive(key)).catch((error) => this.#refuse(error, arrived));
    } catch (error) {
      if (this.#endpoint === null) this.#summary.reply.errors = errorsAt(url, basePath);
      this.#refuse(error, arrived);
    }
  }

  #receive(key: ApiKey): void {
    this.#key = key;
    requireJson(this.#req.head); // 415
    const company = companyOf(this.#services, key);
    const hold =
      company instanceof Promise
        ? company.then((found) => this.#services.limiter.enter(key, found))
        : this.#services.limiter.enter(key, company); // 429
    if (hold instanceof Promise)
      hold.then((held) => this.#read(held)).catch((error) => this.#refuse(error));
    else this.#read(hold);
  }

  #read(hold: Hold | null): void {
    const { settings, bodyMemory } = this.#services;
    const { maxBodyBytes } = settings;
    const { head, httpVersionMinor } = this.#req;
    this.#hold = hold;
    if (this.#summary.reply.res.destroyed) return hold?.end(); // the client left while units were waited for
    if (head.expectsContinue && httpVersionMinor > 0 && head.contentLength <= maxBodyBytes) {
      this.#summary.reply.res.writeContinue();
    }
    readBody(this.#req, maxBodyBytes, bodyMemory, this); // 413
  }

  onWait(): void {
    this.#summary.askedAt = performance.now();
  }

  onNoBody(error: GatewayError): void {
    this.#refuse(error);
  }

  onThrown(error: unknown): void {
    this.#refuse(error);
  }

  takeMemory(bytes: number): boolean {
    if (this.#services.overload.isFull) return false;
    this.#memory ??= new RequestMemory(this.#services.heldMemory, (this.#key as ApiKey).companyId);
    return this.#memory.take(bytes);
  }

  worked(bytes: number): void {
    addWork(this.#load, bytes);
  }

  onBody(body: RequestBody): void {
    this.#summary.wholeAt = body.wholeAt;
    void this.#run(body, this.#endpoint as Endpoint);
  }

  async #run(body: RequestBody, endpoint: Endpoint): Promise<void> {
    const services = this.#services;
    const summary = this.#summary;
    const { reply } = summary;
    try {
      let key = this.#key as ApiKey | Promise<ApiKey>;
      if (summary.askedAt > 0) key = this.authenticate(endpoint.takesApiKeyHeader); // the body may have taken minutes
      if (key instanceof Promise) key = await key;
      let call = this.#readCall(body, endpoint, key.companyId); // 400, or 404 for an assistant
      if (call instanceof Promise) call = await call;
      const named = call.costCenter || this.#headersCostCenter(); // 400
      let company = companyOf(services, key); // as it is now: an assistant may have been waited for
      if (company instanceof Promise) company = await company;
      summary.asked = call.slug;
      const { restriction } = key;
      const allowed = restriction === null ? null : restriction.models;
      const found = admitModel(company, call.slug, endpoint.kind, call.slugParam, allowed); // 404, then 403 at the EU gate
      summary.slug = found.slug;
      call.check?.(found); // 400
      const at = services.clock();
      const model = modelAt(found, at); // the price of this instant, whatever time the call takes
      const tier = admitTier(model, (body.object as ParsedObject).value.service_tier); // 400
      const month = services.calendar.month(at); // decided once: gate, budget and ledger use the same month
      const spent = services.ledger.spentOf(key, month);
      const sum = typeof spent === 'bigint' ? spent : await spent;
      if (company.budget !== null && sum > company.budget)
        services.metrics.overBudget(month, sum - company.budget);
      admitBudget(company.budget, sum, services.calendar, at); // 402
      if (restriction !== null && restriction.budget !== null)
        await admitKey(services, key, restriction.budget, month, at); // 402
      const allowance =
        key.endUsers === 'off' || restriction === null ? null : restriction.endUserBudget;
      let endUser: EndUser | null = null;
      if (allowance !== null) {
        endUser = await this.#endUser(key, body, call, true); // 503
        if (endUser !== null) await admitEndUser(services, key, allowance, month, endUser, at); // 402
      }
      let day = '';
      if (
        company.dailyBudget !== null ||
        (restriction !== null && restriction.dailyBudget !== null)
      ) {
        day = await admitDay(services, key, company, at); // 402
      }
      if (allowance === null && key.endUsers !== 'off')
        endUser = await this.#endUser(key, body, call, false);
      const { requestId } = reply;
      const costCenter = services.costCenters.of(key.companyId, month, named);
      const admission: Admission = {
        requestId,
        payer: key,
        model,
        endpoint: endpoint.name,
        at,
        month,
        day,
        costCenter,
        endUser,
      };
      const isTimed = body.length >= TIMED_BYTES;
      const began = isTimed ? performance.now() : 0;
      const sent = call.forward(services.names.of(model).upstream);
      const hold = this.#hold;
      const { limit } = call;
      const memory = this.#memory;
      const meter = new CallMeter(services, {
        admission,
        company,
        sent,
        body,
        hold,
        memory,
        load: this.#load,
        limit,
        tier,
        request: call,
      });
      if (isTimed) addTime(this.#load, performance.now() - began, 0);
      if (this.#id !== '') addWork(this.#load, lengthOf(sent)); // the prompt of an assistant
      if (endpoint.name !== FREE_ENDPOINT) {
        if (hold?.countsTokens) await hold.reserve(meter.promptTokens, limit); // 429
        const person = allowance === null ? null : endUser;
        if (
          company.strict &&
          (company.budget !== null || company.dailyBudget !== null || person !== null)
        )
          meter.reserved = await reserve(services, admission, tier, person, call, sent, body); // 402
      }
      if (reply.res.destroyed) return meter.drop(); // the client left while something was looked up
      const relay = call.answer(reply, meter);
      summary.meter = meter; // from now on the relay ends what it holds
      const postedAt = isTimed ? performance.now() : 0;
      services.upstream.post({
        path: endpoint.upstreamPath,
        requestId,
        body: sent,
        handler: relay,
        traceparent: summary.trace?.outgoing,
        onSent: meter.keepsSent ? null : () => this.#release(body),
        headers: call.headers ?? NO_HEADERS,
      });
      summary.sentAt = performance.now();
      if (isTimed) addTime(this.#load, summary.sentAt - postedAt, 0);
    } catch (error) {
      this.#refuse(error);
    }
  }

  #readCall(body: RequestBody, endpoint: Endpoint, companyId: string): Call | Promise<Call> {
    const read = (): Call | Promise<Call> =>
      endpoint.read(this.#services, body, companyId, this.#id, this.#req.head);
    if (body.length < TIMED_BYTES) return read();
    const began = performance.now();
    try {
      return read();
    } finally {
      addTime(this.#load, body.parseMs + performance.now() - began, body.length);
    }
  }

  /** The cost centre that a header names; empty: none. */
  #headersCostCenter(): string {
    const { costCenterHeader } = this.#services.settings;
    return costCenterHeader === null ? '' : costCenterIn(this.#req.rawHeaders, costCenterHeader);
  }

  /**
   * The person whom the call names; null: nobody, or nobody who is known while the database is away.
   * @param isNeeded 503 in that case: an allowance is to hold
   */
  async #endUser(
    key: ApiKey,
    body: RequestBody,
    call: Call,
    isNeeded: boolean,
  ): Promise<EndUser | null> {
    const { directory, settings } = this.#services;
    const endpoint = (this.#endpoint as Endpoint).name;
    let name = endUserInHeaders(settings.endUserHeaders, this.#req.rawHeaders);
    if (name === null && key.endUsers === 'body') {
      const slice = (start: number, end: number): Buffer => body.slice(start, end);
      name = endUserInBody(endpoint === 'messages', call.members, slice, membersOf);
    }
    if (name === null || endpoint === FREE_ENDPOINT) return null;
    try {
      const found = directory.endUser(key.companyId, name);
      return found instanceof Promise ? await found : found;
    } catch (error) {
      if (isNeeded) throw error;
      return null; // it was logged
    }
  }

  /** The body was sent. */
  #release(body: RequestBody): void {
    body.release();
    this.#memory?.end();
  }

  async #lookUp(lookup: Lookup, id: string, arrived: boolean): Promise<void> {
    this.#summary.endpoint = lookup.name;
    let complete: boolean | undefined = arrived; // see `handle`: only while the key is looked up
    try {
      const key = await this.authenticate(true);
      complete = undefined;
      const company = await companyOf(this.#services, key);
      const began = performance.now();
      const rendered = lookup.render(this.#services, key, company, id);
      addTime(this.#load, performance.now() - began, 0); // a list of a thousand models takes as long as ten calls
      this.#summary.reply.json(await rendered);
    } catch (error) {
      this.#refuse(error, complete);
    }
  }

  /**
   * A missing, unknown, revoked or expired key, and one used from outside its networks, get one identical answer
   * (spec section 5, rule 2; contract section 5).
   */
  protected authenticate(takesApiKeyHeader: boolean): MaybeAsync<ApiKey> {
    const services = this.#services;
    const { head } = this.#req;
    const digest = takesApiKeyHeader && head.apiKey ? apiKeyDigest(head) : head.bearerDigest;
    if (digest === null) throw new GatewayError('invalid_api_key');
    const found = services.directory.key(digest);
    return found instanceof Promise
      ? found.then((key) => this.#requireLive(key))
      : this.#requireLive(found);
  }

  #requireLive(key: ApiKey | null): ApiKey {
    if (key === null) throw new GatewayError('invalid_api_key');
    this.#summary.keyId = key.id;
    this.#summary.companyId = key.companyId;
    // most keys never expire, and then nobody asks what time it is
    if (key.expiresAt !== Number.POSITIVE_INFINITY && key.expiresAt <= this.#services.clock())
      this.#refuseEnded(key);
    if (key.restriction !== null) this.#requireNetwork(key.restriction);
    const endpoint = this.#endpoint;
    if (endpoint !== null && (key.scopeBits & SCOPE_BIT[endpoint.scope]) === 0)
      throw new GatewayError('insufficient_scope');
    return key;
  }

  /** Of a pause nobody learns whose key would get 401 without it. */
  #refuseEnded({ expiresAt, pause, restriction }: ApiKey): never {
    if (pause === null || pause.expiresAt <= this.#services.clock()) {
      throw new GatewayError('invalid_api_key').by(
        expiresAt === REVOKED ? 'key.revoked_at' : 'key.expires_at',
      );
    }
    if (restriction !== null) this.#requireNetwork(restriction);
    throw new GatewayError(pause.error).by(pause.setting);
  }

  #requireNetwork({ networks }: Restriction): void {
    if (networks === null) return;
    const { rawHeaders, socket } = this.#req;
    const address = clientAddress(
      this.#services.settings.apiProxies,
      socket.remoteAddress,
      rawHeaders,
    );
    if (!isWithin(networks, address))
      throw new GatewayError('invalid_api_key').by('key.allowed_cidrs');
  }

  /** @param complete whether the whole request has arrived; undefined: as it is now */
  #refuse(error: unknown, complete = this.#req.complete): void {
    const { reply } = this.#summary;
    if (!(error instanceof GatewayError)) return reply.onThrown(error);
    this.#hold?.end();
    reply.error(error, !complete); // an unread body would have to be read to its end
  }

  onReplyThrew(error: unknown): void {
    noteFault(this.#services, this.reply.requestId, error);
  }

  onReplyWaits(): void {
    this.#services.deadlines.watchReader(this.#summary.reply);
  }

  onReplyClosed(): void {
    // a call that was sent may last longer: then its meter ends both
    if (this.#summary.meter === null) {
      this.#hold?.end();
      this.#memory?.end();
    }
    this.#services.overload.leave(this.#load);
    this.#services.requestLog.ended(this.#summary);
  }
}

/** A request whose answers tell what is left of budgets: a class of its own, so that others pay nothing for it. */
class QuotaRequest extends ApiRequest {
  readonly #services: Services;

  constructor(services: Services, req: ClientRequest, res: ClientResponse, load: CompanyLoad) {
    super(services, req, res, load, QuotaReply);
    this.#services = services;
  }

  protected override async authenticate(takesApiKeyHeader: boolean): Promise<ApiKey> {
    const key = await super.authenticate(takesApiKeyHeader);
    (this.reply as QuotaReply).budgets = await budgetsOf(this.#services, key);
    return key;
  }
}

/** The gate of the key's own budget of the month. @throws GatewayError 402 */
async function admitKey(
  { ledger, calendar }: Services,
  key: ApiKey,
  budget: Femto,
  month: string,
  at: number,
): Promise<void> {
  const spent = ledger.spentByKey(key, month);
  admitBudget(budget, typeof spent === 'bigint' ? spent : await spent, calendar, at, 'key');
}

/** The gate of the budgets of the day, of the company and of the key. @returns the day @throws GatewayError 402 */
async function admitDay(
  { ledger, calendar }: Services,
  key: ApiKey,
  { dailyBudget }: Company,
  at: number,
): Promise<string> {
  const day = calendar.date(at);
  const budgets = { company: dailyBudget, key: key.restriction?.dailyBudget ?? null };
  for (const whose of ['company', 'key'] as const) {
    const budget = budgets[whose];
    if (budget === null) continue;
    const spent = ledger.spentOnDay(key, day, whose);
    admitBudget(
      budget,
      typeof spent === 'bigint' ? spent : await spent,
      calendar,
      at,
      whose,
      'daily',
    );
  }
  return day;
}

/** The gate of the allowance of an end user, or of a budget of their own in its place. @throws GatewayError 402 */
async function admitEndUser(
  { ledger, calendar }: Services,
  key: ApiKey,
  allowance: Femto,
  month: string,
  endUser: EndUser,
  at: number,
): Promise<void> {
  const spent = ledger.spentByEndUser(key, month, endUser);
  admitBudget(
    endUser.budget ?? allowance,
    typeof spent === 'bigint' ? spent : await spent,
    calendar,
    at,
    'end_user',
  );
}

/** Reserves what the call can cost at most: a strict budget holds whatever is in flight. */
async function reserve(
  { ledger, calendar }: Services,
  admission: Admission,
  tier: string | null,
  endUser: EndUser | null,
  call: Call,
  sent: readonly Buffer[],
  body: RequestBody,
): Promise<Bound> {
  const { requestId, payer, at, month, model } = admission;
  const prices = pricesToBound(model.prices, { at, tier });
  const bound = wholeBound(call.bound({ ...model, prices }), sent, body);
  const { companyId } = payer;
  const person = endUser === null ? {} : { keyId: payer.id, endUserId: endUser.id };
  const fits = await ledger.reserve({
    requestId,
    companyId,
    month,
    day: calendar.date(at),
    ...person,
    ...bound,
  });
  if (fits === 'end_user') throw budgetReached(calendar, at, 'end_user');
  if (fits !== true)
    throw budgetReached(calendar, at, 'company', fits === 'day' ? 'daily' : 'monthly').by(
      'company.budget_mode',
    );
  return bound;
}

/**
 * The bound of a call by all of its body: parts of messages lie deeper than the parsed value reaches. Without what is in
 * files the body is JSON as well, and short.
 */
function wholeBound(
  bound: Bound,
  sent: readonly Buffer[],
  { files, filePieces }: RequestBody,
): Bound {
  if (bound.bounded || bound.completion === null || !files.areImages) return bound;
  const text = textOf(sent, filePieces);
  if (lengthOf(text) > MOST_PARSED) return bound;
  return { ...bound, bounded: isTextAlone(JSON.parse(Buffer.concat(text).toString()), true) };
}

function membersOf(object: Buffer): Members | null {
  const parsed = parseObject(object);
  return typeof parsed === 'string' ? null : parsed.members;
}

function companyOf(services: Services, key: ApiKey): MaybeAsync<Company> {
  const found = services.directory.company(key.companyId);
  return found instanceof Promise ? found.then(existing) : existing(found);
}

/** The digest of the key of a head with `x-api-key`. @throws GatewayError 400 for two different keys */
function apiKeyDigest(head: RequestHead): string | null {
  if (head.bearer === null || head.bearer === head.apiKey) return head.apiKeyDigest;
  throw new GatewayError(
    'invalid_request',
    'Two different keys: send one, as "Authorization" or as "x-api-key".',
  );
}

function existing(company: Company | null): Company {
  if (company === null) throw new GatewayError('invalid_api_key'); // deleted together with its keys a moment ago
  return company;
}
