import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import { admitBudget } from '../domain/budget.ts';
import type { Company } from '../domain/company.ts';
import { GatewayError } from '../domain/errors.ts';
import { admitModel } from '../domain/gate.ts';
import { type ApiKey, digestOf } from '../domain/key.ts';
import type { Now } from '../domain/ports.ts';
import { SCOPE_BIT } from '../domain/scope.ts';
import type { Admission } from '../domain/usage.ts';
import { BareRequest } from '../http/fast-request.ts';
import { RepeatedRequest } from '../http/repeated-request.ts';
import { RequestHead } from '../http/request-head.ts';
import { newRequestId } from '../runtime/request-id.ts';
import { type BodyWaiter, type RequestBody, readBody } from './body.ts';
import type { Call, Operation } from './call.ts';
import { CallMeter } from './call-meter.ts';
import { renderModel, renderModels } from './models.ts';
import { Reply } from './reply.ts';
import { RequestLine } from './request-log.ts';
import { findRoute, type Route } from './router.ts';
import type { Services } from './services.ts';

/** Answers one API request. Never throws: whatever goes wrong is answered and logged. */
export function handle(services: Services, req: IncomingMessage | RepeatedRequest, res: ServerResponse): void {
  new Exchange(services, req, res).begin();
}

/**
 * One API request from its head to its answer. The order of checks is the contract's: key,
 * scope, body, model or assistant, EU gate, budget, upstream. What is asked for is nearly
 * always in memory, and nothing is waited for then: a promise costs a turn of its own.
 */
class Exchange implements BodyWaiter {
  readonly #services: Services;
  readonly #req: IncomingMessage | RepeatedRequest;
  readonly #line: RequestLine;
  readonly #head: RequestHead;
  #operation: Operation | null = null;
  /** The path's identifier. */
  #id = '';
  #key: ApiKey | null = null;

  constructor(services: Services, req: IncomingMessage | RepeatedRequest, res: ServerResponse) {
    const reply = new Reply(res, newRequestId());
    const line = new RequestLine(reply);
    this.#services = services;
    this.#req = req;
    this.#line = line;
    this.#head = headOf(req);
    if (services.tracer !== null) line.trace = services.tracer.begin(req, reply.requestId);
    res.on('close', () => {
      reply.watcher?.onClientClose();
      services.overload.leave();
      services.requestLog.tell(line);
    });
  }

