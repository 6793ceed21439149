import type { IncomingMessage, ServerResponse } from 'node:http';
import { html } from 'hono/html';
import { RefusedChange } from '../domain/refused-change.ts';
import { writable } from '../runtime/node-http.ts';
import { DatabaseUnavailable } from '../store/database-error.ts';
import { accountRoutes } from './account.ts';
import { reasonOf, send } from './answer.ts';
import { type Assets, readAssets } from './assets.ts';
import { assistantRoutes } from './assistant.ts';
import { auditRoutes } from './audit.ts';
import { companyRoutes } from './company.ts';
import { Format } from './format.ts';
import { Hasher } from './hasher.ts';
import type { Html } from './html.ts';
import { keyRoutes } from './key.ts';
import { chrome, document, notice, plainChrome } from './layout.ts';
import { modelRoutes } from './model.ts';
import { isTheirs, may } from './permission.ts';
import { findRoute } from './router.ts';
import type { AdminServices } from './services.ts';
import { isCsrfToken, Sessions } from './session.ts';
import { type Outcome, SignIn, signInPage } from './signin.ts';
import { Busy, Turnstile } from './turnstile.ts';
import { usageRoutes } from './usage.ts';
import { userRoutes } from './user.ts';
import { Form, FormRefused, NotFound, type Problem, type Reply, type Route, type Visit } from './visit.ts';

/** Every page and form of people who are signed in. */
export const ROUTES: readonly Route[] = [
  ...accountRoutes,
  ...companyRoutes,
  ...usageRoutes,
  ...keyRoutes,
  ...modelRoutes,
  ...assistantRoutes,
  ...userRoutes,
  ...auditRoutes,
];

const MAX_FORM_BYTES = 1 << 20; // system prompts are long
const MAX_SIGN_IN_BYTES = 8192;
const PAGES_AT_ONCE = 4;
const PAGES_WAITING = 64;
const SLOW_AT_ONCE = 3; // exports and trial runs; one database connection each at most
const REQUESTS_PER_SECOND = 100; // with bursts of twice that: what pages may take from the API's event loop

/** A refusal with a page of its own. */
class Refused extends Error {
  override readonly name = 'Refused';
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** The administration area: pages for people, apart from the API's hot path. */
export class Area {
  readonly #services: AdminServices;
  readonly #assets: Assets = readAssets();
  readonly #sessions: Sessions;
  readonly #signIn: SignIn;
  readonly #hashing = new Hasher();
  readonly #pages = new Turnstile({ atOnce: PAGES_AT_ONCE, places: PAGES_WAITING });
  readonly #slow = new Turnstile({ atOnce: SLOW_AT_ONCE, places: 0 });
  readonly #secure: boolean;
  #allowance = 2 * REQUESTS_PER_SECOND;
  #allowedAt = 0;

  constructor(services: AdminServices) {
    this.#services = services;
    this.#secure = services.url?.protocol === 'https:';
    this.#sessions = new Sessions(services.db, this.#secure);
    this.#signIn = new SignIn(services, this.#sessions, this.#hashing);
  }

