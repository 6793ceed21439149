import { oneOf, readEmail } from '../../domain/field.ts';
import type { Words } from '../../domain/language/en.ts';
import { COMPANY_ROLES } from '../../domain/user.ts';
import { erasedMail } from '../../domain/wording/person-mail.ts';
import { erasePersonOf } from '../../operations/erasure.ts';
import {
  createInvitation,
  renewInvitation,
  withdrawInvitation,
} from '../../operations/invitation.ts';
import { changeRole, removeUserOf } from '../../operations/user.ts';
import type { Sql } from '../../store/connection/pool.ts';
import {
  type CompanyUserSort,
  type ListedCompanyUser,
  PAGE_ROWS,
  pageOfCompanyUsers,
} from '../../store/lists/page.ts';
import { type InvitationRow, listInvitations } from '../../store/users/invitation.ts';
import { findCompanyUser, findReader, type UserRow } from '../../store/users/user.ts';
import { readerOf } from '../page/caller.ts';
import { askedFirst } from '../page/confirmation.ts';
import {
  backTo,
  change,
  changeAsOperator,
  formAt,
  mayNow,
  type PageContext,
  pageAt,
  param,
  presentCompany,
  type Route,
  read,
  removal,
} from '../page/context.ts';
import { buttonForm, field, formState, saveForm, select } from '../page/field.ts';
import type { Form } from '../page/form.ts';
import { type Html, html } from '../page/html.ts';
import {
  badge,
  type Cells,
  cancelLink,
  clipped,
  companyHeading,
  dangerLink,
  linkButton,
  muted,
  page,
  rowMenu,
  table,
  titledCard,
} from '../page/layout.ts';
import { list, listQuery } from '../page/list.ts';
import { countInvitation, invitedRoute, redirectToInvitation } from './invite.ts';
import { sendMail, wordsFor } from './mail.ts';

const BASE = '/companies/:company/users';
const PERSON = `${BASE}/:user`;
const INVITATION = '/companies/:company/invitations/:invitation';
const WRITE = 'company-user.write';
/** The log of changes of a large company takes seconds. */
const ERASE_MS = 600_000;

/** The users of a company, for its owners: their addresses, roles and invitations. */
export const companyUserRoutes: readonly Route[] = [
  pageAt(BASE, 'company-user.read', listPage),
  formAt(BASE, WRITE, invite, { permits: 'mails', page: listPage }),
  pageAt(PERSON, WRITE, rolePage),
  formAt(PERSON, WRITE, saveRole, { page: rolePage }),
  ...askedFirst(`${PERSON}/remove`, WRITE, askRemoval, remove),
  pageAt(`${PERSON}/erase`, WRITE, erasePage, { permits: 'slow' }),
  formAt(`${PERSON}/erase`, WRITE, erase, { permits: 'slow', page: erasePage }),
  formAt(`${INVITATION}/renew`, WRITE, renew, { permits: 'mails', page: listPage }),
  formAt(`${INVITATION}/withdraw`, WRITE, withdraw),
  invitedRoute,
];

function choicesOf({ roles }: Words) {
  return COMPANY_ROLES.map((role) => [role, roles[role]] as const);
}

function rolesOf({ roles, roleTexts }: Words): Html {
  return html`<dl class="diff">${COMPANY_ROLES.map((role) => html`<dt>${roles[role]}</dt><dd>${roleTexts[role]}</dd>`)}</dl>`;
}

async function listPage(c: PageContext, form: Form): Promise<Response> {
  const { id, name } = presentCompany(c);
  const { members: words, frame } = c.var.format.words;
  const sorts = { role: words.role, email: words.email, '-seen': words.lastSignIn };
  const query = listQuery<CompanyUserSort>(c, sorts);
  const { people, invitations } = await read(c, async (sql) => ({
    people: await pageOfCompanyUsers(sql, id, query),
    invitations: await listInvitations(sql, id, PAGE_ROWS + 1),
  }));
  const base = `/companies/${id}/users`;
  const { format, session } = c.var;
  const cells: Cells<ListedCompanyUser> = {
    [words.email]: ({ email, erasure_asked_at }) =>
      html`${clipped(email)}${erasure_asked_at === null ? '' : html` ${badge('warn', format.words.erasure.asks)}`}`,
    [words.role]: (person) => roleCell(person, format.words),
    [words.ownKeys]: ({ keys }) => (keys === 0 ? muted(frame.none) : format.count(keys)),
    [words.lastSignIn]: ({ last_sign_in_at: at }) =>
      at === null ? muted(words.notKnown) : format.ago(at),
    [format.words.secondFactor.title]: ({ second_factor_since: since }) =>
      since === null ? muted(format.words.secondFactor.none) : format.words.secondFactor.on,
    [frame.actions]: (person) =>
      person.id === session.user.user_id || !mayNow(c, 'company-user.write')
        ? muted(person.id === session.user.user_id ? format.words.people.you : frame.none)
        : rowMenu(
            c.var,
            person.email,
            html`${
              person.oidc_group !== null
                ? ''
                : linkButton(
                    `${base}/${person.id}`,
                    words.changeRole,
                    words.changeRoleOf(person.email),
                  )
            }
${dangerLink(`${base}/${person.id}/remove`, words.remove, person.email)}${
  person.erasure_asked_at === null
    ? ''
    : html` ${dangerLink(`${base}/${person.id}/erase`, format.words.erasure.erase, person.email)}`
}`,
          ),
  };
  const body = html`${companyHeading(c)}<h1>${words.title}</h1>
${form.path === null || form.path === base ? '' : formState(form, form.path).summary}
${list(c, { path: base, caption: words.caption, cells, sorts, finds: words.email, empty: words.none }, query, people)}
${invitations.length === 0 ? '' : invitationTable(c, invitations)}
${mayNow(c, 'company-user.write') ? inviteForm(c, form, base, people.total === 0 && query.search === '') : ''}`;
  return page(c, words.of(name), body);
}

