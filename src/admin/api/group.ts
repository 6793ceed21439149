import * as schema from '../../domain/settings/schema.ts';
import { COMPANY_ROLES } from '../../domain/user.ts';
import { changeGroup, createGroup, removeGroup } from '../../operations/group.ts';
import type { Sql } from '../../store/connection/pool.ts';
import { groupsAfter } from '../../store/lists/cursor.ts';
import { findGroup } from '../../store/users/group.ts';
import type { ApiCall, ApiOperation, Resource } from './frame/operation.ts';
import { get, getOne, pageOf, patch, post, remove } from './frame/operation.ts';
import * as resource from './frame/resources.ts';

const group = schema.object({
  id: schema.id,
  name: schema.string,
  company_id: { ...schema.orNull(schema.id), description: 'null: the group makes operators' },
  role: resource.role,
  created_at: schema.instant,
});

/** A program makes no operators by a group: the command and the file name that role. */
const role = schema.oneOf(COMPANY_ROLES);

async function find(sql: Sql, { params }: ApiCall) {
  const { company_name: _, users: __, ...group } = await findGroup(sql, params.group as string);
  return group;
}

const PATH = '/groups/{group}';

const GROUP: Resource = { table: 'oidc_groups', param: 'group', find };

export const groupOperations: readonly ApiOperation[] = [
  get('listGroups', '/groups', {
    summary: 'List groups of the identity provider that give roles, ordered by id',
    action: 'group.read',
    query: resource.listQuery({ company_id: schema.id }),
    answer: resource.pageOf(group),
    run: (sql, { query }) => pageOf(query, (range) => groupsAfter(sql, query.company_id ?? null, range)),
  }),
  post('createGroup', '/groups', {
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
  patch('changeGroup', PATH, {
    summary: 'Change the role that a group gives. All who have theirs by it get the new one at once',
    action: 'group.write',
    body: schema.object({ role }),
    answer: group,
    resource: GROUP,
    run: (sql, { params, body }) => changeGroup(sql, params.group as string, body.role),
  }),
  remove('removeGroup', PATH, {
    summary: 'Remove a group. Who has a role by it is signed out at once, and loses it',
    action: 'group.write',
    resource: GROUP,
    run: (sql, { params }) => removeGroup(sql, params.group as string),
  }),
];
