import type { Context } from 'hono';
import { getCookie, setCookie } from 'hono/cookie';
import { asLanguage, ENGLISH, type Language } from '../../domain/language/language.ts';
import { languageOf, preferredLanguage, readerOf } from './locale.ts';
import { cookieOptions, type Session } from './session.ts';

/**
 * Which language a page is in: what the person chose, else what the company chose, else what the browser asks for, else
 * English. A choice is stored with the person, and in the browser for the pages before signing in. Pages of operators
 * are in English.
 */

const COOKIE = 'tollgate-language';
const YEAR_SECONDS = 31_536_000;

/** The reader (locale.ts) of a page. @param session null: nobody is signed in */
export function readerOfPage(c: Context, session: Session | null, isSecure: boolean): string {
  const header = c.req.header('accept-language');
  const chosen = asLanguage(getCookie(c, COOKIE, cookieOptions(isSecure).prefix));
  const asked = preferredLanguage(header) ?? ENGLISH;
  return readerOf(
    session === null ? (chosen ?? asked) : languageOfPerson(session, chosen ?? null, asked),
    languageOf(header),
  );
}

function languageOfPerson({ user }: Session, chosen: Language | null, asked: Language): Language {
  if (user.role === 'operator') return ENGLISH;
  return asLanguage(user.language) ?? chosen ?? asLanguage(user.company_language) ?? asked;
}

/** Remembers the choice in this browser. */
export function rememberLanguage(c: Context, language: Language, isSecure: boolean): void {
  setCookie(c, COOKIE, language, { ...cookieOptions(isSecure), maxAge: YEAR_SECONDS });
}
