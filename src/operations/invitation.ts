import * as schema from '../domain/settings/schema.ts';
import { emailSpelling } from '../domain/visible-text.ts';
import { INVITATION_PATH } from '../domain/wording/person-mail.ts';
import type { Sql } from '../store/connection/pool.ts';
import {
  INVITATION,
  type InvitationRow,
  insertInvitation,
  invitationsAfter,
  type MadeInvitation,
  type NewInvitation,
  takeInvitation,
  updateInvitation,
  deleteInvitation as withdrawInvitation,
} from '../store/users/invitation.ts';
import { insertUser, type UserRow } from '../store/users/user.ts';
import type { Caller } from './frame/caller.ts';
import { getList, type Operation, post, remove } from './frame/row.ts';

/** Who is invited to a company. */

/** Invites an address to a company. @throws Refused when it has an account, of whatever company, or is invited already */
export function createInvitation(
  sql: Sql,
  { actor }: Pick<Caller, 'actor'>,
  { email, ...asked }: Omit<NewInvitation, 'created_by'>,
): Promise<MadeInvitation> {
  return insertInvitation(sql, { ...asked, email: emailSpelling(email), created_by: actor });
}

/** Gives an invitation a new link and its whole time again; the old link ends. @throws Refused missing */
export function renewInvitation(
  sql: Sql,
  { actor }: Pick<Caller, 'actor'>,
  company: string,
  id: string,
): Promise<MadeInvitation> {
  return updateInvitation(sql, company, id, actor);
}

export { withdrawInvitation };

/**
 * Makes the account that an invitation offers. To be run in a transaction, which also removes the invitation.
 * @param hash of `hashPassword`; null for people who sign in by OpenID Connect
 * @returns null when the link does not work any more
 * @throws Refused when the address got an account meanwhile
 */
export async function acceptInvitation(
  sql: Sql,
  token: string,
  hash: string | null,
): Promise<UserRow | null> {
  const taken = await takeInvitation(sql, token);
  if (taken === null) return null;
  const { email, role, company_id } = taken;
  return insertUser(sql, { email, role, company_id }, hash);
}

/** @param origin where users reach the pages */
export function withLink(
  origin: string | URL,
  { token, ...invitation }: MadeInvitation,
): InvitationRow & { readonly link: string } {
  return { ...invitation, link: new URL(INVITATION_PATH + token, origin).href };
}

/** An invitation with its link. */
export const made = schema.object({
  ...INVITATION.properties,
  link: {
    type: ['string', 'null'],
    description:
      'works once, for seven days, for whoever has it; null in a repeated answer after a minute',
  },
});

const LIST = '/companies/{company}/invitations';

const ONE = `${LIST}/{invitation}`;

export const invitationOperations: readonly Operation[] = [
  getList('listInvitations', LIST, {
    summary: 'List invitations that were not used, ordered by id',
    action: 'company-user.read',
    row: INVITATION,
    read: (sql, { company }, range) => invitationsAfter(sql, company, range),
  }),
  post('createInvitation', LIST, {
    summary: 'Invite somebody to a company. No e-mail is sent: the program passes the link on',
    action: 'company-user.write',
    body: schema.object({ email: schema.email, role: INVITATION.properties.role }),
    answer: made,
    status: 201,
    secret: 'link',
    async run(sql, call) {
      const invitation = { company_id: call.company, ...call.body };
      return withLink(call.origin, await createInvitation(sql, call, invitation));
    },
  }),
  post('renewInvitation', `${ONE}/renew`, {
    summary: 'Give an invitation a new link and its whole time again; the old link ends',
    action: 'company-user.write',
    answer: made,
    secret: 'link',
    async run(sql, call) {
      return withLink(call.origin, await renewInvitation(sql, call, call.company, call.id));
    },
  }),
  remove('withdrawInvitation', ONE, {
    summary: 'Withdraw an invitation: its link does not work any more',
    action: 'company-user.write',
    run: (sql, { company, id }) => withdrawInvitation(sql, id, company),
  }),
];
