import { isUtf8 } from 'node:buffer';
import { hash } from 'node:crypto';
import { type Context, Hono } from 'hono';
import type { ContentfulStatusCode } from 'hono/utils/http-status';
import { FieldError } from '../../domain/field.ts';
import { wordsOf } from '../../domain/language/language.ts';
import { ENGLISH } from '../../domain/languages.ts';
import { Refused } from '../../domain/refusal.ts';
import { canSee, may } from '../../operations/frame/permission.ts';
import { type Mistake, refuse } from '../../operations/frame/refused.ts';
import { type Call, hasTag, type Operation, paramsOf } from '../../operations/frame/row.ts';
import { OPERATIONS } from '../../operations/list.ts';
import { claim, keep, type Repeatable } from '../../store/company/idempotent-call.ts';
import { lockRow } from '../../store/company/last-change.ts';
import { DatabaseUnavailable } from '../../store/connection/errors.ts';
import type { Sql } from '../../store/connection/pool.ts';
import { enterCompany, leaveCompany, within } from '../../store/connection/tenant-role.ts';
import { pruneAnswers } from '../../store/gateway/expired.ts';
import { findToken, type TokenRow } from '../../store/users/token.ts';
import { countedChange, type PageServices } from '../page/context.ts';
import { download } from '../page/download.ts';
import type { FormBindings } from '../page/form.ts';
import { PROBLEM_TYPE, problemText } from '../process/problem.ts';
import { Busy, Semaphore } from '../process/semaphore.ts';
import { SESSION_HEADER } from '../process/settings.ts';
import { tooManyChanges } from '../process/throttle.ts';
import { checkBody, checkQuery } from './check.ts';
import { openApi } from './openapi.ts';

/** An id in a path, where capital letters may be typed. */
export const UUID_IN_PATH =
  '[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}';
const USUAL_MS = 5000;
const LONG_MS = 600_000;
const PERMITS = { permits: 3, queue: 64 };
/** Not part of an ETag: it moves without a change. */
const VOLATILE = new Set(['last_used_at', 'last_sign_in_at', 'state']);

interface ApiEnv {
  Bindings: FormBindings;
  Variables: { readonly token: TokenRow; readonly bearer: string };
}
type ApiContext = Context<ApiEnv>;

/** Administration over HTTP, below /api/v1: the operations of list.ts, each one transaction. */
export function serveOperations(services: PageServices): Hono<ApiEnv> {
  const semaphore = new Semaphore(PERMITS);
  const document = JSON.stringify(openApi());
  const app = new Hono<ApiEnv>();
  app.onError((error, c) => {
    const problem = problemOf(error);
    if (problem.status === 500)
      services.log.error({ reason: error.stack }, 'admin: an operation failed');
    return answerProblem(c, problem);
  });
  app.get('/openapi.json', (c) => c.body(document, 200, { 'content-type': 'application/json' }));
  app.use(async (c, next) => {
    const bearer = /^Bearer (\S+)$/i.exec(c.req.header('authorization') ?? '')?.[1] ?? '';
    const token = await semaphore.run(bearer, () =>
      services.db.run(USUAL_MS, (sql) => findToken(sql, bearer)),
    );
    if (token === null)
      throw new Problem(
        401,
        'Send an active administration token of "tollgate token create" as Authorization: Bearer.',
      );
    c.header(SESSION_HEADER, hash('sha256', bearer, 'base64url'));
    c.set('token', token);
    c.set('bearer', bearer);
    return next();
  });
  for (const operation of OPERATIONS) {
    const path = operation.path.replaceAll(/\{(\w+)\}/g, `:$1{${UUID_IN_PATH}}`);
    const permits = operation.isLong ? services.slow : semaphore;
    app.on(operation.method.toUpperCase(), path, (c) =>
      permits.run(sharerOf(c.var.token), () => handle(services, operation, c)),
    );
  }
  app.all('*', () => {
    throw new Problem(404, 'There is no such operation, or an id in its path is none.');
  });
  return app;
}

