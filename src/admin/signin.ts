import { Hono } from 'hono';
import { html } from 'hono/html';
import { HTTPException } from 'hono/http-exception';
import type { ContentfulStatusCode } from 'hono/utils/http-status';
import { verifyPassword } from '../domain/password.ts';
import { actingAs } from '../store/actor.ts';
import { acceptInvitation, findInvitation } from '../store/invitation.ts';
import { findUser } from '../store/user.ts';
import { clientOf, type PageContext, type PageEnv, type PageServices } from './context.ts';
import { field, formState } from './field.ts';
import { Form, readForm } from './form.ts';
import { joined } from './invitation.ts';
import { plainPage } from './layout.ts';
import { Oidc } from './oidc.ts';
import { Busy } from './semaphore.ts';
import { waitText } from './throttle.ts';

const MAX_FORM_BYTES = 8192;
const READ_MS = 2000;
const WRITE_MS = 5000;
const WRONG = 'The e-mail address or the password is wrong.';
const UNKNOWN = 'The identity provider knows you, but there is no account for your verified e-mail address here.';

/**
 * Signing in with a password or with OpenID Connect. Neither the answer nor its time tells whether
 * an e-mail address has an account: every attempt that is not throttled costs one password hash.
 */
export function signInRoutes(services: PageServices): Hono<PageEnv> {
  const app = new Hono<PageEnv>();
  app.get('/sign-in', (c) => {
    const values = new URLSearchParams({ next: c.req.query('next') ?? '' });
    return signInPage(c, new Form(values, '/sign-in'));
  });
  app.post('/sign-in', passwordHandler(services));
  if (services.oidc !== null && services.adminUrl !== null) {
    const oidc = new Oidc(services.oidc, new URL(services.adminUrl));
    app.get('/sign-in/oidc', (c) => beginOidc(c, oidc));
    app.get('/sign-in/oidc/callback', (c) => finishOidc(c, oidc));
  }
  app.all('/sign-in/*', (c) => c.notFound());
  return app;
}

function passwordHandler({ attempts, sessions }: PageServices): (c: PageContext) => Promise<Response> {
  return async (c) => {
    const form = readForm(c, MAX_FORM_BYTES);
    const email = (form.values.get('email') ?? '').trim().toLowerCase().slice(0, 254);
    const attempt = attempts(clientOf(c), email);
    const seconds = attempt.closedFor();
    if (seconds > 0) {
      c.header('retry-after', String(seconds));
      return refuse(c, 429, `Too many attempts. ${waitText(seconds)}`, form);
    }
    attempt.count();
    try {
      const id = await findByPassword(c, email, form.values.get('password') ?? '');
      if (id === null) return await refuse(c, 401, WRONG, form);
      await sessions.begin(c, id);
      attempt.forgive();
    } catch (error) {
      attempt.forgive(); // the failure is ours, not the user's
      if (!(error instanceof Busy)) throw error;
      c.header('retry-after', '5');
      return refuse(c, 503, 'Too many people are signing in. Try again in a moment.', form);
    }
    const next = form.values.get('next') ?? '';
    return c.redirect(isLocal(next) ? next : '/', 303);
  };
}

/** The user's id; null when the e-mail address or the password is wrong. @throws Busy */
async function findByPassword(c: PageContext, email: string, password: string): Promise<string | null> {
  const { db, hashing } = c.var.services;
  return hashing.run(async () => {
    const user = await db.run(READ_MS, (sql) => findUser(sql, email));
    const isRight = await verifyPassword(password, user?.password_hash ?? null);
    return isRight && user !== null ? user.id : null;
  });
}

async function beginOidc(c: PageContext, oidc: Oidc): Promise<Response> {
  const asked = c.req.query('invitation') ?? '';
  const to = await oidc.begin(c, /^[\w-]{43}$/.test(asked) ? asked : '').catch((error: Error) => {
    c.var.services.log.warn({ reason: error.stack }, 'admin: the identity provider cannot be reached');
    const message = 'The identity provider cannot be reached. Try again, or sign in with a password.';
    throw new HTTPException(503, { message });
  });
  return c.redirect(to, 303);
}

async function finishOidc(c: PageContext, oidc: Oidc): Promise<Response> {
  const { db, log, sessions } = c.var.services;
  const form = new Form(new URLSearchParams(), '/sign-in');
  let found: Awaited<ReturnType<Oidc['finish']>>;
  try {
    found = await oidc.finish(c);
  } catch (error) {
    log.warn({ reason: (error as Error).message }, 'admin: single sign-on failed');
    return refuse(c, 401, 'Single sign-on did not succeed. Please try again.', form);
  }
  const { email, invitation } = found;
  const user = email === null ? null : await db.run(READ_MS, (sql) => findUser(sql, email));
  if (user === null) {
    const joining = email === null || invitation === '' ? null : await join(c, email, invitation);
    return joining === null ? refuse(c, 403, UNKNOWN, form) : joined(c, joining);
  }
  await sessions.begin(c, user.id);
  return c.redirect('/', 303);
}

/** Accepts an invitation for an address that the identity provider confirms; null when it is for another one, or has ended. */
function join(c: PageContext, email: string, token: string) {
  return actingAs(c.var.services.db, email, WRITE_MS, async (sql) => {
    const invitation = await findInvitation(sql, token);
    return invitation?.email === email ? acceptInvitation(sql, token, null) : null;
  });
}

/** Shows the sign-in page again with a message. */
function refuse(c: PageContext, status: ContentfulStatusCode, message: string, form: Form): Promise<Response> {
  form.refuse('', message);
  return signInPage(c, form, status);
}

function signInPage(c: PageContext, form: Form, status?: ContentfulStatusCode): Promise<Response> {
  const { oidc, adminUrl } = c.var.services;
  const state = formState(form, '/sign-in');
  const body = html`<div class="narrow"><h1>Sign in</h1>
${state.summary}
<form method="post" action="/sign-in" class="card stack">
<input type="hidden" name="next" value="${state.value('next', '')}">
${field(state, { name: 'email', label: 'E-mail address', type: 'email', required: true, autocomplete: 'username' })}
${field(state, { name: 'password', label: 'Password', type: 'password', required: true, autocomplete: 'current-password' })}
<button class="primary">Sign in</button>
</form>
${oidc !== null && adminUrl !== null ? html`<p class="or">or</p><p><a class="button wide" href="/sign-in/oidc">Sign in with your organisation</a></p>` : ''}
</div>`;
  return plainPage(c, 'Sign in', body, status);
}

/** A path of this site, not the address of another one. */
function isLocal(path: string): boolean {
  return /^\/[\w-]/.test(path) && !/[^\w/-]/.test(path);
}
