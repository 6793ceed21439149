import * as schema from '../../domain/settings/schema.ts';
import { COMPANY_ROLES } from '../../domain/user.ts';
import { createInvitation, renewInvitation, withdrawInvitation, withLink } from '../../operations/invitation.ts';
import { invitationsAfter } from '../../store/users/invitation.ts';
import { type ApiOperation, getList, post, remove } from './frame/operation.ts';
import * as resource from './frame/resources.ts';

const role = schema.oneOf(COMPANY_ROLES);

const invitation = schema.object({
  id: schema.id,
  company_id: schema.id,
  email: schema.email,
  role,
  created_at: schema.instant,
  created_by: resource.createdBy,
  expires_at: schema.instant,
});

/** An invitation with its link. */
export const made = schema.object({
  ...invitation.properties,
  link: {
    type: ['string', 'null'],
    description: 'works once, for seven days, for whoever has it; null in a repeated answer after a minute',
  },
});

const INVITATIONS = '/companies/{company}/invitations';

const INVITATION = `${INVITATIONS}/{invitation}`;

export const invitationOperations: readonly ApiOperation[] = [
  getList('listInvitations', INVITATIONS, {
    summary: 'List invitations that were not used, ordered by id',
    action: 'company-user.read',
    row: invitation,
    read: (sql, _call, range, company) => invitationsAfter(sql, company, range),
  }),
  post('createInvitation', INVITATIONS, {
    summary: 'Invite somebody to a company. No e-mail is sent: the program passes the link on',
    action: 'company-user.write',
    body: schema.object({ email: schema.email, role }),
    answer: made,
    status: 201,
    secret: 'link',
    async run(sql, call) {
      const asked = { company_id: call.params.company as string, ...call.body };
      return withLink(call.origin, await createInvitation(sql, call, asked));
    },
  }),
  post('renewInvitation', `${INVITATION}/renew`, {
    summary: 'Give an invitation a new link and its whole time again; the old link ends',
    action: 'company-user.write',
    answer: made,
    secret: 'link',
    async run(sql, call) {
      const { company, invitation } = call.params as Record<'company' | 'invitation', string>;
      return withLink(call.origin, await renewInvitation(sql, call, company, invitation));
    },
  }),
  remove('withdrawInvitation', INVITATION, {
    summary: 'Withdraw an invitation: its link does not work any more',
    action: 'company-user.write',
    run: (sql, { params }) => withdrawInvitation(sql, params.company as string, params.invitation as string),
  }),
];
