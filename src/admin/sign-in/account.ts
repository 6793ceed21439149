import { readPassword, verifyPassword } from '../../domain/password.ts';
import { findUser } from '../../store/people/user.ts';
import { replacePassword } from '../operator/user.ts';
import { clientOf, type PageContext, type Route, read, sharerOf } from '../page/context.ts';
import { csrfInput, field, formState } from '../page/field.ts';
import type { Form } from '../page/form.ts';
import { html } from '../page/html.ts';
import { page } from '../page/layout.ts';
import { waitText } from '../page/throttle.ts';
import { knownBrowser, rememberBrowser } from './known-browser.ts';

/** For every user who may sign in: the own account, signing out. */
export const accountRoutes: readonly Route[] = [
  { method: 'GET', path: '/account', action: 'account.use', handle: accountPage },
  { method: 'POST', path: '/account/password', action: 'account.use', handle: setPassword, page: accountPage },
  { method: 'POST', path: '/sign-out', action: 'account.use', handle: signOut },
];

function accountPage(c: PageContext, form: Form): Promise<Response> {
  const { user } = c.var.session;
  const state = formState(form, '/account/password');
  const { account, roles, signIn } = c.var.format.words;
  const company = user.company_name === null ? '.' : account.of(html`<strong>${user.company_name}</strong>`);
  const body = html`<h1>${account.title}</h1>
<p class="lead">${account.lead({ email: user.email, role: roles[user.role] })}${company}</p>
${user.role === 'member' ? html`<p class="empty">${account.member}</p>` : ''}
${
  user.has_password
    ? html`<section class="card"><h2>${account.change}</h2>${state.summary}
<form method="post" action="/account/password" class="stack">${csrfInput(c)}
${field(state, { name: 'current', label: account.current, type: 'password', required: true, autocomplete: 'current-password' })}
${field(state, { name: 'new', label: account.new, type: 'password', required: true, autocomplete: 'new-password', hint: signIn.passwordHint })}
<div class="actions"><button class="primary">${account.button}</button></div></form></section>`
    : html`<p class="empty">${account.organisation}</p>`
}`;
  return page(c, account.title, body);
}

async function setPassword(c: PageContext, form: Form): Promise<Response> {
  const { email, user_id } = c.var.session.user;
  const { account } = form.words;
  const current = form.required('current', (text) => text);
  const wanted = form.required('new', readPassword);
  form.check();
  // as at sign-in: nobody may use an open session to guess the password
  const attempt = c.var.services.attempts(clientOf(c), email, await knownBrowser(c, email));
  const seconds = attempt.closedFor();
  if (seconds > 0) form.refuse('current', account.wrongTooOften(waitText(form.words, seconds)));
  form.check();
  attempt.count();
  const hash = await hashIfRight(c, email, current).catch((error: Error) => {
    attempt.forgive(); // the failure is ours
    throw error;
  });
  if (hash === null) form.refuse('current', account.wrong);
  form.check();
  attempt.forgive();
  rememberBrowser(c, await replacePassword(c, user_id, wanted, hash));
  return c.redirect('/account?done=password', 303);
}

/** The stored hash of a user's password; null: it is another one. */
async function hashIfRight(c: PageContext, email: string, password: string): Promise<string | null> {
  const user = await read(c, (sql) => findUser(sql, email));
  const hash = user?.password_hash ?? null;
  return (await c.var.services.hashing.run(sharerOf(c), () => verifyPassword(password, hash))) ? hash : null;
}

async function signOut(c: PageContext): Promise<Response> {
  await c.var.services.sessions.end(c, c.var.session);
  c.header('clear-site-data', '"cache"'); // answers to forms, which browsers keep for Back and Forward
  return c.redirect('/sign-in?done=signed-out', 303);
}
