import { erasedMail } from '../../domain/wording/person-mail.ts';
import { erasePersonOf } from '../../operations/erasure.ts';
import type { Sql } from '../../store/connection/pool.ts';
import { findCompanyUser, findReader } from '../../store/users/user.ts';
import { changeAsOperator, type PageContext, param, type Route, readOfCompany } from '../page/context.ts';
import { csrfInput, field, formState } from '../page/field.ts';
import type { Form } from '../page/form.ts';
import { html } from '../page/html.ts';
import { companyHeading, page } from '../page/layout.ts';
import { sendMail, wordsFor } from './mail.ts';
import { refuseOneself } from './user.ts';

const PATH = '/companies/:company/users/:user/erase';
/** The log of changes of a large company takes seconds. */
const ERASE_MS = 600_000;

/** Erasing one of the people of a company, by an owner or an operator. */
export const companyErasureRoutes: readonly Route[] = [
  { method: 'GET', path: PATH, action: 'company-user.write', permits: 'slow', handle: erasePage },
  { method: 'POST', path: PATH, action: 'company-user.write', permits: 'slow', handle: erase, page: erasePage },
];

async function erasePage(c: PageContext, form: Form): Promise<Response> {
  const [company, person] = await readOfCompany(c, (sql, id) => findCompanyUser(sql, param(c, 'user'), id));
  const { rows } = await changeAsOperator(c, (sql) => erased(c, sql, null), ERASE_MS);
  const base = `/companies/${company.id}/users`;
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
  const body = html`${companyHeading(c, company)}<h1>${words.heading(email)}</h1>
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
<form method="post" action="${path}" class="stack">${csrfInput(c)}
${field(state, { name: 'email', label: words.confirm, required: true, hint: words.confirmHint(email) })}
<div class="actions"><button class="danger">${words.button}</button> <a class="button quiet" href="${base}">${words.keepPerson}</a></div></form></section>`;
  return page(c, words.of(email), body);
}

async function erase(c: PageContext, form: Form): Promise<Response> {
  const [company, person] = await readOfCompany(c, (sql, id) => findCompanyUser(sql, param(c, 'user'), id));
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
  const message = erasedMail({ company: company.name, by }, wordsFor(reader), c.var.services.brand);
  void sendMail(c, reader.email, message, 'that somebody was erased');
  return c.redirect(`/companies/${company.id}/users?done=erased`, 303);
}

function erased(c: PageContext, sql: Sql, email: string | null) {
  return erasePersonOf(sql, c.var.session.user, param(c, 'company'), param(c, 'user'), email);
}
