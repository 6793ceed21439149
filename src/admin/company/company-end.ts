import { FieldError, readName } from '../../domain/field.ts';
import { type KeptEntry, keptEntries } from '../../domain/settings/kept.ts';
import { pauseCompany, resumeCompany } from '../../operations/company.ts';
import { closeCompany, reopenCompany } from '../../operations/company-end.ts';
import { may } from '../../operations/frame/permission.ts';
import type { CompanyRow } from '../../store/company/company.ts';
import { snapshot } from '../../store/connection/tenant-role.ts';
import { archiveCompany } from '../../store/usage/archive.ts';
import { EXPORT_MS } from '../../store/usage/export.ts';
import {
  backTo,
  changeAsOperator,
  companyOf,
  formAt,
  mayNow,
  type PageContext,
  pageAt,
  param,
  presentCompany,
  type Route,
  sharerOf,
} from '../page/context.ts';
import { download } from '../page/download.ts';
import { actionForm, field, formState, saveForm } from '../page/field.ts';
import type { Form } from '../page/form.ts';
import { type Html, html } from '../page/html.ts';
import {
  type Cells,
  cancelLink,
  companyHeading,
  dangerLink,
  linkButton,
  page,
  table,
  titledCard,
} from '../page/layout.ts';

const BASE = '/companies/:company';

/** What is kept about a company and its people, for everybody of it; exporting all of that, pausing the company, closing it. */
export const companyEndRoutes: readonly Route[] = [
  pageAt(`${BASE}/kept`, 'company.kept', keptPage),
  pageAt(`${BASE}/export.tar.gz`, 'company.export', archive),
  pageAt(`${BASE}/close`, 'company.close', closePage),
  formAt(`${BASE}/close`, 'company.close', close, { page: closePage }),
  formAt(`${BASE}/reopen`, 'company.close', reopen, { whileClosed: true }),
];

/** Cards of the settings page that export, close, reopen or remove a company. */
export function endCards(c: PageContext, company: CompanyRow): Html {
  const base = `/companies/${company.id}`;
  const { user } = c.var.session;
  const words = c.var.format.words.settings;
  const exporting = titledCard(
    words.export,
    html`<p>${words.exportText}</p>
<div class="actions"><a class="button" href="${base}/export.tar.gz" download>${words.download}</a> ${linkButton(`${base}/kept`, c.var.format.words.kept.title)}</div>`,
  );
  const closing = titledCard(
    'Close the company',
    html`<p>Its keys stop working, and nothing of it can be changed until it is opened again.</p>
<div class="actions">${dangerLink(`${base}/close`, 'Close this company…')}</div>`,
  );
  const reopening = titledCard(
    'Open the company again',
    html`<p>Keys that were neither revoked nor expired work again within a second.</p>
${actionForm(c, `${base}/reopen`, 'Open again')}
<p class="hint">If it left for good, erase the names and addresses of its people, which cannot be undone: <code>tollgate company erase ${company.id}</code> counts them first.</p>`,
  );
  const mayReopen =
    may(user, 'company.close', company.id) &&
    company.closed_at !== null &&
    company.erased_at === null;
  return html`${may(user, 'company.export', company.id) ? exporting : ''}
${mayNow(c, 'company.close') ? closing : ''}${mayReopen ? reopening : ''}`;
}

async function closePage(c: PageContext, form: Form): Promise<Response> {
  const { id, name } = presentCompany(c);
  const path = `/companies/${id}/close`;
  const state = formState(form, path);
  const body = html`${companyHeading(c)}<h1>Close ${name}?</h1>
<section class="card">${state.summary}
<p>Within a second all its keys are refused with 401, like unknown ones; calls in flight end and are charged. Its people can still read its pages, and nothing of it can be changed. An operator can open it again.</p>
${saveForm(c, path, field(state, { name: 'name', label: 'Name of the company', required: true, hint: `Type “${name}” to confirm.` }), 'Close company', cancelLink(c, `/companies/${id}/settings`), 'danger')}</section>`;
  return page(c, `Close ${name}`, body);
}

async function close(c: PageContext, form: Form): Promise<Response> {
  const { id, name } = presentCompany(c);
  form.required('name', (text) => {
    if (text.trim() !== name.trim()) throw new FieldError('is not the name of this company');
  });
  form.check();
  await changeAsOperator(c, (sql) => closeCompany(sql, id));
  return backTo(c, `/companies/${id}/settings`, 'closed');
}

async function reopen(c: PageContext): Promise<Response> {
  const id = param(c, 'company');
  await changeAsOperator(c, (sql) => reopenCompany(sql, id));
  return backTo(c, `/companies/${id}/settings`, 'reopened');
}

async function archive(c: PageContext): Promise<Response> {
  const { id, name } = presentCompany(c);
  const asked = { company: { id, name }, internal: false };
  const file = { name: `company-${id}.tar.gz`, company: name, type: 'application/gzip' };
  return download(c, c.var.services, sharerOf(c), file, (write) =>
    snapshot(c.var.services.db, id, EXPORT_MS, (sql) => archiveCompany(sql, asked, write)),
  );
}

async function keptPage(c: PageContext): Promise<Response> {
  const { words } = c.var.format;
  const { kept } = words;
  const cells: Cells<KeptEntry> = {
    [kept.what]: ({ what }) => what,
    [kept.why]: ({ why }) => why,
    [kept.howLong]: ({ until }) => until,
  };
  const entries = keptEntries(words, kept.days(c.var.services.requestTrailDays));
  const body = html`${companyHeading(c)}<h1>${kept.title}</h1>
<p class="lead">${kept.lead}</p>
${table(kept.caption, entries, { cells }, true)}
${titledCard(
  kept.whoSees,
  html`<ul>
${[kept.people, kept.operator, kept.router, kept.backups].map((text) => html`<li>${text}</li>`)}</ul>
${
  may(c.var.session.user, 'company.export', companyOf(c))
    ? html`<div class="actions"><a class="button" href="/companies/${param(c, 'company')}/export.tar.gz" download>${words.settings.download}</a></div>`
    : ''
}`,
)}`;
  return page(c, kept.title, body);
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
${actionForm(c, `${base}/resume`, 'Resume company')}</section>`;
  }
  const state = formState(form, `${base}/pause`);
  return html`<section class="card" id="pause"><h2>Pause the company</h2>${state.summary}
<p>Within a second all its keys are refused with 403; calls in flight end and are charged. Its people can still sign in, change its settings and see its statements.</p>
${saveForm(c, `${base}/pause`, field(state, { name: 'reason', label: 'Reason', required: true, hint: 'One line, which owners of the company read. Callers do not see it.' }), 'Pause company', '', 'danger')}</section>`;
}

export async function pauseCompanyForm(c: PageContext, form: Form): Promise<Response> {
  const id = param(c, 'company');
  const reason = form.required('reason', readName);
  form.check();
  await changeAsOperator(c, (sql) => pauseCompany(sql, id, reason));
  return backTo(c, `/companies/${id}/settings`, 'company-paused');
}

export async function resumeCompanyForm(c: PageContext): Promise<Response> {
  const id = param(c, 'company');
  await changeAsOperator(c, (sql) => resumeCompany(sql, id));
  return backTo(c, `/companies/${id}/settings`, 'company-resumed');
}
