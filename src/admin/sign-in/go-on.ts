import type { ContentfulStatusCode } from 'hono/utils/http-status';
import type { Words } from '../../domain/language/en.ts';
import type { PageContext } from '../page/context.ts';
import { type FormState, field, formState } from '../page/field.ts';
import { Form, FormRefused, readForm } from '../page/form.ts';
import { type Html, html } from '../page/html.ts';
import { plainPage } from '../page/layout.ts';

/** The pages before somebody is let in. Each has a form, behind which the person goes on to the page that was asked for. */
export interface GoOnPage {
  readonly title: string;
  /** Default: the title. */
  readonly heading?: string;
  /** Where the form is sent; default: to the address of the page. */
  readonly path?: string;
  /** Above the form. */
  readonly lead?: Html | string;
  /** In the form, with the button on which is `button`. */
  fields?(state: FormState): Html;
  readonly button: string;
  /** In the form and below it. */
  readonly other?: Html | string;
  readonly below?: Html | string;
}

export function goOnPage(
  c: PageContext,
  form: Form,
  {
    title,
    heading = title,
    path = c.req.path,
    lead = '',
    fields,
    button,
    other = '',
    below = '',
  }: GoOnPage,
  status?: ContentfulStatusCode,
): Promise<Response> {
  const state = formState(form, path);
  const body = html`<div class="narrow"><h1>${heading}</h1>
${lead}
${state.summary}
<form method="post" action="${path}" class="card stack">${fields?.(state) ?? ''}
<button class="primary">${button}</button>${other}</form>
${below}</div>`;
  return plainPage(c, title, body, status);
}

/** Refuses a form before somebody is let in: `goOnPage` shows why. */
export function refuseGoingOn(c: PageContext, form: Form, message: string): void {
  form.refuse('', message);
  c.set('isRefused', true);
}

/** The form of somebody who may be a stranger: up to 8 KiB. */
export function readSmallForm(c: PageContext): Form {
  return readForm(c, 8192);
}

export function emptyForm(c: PageContext): Form {
  return new Form(undefined, null, c.var.format.language);
}

/** Reads a form, and shows its page again where it is refused. */
export async function orAgain(
  c: PageContext,
  page: (c: PageContext, form: Form, status: 422) => Promise<Response>,
  work: (c: PageContext, form: Form) => Promise<Response>,
): Promise<Response> {
  const form = readSmallForm(c);
  try {
    return await work(c, form);
  } catch (error) {
    if (!(error instanceof FormRefused)) throw error;
    c.set('isRefused', true);
    return page(c, form, 422);
  }
}

export function newPasswordField(
  state: FormState,
  { password, passwordHint }: Words['signIn'],
): Html {
  return field(state, {
    name: 'password',
    label: password,
    type: 'password',
    required: true,
    autocomplete: 'new-password',
    hint: passwordHint,
  });
}

/** Fields for address and password. @param prefix of their names */
export function passwordFields(state: FormState, words: Words['signIn'], prefix = ''): Html {
  return html`${field(state, { name: `${prefix}email`, label: words.email, type: 'email', required: true, autocomplete: 'username' })}
${field(state, { name: `${prefix}password`, label: words.password, type: 'password', required: true, autocomplete: 'current-password' })}`;
}

/** The other way in: by the identity provider. */
export function providerLink(href: string, { or, withOrganisation }: Words['signIn']): Html {
  return html`<p class="or">${or}</p><p><a class="button wide" href="${href}">${withOrganisation}</a></p>`;
}

/** The field that keeps the page that was asked for. */
export function nextField(state: FormState): Html {
  return html`<input type="hidden" name="next" value="${state.value('next', '')}">`;
}

/** An address of a page of this site, with its query; the start page in place of anything else, such as another site. */
export function localAddress(address: string | null | undefined): string {
  return /^\/[\w-][\w/.~%?&=+:,@!*'()-]{0,2000}$/.test(address ?? '') ? (address as string) : '/';
}

const MAX_ADDRESS = 2000; // characters

/** The address of the page that a request asks for; '' for a form, and for the start page. */
export function pageAsked(c: PageContext): string {
  const address = c.req.path + new URL(c.req.url).search;
  return c.req.method !== 'POST' && address !== '/' && address.length <= MAX_ADDRESS ? address : '';
}

/** The address of a page that leads on to `next`, with further parameters. */
export function leadingTo(path: string, next: string, more: Record<string, string> = {}): string {
  const query = new URLSearchParams({ ...(next !== '' && { next }), ...more });
  return query.size === 0 ? path : `${path}?${query}`;
}
