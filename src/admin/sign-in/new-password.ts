import { Hono } from 'hono';
import { readPresentEmail } from '../../domain/field.ts';
import { hashPassword, readPassword } from '../../domain/password.ts';
import { NEW_PASSWORD_PATH, newPasswordMail } from '../../domain/wording/person-mail.ts';
import { askNewPassword, resetPassword } from '../../operations/user.ts';
import { actingAs, nameActor } from '../../store/connection/acting-person.ts';
import { findReset, RESET_MINUTES } from '../../store/users/user.ts';
import { sendLater, tellOfAccount, wordsFor } from '../company/mail.ts';
import { backTo, clientOf, type PageContext, type PageEnv } from '../page/context.ts';
import { type FormState, field } from '../page/field.ts';
import type { Form } from '../page/form.ts';
import { html } from '../page/html.ts';
import { blockOf } from '../process/throttle.ts';
import { emptyForm, goOnPage, newPasswordField, orAgain } from './go-on.ts';
import { formBehindLink, sayPage, tokenOf, tooMany } from './link.ts';

const WRITE_MS = 5000;
export const FORGOT_PATH = '/sign-in/forgot';

/**
 * The way back for whoever has forgotten a password: a link by e-mail, which works once, for an hour. Neither the answer
 * nor its time tells whether an address has an account: it is looked for after the answer.
 */
export function newPasswordRoutes(): Hono<PageEnv> {
  const app = new Hono<PageEnv>();
  app.get(FORGOT_PATH, (c) => forgotPage(c, emptyForm(c)));
  app.post(FORGOT_PATH, (c) => orAgain(c, forgotPage, sendLink));
  formBehindLink(app, NEW_PASSWORD_PATH, findReset, { page: newPage, save, ended });
  return app;
}

type Found = NonNullable<Awaited<ReturnType<typeof findReset>>>;

function forgotPage(c: PageContext, form: Form, status?: 422): Promise<Response> {
  const { frame, newPassword: words, signIn } = c.var.format.words;
  const { adminUrl, brand, mail } = c.var.services;
  const back = html`<p><a href="/sign-in">${signIn.title}</a></p>`;
  if (mail === null || adminUrl === null) {
    const help =
      brand.support === null
        ? ''
        : html`<p><a class="button" href="${brand.support}">${frame.contact}</a></p>`;
    return sayPage(c, signIn.forgot, words.noMail, 200, html`${help}${back}`);
  }
  const page = {
    title: signIn.forgot,
    path: FORGOT_PATH,
    lead: html`<p class="lead">${words.lead}</p>`,
    fields: (state: FormState) =>
      field(state, {
        name: 'email',
        label: signIn.email,
        type: 'email',
        required: true,
        autocomplete: 'username',
      }),
    button: words.send,
    below: back,
  };
  return goOnPage(c, form, page, status);
}

async function sendLink(c: PageContext, form: Form): Promise<Response> {
  const { adminUrl, brand, invitations, oidc } = c.var.services;
  if (adminUrl === null) return c.notFound();
  const email = form.required('email', readPresentEmail);
  form.check();
  const network = `new password ${blockOf(clientOf(c))}`;
  const seconds = invitations.closedFor(network);
  if (seconds > 0) return tooMany(c, seconds);
  invitations.attempt(network);
  sendLater(c, 'a link to a new password', async (sql) => {
    await nameActor(sql, email);
    const made = await askNewPassword(sql, email);
    if (made === null) return null;
    const link =
      made.token === null ? null : new URL(NEW_PASSWORD_PATH + made.token, adminUrl).href;
    const asked = {
      link,
      minutes: RESET_MINUTES,
      signIn: oidc === null ? null : new URL('/sign-in', adminUrl).href,
    };
    return { to: email, message: newPasswordMail(asked, wordsFor(made), brand) };
  });
  return backTo(c, '/sign-in', 'new-password-asked');
}

function newPage(c: PageContext, form: Form, { email }: Found, status?: 422): Promise<Response> {
  const { newPassword: words, signIn } = c.var.format.words;
  const page = {
    title: words.choose,
    lead: html`<p class="lead">${words.for(html`<strong>${email}</strong>`)}</p>`,
    fields: (
      state: FormState,
    ) => html`<input type="email" name="username" value="${email}" autocomplete="username" hidden>
${newPasswordField(state, signIn)}`,
    button: words.save,
  };
  return goOnPage(c, form, page, status);
}

/** Nobody is signed in by it: the second factor is asked for as always. */
async function save(c: PageContext, form: Form, { id, email }: Found): Promise<Response> {
  const { db, hashing } = c.var.services;
  const password = form.required('password', readPassword);
  form.check();
  const hash = await hashing.run(id, () => hashPassword(password));
  const isSet = await actingAs(db, email, WRITE_MS, (sql) => resetPassword(sql, tokenOf(c), hash));
  if (!isSet) return ended(c);
  tellOfAccount(c, id, { kind: 'password' });
  return backTo(c, '/sign-in', 'new-password');
}

function ended(c: PageContext): Promise<Response> {
  const { newPassword: words } = c.var.format.words;
  const again = html`<p><a class="button" href="${FORGOT_PATH}">${words.again}</a></p>`;
  return sayPage(c, words.ended, words.endedText, 404, again);
}
