import { type Refusal, refusal, throwConflict, throwNotFound } from '../domain/refusal.ts';
import * as schema from '../domain/settings/schema.ts';
import { COMPANY_ROLES, type CompanyRole, companyMistake, ROLES } from '../domain/user.ts';
import { lockName } from '../store/company/idempotent-form.ts';
import type { Sql } from '../store/connection/pool.ts';
import {
  deleteUserByGroup,
  findGroup,
  type GivenByGroup,
  GROUP,
  type GroupRow,
  groupsAfter,
  groupsNamed,
  insertGroup,
  insertUserByGroup,
  listGroups,
  deleteGroup as removeGroup,
  updateGivenByGroup,
  updateGroup,
} from '../store/users/group.ts';
import { findUser, type UserRow } from '../store/users/user.ts';
import { noun } from './frame/noun.ts';
import { wrongAt } from './frame/refused.ts';
import type { Call } from './frame/row.ts';

/** Groups of the identity provider: what they give, and to whom at sign-in. */

/**
 * Lets a group give a role.
 * @throws Refused wrong for operators of a company, and another role of none; Refused as `insertGroup`
 */
export function createGroup(sql: Sql, given: GivenByGroup): Promise<GroupRow> {
  const mistake = companyMistake(given.role, given.company_id);
  if (mistake !== null) throw wrongAt('#/company_id', mistake);
  return insertGroup(sql, given);
}

/**
 * Gives a group of a company another role, and all who have theirs by it, at once.
 * @throws Refused missing; conflict for the operators' groups, which give nothing else
 */
export async function changeGroup(sql: Sql, id: string, role: CompanyRole): Promise<GroupRow> {
  const { name, role: before } = await findGroup(sql, id);
  if (before === 'operator') {
    throwConflict(
      'group',
      `The group ${name} makes operators. Remove it, and add it to a company.`,
    );
  }
  return updateGroup(sql, id, role);
}

/** Removes a group, and the users who have their role by it, even the last owner or operator: the provider decides. */
export { removeGroup };

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
export function givenByGroups(
  groups: readonly GivenByGroup[],
): GivenByGroup | readonly GivenByGroup[] | null {
  const [best, ...others] = [...groups].sort(
    (one, other) =>
      ROLES.indexOf(one.role) - ROLES.indexOf(other.role) || (one.name < other.name ? -1 : 1),
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
export async function signInByProvider(
  sql: Sql,
  email: string,
  told: ToldGroups | null,
): Promise<SignedIn> {
  if (told !== null) await lockName(sql, `sign-in of ${email}`); // of two first ones at once the second waits
  const user = await findUser(sql, email);
  if (user !== null && user.oidc_group === null) return { user };
  const lost = user !== null;
  if (told === null) {
    return lost
      ? nobody(
          refusal('groupsNotRead'),
          'OIDC_GROUPS_CLAIM is not set, and the account is by group',
        )
      : nobody(refusal('noAccount'), 'no user has the address');
  }
  const { names, lack } = told;
  if (names === null) {
    return nobody(refusal('groupsNotTold'), lack);
  }
  const given = givenByGroups(await groupsNamed(sql, names));
  if (given === null) {
    if (lost) await deleteUserByGroup(sql, user.id);
    const reason = `${lost ? 'the groups that gave the account are gone' : 'no user has the address, and no group gives an account'}${lack === '' ? '' : `: ${lack}`}`;
    return nobody(refusal(lost ? 'groupsLost' : 'noAccountByGroups'), reason);
  }
  if (!('name' in given)) {
    const [one = '', other = ''] = given.map(({ name }) => name);
    return nobody(
      refusal('groupsApart', { one, other }),
      `groups lead to several companies: “${one}” and “${other}”`,
    );
  }
  if (user === null) return { user: await insertUserByGroup(sql, email, given) };
  if (user.company_id === given.company_id) {
    const isSame = user.role === given.role && user.oidc_group === given.name;
    return { user: isSame ? user : await updateGivenByGroup(sql, user.id, given) };
  }
  await deleteUserByGroup(sql, user.id); // no company sees what happens in another one
  return { user: await insertUserByGroup(sql, email, given) };
}

function nobody(told: Refusal, reason: string): SignedIn {
  return { user: null, told, reason };
}

const NAME = schema.described(
  schema.name,
  'as the claim of the provider has it, every character of it',
);

/** A program makes no operators by a group: the command and the file name that role. */
const role = schema.oneOf(COMPANY_ROLES);

const groups = noun({
  name: 'Group',
  path: '/groups',
  param: 'group',
  table: 'oidc_groups',
  answer: GROUP,
  reads: 'group.read',
  writes: 'group.write',
  command: {
    noun: 'group',
    named: {
      members: {
        name: schema.described(
          schema.presentName,
          'name of the group, as the claim of the identity provider has it, every character of it',
        ),
      },
      async find(sql, { name = '' }) {
        const [group] = await groupsNamed(sql, [name]);
        return group === undefined ? throwNotFound('group') : group.id;
      },
    },
  },
  async find(sql, { id }) {
    const { company_name: _, users: __, ...group } = await findGroup(sql, id);
    return group;
  },
});

export const groupOperations = [
  groups.list({
    summary: 'List groups of the identity provider that give roles, ordered by id',
    filters: { company_id: schema.id },
    read: (sql, { query: { company_id = null } }, range) => groupsAfter(sql, company_id, range),
    command: {
      all: (sql, { company_id = null }) => listGroups(sql, company_id),
      columns: ['name', 'role', 'company_name', 'users'],
      empty: 'No group gives a role; "tollgate group create" adds one.',
    },
  }),
  groups.create({
    summary: 'Let a group of the identity provider give a role in a company, at each sign-in',
    body: schema.object({
      name: NAME,
      company_id: schema.id,
      role,
    }),
    command: {
      notes:
        'Groups are read where OIDC_GROUPS_CLAIM is set. Accounts that were made by hand stay as they are. Example:\n  tollgate group create --name /acme/admins --role administrator --company ID',
      done: 'Group added. It gives the role at the next sign-in.',
      differs: {
        because: 'a command also names the groups that make operators, which have no company',
        body: schema.object(
          {
            name: NAME,
            role: schema.oneOf(ROLES),
            company_id: schema.described(schema.id, 'company of the role; an operator has none'),
          },
          ['name', 'role'],
        ),
        run: (sql, { body: { company_id = null, ...group } }: Call<Partial<GivenByGroup>>) =>
          createGroup(sql, { ...group, company_id } as GivenByGroup),
      },
    },
    run: (sql, { body }) => createGroup(sql, body),
  }),
  groups.get('Read a group'),
  groups.change({
    summary:
      'Change the role that a group gives. All who have theirs by it get the new one at once',
    body: schema.object({ role }),
    command: {},
    run: (sql, { body, id }) => changeGroup(sql, id, body.role),
  }),
  groups.remove({
    summary: 'Remove a group. Who has a role by it is signed out at once, and loses it',
    command: {},
    run: (sql, { id }) => removeGroup(sql, id),
  }),
];
