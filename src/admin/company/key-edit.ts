import { isOver } from '../../domain/key.ts';
import type { Words } from '../../domain/language/en.ts';
import { EDITED, KEY, PURPOSE } from '../../domain/settings/key.ts';
import { namesOf } from '../../domain/settings/schema.ts';
import { labelsOf, type Settings } from '../../domain/settings/setting.ts';
import { changeKey, revokeKey } from '../../operations/key.ts';
import { findKey, type KeyChanges, type KeyRow } from '../../store/company/key.ts';
import { readCompany } from '../../store/gateway/directory.ts';
import { readKeyBudgets } from '../../store/usage/company-usage.ts';
import { type LastRefused, lastRefused } from '../../store/usage/request.ts';
import { callerOf, readerOf } from '../page/caller.ts';
import { change, mayNow, type PageContext, param, type Route, read, readOfCompany } from '../page/context.ts';
import { csrfInput, formState } from '../page/field.ts';
import type { Form } from '../page/form.ts';
import type { Format } from '../page/format.ts';
import { type Html, html } from '../page/html.ts';
import { companyHeading, confirmation, page } from '../page/layout.ts';
import { lockEdited, lockInput } from '../page/optimistic-lock.ts';
import { readSettings, settingFields } from '../page/setting.ts';
import { KEY_LISTS, keysPath, requestsPath, seesOwnAlone, usagePath } from '../usage/reach.ts';
import { retentionText } from '../usage/requests.ts';
import { budgetLine } from '../usage/usage-cards.ts';
import { keyActions, keyState } from './key.ts';
import { keyInReach } from './key-reveal.ts';
import { keyPauseCard, pausedKey, pauseKeyForm, resumeKeyForm } from './pause.ts';
import { restrictionFields } from './restriction.ts';

const PATH = '/companies/:company/keys/:key';

/** One key: its history, and what can be done with it, but for its rotation. */
export const keyEditRoutes: readonly Route[] = [
  { method: 'GET', path: PATH, action: 'key.read', handle: keyPage },
  { method: 'POST', path: PATH, action: 'key.write', long: true, handle: edit, page: keyPage },
  { method: 'POST', path: `${PATH}/pause`, action: 'key.write', handle: pauseKeyForm, page: keyPage },
  { method: 'POST', path: `${PATH}/resume`, action: 'key.write', handle: resumeKeyForm },
  ...KEY_LISTS.flatMap(([list, action]): readonly Route[] => [
    { method: 'GET', path: `${list}/:key/revoke`, action, handle: revokePage },
    { method: 'POST', path: `${list}/:key/revoke`, action, handle: revoke },
  ]),
];

async function keyPage(c: PageContext, form: Form): Promise<Response> {
  const id = param(c, 'company');
  const { company, key } = await read(c, async (sql) => ({
    company: await readCompany(sql, id),
    key: await findKey(sql, param(c, 'key'), id),
  }));
  const base = `/companies/${id}/keys`;
  const path = `${base}/${key.id}`;
  const state = formState(form, path);
  const { key: words, keys, form: forms } = state.words;
  const isEditable = key.state !== 'revoked' && mayNow(c, 'key.write');
  const body = html`${companyHeading(c, company)}<div class="title-row"><h1>${words.title({ isEditable, name: key.name })} <code>${key.prefix}…</code></h1>
${isEditable ? keyActions(keys, base, key) : ''}</div>
${await keyFacts(c, key)}
${
  !isEditable
    ? html`${state.summary}<p><a href="${base}">${words.all}</a></p>`
    : html`<section class="card">${state.summary}
<form method="post" action="${path}" class="stack">${csrfInput(c)}${lockInput(state, key, labelsOf(EDITED, state.words))}
${key.purpose === null ? settingFields(state, PURPOSE, key) : ofPlayground(words, key)}
<h2>${state.words.restrictions.title}</h2>
${restrictionFields(state, company, key)}
<div class="actions"><button class="primary">${words.save}</button> <a class="button quiet" href="${base}">${forms.cancel}</a></div></form></section>`
}${keyPauseCard(c, key, form)}`;
  return page(c, words.page(key.name), body);
}

/** What belongs to the person of a playground, and is not changed. */
function ofPlayground(words: Words['key'], key: KeyRow): Html {
  const inputs = namesOf(PURPOSE).flatMap((column) =>
    [key[column]]
      .flat()
      .map((value) => html`<input type="hidden" name="${PURPOSE[column].field.name}" value="${value}">`),
  );
  return html`<p>${words.ofPlayground}</p>${inputs}`;
}

