import { INVITATION_PATH } from '../domain/text/invitation.ts';
import { COMPANY_ROLES, type CompanyRole } from '../domain/user.ts';
import { findCompany } from '../store/company/company.ts';
import type { Sql } from '../store/connection/pool.ts';
import { invitationsAfter, peopleAfter } from '../store/people/cursor-lists.ts';
import {
  createInvitation,
  type InvitationRow,
  type MadeInvitation,
  renewInvitation,
  withdrawInvitation,
} from '../store/people/invitation.ts';
import { findPerson, keepAnOwner, removeUser, setRole } from '../store/people/user.ts';
import type { Call, Operation, PageQuery, Resource } from './operation.ts';
import { get, getOne, pageOf, patch, post, remove } from './operation.ts';
import * as schema from './schemas.ts';

/** The people of a company, and who is invited to it. */

const role = schema.oneOf(COMPANY_ROLES);
const person = schema.object({
  ...schema.user.properties,
  role,
  last_sign_in_at: { ...schema.orNull(schema.instant), description: 'null: never, or not known' },
});
const invitation = schema.object({
  id: schema.id,
  company_id: schema.id,
  email: schema.email,
  role,
  created_at: schema.instant,
  created_by: schema.createdBy,
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

const PEOPLE = '/companies/{company}/people';
const PERSON = `${PEOPLE}/{user}`;
const INVITATIONS = '/companies/{company}/invitations';
const INVITATION = `${INVITATIONS}/{invitation}`;
const FOUND: Resource = {
  table: 'users',
  param: 'user',
  find: (sql, { params }) => findPerson(sql, params.company as string, params.user as string),
};

export const peopleOperations: readonly Operation[] = [
  get<PageQuery>('listPeople', PEOPLE, {
    summary: 'List the people of a company, ordered by id',
    action: 'people.read',
    query: schema.listQuery(),
    answer: schema.pageOf(person),
    async run(sql, { params, query }) {
      const { id } = await findCompany(sql, params.company as string);
      return pageOf(query, (range) => peopleAfter(sql, id, range));
    },
  }),
  getOne('getPerson', PERSON, FOUND, {
    summary: 'Read one of the people of a company',
    action: 'people.read',
    answer: person,
  }),
  patch<{ readonly role: CompanyRole }>('changePerson', PERSON, {
    summary: "Change the role of one of the people of a company. A company's token leaves it an owner",
    action: 'people.write',
    body: schema.object({ role }),
    answer: person,
    resource: FOUND,
    async run(sql, call) {
      const { role } = call.body;
      if (role !== 'owner') await keepAnOwnerOf(sql, call);
      await setRole(sql, call.params.company as string, call.params.user as string, role);
      return FOUND.find(sql, call);
    },
  }),
  remove('removePerson', PERSON, {
    summary: "Remove one of the people of a company, who is signed out at once. A company's token leaves it an owner",
    action: 'people.write',
    resource: FOUND,
    async run(sql, call) {
      await FOUND.find(sql, call);
      await keepAnOwnerOf(sql, call);
      await removeUser(sql, call.params.user as string);
    },
  }),
  get<PageQuery>('listInvitations', INVITATIONS, {
    summary: 'List invitations that were not used, ordered by id',
    action: 'people.read',
    query: schema.listQuery(),
    answer: schema.pageOf(invitation),
    async run(sql, { params, query }) {
      const { id } = await findCompany(sql, params.company as string);
      return pageOf(query, (range) => invitationsAfter(sql, id, range));
    },
  }),
  post<{ readonly email: string; readonly role: CompanyRole }>('createInvitation', INVITATIONS, {
    summary: 'Invite somebody to a company. No e-mail is sent: the program passes the link on',
    action: 'people.write',
    body: schema.object({ email: schema.email, role }),
    answer: made,
    status: 201,
    secret: 'link',
    async run(sql, call) {
      const { email, role } = call.body;
      const asked = { company_id: call.params.company as string, email: email.toLowerCase(), role };
      const invitation = await createInvitation(sql, { ...asked, created_by: call.actor });
      return withLink(call.origin, invitation);
    },
  }),
  post('renewInvitation', `${INVITATION}/renew`, {
    summary: 'Give an invitation a new link and its whole time again; the old link ends',
    action: 'people.write',
    answer: made,
    secret: 'link',
    async run(sql, call) {
      const { company, invitation } = call.params as Record<'company' | 'invitation', string>;
      return withLink(call.origin, await renewInvitation(sql, company, invitation, call.actor));
    },
  }),
  remove('withdrawInvitation', INVITATION, {
    summary: 'Withdraw an invitation: its link does not work any more',
    action: 'people.write',
    run: (sql, { params }) => withdrawInvitation(sql, params.company as string, params.invitation as string),
  }),
];

/** Operators may leave a company without an owner. */
async function keepAnOwnerOf(sql: Sql, { role, params }: Pick<Call, 'role' | 'params'>): Promise<void> {
  if (role === 'owner') await keepAnOwner(sql, params.company as string, params.user as string);
}

/** @param origin where people reach the pages */
export function withLink(
  origin: string | URL,
  { token, ...invitation }: MadeInvitation,
): InvitationRow & { readonly link: string } {
  return { ...invitation, link: new URL(INVITATION_PATH + token, origin).href };
}
