import { randomUUID } from 'node:crypto';
import { html } from 'hono/html';
import { FieldError, oneOf, readInstant, readName, readScope, readUuid } from '../domain/field.ts';
import { restrictionTexts } from '../domain/limit-text.ts';
import { SCOPES, type Scope } from '../domain/scope.ts';
import { readPresentMonth, readSpent } from '../store/daily.ts';
import { readCompany } from '../store/directory.ts';
import { createKey, findKey, type KeyRow, revokeKey, rotateKey, setKey } from '../store/key.ts';
import { type KeySort, pageOfKeys } from '../store/page.ts';
import { askIfUsedUp } from './budget-question.ts';
import { change, mayNow, type PageContext, param, type Route, read, readOfCompany } from './context.ts';
import { checkboxes, csrfInput, type FormState, field, formState, select } from './field.ts';
import type { Form } from './form.ts';
import type { Format } from './format.ts';
import type { Html } from './html.ts';
import { revealPage } from './key-reveal.ts';
import { badge, companyHeading, confirmation, muted, page } from './layout.ts';
import { list, listQuery } from './list.ts';
import { offsetAt } from './local-time.ts';
import { foldedRestrictionFields, RESTRICTION_LABELS, readRestrictions, restrictionFields } from './restriction.ts';
import { type Labels, lockEdited, seenInput } from './stale.ts';
import { usageCards } from './usage-cards.ts';

const BASE = '/companies/:company/access';

/** The access section (spec sections 2.7 and 5): API keys of a company, and a summary of its month. */
export const keyRoutes: readonly Route[] = [
  { method: 'GET', path: BASE, action: 'key.read', handle: accessPage },
  { method: 'POST', path: `${BASE}/create`, action: 'key.write', long: true, handle: create, page: accessPage },
  { method: 'GET', path: `${BASE}/:key`, action: 'key.write', handle: editPage },
  { method: 'POST', path: `${BASE}/:key`, action: 'key.write', long: true, handle: edit, page: editPage },
  { method: 'GET', path: `${BASE}/:key/revoke`, action: 'key.write', handle: revokePage },
  { method: 'POST', path: `${BASE}/:key/revoke`, action: 'key.write', handle: revoke },
  { method: 'GET', path: `${BASE}/:key/rotate`, action: 'key.write', handle: rotatePage },
  { method: 'POST', path: `${BASE}/:key/rotate`, action: 'key.write', handle: rotate, page: rotatePage },
];

const SCOPE_TEXTS: Readonly<Record<Scope, string>> = {
  chat: 'Chat completions',
  embeddings: 'Embeddings',
  assistants: 'Assistant runs',
};

const SORTS = {
  '-created': 'Newest',
  name: 'Name',
  '-used': 'Last used',
  expires: 'First to expire',
  '-cost': 'Highest cost',
};

/** How long an old key works beside the new one, by seconds. */
const OVERLAPS: Readonly<Record<string, string>> = {
  '0': 'None: the old key stops at once',
  '3600': 'One hour',
  '86400': 'One day',
  '604800': 'One week',
  '2592000': '30 days',
};

/** What the form of a key edits. */
const LABELS: Labels<KeyRow> = { name: 'Name', scopes: 'Scopes', ...RESTRICTION_LABELS };

