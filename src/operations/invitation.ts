import { INVITATION_PATH } from '../domain/text/invitation.ts';
import type { InvitationRow, MadeInvitation } from '../store/users/invitation.ts';

/** Who is invited to a company. */

/** @param origin where users reach the pages */
export function withLink(
  origin: string | URL,
  { token, ...invitation }: MadeInvitation,
): InvitationRow & { readonly link: string } {
  return { ...invitation, link: new URL(INVITATION_PATH + token, origin).href };
}
