import { type Context, Hono } from 'hono';
import { getCookie, setCookie } from 'hono/cookie';
import { asLanguage, ENGLISH, type Language } from '../../domain/languages.ts';
import { changeLanguage } from '../../operations/user.ts';
import type { PageEnv, Session } from '../page/context.ts';
import { languageOf, preferredLanguage, readerOf } from '../page/locale.ts';
import { cookieOptions, liveSession } from '../page/session.ts';
import { localAddress, readSmallForm } from './go-on.ts';

/**
 * Which language a page is in: what the person chose, else what the company chose, else what the browser asks for, else
 * English. A choice is stored with the person, and in the browser for the pages before signing in. Pages of operators
 * are in English.
 */

const WRITE_MS = 2000;
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
function rememberLanguage(c: Context, language: Language, isSecure: boolean): void {
  setCookie(c, COOKIE, language, { ...cookieOptions(isSecure), maxAge: YEAR_SECONDS });
}

/** The choice below each page, with and without a session. It leads back to the page. */
export function languageRoute(): Hono<PageEnv> {
  const app = new Hono<PageEnv>();
  app.post('/language', async (c) => {
    const { services } = c.var;
    const { values } = readSmallForm(c);
    const language = asLanguage(values.get('language'));
    if (language !== null) {
      rememberLanguage(c, language, services.isSecure);
      const session = await liveSession(c);
      if (session !== null) {
        await services.db.run(WRITE_MS, (sql) =>
          changeLanguage(sql, session.user.user_id, language),
        );
      }
    }
    return c.redirect(localAddress(values.get('back')), 303);
  });
  return app;
}
