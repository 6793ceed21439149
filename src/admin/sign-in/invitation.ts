import { Hono, type MiddlewareHandler } from 'hono';
import type { ContentfulStatusCode } from 'hono/utils/http-status';
import { hashPassword, readPassword } from '../../domain/password.ts';
import { INVITATION_PATH } from '../../domain/wording/invitation.ts';
import { acceptInvitation } from '../../operations/invitation.ts';
import { may } from '../../operations/permission.ts';
import { actingAs } from '../../store/connection/acting-person.ts';
import { findInvitation } from '../../store/users/invitation.ts';
import type { SecondFactor } from '../../store/users/session.ts';
import type { UserRow } from '../../store/users/user.ts';
import { clientOf, type PageContext, type PageEnv } from '../page/context.ts';
import { field, formState } from '../page/field.ts';
import { Form, FormRefused, readForm } from '../page/form.ts';
import { html } from '../page/html.ts';
import { plainPage } from '../page/layout.ts';
import { waitText } from '../process/throttle.ts';
import { rememberBrowser } from './known-browser.ts';

const MAX_FORM_BYTES = 8192;
const READ_MS = 2000;
const WRITE_MS = 5000;

/**
 * The pages behind the link of an invitation, for people without an account. The link is a secret: it is in no
 * log, and no page that it leads to tells another site where its visitor came from.
 */
export function invitationRoutes(): Hono<PageEnv> {
  const app = new Hono<PageEnv>();
  const path = `${INVITATION_PATH}:token{[\\w-]{43}}`;
  app.get(path, (c) =>
    opened(c, (invitation) => invitationPage(c, invitation, new Form(undefined, null, c.var.format.language))),
  );
  app.post(path, (c) => opened(c, (invitation) => accept(c, invitation)));
  app.all(`${INVITATION_PATH}*`, (c) => c.notFound());
  return app;
}

/** Stands before the middleware that sets the policy of all other pages, because the last policy wins. */
export const noReferrer: MiddlewareHandler = async (c, next) => {
  await next();
  c.header('referrer-policy', 'no-referrer');
};

type Invitation = NonNullable<Awaited<ReturnType<typeof findInvitation>>>;

/** Finds the invitation of a link. One that does not work counts like a failed sign-in. */
async function opened(c: PageContext, answer: (invitation: Invitation) => Promise<Response>): Promise<Response> {
  const { attempts, db } = c.var.services;
  const token = tokenOf(c);
  const attempt = attempts(clientOf(c), token.slice(0, 8));
  const seconds = attempt.closedFor();
  if (seconds > 0) {
    c.header('retry-after', String(seconds));
    const { words } = c.var.format;
    return notice(c, 429, words.invitation.tooMany, waitText(words, seconds));
  }
  const invitation = await db.run(READ_MS, (sql) => findInvitation(sql, token));
  if (invitation !== null) return answer(invitation);
  attempt.count();
  return ended(c);
}

/** One answer for links that were used, withdrawn or renewed, whose time is over, or that never were any. */
function ended(c: PageContext): Promise<Response> {
  const { invitation } = c.var.format.words;
  return notice(c, 404, invitation.ended, invitation.ask);
}

function notice(c: PageContext, status: ContentfulStatusCode, title: string, text: string): Promise<Response> {
  const body = html`<div class="narrow"><h1>${title}</h1><p>${text}</p><p><a href="/sign-in">${c.var.format.words.signIn.title}</a></p></div>`;
  return plainPage(c, title, body, status);
}

function invitationPage(c: PageContext, invitation: Invitation, form: Form, status?: ContentfulStatusCode) {
  const { oidc } = c.var.services;
  const { email, role, company_name } = invitation;
  const state = formState(form, c.req.path);
  const { invitation: words, signIn, roles } = c.var.format.words;
  const body = html`<div class="narrow"><h1>${words.join(company_name)}</h1>
<p class="lead">${words.lead({ role: roles[role], email: html`<strong>${email}</strong>` })}</p>
${state.summary}
<form method="post" action="${c.req.path}" class="card stack">
${field(state, { name: 'password', label: signIn.password, type: 'password', required: true, autocomplete: 'new-password', hint: signIn.passwordHint })}
<button class="primary">${words.button}</button>
</form>
${oidc !== null ? html`<p class="or">${signIn.or}</p><p><a class="button wide" href="/sign-in/oidc?invitation=${tokenOf(c)}">${signIn.withOrganisation}</a></p>` : ''}
</div>`;
  return plainPage(c, words.title, body, status);
}

async function accept(c: PageContext, invitation: Invitation): Promise<Response> {
  const { db, hashing } = c.var.services;
  const form = readForm(c, MAX_FORM_BYTES);
  const password = form.required('password', readPassword);
  try {
    form.check();
  } catch (error) {
    if (!(error instanceof FormRefused)) throw error;
    c.set('isRefused', true);
    return invitationPage(c, invitation, form, 422);
  }
  const hash = await hashing.run(invitation.company_id, () => hashPassword(password));
  const user = await actingAs(db, invitation.email, WRITE_MS, (sql) => acceptInvitation(sql, tokenOf(c), hash));
  if (user === null) return ended(c);
  rememberBrowser(c, hash);
  return joined(c, user);
}

/** Signs in the person who just joined, and redirects to the form of a new key if the person's role may create one. */
export async function joined(
  c: PageContext,
  user: UserRow,
  secondFactor: SecondFactor | null = null,
): Promise<Response> {
  await c.var.services.sessions.begin(c, user.id, { secondFactor });
  const canMakeKeys = may(user, 'key.write', user.company_id);
  return c.redirect(canMakeKeys ? `/companies/${user.company_id}/keys?done=joined` : '/', 303);
}

function tokenOf(c: PageContext): string {
  return c.req.param('token') as string;
}