function inviteForm(c: PageContext, form: Form, base: string, isFirst: boolean): Html {
  const { services } = c.var;
  const state = formState(form, base);
  const { members: words } = state.words;
  return titledCard(
    words.invite,
    html`${state.summary}
${saveForm(
  c,
  base,
  html`<div class="pair">${field(state, { name: 'email', label: words.email, type: 'email', required: true })}
${select(state, { name: 'role', label: words.role, choices: choicesOf(state.words), value: isFirst ? 'owner' : 'administrator' })}</div>
${rolesOf(state.words)}
<p class="hint">${words.inviteHint(services.oidc !== null)}</p>`,
  words.inviteButton,
)}`,
  );
}

function invitationTable(c: PageContext, invitations: readonly InvitationRow[]): Html {
  const { format, services } = c.var;
  const now = services.clock();
  const { members: words, roles, frame } = format.words;
  const button = ({ id, email, company_id }: InvitationRow, verb: string, text: string) =>
    buttonForm(
      c,
      `/companies/${company_id}/invitations/${id}/${verb}`,
      text,
      words.theInvitation(email),
    );
  const shown = table(words.invitations, invitations.slice(0, PAGE_ROWS), {
    cells: {
      [words.email]: ({ email }) => email,
      [words.role]: ({ role }) => badge('plain', roles[role]),
      [words.link]: ({ expires_at: at }) =>
        at.getTime() > now ? html`${words.works(format.instant(at))}` : badge('warn', words.ended),
      [frame.actions]: (row) =>
        mayNow(c, 'company-user.write')
          ? html`<span class="row-actions">${button(row, 'renew', words.renew)} ${button(row, 'withdraw', words.withdraw)}</span>`
          : muted(frame.none),
    },
  });
  return html`${shown}${invitations.length > PAGE_ROWS ? html`<p class="muted">${words.newest(PAGE_ROWS)}</p>` : ''}`;
}

async function invite(c: PageContext, form: Form): Promise<Response> {
  const company_id = param(c, 'company');
  const email = form.required('email', readEmail);
  const role = form.required('role', oneOf(...COMPANY_ROLES));
  form.check();
  countInvitation(c, form, company_id);
  const asked = { company_id, email, role };
  return redirectToInvitation(
    c,
    await change(c, (sql) => createInvitation(sql, readerOf(c), asked)),
  );
}

async function renew(c: PageContext, form: Form): Promise<Response> {
  const company = param(c, 'company');
  countInvitation(c, form, company);
  const invitation = param(c, 'invitation');
  return redirectToInvitation(
    c,
    await change(c, (sql) => renewInvitation(sql, readerOf(c), company, invitation)),
  );
}

async function withdraw(c: PageContext): Promise<Response> {
  const company = param(c, 'company');
  await removal(c, (sql) => withdrawInvitation(sql, param(c, 'invitation'), company));
  return backTo(c, `/companies/${company}/users`, 'withdrawn');
}

async function rolePage(c: PageContext, form: Form): Promise<Response> {
  const person = await find(c);
  const base = `/companies/${param(c, 'company')}/users`;
  const state = formState(form, `${base}/${person.id}`);
  const { members: words } = state.words;
  const body = html`${companyHeading(c)}<h1>${words.roleOf(person.email)}</h1>
<section class="card">${state.summary}
${
  person.oidc_group !== null
    ? html`<p>${words.byGroup({ email: person.email, role: state.words.roles[person.role], group: html`<strong>${person.oidc_group}</strong>` })}</p><p>${linkButton(base, words.backToUsers)}</p></section>`
    : html`${saveForm(
        c,
        `${base}/${person.id}`,
        html`${select(state, { name: 'role', label: words.role, choices: choicesOf(state.words), value: person.role, hint: words.roleHint })}
${rolesOf(state.words)}`,
        words.saveRole,
        cancelLink(c, base),
      )}</section>`
}`;
  return page(c, words.roleOf(person.email), body);
}

