import type { ContentfulStatusCode } from 'hono/utils/http-status';
import type { Words } from '../../domain/language/en.ts';
import { type Lack, lackOf, takeCode } from '../../operations/second-factor.ts';
import { actingAs } from '../../store/connection/acting-person.ts';
import { tellOfFactor } from '../company/mail.ts';
import { clientOf, type PageContext } from '../page/context.ts';
import { type FormState, field, formState } from '../page/field.ts';
import { Form, readForm } from '../page/form.ts';
import { type Html, html } from '../page/html.ts';
import { plainPage } from '../page/layout.ts';
import type { Session } from '../page/session.ts';
import { waitText } from '../process/throttle.ts';
import { localAddress } from './local-address.ts';

const MAX_FORM_BYTES = 8192;
const CODE_MS = 5000;
const CODE = 'sign-in.code';
const RECOVERY = 'sign-in.recovery';

/** The step that the session of a request has yet to take before it is let in; null: none. */
export function lackOfSession(c: PageContext, { user }: Pick<Session, 'user'>): Lack | null {
  return lackOf(user, c.var.services.secondFactor);
}

/** A field for a code of the app. */
export function codeField(state: FormState, words: Words['secondFactor'], required: boolean): Html {
  return field(state, {
    name: CODE,
    label: words.code,
    required,
    autocomplete: 'one-time-code',
    inputmode: 'numeric',
    secret: true,
    hint: words.codeHint,
  });
}

/** Fields for a code of the app or a recovery code. */
export function codeFields(state: FormState, words: Words['secondFactor']): Html {
  return html`${codeField(state, words, false)}
<details><summary>${words.cannotUse}</summary>
${field(state, { name: RECOVERY, label: words.recovery, secret: true, hint: words.recoveryHint })}</details>`;
}

/** Why a code was not taken. */
interface CodeRefused {
  readonly status: ContentfulStatusCode;
  readonly message: string;
}

/** Takes the code in a form, for whoever is half or wholly signed in. Attempts are limited, whoever makes them. */
async function tryCode(c: PageContext, { user }: Session, form: Form): Promise<CodeRefused | null> {
  const { attempts, clock, db, secondFactor } = c.var.services;
  const { words } = form;
  const code = form.values.get(CODE) ?? '';
  const text = code || (form.values.get(RECOVERY) ?? '');
  if (text.trim() === '') return { status: 422, message: words.secondFactor.typeOne };
  // counted apart: a person without the app has used up attempts with codes before
  const attempt = attempts(clientOf(c), `${code === '' ? 'recovery' : 'code'} ${user.email}`);
  const seconds = attempt.closedFor();
  if (seconds > 0) {
    c.header('retry-after', String(seconds));
    return { status: 429, message: words.signIn.tooMany(waitText(words, seconds)) };
  }
  attempt.count();
  const { refusal, notice } = await actingAs(db, user.email, CODE_MS, (sql) =>
    takeCode(sql, user, text, secondFactor, clock()),
  ).catch((error: Error) => {
    attempt.forgive(); // the failure is ours
    throw error;
  });
  if (notice !== null) tellOfFactor(c, user, notice);
  if (refusal !== null) return { status: 401, message: refusal.in(words.refusals) };
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
  return raised ?? { status: 401, message: form.words.secondFactor.ended };
}

/** The page that asks for the code after the password. */
export async function openCode(c: PageContext): Promise<Response> {
  const session = await c.var.services.sessions.find(c);
  const next = c.req.query('next') ?? '';
  if (session === null) return c.redirect(next === '' ? '/sign-in' : `/sign-in?${new URLSearchParams({ next })}`, 303);
  if (lackOfSession(c, session) !== 'code') return c.redirect(localAddress(next), 303);
  return codePage(c, session, new Form(new URLSearchParams({ next }), '/sign-in/code', c.var.format.language));
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
  const words = c.var.format.words.secondFactor;
  const body = html`<div class="narrow"><h1>${words.title}</h1>
<p>${words.as(html`<strong>${session.user.email}</strong>`)}</p>
${state.summary}
<form method="post" action="/sign-in/code" class="card stack">
<input type="hidden" name="next" value="${state.value('next', '')}">
${codeFields(state, words)}
<button class="primary">${words.goOn}</button>
</form>
${signOutForm(session, words)}
<p class="hint">${words.lost}</p>
</div>`;
  return plainPage(c, words.title, body, status);
}

/** For pages that a session is led to which is not let in. */
export function signOutForm({ formToken }: Pick<Session, 'formToken'>, words: Words['secondFactor']): Html {
  return html`<form method="post" action="/sign-out"><input type="hidden" name="csrf" value="${formToken}"><button class="quiet">${words.somebodyElse}</button></form>`;
}
