import { askedMail } from '../../domain/text/erasure.ts';
import { askErasure } from '../../operations/person.ts';
import { findUserById, ownersOf } from '../../store/people/user.ts';
import { sendMail } from '../company/mail.ts';
import { changeAsOperator as change, type PageContext, type Route, read } from '../page/context.ts';
import { csrfInput, formState } from '../page/field.ts';
import type { Form } from '../page/form.ts';
import { html } from '../page/html.ts';
import { page } from '../page/layout.ts';

const PATH = '/account/erasure';
const USE = { action: 'account.use' } as const;

/** A person asks to be erased. Those who decide are told, and do it on their pages. */
export const erasureRoutes: readonly Route[] = [
  { method: 'GET', path: PATH, ...USE, handle: askPage },
  { method: 'POST', path: PATH, ...USE, permits: 'mails', handle: ask, page: askPage },
  { method: 'POST', path: `${PATH}/withdraw`, ...USE, handle: withdraw },
];

async function askPage(c: PageContext, form: Form): Promise<Response> {
  const { user } = c.var.session;
  const { erasure_asked_at: asked } = await read(c, (sql) => findUserById(sql, user.user_id));
  const who = user.company_id === null ? 'another operator' : `an owner of ${user.company_name}`;
  const state = formState(form, PATH);
  const body = html`<h1>Ask to be erased</h1>${state.summary}
<section class="card"><p>You ask, and ${who} decides: the log of changes must not lose who changed something by that person’s own hand.</p>
<h2>What goes</h2><ul>
<li>Your account: you are signed out at once and cannot sign in again.</li>
<li>Your address: a random name takes its place in keys, prices, alerts, events and the log of changes.</li></ul>
<h2>What stays</h2><ul>
<li>The ledger, its sums and statements, which hold no names and no addresses.</li>
<li>Keys, tokens and invitations that you made, without your address: they keep working.</li>
<li>Names and texts in which you are called by name: nobody but people can find them.</li></ul>
${
  asked === null
    ? html`<form method="post" action="${PATH}" class="actions">${csrfInput(c)}<button class="danger">Ask to be erased</button> <a class="button quiet" href="/account">Keep my account</a></form>`
    : html`<p class="notice warn-notice" role="status">You asked on ${c.var.format.instant(asked)}.</p>
<form method="post" action="${PATH}/withdraw" class="actions">${csrfInput(c)}<button>Withdraw my request</button></form>`
}</section>
<p><a href="/account">Your account</a></p>`;
  return page(c, 'Ask to be erased', body);
}

async function ask(c: PageContext): Promise<Response> {
  const { user_id, email, company_id: company, company_name } = c.var.session.user;
  const deciding = await change(c, async (sql) => {
    await askErasure(sql, user_id, company, true);
    return ownersOf(sql, company);
  });
  const { adminUrl } = c.var.services;
  const where = company === null ? '/users' : `/companies/${company}/people/${user_id}/erase`;
  const message = askedMail(email, company_name, adminUrl === null ? null : new URL(where, adminUrl).href);
  for (const to of deciding.filter((each) => each !== email)) {
    void sendMail(c, to, message, 'that somebody asks to be erased');
  }
  return c.redirect(`${PATH}?done=erasure-asked`, 303);
}

async function withdraw(c: PageContext): Promise<Response> {
  const { user_id, company_id } = c.var.session.user;
  await change(c, (sql) => askErasure(sql, user_id, company_id, false));
  return c.redirect(`${PATH}?done=erasure-withdrawn`, 303);
}
