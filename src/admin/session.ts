import { createHash, hash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Database } from '../store/database.ts';
import { createSession, deleteSession, findSession, pruneSessions, type SessionRow } from '../store/session.ts';

/**
 * Sessions live in the database; the browser holds a random token in a cookie that no
 * script can read and no other site can send a form with. They end two hours after the
 * last use, twelve hours after sign-in, at sign-out, and when the password changes.
 */
const LIMITS = { idle: 2 * 3600, absolute: 12 * 3600 };
const READ_MS = 2000;

export class Sessions {
  readonly #db: Database;
  readonly #secure: boolean;

  /** @param secure people reach the pages by https: the cookie then never leaves it */
  constructor(db: Database, secure: boolean) {
    this.#db = db;
    this.#secure = secure;
  }

  /** Signs a user in under a new token, whatever the browser held before. @returns the cookie to be set */
  async begin(userId: string, former: string | null): Promise<string> {
    const token = randomBytes(32).toString('base64url');
    await this.#db.run(READ_MS, async (sql) => {
      if (former !== null) await deleteSession(sql, digestOf(former));
      await pruneSessions(sql, LIMITS);
      await createSession(sql, digestOf(token), userId);
    });
    return cookie(this.#name, token, LIMITS.absolute, this.#secure);
  }

  /** The live session of a request. */
  async find(req: IncomingMessage): Promise<{ person: SessionRow; digest: Buffer; csrf: string } | null> {
    const token = this.token(req);
    if (token === null) return null;
    const digest = digestOf(token);
    const person = await this.#db.run(READ_MS, (sql) => findSession(sql, digest, LIMITS));
    return person === null ? null : { person, digest, csrf: csrfOf(token) };
  }

  /** The cookie that takes a session from the browser. */
  get farewell(): string {
    return cookie(this.#name, '', 0, this.#secure);
  }

  token(req: IncomingMessage): string | null {
    const token = readCookie(req, this.#name);
    return token !== null && /^[\w-]{43}$/.test(token) ? token : null;
  }

  get #name(): string {
    return this.#secure ? '__Host-tollgate' : 'tollgate';
  }
}

/** A cookie for this host alone. Lax: a link from elsewhere opens the page, a form from elsewhere does not come with it. */
export function cookie(name: string, value: string, seconds: number, secure: boolean): string {
  return `${name}=${value}; Path=/; Max-Age=${seconds}; HttpOnly; SameSite=Lax${secure ? '; Secure' : ''}`;
}

export function readCookie(req: IncomingMessage, name: string): string | null {
  for (const pair of (req.headers.cookie ?? '').split(';')) {
    const at = pair.indexOf('=');
    if (at > 0 && pair.slice(0, at).trim() === name) return pair.slice(at + 1).trim();
  }
  return null;
}

/** Whether a form holds the token of its session. */
export function isCsrfToken(expected: string, sent: string | null): boolean {
  if (sent === null || sent.length !== expected.length) return false;
  return timingSafeEqual(Buffer.from(sent), Buffer.from(expected));
}

function digestOf(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}

/** Of the secret token, so it is one more secret that only the session's own pages show. */
function csrfOf(token: string): string {
  return hash('sha256', `csrf ${token}`, 'base64url');
}