async function handle(
  services: PageServices,
  operation: Operation,
  c: ApiContext,
): Promise<Response> {
  const { token } = c.var;
  const params = Object.fromEntries(
    Object.entries(c.req.param()).map(([name, id]) => [name, id.toLowerCase()]),
  );
  const company = params.company ?? null;
  const holder = {
    role: token.company_id === null ? 'operator' : 'owner',
    company_id: token.company_id,
  } as const;
  if (company !== null && !canSee(holder, company))
    throw new Problem(404, `There is no company ${company}.`);
  const isChange = operation.method !== 'get' && !operation.isReading;
  if (!may(holder, operation.action, company))
    throw new Problem(403, 'This administration token does not include the operation.');
  if (isChange && token.access !== 'write')
    throw new Problem(403, 'This administration token may only read.');
  if (isChange) countChange(services, token, c);
  const body = operation.body === undefined ? undefined : checkBody(operation, readJson(c));
  for (const [member, action] of Object.entries(operation.memberActions ?? {})) {
    if (Object.hasOwn(body as object, member) && !may(holder, action, company)) {
      const mistakes = [
        { pointer: `#/${member}`, detail: 'is set by the operator of this service' },
      ];
      throw new Problem(403, 'This token may not change all of these members.', mistakes);
    }
  }
  const call: Call = {
    services,
    origin: services.adminUrl ?? new URL(c.req.url).origin,
    actor: `token ${token.name}`,
    role: holder.role,
    judge: refuse,
    company: company ?? '',
    id: params[paramsOf(operation.path).at(-1) ?? ''] ?? '',
    params,
    query: checkQuery(operation, c.req.queries()),
    body,
  };
  if (isChange) return change(services, operation, call, c);
  const run = (sql: Sql) => operation.run(sql, call);
  const done = await within(services.db, company, deadlineOf(operation), run, call.role);
  const { file } = operation;
  if (file === undefined) return answer(c, operation, done as object);
  const sharer = sharerOf(token);
  const described = { name: file.name(call), type: file.type };
  return download(c, services, sharer, described, (write) => file.write(services.db, call, write));
}

/** @throws Problem 429 */
function countChange(services: PageServices, token: TokenRow, c: ApiContext): void {
  const seconds = services.changes.begin(token.company_id, c.env.incoming.rawBody.length);
  if (seconds === 0) return;
  c.header('retry-after', String(seconds));
  throw new Problem(429, tooManyChanges(wordsOf(ENGLISH), seconds));
}

/** Who shares permits: all tokens of one company, or one of an operator. */
function sharerOf({ company_id, id }: TokenRow): string {
  return company_id ?? id;
}

function deadlineOf({ isLong }: Operation): number {
  return isLong ? LONG_MS : USUAL_MS;
}

/** One transaction: the idempotency key, If-Match, the change. What old keys left is forgotten before it. */
async function change(
  services: PageServices,
  operation: Operation,
  call: Call,
  c: ApiContext,
): Promise<Response> {
  const repeatable = repeatableOf(operation, c);
  const ifMatch = c.req.header('if-match');
  const { company } = call.params;
  if (repeatable !== null) await services.db.run(USUAL_MS, pruneAnswers);
  const maker = {
    actor: call.actor,
    company: c.var.token.company_id,
    member: null,
    bytes: c.env.incoming.rawBody.length,
  };
  const result = await countedChange(services, maker, deadlineOf(operation), async (sql) => {
    const before = repeatable === null ? null : await claim(sql, repeatable);
    if (before?.isOther === true)
      throw new Problem(422, 'Use another idempotency key for another request.');
    if (before !== null) return withSecrets(operation, before.answer, before.secret);
    if (company !== undefined) await enterCompany(sql, company, call.role);
    if (ifMatch !== undefined) await requireUnchanged(sql, operation, call, ifMatch);
    const done = (await operation.run(sql, call)) as object | null;
    if (repeatable !== null && done !== null) {
      if (company !== undefined) await leaveCompany(sql);
      await keep(sql, repeatable, withSecrets(operation, done, null), secretsIn(operation, done));
    }
    return done;
  });
  return answer(c, operation, result);
}

/** @throws Problem 412 when the thing is not as it was read */
async function requireUnchanged(
  sql: Sql,
  { resource }: Operation,
  call: Call,
  ifMatch: string,
): Promise<void> {
  if (resource === undefined) throw new Problem(400, 'This operation has no If-Match.');
  await lockRow(sql, resource.table, call.id);
  const etag = etagOf(await resource.find(sql, call));
  const tags = tagsOf(ifMatch);
  if (!tags.includes(etag) && !tags.includes('*'))
    throw new Problem(412, 'Read it again, and change what you read then.');
}

