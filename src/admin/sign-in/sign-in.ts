import { Hono } from 'hono';
import { HTTPException } from 'hono/http-exception';
import type { ContentfulStatusCode } from 'hono/utils/http-status';
import { FieldError, readEmail } from '../../domain/field.ts';
import { changeText } from '../../domain/language/refusal-text.ts';
import { Refused, refusal } from '../../domain/refusal.ts';
import { NO_OPERATOR } from '../../domain/wording/start-notice.ts';
import { signInByProvider } from '../../operations/group.ts';
import { acceptInvitation } from '../../operations/invitation.ts';
import { endSessions } from '../../operations/user.ts';
import { actingAs } from '../../store/connection/acting-person.ts';
import { findInvitation } from '../../store/users/invitation.ts';
import { findUser, hasOperator } from '../../store/users/user.ts';
import type { PageContext, PageEnv, PageServices } from '../page/context.ts';
import type { FormState } from '../page/field.ts';
import { Form } from '../page/form.ts';
import { html } from '../page/html.ts';
import { plainPage } from '../page/layout.ts';
import { pageLanguage } from '../page/locale.ts';
import { liveSession, openSession } from '../page/session.ts';
import { codeSent, openCode } from './code.ts';
import {
  goOnPage,
  leadingTo,
  localAddress,
  nextField,
  passwordFields,
  providerLink,
  readSmallForm,
  refuseGoingOn,
} from './go-on.ts';
import { joined } from './invitation.ts';
import { FORGOT_PATH } from './new-password.ts';
import { failureOf, NoAttempt, Oidc } from './oidc.ts';
import { passwordSignIn } from './sign-in-attempt.ts';

const READ_MS = 2000;
const WRITE_MS = 5000;

/** The sign-in page, for a password and for OpenID Connect. It leads to the address that was asked for. */
export function signInRoutes(services: PageServices): Hono<PageEnv> {
  const app = new Hono<PageEnv>();
  app.get('/sign-in', (c) => {
    const values = new URLSearchParams({ next: c.req.query('next') ?? '' });
    return signInPage(c, new Form(values, '/sign-in', c.var.format.language));
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
  const form = readSmallForm(c);
  const { values } = form;
  const result = await passwordSignIn(c, values.get('email') ?? '', values.get('password') ?? '');
  if ('message' in result) return refuse(c, result.status, result.message, form);
  return c.redirect(localAddress(values.get('next')), 303);
}

async function beginOidc(c: PageContext, oidc: Oidc): Promise<Response> {
  const asked = c.req.query('invitation') ?? '';
  const invitation = /^[\w-]{43}$/.test(asked) ? asked : '';
  const to = await oidc
    .begin(c, localAddress(c.req.query('next')), invitation, c.req.query('account') === 'other')
    .catch(async (error: unknown) => {
      c.var.services.log.warn(
        { reason: await failureOf(error) },
        'admin: the identity provider cannot be reached',
      );
      throw new HTTPException(503, { message: c.var.format.words.signIn.providerAway });
    });
  return c.redirect(to, 303);
}

async function finishOidc(c: PageContext, oidc: Oidc): Promise<Response> {
  const { db, log } = c.var.services;
  const { words } = c.var.format;
  const { signIn } = words;
  const form = new Form(new URLSearchParams(), '/sign-in', c.var.format.language);
  let found: Awaited<ReturnType<Oidc['finish']>>;
  try {
    found = await oidc.finish(c);
  } catch (error) {
    if (error instanceof NoAttempt && (await liveSession(c)) !== null)
      return c.redirect(localAddress(error.next), 303);
    log.warn({ reason: await failureOf(error) }, 'admin: single sign-on failed');
    return refuse(c, 401, signIn.failed, form);
  }
  const { email, lack, groups, next, invitation } = found;
  const nobody = (reason: string, told: string) => {
    log.warn({ reason }, 'admin: single sign-on found no account');
    // the provider, which knows this person already, would otherwise come back with the same account
    const again = new URLSearchParams({ next, account: 'other' });
    if (invitation !== '') again.set('invitation', invitation);
    refuseGoingOn(c, form, told);
    return signInPage(c, form, 403, `/sign-in/oidc?${again}`);
  };
  if (email === null) return nobody(lack, signIn.unconfirmed);
  const present = await db.run(READ_MS, (sql) => findUser(sql, email));
  if (present === null && !isAddress(email))
    return nobody(
      'no user has the address, and none can have it',
      refusal('noAccount').in(words.refusals),
    );
  const joining = present === null && invitation !== '' ? await join(c, email, invitation) : null;
  if (joining !== null) return joined(c, joining, 'provider');
  try {
    const signedIn = await actingAs(db, email, WRITE_MS, (sql) =>
      signInByProvider(sql, email, groups),
    );
    if (signedIn.user === null) return nobody(signedIn.reason, signedIn.told.in(words.refusals));
    await openSession(c, signedIn.user.id, {
      language: pageLanguage(c.var.format.language),
      secondFactor: 'provider',
    });
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    // the role that the groups give is refused, for example by a closed company: they give none then
    if (present !== null) await db.run(READ_MS, (sql) => endSessions(sql, present.id));
    return nobody(error.message, changeText(words, error));
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

/** Where single sign-on ends in a tab of its own; see src/admin/resume-after-sign-in.ts. */
function donePage(c: PageContext): Promise<Response> {
  const { signIn } = c.var.format.words;
  const body = html`<div class="narrow"><h1>${signIn.done}</h1><p>${signIn.closeTab}</p><p><a href="/">${signIn.orStart}</a></p></div>`;
  return plainPage(c, signIn.done, body);
}

/** Accepts an invitation for an address that the identity provider confirms; null when it is for another one, or has ended. */
function join(c: PageContext, email: string, token: string) {
  return actingAs(c.var.services.db, email, WRITE_MS, async (sql) => {
    const invitation = await findInvitation(sql, token);
    return invitation?.email === email ? acceptInvitation(sql, token, null) : null;
  });
}

/** Shows the sign-in page again with a message. */
function refuse(
  c: PageContext,
  status: ContentfulStatusCode,
  message: string,
  form: Form,
): Promise<Response> {
  refuseGoingOn(c, form, message);
  return signInPage(c, form, status);
}

async function signInPage(
  c: PageContext,
  form: Form,
  status?: ContentfulStatusCode,
  toOidc = leadingTo('/sign-in/oidc', form.values.get('next') ?? ''),
): Promise<Response> {
  const { oidc, db } = c.var.services;
  const isBegun = await db.run(READ_MS, hasOperator).catch(() => true); // the page itself needs no database
  const { signIn } = c.var.format.words;
  const page = {
    title: signIn.title,
    path: '/sign-in',
    lead: isBegun
      ? ''
      : html`<p class="notice">${NO_OPERATOR.text} Make one with the command <code>${NO_OPERATOR.command}</code></p>`,
    fields: (state: FormState) => html`${nextField(state)}${passwordFields(state, signIn)}`,
    button: signIn.button,
    below: html`${oidc === null ? '' : providerLink(toOidc, signIn)}
<p><a href="${FORGOT_PATH}">${signIn.forgot}</a></p>`,
  };
  return goOnPage(c, form, page, status);
}