  begin(): void {
    const { basePath, limits } = this.#services;
    const { method, url, httpVersionMinor } = this.#req;
    try {
      this.#head.requireOneMeaning(httpVersionMinor, limits.maxHeaders); // 400, 431
      const route = findRoute(method as string, url as string, basePath, this.#head.host); // 404, 405
      if (route.name !== 'operation') return void this.#list(route);
      this.#operation = route.operation;
      this.#id = route.id;
      this.#line.endpoint = route.operation.endpoint;
      const found = this.#authenticate(); // 401, by the digest in memory
      if (found instanceof Promise) found.then((key) => this.#receive(key)).catch((error) => this.#refuse(error));
      else this.#receive(found);
    } catch (error) {
      this.#refuse(error);
    }
  }

  #receive(key: ApiKey): void {
    const { scope } = this.#operation as Operation;
    const { maxBodyBytes, bodyMemory } = this.#services;
    this.#key = key;
    this.#line.companyId = key.companyId;
    if ((key.scopes & SCOPE_BIT[scope]) === 0) throw new GatewayError('insufficient_scope'); // 403, before a byte of the body is read
    this.#head.requireJson(); // 415
    const { expectsContinue, contentLength } = this.#head;
    if (expectsContinue && contentLength <= maxBodyBytes) this.#line.reply.res.writeContinue();
    this.#line.askedAt = performance.now();
    readBody(this.#req, contentLength, maxBodyBytes, bodyMemory, this); // 413
  }

  onNoBody(error: GatewayError): void {
    this.#refuse(error);
  }

  onBody(body: RequestBody): void {
    this.#line.wholeAt = body.wholeAt;
    void this.#run(body, this.#operation as Operation, this.#key as ApiKey);
  }

  async #run(body: RequestBody, operation: Operation, key: ApiKey): Promise<void> {
    const services = this.#services;
    const line = this.#line;
    try {
      const owner = companyOf(services, key);
      const company = owner instanceof Promise ? await owner : owner;
      const read = operation.read(services, body, key.companyId, this.#id); // 400, or 404 for an assistant
      const call = read instanceof Promise ? await read : read;
      const model = admitModel(company, call.slug, operation.kind, call.slugParam); // 404, then 403 at the EU gate
      line.slug = model.slug;
      const at = services.clock();
      const month = services.calendar.month(at); // fixed here: gate, budget and ledger speak of the same month
      const spent = services.ledger.spentOf(key, month);
      const sum = typeof spent === 'bigint' ? spent : await spent;
      if (company.budget !== null && sum > company.budget) services.metrics.overBudget(month, sum - company.budget);
      admitBudget(company, sum); // 402
      const admission: Admission = {
        requestId: line.reply.requestId,
        payer: key,
        model,
        endpoint: operation.endpoint,
        at,
        month,
      };
      if (company.strict && company.budget !== null) await reserve(services, admission, call); // 402
      const sent = call.forward(model);
      const meter = new CallMeter(services, admission, company, sent);
      if (line.reply.res.destroyed) return meter.drop(); // while something was looked up: nobody is there to be answered
      line.meter = meter;
      const answer = call.answer(line.reply, admission, meter);
      const onOut = meter.keepsSent ? null : () => body.letGo();
      services.upstream.post(operation.upstreamPath, admission.requestId, sent, answer, line.trace?.outgoing, onOut);
      line.sentAt = performance.now();
    } catch (error) {
      this.#refuse(error);
    }
  }

  /** GET /models and /models/{id}: any valid key (spec section 5, rule 3). */
  async #list(route: Route): Promise<void> {
    const services = this.#services;
    const line = this.#line;
    line.endpoint = 'models';
    try {
      const key = await this.#authenticate();
      line.companyId = key.companyId;
      const company = await companyOf(services, key);
      const { ownedBy } = services;
      line.reply.json(
        200,
        route.name === 'model' ? renderModel(company, route.id, ownedBy) : renderModels(company, ownedBy),
      );
    } catch (error) {
      this.#refuse(error);
    }
  }

  /** Missing, unknown, revoked and expired keys get one identical answer (spec section 5, rule 2). */
  #authenticate(): Now<ApiKey> {
    const services = this.#services;
    const found = services.directory.key(digestOn(this.#req.socket, this.#head));
    return found instanceof Promise ? found.then((key) => live(services, key)) : live(services, found);
  }

  #refuse(error: unknown): void {
    const { reply } = this.#line;
    if (!(error instanceof GatewayError)) {
      this.#services.log.error({ request_id: reply.requestId, err: error }, 'request failed');
    }
    // an unread body would be read to its end just to be thrown away: close instead
    reply.error(error instanceof GatewayError ? error : new GatewayError('internal_error'), !this.#req.complete);
  }
}

/** The head of a request, however it was read. */
export function headOf(req: IncomingMessage | RepeatedRequest): RequestHead {
  return req instanceof RepeatedRequest || req instanceof BareRequest ? req.head : new RequestHead(req.rawHeaders);
}

/** A strict budget holds whatever is in flight: what the call can cost at most has to fit. */
async function reserve({ ledger }: Services, admission: Admission, call: Call): Promise<void> {
  const { requestId, payer, month, model } = admission;
  const fits = await ledger.reserve({ requestId, companyId: payer.companyId, month, ...call.bound(model) });
  if (!fits) throw new GatewayError('insufficient_quota');
}

/** The digest of the key; remembered with the connection, which nearly always brings the same key again (1 µs). */
function digestOn(socket: Socket & { [LAST]?: { token: string; digest: string } }, head: RequestHead): string {
  const token = head.bearer;
  if (token === null) throw new GatewayError('invalid_api_key');
  const last = socket[LAST];
  if (last !== undefined && last.token === token) return last.digest;
  const digest = digestOf(token);
  socket[LAST] = { token, digest };
  return digest;
}

const LAST = Symbol('last token');

function live(services: Services, key: ApiKey | null): ApiKey {
  if (key === null || key.expiresAt <= services.clock()) throw new GatewayError('invalid_api_key');
  return key;
}

function companyOf(services: Services, key: ApiKey): Now<Company> {
  const found = services.directory.companyOf(key);
  return found instanceof Promise ? found.then(existing) : existing(found);
}

function existing(company: Company | null): Company {
  if (company === null) throw new GatewayError('invalid_api_key'); // deleted together with its keys a moment ago
  return company;
}
