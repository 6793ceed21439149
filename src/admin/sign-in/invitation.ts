import { Hono } from 'hono';
import { hashPassword, readPassword } from '../../domain/password.ts';
import { INVITATION_PATH } from '../../domain/wording/person-mail.ts';
import { may } from '../../operations/frame/permission.ts';
import { acceptInvitation } from '../../operations/invitation.ts';
import { actingAs } from '../../store/connection/acting-person.ts';
import { findInvitation } from '../../store/users/invitation.ts';
import type { SecondFactor } from '../../store/users/session.ts';
import type { UserRow } from '../../store/users/user.ts';
import type { PageContext, PageEnv } from '../page/context.ts';
import type { FormState } from '../page/field.ts';
import type { Form } from '../page/form.ts';
import { html } from '../page/html.ts';
import { pageLanguage } from '../page/locale.ts';
import { openSession } from '../page/session.ts';
import { goOnPage, newPasswordField, providerLink } from './go-on.ts';
import { formBehindLink, sayPage, tokenOf } from './link.ts';
import { rememberBrowser } from './sign-in-attempt.ts';

const WRITE_MS = 5000;

/**
 * The pages behind the link of an invitation, for people without an account. The link is a secret: it is in no
 * log, and no page that it leads to tells another site where its visitor came from.
 */
export function invitationRoutes(): Hono<PageEnv> {
  const app = new Hono<PageEnv>();
  formBehindLink(app, INVITATION_PATH, findInvitation, {
    page: invitationPage,
    save: accept,
    ended,
  });
  return app;
}

type Invitation = NonNullable<Awaited<ReturnType<typeof findInvitation>>>;

/** One answer for links that were used, withdrawn or renewed, whose time is over, or that never were any. */
function ended(c: PageContext): Promise<Response> {
  const { invitation, signIn } = c.var.format.words;
  return sayPage(
    c,
    invitation.ended,
    invitation.ask,
    404,
    html`<p><a href="/sign-in">${signIn.title}</a></p>`,
  );
}

function invitationPage(c: PageContext, form: Form, invitation: Invitation, status?: 422) {
  const { oidc } = c.var.services;
  const { email, role, company_name } = invitation;
  const { invitation: words, signIn, roles } = c.var.format.words;
  const page = {
    title: words.title,
    heading: words.join(company_name),
    lead: html`<p class="lead">${words.lead({ role: roles[role], email: html`<strong>${email}</strong>` })}</p>`,
    fields: (state: FormState) => newPasswordField(state, signIn),
    button: words.button,
    below: oidc === null ? '' : providerLink(`/sign-in/oidc?invitation=${tokenOf(c)}`, signIn),
  };
  return goOnPage(c, form, page, status);
}

async function accept(c: PageContext, form: Form, invitation: Invitation): Promise<Response> {
  const { db, hashing } = c.var.services;
  const password = form.required('password', readPassword);
  form.check();
  const hash = await hashing.run(invitation.company_id, () => hashPassword(password));
  const user = await actingAs(db, invitation.email, WRITE_MS, (sql) =>
    acceptInvitation(sql, tokenOf(c), hash),
  );
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
  await openSession(c, user.id, { language: pageLanguage(c.var.format.language), secondFactor });
  const canMakeKeys = may(user, 'key.write', user.company_id);
  return c.redirect(canMakeKeys ? `/companies/${user.company_id}/keys?done=joined` : '/', 303);
}
