import { Hono } from 'hono';
import { HTTPException } from 'hono/http-exception';
import type { ContentfulStatusCode } from 'hono/utils/http-status';
import { NO_OPERATOR } from '../../domain/text/overview.ts';
import { actingAs } from '../../store/connection/acting-person.ts';
import { acceptInvitation, findInvitation } from '../../store/people/invitation.ts';
import { findUser, hasOperator } from '../../store/people/user.ts';
import type { PageContext, PageEnv, PageServices } from '../page/context.ts';
import { field, formState } from '../page/field.ts';
import { Form, readForm } from '../page/form.ts';
import { html } from '../page/html.ts';
import { plainPage } from '../page/layout.ts';
import { codeSent, openCode } from './code.ts';
import { joined } from './invitation.ts';
import { localAddress } from './local-address.ts';
import { failureOf, Oidc } from './oidc.ts';
import { passwordSignIn } from './sign-in-attempt.ts';

const MAX_FORM_BYTES = 8192;
const READ_MS = 2000;
const WRITE_MS = 5000;
const UNKNOWN = 'The identity provider knows you, but there is no account for your verified e-mail address here.';
const UNCONFIRMED =
  'The identity provider knows you, but confirms no e-mail address of yours. The log of this service says what it lacks.';

/** The sign-in page, for a password and for OpenID Connect. It leads to the address that was asked for. */
export function signInRoutes(services: PageServices): Hono<PageEnv> {
  const app = new Hono<PageEnv>();
  app.get('/sign-in', (c) => {
    const values = new URLSearchParams({ next: c.req.query('next') ?? '' });
    return signInPage(c, new Form(values, '/sign-in'));
  });
  app.post('/sign-in', passwordSent);
  app.get('/sign-in/code', openCode);
  app.post('/sign-in/code', codeSent);
  app.get('/sign-in/done', donePage);
  if (services.oidc !== null && services.adminUrl !== null) {
    const oidc = new Oidc(services.oidc, new URL(services.adminUrl));
    app.get('/sign-in/oidc', (c) => beginOidc(c, oidc));
    app.get('/sign-in/oidc/callback', (c) => finishOidc(c, oidc));
  }
  app.all('/sign-in/*', (c) => c.notFound());
  return app;
}

async function passwordSent(c: PageContext): Promise<Response> {
  const form = readForm(c, MAX_FORM_BYTES);
  const { values } = form;
  const result = await passwordSignIn(c, values.get('email') ?? '', values.get('password') ?? '');
  if ('message' in result) return refuse(c, result.status, result.message, form);
  return c.redirect(localAddress(values.get('next')), 303);
}

async function beginOidc(c: PageContext, oidc: Oidc): Promise<Response> {
  const asked = c.req.query('invitation') ?? '';
  const invitation = /^[\w-]{43}$/.test(asked) ? asked : '';
  const to = await oidc.begin(c, localAddress(c.req.query('next')), invitation).catch(async (error: unknown) => {
    c.var.services.log.warn({ reason: await failureOf(error) }, 'admin: the identity provider cannot be reached');
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
    log.warn({ reason: await failureOf(error) }, 'admin: single sign-on failed');
    return refuse(c, 401, 'Single sign-on did not succeed. Please try again.', form);
  }
  const { email, lack, next, invitation } = found;
  const user = email === null ? null : await db.run(READ_MS, (sql) => findUser(sql, email));
  if (user === null) {
    const joining = email === null || invitation === '' ? null : await join(c, email, invitation);
    if (joining !== null) return joined(c, joining, 'provider');
    log.warn({ reason: lack || 'no user has the address' }, 'admin: single sign-on found no account');
    return refuse(c, 403, email === null ? UNCONFIRMED : UNKNOWN, form);
  }
  await sessions.begin(c, user.id, { secondFactor: 'provider' });
  return c.redirect(localAddress(next), 303);
}

/** Where single sign-on ends in a tab of its own; see kept-form.ts. */
function donePage(c: PageContext): Promise<Response> {
  const body = html`<div class="narrow"><h1>You are signed in</h1><p>Close this tab. In the other one, go on with what you typed.</p><p><a href="/">Or begin at the start page</a></p></div>`;
  return plainPage(c, 'You are signed in', body);
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
  c.set('isRefused', true);
  return signInPage(c, form, status);
}

async function signInPage(c: PageContext, form: Form, status?: ContentfulStatusCode): Promise<Response> {
  const { oidc, db } = c.var.services;
  const isBegun = await db.run(READ_MS, hasOperator).catch(() => true); // the page itself needs no database
  const state = formState(form, '/sign-in');
  const next = state.value('next', '');
  const body = html`<div class="narrow"><h1>Sign in</h1>
${isBegun ? '' : html`<p class="notice">${NO_OPERATOR.text} Make one with the command <code>${NO_OPERATOR.command}</code></p>`}
${state.summary}
<form method="post" action="/sign-in" class="card stack">
<input type="hidden" name="next" value="${next}">
${field(state, { name: 'email', label: 'E-mail address', type: 'email', required: true, autocomplete: 'username' })}
${field(state, { name: 'password', label: 'Password', type: 'password', required: true, autocomplete: 'current-password' })}
<button class="primary">Sign in</button>
</form>
${oidc !== null ? html`<p class="or">or</p><p><a class="button wide" href="/sign-in/oidc${next === '' ? '' : `?${new URLSearchParams({ next })}`}">Sign in with your organisation</a></p>` : ''}
<p class="hint">Forgot your password? The operator of this service sets a new one.</p>
</div>`;
  return plainPage(c, 'Sign in', body, status);
}
