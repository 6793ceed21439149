import type { ContentfulStatusCode } from 'hono/utils/http-status';
import { verifyPassword } from '../domain/password.ts';
import type { Clock } from '../domain/ports.ts';
import { findUser } from '../store/user.ts';
import type { PageContext } from './context.ts';
import { Busy } from './semaphore.ts';
import type { Session } from './session.ts';
import { CLIENT_HEADER } from './settings.ts';
import { Throttle } from './throttle.ts';

const WINDOW_MS = 15 * 60_000;
const READ_MS = 2000;
const WRONG = 'The e-mail address or the password is wrong.';

/** Why nobody was signed in. */
interface NotSignedIn {
  readonly status: ContentfulStatusCode;
  readonly message: string;
}

export type SignIn = (c: PageContext, email: string, password: string) => Promise<Session | NotSignedIn>;

/**
 * Signing in with a password. Neither the answer nor its time tells whether an e-mail address has an account: every
 * attempt that is not throttled costs one password hash.
 */
export function passwordSignIn(clock: Clock): SignIn {
  const attemptOf = attemptLimits(clock);
  return async (c, typed, password) => {
    const email = typed.trim().toLowerCase().slice(0, 254);
    const attempt = attemptOf(addressOf(c), email);
    const seconds = attempt.closedFor();
    if (seconds > 0) {
      const minutes = seconds <= 60 ? '1 minute' : `${Math.ceil(seconds / 60)} minutes`;
      c.header('retry-after', String(seconds));
      return { status: 429, message: `Too many attempts. Try again in ${minutes}.` };
    }
    attempt.count();
    try {
      const id = await findByPassword(c, email, password);
      if (id === null) return { status: 401, message: WRONG };
      const session = await c.var.services.sessions.begin(c, id);
      attempt.forgive();
      return session;
    } catch (error) {
      attempt.forgive(); // the failure is ours, not the user's
      if (!(error instanceof Busy)) throw error;
      c.header('retry-after', '5');
      return { status: 503, message: 'Too many people are signing in. Try again in a moment.' };
    }
  };
}

/** The user's id; null when the e-mail address or the password is wrong. @throws Busy */
async function findByPassword(c: PageContext, email: string, password: string): Promise<string | null> {
  const { db, hashing } = c.var.services;
  return hashing.run(async () => {
    const user = await db.run(READ_MS, (sql) => findUser(sql, email));
    const isRight = await verifyPassword(password, user?.password_hash ?? null);
    return isRight && user !== null ? user.id : null;
  });
}

/**
 * Failed attempts are counted per address and account, per address, and per account. The last
 * limit is high, so that a stranger's few guesses lock nobody out.
 */
function attemptLimits(clock: Clock) {
  const most = (failures: number) => new Throttle({ failures, windowMs: WINDOW_MS }, clock);
  const [ofBoth, ofAddress, ofAccount] = [most(5), most(30), most(100)];
  return (address: string, email: string) => {
    const both = `${address} ${email}`;
    const counters = new Map([
      [ofBoth, both],
      [ofAddress, address],
      [ofAccount, email],
    ]);
    return {
      /** Seconds until another attempt is allowed; 0 when it is allowed now. */
      closedFor: () => Math.max(...[...counters].map(([throttle, subject]) => throttle.closedFor(subject))),
      count: () => counters.forEach((subject, throttle) => void throttle.attempt(subject)),
      forgive: () => counters.forEach((subject, throttle) => void throttle.forgive(subject)),
    };
  };
}

/** The client's address, from the gateway. */
function addressOf(c: PageContext): string {
  return (c.req.header(CLIENT_HEADER) as string).split(' ')[1] ?? '';
}
