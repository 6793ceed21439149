import type { Company } from '../../domain/company.ts';
import { readName, readScope } from '../../domain/field.ts';
import { SCOPES, type Scope } from '../../domain/scope.ts';
import { actorName } from '../../domain/text/change-text.ts';
import { restrictionTexts } from '../../domain/text/limit-text.ts';
import type { KeyRow } from '../../store/company/key.ts';
import { createKeyOnce } from '../../store/company/key-reveal.ts';
import { readCompany } from '../../store/gateway/directory.ts';
import { countKeys, type KeyLife, type KeySort, pageOfKeys, playgroundKeys } from '../../store/lists/page.ts';
import { readPresentSums } from '../../store/usage/company-usage.ts';
import { change, mayNow, type PageContext, param, type Route, read } from '../page/context.ts';
import { checkboxes, createCard, type FormState, field } from '../page/field.ts';
import type { Form } from '../page/form.ts';
import type { Format } from '../page/format.ts';
import { type Html, html, raw } from '../page/html.ts';
import { badge, companyHeading, muted, page, table } from '../page/layout.ts';
import { list, listQuery } from '../page/list.ts';
import { readLastDay } from '../page/local-time.ts';
import { usageCards } from '../usage/usage-cards.ts';
import { idempotencyInputs, readIdempotencyInputs, redirectToKey, revealRoute } from './key-reveal.ts';
import { foldedRestrictionFields, readRestrictions } from './restriction.ts';

const BASE = '/companies/:company/access';

