import { oneOf, readEmail } from '../../domain/field.ts';
import { hashPassword, readPassword } from '../../domain/password.ts';
import { companyMistake, ROLES } from '../../domain/user.ts';
import { resetFactor } from '../../operations/second-factor.ts';
import { changePassword, createUser, removeUser } from '../../operations/user.ts';
import { pageOfUsers, type UserSort } from '../../store/lists/page.ts';
import { findUserById, type UserRow } from '../../store/users/user.ts';
import { tellOfAccount } from '../company/mail.ts';
import { comesBack, roleCell } from '../company/user.ts';
import { askedFirst } from '../page/confirmation.ts';
import {
  backTo,
  change,
  formAt,
  type PageContext,
  pageAt,
  param,
  type Route,
  read,
  removal,
  sharerOf,
} from '../page/context.ts';
import { createCard, type FormState, field, formState, saveForm, select } from '../page/field.ts';
import type { Form } from '../page/form.ts';
import { type Html, html } from '../page/html.ts';
import {
  about,
  badge,
  type Cells,
  companyLink,
  dangerLink,
  linkButton,
  muted,
  type Owned,
  page,
  titledCard,
} from '../page/layout.ts';
import { list, listQuery } from '../page/list.ts';
import { companyPicker, readPickedCompany } from '../page/picker.ts';

/** The users who may sign in, and their roles, for operators. */
export const userRoutes: readonly Route[] = [
  pageAt('/users', 'user.read', listPage),
  formAt('/users', 'user.write', create, { page: listPage }),
  pageAt('/users/:user', 'user.write', userPage),
  formAt('/users/:user/password', 'user.write', setPassword, { page: userPage }),
  ...askedFirst('/users/:user/second-factor', 'user.write', askReset, reset),
  ...askedFirst('/users/:user/remove', 'user.write', askRemoval, remove),
];

const SORTS = { company: 'Company', email: 'E-mail address', role: 'Role', '-created': 'Created' };

async function listPage(c: PageContext, form: Form): Promise<Response> {
  const query = listQuery<UserSort>(c, SORTS);
  const users = await read(c, (sql) => pageOfUsers(sql, query));
  const cells: Cells<UserRow & Owned> = {
    'E-mail address': ({ id, email, erasure_asked_at }) =>
      html`<a href="/users/${id}">${email}</a>${erasure_asked_at === null ? '' : html` ${badge('warn', 'asks to be erased')}`}`,
    Role: (user) => roleCell(user, c.var.format.words),
    Company: (row) => companyLink(row, 'users', 'all companies'),
    'Second factor': ({ second_factor_since: since }) => (since === null ? muted('none') : 'on'),
    Created: ({ created_at }) => c.var.format.instant(created_at),
  };
  const fields = async (
    state: FormState,
  ) => html`${field(state, { name: 'email', label: 'E-mail address', type: 'email', required: true })}
<div class="pair">${select(state, { name: 'role', label: 'Role', choices: ROLES.map((role) => [role, role]), value: 'owner' })}
${await companyPicker(c, state, 'Company', 'Its name or id; empty for an operator.')}</div>
${field(state, { name: 'password', label: 'Password', type: 'password', autocomplete: 'new-password', hint: 'At least 12 characters; empty for users who sign in with their organisation only.' })}`;
  const body = html`<div class="title-row"><h1>Users</h1>${linkButton('/groups', 'Groups')}
${createCard(c, form, { path: '/users', title: 'Add a user', button: 'Add user', isFirst: false, fields })}</div>
${list(c, { path: '/users', caption: 'All users', cells, sorts: SORTS, finds: 'E-mail address or company', empty: 'There are no users.' }, query, users)}
${about(c.var, html`Owners manage their company with its users, budget and EU gate; administrators its keys, models, assistants and usage. Members see their own keys and what these cost, as far as their company lets them. Operators see everything. To let users choose their own passwords, invite them on the Users page of their company.`)}`;
  return page(c, 'Users', body);
}

async function create(c: PageContext, form: Form): Promise<Response> {
  const email = form.required('email', readEmail);
  const role = form.required('role', oneOf(...ROLES));
  const company_id = await readPickedCompany(c, form);
  const password = form.optional('password', readPassword);
  const mistake = companyMistake(role, company_id);
  if (mistake !== null) form.refuse('company', `${mistake}.`);
  form.check();
  // before the transaction: a hash takes a third of a second
  const hash =
    password === null
      ? null
      : await c.var.services.hashing.run(sharerOf(c), () => hashPassword(password));
  await change(c, (sql) => createUser(sql, { email, role, company_id }, hash));
  return backTo(c, '/users', 'created');
}

