import { readName } from '../../domain/field.ts';
import { pauseCompany, resumeCompany } from '../../operations/company.ts';
import { isLocked, pauseKey, resumeKey } from '../../operations/key.ts';
import { may } from '../../operations/permission.ts';
import type { CompanyRow } from '../../store/company/company.ts';
import type { KeyRow } from '../../store/company/key.ts';
import { readerOf } from '../page/caller.ts';
import { change, changeAsOperator, mayNow, type PageContext, param } from '../page/context.ts';
import { csrfInput, field, formState } from '../page/field.ts';
import type { Form } from '../page/form.ts';
import { type Html, html } from '../page/html.ts';
import { supportLink } from '../page/layout.ts';

/** Forms that pause a key or a company and resume it, and their actions. */

const keyPath = (c: PageContext) => `/companies/${param(c, 'company')}/keys/${param(c, 'key')}`;

/** Says that a key is paused, since when and by whom; to those who manage keys, why, with the form that resumes it. */
export function pausedKey(c: PageContext, key: KeyRow): Html | string {
  const { paused_at: at, paused_by: by, pause_reason: reason, company_id, id } = key;
  if (at === null || key.state === 'revoked') return '';
  const { format, session } = c.var;
  const { pause: words } = format.words;
  const path = `/companies/${company_id}/keys/${id}/resume`;
  const locked = isLocked(session.user.role, by);
  const resuming = html`<form method="post" action="${path}" class="actions">${csrfInput(c)}<button>${words.resume}</button></form>`;
  const text = html`<strong>${locked ? words.byOperator(format.instant(at)) : words.key({ at: format.instant(at), by: format.person(by) })}</strong> ${words.keyText}${
    reason !== null && may(session.user, 'key.read', company_id) ? html` ${words.reason(reason)}` : ''
  }${locked ? html` ${supportLink(c)}` : ''}`;
  return html`<div class="notice warn-notice">${!locked && mayNow(c, 'key.write') ? html`<p>${text}</p>${resuming}` : text}</div>`;
}

/** The form that pauses a key which works. */
export function keyPauseCard(c: PageContext, key: KeyRow, form: Form): Html | string {
  if (key.state !== 'active' || !mayNow(c, 'key.write')) return '';
  const { pause: words } = form.words;
  const action = `/companies/${key.company_id}/keys/${key.id}/pause`;
  const state = formState(form, action);
  return html`<section class="card"><h2>${words.title}</h2>${state.summary}
<p>${words.text}</p>
<form method="post" action="${action}" class="stack">${csrfInput(c)}
${field(state, { name: 'reason', label: words.label, required: true, hint: words.hint })}
<div class="actions"><button>${words.title}</button></div></form></section>`;
}

export async function pauseKeyForm(c: PageContext, form: Form): Promise<Response> {
  const reason = form.required('reason', readName);
  form.check();
  await change(c, (sql) => pauseKey(sql, readerOf(c), param(c, 'key'), param(c, 'company'), reason));
  return c.redirect(`${keyPath(c)}?done=key-paused`, 303);
}

export async function resumeKeyForm(c: PageContext): Promise<Response> {
  await change(c, (sql) => resumeKey(sql, readerOf(c), param(c, 'key'), param(c, 'company')));
  return c.redirect(`${keyPath(c)}?done=key-resumed`, 303);
}

/** For operators: the form that pauses a company, or resumes it. */
export function companyPauseCard(c: PageContext, company: CompanyRow, form: Form): Html | string {
  if (!mayNow(c, 'company.pause')) return '';
  const { format } = c.var;
  const { paused_at: at, paused_by: by } = company;
  const base = `/companies/${company.id}`;
  if (at !== null) {
    return html`<section class="card" id="pause"><h2>Resume the company</h2>
<p>Paused ${format.instant(at)} by ${format.person(by)}. Resumed, its keys work again within a second; keys that are paused themselves stay so.</p>
<form method="post" action="${base}/resume" class="actions">${csrfInput(c)}<button>Resume company</button></form></section>`;
  }
  const state = formState(form, `${base}/pause`);
  return html`<section class="card" id="pause"><h2>Pause the company</h2>${state.summary}
<p>Within a second all its keys are refused with 403; calls in flight end and are charged. Its people can still sign in, change its settings and see its statements.</p>
<form method="post" action="${base}/pause" class="stack">${csrfInput(c)}
${field(state, { name: 'reason', label: 'Reason', required: true, hint: 'One line, which owners of the company read. Callers do not see it.' })}
<div class="actions"><button class="danger">Pause company</button></div></form></section>`;
}

export async function pauseCompanyForm(c: PageContext, form: Form): Promise<Response> {
  const id = param(c, 'company');
  const reason = form.required('reason', readName);
  form.check();
  await changeAsOperator(c, (sql) => pauseCompany(sql, id, reason));
  return c.redirect(`/companies/${id}/settings?done=company-paused`, 303);
}

export async function resumeCompanyForm(c: PageContext): Promise<Response> {
  const id = param(c, 'company');
  await changeAsOperator(c, (sql) => resumeCompany(sql, id));
  return c.redirect(`/companies/${id}/settings?done=company-resumed`, 303);
}
