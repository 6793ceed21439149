import { randomBytes } from 'node:crypto';
import type { Company } from '../../domain/company.ts';
import { FieldError, readUuid } from '../../domain/field.ts';
import { modelsOf } from '../../domain/gate.ts';
import type { Parts } from '../../domain/language/words.ts';
import { scopesOf } from '../../domain/settings/key.ts';
import { findKeyInReach } from '../../operations/key.ts';
import type { KeyRow, MintedKey } from '../../store/company/key.ts';
import { type Claim, REVEAL_SECONDS, type RevealedKey } from '../../store/company/key-reveal.ts';
import type { Sql } from '../../store/connection/pool.ts';
import { readCompany } from '../../store/gateway/directory.ts';
import { readerOf } from '../page/caller.ts';
import { type PageContext, pageAt, param, type Route, read } from '../page/context.ts';
import { csrfInput, idempotencyInput } from '../page/field.ts';
import type { Form } from '../page/form.ts';
import { type Html, html } from '../page/html.ts';
import { copyable, linkButton } from '../page/layout.ts';
import { gonePage, redirectToSecret, secretOf, shownPage } from '../page/shown-once.ts';
import { callSnippets, keyVariable } from '../usage/call-snippet.ts';
import { KEY_LISTS, keysPath, seesOwnAlone } from '../usage/reach.ts';

/** A key is shown by the page that follows the form that made it: for a minute, also where the same form is sent again. */

/** Below the page of the key. `?old=` is the key that it replaces. */
export const revealRoutes: readonly Route[] = KEY_LISTS.map(([list, action]) =>
  pageAt(`${list}/:key/shown`, action, revealPage, { whileClosed: true }),
);

/** A key of the path that the reader may see, as one of the company or an own one. @throws Refused missing */
export function keyInReach(c: PageContext, sql: Sql, id = param(c, 'key')): Promise<KeyRow> {
  return findKeyInReach(sql, readerOf(c), id, param(c, 'company'));
}

/** Hidden fields of a form that makes a key: the id of the key, and a secret that only the form knows. */
export function idempotencyInputs(): Html {
  return html`${idempotencyInput()}<input type="hidden" name="claim" value="${randomBytes(32).toString('base64url')}">`;
}

/** Reads them. Another session gets no text of a key with them. */
export function readIdempotencyInputs(
  c: PageContext,
  form: Form,
): { readonly id: string; readonly claim: Claim } {
  const id = form.required('id', readUuid);
  const secret = form.required('claim', readSecret);
  return { id, claim: { secret, holder: `session ${c.var.session.digest.toString('hex')}` } };
}

function readSecret(text: string): string {
  if (!/^[\w-]{43}$/.test(text)) throw new FieldError('must be 32 bytes in base64url');
  return text;
}

/** The form that replaces a key at once: the old one stops, the answer shows the new one. */
export function replaceForm(
  c: PageContext,
  key: { readonly id: string; readonly company_id: string },
  button: string,
) {
  return html`<form method="post" action="${keysPath(c, key.company_id)}/${key.id}/rotate" class="inline">${csrfInput(c)}${idempotencyInputs()}<input type="hidden" name="overlap" value="0"><button class="danger">${button}</button></form>`;
}

/** The answer to a form that made a key. @param old the key that it replaces */
export function redirectToKey(
  c: PageContext,
  { id, company_id, key, created_at }: RevealedKey,
  old?: string,
): Response {
  const path = `${keysPath(c, company_id)}/${id}/shown`;
  return redirectToSecret(c, path, key, created_at, old === undefined ? '' : `?old=${old}`);
}

async function revealPage(c: PageContext): Promise<Response> {
  const old = c.req.query('old');
  const { company, key, replaced } = await read(c, async (sql) => ({
    company: await readCompany(sql, param(c, 'company')),
    key: await keyInReach(c, sql),
    replaced: old === undefined ? null : await keyInReach(c, sql, readUuid(old)),
  }));
  const text = key.state === 'active' ? secretOf(c) : null;
  return text === null
    ? keyGone(c, company, key)
    : keyShown(c, company, { ...key, key: text }, replaced);
}

/** The page is opened too late, or the form came again from another session or with other settings. */
function keyGone(c: PageContext, company: Company, key: KeyRow): Promise<Response> {
  const { shown: words, all } = c.var.format.words.key;
  const named = html`<strong>${key.name}</strong> <code>${key.prefix}…</code>`;
  const at = c.var.format.instant(key.created_at);
  const text = html`<p>${words.goneText({ key: named, at, seconds: REVEAL_SECONDS })}</p>
<p>${key.state === 'active' ? words.replaceText : words.isNotActive(key.state)}</p>
<div class="actions">${key.state === 'active' ? replaceForm(c, key, words.replace) : ''}
${linkButton(keysPath(c, company.id), all)}</div>`;
  return gonePage(c, { title: words.gone, text });
}

function keyShown(
  c: PageContext,
  company: Company,
  key: MintedKey,
  old: KeyRow | null,
): Promise<Response> {
  const { shown: words } = c.var.format.words.key;
  return shownPage(c, {
    title: words.title,
    once: words.once,
    reload: words.store(REVEAL_SECONDS),
    body: html`${old === null ? '' : html`<p>${words.old({ prefix: html`<code>${old.prefix}…</code>`, end: endOf(c, old) })}</p>`}
${keyCard(c, company, key)}`,
    after: html`<p><a class="button primary" href="${keysPath(c, company.id)}">${words.done}</a></p>`,
  });
}

/** The text of a key, and calls with it that work: for a page that shows it once. */
export function keyCard(c: PageContext, company: Company, key: MintedKey): Html {
  const callable = modelsOf(company, key);
  const { publicUrl, brand } = c.var.services;
  const header = `'Authorization: Bearer ${key.key}'`;
  const { curl, sdk } = callSnippets(
    publicUrl,
    keyVariable(brand.name),
    header,
    scopesOf(key),
    callable,
  );
  const { shown: words } = c.var.format.words.key;
  const isOwn = seesOwnAlone(c, key.company_id);
  const models = (text: string) =>
    isOwn ? text : html`<a href="/companies/${key.company_id}/models">${text}</a>`;
  return html`${callable.length > 0 ? '' : html`<p class="notice warn-notice">${words.noModel(models)}</p>`}
<section class="card reveal"><h2>${key.name}</h2>
${copyable(c, 'key', words.apiKey, key.key)}
${copyable(c, 'curl', words.curl, curl)}
${copyable(c, 'sdk', words.sdk, sdk)}
</section>`;
}

/** How long a key that is replaced still works. */
function endOf(c: PageContext, { expires_at, revoked_at }: KeyRow): Parts | string {
  const { shown: words } = c.var.format.words.key;
  return expires_at === null || revoked_at !== null
    ? words.stopped
    : words.works(c.var.format.instant(expires_at));
}