/** What is known of a key, with what was spent of its own budgets, and the ways to its requests and usage. */
export async function keyFacts(c: PageContext, key: KeyRow): Promise<Html> {
  const { key: words } = c.var.format.words;
  const { budgets, refused } = await read(c, async (sql) => ({
    budgets: await readKeyBudgets(sql, key),
    refused: isOver(key.state) ? await lastRefused(sql, key.id) : null,
  }));
  const requests = requestsPath(c, key.company_id);
  return html`<p class="lead">${keyState(key, c.var.services.clock(), c.var.format)} ${history(key, c.var.format)}
${key.person === null || seesOwnAlone(c, key.company_id) ? '' : html`${words.ofPerson(key.person)} `}<a href="${requests}?key=${key.id}">${words.requests}</a>, <a href="${usagePath(c, key.company_id)}?key=${key.id}">${words.usage}</a></p>
${budgets.map((budget) => budgetLine(budget, c.var.format))}
${isOver(key.state) ? attempts(c, requests, key, refused) : ''}${pausedKey(c, key)}`;
}

/** When a key was made, used and ended. */
function history({ created_at, created_by, last_used_at, expires_at, revoked_at }: KeyRow, format: Format): Html {
  const end = revoked_at ?? expires_at;
  const words = format.words.key;
  return html`${words.created({ at: format.instant(created_at), by: format.person(created_by) })}${
    last_used_at === null ? words.neverUsed : words.used(format.instant(last_used_at))
  }${end && (revoked_at === null ? words.until(format.instant(end)) : words.revoked(format.instant(end)))}.`;
}

/** Whether somebody still uses a key that does not work any more. @param last the last attempt that is kept */
function attempts(c: PageContext, requests: string, { id }: KeyRow, last: LastRefused | null): Html {
  const words = c.var.format.words.key;
  if (last === null) return html`<p>${words.noAttempt} ${retentionText(c)}</p>`;
  const when = html`<a href="${requests}/${last.request_id}">${c.var.format.ago(last.occurred_at)}</a>`;
  return html`<p class="notice warn-notice">${words.attempt(when)}
<a href="${requests}?key=${id}&amp;status=401">${words.attempts}</a></p>`;
}

async function edit(c: PageContext, form: Form): Promise<Response> {
  const base = `/companies/${param(c, 'company')}/keys`;
  return saveKey(c, form, { settings: EDITED, base, page: `${base}/${param(c, 'key')}` });
}

/** Saves a form of some settings of a key. @param at the list of keys, and the page of this one */
export async function saveKey(
  c: PageContext,
  form: Form,
  { settings, base, page }: { readonly settings: Settings; readonly base: string; readonly page: string },
): Promise<Response> {
  const [company, id] = [param(c, 'company'), param(c, 'key')];
  const changes = readSettings(form, settings) as KeyChanges;
  form.check();
  await change(c, async (sql) => {
    const find = () => keyInReach(c, sql);
    const labels = labelsOf(settings, form.words);
    await lockEdited<object>(c, sql, form, { table: 'api_keys', id, company, labels, changes, find, page });
    await changeKey(sql, callerOf(c, form, KEY), id, company, changes);
  });
  return c.redirect(`${base}?done=saved`, 303);
}

async function revokePage(c: PageContext): Promise<Response> {
  const [company, key] = await readOfCompany(c, (sql) => keyInReach(c, sql));
  const base = keysPath(c, company.id);
  const { revoke: words } = c.var.format.words.key;
  const body = html`${companyHeading(c, company)}<h1>${words.heading}</h1>
${confirmation(c, {
  action: `${base}/${key.id}/revoke`,
  button: words.button,
  back: base,
  text: html`<p><strong>${key.name}</strong> <code>${key.prefix}…</code></p>
<p>${words.text} ${
    key.last_used_at === null ? words.neverUsed : words.used(c.var.format.instant(key.last_used_at))
  }</p>`,
})}`;
  return page(c, words.title, body);
}

async function revoke(c: PageContext): Promise<Response> {
  const company = param(c, 'company');
  const key = param(c, 'key');
  await change(c, (sql) => revokeKey(sql, readerOf(c), key, company));
  return c.redirect(`${keysPath(c, company)}?done=revoked&key=${key}`, 303);
}
