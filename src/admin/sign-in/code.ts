import type { ContentfulStatusCode } from 'hono/utils/http-status';
import type { Words } from '../../domain/language/en.ts';
import { type Lack, lackOf, takeCode } from '../../operations/second-factor.ts';
import { actingAs } from '../../store/connection/acting-person.ts';
import { tellOfAccount } from '../company/mail.ts';
import { backTo, clientOf, type PageContext, type Session } from '../page/context.ts';
import { type FormState, field } from '../page/field.ts';
import { Form } from '../page/form.ts';
import { type Html, html } from '../page/html.ts';
import { liveSession, replaceSession } from '../page/session.ts';
import { waitText } from '../process/throttle.ts';
import {
  goOnPage,
  leadingTo,
  localAddress,
  nextField,
  readSmallForm,
  refuseGoingOn,
} from './go-on.ts';
import type { NotLetIn } from './sign-in-attempt.ts';

const CODE_MS = 5000;
const CODE = 'sign-in.code';
const RECOVERY = 'sign-in.recovery';

/** The step that a session still has to take before it is let in; null: none. */
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

/** Checks the code in a form, of a session before or after its second factor. Attempts are limited in both cases. */
async function tryCode(c: PageContext, { user }: Session, form: Form): Promise<NotLetIn | null> {
  const { attempts, clock, db, log, secondFactor } = c.var.services;
  const { words } = form;
  const code = form.values.get(CODE) ?? '';
  const text = code || (form.values.get(RECOVERY) ?? '');
  if (text.trim() === '') return { status: 422, message: words.secondFactor.typeOne };
  // counted apart from codes of the app: who lost the app has used up those attempts
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
  if (notice !== null) tellOfAccount(c, user.user_id, notice);
  if (refusal !== null) {
    log.warn({ user: user.user_id }, 'admin: a code was refused');
    return { status: 401, message: refusal.in(words.refusals) };
  }
  attempt.forgive();
  return null;
}

/** Checks the code in a form of a session that is fully signed in. @throws FormRefused */
export async function checkCode(c: PageContext, form: Form): Promise<void> {
  const refused = await tryCode(c, c.var.session, form);
  if (refused !== null) form.refuse('', refused.message);
  form.check();
}

/** Checks the code of a session that lacks its second factor. @returns the session, under a new token */
export async function giveCode(
  c: PageContext,
  session: Session,
  form: Form,
): Promise<Session | NotLetIn> {
  const refused = await tryCode(c, session, form);
  if (refused !== null) return refused;
  const raised = await replaceSession(c, session);
  return raised ?? { status: 401, message: form.words.secondFactor.ended };
}

/** The page that asks for the code after the password. */
export async function openCode(c: PageContext): Promise<Response> {
  const session = await liveSession(c);
  const next = c.req.query('next') ?? '';
  if (session === null) return c.redirect(leadingTo('/sign-in', next), 303);
  if (lackOfSession(c, session) !== 'code') return c.redirect(localAddress(next), 303);
  return askCode(
    c,
    session,
    new Form(new URLSearchParams({ next }), '/sign-in/code', c.var.format.language),
  );
}

export async function codeSent(c: PageContext): Promise<Response> {
  const form = readSmallForm(c);
  const next = form.values.get('next') ?? '';
  const session = await liveSession(c);
  if (session === null) return backTo(c, '/sign-in', 'ended');
  if (lackOfSession(c, session) === 'code') {
    const result = await giveCode(c, session, form);
    if ('message' in result) {
      refuseGoingOn(c, form, result.message);
      return askCode(c, session, form, result.status);
    }
  }
  return c.redirect(localAddress(next), 303);
}

function askCode(
  c: PageContext,
  session: Session,
  form: Form,
  status?: ContentfulStatusCode,
): Promise<Response> {
  const words = c.var.format.words.secondFactor;
  const { fields, below, ...page } = codePage(session, words);
  const asked = {
    ...page,
    lead: html`<p>${words.as(html`<strong>${session.user.email}</strong>`)}</p>`,
    fields: (state: FormState) => html`${nextField(state)}${fields(state)}`,
    below: html`${below}<p class="hint">${words.lost}</p>`,
  };
  return goOnPage(c, form, asked, status);
}

/** The form that asks a session for a code of the second factor, with a button that signs out. */
export function codePage({ formToken }: Pick<Session, 'formToken'>, words: Words['secondFactor']) {
  return {
    title: words.title,
    fields: (state: FormState) => codeFields(state, words),
    button: words.goOn,
    below: html`<form method="post" action="/sign-out"><input type="hidden" name="csrf" value="${formToken}"><button class="quiet">${words.somebodyElse}</button></form>`,
  };
}
