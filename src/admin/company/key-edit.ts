import type { Company } from '../../domain/company.ts';
import { oneOf, readName } from '../../domain/field.ts';
import { isOver } from '../../domain/key.ts';
import type { Words } from '../../domain/language/en.ts';
import { EDITED, KEY, PURPOSE } from '../../domain/settings/key.ts';
import { restrictionTexts } from '../../domain/settings/limit-text.ts';
import { namesOf } from '../../domain/settings/schema.ts';
import type { Settings } from '../../domain/settings/setting.ts';
import { may } from '../../operations/frame/permission.ts';
import {
  changeKey,
  isLocked,
  pauseKey,
  resumeKey,
  revokeKey,
  rotateKey,
} from '../../operations/key.ts';
import type { KeyChanges, KeyRow } from '../../store/company/key.ts';
import { readCompany } from '../../store/gateway/directory.ts';
import { readKeyBudgets } from '../../store/usage/company-usage.ts';
import { type LastRefused, lastRefused } from '../../store/usage/request.ts';
import { callerOf, readerOf } from '../page/caller.ts';
import { askedFirst } from '../page/confirmation.ts';
import {
  backTo,
  change,
  formAt,
  mayNow,
  type PageContext,
  pageAt,
  param,
  type Route,
  read,
} from '../page/context.ts';
import { actionForm, type FormState, field, formState, saveForm, select } from '../page/field.ts';
import type { Form } from '../page/form.ts';
import type { Format } from '../page/format.ts';
import { type Html, html } from '../page/html.ts';
import {
  cancelLink,
  companyHeading,
  linkButton,
  page,
  supportLink,
  titledCard,
} from '../page/layout.ts';
import { lockEdited, lockInput } from '../page/optimistic-lock.ts';
import { readSettings, settingFields } from '../page/setting.ts';
import { KEY_LISTS, keysPath, requestsPath, seesOwnAlone, usagePath } from '../usage/reach.ts';
import { retentionText } from '../usage/requests.ts';
import { budgetLine } from '../usage/usage-cards.ts';
import { keyActions, keyState, restrictionFields, scopeTexts } from './key.ts';
import {
  idempotencyInputs,
  keyInReach,
  readIdempotencyInputs,
  redirectToKey,
  replaceForm,
} from './key-reveal.ts';

const PATH = '/companies/:company/keys/:key';
/** What a member changes of an own key. */
const OWN_EDITED = { name: KEY.name };

/** How long an old key works beside the new one: the names of the texts, by seconds. */
const OVERLAPS = {
  '3600': 'hour',
  '86400': 'day',
  '604800': 'week',
  '2592000': 'month',
} as const satisfies Readonly<Record<string, keyof Words['key']['rotate']['overlaps']>>;

/** One key: its history, and what can be done with it. */
export const keyEditRoutes: readonly Route[] = [
  formAt(`${PATH}/pause`, 'key.write', pauseKeyForm, { page: keyPage }),
  formAt(`${PATH}/resume`, 'key.write', resumeKeyForm),
  ...KEY_LISTS.flatMap(([list, action, shown]): readonly Route[] => [
    pageAt(`${list}/:key`, shown, keyPage),
    formAt(`${list}/:key`, action, edit, { long: true, page: keyPage }),
    pageAt(`${list}/:key/rotate`, action, rotatePage),
    formAt(`${list}/:key/rotate`, action, rotate, { page: rotatePage }),
    ...askedFirst(`${list}/:key/revoke`, action, askRevocation, revoke),
  ]),
];

async function keyPage(c: PageContext, form: Form): Promise<Response> {
  const { company, key } = await read(c, async (sql) => ({
    company: await readCompany(sql, param(c, 'company')),
    key: await keyInReach(c, sql),
  }));
  const isOwn = seesOwnAlone(c, company.id);
  const base = keysPath(c, company.id);
  const path = `${base}/${key.id}`;
  const state = formState(form, path);
  const { key: words, keys, ownKeys } = state.words;
  const isEditable = key.state !== 'revoked' && mayNow(c, isOwn ? 'own-key.write' : 'key.write');
  const body = html`${companyHeading(c)}<div class="title-row"><h1>${words.title({ isEditable, name: key.name })} <code>${key.prefix}…</code></h1>
${isEditable ? keyActions(keys, base, key) : ''}</div>
${await keyFacts(c, key)}
${isOwn ? doesText(key, c.var.format) : ''}
${
  !isEditable
    ? html`${state.summary}<p><a href="${base}">${words.all}</a></p>`
    : html`<section class="card">${state.summary}
${saveForm(
  c,
  path,
  html`${lockInput(state, key, isOwn ? OWN_EDITED : EDITED)}
${isOwn ? settingFields(state, OWN_EDITED, key) : editedFields(state, company, key)}`,
  isOwn ? ownKeys.rename : words.save,
  cancelLink(c, base),
)}</section>`
}${keyPauseCard(c, key, form)}`;
  return page(c, words.page(key.name), body);
}

