import { INVITATION_PATH, instantText, invitationMail } from '../../domain/text/invitation.ts';
import { findCompany } from '../../store/company/company.ts';
import { REVEAL_SECONDS } from '../../store/company/key-reveal.ts';
import type { InvitationRow, MadeInvitation } from '../../store/people/invitation.ts';
import { type PageContext, param, type Route, read } from '../page/context.ts';
import type { Form } from '../page/form.ts';
import { type Html, html } from '../page/html.ts';
import { companyHeading, copyable, page } from '../page/layout.ts';
import { redirectToSecret, secretOf } from '../page/shown-once.ts';
import { waitText } from '../page/throttle.ts';
import { type Sent, sendMail } from './mail.ts';

/** Counts an invitation of a company, or refuses the form: each may be an e-mail to anybody. */
export function countInvitation(c: PageContext, form: Form, company: string): void {
  const { invitations } = c.var.services;
  const seconds = invitations.closedFor(company);
  if (seconds > 0) form.refuse('', `This company has sent many invitations in a short time. ${waitText(seconds)}`);
  form.check();
  invitations.attempt(company);
}

/** The page that shows the link of an invitation. */
export const invitedRoute: Route = {
  method: 'GET',
  path: '/companies/:company/invitations/:invitation/shown',
  action: 'people.write',
  whileClosed: true,
  handle: invitedPage,
};

/** Further facts for the page. */
type Shown = Pick<InvitationRow, 'email' | 'role'> & {
  readonly until: string;
  readonly link: string;
  readonly sent: Sent;
};

/** Sends an invitation that was just made, where that is set up, and redirects to the only page that shows its link. */
export async function redirectToInvitation(
  c: PageContext,
  { token, ...invitation }: MadeInvitation,
): Promise<Response> {
  const { id, email, role, company_id, expires_at } = invitation;
  const company = await read(c, (sql) => findCompany(sql, company_id));
  const { adminUrl } = c.var.services;
  const link = new URL(INVITATION_PATH + token, adminUrl ?? c.req.url).href;
  const sent = await send(c, company.name, invitation, link);
  const shown: Shown = { email, role, until: expires_at.toISOString(), link, sent };
  const path = `/companies/${company_id}/invitations/${id}/shown`;
  return redirectToSecret(c, path, JSON.stringify(shown), new Date(c.var.services.clock()));
}

async function invitedPage(c: PageContext): Promise<Response> {
  const company = await read(c, (sql) => findCompany(sql, param(c, 'company')));
  const people = html`<p><a class="button primary" href="/companies/${company.id}/people">To the people of the company</a></p>`;
  const shown = secretOf(c);
  if (shown === null) {
    const title = 'This link can no longer be shown';
    c.status(410);
    return page(
      c,
      title,
      html`${companyHeading(c, company)}<h1>${title}</h1>
<section class="card"><p>The link of an invitation is shown to whoever made it only, and for ${REVEAL_SECONDS} seconds. If nobody has it, renew the invitation: the old link then ends, and the new one is shown.</p></section>${people}`,
    );
  }
  const { email, role, until, link, sent } = JSON.parse(shown) as Shown;
  const body = html`${companyHeading(c, company)}<h1>${email} is invited</h1>
<div class="notice strong" role="status"><strong>This is the only time the link is shown.</strong> A lost one is renewed. For ${REVEAL_SECONDS} seconds a reload of this page shows it again.</div>
<section class="card reveal"><p>${sentText(sent, email)} With the link ${email} becomes ${role} of ${company.name}. It works once, until ${c.var.format.instant(new Date(until))}.</p>
${copyable('link', 'Invitation link', link)}</section>
${people}`;
  return page(c, 'Invitation', body);
}

function sentText(sent: Sent, email: string): Html | string {
  if (sent === null) return html`Give this link to <strong>${email}</strong>, and to nobody else.`;
  return sent
    ? html`The link is on its way to <strong>${email}</strong> by e-mail.`
    : html`<strong>The e-mail could not be sent.</strong> Give this link to <strong>${email}</strong>, and to nobody else.`;
}

/** Only with ADMIN_URL: the URL of a request could lead the receiver of the e-mail to another site. */
async function send(c: PageContext, company: string, invitation: InvitationRow, link: string): Promise<Sent> {
  const { adminUrl, calendar } = c.var.services;
  if (adminUrl === null) return null;
  const { role, email, expires_at } = invitation;
  const { user } = c.var.session;
  const by = user.role === 'operator' ? null : user.email;
  const until = instantText(expires_at, calendar.timeZone);
  return sendMail(c, email, invitationMail({ company, by, role, link, until }), 'an invitation');
}
