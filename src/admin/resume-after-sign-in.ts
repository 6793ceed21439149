import type { ContentfulStatusCode } from 'hono/utils/http-status';
import type { Lack } from '../operations/second-factor.ts';
import type { PageContext } from './page/context.ts';
import { field, formState, hiddenInputs } from './page/field.ts';
import { type Form, isUploaded, readForm, readUpload } from './page/form.ts';
import { type Html, html, raw } from './page/html.ts';
import { plainPage } from './page/layout.ts';
import type { Session } from './page/session.ts';
import { codeFields, giveCode, signOutForm } from './sign-in/code.ts';
import { passwordSignIn } from './sign-in/sign-in-attempt.ts';

/** Keeps what people typed in a form that was sent without a session, or while something was away. */

const MAX_FORM_BYTES = 1 << 20;
const MAX_ADDRESS = 2000; // characters
/** The page on which a second factor is set up. */
const SETUP = '/account/second-factor';

/** To the sign-in page, which leads back to the address of a page. */
export function toSignIn(c: PageContext): Response {
  const query = new URLSearchParams();
  const address = c.req.path + new URL(c.req.url).search;
  const isPage = c.req.method !== 'POST' && address !== '/' && address.length <= MAX_ADDRESS;
  if (isPage) query.set('next', address);
  if (c.var.services.sessions.isSent(c)) query.set('done', 'ended');
  return c.redirect(query.size === 0 ? '/sign-in' : `/sign-in?${query}`, 303);
}

/**
 * Keeps a form that was sent without a session in hidden fields of a sign-in page at its address: nothing is stored,
 * and no other site sees it. After the sign-in the form is shown again (submission.ts). Single sign-on opens in another
 * tab, so that the typed text does not pass through the provider's site.
 * @returns the new session of the user whose form it is, or an answer
 */
export async function signInWithForm(c: PageContext): Promise<Session | Response> {
  const form = await readSent(c);
  const { values } = form;
  if (!values.has('user')) return toSignIn(c); // not from a page of ours
  const email = values.get('sign-in.email');
  if (email === null) return againPage(c, form, 401);
  const result = await passwordSignIn(c, email, values.get('sign-in.password') ?? '');
  if ('message' in result) {
    form.refuse('', result.message);
    c.set('isRefused', true);
    return againPage(c, form, result.status);
  }
  return values.get('user') === result.user.user_id ? result : c.redirect('/', 303);
}

function againPage(c: PageContext, form: Form, status: ContentfulStatusCode): Promise<Response> {
  const { oidc } = c.var.services;
  const state = formState(form, c.req.path);
  const email = 'sign-in.email';
  const password = 'sign-in.password';
  const { signIn } = form.words;
  const body = html`<div class="narrow"><h1>${signIn.title}</h1>
${form.messages.size === 0 ? html`<p class="notice warn-notice" role="status">${signIn.ended}</p>` : state.summary}
<form method="post" action="${c.req.path}"${typeOf(c)} class="card stack">${hiddenInputs(form)}
${field(state, { name: email, label: signIn.email, type: 'email', required: true, autocomplete: 'username' })}
${field(state, { name: password, label: signIn.password, type: 'password', required: true, autocomplete: 'current-password' })}
<button class="primary">${signIn.button}</button>
${
  oidc !== null
    ? html`<p class="or">${signIn.or}</p><p><a class="button wide" href="/sign-in/oidc?next=/sign-in/done" target="_blank" rel="noopener">${signIn.withOrganisation} <span class="muted">${signIn.inNewTab}</span></a></p>
<p>${signIn.comeBack}</p><button formnovalidate>${signIn.goOn}</button>`
    : ''
}</form></div>`;
  return plainPage(c, signIn.title, body, status);
}

/**
 * A request of a session that still lacks something: a page is asked for after it, and what was typed in a form is kept.
 * @returns the session that has what it lacked, or an answer
 */
export async function letIn(c: PageContext, session: Session, lack: Lack): Promise<Session | Response> {
  const form = c.req.method === 'POST' ? await readSent(c) : null;
  if (!form?.values.has('user')) return c.redirect(lack === 'setup' ? SETUP : toCode(c), 303);
  if (lack === 'setup') return setupFirstPage(c, form);
  if (!form.values.has('sign-in.code')) return codeAgainPage(c, session, form, 401);
  const result = await giveCode(c, session, form);
  if (!('message' in result)) return result;
  form.refuse('', result.message);
  c.set('isRefused', true);
  return codeAgainPage(c, session, form, result.status);
}

function toCode(c: PageContext): string {
  const address = c.req.path + new URL(c.req.url).search;
  const isPage = c.req.method !== 'POST' && address !== '/' && address.length <= MAX_ADDRESS;
  return isPage ? `/sign-in/code?${new URLSearchParams({ next: address })}` : '/sign-in/code';
}

function codeAgainPage(c: PageContext, session: Session, form: Form, status: ContentfulStatusCode): Promise<Response> {
  const state = formState(form, c.req.path);
  const { secondFactor } = form.words;
  const body = html`<div class="narrow"><h1>${secondFactor.title}</h1>
${form.messages.size === 0 ? html`<p class="notice warn-notice" role="status">${secondFactor.formKept(session.user.email)}</p>` : state.summary}
<form method="post" action="${c.req.path}"${typeOf(c)} class="card stack">${hiddenInputs(form)}
${codeFields(state, secondFactor)}
<button class="primary">${secondFactor.goOn}</button></form>${signOutForm(session, secondFactor)}</div>`;
  return plainPage(c, secondFactor.title, body, status);
}

/** The set-up opens in another tab: it has forms of its own. */
function setupFirstPage(c: PageContext, form: Form): Promise<Response> {
  const { secondFactor, signIn } = form.words;
  const body = html`<div class="narrow"><h1>${secondFactor.setUpFirst}</h1>
<p class="notice warn-notice" role="status">${secondFactor.setUpFirstText}</p>
<p><a class="button wide" href="${SETUP}" target="_blank" rel="noopener">${secondFactor.setUp} <span class="muted">${signIn.inNewTab}</span></a></p>
<form method="post" action="${c.req.path}"${typeOf(c)} class="card stack">${hiddenInputs(form)}
<p>${signIn.comeBack}</p><button class="primary">${signIn.goOn}</button></form></div>`;
  return plainPage(c, secondFactor.setUpFirst, body, 403);
}

/** Keeps a form that was sent while something was away, to be sent once more as it was; empty for other requests. */
export async function sendFormAgain(c: PageContext): Promise<Html | string> {
  const form = c.req.method === 'POST' ? await readSent(c).catch(() => null) : null;
  if (!form?.values.has('user')) return ''; // not from a page of ours
  return html`<form method="post" action="${c.req.path}"${typeOf(c)}><input type="hidden" name="csrf" value="${form.values.get('csrf') ?? ''}">${hiddenInputs(form)}
<p>${form.words.errors.kept}</p><p><button class="primary">${form.words.errors.sendAgain}</button></p></form>`;
}

async function readSent(c: PageContext): Promise<Form> {
  return isUploaded(c) ? readUpload(c, MAX_FORM_BYTES) : readForm(c, MAX_FORM_BYTES);
}

/** The attribute of a form that is sent as the request was. */
function typeOf(c: PageContext): Html | string {
  return isUploaded(c) ? raw(' enctype="multipart/form-data"') : '';
}