  async answer(path: string, req: IncomingMessage, res: ServerResponse): Promise<void> {
    if (!this.#allow()) {
      res.setHeader('connection', 'close');
      res.setHeader('retry-after', '1');
      return send(res, 503, 'text/plain', 'too many requests\n');
    }
    const asset = Object.values(this.#assets).find((each) => each.path === path);
    if (asset !== undefined) {
      this.#protect(res);
      res.setHeader('cache-control', 'public, max-age=31536000, immutable');
      return send(res, 200, asset.type, asset.body);
    }
    const query = new URLSearchParams((req.url as string).slice(path.length + 1));
    try {
      // sign-in attempts wait for hashing, not here: they must not keep pages from others
      if (path === '/sign-in' || path.startsWith('/sign-in/')) await this.#answerStranger(path, query, req, res);
      else await this.#answerPerson(path, query, req, res);
    } catch (error) {
      const { status, message } = explain(error);
      if (status === 500) throw error;
      if (res.headersSent) return void res.destroy();
      if (status === 503) res.setHeader('retry-after', '2');
      this.#sendPage(res, status, titleOf(status), plainChrome(), errorPage(status, message));
    }
  }

  /** Signing in, by whichever way. */
  async #answerStranger(
    path: string,
    query: URLSearchParams,
    req: IncomingMessage,
    res: ServerResponse,
  ): Promise<void> {
    const { oidc } = this.#signIn;
    const show = (outcome: Exclude<Outcome, { cookies: string[]; status?: never }> | null, email = '', next = '') => {
      const { status = 200, message = null, retryAfter, cookies } = outcome ?? {};
      if (retryAfter !== undefined) res.setHeader('retry-after', String(retryAfter));
      if (cookies !== undefined) res.setHeader('set-cookie', cookies);
      const page = signInPage({ oidc: oidc !== null, message, email, next });
      this.#sendPage(res, status, 'Sign in', plainChrome(), html`${notice(query)}${page}`);
    };
    const finish = (outcome: Outcome, email: string, next: string) => {
      if ('status' in outcome) return show(outcome, email, next);
      res.setHeader('set-cookie', outcome.cookies);
      this.#redirect(res, isLocal(next) ? next : '/');
    };

    if (path === '/sign-in' && isReading(req)) return show(null, '', query.get('next') ?? '');
    if (path === '/sign-in' && req.method === 'POST') {
      const form = await this.#readForm(req, MAX_SIGN_IN_BYTES);
      return finish(await this.#signIn.withPassword(req, form), form.get('email') ?? '', form.get('next') ?? '');
    }
    if (path === '/sign-in/oidc' && oidc !== null && req.method === 'GET') {
      const { to, cookie } = await oidc.begin().catch((error) => {
        this.#services.log.warn({ reason: reasonOf(error) }, 'admin: the identity provider cannot be reached');
        throw new Refused(503, 'The identity provider cannot be reached. Try again, or sign in with a password.');
      });
      res.setHeader('set-cookie', cookie);
      return this.#redirect(res, to);
    }
    if (path === '/sign-in/oidc/callback' && oidc !== null && req.method === 'GET') {
      return finish(await this.#signIn.withOidc(req), '', '');
    }
    throw new NotFound();
  }

  async #answerPerson(path: string, query: URLSearchParams, req: IncomingMessage, res: ServerResponse): Promise<void> {
    const found = await this.#pages.run(() => this.#sessions.find(req));
    if (found === null) {
      const back = isReading(req) && path !== '/' ? `?next=${encodeURIComponent(path)}` : '';
      return this.#redirect(res, `/sign-in${back}`);
    }
    const { person, csrf, digest } = found;
    const who = { role: person.role, companyId: person.company_id };
    const { route, params } = findRoute(ROUTES, req.method as string, path);
    const company = params.company ?? null;
    // what is not theirs does not exist for them
    if (company !== null && !isTheirs(who, company)) throw new NotFound();
    if (!may(who, route.action, company)) throw new Refused(403, 'Your role does not include this page.');

    const values = route.method === 'POST' ? await this.#readForm(req, MAX_FORM_BYTES) : new URLSearchParams();
    if (route.method === 'POST' && !isCsrfToken(csrf, values.get('csrf'))) {
      throw new Refused(403, 'This form is out of date. Go back, reload the page and try again.');
    }
    const visit: Visit = {
      services: this.#services,
      person,
      session: digest,
      csrf,
      format: new Format(req.headers['accept-language'], this.#services.calendar.timeZone),
      path,
      query,
      params,
      form: new Form(values),
      hashing: this.#hashing,
    };
    const places = route.slow ? this.#slow : this.#pages;
    await places.run(async () => this.#send(res, visit, await respond(route, visit)));
  }

  async #send(res: ServerResponse, visit: Visit, reply: Reply): Promise<void> {
    if (reply.kind === 'page') {
      const body = html`${notice(visit.query)}${reply.body}`;
      return this.#sendPage(res, reply.status ?? 200, reply.title, chrome(visit), body);
    }
    if (reply.kind === 'redirect') {
      if (reply.signOut) res.setHeader('set-cookie', this.#sessions.farewell);
      return this.#redirect(res, reply.to);
    }
    this.#protect(res);
    res.writeHead(200, {
      'content-type': 'text/csv; charset=utf-8',
      'content-disposition': `attachment; filename="${reply.name}"`,
      'cache-control': 'no-store',
    });
    await reply.send((bytes) => writeTo(res, bytes));
    res.end();
  }

  #sendPage(res: ServerResponse, status: number, title: string, top: Html, body: Html): void {
    this.#protect(res);
    // nothing in a page is asynchronous, so neither is the text
    send(res, status, 'text/html; charset=utf-8', String(document(this.#assets, title, top, body)));
  }

  #redirect(res: ServerResponse, to: string): void {
    this.#protect(res);
    res.setHeader('location', to);
    send(res, 303, 'text/plain', '');
  }

  /** @throws Refused */
  async #readForm(req: IncomingMessage, most: number): Promise<URLSearchParams> {
    if (!isFromHere(req, this.#services.url)) throw new Refused(403, 'This form did not come from this site.');
    if (!/^application\/x-www-form-urlencoded\b/i.test(req.headers['content-type'] ?? '')) {
      throw new Refused(415, 'Forms are sent as application/x-www-form-urlencoded.');
    }
    const chunks: Buffer[] = [];
    let length = 0;
    for await (const chunk of req) {
      length += chunk.length;
      if (length > most) throw new Refused(413, 'What was sent is too large.');
      chunks.push(chunk);
    }
    return new URLSearchParams(Buffer.concat(chunks).toString('utf8'));
  }

  #protect(res: ServerResponse): void {
    for (const [name, value] of Object.entries(PROTECTION)) res.setHeader(name, value);
    if (this.#secure) res.setHeader('strict-transport-security', 'max-age=31536000');
  }

  /** A bucket of requests that fills again steadily. */
  #allow(): boolean {
    const now = this.#services.clock();
    const gained = (Math.max(0, now - this.#allowedAt) / 1000) * REQUESTS_PER_SECOND;
    this.#allowance = Math.min(2 * REQUESTS_PER_SECOND, this.#allowance + gained);
    this.#allowedAt = now;
    if (this.#allowance < 1) return false;
    this.#allowance--;
    return true;
  }
}

const PROTECTION: Readonly<Record<string, string>> = {
  'content-security-policy':
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'same-origin', // "no-referrer" would take the origin from our own forms
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': 'camera=(), geolocation=(), microphone=()',
};

/** Runs a route; a form that is refused is shown again. */
async function respond(route: Route, visit: Visit): Promise<Reply> {
  try {
    return await route.handle(visit);
  } catch (error) {
    const messages = complaint(error);
    if (messages === null || route.page === undefined) throw error;
    const problem: Problem = { messages, values: visit.form.values, path: visit.path };
    const reply = await route.page(visit, problem);
    return reply.kind === 'page' ? { ...reply, status: 422 } : reply;
  }
}

/** What is wrong with a form, when it is the form that is wrong. */
function complaint(error: unknown): Readonly<Record<string, string>> | null {
  if (error instanceof FormRefused) return error.messages;
  if (error instanceof RefusedChange && error.reason === 'conflict') return { '': error.message };
  return null;
}

/** Proof that a form was sent by one of our own pages; browsers send it with every form. */
function isFromHere(req: IncomingMessage, url: URL | null): boolean {
  const site = req.headers['sec-fetch-site'];
  if (site !== undefined) return site === 'same-origin';
  const { origin = '', host } = req.headers;
  return URL.canParse(origin) && (new URL(origin).host === host || origin === url?.origin);
}

function isReading(req: IncomingMessage): boolean {
  return req.method === 'GET' || req.method === 'HEAD';
}

/** A path of ours, not the address of another site. */
function isLocal(path: string): boolean {
  return /^\/[\w-]/.test(path) && !/[^\w/-]/.test(path);
}

/** Waits while the reader is slower; false when it has gone. */
async function writeTo(res: ServerResponse, bytes: Buffer): Promise<boolean> {
  if (!res.destroyed && !res.write(bytes)) await writable(res);
  return !res.destroyed;
}

function explain(error: unknown): { status: number; message: string } {
  if (error instanceof Refused) return { status: error.status, message: error.message };
  if (error instanceof NotFound) return { status: 404, message: 'There is nothing at this address.' };
  if (error instanceof RefusedChange)
    return { status: error.reason === 'not_found' ? 404 : 409, message: error.message };
  if (error instanceof FormRefused) return { status: 422, message: error.message };
  if (error instanceof Busy) return { status: 503, message: 'Too many are asking at once. Try again in a moment.' };
  if (error instanceof DatabaseUnavailable) {
    return { status: 503, message: 'The database cannot be reached. Try again shortly; the API goes on without it.' };
  }
  return { status: 500, message: 'Something went wrong.' };
}

function titleOf(status: number): string {
  if (status === 404) return 'Not found';
  if (status === 403) return 'Not permitted';
  return status === 503 ? 'Not available' : 'Refused';
}

function errorPage(status: number, message: string): Html {
  return html`<div class="narrow"><h1>${titleOf(status)}</h1><p>${message}</p><p><a href="/">Back to the start</a></p></div>`;
}
