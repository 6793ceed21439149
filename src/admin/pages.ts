import type { RequestListener } from 'node:http';
import { getRequestListener } from '@hono/node-server';
import { Hono, type MiddlewareHandler } from 'hono';
import { csrf } from 'hono/csrf';
import { HTTPException } from 'hono/http-exception';
import { secureHeaders } from 'hono/secure-headers';
import type { ContentfulStatusCode } from 'hono/utils/http-status';
import { LRUCache } from 'lru-cache';
import { FieldError } from '../domain/field.ts';
import type { Words } from '../domain/language/en.ts';
import { changeText, fieldText } from '../domain/language/refusal-text.ts';
import { Refused } from '../domain/refusal.ts';
import type { Logger } from '../log.ts';
import { canSee, isReading, may } from '../operations/frame/permission.ts';
import { companyIfAny } from '../store/company/company.ts';
import { DatabaseUnavailable } from '../store/connection/errors.ts';
import { RouterModels } from '../upstream/router-models.ts';
import { serveOperations, UUID_IN_PATH } from './api/serve.ts';
import { alertRoutes } from './company/alert.ts';
import { assistantRoutes } from './company/assistant.ts';
import { companyRoutes } from './company/company.ts';
import { companyEndRoutes } from './company/company-end.ts';
import { companyModelRoutes } from './company/company-model.ts';
import { keyRoutes } from './company/key.ts';
import { keyEditRoutes } from './company/key-edit.ts';
import { findRoutes } from './company/key-find.ts';
import { ownKeyRoutes } from './company/own-key.ts';
import { playgroundRoutes } from './company/playground.ts';
import { settingsRoutes } from './company/settings.ts';
import { tokenRoutes } from './company/token.ts';
import { companyUserRoutes } from './company/user.ts';
import { compressPages } from './compression.ts';
import { allUsageRoutes } from './operator/all-usage.ts';
import { auditRoutes } from './operator/audit.ts';
import { demoRoutes } from './operator/demo.ts';
import { eventRoutes } from './operator/event.ts';
import { firstStepRoutes } from './operator/first-steps.ts';
import { groupRoutes } from './operator/group.ts';
import { marginRoutes } from './operator/margin.ts';
import { modelRoutes } from './operator/model.ts';
import { modelOfferRoutes } from './operator/model-offer.ts';
import { monthEndRoutes } from './operator/month-end.ts';
import { onboardingRoutes } from './operator/onboarding.ts';
import { overviewRoutes } from './operator/overview.ts';
import { searchRoutes } from './operator/search.ts';
import { userRoutes } from './operator/user.ts';
import { brandAssets, ICON, SCRIPT, STYLE } from './page/assets.ts';
import {
  companyOf,
  isCompanyClosed,
  memberOf,
  type PageContext,
  type PageEnv,
  type PageServices,
  type Route,
  read,
  sharerOf,
} from './page/context.ts';
import { Form, FormRefused, readForm } from './page/form.ts';
import { type Format, formatFor } from './page/format.ts';
import { html } from './page/html.ts';
import { asksExact, plainPage } from './page/layout.ts';
import { liveSession } from './page/session.ts';
import { Busy, Semaphore } from './process/semaphore.ts';
import type { PagesSettings } from './process/settings.ts';
import {
  attemptThrottles,
  changeThrottle,
  invitationThrottle,
  tooManyChanges,
} from './process/throttle.ts';
import { letIn, sendFormAgain, signInWithForm, toSignIn } from './resume-after-sign-in.ts';
import { accountRoutes } from './sign-in/account.ts';
import { alertConsentRoutes } from './sign-in/alert-consent.ts';
import { lackOfSession } from './sign-in/code.ts';
import { erasureRoutes } from './sign-in/erasure.ts';
import { invitationRoutes } from './sign-in/invitation.ts';
import { languageRoute, readerOfPage } from './sign-in/language.ts';
import { newPasswordRoutes } from './sign-in/new-password.ts';
import { secondFactorRoutes } from './sign-in/second-factor.ts';
import { signInRoutes } from './sign-in/sign-in.ts';
import { submit } from './submission.ts';
import { costCentersRoutes } from './usage/cost-centers.ts';
import { endUserRoutes } from './usage/end-users.ts';
import { requestRoutes } from './usage/request.ts';
import { statementRoutes } from './usage/statement.ts';
import { usageRoutes } from './usage/usage.ts';