/** The access section (spec sections 2.7 and 5): API keys of a company, and a summary of its month. */
export const keyRoutes: readonly Route[] = [
  { method: 'GET', path: BASE, action: 'key.read', handle: accessPage },
  { method: 'POST', path: `${BASE}/create`, action: 'key.write', long: true, handle: create, page: accessPage },
  revealRoute,
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

async function accessPage(c: PageContext, form: Form): Promise<Response> {
  const { format, services } = c.var;
  const id = param(c, 'company');
  const base = `/companies/${id}/access`;
  const life: KeyLife = c.req.query('state') === 'dead' ? 'dead' : 'active';
  const query = listQuery<KeySort>(c, SORTS);
  const isWritable = mayNow(c, 'key.write');
  const isNew = c.req.query('done') === 'joined'; // the person, who was told to create a key
  const { company, keys, counts, playgroundRows, usage } = await read(c, async (sql) => ({
    company: await readCompany(sql, id),
    keys: await pageOfKeys(sql, id, life, query),
    counts: await countKeys(sql, id),
    playgroundRows: await playgroundKeys(sql, id),
    usage: await readPresentSums(sql, id),
  }));
  const view = (state: KeyLife, text: string) =>
    html`<a href="${state === 'active' ? base : `${base}?state=dead`}"${state === life ? raw(' aria-current="page"') : ''}>${text} (${format.count(counts[state])})</a>`;
  const body = html`${companyHeading(c, company)}<div class="title-row"><h1>Access</h1>
${isWritable ? html`<a class="button quiet" href="${base}/find">Find a leaked key</a>` : ''}</div>
<p class="lead">Applications reach the API at <code>${services.publicUrl}</code> with one of these keys. Keep them on servers, like passwords.</p>
${isWritable ? createForm(c, form, company, isNew || (life === 'active' && counts.active === 0)) : ''}
<nav class="tabs views" aria-label="Keys">${view('active', 'Active keys')}${view('dead', 'Revoked and expired')}</nav>
${list(c, keyList(c, life, base), query, keys)}
${playgrounds(c, playgroundRows, base)}<section aria-labelledby="usage"><div class="title-row"><h2 id="usage">Usage in ${format.month(usage.budget.month)}</h2>
<a class="button quiet" href="/companies/${id}/usage">Details</a></div>
${usageCards(usage, format)}</section>`;
  return page(c, `Access of ${company.name}`, body);
}

function createForm(c: PageContext, form: Form, company: Company, isFirst: boolean): Html {
  const path = `/companies/${company.id}/access/create`;
  const fields = (state: FormState) => html`${idempotencyInputs()}
${field(state, { name: 'name', label: 'Name', required: true, hint: 'What will use it, such as “Website search”.' })}
${scopeFields(state, SCOPES)}
${field(state, { name: 'expires', label: 'Last day', type: 'date', hint: 'Optional. The key works until the end of this day.' })}
${foldedRestrictionFields(state, company)}`;
  return createCard(c, form, { path, title: 'Create a key', button: 'Create key', isFirst, fields });
}

const COST = 'Cost this month';

/** Keys that work, or those that are revoked or expired. */
function keyList(c: PageContext, life: KeyLife, base: string) {
  const { format, services } = c.var;
  const now = services.clock();
  const isWritable = mayNow(c, 'key.write');
  const isActive = life === 'active';
  const cells = {
    Key: ({ id, name, prefix }: KeyRow) =>
      html`<strong><a href="${base}/${id}">${name}</a></strong><br><code>${prefix}…</code>`,
    State: (key: KeyRow) => {
      const end = key.revoked_at ?? key.expires_at;
      return html`${keyState(key, now)}${isActive ? restrictionsOf(key, format) : ''}${end && html`<br>${muted(html`${isActive ? 'until ' : ''}${format.instant(end)}`)}`}`;
    },
    Scopes: ({ scopes }: KeyRow) => html`<span class="scopes">${scopes.map((scope) => badge('plain', scope))}</span>`,
    Created: ({ created_at, created_by }: KeyRow) =>
      html`${format.instant(created_at)}<br><span class="muted by">${actorName(created_by)}</span>`,
    'Last used': ({ last_used_at: at }: KeyRow) => (at === null ? muted('never') : format.ago(at)),
    [COST]: ({ spent }: { spent: string }) => format.amount(spent),
    ...(isActive && { Actions: (key: KeyRow) => (isWritable ? keyActions(base, key) : muted('none')) }),
  };
  const shown = { path: base, cells, figures: [COST], sorts: SORTS };
  if (isActive) return { ...shown, caption: 'API keys', empty: 'No key works now.' };
  const empty = 'No key was revoked, and none has expired.';
  return { ...shown, caption: 'Revoked and expired keys', empty, kept: { state: 'dead' } };
}

/** Links to what ends a key. */
export function keyActions(base: string, { id, name, state, purpose }: KeyRow): Html {
  const isShown = purpose === null;
  return html`<span class="row-actions">${state === 'active' && isShown ? html`<a class="button quiet" href="${base}/${id}/rotate">Rotate<span class="sr"> ${name}</span></a> ` : ''}
${state === 'revoked' ? '' : html`<a class="button danger" href="${base}/${id}/revoke">Revoke<span class="sr"> ${name}</span></a>`}</span>`;
}

/** Keys of persons who tried models and assistants on the pages. */
function playgrounds(c: PageContext, keys: readonly PlaygroundKey[], base: string): Html | string {
  if (keys.length === 0) return '';
  const { format } = c.var;
  const isWritable = mayNow(c, 'key.write');
  const cells = {
    Key: ({ id, name }: KeyRow) => html`<strong><a href="${base}/${id}">${name}</a></strong>`,
    Limits: (key: KeyRow) => restrictionsOf(key, format) || muted('none'),
    'Last used': ({ last_used_at: at }: KeyRow) => (at === null ? muted('never') : format.ago(at)),
    [COST]: ({ spent }: PlaygroundKey) => format.amount(spent),
    Actions: (key: KeyRow) => (isWritable ? keyActions(base, key) : muted('none')),
  };
  return html`<section aria-labelledby="playgrounds"><h2 id="playgrounds">Playgrounds</h2>
<p class="muted">Who tried models and assistants on these pages. These keys are never shown, and work for minutes at a time.</p>
${table('Playgrounds', keys, { cells, figures: [COST] }, true)}</section>`;
}

type PlaygroundKey = Awaited<ReturnType<typeof playgroundKeys>>[number];

export function scopeFields(state: FormState, chosen: readonly Scope[]): Html {
  const choices = SCOPES.map((scope) => [scope, SCOPE_TEXTS[scope]] as const);
  return checkboxes(state, { name: 'scope', label: 'Scopes', choices, chosen });
}

export function readScopes(form: Form): Scope[] {
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

/** @param now milliseconds since the epoch */
export function keyState({ state, expires_at }: KeyRow, now: number): Html {
  if (state === 'revoked') return badge('bad', 'revoked');
  if (state === 'expired') return badge('bad', 'expired');
  const soon = expires_at !== null && expires_at.getTime() - now < 7 * 86_400_000;
  return soon ? badge('warn', 'ends soon') : badge('good', 'active');
}

async function create(c: PageContext, form: Form): Promise<Response> {
  const { services, session } = c.var;
  const company_id = param(c, 'company');
  const { id, claim } = readIdempotencyInputs(c, form);
  const name = form.required('name', readName);
  const scopes = readScopes(form);
  const expires_at = form.optional('expires', (day) => readLastDay(day, services.calendar.timeZone, services.clock()));
  const restrictions = await readRestrictions(c, form);
  form.check();
  const asked = { id, company_id, name, scopes, expires_at, created_by: session.user.email, ...restrictions };
  return redirectToKey(c, await change(c, (sql) => createKeyOnce(sql, services.keyPrefix, asked, claim)));
}
