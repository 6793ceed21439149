import { createHmac, randomBytes } from 'node:crypto';
import { getCookie, setCookie } from 'hono/cookie';
import type { ContentfulStatusCode } from 'hono/utils/http-status';
import { verifyPassword } from '../../domain/password.ts';
import { emailSpelling } from '../../domain/visible-text.ts';
import { findUser } from '../../store/users/user.ts';
import { clientOf, type PageContext, type Session } from '../page/context.ts';
import { pageLanguage } from '../page/locale.ts';
import { cookieOptions, isSameSecret, openSession } from '../page/session.ts';
import { Busy } from '../process/semaphore.ts';
import { blockOf, waitText } from '../process/throttle.ts';

const READ_MS = 2000;
const YEAR_SECONDS = 31_536_000;
const COOKIE = 'tollgate-known';

/** Why nobody was signed in, or a code was not taken. */
export interface NotLetIn {
  readonly status: ContentfulStatusCode;
  readonly message: string;
}

/**
 * Signing in with a password. Neither the answer nor its time tells whether an e-mail address has an account: every
 * attempt that is not throttled costs one password hash.
 */
export async function passwordSignIn(
  c: PageContext,
  typed: string,
  password: string,
): Promise<Session | NotLetIn> {
  const email = emailSpelling(typed.trim().slice(0, 254));
  const { words } = c.var.format;
  const browser = await knownBrowser(c, email);
  const attempt = c.var.services.attempts(clientOf(c), email, browser);
  const seconds = attempt.closedFor();
  if (seconds > 0) {
    c.header('retry-after', String(seconds));
    return { status: 429, message: words.signIn.tooMany(waitText(words, seconds)) };
  }
  attempt.count();
  try {
    const user = await findByPassword(c, email, password, browser);
    const by = { hash: user?.password_hash ?? null, language: pageLanguage(c.var.format.language) };
    const session = user && (await openSession(c, user.id, by));
    if (session === null) return { status: 401, message: words.signIn.wrong };
    attempt.forgive();
    if (user?.password_hash) rememberBrowser(c, user.password_hash);
    return session;
  } catch (error) {
    attempt.forgive(); // the failure is ours, not the user's
    if (!(error instanceof Busy)) throw error;
    c.header('retry-after', '5');
    return { status: 503, message: words.signIn.busy };
  }
}

/** null when the e-mail address or the password is wrong. @throws Busy */
function findByPassword(c: PageContext, email: string, password: string, browser: string | null) {
  const { db, guesses, hashing, log } = c.var.services;
  // by network: a stranger has any number of e-mail addresses
  const [semaphore, who] = browser === null ? [guesses, blockOf(clientOf(c))] : [hashing, email];
  return semaphore.run(who, async () => {
    const user = await db.run(READ_MS, (sql) => findUser(sql, email));
    if (await verifyPassword(password, user?.password_hash ?? null)) return user;
    log.warn({ user: user?.id ?? null }, 'admin: a password was refused');
    return null;
  });
}

/**
 * Marks a browser in which somebody gave the password of a user: a random id, signed with the stored hash of that
 * password, so it ends with the password, and nothing is stored. Its attempts are counted apart, so strangers who guess
 * from many networks cannot lock it out.
 */
export function rememberBrowser(c: PageContext, hash: string): void {
  const id = randomBytes(16).toString('base64url');
  const options = cookieOptions(c.var.services.isSecure);
  setCookie(c, COOKIE, `${id}.${signatureOf(id, hash)}`, { ...options, maxAge: YEAR_SECONDS });
}

/** The id of the browser, if it is known to the user with an address (in lower case); null: it is not. */
export async function knownBrowser(c: PageContext, email: string): Promise<string | null> {
  const cookie = getCookie(c, COOKIE, cookieOptions(c.var.services.isSecure).prefix) ?? '';
  const [, id, signature] = /^([\w-]{22})\.([\w-]{43})$/.exec(cookie) ?? [];
  if (id === undefined || signature === undefined) return null;
  const user = await c.var.services.db.run(READ_MS, (sql) => findUser(sql, email));
  const hash = user?.password_hash ?? null;
  return hash !== null && isSameSecret(signatureOf(id, hash), signature) ? id : null;
}

function signatureOf(id: string, hash: string): string {
  return createHmac('sha256', hash).update(`browser ${id}`).digest('base64url');
}
