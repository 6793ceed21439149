import { html } from 'hono/html';
import { oneOf, readEmail, readUuid } from '../domain/field.ts';
import { readPassword } from '../domain/password.ts';
import { ROLES } from '../domain/user.ts';
import { listCompanies } from '../store/company.ts';
import { deleteSessionsOf } from '../store/session.ts';
import { insertUser, listUsers, removeUser, setPasswordHash } from '../store/user.ts';
import { badge, field, hidden, problemOf, select, table } from './layout.ts';
import {
  change,
  FormRefused,
  NotFound,
  type Problem,
  param,
  type Reply,
  type Route,
  read,
  redirect,
  type Visit,
} from './visit.ts';

/** Who may sign in, and as what (operators). */
export const userRoutes: readonly Route[] = [
  { method: 'GET', path: '/users', action: 'user.read', handle: (visit) => listPage(visit, null) },
  { method: 'POST', path: '/users', action: 'user.write', handle: create, page: listPage },
  { method: 'GET', path: '/users/:user', action: 'user.write', handle: (visit) => userPage(visit, null) },
  { method: 'POST', path: '/users/:user/password', action: 'user.write', handle: setPassword, page: userPage },
  { method: 'POST', path: '/users/:user/remove', action: 'user.write', handle: remove, page: userPage },
];

async function listPage(visit: Visit, problem: Problem | null): Promise<Reply> {
  const { users, companies } = await read(visit, async (sql) => ({
    users: await listUsers(sql),
    companies: await listCompanies(sql),
  }));
  const state = problemOf(problem, '/users');
  const rows = users.map((user) => [
    html`<a href="/users/${user.id}">${user.email}</a>`,
    badge('plain', user.role),
    user.company_name ?? html`<span class="muted">all companies</span>`,
    visit.format.instant(user.created_at),
  ]);
  const columns = [{ title: 'E-mail address' }, { title: 'Role' }, { title: 'Company' }, { title: 'Created' }];
  const body = html`<h1>Users</h1>
<p class="lead">Owners and administrators manage keys, usage, settings and assistants of their company. Members may sign in and see none of it. Operators see everything.</p>
${table('All users', columns, rows, 'There are no users.', true)}
<section class="card"><h2>Add a user</h2>${state.summary}
<form method="post" action="/users" class="stack">${hidden(visit.csrf)}
${field(state, { name: 'email', label: 'E-mail address', type: 'email', required: true })}
<div class="pair">${select(state, { name: 'role', label: 'Role', choices: ROLES.map((role) => ({ value: role, text: role })), value: 'owner' })}
${select(state, {
  name: 'company',
  label: 'Company',
  choices: [
    { value: '', text: 'Choose one (none for an operator)' },
    ...companies.map(({ id, name }) => ({ value: id, text: name })),
  ],
  value: '',
})}</div>
${field(state, { name: 'password', label: 'Password', type: 'password', autocomplete: 'new-password', hint: 'At least 12 characters; empty for people who sign in with their organisation only.' })}
<div class="actions"><button class="primary">Add user</button></div></form></section>`;
  return { kind: 'page', title: 'Users', body };
}

async function create(visit: Visit): Promise<Reply> {
  const { form, hashing } = visit;
  const email = form.required('email', readEmail);
  const role = form.required('role', oneOf(...ROLES));
  const company_id = form.optional('company', readUuid);
  const password = form.optional('password', readPassword);
  if (role === 'operator' && company_id !== null) form.refuse('company', 'must not be chosen for an operator.');
  if (role !== 'operator' && company_id === null) form.refuse('company', 'must be chosen for this role.');
  form.check();
  // hashed before the transaction begins: it takes its time
  const hash = password === null ? null : await hashing.hash(password);
  await change(visit, (sql) => insertUser(sql, { email, role, company_id }, hash));
  return redirect('/users?done=created');
}

async function userPage(visit: Visit, problem: Problem | null): Promise<Reply> {
  const user = await find(visit);
  const base = `/users/${user.id}`;
  const state = problemOf(problem, `${base}/password`);
  const removal = problemOf(problem, `${base}/remove`);
  const body = html`<h1>${user.email}</h1><p class="lead">${user.role}${user.company_name === null ? '' : ` of ${user.company_name}`}</p>
<section class="card"><h2>Set a new password</h2>${state.summary}
<form method="post" action="${base}/password" class="stack">${hidden(visit.csrf)}
${field(state, { name: 'password', label: 'New password', type: 'password', required: true, autocomplete: 'new-password', hint: 'At least 12 characters. All sessions of this person end.' })}
<div class="actions"><button class="primary">Set password</button></div></form></section>
<section class="card"><h2>Remove</h2>${removal.summary}
<p>This person is signed out at once and cannot sign in again. Keys they created go on working.</p>
<form method="post" action="${base}/remove" class="actions">${hidden(visit.csrf)}<button class="danger">Remove ${user.email}</button></form></section>
<p><a href="/users">All users</a></p>`;
  return { kind: 'page', title: user.email, body };
}

async function setPassword(visit: Visit): Promise<Reply> {
  const { form, hashing } = visit;
  const id = param(visit, 'user');
  const password = form.required('password', readPassword);
  form.check();
  const hash = await hashing.hash(password);
  await change(visit, async (sql) => {
    await setPasswordHash(sql, id, hash);
    await deleteSessionsOf(sql, id, id === visit.person.user_id ? visit.session : null);
  });
  return redirect(`/users/${id}?done=password`);
}

async function remove(visit: Visit): Promise<Reply> {
  const id = param(visit, 'user');
  // whoever removes the last operator cannot undo it
  if (id === visit.person.user_id) throw new FormRefused({ '': 'You cannot remove yourself.' });
  await change(visit, (sql) => removeUser(sql, id));
  return redirect('/users?done=removed');
}

async function find(visit: Visit) {
  const user = (await read(visit, listUsers)).find(({ id }) => id === param(visit, 'user'));
  if (user === undefined) throw new NotFound();
  return user;
}
