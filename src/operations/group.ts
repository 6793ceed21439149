import { type Refusal, refusal } from '../domain/input/refusal.ts';
import { COMPANY_ROLES, type CompanyRole, ROLES } from '../domain/user.ts';
import { lockName } from '../store/company/idempotent-form.ts';
import type { Sql } from '../store/connection/pool.ts';
import { groupsAfter } from '../store/users/cursor-lists.ts';
import {
  createGroup,
  createUserByGroup,
  findGroup,
  type GivenByGroup,
  groupsNamed,
  removeGroup,
  removeUserByGroup,
  setGivenByGroup,
  setGroupRole,
} from '../store/users/group.ts';
import { findUser, type UserRow } from '../store/users/user.ts';
import type { Call, Operation, PageQuery, Resource } from './operation.ts';
import { get, getOne, pageOf, patch, post, remove } from './operation.ts';
import * as schema from './schemas.ts';

/** Groups of the identity provider: what they give, and to whom at sign-in. */

const group = schema.object({
  id: schema.id,
  name: schema.string,
  company_id: { ...schema.orNull(schema.id), description: 'null: the group makes operators' },
  role: schema.role,
  created_at: schema.instant,
});
/** A program makes no operators by a group: the command and the file name that role. */
const role = schema.oneOf(COMPANY_ROLES);
const PATH = '/groups/{group}';
const GROUP: Resource = { table: 'oidc_groups', param: 'group', find };

export const groupOperations: readonly Operation[] = [
  get<PageQuery & { readonly company_id?: string }>('listGroups', '/groups', {
    summary: 'List groups of the identity provider that give roles, ordered by id',
    action: 'group.read',
    query: schema.listQuery({ company_id: schema.id }),
    answer: schema.pageOf(group),
    run: (sql, { query }) => pageOf(query, (range) => groupsAfter(sql, query.company_id ?? null, range)),
  }),
  post<{ readonly name: string; readonly company_id: string; readonly role: CompanyRole }>('createGroup', '/groups', {
    summary: 'Let a group of the identity provider give a role in a company, at each sign-in',
    action: 'group.write',
    body: schema.object({
      name: { ...schema.name, description: 'as the claim of the provider has it, every character of it' },
      company_id: schema.id,
      role,
    }),
    answer: group,
    status: 201,
    run: (sql, { body }) => createGroup(sql, body),
  }),
  getOne('getGroup', PATH, GROUP, { summary: 'Read a group', action: 'group.read', answer: group }),
  patch<{ readonly role: CompanyRole }>('changeGroup', PATH, {
    summary: 'Change the role that a group gives. All who have theirs by it get the new one at once',
    action: 'group.write',
    body: schema.object({ role }),
    answer: group,
    resource: GROUP,
    run: (sql, { params, body }) => setGroupRole(sql, params.group as string, body.role),
  }),
  remove('removeGroup', PATH, {
    summary: 'Remove a group. Who has a role by it is signed out at once, and loses it',
    action: 'group.write',
    resource: GROUP,
    run: (sql, { params }) => removeGroup(sql, params.group as string),
  }),
];

async function find(sql: Sql, { params }: Call) {
  const { company_name: _, users: __, ...group } = await findGroup(sql, params.group as string);
  return group;
}

/** The groups that the identity provider tells of a person. */
export interface ToldGroups {
  /** null: nobody can know them, so they give nothing and take nothing away. */
  readonly names: readonly string[] | null;
  /** Why there are none, or none that can be known, for the log; empty where there are some. */
  readonly lack: string;
}

/**
 * What several groups give together: the highest role, which of equal ones the first name gives. Operators see all
 * companies, so other groups of theirs add nothing.
 * @returns null for no group; a list where they lead to several companies
 */
export function givenByGroups(groups: readonly GivenByGroup[]): GivenByGroup | readonly GivenByGroup[] | null {
  const [best, ...others] = [...groups].sort(
    (one, other) => ROLES.indexOf(one.role) - ROLES.indexOf(other.role) || (one.name < other.name ? -1 : 1),
  );
  if (best === undefined) return null;
  const elsewhere = others.find(({ company_id }) => company_id !== best.company_id);
  return elsewhere === undefined || best.role === 'operator' ? best : [best, elsewhere];
}

/** Who signs in; or nobody, with a sentence for the person, and the reason for the log. */
export type SignedIn =
  | { readonly user: UserRow }
  | { readonly user: null; readonly told: Refusal; readonly reason: string };

/**
 * Finds who signs in by the identity provider. An account that was made by hand stays as it is, whatever the groups. An
 * account by group is made, changed or removed as the groups say. To be called in a transaction as this person.
 * @param email the verified address, in lower case
 * @param told null: groups are not read
 */
export async function signInByProvider(sql: Sql, email: string, told: ToldGroups | null): Promise<SignedIn> {
  if (told !== null) await lockName(sql, `sign-in of ${email}`); // of two first ones at once the second waits
  const user = await findUser(sql, email);
  if (user !== null && user.oidc_group === null) return { user };
  const lost = user !== null;
  if (told === null) {
    return lost
      ? nobody(refusal('groupsNotRead'), 'OIDC_GROUPS_CLAIM is not set, and the account is by group')
      : nobody(refusal('noAccount'), 'no user has the address');
  }
  const { names, lack } = told;
  if (names === null) {
    return nobody(refusal('groupsNotTold'), lack);
  }
  const given = givenByGroups(await groupsNamed(sql, names));
  if (given === null) {
    if (lost) await removeUserByGroup(sql, user.id);
    const reason = `${lost ? 'the groups that gave the account are gone' : 'no user has the address, and no group gives an account'}${lack === '' ? '' : `: ${lack}`}`;
    return nobody(refusal(lost ? 'groupsLost' : 'noAccountByGroups'), reason);
  }
  if (!('name' in given)) {
    const [one = '', other = ''] = given.map(({ name }) => name);
    return nobody(refusal('groupsApart', { one, other }), `groups lead to several companies: “${one}” and “${other}”`);
  }
  if (user === null) return { user: await createUserByGroup(sql, email, given) };
  if (user.company_id === given.company_id) {
    const isSame = user.role === given.role && user.oidc_group === given.name;
    return { user: isSame ? user : await setGivenByGroup(sql, user.id, given) };
  }
  await removeUserByGroup(sql, user.id); // no company sees what happens in another one
  return { user: await createUserByGroup(sql, email, given) };
}

function nobody(told: Refusal, reason: string): SignedIn {
  return { user: null, told, reason };
}