async function accessPage(c: PageContext, form: Form): Promise<Response> {
  const { format, services } = c.var;
  const id = param(c, 'company');
  const base = `/companies/${id}/access`;
  const query = listQuery<KeySort>(c, SORTS);
  const { company, keys, usage } = await read(c, async (sql) => ({
    company: await readCompany(sql, id),
    keys: await pageOfKeys(sql, id, query),
    usage: await readPresentMonth(sql, id, 1),
  }));
  const state = formState(form, `${base}/create`);
  const now = services.clock();
  const isWritable = mayNow(c, 'key.write');
  const cells = {
    Key: ({ id, name, prefix, state }: KeyRow) =>
      html`<strong>${isWritable && state === 'active' ? html`<a href="${base}/${id}">${name}</a>` : name}</strong><br><code>${prefix}…</code>`,
    State: (key: KeyRow) => html`${stateOf(key, now)}${restrictionsOf(key, format)}`,
    Scopes: ({ scopes }: KeyRow) => html`<span class="scopes">${scopes.map((scope) => badge('plain', scope))}</span>`,
    Created: ({ created_at, created_by }: KeyRow) =>
      html`${format.instant(created_at)}<br><span class="muted">${created_by ?? 'unknown'}</span>`,
    'Last used': ({ last_used_at: at }: KeyRow) => (at === null ? muted('never') : format.ago(at, now)),
    Expires: ({ expires_at: at }: KeyRow) => (at === null ? muted('never') : format.instant(at)),
    'Cost this month': ({ spent }: { spent: string }) => format.eur(spent),
    Actions: ({ id, name, state }: KeyRow) =>
      isWritable && state === 'active'
        ? html`<span class="row-actions"><a class="button quiet" href="${base}/${id}/rotate">Rotate<span class="sr"> ${name}</span></a>
<a class="button danger" href="${base}/${id}/revoke">Revoke<span class="sr"> ${name}</span></a></span>`
        : muted('none'),
  };
  const body = html`${companyHeading(c, company)}<h1>Access</h1>
<p class="lead">Applications reach the API at <code>${services.publicUrl}</code> with one of these keys. Keep them on servers, like passwords.</p>
${list(c, { path: base, caption: 'API keys', cells, figures: ['Cost this month'], sorts: SORTS, empty: 'There are no keys yet. Create the first one below.' }, query, keys)}
<section aria-labelledby="usage"><div class="title-row"><h2 id="usage">Usage in ${format.month(usage.budget.month)}</h2>
<a class="button quiet" href="/companies/${id}/usage">Details</a></div>
${usageCards(usage, format)}</section>
${
  !isWritable
    ? ''
    : html`<section class="card" id="create"><h2>Create a key</h2>${state.summary}
<form method="post" action="${base}/create" class="stack">${csrfInput(c)}<input type="hidden" name="id" value="${randomUUID()}">
${field(state, { name: 'name', label: 'Name', required: true, hint: 'What will use it, such as “Website search”.' })}
${scopeFields(state, SCOPES)}
${field(state, { name: 'expires', label: 'Last day', type: 'date', hint: `Optional. The key works until the end of this day, ${services.calendar.timeZone} time.` })}
${foldedRestrictionFields(state, company)}
<div class="actions"><button class="primary">Create key</button></div></form></section>`
}`;
  return page(c, `Access of ${company.name}`, body);
}

function scopeFields(state: FormState, chosen: readonly Scope[]): Html {
  const choices = SCOPES.map((scope) => [scope, SCOPE_TEXTS[scope]] as const);
  return checkboxes(state, { name: 'scope', label: 'Scopes', choices, chosen });
}

function readScopes(form: Form): Scope[] {
  const scopes = form.all('scope', readScope);
  if (scopes.length === 0) form.refuse('scope', 'must be chosen, one at least.');
  return scopes;
}

/** Marks a key that may do less than its company, and says by what. */
function restrictionsOf(key: KeyRow, format: Format): Html | string {
  const texts = restrictionTexts(key, format).join(', ');
  return texts === ''
    ? ''
    : html`<br><span class="badge plain" title="${texts}">restricted<span class="sr">: ${texts}</span></span>`;
}

function stateOf({ state, expires_at }: KeyRow, now: number): Html {
  if (state === 'revoked') return badge('bad', 'revoked');
  if (state === 'expired') return badge('bad', 'expired');
  const soon = expires_at !== null && expires_at.getTime() - now < 7 * 86_400_000;
  return soon ? badge('warn', 'ends soon') : badge('good', 'active');
}

async function create(c: PageContext, form: Form): Promise<Response> {
  const { services, session } = c.var;
  const company_id = param(c, 'company');
  const id = form.required('id', readUuid);
  const name = form.required('name', readName);
  const scopes = readScopes(form);
  const expires_at = form.optional('expires', (text) => endOfDay(text, services.calendar.timeZone));
  const restrictions = await readRestrictions(c, form);
  form.check();
  const asked = { id, company_id, name, scopes, expires_at, created_by: session.user.email, ...restrictions };
  return revealPage(c, await change(c, (sql) => createKey(sql, services.keyPrefix, asked)));
}

