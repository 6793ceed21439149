import { readName } from '../../domain/field.ts';
import { actorName } from '../../domain/text/change-text.ts';
import { findKey, type KeyRow, revokeKey, setKey } from '../../store/company/key.ts';
import { readCompany } from '../../store/gateway/directory.ts';
import { readSpent } from '../../store/usage/company-usage.ts';
import { type LastRefused, lastRefused } from '../../store/usage/request.ts';
import { change, mayNow, type PageContext, param, type Route, read, readOfCompany } from '../page/context.ts';
import { csrfInput, field, formState } from '../page/field.ts';
import type { Form } from '../page/form.ts';
import type { Format } from '../page/format.ts';
import { type Html, html } from '../page/html.ts';
import { companyHeading, confirmation, page } from '../page/layout.ts';
import { type Labels, lockEdited, lockInput } from '../page/optimistic-lock.ts';
import { retentionText } from '../usage/requests.ts';
import { askIfUsedUp } from './budget-confirmation.ts';
import { keyActions, keyState, readScopes, scopeFields } from './key.ts';
import { RESTRICTION_LABELS, readRestrictions, restrictionFields } from './restriction.ts';

const PATH = '/companies/:company/access/:key';

/** One key: its history, and what can be done with it, but for its rotation. */
export const keyEditRoutes: readonly Route[] = [
  { method: 'GET', path: PATH, action: 'key.read', handle: keyPage },
  { method: 'POST', path: PATH, action: 'key.write', long: true, handle: edit, page: keyPage },
  { method: 'GET', path: `${PATH}/revoke`, action: 'key.write', handle: revokePage },
  { method: 'POST', path: `${PATH}/revoke`, action: 'key.write', handle: revoke },
];

const LABELS: Labels<KeyRow> = { name: 'Name', scopes: 'Scopes', ...RESTRICTION_LABELS };

async function keyPage(c: PageContext, form: Form): Promise<Response> {
  const id = param(c, 'company');
  const { company, key, refused } = await read(c, async (sql) => ({
    company: await readCompany(sql, id),
    key: await findKey(sql, param(c, 'key'), id),
    refused: await lastRefused(sql, param(c, 'key')),
  }));
  const base = `/companies/${id}/access`;
  const path = `${base}/${key.id}`;
  const state = formState(form, path);
  const isEditable = key.state !== 'revoked' && mayNow(c, 'key.write');
  const body = html`${companyHeading(c, company)}<div class="title-row"><h1>${isEditable ? 'Edit' : 'Key'} ${key.name} <code>${key.prefix}…</code></h1>
${isEditable ? keyActions(base, key) : ''}</div>
<p class="lead">${keyState(key, c.var.services.clock())} ${history(key, c.var.format)}
<a href="/companies/${id}/requests?key=${key.id}">Its requests</a>, <a href="/companies/${id}/usage?key=${key.id}">its usage</a></p>
${key.state === 'active' ? '' : attempts(c, `/companies/${id}/requests`, key, refused)}
${
  !isEditable
    ? html`${state.summary}<p><a href="${base}">All keys</a></p>`
    : html`<section class="card">${state.summary}
<form method="post" action="${path}" class="stack">${csrfInput(c)}${lockInput(state, key, LABELS)}
${key.purpose === null ? html`${field(state, { name: 'name', label: 'Name', value: key.name, required: true })}${scopeFields(state, key.scopes)}` : ofPlayground(key)}
<h2>Limits and restrictions</h2>
${restrictionFields(state, company, key)}
<div class="actions"><button class="primary">Save key</button> <a class="button quiet" href="${base}">Cancel</a></div></form></section>`
}`;
  return page(c, `Key ${key.name}`, body);
}

/** What belongs to the person of a playground, and is not changed. */
function ofPlayground({ name, scopes }: KeyRow): Html {
  return html`<p>Its name and scopes are those of the playground, and it ends with its person.</p>
<input type="hidden" name="name" value="${name}">${scopes.map((scope) => html`<input type="hidden" name="scope" value="${scope}">`)}`;
}

/** When a key was made, used and ended. */
function history({ created_at, created_by, last_used_at, expires_at, revoked_at }: KeyRow, format: Format): Html {
  const end = revoked_at ?? expires_at;
  return html`Created ${format.instant(created_at)} by ${actorName(created_by)}, ${
    last_used_at === null ? 'never used' : html`last used ${format.instant(last_used_at)}`
  }${end && html`, ${revoked_at === null ? 'until' : 'revoked'} ${format.instant(end)}`}.`;
}

/** Whether somebody still uses a key that does not work any more. @param last the last attempt that is kept */
function attempts(c: PageContext, requests: string, { id }: KeyRow, last: LastRefused | null): Html {
  if (last === null) return html`<p>No attempt with it is known since. ${retentionText(c)}</p>`;
  return html`<p class="notice warn-notice">Somebody still uses this key: it was refused last <a href="${requests}/${last.request_id}">${c.var.format.ago(last.occurred_at)}</a>.
<a href="${requests}?key=${id}&amp;status=401">All refused attempts</a></p>`;
}

async function edit(c: PageContext, form: Form): Promise<Response> {
  const [{ id: company }, key] = await readOfCompany(c, (sql, id) => findKey(sql, param(c, 'key'), id));
  const name = form.required('name', readName);
  const scopes = readScopes(form);
  const restrictions = await readRestrictions(c, form, key.allowed_model_slugs ?? []);
  form.check();
  const { id } = key;
  const changes = { name, scopes, ...restrictions };
  await change(c, async (sql) => {
    const find = () => findKey(sql, id, company);
    const page = `/companies/${company}/access/${id}`;
    const rowChange = { table: 'api_keys', id, company, labels: LABELS, changes, find, page } as const;
    const { monthly_budget_eur: before } = await lockEdited<KeyRow>(c, sql, form, rowChange);
    const spent = await readSpent(sql, company, id);
    askIfUsedUp(form, c.var.format, { name: `The key ${key.name}`, budget: changes.monthly_budget_eur, before, spent });
    await setKey(sql, id, changes, company);
  });
  return c.redirect(`/companies/${company}/access?done=saved`, 303);
}

async function revokePage(c: PageContext): Promise<Response> {
  const [company, key] = await readOfCompany(c, (sql, id) => findKey(sql, param(c, 'key'), id));
  const base = `/companies/${company.id}/access`;
  const body = html`${companyHeading(c, company)}<h1>Revoke this key?</h1>
${confirmation(c, {
  action: `${base}/${key.id}/revoke`,
  button: 'Revoke key',
  back: base,
  text: html`<p><strong>${key.name}</strong> <code>${key.prefix}…</code></p>
<p>Requests with it are refused with 401 within a second. This cannot be undone. ${
    key.last_used_at === null ? 'It was never used.' : html`It was last used ${c.var.format.instant(key.last_used_at)}.`
  }</p>`,
})}`;
  return page(c, 'Revoke a key', body);
}

async function revoke(c: PageContext): Promise<Response> {
  const company = param(c, 'company');
  const key = param(c, 'key');
  await change(c, (sql) => revokeKey(sql, key, company));
  return c.redirect(`/companies/${company}/access?done=revoked&key=${key}`, 303);
}
