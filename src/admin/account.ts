import { html } from 'hono/html';
import { readPassword } from '../domain/password.ts';
import { deleteSession, deleteSessionsOf } from '../store/session.ts';
import { findUser, setPasswordHash } from '../store/user.ts';
import { field, hidden, problemOf } from './layout.ts';
import { may } from './permission.ts';
import { change, FormRefused, type Problem, type Reply, type Route, read, redirect, type Visit } from './visit.ts';

/** What everybody has who may sign in: a first page, their own account, the way out. */
export const accountRoutes: readonly Route[] = [
  { method: 'GET', path: '/', action: 'account.use', handle: start },
  { method: 'GET', path: '/account', action: 'account.use', handle: (visit) => accountPage(visit, null) },
  { method: 'POST', path: '/account/password', action: 'account.use', handle: setPassword, page: accountPage },
  { method: 'POST', path: '/sign-out', action: 'account.use', handle: signOut },
];

async function start({ person }: Visit): Promise<Reply> {
  const who = { role: person.role, companyId: person.company_id };
  if (may(who, 'company.list', null)) return redirect('/companies');
  if (may(who, 'usage.read', person.company_id)) return redirect(`/companies/${person.company_id}/usage`);
  return redirect('/account');
}

async function accountPage(visit: Visit, problem: Problem | null): Promise<Reply> {
  const { person, csrf } = visit;
  const state = problemOf(problem, '/account/password');
  const where = person.company_name === null ? '' : html` of <strong>${person.company_name}</strong>`;
  const body = html`<h1>Your account</h1>
<p class="lead">${person.email}, ${person.role}${where}.</p>
${
  person.role === 'member'
    ? html`<p class="empty">Keys, usage and settings are for owners and administrators of your company. There is nothing else for you to do here.</p>`
    : ''
}
${
  person.has_password
    ? html`<section class="card"><h2>Change your password</h2>${state.summary}
<form method="post" action="/account/password" class="stack">${hidden(csrf)}
${field(state, { name: 'current', label: 'Current password', type: 'password', required: true, autocomplete: 'current-password' })}
${field(state, { name: 'new', label: 'New password', type: 'password', required: true, autocomplete: 'new-password', hint: 'At least 12 characters. A few random words make a good one.' })}
<div class="actions"><button class="primary">Change password</button></div></form></section>`
    : html`<p class="empty">You sign in with your organisation; there is no password to change here.</p>`
}`;
  return { kind: 'page', title: 'Your account', body };
}

async function setPassword(visit: Visit): Promise<Reply> {
  const { form, person, hashing, session } = visit;
  const current = form.required('current', (text) => text);
  const wanted = form.required('new', readPassword);
  form.check();
  const user = await read(visit, (sql) => findUser(sql, person.email));
  if (!(await hashing.verify(current, async () => user?.password_hash ?? null))) {
    throw new FormRefused({ current: 'is wrong.' });
  }
  const hash = await hashing.hash(wanted);
  await change(visit, async (sql) => {
    await setPasswordHash(sql, person.user_id, hash);
    await deleteSessionsOf(sql, person.user_id, session);
  });
  return redirect('/account?done=password');
}

async function signOut(visit: Visit): Promise<Reply> {
  await read(visit, (sql) => deleteSession(sql, visit.session));
  return { kind: 'redirect', to: '/sign-in?done=signed-out', signOut: true };
}
