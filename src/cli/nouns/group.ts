import { oneOf, readName, readPresentName, readUuid } from '../../domain/field.ts';
import { throwNotFound } from '../../domain/refusal.ts';
import { COMPANY_ROLES, companyMistake, ROLES } from '../../domain/user.ts';
import { changeGroup, createGroup, removeGroup } from '../../operations/group.ts';
import type { Sql } from '../../store/connection/pool.ts';
import { type GroupRow, groupsNamed, listGroups } from '../../store/users/group.ts';
import { ArgumentError, optional, required } from '../frame/command.ts';
import { commandsOf } from '../frame/noun.ts';
import { plainly } from '../frame/text.ts';

const SHOWN = '--name NAME';
const MEANING =
  'name of the group, as the claim of the identity provider has it, every character of it';
const present = required(SHOWN, readPresentName, MEANING);

const groups = commandsOf('group', {}, ({ name, role, company_id }: GroupRow) => ({
  name,
  role,
  company: company_id ?? 'all',
}));

/** Groups of the identity provider that give roles. */
export const groupCommands = [
  groups.create({
    summary: 'let a group of the identity provider give a role, at each sign-in',
    options: {
      name: required(SHOWN, readName, MEANING),
      role: required('--role ROLE', oneOf(...ROLES), 'operator, owner, administrator or member'),
      company: optional('--company ID', readUuid, 'company of the role; an operator has none'),
    },
    notes:
      'Groups are read where OIDC_GROUPS_CLAIM is set. Accounts that were made by hand stay as they are. Example:\n  tollgate group create --name /acme/admins --role administrator --company ID',
    change(sql, _caller, { company: company_id = null, ...group }) {
      const mistake = companyMistake(group.role, company_id);
      if (mistake !== null) throw new ArgumentError(`--company ${mistake}`);
      return createGroup(sql, { ...group, company_id });
    },
    done: 'Group added. It gives the role at the next sign-in.',
  }),
  groups.set({
    summary:
      'change the role that a group gives; all who have theirs by it get the new one at once',
    options: {
      name: present,
      role: required('--role ROLE', oneOf(...COMPANY_ROLES), 'owner, administrator or member'),
    },
    change: async (sql, _caller, { name, role }) => changeGroup(sql, await idOf(sql, name), role),
  }),
  groups.list({
    summary: 'list groups of the identity provider, what they give, and to how many users',
    options: {
      company: optional('--company ID', readUuid, 'only groups that give a role in this company'),
    },
    read: (sql, { company = null }) => listGroups(sql, company),
    columns: () => ({
      ...plainly('name', 'role'),
      COMPANY: ({ company_name }) => company_name ?? 'all',
      USERS: ({ users }) => users,
    }),
    empty: 'No group gives a role; "tollgate group create" adds one.',
  }),
  groups.remove({
    summary: 'remove a group; who has a role by it is signed out at once, and loses it',
    options: { name: present },
    change: async (sql, _caller, { name }) => removeGroup(sql, await idOf(sql, name)),
  }),
];

/** The id of the group with a name. @throws RefusedChange not_found */
async function idOf(sql: Sql, name: string): Promise<string> {
  const [group] = await groupsNamed(sql, [name]);
  return group === undefined ? throwNotFound('group') : group.id;
}
