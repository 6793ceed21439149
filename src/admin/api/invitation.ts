import * as schema from '../../domain/settings/schema.ts';
import {
  createInvitation,
  renewInvitation,
  withdrawInvitation,
  withLink,
} from '../../operations/invitation.ts';
import { INVITATION, invitationsAfter } from '../../store/users/invitation.ts';
import { type ApiOperation, getList, post, remove } from './frame/operation.ts';

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

export const invitationOperations: readonly ApiOperation[] = [
  getList('listInvitations', LIST, {
    summary: 'List invitations that were not used, ordered by id',
    action: 'company-user.read',
    row: INVITATION,
    read: (sql, _call, range, company) => invitationsAfter(sql, company, range),
  }),
  post('createInvitation', LIST, {
    summary: 'Invite somebody to a company. No e-mail is sent: the program passes the link on',
    action: 'company-user.write',
    body: schema.object({ email: schema.email, role: INVITATION.properties.role }),
    answer: made,
    status: 201,
    secret: 'link',
    async run(sql, call) {
      const asked = { company_id: call.company, ...call.body };
      return withLink(call.origin, await createInvitation(sql, call, asked));
    },
  }),
  post('renewInvitation', `${ONE}/renew`, {
    summary: 'Give an invitation a new link and its whole time again; the old link ends',
    action: 'company-user.write',
    answer: made,
    secret: 'link',
    async run(sql, call) {
      const { company, invitation } = call.params as Record<'company' | 'invitation', string>;
      return withLink(call.origin, await renewInvitation(sql, call, company, invitation));
    },
  }),
  remove('withdrawInvitation', ONE, {
    summary: 'Withdraw an invitation: its link does not work any more',
    action: 'company-user.write',
    run: (sql, { company, params }) =>
      withdrawInvitation(sql, params.invitation as string, company),
  }),
];
