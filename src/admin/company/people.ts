import { oneOf, readEmail } from '../../domain/field.ts';
import { ROLE_TEXTS } from '../../domain/text/invitation.ts';
import { COMPANY_ROLES, type CompanyRole } from '../../domain/user.ts';
import { findCompany } from '../../store/company/company.ts';
import { PAGE_ROWS, type PersonSort, pageOfPeople } from '../../store/lists/page.ts';
import {
  createInvitation,
  type InvitationRow,
  listInvitations,
  renewInvitation,
  withdrawInvitation,
} from '../../store/people/invitation.ts';
import { findPerson, keepAnOwner, type PersonRow, removeUser, setRole } from '../../store/people/user.ts';
import { change, mayNow, type PageContext, param, type Route, read, readOfCompany, removal } from '../page/context.ts';
import { csrfInput, field, formState, select } from '../page/field.ts';
import type { Form } from '../page/form.ts';
import { type Html, html } from '../page/html.ts';
import { badge, companyHeading, confirmation, muted, page, table } from '../page/layout.ts';
import { list, listQuery } from '../page/list.ts';
import { countInvitation, invitedRoute, redirectToInvitation } from './invite.ts';

const BASE = '/companies/:company/people';
const PERSON = `${BASE}/:user`;
const INVITATION = '/companies/:company/invitations/:invitation';
const WRITE = { action: 'people.write' } as const;

/** The people of a company, for its owners: their addresses, roles and invitations. */
export const peopleRoutes: readonly Route[] = [
  { method: 'GET', path: BASE, action: 'people.read', handle: listPage },
  { method: 'POST', path: BASE, ...WRITE, permits: 'mails', handle: invite, page: listPage },
  { method: 'GET', path: PERSON, ...WRITE, handle: rolePage },
  { method: 'POST', path: PERSON, ...WRITE, handle: changeRole, page: rolePage },
  { method: 'GET', path: `${PERSON}/remove`, ...WRITE, handle: removePage },
  { method: 'POST', path: `${PERSON}/remove`, ...WRITE, handle: remove, page: removePage },
  { method: 'POST', path: `${INVITATION}/renew`, ...WRITE, permits: 'mails', handle: renew, page: listPage },
  { method: 'POST', path: `${INVITATION}/withdraw`, ...WRITE, handle: withdraw },
  invitedRoute,
];

const SORTS = { role: 'Role', email: 'E-mail address', '-seen': 'Last sign-in' };
const EMPTY = 'Nobody belongs to this company yet. Invite its owner below.';

const CHOICES = COMPANY_ROLES.map((role) => [role, role] as const);
const roles = html`<dl class="diff">${COMPANY_ROLES.map((role) => html`<dt>${role}</dt><dd>${ROLE_TEXTS[role]}</dd>`)}</dl>`;

async function listPage(c: PageContext, form: Form): Promise<Response> {
  const id = param(c, 'company');
  const query = listQuery<PersonSort>(c, SORTS);
  const { company, people, invitations } = await read(c, async (sql) => ({
    company: await findCompany(sql, id),
    people: await pageOfPeople(sql, id, query),
    invitations: await listInvitations(sql, id, PAGE_ROWS + 1),
  }));
  const base = `/companies/${id}/people`;
  const { format, session } = c.var;
  const cells = {
    'E-mail address': ({ email, erasure_asked_at }: PersonRow) =>
      html`${email}${erasure_asked_at === null ? '' : html` ${badge('warn', 'asks to be erased')}`}`,
    Role: ({ role }: PersonRow) => badge('plain', role),
    'Last sign-in': ({ last_sign_in_at: at }: PersonRow) => (at === null ? muted('not known') : format.ago(at)),
    'Second factor': ({ second_factor_since: since }: PersonRow) => (since === null ? muted('none') : 'on'),
    Actions: (person: PersonRow) =>
      person.id === session.user.user_id || !mayNow(c, 'people.write')
        ? muted(person.id === session.user.user_id ? 'you' : 'none')
        : html`<span class="row-actions"><a class="button quiet" href="${base}/${person.id}">Change role<span class="sr"> of ${person.email}</span></a>
<a class="button danger" href="${base}/${person.id}/remove">Remove<span class="sr"> ${person.email}</span></a>${
            person.erasure_asked_at === null
              ? ''
              : html` <a class="button danger" href="${base}/${person.id}/erase">Erase<span class="sr"> ${person.email}</span></a>`
          }</span>`,
  };
  const body = html`${companyHeading(c, company)}<h1>People</h1>
${form.path === null || form.path === base ? '' : formState(form, form.path).summary}
${list(c, { path: base, caption: 'People of the company', cells, sorts: SORTS, empty: EMPTY }, query, people)}
${invitations.length === 0 ? '' : invitationTable(c, invitations)}
${mayNow(c, 'people.write') ? inviteForm(c, form, base, people.total === 0 && query.search === '') : ''}`;
  return page(c, `People of ${company.name}`, body);
}

function inviteForm(c: PageContext, form: Form, base: string, isFirst: boolean): Html {
  const { services } = c.var;
  const state = formState(form, base);
  return html`<section class="card"><h2>Invite somebody</h2>${state.summary}
<form method="post" action="${base}" class="stack">${csrfInput(c)}
<div class="pair">${field(state, { name: 'email', label: 'E-mail address', type: 'email', required: true })}
${select(state, { name: 'role', label: 'Role', choices: CHOICES, value: isFirst ? 'owner' : 'administrator' })}</div>
${roles}
<p class="hint">Makes a link that works once, for seven days. The person who opens it sets a password${services.oidc === null ? '' : ' or signs in with the organisation'} and belongs to the company.</p>
<div class="actions"><button class="primary">Invite</button></div></form></section>`;
}

