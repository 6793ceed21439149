import { randomUUIDv7 } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { admitBudget } from '../domain/budget.ts';
import type { Company } from '../domain/company.ts';
import { GatewayError } from '../domain/errors.ts';
import { admitModel } from '../domain/gate.ts';
import { type ApiKey, digestOf } from '../domain/key.ts';
import type { Now } from '../domain/ports.ts';
import { SCOPE_BIT, type Scope } from '../domain/scope.ts';
import type { Admission } from '../domain/usage.ts';
import { Account } from './account.ts';
import { ClientGone, readBody } from './body.ts';
import type { Call, Operation } from './call.ts';
import { RequestHead } from './head.ts';
import { renderModel, renderModels } from './models.ts';
import { Reply } from './reply.ts';
import { RequestLine } from './request-line.ts';
import { findRoute, type Route } from './router.ts';
import type { Services } from './services.ts';

/** One API request from its head to its answer. Never throws: whatever goes wrong is answered and logged. */
export async function handle(services: Services, req: IncomingMessage, res: ServerResponse): Promise<void> {
  const reply = new Reply(res, randomUUIDv7());
  const line = new RequestLine(reply);
  if (services.tracer !== null) line.trace = services.tracer.begin(req, reply.requestId);
  res.on('close', () => {
    reply.watcher?.onClientClose();
    services.overload.leave();
    services.requestLog.tell(line);
  });
  try {
    const head = new RequestHead(req.rawHeaders);
    head.requireOneMeaning(req.httpVersionMinor, services.limits.maxHeaders); // 400, 431
    const route = findRoute(req.method as string, req.url as string, services.basePath, head.host); // 404, 405
    if (route.name === 'operation') await operate(services, req, head, route.operation, route.id, line);
    else await list(services, req, head, route, line);
  } catch (error) {
    refuse(services, req, line, error);
  }
}

/** The order of checks is the contract's: key, scope, body, model or assistant, EU gate, budget, upstream. */
async function operate(
  services: Services,
  req: IncomingMessage,
  head: RequestHead,
  operation: Operation,
  id: string,
  line: RequestLine,
): Promise<void> {
  line.endpoint = operation.endpoint;
  const found = authenticate(services, req, head); // 401, by the digest in memory
  const key = found instanceof Promise ? await found : found; // an await costs a turn even where nothing is to wait for
  line.companyId = key.companyId;
  requireScope(key, operation.scope); // 403, before a byte of the body is read
  head.requireJson(); // 415
  if (head.expectsContinue && head.contentLength <= services.maxBodyBytes) line.reply.res.writeContinue();
  line.askedAt = performance.now();
  const body = await readBody(req, head.contentLength, services.maxBodyBytes); // 413
  line.wholeAt = body.wholeAt;
  const owner = companyOf(services, key);
  const company = owner instanceof Promise ? await owner : owner;
  const read = operation.read(services, body, key.companyId, id); // 400, or 404 for an assistant
  const call = read instanceof Promise ? await read : read;
  const model = admitModel(company, call.slug, operation.kind, call.slugParam); // 404, then 403 at the EU gate
  line.slug = model.slug;
  const at = services.clock();
  const month = services.calendar.month(at); // fixed here: gate, budget and ledger speak of the same month
  const spent = services.ledger.spent(company.id, month);
  const sum = typeof spent === 'bigint' ? spent : await spent;
  if (company.budget !== null && sum > company.budget) services.metrics.overBudget(month, sum - company.budget);
  admitBudget(company, sum); // 402
  const admission: Admission = {
    requestId: line.reply.requestId,
    companyId: company.id,
    keyId: key.id,
    model,
    endpoint: operation.endpoint,
    at,
    month,
  };
  if (company.strict && company.budget !== null) await reserve(services, admission, call); // 402
  const sent = call.forward(model);
  const account = new Account(services, admission, company, sent);
  if (line.reply.res.destroyed) {
    account.drop();
    throw new ClientGone(); // while something was looked up: nobody would notice any more
  }
  line.account = account;
  const answer = call.answer(line.reply, admission, account);
  services.upstream.post(operation.upstreamPath, admission.requestId, sent, answer, line.trace?.outgoing);
  line.sentAt = performance.now();
}

/** A strict budget holds whatever is in flight: what the call can cost at most has to fit. */
async function reserve({ ledger }: Services, admission: Admission, call: Call): Promise<void> {
  const { requestId, companyId, month, model } = admission;
  const fits = await ledger.reserve({ requestId, companyId, month, ...call.bound(model) });
  if (!fits) throw new GatewayError('insufficient_quota');
}

/** GET /models and /models/{id}: any valid key (spec section 5, rule 3). */
async function list(
  services: Services,
  req: IncomingMessage,
  head: RequestHead,
  route: Route,
  line: RequestLine,
): Promise<void> {
  line.endpoint = 'models';
  const key = await authenticate(services, req, head);
  line.companyId = key.companyId;
  const company = await companyOf(services, key);
  const { ownedBy } = services;
  line.reply.json(
    200,
    route.name === 'model' ? renderModel(company, route.id, ownedBy) : renderModels(company, ownedBy),
  );
}

/** Missing, unknown, revoked and expired keys get one identical answer (spec section 5, rule 2). */
function authenticate(services: Services, req: IncomingMessage, head: RequestHead): Now<ApiKey> {
  const found = services.directory.key(digestOn(req.socket, head));
  return found instanceof Promise ? found.then((key) => live(services, key)) : live(services, found);
}

/** The digest of the key; remembered with the connection, which nearly always brings the same key again (1 µs). */
function digestOn(socket: Socket & { [LAST]?: { authorization: string; digest: string } }, head: RequestHead): string {
  const last = socket[LAST];
  if (last !== undefined && last.authorization === head.authorization) return last.digest;
  const token = head.bearer;
  if (token === undefined) throw new GatewayError('invalid_api_key');
  const digest = digestOf(token);
  socket[LAST] = { authorization: head.authorization as string, digest };
  return digest;
}

const LAST = Symbol('last authorization');

function live(services: Services, key: ApiKey | null): ApiKey {
  if (key === null || key.expiresAt <= services.clock()) throw new GatewayError('invalid_api_key');
  return key;
}

function requireScope(key: ApiKey, scope: Scope): void {
  if ((key.scopes & SCOPE_BIT[scope]) === 0) throw new GatewayError('insufficient_scope');
}

function companyOf(services: Services, key: ApiKey): Now<Company> {
  const found = services.directory.company(key.companyId);
  return found instanceof Promise ? found.then(existing) : existing(found);
}

function existing(company: Company | null): Company {
  if (company === null) throw new GatewayError('invalid_api_key'); // deleted together with its keys a moment ago
  return company;
}

function refuse(services: Services, req: IncomingMessage, line: RequestLine, error: unknown): void {
  if (error instanceof ClientGone) return;
  if (!(error instanceof GatewayError)) {
    services.log.error({ request_id: line.reply.requestId, err: error }, 'request failed');
  }
  // an unread body would be read to its end just to be thrown away: close instead
  line.reply.error(error instanceof GatewayError ? error : new GatewayError('internal_error'), !req.complete);
}