async function saveRole(c: PageContext, form: Form): Promise<Response> {
  const [company, user] = [param(c, 'company'), param(c, 'user')];
  const role = form.required('role', oneOf(...COMPANY_ROLES));
  refuseOneself(c, form, user, form.words.members.ownRole);
  form.check();
  await change(c, (sql) => changeRole(sql, readerOf(c), company, user, role));
  return backTo(c, `/companies/${company}/users`, 'saved');
}

async function askRemoval(c: PageContext) {
  const person = await find(c);
  const { email, role } = person;
  const { id, name: company } = presentCompany(c);
  const { words } = c.var.format;
  const { members, roles, erasure } = words;
  const back = `/companies/${id}/users`;
  const facts = { email, role: roles[role], company, comesBack: comesBack(person, words) };
  const text = html`<p>${members.removeText(facts)}</p>
<p>${erasure.toErase((link) => html`<a href="${back}/${person.id}/erase">${link}</a>`)}</p>`;
  return { title: members.removeHeading(email), text, button: members.removeTitle(email), back };
}

async function remove(c: PageContext, form: Form): Promise<Response> {
  const [company, user] = [param(c, 'company'), param(c, 'user')];
  refuseOneself(c, form, user, form.words.members.oneself);
  form.check();
  await removal(c, (sql) => removeUserOf(sql, readerOf(c), company, user));
  return backTo(c, `/companies/${company}/users`, 'removed');
}

function refuseOneself(c: PageContext, form: Form, user: string, text: string): void {
  if (user === c.var.session.user.user_id) form.refuse('', text);
}

function find(c: PageContext) {
  return read(c, (sql) => findCompanyUser(sql, param(c, 'user'), param(c, 'company')));
}

type Held = Pick<UserRow, 'role' | 'oidc_group'>;

/** The role of somebody in a list, and the group of the identity provider that gives it. */
export function roleCell({ role, oidc_group }: Held, { roles, members }: Words): Html {
  if (oidc_group === null) return badge('plain', roles[role]);
  const by = members.byTheGroup(oidc_group);
  return html`<span class="one-line">${badge('plain', roles[role])} ${clipped(by, muted(by))}</span>`;
}

/** Whether a removed person can come back, in words that follow "is signed out at once and". */
export function comesBack({ oidc_group }: Held, { members }: Words): string {
  return oidc_group === null ? members.noReturn : members.returns(oidc_group);
}

/** Erasing one of the people of a company, by an owner or an operator. */
async function erasePage(c: PageContext, form: Form): Promise<Response> {
  const person = await find(c);
  const { rows } = await changeAsOperator(c, (sql) => erased(c, sql, null), ERASE_MS);
  const base = `/companies/${param(c, 'company')}/users`;
  const path = `${base}/${person.id}/erase`;
  const state = formState(form, path);
  const { format, session } = c.var;
  const { erasure: words } = format.words;
  const { email, erasure_asked_at: asked } = person;
  const { audit_log: changes = 0, users: _, ...others } = rows;
  const other = Object.values(others).reduce((sum, count) => sum + count, 0);
  const reached = {
    changes: format.count(changes),
    rows: format.count(other),
    everywhere: session.user.role === 'operator',
  };
  const body = html`${companyHeading(c)}<h1>${words.heading(email)}</h1>
<section class="card">${state.summary}
${asked === null ? '' : html`<p>${words.askedFor({ email, when: format.instant(asked) })}</p>`}
<h2>${words.goes}</h2><ul>
<li>${words.account(email)}</li>
<li>${words.address(reached)}</li></ul>
<h2>${words.stays}</h2><ul>
<li>${words.ledger}</li>
<li>${words.things}</li>
<li>${words.names}</li>
<li>${words.backups}</li></ul>
<p><strong>${words.final}</strong></p>
${saveForm(c, path, field(state, { name: 'email', label: words.confirm, required: true, hint: words.confirmHint(email) }), words.button, linkButton(base, words.keepPerson), 'danger')}</section>`;
  return page(c, words.of(email), body);
}

async function erase(c: PageContext, form: Form): Promise<Response> {
  const person = await find(c);
  const { id, name: company } = presentCompany(c);
  const email = form.required('email', (text) => text);
  refuseOneself(c, form, person.id, form.words.erasure.oneself);
  form.check();
  const reader = await changeAsOperator(
    c,
    async (sql) => {
      const found = await findReader(sql, person.id);
      await erased(c, sql, email);
      return found;
    },
    ERASE_MS,
  );
  const { user } = c.var.session;
  const by = user.role === 'operator' ? null : user.email;
  const message = erasedMail({ company, by }, wordsFor(reader), c.var.services.brand);
  void sendMail(c, reader.email, message, 'that somebody was erased');
  return backTo(c, `/companies/${id}/users`, 'erased');
}

function erased(c: PageContext, sql: Sql, email: string | null) {
  return erasePersonOf(sql, c.var.session.user, param(c, 'company'), param(c, 'user'), email);
}
