import type { Words } from '../../domain/language/en.ts';
import { wordsOf } from '../../domain/language/language.ts';
import { INVITATION_PATH, instantText, invitationMail } from '../../domain/wording/person-mail.ts';
import type { CompanyRow } from '../../store/company/company.ts';
import { REVEAL_SECONDS } from '../../store/company/key-reveal.ts';
import type { InvitationRow, MadeInvitation } from '../../store/users/invitation.ts';
import { type PageContext, pageAt, presentCompany } from '../page/context.ts';
import type { Form } from '../page/form.ts';
import { type Html, html } from '../page/html.ts';
import { copyable } from '../page/layout.ts';
import { gonePage, redirectToSecret, secretOf, shownPage } from '../page/shown-once.ts';
import { waitText } from '../process/throttle.ts';
import { languageForOutsider, type Sent, sendMail } from './mail.ts';

/** Counts an invitation of a company, or refuses the form: each may be an e-mail to anybody. */
export function countInvitation(c: PageContext, form: Form, company: string): void {
  const { invitations } = c.var.services;
  const seconds = invitations.closedFor(company);
  if (seconds > 0) form.refuse('', form.words.members.many(waitText(form.words, seconds)));
  form.check();
  invitations.attempt(company);
}

/** The page that shows the link of an invitation. */
export const invitedRoute = pageAt(
  '/companies/:company/invitations/:invitation/shown',
  'company-user.write',
  invitedPage,
  { whileClosed: true },
);

/** An invitation as a page shows it once. */
export type ShownInvitation = Pick<InvitationRow, 'email' | 'role'> & {
  readonly until: string;
  readonly link: string;
  readonly sent: Sent;
};

/** Sends an invitation that was just made, where that is set up, and redirects to the only page that shows its link. */
export async function redirectToInvitation(
  c: PageContext,
  invitation: MadeInvitation,
): Promise<Response> {
  const { id, company_id } = invitation;
  const shown = shownInvitation(
    c,
    invitation,
    await sendInvitation(c, presentCompany(c), invitation),
  );
  const path = `/companies/${company_id}/invitations/${id}/shown`;
  return redirectToSecret(c, path, JSON.stringify(shown), new Date(c.var.services.clock()));
}

/** @param sent whether it went by e-mail */
export function shownInvitation(
  c: PageContext,
  invitation: MadeInvitation,
  sent: Sent,
): ShownInvitation {
  const { email, role, expires_at } = invitation;
  return { email, role, until: expires_at.toISOString(), link: linkOf(c, invitation), sent };
}

function linkOf(c: PageContext, { token }: MadeInvitation): string {
  return new URL(INVITATION_PATH + token, c.var.services.adminUrl ?? c.req.url).href;
}

/** The link of an invitation, and who has to get it: for a page that shows it once. */
export function invitationCard(
  c: PageContext,
  company: { readonly name: string },
  { email, role, until, link, sent }: ShownInvitation,
): Html {
  const { members: words, roles } = c.var.format.words;
  const facts = {
    email,
    role: roles[role],
    company: company.name,
    until: c.var.format.instant(new Date(until)),
  };
  return html`<section class="card reveal"><p>${sentText(words, sent, email)} ${words.becomes(facts)}</p>
${copyable(c, 'link', words.invitationLink, link)}</section>`;
}

async function invitedPage(c: PageContext): Promise<Response> {
  const company = presentCompany(c);
  const { members: words } = c.var.format.words;
  const after = html`<p><a class="button primary" href="/companies/${company.id}/users">${words.to}</a></p>`;
  const shown = secretOf(c);
  if (shown === null)
    return gonePage(c, {
      after,
      title: words.gone,
      text: html`<p>${words.goneText(REVEAL_SECONDS)}</p>`,
    });
  const invitation = JSON.parse(shown) as ShownInvitation;
  return shownPage(c, {
    after,
    title: words.invited(invitation.email),
    name: c.var.format.words.invitation.title,
    once: words.once,
    reload: words.lost(REVEAL_SECONDS),
    body: invitationCard(c, company, invitation),
  });
}

function sentText(words: Words['members'], sent: Sent, email: string): Html {
  const to = html`<strong>${email}</strong>`;
  if (sent === null) return html`${words.give(to)}`;
  return sent
    ? html`${words.onItsWay(to)}`
    : html`<strong>${words.notSent}</strong> ${words.give(to)}`;
}

/**
 * Sends an invitation that was just made, where that is set up. Only with ADMIN_URL: the URL of a request could lead
 * the receiver of the e-mail to another site.
 */
export async function sendInvitation(
  c: PageContext,
  company: Pick<CompanyRow, 'name' | 'language'>,
  invitation: MadeInvitation,
): Promise<Sent> {
  const { adminUrl, calendar, brand } = c.var.services;
  if (adminUrl === null) return null;
  const { role, email, expires_at } = invitation;
  const { user } = c.var.session;
  const by = user.role === 'operator' ? null : user.email;
  const words = wordsOf(languageForOutsider(c, company));
  const until = instantText(expires_at, calendar.timeZone, words);
  const invited = { company: company.name, by, role, link: linkOf(c, invitation), until };
  return sendMail(c, email, invitationMail(invited, words, brand), 'an invitation');
}
