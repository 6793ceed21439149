import { readPassword, verifyPassword } from '../../domain/password.ts';
import {
  deleteSessionsOf,
  endSession,
  type ListedSession,
  listSessions,
  type SecondFactor,
} from '../../store/people/session.ts';
import { findUser } from '../../store/people/user.ts';
import { replacePassword } from '../operator/user.ts';
import { change, clientOf, type PageContext, param, type Route, read, sharerOf } from '../page/context.ts';
import { csrfInput, field, formState } from '../page/field.ts';
import type { Form } from '../page/form.ts';
import { type Html, html } from '../page/html.ts';
import { badge, muted, page, table } from '../page/layout.ts';
import { waitText } from '../page/throttle.ts';
import { knownBrowser, rememberBrowser } from './known-browser.ts';

/** For every user who may sign in: the own account, signing out. */
export const accountRoutes: readonly Route[] = [
  { method: 'GET', path: '/account', action: 'account.use', handle: accountPage },
  { method: 'POST', path: '/account/password', action: 'account.use', handle: setPassword, page: accountPage },
  { method: 'GET', path: '/account/sessions', action: 'account.use', handle: sessionsPage },
  { method: 'POST', path: '/account/sessions/:session/sign-out', action: 'account.use', handle: endOne },
  { method: 'POST', path: '/account/sessions/sign-out-others', action: 'account.use', handle: endOthers },
  { method: 'POST', path: '/sign-out', action: 'account.use', lacking: ['code', 'setup'], handle: signOut },
];

const FACTORS: Readonly<Record<SecondFactor, string>> = {
  code: 'password and code',
  provider: 'your organisation',
};

function accountPage(c: PageContext, form: Form): Promise<Response> {
  const { user } = c.var.session;
  const state = formState(form, '/account/password');
  const company =
    user.company_name === null
      ? '.'
      : html` of <strong>${user.company_name}</strong>. When you leave it, another of its owners, or the operator of this service, removes this account.`;
  const body = html`<h1>Your account</h1>
<p class="lead">${user.email}, ${user.role}${company}</p>
${
  user.role === 'member'
    ? html`<p class="empty">Keys, usage and settings are for owners and administrators of your company. There is nothing else for you to do here.</p>`
    : ''
}
${
  user.has_password
    ? html`<section class="card"><h2>Change your password</h2>${state.summary}
<form method="post" action="/account/password" class="stack">${csrfInput(c)}
${field(state, { name: 'current', label: 'Current password', type: 'password', required: true, autocomplete: 'current-password' })}
${field(state, { name: 'new', label: 'New password', type: 'password', required: true, autocomplete: 'new-password', hint: 'At least 12 characters. A few random words make a good one.' })}
<div class="actions"><button class="primary">Change password</button></div></form></section>`
    : html`<p class="empty">You sign in with your organisation; there is no password to change here.</p>`
}
${user.has_password ? factorCard(c) : ''}
<section class="card"><h2>Where you are signed in</h2><p>The browsers in which you are signed in now, and how to end that.</p>
<div class="actions"><a class="button" href="/account/sessions">Your sessions</a></div></section>
${keptCard(c)}`;
  return page(c, 'Your account', body);
}

function factorCard(c: PageContext): Html {
  const { second_factor_since: since } = c.var.session.user;
  const text =
    since === null
      ? html`Signing in asks for your password alone. With a second factor it asks for a code of an app on your phone too, so that the password is of no use to a thief.`
      : html`Signing in asks for a code of your app too, since ${c.var.format.instant(since)}.`;
  return html`<section class="card"><h2>Second factor</h2><p>${text}</p>
<div class="actions"><a class="button" href="/account/second-factor">${since === null ? 'Set up a second factor' : 'Second factor and recovery codes'}</a></div></section>`;
}

function keptCard(c: PageContext): Html {
  const { company_id: company } = c.var.session.user;
  return html`<section class="card"><h2>What is kept about you</h2>
<p>Your address, your role and what you changed are kept; nothing of what you ask models is.</p>
<div class="actions">${company === null ? '' : html`<a class="button" href="/companies/${company}/kept">What is kept, and how long</a> `}<a class="button quiet" href="/account/erasure">Ask to be erased…</a></div></section>`;
}

/** The live sessions of the user. */
async function sessionsPage(c: PageContext): Promise<Response> {
  const { format, session } = c.var;
  const sessions = await read(c, (sql) => listSessions(sql, session.user.user_id, session.digest));
  const cells = {
    Browser: ({ browser, is_own }: ListedSession) =>
      html`${browser ?? 'A browser that is not known'}${is_own ? html` ${badge('good', 'this one')}` : ''}`,
    Began: ({ created_at }: ListedSession) => format.instant(created_at),
    'Last used': ({ last_seen_at, is_own }: ListedSession) => (is_own ? 'now' : format.ago(last_seen_at)),
    'Signed in by': ({ second_factor }: ListedSession) =>
      second_factor === null
        ? session.user.second_factor_since === null
          ? 'password'
          : 'password; waits for a code'
        : FACTORS[second_factor],
    Actions: ({ id, browser, is_own }: ListedSession) =>
      is_own
        ? muted('sign out above')
        : html`<form method="post" action="/account/sessions/${id}/sign-out" class="inline">${csrfInput(c)}<button class="quiet">Sign out<span class="sr"> of ${browser ?? 'a browser that is not known'}</span></button></form>`,
  };
  const body = html`<h1>Your sessions</h1>
<p class="lead">A session ends after two hours without use, and after twelve hours. The address of your computer is not kept.</p>
${table('Sessions', sessions, { cells }, true)}
${
  sessions.length > 1
    ? html`<form method="post" action="/account/sessions/sign-out-others" class="actions">${csrfInput(c)}<button class="danger">Sign out of all others</button></form>`
    : ''
}
<p><a href="/account">Your account</a></p>`;
  return page(c, 'Your sessions', body);
}

async function endOne(c: PageContext): Promise<Response> {
  await change(c, (sql) => endSession(sql, c.var.session.user.user_id, param(c, 'session')));
  return c.redirect('/account/sessions?done=session-ended', 303);
}

async function endOthers(c: PageContext): Promise<Response> {
  const { user, digest } = c.var.session;
  await change(c, (sql) => deleteSessionsOf(sql, user.user_id, digest));
  return c.redirect('/account/sessions?done=sessions-ended', 303);
}

async function setPassword(c: PageContext, form: Form): Promise<Response> {
  const wanted = form.required('new', readPassword);
  const hash = await checkPassword(c, form);
  rememberBrowser(c, await replacePassword(c, c.var.session.user.user_id, wanted, hash));
  return c.redirect('/account?done=password', 303);
}

/**
 * Checks the field `current`, the password of the user who is signed in.
 * @returns its hash
 * @throws FormRefused
 */
export async function checkPassword(c: PageContext, form: Form): Promise<string> {
  const { email } = c.var.session.user;
  const current = form.required('current', (text) => text);
  form.check();
  // as at sign-in: nobody may use an open session to guess the password
  const attempt = c.var.services.attempts(clientOf(c), email, await knownBrowser(c, email));
  const seconds = attempt.closedFor();
  if (seconds > 0) form.refuse('current', `was wrong too often. ${waitText(seconds)}`);
  form.check();
  attempt.count();
  const hash = await hashIfRight(c, email, current).catch((error: Error) => {
    attempt.forgive(); // the failure is ours
    throw error;
  });
  if (hash === null) form.refuse('current', 'is wrong.');
  form.check();
  attempt.forgive();
  return hash as string;
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
