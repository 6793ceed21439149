import { erasureAskedMail } from '../../domain/wording/person-mail.ts';
import { askErasure } from '../../operations/erasure.ts';
import { findUserById, listOwners } from '../../store/users/user.ts';
import { sendMail, wordsFor } from '../company/mail.ts';
import {
  backTo,
  changeAsOperator as change,
  formAt,
  type PageContext,
  pageAt,
  type Route,
  read,
} from '../page/context.ts';
import { actionForm, formState } from '../page/field.ts';
import type { Form } from '../page/form.ts';
import { html } from '../page/html.ts';
import { linkButton, page } from '../page/layout.ts';

const PATH = '/account/erasure';
const USE = 'account.use';

/** A person asks to be erased. Those who decide are told, and do it on their pages. */
export const erasureRoutes: readonly Route[] = [
  pageAt(PATH, USE, askPage),
  formAt(PATH, USE, ask, { permits: 'mails', page: askPage }),
  formAt(`${PATH}/withdraw`, USE, withdraw),
];

async function askPage(c: PageContext, form: Form): Promise<Response> {
  const { format, session } = c.var;
  const { account, erasure: words } = format.words;
  const { user } = session;
  const { erasure_asked_at: asked } = await read(c, (sql) => findUserById(sql, user.user_id));
  const state = formState(form, PATH);
  const body = html`<h1>${words.title}</h1>${state.summary}
<section class="card"><p>${words.decides(user.company_name)}</p>
<h2>${words.goes}</h2><ul>
<li>${words.yourAccount}</li>
<li>${words.yourAddress}</li></ul>
<h2>${words.stays}</h2><ul>
<li>${words.ledger}</li>
<li>${words.yourThings}</li>
<li>${words.yourName}</li></ul>
${
  asked === null
    ? actionForm(c, PATH, words.ask, 'danger', linkButton('/account', words.keep))
    : html`<p class="notice warn-notice" role="status">${words.asked(format.instant(asked))}</p>
${actionForm(c, `${PATH}/withdraw`, words.withdraw)}`
}</section>
<p><a href="/account">${account.title}</a></p>`;
  return page(c, words.title, body);
}

async function ask(c: PageContext): Promise<Response> {
  const { user_id, email, company_id, company_name: company } = c.var.session.user;
  const deciding = await change(c, async (sql) => {
    const isNews = await askErasure(sql, user_id, company_id, true);
    return isNews ? listOwners(sql, company_id) : [];
  });
  const { adminUrl, brand } = c.var.services;
  const where = company_id === null ? '/users' : `/companies/${company_id}/users/${user_id}/erase`;
  const asked = {
    person: email,
    company,
    page: adminUrl === null ? null : new URL(where, adminUrl).href,
  };
  for (const reader of deciding.filter((each) => each.email !== email)) {
    const message = erasureAskedMail(asked, wordsFor(reader), brand);
    void sendMail(c, reader.email, message, 'that somebody asks to be erased');
  }
  return backTo(c, PATH, 'erasure-asked');
}

async function withdraw(c: PageContext): Promise<Response> {
  const { user_id, company_id } = c.var.session.user;
  await change(c, (sql) => askErasure(sql, user_id, company_id, false));
  return backTo(c, PATH, 'erasure-withdrawn');
}
