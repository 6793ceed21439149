import type { Company } from '../../domain/company.ts';
import { KEY, scopesOf } from '../../domain/settings/key.ts';
import { restrictionTexts } from '../../domain/settings/limit-text.ts';
import { labelsOf } from '../../domain/settings/setting.ts';
import { type OwnKeyAllowance, readAllowance } from '../../store/company/own-key.ts';
import { readCompany } from '../../store/gateway/directory.ts';
import { countKeys, type KeyLife, type KeySort, pageOfKeys } from '../../store/lists/page.ts';
import { create, keyActions, keyList, keyViews, newKeyFields, sortsOf } from '../company/key.ts';
import { keyFacts, saveKey } from '../company/key-edit.ts';
import { keyInReach } from '../company/key-reveal.ts';
import { holderOf } from '../page/caller.ts';
import { mayNow, type PageContext, param, type Route, read } from '../page/context.ts';
import { createCard, csrfInput, type FormState, formState } from '../page/field.ts';
import type { Form } from '../page/form.ts';
import { type Html, html } from '../page/html.ts';
import { companyHeading, emptyText, page } from '../page/layout.ts';
import { list, listQuery } from '../page/list.ts';
import { lockInput } from '../page/optimistic-lock.ts';
import { settingFields } from '../page/setting.ts';
import { keysPath } from '../usage/reach.ts';

const BASE = '/companies/:company/own/keys';
const { name } = KEY;

/** A member's own keys. Their rotation and revocation are with those of the company's keys. */
export const ownKeyRoutes: readonly Route[] = [
  { method: 'GET', path: BASE, action: 'own-key.read', handle: listPage },
  { method: 'POST', path: `${BASE}/create`, action: 'own-key.write', long: true, handle: create, page: listPage },
  { method: 'GET', path: `${BASE}/:key`, action: 'own-key.read', handle: keyPage },
  { method: 'POST', path: `${BASE}/:key`, action: 'own-key.write', handle: rename, page: keyPage },
];

async function listPage(c: PageContext, form: Form): Promise<Response> {
  const { format, services } = c.var;
  const { keys: words, ownKeys } = format.words;
  const id = param(c, 'company');
  const holder = holderOf(c);
  const base = keysPath(c, id);
  const life: KeyLife = c.req.query('state') === 'dead' ? 'dead' : 'active';
  const query = listQuery<KeySort>(c, sortsOf(words));
  const { company, keys, counts, allowance } = await read(c, async (sql) => ({
    company: await readCompany(sql, id),
    keys: await pageOfKeys(sql, id, life, query, holder.user_id),
    counts: await countKeys(sql, id, holder.user_id),
    allowance: await readAllowance(sql, holder),
  }));
  const isWritable = mayNow(c, 'own-key.write');
  const hasAny = counts.active + counts.dead > 0;
  const body = html`${companyHeading(c, company)}<h1>${ownKeys.title}</h1>
${hasAny || allowance.most > 0 ? html`<p class="lead">${words.lead(html`<code>${services.publicUrl}</code>`)}</p>` : ''}
${isWritable ? creation(c, form, company, allowance, counts.active === 0) : ''}
${
  hasAny
    ? html`${keyViews(format, base, life, counts)}
${list(c, keyList(c, life, base, isWritable), query, keys)}`
    : ''
}`;
  return page(c, ownKeys.title, body);
}

/** The form of a new key; or why there is none. */
function creation(c: PageContext, form: Form, company: Company, allowance: OwnKeyAllowance, isFirst: boolean): Html {
  const { most, budget, active } = allowance;
  const { keys: words, ownKeys } = form.words;
  const path = `${keysPath(c, company.id)}/create`;
  if (most === 0) return emptyText(active === 0 ? ownKeys.off : ownKeys.offNow);
  if (active >= most) return html`${formState(form, path).summary}<p>${ownKeys.full(most)}</p>`;
  const mostBudget = budget === null ? '' : c.var.format.eurText(budget);
  const fields = (
    state: FormState,
  ) => html`<p class="muted">${ownKeys.allowed({ most, active, budget: mostBudget })}</p>
${newKeyFields(state, company, mostBudget)}`;
  return createCard(c, form, { path, title: words.create, button: words.createButton, isFirst, fields });
}

async function keyPage(c: PageContext, form: Form): Promise<Response> {
  const { company, key } = await read(c, async (sql) => ({
    company: await readCompany(sql, param(c, 'company')),
    key: await keyInReach(c, sql),
  }));
  const base = keysPath(c, company.id);
  const path = `${base}/${key.id}`;
  const state = formState(form, path);
  const { key: words, keys, ownKeys, form: forms } = state.words;
  const isEditable = key.state !== 'revoked' && mayNow(c, 'own-key.write');
  const { format } = c.var;
  const restrictions = restrictionTexts(key, format, format.words.limitTexts).join(', ');
  const what = scopesOf(key)
    .map((scope) => keys.scopeTexts[scope])
    .join(', ');
  const body = html`${companyHeading(c, company)}<div class="title-row"><h1>${words.title({ isEditable, name: key.name })} <code>${key.prefix}…</code></h1>
${isEditable ? keyActions(keys, base, key) : ''}</div>
${await keyFacts(c, key)}
<p>${ownKeys.does({ what, restrictions })}</p>
${
  isEditable
    ? html`<section class="card">${state.summary}
<form method="post" action="${path}" class="stack">${csrfInput(c)}${lockInput(state, key, labelsOf({ name }, form.words))}
${settingFields(state, { name }, key)}
<div class="actions"><button class="primary">${ownKeys.rename}</button> <a class="button quiet" href="${base}">${forms.cancel}</a></div></form></section>`
    : html`${state.summary}<p><a href="${base}">${words.all}</a></p>`
}`;
  return page(c, words.page(key.name), body);
}

function rename(c: PageContext, form: Form): Promise<Response> {
  const base = keysPath(c, param(c, 'company'));
  return saveKey(c, form, { settings: { name }, base, page: `${base}/${param(c, 'key')}` });
}
