import { erasedMail } from '../../domain/text/erasure.ts';
import { erasePersonOf } from '../../operations/person.ts';
import type { Sql } from '../../store/connection/pool.ts';
import { findPerson } from '../../store/people/user.ts';
import { changeAsOperator, type PageContext, param, type Route, readOfCompany } from '../page/context.ts';
import { csrfInput, field, formState } from '../page/field.ts';
import type { Form } from '../page/form.ts';
import { html } from '../page/html.ts';
import { companyHeading, page } from '../page/layout.ts';
import { sendMail } from './mail.ts';
import { refuseOneself } from './people.ts';

const PATH = '/companies/:company/people/:user/erase';
/** The log of changes of a large company takes seconds. */
const ERASE_MS = 600_000;

/** Erasing one of the people of a company, by an owner or an operator. */
export const personEraseRoutes: readonly Route[] = [
  { method: 'GET', path: PATH, action: 'people.write', permits: 'slow', handle: erasePage },
  { method: 'POST', path: PATH, action: 'people.write', permits: 'slow', handle: erase, page: erasePage },
];

async function erasePage(c: PageContext, form: Form): Promise<Response> {
  const [company, person] = await readOfCompany(c, (sql, id) => findPerson(sql, id, param(c, 'user')));
  const { rows } = await changeAsOperator(c, (sql) => erased(c, sql, null), ERASE_MS);
  const base = `/companies/${company.id}/people`;
  const path = `${base}/${person.id}/erase`;
  const state = formState(form, path);
  const { format, session } = c.var;
  const isOperator = session.user.role === 'operator';
  const { audit_log: changes = 0, users: _, ...others } = rows;
  const other = Object.values(others).reduce((sum, count) => sum + count, 0);
  const body = html`${companyHeading(c, company)}<h1>Erase ${person.email}?</h1>
<section class="card">${state.summary}
${person.erasure_asked_at === null ? '' : html`<p>${person.email} asked for it on ${format.instant(person.erasure_asked_at)}.</p>`}
<h2>What goes</h2><ul>
<li>The account: ${person.email} is signed out at once and cannot sign in again.</li>
<li>The address: a random name takes its place in ${format.count(changes)} ${changes === 1 ? 'entry' : 'entries'} of the log of changes and ${format.count(other)} other ${other === 1 ? 'row' : 'rows'}${isOperator ? ', of whatever company' : ' of this company'}.</li></ul>
<h2>What stays</h2><ul>
<li>The ledger, its sums, seals and statements, unchanged: they hold no names and no addresses.</li>
<li>Keys, tokens and open invitations that this person made, without the address. They keep working: revoke or withdraw those that should not.</li>
<li>Names and texts in which the person is called by name, such as “Ann’s laptop”: change them first.</li>
<li>Backups until they expire, and what was downloaded before.</li></ul>
<p><strong>This cannot be undone.</strong></p>
<form method="post" action="${path}" class="stack">${csrfInput(c)}
${field(state, { name: 'email', label: 'Address of the person', required: true, hint: `Type “${person.email}” to confirm.` })}
<div class="actions"><button class="danger">Erase for good</button> <a class="button quiet" href="${base}">Keep this person</a></div></form></section>`;
  return page(c, `Erase ${person.email}`, body);
}

async function erase(c: PageContext, form: Form): Promise<Response> {
  const [company, person] = await readOfCompany(c, (sql, id) => findPerson(sql, id, param(c, 'user')));
  const email = form.required('email', (text) => text);
  refuseOneself(c, form, person.id, 'You cannot erase yourself. Ask for it on your account page.');
  form.check();
  await changeAsOperator(c, (sql) => erased(c, sql, email), ERASE_MS);
  const { user } = c.var.session;
  const by = user.role === 'operator' ? null : user.email;
  void sendMail(c, person.email, erasedMail(company.name, by), 'that somebody was erased');
  return c.redirect(`/companies/${company.id}/people?done=erased`, 303);
}

function erased(c: PageContext, sql: Sql, email: string | null) {
  const params = { company: param(c, 'company'), user: param(c, 'user') };
  return erasePersonOf(sql, { role: c.var.session.user.role, params }, email);
}