/** Every page and form of users who are signed in. */
export const ROUTES: readonly Route[] = [
  ...overviewRoutes,
  ...searchRoutes,
  ...accountRoutes,
  ...secondFactorRoutes,
  ...erasureRoutes,
  ...companyRoutes,
  ...settingsRoutes,
  ...onboardingRoutes,
  ...companyEndRoutes,
  ...alertRoutes,
  ...firstStepRoutes,
  ...usageRoutes,
  ...costCentersRoutes,
  ...endUserRoutes,
  ...allUsageRoutes,
  ...statementRoutes,
  ...monthEndRoutes,
  ...requestRoutes,
  ...keyRoutes,
  ...keyEditRoutes,
  ...findRoutes,
  ...ownKeyRoutes,
  ...companyModelRoutes,
  ...modelRoutes,
  ...modelOfferRoutes,
  ...marginRoutes,
  ...demoRoutes,
  ...assistantRoutes,
  ...playgroundRoutes,
  ...companyUserRoutes,
  ...userRoutes,
  ...groupRoutes,
  ...auditRoutes,
  ...eventRoutes,
  ...tokenRoutes,
];

const MAX_FORM_BYTES = 16_384;
const MAX_LONG_FORM_BYTES = 1 << 20;
const PAGES = { permits: 4, queue: 64 };
/** Exports and reports: each holds a database connection, and leaves one to the pages where there are two. */
const slowPermits = (connections: number) => ({
  permits: Math.max(1, Math.min(3, connections - 1)),
  queue: 0,
});
const MAILS = { permits: 16, queue: 0 };
const MODEL_CALLS = { permits: 16, queue: 0 };
const TEXTS = { max: 1000, ttl: 120_000 }; // with the longest call less than the ten minutes that a text works
const HASHING = { permits: 1, queue: 16 };

/** Titles of error pages, and texts for errors without a message. The only such 403 comes from `hono/csrf`. */
function errorTexts(
  { errors }: Words,
  status: number,
): { readonly title: string; readonly text?: string } {
  if (status === 403) return { title: errors.notPermitted, text: errors.otherSite };
  if (status === 404) return { title: errors.notFound, text: errors.nothingHere };
  if (status === 429) return { title: errors.tooMany };
  return { title: status === 503 ? errors.notAvailable : errors.refused };
}

type Given = PagesSettings & Pick<PageServices, 'db' | 'calendar' | 'clock' | 'log'>;

/**
 * The administration area as a listener for node:http. The adapter may not replace the global
 * Request and Response: other code of this process uses them, and pages gain no time by it.
 */
