import { emailSpelling } from '../domain/visible-text.ts';
import { INVITATION_PATH } from '../domain/wording/person-mail.ts';
import type { Sql } from '../store/connection/pool.ts';
import {
  type InvitationRow,
  insertInvitation,
  type MadeInvitation,
  type NewInvitation,
  takeInvitation,
  updateInvitation,
} from '../store/users/invitation.ts';
import { insertUser, type UserRow } from '../store/users/user.ts';
import type { Caller } from './caller.ts';

/** Who is invited to a company. */

/** Invites an address to a company. @throws RefusedChange when it has an account, of whatever company, or is invited already */
export function createInvitation(
  sql: Sql,
  { actor }: Pick<Caller, 'actor'>,
  { email, ...asked }: Omit<NewInvitation, 'created_by'>,
): Promise<MadeInvitation> {
  return insertInvitation(sql, { ...asked, email: emailSpelling(email), created_by: actor });
}

/** Gives an invitation a new link and its whole time again; the old link ends. @throws RefusedChange not_found */
export function renewInvitation(
  sql: Sql,
  { actor }: Pick<Caller, 'actor'>,
  company: string,
  id: string,
): Promise<MadeInvitation> {
  return updateInvitation(sql, company, id, actor);
}

export { deleteInvitation as withdrawInvitation } from '../store/users/invitation.ts';

/**
 * Makes the account that an invitation offers. To be run in a transaction, which also removes the invitation.
 * @param hash of `hashPassword`; null for people who sign in by OpenID Connect
 * @returns null when the link does not work any more
 * @throws RefusedChange when the address got an account meanwhile
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