async function userPage(c: PageContext, form: Form): Promise<Response> {
  const user = await read(c, (sql) => findUserById(sql, param(c, 'user')));
  const base = `/users/${user.id}`;
  const state = formState(form, `${base}/password`);
  const password =
    user.oidc_group !== null
      ? html`${state.summary}<p class="empty">This user has the role by the group <strong>${user.oidc_group}</strong> of the identity provider, and signs in there; there is no password to set.</p>`
      : titledCard(
          'Set a new password',
          html`${state.summary}
${saveForm(c, `${base}/password`, field(state, { name: 'password', label: 'New password', type: 'password', required: true, autocomplete: 'new-password', hint: 'At least 12 characters. All sessions of this user end.' }), 'Set password')}`,
        );
  const body = html`<h1>${user.email}</h1><p class="lead">${user.role}${user.company_id === null ? '' : html` of ${companyLink(user, 'users')}`}</p>
${password}
${factorCard(c, user)}${erasureCard(c, user)}
<p><a href="/users">All users</a> · <a href="${base}/remove">Remove this user…</a></p>`;
  return page(c, user.email, body);
}

function factorCard(c: PageContext, { id, second_factor_since: since }: UserRow): Html {
  const text =
    since === null
      ? html`<p>None: signing in asks for the password alone.</p>`
      : html`<p>On since ${c.var.format.instant(since)}. Whoever has lost phone and recovery codes cannot sign in until it is reset.</p>
<div class="actions">${dangerLink(`/users/${id}/second-factor`, 'Reset…')}</div>`;
  return titledCard('Second factor', text);
}

function erasureCard(
  c: PageContext,
  { email, company_id, id, erasure_asked_at: asked }: UserRow,
): Html | string {
  if (asked === null) return '';
  const how =
    company_id === null
      ? html`Erase with the command <code>tollgate user erase --email ${email}</code>`
      : html`<a href="/companies/${company_id}/users/${id}/erase">Erase this person…</a>`;
  return titledCard(
    'Asks to be erased',
    html`<p>Asked on ${c.var.format.instant(asked)}. ${how}</p>`,
  );
}

async function askReset(c: PageContext) {
  const { id, email } = await read(c, (sql) => findUserById(sql, param(c, 'user')));
  const text = html`<p>Be sure who asks: a thief of the password asks for the same. ${email} is signed out everywhere, is told by e-mail, and signs in with the password alone until a second factor is set up anew.</p>`;
  return {
    title: `Reset the second factor of ${email}?`,
    button: 'Reset',
    back: `/users/${id}`,
    text,
  };
}

async function reset(c: PageContext): Promise<Response> {
  const id = param(c, 'user');
  await change(c, (sql) => resetFactor(sql, id));
  tellOfAccount(c, id, { kind: 'reset' });
  return backTo(c, `/users/${id}`, 'factor-reset');
}

async function setPassword(c: PageContext, form: Form): Promise<Response> {
  const id = param(c, 'user');
  const password = form.required('password', readPassword);
  form.check();
  await replacePassword(c, id, password);
  return backTo(c, `/users/${id}`, 'password');
}

/**
 * Stores a user's new password and ends the user's sessions, but for the one of this request.
 * @param former as of `updatePassword`
 * @returns the hash of the new password
 */
export async function replacePassword(
  c: PageContext,
  userId: string,
  password: string,
  former: string | null = null,
) {
  const { services, session } = c.var;
  const hash = await services.hashing.run(sharerOf(c), () => hashPassword(password));
  await change(c, (sql) => changePassword(sql, userId, hash, former, session.digest));
  tellOfAccount(c, userId, { kind: 'password' });
  return hash;
}

async function askRemoval(c: PageContext) {
  const user = await read(c, (sql) => findUserById(sql, param(c, 'user')));
  const whose = user.company_name === null ? user.role : `${user.role} of ${user.company_name}`;
  const text = html`<p><strong>${user.email}</strong>, ${whose}</p>
<p>This user is signed out at once and ${comesBack(user, c.var.format.words)}. The user’s own keys are revoked. Keys of companies, administration tokens and open invitations that this user made keep working: revoke or withdraw those that should not.</p>`;
  return { title: 'Remove this user?', button: 'Remove user', back: `/users/${user.id}`, text };
}

async function remove(c: PageContext, form: Form): Promise<Response> {
  const id = param(c, 'user');
  if (id === c.var.session.user.user_id) form.refuse('', 'You cannot remove yourself.');
  form.check();
  await removal(c, (sql) => removeUser(sql, id));
  return backTo(c, '/users', 'removed');
}