export function startPages(given: Given): RequestListener {
  const services = {
    ...given,
    router: new RouterModels(given.router, given.clock),
    assets: brandAssets(given.brand),
    hashing: new Semaphore(HASHING),
    guesses: new Semaphore(HASHING),
    attempts: attemptThrottles(given.clock),
    invitations: invitationThrottle(given.clock),
    changes: changeThrottle(given.clock),
    slow: new Semaphore(slowPermits(given.databaseConnections)),
    mails: new Semaphore(MAILS),
    modelCalls: new Semaphore(MODEL_CALLS),
    texts: new LRUCache<string, Promise<string>>(TEXTS),
  };
  const pages = new Semaphore(PAGES);
  // by reader: making one takes 1 ms
  const formats = new LRUCache<string, Format>({
    max: 100,
    memoMethod(asked) {
      const [reader = '', exact] = asked.split(' ');
      const { calendar, clock, brand } = services;
      return formatFor(reader, calendar.timeZone, clock, brand.name, exact !== undefined);
    },
  });
  const app = new Hono<PageEnv>();
  app.onError((error, c) => answerError(error, c, services.log));
  app.notFound((c) => errorPage(c, 404));
  app.use(compressPages);
  app.use(protect(given.adminUrl?.startsWith('https:') === true));
  app.use(async (c, next) => {
    c.header('cache-control', 'no-store');
    c.set('services', services);
    c.set('format', formats.memo(readerOfPage(c, null, given.isSecure)));
    await next();
    // the answer to a form, which Back and Forward could not show again without asking for the form once more
    if (
      c.req.method === 'POST' &&
      c.res.headers.get('content-type')?.startsWith('text/html') === true
    )
      c.header('cache-control', 'private, no-cache');
  });
  const { logo, style } = services.assets;
  for (const { path, type, body } of [STYLE, SCRIPT, ICON, logo, style].filter(
    (asset) => asset !== null,
  )) {
    const headers = {
      'content-type': type,
      'cache-control': 'public, max-age=31536000, immutable',
    };
    app.get(path, (c) => c.body(new Uint8Array(body), 200, headers));
  }
  app.route('/api/v1', serveOperations(services)); // programs have no session and send no forms
  app.use(requireOrigin(services.adminUrl));
  app.route('/', languageRoute());
  app.route('/', newPasswordRoutes());
  app.route('/', signInRoutes(services)); // not behind `pages`: attempts wait for their hash
  app.route('/', invitationRoutes());
  app.route('/', alertConsentRoutes());
  app.use(requireSession(pages, formats));
  for (const route of ROUTES) {
    const path = route.path.replaceAll(/:\w+/g, `$&{${UUID_IN_PATH}}`);
    const semaphore = route.permits === undefined ? pages : services[route.permits];
    if (route.method === 'GET') {
      app.get(path, guard(route, pages), (c) =>
        semaphore.run(sharerOf(c), () =>
          route.handle(c, new Form(undefined, null, c.var.format.language)),
        ),
      );
    } else {
      const steps = stepsToPage(route.path.split('/'));
      app.post(path, guard(route, pages), async (c) => {
        if (!isReading(route.action) && route.savesNothing !== true) countChange(c);
        const form = readForm(c, route.long ? MAX_LONG_FORM_BYTES : MAX_FORM_BYTES);
        c.set('format', formats.memo(form.language));
        const page = c.req.path.split('/').slice(0, steps).join('/') || '/';
        c.set('pageAddress', page);
        return semaphore.run(sharerOf(c), () => submit(route, c, form, page));
      });
    }
  }
  return getRequestListener(app.fetch, { overrideGlobalObjects: false });
}

/** How many parts of the address of a form make that of its page: the same, or the nearest above it. */
function stepsToPage(parts: readonly string[]): number {
  const page = parts.join('/') || '/';
  const isPage = ROUTES.some(({ method, path }) => method === 'GET' && path === page);
  return isPage ? parts.length : stepsToPage(parts.slice(0, -1));
}

/** Scripts, styles and forms of this site only, and no frames. */
function protect(secure: boolean): MiddlewareHandler {
  return secureHeaders({
    contentSecurityPolicy: {
      defaultSrc: ["'none'"],
      styleSrc: ["'self'"],
      scriptSrc: ["'self'"],
      connectSrc: ["'self'"], // new rows of a list, the answer of a model
      imgSrc: ["'self'", 'data:'],
      formAction: ["'self'"],
      baseUri: ["'none'"],
      frameAncestors: ["'none'"],
    },
    strictTransportSecurity: secure && 'max-age=31536000',
    xFrameOptions: 'DENY',
    // Links in e-mails are secrets, which no other site may learn. "no-referrer" would hide them from ourselves too: over
    // plain HTTP a browser then sends "Origin: null" with our own forms
    referrerPolicy: 'same-origin',
    permissionsPolicy: { camera: [], geolocation: [], microphone: [] },
  });
}

/**
 * Refuses forms of other sites. Hono accepts a form when either Sec-Fetch-Site or Origin is right;
 * Origin counts here only where a browser sends no Sec-Fetch-Site.
 */
