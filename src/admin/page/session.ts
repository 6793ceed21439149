import { hash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Context } from 'hono';
import { deleteCookie, getCookie, setCookie } from 'hono/cookie';
import type { CookieOptions } from 'hono/utils/cookie';
import { digestBytes } from '../../domain/key.ts';
import { SESSION_LIMITS } from '../../domain/user.ts';
import { browserName } from '../../domain/wording/browser-name.ts';
import type { Logger } from '../../log.ts';
import { beginSession, raiseSession, signOut } from '../../operations/user.ts';
import type { Database, Sql } from '../../store/connection/pool.ts';
import { findSession, type NewSession, type SessionRow } from '../../store/users/session.ts';
import { SESSION_HEADER } from '../process/settings.ts';

const READ_MS = 2000;
const COOKIE = 'tollgate';

/** A session that has not ended. */
export interface Session {
  readonly user: SessionRow;
  /** SHA-256 of the token; the key of the table. */
  readonly digest: Buffer;
  /** Proves that a form is of this session, and encrypts the session's secrets. On no page. */
  readonly csrf: string;
  /** The same as the forms of one answer send it, masked: an answer that is compressed must not repeat a secret. */
  readonly formToken: string;
}

/**
 * Sessions are rows of the database; the browser has a random token in a cookie. A session ends
 * after SESSION_LIMITS, at sign-out, and when the password changes.
 */
export class Sessions {
  readonly #db: Database;
  readonly #log: Pick<Logger, 'info'>;
  readonly #options: CookieOptions;

  /** @param secure the pages are reached by https, and the cookie is sent over https only */
  constructor(db: Database, secure: boolean, log: Pick<Logger, 'info'>) {
    this.#db = db;
    this.#log = log;
    this.#options = cookieOptions(secure);
  }

  /**
   * Signs a user in under a new token and ends the session that the browser had before.
   * @param by.hash of the password that was given; absent: none was needed
   * @param by.language of the page
   * @param by.secondFactor how it got past the second factor; absent: it did not
   * @returns null when the user was removed, or the password replaced, meanwhile
   */
  begin(
    c: Context,
    userId: string,
    by: Pick<NewSession, 'hash' | 'language' | 'secondFactor'>,
  ): Promise<Session | null> {
    const former = this.#token(c);
    const browser = browserName(c.req.header('user-agent') ?? '');
    return this.#start(c, 'admin: signed in', (sql, digest) =>
      beginSession(sql, { ...by, digest, userId, browser }, former === null ? null : digestBytes(former)),
    );
  }

  /** The user of a session gave a code: it goes on under a new token. @returns null when it ended meanwhile */
  raise(c: Context, { digest: former }: Session): Promise<Session | null> {
    return this.#start(c, 'admin: signed in by a second factor', (sql, digest) => raiseSession(sql, former, digest));
  }

  /** Makes a token whose session `work` writes, and gives it to the browser. @param done for the log */
  async #start(c: Context, done: string, work: (sql: Sql, digest: Buffer) => Promise<void>): Promise<Session | null> {
    const token = randomBytes(32).toString('base64url');
    const digest = digestBytes(token);
    const user = await this.#db.run(READ_MS, async (sql) => {
      await work(sql, digest);
      return findSession(sql, digest);
    });
    if (user === null) return null;
    this.#log.info({ user: user.user_id }, done);
    c.header(SESSION_HEADER, token);
    setCookie(c, COOKIE, token, { ...this.#options, maxAge: SESSION_LIMITS.absolute });
    return { user, digest, ...proofsOf(token) };
  }

  /** The session of a request; null when there is none or it has ended. */
  async find(c: Context): Promise<Session | null> {
    const token = this.#token(c);
    if (token === null) return null;
    const digest = digestBytes(token);
    const user = await this.#db.run(READ_MS, (sql) => findSession(sql, digest));
    if (user === null) return null;
    c.header(SESSION_HEADER, token);
    return { user, digest, ...proofsOf(token) };
  }

  /** Whether the browser has the token of a session, which may have ended. */
  isSent(c: Context): boolean {
    return this.#token(c) !== null;
  }

  async end(c: Context, { digest }: Session): Promise<void> {
    await this.#db.run(READ_MS, (sql) => signOut(sql, digest));
    deleteCookie(c, COOKIE, this.#options);
  }

  #token(c: Context): string | null {
    const token = getCookie(c, COOKIE, this.#options.prefix) ?? '';
    return /^[\w-]{43}$/.test(token) ? token : null;
  }
}

/**
 * Cookies for this host alone that scripts cannot read. SameSite=Lax: a link on another site
 * sends them, a form on another site does not.
 */
export function cookieOptions(secure: boolean): CookieOptions {
  return { path: '/', httpOnly: true, sameSite: 'Lax', ...(secure ? { prefix: 'host', secure: true } : {}) };
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
  return masked.length === PROOF_BYTES && isSameSecret(csrf, xor(mask, masked).toString('base64url'));
}

function xor(one: Buffer, other: Buffer): Buffer {
  return Buffer.from(one.map((byte, at) => byte ^ (other[at] as number)));
}
