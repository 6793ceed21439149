import { deleteCookie, getCookie, setCookie } from 'hono/cookie';
import type { CookieOptions } from 'hono/utils/cookie';
import { decryptText, encryptText } from '../../domain/encrypted-text.ts';
import { REVEAL_SECONDS } from '../../store/company/key-reveal.ts';
import type { PageContext } from './context.ts';
import { type Html, html } from './html.ts';
import { companyHeading, page } from './layout.ts';
import { cookieOptions } from './session.ts';

/**
 * Secrets that are shown once: keys, tokens, links of invitations. A form that made one redirects to a page of its own,
 * which every browser opens again by Back, Forward and Reload; the answer to a form it would have to send again.
 * The secret is in a cookie of that page for a minute, encrypted with a text that only this session's pages know, and
 * in no table.
 */

const COOKIE = 'tollgate-shown';

/**
 * Redirects to the page that shows the secret.
 * @param text null: it cannot be shown any more, which the page says
 * @param since when it was made
 * @param query of the page's address
 */
export function redirectToSecret(
  c: PageContext,
  path: string,
  text: string | null,
  since: Date,
  query = '',
): Response {
  const options = { ...optionsOf(c), path };
  if (text === null) deleteCookie(c, COOKIE, options);
  else {
    const until = since.getTime() + REVEAL_SECONDS * 1000;
    const value = encryptText(`${until} ${text}`, c.var.session.csrf, path).toString('base64url');
    setCookie(c, COOKIE, value, { ...options, maxAge: REVEAL_SECONDS });
  }
  return c.redirect(path + query, 303);
}

/** Without the prefix of other cookies, with which every page would get it. */
function optionsOf(c: PageContext): CookieOptions {
  const { prefix, ...options } = cookieOptions(c.var.services.isSecure);
  return { ...options, sameSite: 'Strict', ...(prefix && { prefix: 'secure', secure: true }) };
}

/** The secret that the page may show to this session; null: its time is over, or it never was there. */
export function secretOf(c: PageContext): string | null {
  const bytes = Buffer.from(getCookie(c, COOKIE, optionsOf(c).prefix) ?? '', 'base64url');
  const text = decryptText(bytes, c.var.session.csrf, c.req.path);
  const at = text?.indexOf(' ') ?? -1;
  if (text === null || Number(text.slice(0, at)) < c.var.services.clock()) return null;
  neverCompressed(c);
  return text.slice(at + 1);
}

/** A page about something that is shown once. */
interface OncePage {
  readonly title: string;
  /** Of its window; default: the title. */
  readonly name?: string;
  /** That this is the only time, and what a reload shows; '' where nothing is secret. */
  readonly once?: string;
  readonly reload?: string;
  readonly body: Html;
  /** The way on. */
  readonly after?: Html | string;
}

export function shownPage(
  c: PageContext,
  { title, name = title, once = '', body, ...more }: OncePage,
) {
  const notice = html`<div class="notice strong" role="status"><strong>${once}</strong> ${more.reload ?? ''}</div>`;
  const text = html`${companyHeading(c)}<h1>${title}</h1>${once === '' ? '' : notice}${body}${more.after ?? ''}`;
  return page(c, name, text);
}

/** The page in its place when the secret cannot be shown any more. @param text paragraphs */
export function gonePage(
  c: PageContext,
  { text, ...more }: Omit<OncePage, 'body'> & { readonly text: Html },
) {
  c.status(410);
  return shownPage(c, { ...more, body: html`<section class="card">${text}</section>` });
}

/** For a page that shows a secret, whose length must tell nothing of it. */
export function neverCompressed(c: PageContext): void {
  c.header('cache-control', 'no-store, no-transform');
}