async function editPage(c: PageContext, form: Form): Promise<Response> {
  const id = param(c, 'company');
  const { company, key } = await read(c, async (sql) => ({
    company: await readCompany(sql, id),
    key: await findKey(sql, param(c, 'key'), id),
  }));
  const base = `/companies/${id}/access`;
  const path = `${base}/${key.id}`;
  const state = formState(form, path);
  const body = html`${companyHeading(c, company)}<h1>Edit ${key.name} <code>${key.prefix}…</code></h1>
<section class="card">${state.summary}
<form method="post" action="${path}" class="stack">${csrfInput(c)}${seenInput(state, key, LABELS)}
${field(state, { name: 'name', label: 'Name', value: key.name, required: true })}
${scopeFields(state, key.scopes)}
<h2>Limits and restrictions</h2>
${restrictionFields(state, company, key)}
<div class="actions"><button class="primary">Save key</button> <a class="button quiet" href="${base}">Cancel</a></div></form></section>`;
  return page(c, `Edit ${key.name}`, body);
}

async function edit(c: PageContext, form: Form): Promise<Response> {
  const [{ id: company }, key] = await find(c);
  const name = form.required('name', readName);
  const scopes = readScopes(form);
  const restrictions = await readRestrictions(c, form, key.allowed_model_slugs ?? []);
  form.check();
  const { id } = key;
  const changes = { name, scopes, ...restrictions };
  await change(c, async (sql) => {
    const find = () => findKey(sql, id, company);
    const page = `/companies/${company}/access/${id}`;
    const edit = { table: 'api_keys', id, company, labels: LABELS, changes, find, page } as const;
    const { monthly_budget_eur: before } = await lockEdited<KeyRow>(c, sql, form, edit);
    const spent = await readSpent(sql, company, id);
    askIfUsedUp(form, c.var.format, { name: `The key ${key.name}`, budget: changes.monthly_budget_eur, before, spent });
    await setKey(sql, id, changes, company);
  });
  return c.redirect(`/companies/${company}/access?done=saved`, 303);
}

async function revokePage(c: PageContext): Promise<Response> {
  const [company, key] = await find(c);
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
  await change(c, (sql) => revokeKey(sql, param(c, 'key'), company));
  return c.redirect(`/companies/${company}/access?done=revoked`, 303);
}

async function rotatePage(c: PageContext, form: Form): Promise<Response> {
  const [company, key] = await find(c);
  const base = `/companies/${company.id}/access`;
  const path = `${base}/${key.id}/rotate`;
  const state = formState(form, path);
  const body = html`${companyHeading(c, company)}<h1>Rotate this key</h1>
<section class="card"><p><strong>${key.name}</strong> <code>${key.prefix}…</code></p>
<p>A new key with the same name, scopes, limits and expiry takes its place. Both work during the overlap, so that you can change over without an outage; then the old one ends.</p>${state.summary}
<form method="post" action="${path}" class="stack">${csrfInput(c)}<input type="hidden" name="id" value="${randomUUID()}">
${select(state, { name: 'overlap', label: 'Overlap', choices: Object.entries(OVERLAPS), value: '86400' })}
<div class="actions"><button class="primary">Create the new key</button> <a class="button quiet" href="${base}">Cancel</a></div></form></section>`;
  return page(c, 'Rotate a key', body);
}

async function rotate(c: PageContext, form: Form): Promise<Response> {
  const { services, session, format } = c.var;
  const company_id = param(c, 'company');
  const new_id = form.required('id', readUuid);
  const overlap = Number(form.required('overlap', oneOf(...Object.keys(OVERLAPS))));
  form.check();
  const asked = { id: param(c, 'key'), company_id, overlap, created_by: session.user.email, new_id };
  const created = await change(c, (sql) => rotateKey(sql, services.keyPrefix, asked));
  const [, old] = await find(c);
  const end =
    old.expires_at === null || old.revoked_at !== null
      ? 'has stopped working'
      : html`works until ${format.instant(old.expires_at)}`;
  return revealPage(c, created, html`<p>The old key <code>${old.prefix}…</code> ${end}.</p>`);
}

function find(c: PageContext) {
  return readOfCompany(c, (sql, company) => findKey(sql, param(c, 'key'), company));
}

/** The first moment after a day in a time zone. @throws FieldError */
function endOfDay(text: string, timeZone: string): Date {
  if (!/^\d{4}-\d\d-\d\d$/.test(text)) throw new FieldError('must be a date such as 2027-01-31');
  const next = readInstant(text).getTime() + 86_400_000;
  // twice, because the offset may change on this very day
  const about = next - offsetAt(next, timeZone);
  return new Date(next - offsetAt(about, timeZone));
}
