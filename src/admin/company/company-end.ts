import { FieldError } from '../../domain/field.ts';
import { closeCompany, reopenCompany } from '../../operations/company-end.ts';
import { may } from '../../operations/permission.ts';
import { type CompanyRow, findCompany } from '../../store/company/company.ts';
import { snapshot } from '../../store/connection/tenant-role.ts';
import { archiveCompany } from '../../store/usage/archive.ts';
import { changeAsOperator, mayNow, type PageContext, param, type Route, read, sharerOf } from '../page/context.ts';
import { download, EXPORT_MS } from '../page/download.ts';
import { csrfInput, field, formState } from '../page/field.ts';
import type { Form } from '../page/form.ts';
import { type Html, html } from '../page/html.ts';
import { companyHeading, page } from '../page/layout.ts';

const BASE = '/companies/:company';

/** How a company ends: exporting all that is stored about it, closing it, opening it again. */
export const companyEndRoutes: readonly Route[] = [
  { method: 'GET', path: `${BASE}/export.tar.gz`, action: 'company.export', handle: archive },
  { method: 'GET', path: `${BASE}/close`, action: 'company.close', handle: closePage },
  { method: 'POST', path: `${BASE}/close`, action: 'company.close', handle: close, page: closePage },
  { method: 'POST', path: `${BASE}/reopen`, action: 'company.close', whileClosed: true, handle: reopen },
];

/** Cards of the settings page that export, close, reopen or remove a company. */
export function endCards(c: PageContext, company: CompanyRow): Html {
  const base = `/companies/${company.id}`;
  const { user } = c.var.session;
  const words = c.var.format.words.settings;
  const exporting = html`<section class="card"><h2>${words.export}</h2>
<p>${words.exportText}</p>
<div class="actions"><a class="button" href="${base}/export.tar.gz" download>${words.download}</a> <a class="button quiet" href="${base}/kept">${c.var.format.words.kept.title}</a></div></section>`;
  const closing = html`<section class="card"><h2>Close the company</h2>
<p>Its keys stop working, and nothing of it can be changed until it is opened again.</p>
<div class="actions"><a class="button danger" href="${base}/close">Close this company…</a></div></section>`;
  const reopening = html`<section class="card"><h2>Open the company again</h2>
<p>Keys that were neither revoked nor expired work again within a second.</p>
<form method="post" action="${base}/reopen" class="actions">${csrfInput(c)}<button>Open again</button></form>
<p class="hint">If it left for good, erase the names and addresses of its people, which cannot be undone: <code>tollgate company erase ${company.id}</code> counts them first.</p></section>`;
  const mayReopen = may(user, 'company.close', company.id) && c.var.closedAt !== null && company.erased_at === null;
  return html`${may(user, 'company.export', company.id) ? exporting : ''}
${mayNow(c, 'company.close') ? closing : ''}${mayReopen ? reopening : ''}`;
}

async function closePage(c: PageContext, form: Form): Promise<Response> {
  const id = param(c, 'company');
  const company = await read(c, (sql) => findCompany(sql, id));
  const path = `/companies/${id}/close`;
  const state = formState(form, path);
  const body = html`${companyHeading(c, company)}<h1>Close ${company.name}?</h1>
<section class="card">${state.summary}
<p>Within a second all its keys are refused with 401, like unknown ones; calls in flight end and are charged. Its people can still read its pages, and nothing of it can be changed. An operator can open it again.</p>
<form method="post" action="${path}" class="stack">${csrfInput(c)}
${field(state, { name: 'name', label: 'Name of the company', required: true, hint: `Type “${company.name}” to confirm.` })}
<div class="actions"><button class="danger">Close company</button> <a class="button quiet" href="/companies/${id}/settings">Keep it open</a></div></form></section>`;
  return page(c, `Close ${company.name}`, body);
}

async function close(c: PageContext, form: Form): Promise<Response> {
  const id = param(c, 'company');
  const { name } = await read(c, (sql) => findCompany(sql, id));
  form.required('name', (text) => {
    if (text.trim() !== name.trim()) throw new FieldError('is not the name of this company');
  });
  form.check();
  await changeAsOperator(c, (sql) => closeCompany(sql, id));
  return c.redirect(`/companies/${id}/settings?done=closed`, 303);
}

async function reopen(c: PageContext): Promise<Response> {
  const id = param(c, 'company');
  await changeAsOperator(c, (sql) => reopenCompany(sql, id));
  return c.redirect(`/companies/${id}/settings?done=reopened`, 303);
}

async function archive(c: PageContext): Promise<Response> {
  const id = param(c, 'company');
  const { name } = await read(c, (sql) => findCompany(sql, id));
  const asked = { company: { id, name }, internal: false };
  const file = { name: `company-${id}.tar.gz`, company: name, type: 'application/gzip' };
  return download(c, c.var.services, sharerOf(c), file, (write) =>
    snapshot(c.var.services.db, id, EXPORT_MS, (sql) => archiveCompany(sql, asked, write)),
  );
}
