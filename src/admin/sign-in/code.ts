import type { ContentfulStatusCode } from 'hono/utils/http-status';
import { type Lack, lackOf, takeCode } from '../../operations/second-factor.ts';
import { actingAs } from '../../store/connection/acting-person.ts';
import { tellOfFactor } from '../company/mail.ts';
import { clientOf, type PageContext } from '../page/context.ts';
import { type FormState, field, formState } from '../page/field.ts';
import { Form, readForm } from '../page/form.ts';
import { type Html, html } from '../page/html.ts';
import { plainPage } from '../page/layout.ts';
import type { Session } from '../page/session.ts';
import { waitText } from '../page/throttle.ts';
import { localAddress } from './local-address.ts';

const MAX_FORM_BYTES = 8192;
const CODE_MS = 5000;
const CODE = 'sign-in.code';
const RECOVERY = 'sign-in.recovery';

/** What the session of a request lacks before it is let in; null: nothing. */
export function lackOfSession(c: PageContext, { user }: Pick<Session, 'user'>): Lack | null {
  return lackOf(user, c.var.services.secondFactor);
}

/** Fields for a code of the app or a recovery code. */
export function codeFields(state: FormState): Html {
  return html`${field(state, { name: CODE, label: 'Code of your app', autocomplete: 'one-time-code', inputmode: 'numeric', secret: true, hint: 'Six digits, which change every half a minute.' })}
<details><summary>I cannot use my app</summary>
${field(state, { name: RECOVERY, label: 'Recovery code', secret: true, hint: 'One of those that you kept when you set the second factor up. Each works once.' })}</details>`;
}

/** Why a code was not taken. */
interface CodeRefused {
  readonly status: ContentfulStatusCode;
  readonly message: string;
}

/** Takes the code in a form, for whoever is half or wholly signed in. Attempts are limited, whoever makes them. */
async function tryCode(c: PageContext, { user }: Session, form: Form): Promise<CodeRefused | null> {
  const { attempts, clock, db, secondFactor } = c.var.services;
  const code = form.values.get(CODE) ?? '';
  const text = code || (form.values.get(RECOVERY) ?? '');
  if (text.trim() === '') return { status: 422, message: 'Type the code of your app, or a recovery code.' };
  // apart: who cannot use the app any more has tried before
  const attempt = attempts(clientOf(c), `${code === '' ? 'recovery' : 'code'} ${user.email}`);
  const seconds = attempt.closedFor();
  if (seconds > 0) {
    c.header('retry-after', String(seconds));
    return { status: 429, message: `Too many attempts. ${waitText(seconds)}` };
  }
  attempt.count();
  const { refusal, notice } = await actingAs(db, user.email, CODE_MS, (sql) =>
    takeCode(sql, user, text, secondFactor, clock()),
  ).catch((error: Error) => {
    attempt.forgive(); // the failure is ours
    throw error;
  });
  if (notice !== null) tellOfFactor(c, user.email, notice);
  if (refusal !== null) return { status: 401, message: refusal };
  attempt.forgive();
  return null;
}

/** Checks the code of a form that a session sends which has all it needs. @throws FormRefused */
export async function checkCode(c: PageContext, form: Form): Promise<void> {
  const refused = await tryCode(c, c.var.session, form);
  if (refused !== null) form.refuse('', refused.message);
  form.check();
}

/** Takes the code of a session that lacks it. @returns the session, under a new token */
export async function giveCode(c: PageContext, session: Session, form: Form): Promise<Session | CodeRefused> {
  const refused = await tryCode(c, session, form);
  if (refused !== null) return refused;
  const raised = await c.var.services.sessions.raise(c, session);
  return raised ?? { status: 401, message: 'Your session ended. Sign in again.' };
}

/** The page that asks for the code after the password. */
export async function openCode(c: PageContext): Promise<Response> {
  const session = await c.var.services.sessions.find(c);
  const next = c.req.query('next') ?? '';
  if (session === null) return c.redirect(next === '' ? '/sign-in' : `/sign-in?${new URLSearchParams({ next })}`, 303);
  if (lackOfSession(c, session) !== 'code') return c.redirect(localAddress(next), 303);
  return codePage(c, session, new Form(new URLSearchParams({ next }), '/sign-in/code'));
}

export async function codeSent(c: PageContext): Promise<Response> {
  const form = readForm(c, MAX_FORM_BYTES);
  const next = form.values.get('next') ?? '';
  const session = await c.var.services.sessions.find(c);
  if (session === null) return c.redirect('/sign-in?done=ended', 303);
  if (lackOfSession(c, session) === 'code') {
    const result = await giveCode(c, session, form);
    if ('message' in result) {
      form.refuse('', result.message);
      c.set('isRefused', true);
      return codePage(c, session, form, result.status);
    }
  }
  return c.redirect(localAddress(next), 303);
}

function codePage(c: PageContext, session: Session, form: Form, status?: ContentfulStatusCode): Promise<Response> {
  const state = formState(form, '/sign-in/code');
  const body = html`<div class="narrow"><h1>Second factor</h1>
<p>You are signing in as <strong>${session.user.email}</strong>.</p>
${state.summary}
<form method="post" action="/sign-in/code" class="card stack">
<input type="hidden" name="next" value="${state.value('next', '')}">
${codeFields(state)}
<button class="primary">Go on</button>
</form>
${signOutForm(session)}
<p class="hint">No app and no recovery code? The operator of this service takes the second factor away once you have shown who you are.</p>
</div>`;
  return plainPage(c, 'Second factor', body, status);
}

/** For pages that a session is led to which is not let in. */
export function signOutForm({ csrf }: Pick<Session, 'csrf'>): Html {
  return html`<form method="post" action="/sign-out"><input type="hidden" name="csrf" value="${csrf}"><button class="quiet">Sign in as somebody else</button></form>`;
}
