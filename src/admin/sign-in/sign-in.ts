import { Hono } from 'hono';
import { HTTPException } from 'hono/http-exception';
import type { ContentfulStatusCode } from 'hono/utils/http-status';
import { FieldError, readEmail } from '../../domain/field.ts';
import { NO_OPERATOR } from '../../domain/text/overview.ts';
import { RefusedChange } from '../../domain/text/refused-change.ts';
import { NO_ACCOUNT, signInByProvider } from '../../operations/group.ts';
import { actingAs } from '../../store/connection/acting-person.ts';
import { acceptInvitation, findInvitation } from '../../store/people/invitation.ts';
import { deleteSessionsOf } from '../../store/people/session.ts';
import { findUser, hasOperator } from '../../store/people/user.ts';
import type { PageContext, PageEnv, PageServices } from '../page/context.ts';
import { field, formState } from '../page/field.ts';
import { Form, readForm } from '../page/form.ts';
import { html } from '../page/html.ts';
import { plainPage } from '../page/layout.ts';
import { joined } from './invitation.ts';
import { failureOf, Oidc } from './oidc.ts';
import { passwordSignIn } from './sign-in-attempt.ts';

const MAX_FORM_BYTES = 8192;
const READ_MS = 2000;
const WRITE_MS = 5000;
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
  const { email, lack, groups, next, invitation } = found;
  const nobody = (reason: string, told: string) => {
    log.warn({ reason }, 'admin: single sign-on found no account');
    return refuse(c, 403, told, form);
  };
  if (email === null) return nobody(lack, UNCONFIRMED);
  const present = await db.run(READ_MS, (sql) => findUser(sql, email));
  if (present === null && !isAddress(email))
    return nobody('no user has the address, and none can have it', `${NO_ACCOUNT}.`);
  const joining = present === null && invitation !== '' ? await join(c, email, invitation) : null;
  if (joining !== null) return joined(c, joining);
  try {
    const signedIn = await actingAs(db, email, WRITE_MS, (sql) => signInByProvider(sql, email, groups));
    if (signedIn.user === null) return nobody(signedIn.reason, signedIn.told);
    await sessions.begin(c, signedIn.user.id);
  } catch (error) {
    if (!(error instanceof RefusedChange)) throw error;
    // what the groups say cannot be done, such as in a closed company: then they give nothing
    if (present !== null) await db.run(READ_MS, (sql) => deleteSessionsOf(sql, present.id));
    return nobody(error.message, error.message);
  }
  return c.redirect(localAddress(next), 303);
}

/** Whether an account can have an address. */
function isAddress(email: string): boolean {
  try {
    return readEmail(email) === email;
  } catch (error) {
    if (error instanceof FieldError) return false;
    throw error;
  }
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

/** An address of a page of this site, with its query; the start page in place of anything else, such as another site. */
function localAddress(address: string | null | undefined): string {
  return /^\/[\w-][\w/.~%?&=+:,@!*'()-]{0,2000}$/.test(address ?? '') ? (address as string) : '/';
}
