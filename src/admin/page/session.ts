import { hash, randomBytes, timingSafeEqual } from 'node:crypto';
import { deleteCookie, getCookie, setCookie } from 'hono/cookie';
import type { CookieOptions } from 'hono/utils/cookie';
import { digestBytes } from '../../domain/key.ts';
import { SESSION_LIMITS } from '../../domain/user.ts';
import { browserName } from '../../domain/wording/browser-name.ts';
import { beginSession, raiseSession, signOut } from '../../operations/user.ts';
import type { Sql } from '../../store/connection/pool.ts';
import { findSession, type NewSession } from '../../store/users/session.ts';
import { SESSION_HEADER } from '../process/settings.ts';
import type { PageContext, Session } from './context.ts';

const READ_MS = 2000;
const COOKIE = 'tollgate';

/**
 * Sessions are rows of the database; the browser has a random token in a cookie. A session ends
 * after SESSION_LIMITS, at sign-out, and when the password changes.
 */

/**
 * Signs a user in under a new token and ends the session that the browser had before.
 * @param by.hash of the password that was given; absent: none was needed
 * @param by.language of the page
 * @param by.secondFactor how it got past the second factor; absent: it did not
 * @returns null when the user was removed, or the password replaced, meanwhile
 */
export function openSession(
  c: PageContext,
  userId: string,
  by: Pick<NewSession, 'hash' | 'language' | 'secondFactor'>,
): Promise<Session | null> {
  const former = sentToken(c);
  const browser = browserName(c.req.header('user-agent') ?? '');
  return start(c, 'admin: signed in', (sql, digest) =>
    beginSession(
      sql,
      { ...by, digest, userId, browser },
      former === null ? null : digestBytes(former),
    ),
  );
}

/** The user of a session gave a code: it goes on under a new token. @returns null when it ended meanwhile */
export function replaceSession(
  c: PageContext,
  { digest: former }: Session,
): Promise<Session | null> {
  return start(c, 'admin: signed in by a second factor', (sql, digest) =>
    raiseSession(sql, former, digest),
  );
}

/** Makes a token whose session `work` writes, and gives it to the browser. @param done for the log */
async function start(
  c: PageContext,
  done: string,
  work: (sql: Sql, digest: Buffer) => Promise<void>,
): Promise<Session | null> {
  const { isSecure, log } = c.var.services;
  const token = randomBytes(32).toString('base64url');
  const session = await sessionOf(c, token, work);
  if (session === null) return null;
  log.info({ user: session.user.user_id }, done);
  setCookie(c, COOKIE, token, { ...cookieOptions(isSecure), maxAge: SESSION_LIMITS.absolute });
  return session;
}

/** The session of a request; null when there is none or it has ended. */
export async function liveSession(c: PageContext): Promise<Session | null> {
  const token = sentToken(c);
  return token === null ? null : sessionOf(c, token);
}

/** The session of a token, after `work`. */
async function sessionOf(
  c: PageContext,
  token: string,
  work?: (sql: Sql, digest: Buffer) => Promise<void>,
): Promise<Session | null> {
  const digest = digestBytes(token);
  const user = await c.var.services.db.run(READ_MS, async (sql) => {
    await work?.(sql, digest);
    return findSession(sql, digest);
  });
  if (user === null) return null;
  c.header(SESSION_HEADER, token);
  return { user, digest, ...proofsOf(token) };
}

/** The token of a session, which may have ended, as the browser sent it; null: none. */
export function sentToken(c: PageContext): string | null {
  const token = getCookie(c, COOKIE, cookieOptions(c.var.services.isSecure).prefix) ?? '';
  return /^[\w-]{43}$/.test(token) ? token : null;
}

export async function closeSession(c: PageContext): Promise<void> {
  const { services, session } = c.var;
  await services.db.run(READ_MS, (sql) => signOut(sql, session.digest));
  deleteCookie(c, COOKIE, cookieOptions(services.isSecure));
}

/**
 * Cookies for this host alone that scripts cannot read. SameSite=Lax: a link on another site
 * sends them, a form on another site does not.
 */
export function cookieOptions(secure: boolean): CookieOptions {
  return {
    path: '/',
    httpOnly: true,
    sameSite: 'Lax',
    ...(secure ? { prefix: 'host', secure: true } : {}),
  };
}

/** Whether two texts are equal, in a time that does not tell where they differ. */
export function isSameSecret(expected: string, given: string): boolean {
  const [one, other] = [Buffer.from(expected), Buffer.from(given)];
  return one.length === other.length && timingSafeEqual(one, other);
}

const PROOF_BYTES = 32;

/** Derived from the token, so only the session's own pages know it and nothing is stored. */
function proofsOf(token: string): Pick<Session, 'csrf' | 'formToken'> {
  const proof = hash('sha256', `csrf ${token}`, 'buffer');
  const mask = randomBytes(PROOF_BYTES);
  return {
    csrf: proof.toString('base64url'),
    formToken: Buffer.concat([mask, xor(mask, proof)]).toString('base64url'),
  };
}

/** Whether a form was sent with the token of a page of this session. */
export function isOfSession({ csrf }: Pick<Session, 'csrf'>, formToken: string): boolean {
  const bytes = Buffer.from(formToken, 'base64url');
  const [mask, masked] = [bytes.subarray(0, PROOF_BYTES), bytes.subarray(PROOF_BYTES)];
  return (
    masked.length === PROOF_BYTES && isSameSecret(csrf, xor(mask, masked).toString('base64url'))
  );
}

function xor(one: Buffer, other: Buffer): Buffer {
  return Buffer.from(one.map((byte, at) => byte ^ (other[at] as number)));
}
