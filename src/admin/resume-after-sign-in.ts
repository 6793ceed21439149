import type { ContentfulStatusCode } from 'hono/utils/http-status';
import type { Lack } from '../operations/second-factor.ts';
import type { PageContext, Session } from './page/context.ts';
import { type FormState, hiddenInputs } from './page/field.ts';
import { type Form, readForm } from './page/form.ts';
import { type Html, html } from './page/html.ts';
import { sentToken } from './page/session.ts';
import { codePage, giveCode } from './sign-in/code.ts';
import {
  type GoOnPage,
  goOnPage,
  leadingTo,
  pageAsked,
  passwordFields,
  refuseGoingOn,
} from './sign-in/go-on.ts';
import { passwordSignIn } from './sign-in/sign-in-attempt.ts';

/** Keeps what people typed in a form that was sent without a session, or while something was away. */

const MAX_FORM_BYTES = 1 << 20;
/** The page on which a second factor is set up. */
const SETUP = '/account/second-factor';

/** To the sign-in page, which leads back to the address of a page. */
export function toSignIn(c: PageContext): Response {
  const more: Record<string, string> = sentToken(c) === null ? {} : { done: 'ended' };
  return c.redirect(leadingTo('/sign-in', pageAsked(c), more), 303);
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
    refuseGoingOn(c, form, result.message);
    return againPage(c, form, result.status);
  }
  return values.get('user') === result.user.user_id ? result : c.redirect('/', 303);
}

function againPage(c: PageContext, form: Form, status: ContentfulStatusCode): Promise<Response> {
  const { signIn } = form.words;
  const other = html`<p class="or">${signIn.or}</p><p>${inNewTab(form, '/sign-in/oidc?next=/sign-in/done', signIn.withOrganisation)}</p>
<p>${signIn.comeBack}</p><button formnovalidate>${signIn.goOn}</button>`;
  const page = {
    title: signIn.title,
    fields: (state: FormState) => passwordFields(state, signIn, 'sign-in.'),
    button: signIn.button,
    other: c.var.services.oidc === null ? '' : other,
  };
  return keptPage(c, form, signIn.ended, page, status);
}

/** A page before the form that it keeps. @param notice unless the form says why it was refused */
function keptPage(
  c: PageContext,
  form: Form,
  notice: string,
  { fields, lead = '', ...page }: GoOnPage,
  status: ContentfulStatusCode,
): Promise<Response> {
  const told =
    form.messages.size > 0 ? '' : html`<p class="notice warn-notice" role="status">${notice}</p>`;
  const kept = (state: FormState) => html`${hiddenInputs(form.kept)}${fields?.(state) ?? ''}`;
  return goOnPage(c, form, { ...page, lead: html`${told}${lead}`, fields: kept }, status);
}

function inNewTab({ words: { signIn } }: Form, href: string, text: string): Html {
  return html`<a class="button wide" href="${href}" target="_blank" rel="noopener">${text} <span class="muted">${signIn.inNewTab}</span></a>`;
}

/**
 * A request of a session that still lacks something: a page is asked for after it, and what was typed in a form is kept.
 * @returns the session that has what it lacked, or an answer
 */
export async function letIn(
  c: PageContext,
  session: Session,
  lack: Lack,
): Promise<Session | Response> {
  const form = c.req.method === 'POST' ? await readSent(c) : null;
  if (!form?.values.has('user'))
    return c.redirect(lack === 'setup' ? SETUP : leadingTo('/sign-in/code', pageAsked(c)), 303);
  if (lack === 'setup') return setupFirstPage(c, form);
  if (!form.values.has('sign-in.code')) return codeAgainPage(c, session, form, 401);
  const result = await giveCode(c, session, form);
  if (!('message' in result)) return result;
  refuseGoingOn(c, form, result.message);
  return codeAgainPage(c, session, form, result.status);
}

function codeAgainPage(
  c: PageContext,
  session: Session,
  form: Form,
  status: ContentfulStatusCode,
): Promise<Response> {
  const words = form.words.secondFactor;
  return keptPage(c, form, words.formKept(session.user.email), codePage(session, words), status);
}

/** The set-up opens in another tab: it has forms of its own. */
function setupFirstPage(c: PageContext, form: Form): Promise<Response> {
  const { secondFactor, signIn } = form.words;
  const page = {
    title: secondFactor.setUpFirst,
    lead: html`<p>${inNewTab(form, SETUP, secondFactor.setUp)}</p>`,
    fields: () => html`<p>${signIn.comeBack}</p>`,
    button: signIn.goOn,
  };
  return keptPage(c, form, secondFactor.setUpFirstText, page, 403);
}

/** Keeps a form that was sent while something was away, to be sent once more as it was; empty for other requests. */
export async function sendFormAgain(c: PageContext): Promise<Html | string> {
  const form = c.req.method === 'POST' ? await readSent(c).catch(() => null) : null;
  if (!form?.values.has('user')) return ''; // not from a page of ours
  return html`<form method="post" action="${c.req.path}"><input type="hidden" name="csrf" value="${form.values.get('csrf') ?? ''}">${hiddenInputs(form.kept)}
<p>${form.words.errors.kept}</p><p><button class="primary">${form.words.errors.sendAgain}</button></p></form>`;
}

async function readSent(c: PageContext): Promise<Form> {
  return readForm(c, MAX_FORM_BYTES);
}