function editedFields(state: FormState, company: Company, key: KeyRow): Html {
  const { key: words, restrictions } = state.words;
  return html`${key.purpose === null ? settingFields(state, PURPOSE, key) : ofPlayground(words, key)}
<h2>${restrictions.title}</h2>
${restrictionFields(state, company, key)}`;
}

/** What a member's own key may do. */
function doesText(key: KeyRow, format: Format): Html {
  const { keys, limitTexts, ownKeys } = format.words;
  const restrictions = restrictionTexts(key, format, limitTexts).join(', ');
  return html`<p>${ownKeys.does({ what: scopeTexts(key, keys), restrictions })}</p>`;
}

/** What belongs to the person of a playground, and is not changed. */
function ofPlayground(words: Words['key'], key: KeyRow): Html {
  const inputs = namesOf(PURPOSE).flatMap((column) =>
    [key[column]]
      .flat()
      .map(
        (value) =>
          html`<input type="hidden" name="${PURPOSE[column].field.name}" value="${value}">`,
      ),
  );
  return html`<p>${words.ofPlayground}</p>${inputs}`;
}

/** What is known of a key, with what was spent of its own budgets, and the ways to its requests and usage. */
async function keyFacts(c: PageContext, key: KeyRow): Promise<Html> {
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
function history(
  { created_at, created_by, last_used_at, expires_at, revoked_at }: KeyRow,
  format: Format,
): Html {
  const end = revoked_at ?? expires_at;
  const words = format.words.key;
  return html`${words.created({ at: format.instant(created_at), by: format.person(created_by) })}${
    last_used_at === null ? words.neverUsed : words.used(format.instant(last_used_at))
  }${end && (revoked_at === null ? words.until(format.instant(end)) : words.revoked(format.instant(end)))}.`;
}

/** Whether somebody still uses a key that does not work any more. @param last the last attempt that is kept */
function attempts(
  c: PageContext,
  requests: string,
  { id }: KeyRow,
  last: LastRefused | null,
): Html {
  const words = c.var.format.words.key;
  if (last === null) return html`<p>${words.noAttempt} ${retentionText(c)}</p>`;
  const when = html`<a href="${requests}/${last.request_id}">${c.var.format.ago(last.occurred_at)}</a>`;
  return html`<p class="notice warn-notice">${words.attempt(when)}
<a href="${requests}?key=${id}&amp;status=401">${words.attempts}</a></p>`;
}

async function edit(c: PageContext, form: Form): Promise<Response> {
  const [company, id] = [param(c, 'company'), param(c, 'key')];
  const base = keysPath(c, company);
  const settings: Settings = seesOwnAlone(c, company) ? OWN_EDITED : EDITED;
  const changes = readSettings(form, settings) as KeyChanges;
  form.check();
  await change(c, async (sql) => {
    const find = () => keyInReach(c, sql);
    const page = `${base}/${id}`;
    await lockEdited(c, sql, form, {
      table: 'api_keys',
      id,
      company,
      settings,
      changes,
      find,
      page,
    });
    await changeKey(sql, callerOf(c, form, KEY), id, company, changes);
  });
  return backTo(c, base, 'saved');
}

async function askRevocation(c: PageContext) {
  const {
    company_id,
    name,
    prefix,
    last_used_at: used,
  } = await read(c, (sql) => keyInReach(c, sql));
  const { revoke: words } = c.var.format.words.key;
  const text = html`<p><strong>${name}</strong> <code>${prefix}…</code></p>
<p>${words.text} ${used === null ? words.neverUsed : words.used(c.var.format.instant(used))}</p>`;
  return { title: words.heading, text, button: words.button, back: keysPath(c, company_id) };
}

async function revoke(c: PageContext): Promise<Response> {
  const [company, key] = [param(c, 'company'), param(c, 'key')];
  await change(c, (sql) => revokeKey(sql, readerOf(c), key, company));
  return backTo(c, keysPath(c, company), `revoked&key=${key}`);
}

/** Replacing a key: with an overlap for a planned change, at once when it leaked. */
async function rotatePage(c: PageContext, form: Form): Promise<Response> {
  const key = await read(c, (sql) => keyInReach(c, sql));
  const base = keysPath(c, key.company_id);
  const path = `${base}/${key.id}/rotate`;
  const state = formState(form, path);
  const { rotate: words } = state.words.key;
  const overlaps = Object.entries(OVERLAPS).map(
    ([seconds, name]) => [seconds, words.overlaps[name]] as const,
  );
  const body = html`${companyHeading(c)}<h1>${words.heading}</h1>
<p class="lead"><strong>${key.name}</strong> <code>${key.prefix}…</code> ${words.lead}</p>${state.summary}
${titledCard(
  words.planned,
  html`<p>${words.plannedText}</p>
${saveForm(
  c,
  path,
  html`${idempotencyInputs()}
${select(state, { name: 'overlap', label: words.overlap, choices: overlaps, value: '86400' })}`,
  words.button,
)}`,
)}
${titledCard(
  words.leaked,
  html`<p>${words.leakedText}</p>
<div class="actions">${replaceForm(c, key, words.stop)}</div>`,
)}
<p>${linkButton(base, state.words.form.cancel)}</p>`;
  return page(c, words.title, body);
}

async function rotate(c: PageContext, form: Form): Promise<Response> {
  const { id: new_id, claim } = readIdempotencyInputs(c, form);
  const overlap = Number(form.required('overlap', oneOf('0', ...Object.keys(OVERLAPS))));
  form.check();
  const asked = { id: param(c, 'key'), overlap, new_id };
  const created = await change(c, (sql) =>
    rotateKey(sql, readerOf(c), param(c, 'company'), asked, claim),
  );
  return redirectToKey(c, created, asked.id);
}

/** Says that a key is paused, since when and by whom; to those who manage keys, why, with the form that resumes it. */
function pausedKey(c: PageContext, key: KeyRow): Html | string {
  const { paused_at: at, paused_by: by, pause_reason: reason, company_id, id } = key;
  if (at === null || key.state === 'revoked') return '';
  const { format, session } = c.var;
  const { pause: words } = format.words;
  const path = `/companies/${company_id}/keys/${id}/resume`;
  const locked = isLocked(session.user.role, by);
  const resuming = actionForm(c, path, words.resume);
  const text = html`<strong>${locked ? words.byOperator(format.instant(at)) : words.key({ at: format.instant(at), by: format.person(by) })}</strong> ${words.keyText}${
    reason !== null && may(session.user, 'key.read', company_id)
      ? html` ${words.reason(reason)}`
      : ''
  }${locked ? html` ${supportLink(c)}` : ''}`;
  return html`<div class="notice warn-notice">${!locked && mayNow(c, 'key.write') ? html`<p>${text}</p>${resuming}` : text}</div>`;
}

/** The form that pauses a key which works. */
function keyPauseCard(c: PageContext, key: KeyRow, form: Form): Html | string {
  if (key.state !== 'active' || !mayNow(c, 'key.write')) return '';
  const { pause: words } = form.words;
  const action = `/companies/${key.company_id}/keys/${key.id}/pause`;
  const state = formState(form, action);
  return titledCard(
    words.title,
    html`${state.summary}
<p>${words.text}</p>
${saveForm(c, action, field(state, { name: 'reason', label: words.label, required: true, hint: words.hint }), words.title, '', '')}`,
  );
}

async function pauseKeyForm(c: PageContext, form: Form): Promise<Response> {
  const reason = form.required('reason', readName);
  form.check();
  await change(c, (sql) =>
    pauseKey(sql, readerOf(c), param(c, 'key'), param(c, 'company'), reason),
  );
  return backTo(c, keyPath(c), 'key-paused');
}

async function resumeKeyForm(c: PageContext): Promise<Response> {
  await change(c, (sql) => resumeKey(sql, readerOf(c), param(c, 'key'), param(c, 'company')));
  return backTo(c, keyPath(c), 'key-resumed');
}

function keyPath(c: PageContext): string {
  return `/companies/${param(c, 'company')}/keys/${param(c, 'key')}`;
}
