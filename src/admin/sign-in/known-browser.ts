import { createHmac, randomBytes } from 'node:crypto';
import { getCookie, setCookie } from 'hono/cookie';
import { findUser } from '../../store/users/user.ts';
import type { PageContext } from '../page/context.ts';
import { cookieOptions, isSameSecret } from '../page/session.ts';

const READ_MS = 2000;
const COOKIE = 'tollgate-known';
const YEAR_SECONDS = 31_536_000;

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