function answer(c: ApiContext, operation: Operation, result: object | null): Response {
  if (result === null || operation.status === 204) return c.body(null, 204);
  if (hasTag(operation)) {
    const etag = etagOf(result);
    c.header('etag', etag);
    const known = tagsOf(c.req.header('if-none-match') ?? '').map((tag) => tag.replace(/^W\//, ''));
    if (operation.method === 'get' && (known.includes(etag) || known.includes('*')))
      return c.body(null, 304);
  }
  return c.json(result, operation.status as 200);
}

/** The tags of If-Match or If-None-Match. */
function tagsOf(header: string): string[] {
  return header.split(',').map((tag) => tag.trim());
}

function etagOf(thing: object): string {
  const text = JSON.stringify(thing, (name, value) => (VOLATILE.has(name) ? undefined : value));
  return `"${hash('sha256', text, 'base64url').slice(0, 22)}"`;
}

/** The members of an answer that are shown once, as one text with a line for each; null: the operation has none. */
function secretsIn({ secret }: Operation, answer: object): string | null {
  if (secret === undefined) return null;
  const shown = [secret]
    .flat()
    .map((path) =>
      path.split('.').reduce<unknown>((part, name) => (part as Members | null)?.[name], answer),
    );
  return shown.map((text) => text ?? '').join('\n');
}

/** An answer with the members that are shown once. @param text of `secretsIn`; null: they are not shown any more */
function withSecrets({ secret = [] }: Operation, answer: object, text: string | null): object {
  const lines = text?.split('\n') ?? [];
  return [secret]
    .flat()
    .reduce<object>(
      (shown, path, n) => withMember(shown as Members, path.split('.'), lines[n] ?? null),
      answer,
    );
}

type Members = Readonly<Record<string, unknown>>;

/** A thing with another value of a member, or of one within it; what is null has none. */
function withMember(
  thing: Members,
  [name = '', ...within]: readonly string[],
  value: string | null,
): Members {
  if (within.length === 0) return { ...thing, [name]: value };
  const part = thing[name] as Members | null;
  return part === null ? thing : { ...thing, [name]: withMember(part, within, value) };
}

/** @returns null without an idempotency key @throws Problem 400 */
function repeatableOf({ method }: Operation, c: ApiContext): Repeatable | null {
  const key = c.req.header('idempotency-key');
  if (key === undefined || method !== 'post') return null;
  if (!/^[\x20-\x7e]{1,200}$/.test(key))
    throw new Problem(400, 'Idempotency-Key must be 1 to 200 ASCII characters.');
  const request = `${c.req.path}\n${c.env.incoming.rawBody.toString()}`;
  return { tokenId: c.var.token.id, token: c.var.bearer, key, request };
}

/** @throws Problem 415, 400 */
function readJson(c: ApiContext): unknown {
  // a PATCH is a merge patch, RFC 7396; a JSON patch, RFC 6902, is something else
  if (
    !/^application\/(?!json-patch\+)([\w.-]+\+)?json\s*(;|$)/i.test(
      c.req.header('content-type') ?? '',
    )
  ) {
    throw new Problem(
      415,
      'Send the body as application/json, or a PATCH as application/merge-patch+json.',
    );
  }
  const { rawBody } = c.env.incoming;
  if (!isUtf8(rawBody)) throw new Problem(400, 'The body is not in UTF-8.'); // names would lose their umlauts
  try {
    return JSON.parse(rawBody.toString());
  } catch {
    throw new Problem(400, 'The body is not JSON.'); // not the parser's words: they quote the body
  }
}

/** What a request is answered with that is refused. */
class Problem extends Error {
  readonly status: ContentfulStatusCode;
  readonly mistakes: readonly Mistake[];

  /** @param detail one sentence for the person who reads the log of the program */
  constructor(status: ContentfulStatusCode, detail: string, mistakes: readonly Mistake[] = []) {
    super(detail);
    this.status = status;
    this.mistakes = mistakes;
  }
}

function answerProblem(c: Context, { status, message, mistakes }: Problem): Response {
  if (status === 401) c.header('www-authenticate', 'Bearer');
  if (status === 503) c.header('retry-after', '2');
  return c.body(problemText(status, message, mistakes), status, { 'content-type': PROBLEM_TYPE });
}

const STATUS = { wrong: 400, missing: 404, conflict: 409 } as const;

function problemOf(error: Error): Problem {
  if (error instanceof Problem) return error;
  if (error instanceof Refused)
    return new Problem(STATUS[error.kind], error.message, error.mistakes);
  if (error instanceof FieldError) return new Problem(400, `A value ${error.message}.`);
  if (error instanceof Busy)
    return new Problem(503, 'Too many operations at once. Try again in a moment.');
  if (error instanceof DatabaseUnavailable) {
    const what = error.code === 'DEADLINE' ? 'did not answer in time' : 'cannot be reached';
    return new Problem(503, `The database ${what}. Try again shortly.`);
  }
  return new Problem(500, 'The gateway failed; its log says why.');
}
