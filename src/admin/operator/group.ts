import { oneOf, readName } from '../../domain/field.ts';
import { COMPANY_ROLES } from '../../domain/user.ts';
import { changeGroup, createGroup, removeGroup } from '../../operations/group.ts';
import { type GroupSort, pageOfGroups } from '../../store/lists/page.ts';
import { findGroup, type ListedGroup } from '../../store/users/group.ts';
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
} from '../page/context.ts';
import { createCard, type FormState, field, formState, saveForm, select } from '../page/field.ts';
import type { Form } from '../page/form.ts';
import { type Html, html } from '../page/html.ts';
import {
  badge,
  type Cells,
  cancelLink,
  companyLink,
  dangerLink,
  linkButton,
  muted,
  page,
} from '../page/layout.ts';
import { list, listQuery } from '../page/list.ts';
import { companyPicker, readPickedCompany } from '../page/picker.ts';

const BASE = '/groups';
const GROUP = `${BASE}/:group`;
const WRITE = 'group.write';

/** The groups of the identity provider that give roles, for operators. */
export const groupRoutes: readonly Route[] = [
  pageAt(BASE, 'group.read', listPage),
  formAt(BASE, WRITE, create, { page: listPage }),
  pageAt(GROUP, WRITE, groupPage),
  formAt(GROUP, WRITE, changeRole, { page: groupPage }),
  ...askedFirst(`${GROUP}/remove`, WRITE, askRemoval, remove),
];

const SORTS = { company: 'Company', name: 'Group', role: 'Role' };
const CHOICES = COMPANY_ROLES.map((role) => [role, role] as const);

async function listPage(c: PageContext, form: Form): Promise<Response> {
  const query = listQuery<GroupSort>(c, SORTS);
  const groups = await read(c, (sql) => pageOfGroups(sql, query));
  const cells: Cells<ListedGroup> = {
    Group: ({ name }) => html`<strong>${name}</strong>`,
    Role: ({ role }) => badge('plain', role),
    Company: (row) => companyLink(row, 'users', 'all companies'),
    Users: ({ users }) => c.var.format.count(users),
    Actions: ({ id, name, role }) =>
      html`<span class="row-actions">${
        role === 'operator' ? '' : linkButton(`${BASE}/${id}`, 'Change role', `of ${name}`)
      } ${dangerLink(`${BASE}/${id}/remove`, 'Remove', name)}</span>`,
  };
  const fields = async (
    state: FormState,
  ) => html`${field(state, { name: 'name', label: 'Group', required: true, hint: 'Exactly as the identity provider tells it, such as /acme/admins, or its id.' })}
<div class="pair">${select(state, { name: 'role', label: 'Role', choices: CHOICES, value: 'member' })}
${await companyPicker(c, state, 'Company', 'Its name or id.')}</div>`;
  const isFirst = groups.total === 0 && query.search === '';
  const body = html`<h1>Groups</h1>
<p class="lead">Whoever signs in with the organisation gets the company and the role that a group of the identity provider gives, at each sign-in, and loses them when the group is gone. Accounts that somebody made by hand stay as they are. A group makes operators only by <code>tollgate group create</code> or <code>tollgate apply</code>.</p>
${stateOfReading(c)}
${createCard(c, form, { path: BASE, title: 'Add a group', button: 'Add group', isFirst, fields })}
${list(c, { path: BASE, caption: 'Groups that give roles', cells, figures: ['Users'], sorts: SORTS, empty: 'No group gives a role yet. Add one above, by its name at the identity provider.' }, query, groups)}
<p><a href="/users">All users</a></p>`;
  return page(c, 'Groups', body);
}

/** Whether groups are read at all. */
function stateOfReading(c: PageContext): Html {
  const claim = c.var.services.oidc?.groupsClaim ?? null;
  return claim === null
    ? html`<p class="notice warn-notice">Groups give nothing now: <code>OIDC_GROUPS_CLAIM</code> is not set.</p>`
    : html`<p>They are read from the claim <code>${claim}</code>.</p>`;
}

async function create(c: PageContext, form: Form): Promise<Response> {
  const name = form.required('name', readName);
  const role = form.required('role', oneOf(...COMPANY_ROLES));
  const company_id = await readPickedCompany(c, form);
  if (company_id === null) form.refuse('company', 'must be given.');
  form.check();
  await change(c, (sql) => createGroup(sql, { name, role, company_id }));
  return backTo(c, BASE, 'created');
}

async function groupPage(c: PageContext, form: Form): Promise<Response> {
  const group = await find(c);
  const path = `${BASE}/${group.id}`;
  const state = formState(form, path);
  const body = html`<h1>Role by ${group.name}</h1>
<p class="lead">${group.role} of ${companyLink(group, 'users')}, for ${whoHas(c, group)}</p>
<section class="card">${state.summary}
${saveForm(c, path, select(state, { name: 'role', label: 'Role', choices: CHOICES, value: group.role, hint: 'Holds at once for all who have theirs by this group.' }), 'Save role', cancelLink(c, BASE))}</section>`;
  return page(c, `Role by ${group.name}`, body);
}

async function changeRole(c: PageContext, form: Form): Promise<Response> {
  const role = form.required('role', oneOf(...COMPANY_ROLES));
  form.check();
  await change(c, (sql) => changeGroup(sql, param(c, 'group'), role));
  return backTo(c, BASE, 'saved');
}

async function askRemoval(c: PageContext) {
  const group = await find(c);
  const text = html`<p><strong>${group.name}</strong> gives the role ${group.role}${group.company_id === null ? '' : html` of ${companyLink(group, 'users')}`} to ${whoHas(c, group)}</p>
${group.users === 0 ? '' : html`<p>They are signed out at once, and lose it. Whoever is in another group that gives a role gets that at the next sign-in.</p>`}`;
  return { title: 'Remove this group?', button: 'Remove group', back: BASE, text };
}

async function remove(c: PageContext): Promise<Response> {
  await removal(c, (sql) => removeGroup(sql, param(c, 'group')));
  return backTo(c, BASE, 'removed');
}

function whoHas(c: PageContext, { users }: ListedGroup): Html {
  if (users === 0) return muted('nobody yet.');
  return html`${c.var.format.count(users)} ${users === 1 ? 'user.' : 'users.'}`;
}

function find(c: PageContext): Promise<ListedGroup> {
  return read(c, (sql) => findGroup(sql, param(c, 'group')));
}