function requireOrigin(adminUrl: string | null): MiddlewareHandler {
  return csrf({
    origin: (origin, c) =>
      c.req.header('sec-fetch-site') === undefined &&
      URL.canParse(origin) &&
      (new URL(origin).host === c.req.header('host') ||
        (adminUrl !== null && origin === new URL(adminUrl).origin)),
  });
}

/** Finds the session of a request, or lets the user sign in. */
function requireSession(
  pages: Semaphore,
  formats: LRUCache<string, Format>,
): MiddlewareHandler<PageEnv> {
  return async (c, next) => {
    const live = await pages.run(c.req.header('cookie') ?? '', () => liveSession(c));
    const session = live ?? (c.req.method === 'POST' ? await signInWithForm(c) : toSignIn(c));
    if (session instanceof Response) return session;
    c.set('session', session);
    const reader = readerOfPage(c, session, c.var.services.isSecure);
    c.set('format', formats.memo(asksExact(c) ? `${reader} exact` : reader));
    return next();
  };
}

/**
 * A session that lacks its second factor is asked for it. Another company is not found, as if it did not exist. A closed company can be read. Every change of it is refused
 * before its form is read.
 */
function guard(route: Route, pages: Semaphore): MiddlewareHandler<PageEnv> {
  return async (c, next) => {
    const lack = lackOfSession(c, c.var.session);
    if (lack !== null && !route.lacking?.includes(lack)) {
      const session = await pages.run(sharerOf(c), () => letIn(c, c.var.session, lack));
      if (session instanceof Response) return session;
      c.set('session', session);
    }
    const { user } = c.var.session;
    const company = companyOf(c);
    if (company !== null && !canSee(user, company)) throw new HTTPException(404);
    if (!may(user, route.action, company)) {
      throw new HTTPException(403, { message: c.var.format.words.errors.role });
    }
    const find = () => read(c, (sql) => companyIfAny(sql, company as string));
    c.set('company', company === null ? null : await pages.run(sharerOf(c), find));
    if (isCompanyClosed(c) && !isReading(route.action) && route.whileClosed !== true) {
      throw new HTTPException(409, { message: c.var.format.words.errors.closed });
    }
    return next();
  };
}

/** @throws HTTPException 429 */
function countChange(c: PageContext): void {
  const { services, session } = c.var;
  const member = memberOf(c);
  const seconds = services.changes.begin(
    session.user.company_id,
    c.env.incoming.rawBody.length,
    member,
  );
  if (seconds === 0) return;
  c.header('retry-after', String(seconds));
  throw new HTTPException(429, {
    message: tooManyChanges(c.var.format.words, seconds, member !== null),
  });
}

async function answerError(error: Error, c: PageContext, log: Logger): Promise<Response> {
  const { words } = c.var.format;
  if (error instanceof HTTPException) return errorPage(c, error.status, error.message);
  if (error instanceof Refused)
    return errorPage(c, error.kind === 'missing' ? 404 : 409, changeText(words, error));
  // in the URL; a form has a message for it
  if (error instanceof FieldError)
    return errorPage(c, 404, words.errors.address(fieldText(words, error)));
  if (error instanceof FormRefused) return errorPage(c, 422, error.message);
  if (error instanceof Busy) return errorPage(c, 503, words.errors.busy);
  if (error instanceof DatabaseUnavailable) {
    return errorPage(
      c,
      503,
      error.code === 'DEADLINE' ? words.errors.databaseSlow : words.errors.databaseAway,
    );
  }
  log.error({ reason: error.stack }, 'admin: a request failed');
  return c.text('internal error\n', 500);
}

async function errorPage(
  c: PageContext,
  status: ContentfulStatusCode,
  message = '',
): Promise<Response> {
  const { words } = c.var.format;
  const { title, text = '' } = errorTexts(words, status);
  if (status === 404) c.set('pageAddress', '/'); // what is not there looks the same whatever was asked for
  if (status === 503) c.header('retry-after', '2');
  const again = status === 429 || status === 503 ? await sendFormAgain(c) : '';
  const body = html`<div class="narrow"><h1>${title}</h1><p>${message || text}</p>${again}<p><a href="/">${words.errors.toStart}</a></p></div>`;
  return plainPage(c, title, body, status);
}