function invitationTable(c: PageContext, invitations: readonly InvitationRow[]): Html {
  const { format, services } = c.var;
  const now = services.clock();
  const button = ({ id, email, company_id }: InvitationRow, verb: string, text: string) =>
    html`<form method="post" action="/companies/${company_id}/invitations/${id}/${verb}" class="inline">${csrfInput(c)}<button class="quiet">${text}<span class="sr"> the invitation of ${email}</span></button></form>`;
  const shown = table('Invitations', invitations.slice(0, PAGE_ROWS), {
    cells: {
      'E-mail address': ({ email }) => email,
      Role: ({ role }) => badge('plain', role),
      Link: ({ expires_at: at }) =>
        at.getTime() > now ? html`works until ${format.instant(at)}` : badge('warn', 'has ended'),
      Actions: (row) =>
        mayNow(c, 'people.write')
          ? html`<span class="row-actions">${button(row, 'renew', 'Renew')} ${button(row, 'withdraw', 'Withdraw')}</span>`
          : muted('none'),
    },
  });
  return html`${shown}${invitations.length > PAGE_ROWS ? html`<p class="muted">The newest ${PAGE_ROWS}; programs list all of them.</p>` : ''}`;
}

async function invite(c: PageContext, form: Form): Promise<Response> {
  const company_id = param(c, 'company');
  const email = form.required('email', readEmail);
  const role = form.required('role', oneOf(...COMPANY_ROLES));
  form.check();
  countInvitation(c, form, company_id);
  const asked = { company_id, email, role, created_by: c.var.session.user.email };
  return redirectToInvitation(c, await change(c, (sql) => createInvitation(sql, asked)));
}

async function renew(c: PageContext, form: Form): Promise<Response> {
  const company = param(c, 'company');
  countInvitation(c, form, company);
  const { email } = c.var.session.user;
  return redirectToInvitation(
    c,
    await change(c, (sql) => renewInvitation(sql, company, param(c, 'invitation'), email)),
  );
}

async function withdraw(c: PageContext): Promise<Response> {
  const company = param(c, 'company');
  await removal(c, (sql) => withdrawInvitation(sql, company, param(c, 'invitation')));
  return c.redirect(`/companies/${company}/people?done=withdrawn`, 303);
}

async function rolePage(c: PageContext, form: Form): Promise<Response> {
  const [company, person] = await find(c);
  const base = `/companies/${company.id}/people`;
  const state = formState(form, `${base}/${person.id}`);
  const body = html`${companyHeading(c, company)}<h1>Role of ${person.email}</h1>
<section class="card">${state.summary}
<form method="post" action="${base}/${person.id}" class="stack">${csrfInput(c)}
${select(state, { name: 'role', label: 'Role', choices: CHOICES, value: person.role, hint: 'Holds from the next page on that this person opens. Tokens and open invitations that the person made stay as they are.' })}
${roles}
<div class="actions"><button class="primary">Save role</button> <a class="button quiet" href="${base}">Cancel</a></div></form></section>`;
  return page(c, `Role of ${person.email}`, body);
}

async function changeRole(c: PageContext, form: Form): Promise<Response> {
  const [company, user] = [param(c, 'company'), param(c, 'user')];
  const role = form.required('role', oneOf(...COMPANY_ROLES));
  refuseOneself(c, form, user, 'You cannot change your own role. Ask another owner.');
  form.check();
  await change(c, async (sql) => {
    if (role !== 'owner' && isOwner(c)) await keepAnOwner(sql, company, user);
    await setRole(sql, company, user, role satisfies CompanyRole);
  });
  return c.redirect(`/companies/${company}/people?done=saved`, 303);
}

async function removePage(c: PageContext, form: Form): Promise<Response> {
  const [company, person] = await find(c);
  const base = `/companies/${company.id}/people`;
  const action = `${base}/${person.id}/remove`;
  const body = html`${companyHeading(c, company)}<h1>Remove ${person.email}?</h1>
${formState(form, action).summary}
${confirmation(c, {
  action,
  button: `Remove ${person.email}`,
  back: base,
  text: html`<p>${person.email} is ${person.role} of ${company.name}, is signed out at once and cannot sign in again. Keys, tokens and open invitations that this person made keep working: revoke or withdraw those that should not.</p>`,
})}
<p>The address stays in the log of changes. To take it out of there too, <a href="${base}/${person.id}/erase">erase this person</a>.</p>`;
  return page(c, `Remove ${person.email}`, body);
}

async function remove(c: PageContext, form: Form): Promise<Response> {
  const [company, user] = [param(c, 'company'), param(c, 'user')];
  refuseOneself(c, form, user, 'You cannot remove yourself. Ask another owner.');
  form.check();
  await removal(c, async (sql) => {
    await findPerson(sql, company, user);
    if (isOwner(c)) await keepAnOwner(sql, company, user);
    await removeUser(sql, user);
  });
  return c.redirect(`/companies/${company}/people?done=removed`, 303);
}

/** Operators may leave a company without an owner. */
function isOwner(c: PageContext): boolean {
  return c.var.session.user.role !== 'operator';
}

export function refuseOneself(c: PageContext, form: Form, user: string, text: string): void {
  if (user === c.var.session.user.user_id) form.refuse('', text);
}

function find(c: PageContext) {
  return readOfCompany(c, (sql, company) => findPerson(sql, company, param(c, 'user')));
}
