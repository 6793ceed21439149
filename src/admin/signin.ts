import type { IncomingMessage } from 'node:http';
import { html } from 'hono/html';
import { findUser } from '../store/user.ts';
import type { Hasher } from './hasher.ts';
import type { Html } from './html.ts';
import { field, problemOf } from './layout.ts';
import { Oidc } from './oidc.ts';
import type { AdminServices } from './services.ts';
import type { Sessions } from './session.ts';
import { Throttle } from './throttle.ts';
import { Busy } from './turnstile.ts';

/**
 * Signing in. Whether an address belongs to somebody is told neither by the answer nor by
 * the time it takes: every attempt that is looked at costs one password hash. Failures are
 * counted for an account from one address, for an address, and for an account; the last
 * limit is high, so that nobody is locked out by a stranger's few guesses.
 */

const QUARTER = 15 * 60_000;
const READ_MS = 2000;
const WRONG = 'The e-mail address or the password is wrong.';
const UNKNOWN = 'The identity provider knows you, but there is no account for your verified e-mail address here.';

/** How an attempt ended: signed in with cookies, or an answer for the sign-in page. */
export type Outcome =
  | { readonly cookies: string[] }
  | { readonly status: number; readonly message: string; readonly retryAfter?: number; readonly cookies?: string[] };

export class SignIn {
  readonly oidc: Oidc | null;
  readonly #services: AdminServices;
  readonly #sessions: Sessions;
  readonly #hashing: Hasher;
  readonly #byBoth: Throttle;
  readonly #byAddress: Throttle;
  readonly #byAccount: Throttle;

  constructor(services: AdminServices, sessions: Sessions, hashing: Hasher) {
    this.#services = services;
    this.#sessions = sessions;
    this.#hashing = hashing;
    this.oidc = services.oidc === null || services.url === null ? null : new Oidc(services.oidc, services.url);
    this.#byBoth = new Throttle({ failures: 5, windowMs: QUARTER }, services.clock);
    this.#byAddress = new Throttle({ failures: 30, windowMs: QUARTER }, services.clock);
    this.#byAccount = new Throttle({ failures: 100, windowMs: QUARTER }, services.clock);
  }

  async withPassword(req: IncomingMessage, form: URLSearchParams): Promise<Outcome> {
    const email = (form.get('email') ?? '').trim().toLowerCase().slice(0, 254);
    const password = form.get('password') ?? '';
    const address = addressOf(req, this.#services.proxies);
    const counted: [Throttle, string][] = [
      [this.#byBoth, `${address} ${email}`],
      [this.#byAddress, address],
      [this.#byAccount, email],
    ];
    const retryAfter = Math.max(...counted.map(([throttle, subject]) => throttle.closedFor(subject)));
    if (retryAfter > 0) {
      const minutes = Math.ceil(retryAfter / 60);
      const message = `Too many attempts. Try again in ${minutes} ${minutes === 1 ? 'minute' : 'minutes'}.`;
      return { status: 429, message, retryAfter };
    }
    for (const [throttle, subject] of counted) throttle.attempt(subject);
    const forgive = () => {
      for (const [throttle, subject] of counted) throttle.forgive(subject);
    };
    try {
      const id = await this.#check(email, password);
      if (id === null) return { status: 401, message: WRONG };
      forgive();
      return { cookies: [await this.#sessions.begin(id, this.#sessions.token(req))] };
    } catch (error) {
      forgive(); // our fault, not theirs
      if (!(error instanceof Busy)) throw error;
      return { status: 503, message: 'Too many people are signing in. Try again in a moment.', retryAfter: 5 };
    }
  }

  async withOidc(req: IncomingMessage): Promise<Outcome> {
    const oidc = this.oidc as Oidc;
    const cookies = [oidc.farewell];
    let email: string | null;
    try {
      email = await oidc.finish(req);
    } catch (error) {
      this.#services.log.warn({ reason: (error as Error).message }, 'admin: single sign-on failed');
      return { status: 401, message: 'Single sign-on did not succeed. Please try again.', cookies };
    }
    const user = email === null ? null : await this.#services.db.run(READ_MS, (sql) => findUser(sql, email));
    if (user === null) return { status: 403, message: UNKNOWN, cookies };
    return { cookies: [...cookies, await this.#sessions.begin(user.id, this.#sessions.token(req))] };
  }

  async #check(email: string, password: string): Promise<string | null> {
    let id: string | null = null;
    const isRight = await this.#hashing.verify(password, async () => {
      const user = await this.#services.db.run(READ_MS, (sql) => findUser(sql, email));
      id = user?.id ?? null;
      return user?.password_hash ?? null;
    });
    return isRight ? id : null;
  }
}

export function signInPage(options: {
  readonly oidc: boolean;
  readonly message: string | null;
  readonly email: string;
  readonly next: string;
}): Html {
  const { oidc, message, email, next } = options;
  const values = new URLSearchParams({ email });
  const state = problemOf(
    message === null ? null : { messages: { '': message }, values, path: '/sign-in' },
    '/sign-in',
  );
  return html`<div class="narrow"><h1>Sign in</h1>
${state.summary}
<form method="post" action="/sign-in" class="card stack">
<input type="hidden" name="next" value="${next}">
${field(state, { name: 'email', label: 'E-mail address', type: 'email', required: true, autocomplete: 'username' })}
${field(state, { name: 'password', label: 'Password', type: 'password', required: true, autocomplete: 'current-password' })}
<button class="primary">Sign in</button>
</form>
${oidc ? html`<p class="or">or</p><p><a class="button wide" href="/sign-in/oidc">Sign in with your organisation</a></p>` : ''}
</div>`;
}

/** Who asks: the peer, or what the nearest trusted proxies say. One IPv6 network counts as one. */
function addressOf(req: IncomingMessage, proxies: number): string {
  const peer = req.socket.remoteAddress ?? '';
  const chain = String(req.headers['x-forwarded-for'] ?? '').split(',');
  const address = proxies === 0 ? peer : (chain.at(-proxies)?.trim() ?? peer);
  return address.includes(':') && !address.includes('.') ? address.split(':').slice(0, 4).join(':') : address;
}
