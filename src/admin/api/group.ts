import * as schema from '../../domain/settings/schema.ts';
import { COMPANY_ROLES } from '../../domain/user.ts';
import { changeGroup, createGroup, removeGroup } from '../../operations/group.ts';
import { findGroup, GROUP, groupsAfter } from '../../store/users/group.ts';
import { noun } from './frame/noun.ts';

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
  async find(sql, _owner, id) {
    const { company_name: _, users: __, ...group } = await findGroup(sql, id);
    return group;
  },
});

export const groupOperations = [
  groups.list({
    summary: 'List groups of the identity provider that give roles, ordered by id',
    filters: { company_id: schema.id },
    read: (sql, { query: { company_id = null } }, range) => groupsAfter(sql, company_id, range),
  }),
  groups.create({
    summary: 'Let a group of the identity provider give a role in a company, at each sign-in',
    body: schema.object({
      name: {
        ...schema.name,
        description: 'as the claim of the provider has it, every character of it',
      },
      company_id: schema.id,
      role,
    }),
    run: (sql, { body }) => createGroup(sql, body),
  }),
  groups.get('Read a group'),
  groups.change({
    summary:
      'Change the role that a group gives. All who have theirs by it get the new one at once',
    body: schema.object({ role }),
    run: (sql, { body }, _owner, id) => changeGroup(sql, id, body.role),
  }),
  groups.remove({
    summary: 'Remove a group. Who has a role by it is signed out at once, and loses it',
    run: (sql, _call, _owner, id) => removeGroup(sql, id),
  }),
];
