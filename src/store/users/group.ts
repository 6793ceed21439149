import { refusal, throwConflict, throwNotFound } from '../../domain/refusal.ts';
import * as schema from '../../domain/settings/schema.ts';
import type { CompanyRole } from '../../domain/user.ts';
import { matching } from '../connection/columns.ts';
import type { Sql } from '../connection/pool.ts';
import { rowsIn } from '../connection/rows.ts';
import { USER, USERS, type UserRow, userColumns } from './user.ts';

/** A group of the identity provider and what it gives: a role in a company; an operator has none. Members are columns of `oidc_groups`. */
export const GROUP = schema.object({
  id: schema.id,
  // as the provider's claim has it
  name: schema.string,
  company_id: schema.described(schema.orNull(schema.id), 'null: the group makes operators'),
  role: USER.properties.role,
  created_at: schema.time,
});
export type GroupRow = schema.Value<typeof GROUP>;
export type GivenByGroup = Pick<GroupRow, 'name' | 'company_id' | 'role'>;

/** A group with the name of its company, null for operators, and how many users have their role by it. */
export type ListedGroup = GroupRow & {
  readonly company_name: string | null;
  readonly users: number;
};

const ROWS = rowsIn<GroupRow>({
  table: 'oidc_groups',
  noun: 'group',
  columns: (sql) => sql`id, name, company_id, role, created_at`,
});

/** Users who have their role by a group are removed with it, and signed out. */
export const { remove: deleteGroup, page: groupsAfter } = ROWS;

/** @throws Refused when any company has a group of this name, or the company does not exist */
export function insertGroup(sql: Sql, { name, company_id, role }: GivenByGroup): Promise<GroupRow> {
  return ROWS.insert(
    sql,
    sql`(name, company_id, role) values (${name}, ${company_id}, ${role})`,
    company_id,
    {
      oidc_groups_name_key: () =>
        throwConflict('group', `The group ${name} gives a role already. Remove it there first.`),
    },
  );
}

/** @throws Refused missing */
export async function findGroup(sql: Sql, id: string): Promise<ListedGroup> {
  const [row] = await sql<ListedGroup[]>`${listed(sql)} where g.id = ${id}`;
  return row ?? throwNotFound('group');
}

/** The groups of these names, whatever they give. */
export function groupsNamed(sql: Sql, names: readonly string[]): PromiseLike<GroupRow[]> {
  return ROWS.list(sql, sql`where name = any(${names as string[]}) order by name`);
}

/** Groups of a company, or all of them; those of operators first. */
export function listGroups(sql: Sql, company: string | null): PromiseLike<ListedGroup[]> {
  return sql<ListedGroup[]>`
    ${listed(sql)} where true ${matching(sql, { company_id: company })} order by company_name nulls first, company_id, g.name`;
}

/** The users who have their role by the group get it too. @throws Refused missing */
export function updateGroup(sql: Sql, id: string, role: CompanyRole): Promise<GroupRow> {
  return ROWS.update(sql, sql`role = ${role}`, id);
}

/** Makes the account that a group gives. @throws Refused when the address got an account meanwhile */
export function insertUserByGroup(
  sql: Sql,
  email: string,
  { name, company_id, role }: GivenByGroup,
) {
  return USERS.insert(
    sql,
    sql`(email, company_id, role, oidc_group) values (${email}, ${company_id}, ${role}, ${name})`,
    company_id,
    {
      users_email_key: () => throwConflict('user', refusal('accountJustNow')),
    },
  );
}

/** Gives a user by group what a group of the same company gives. */
export async function updateGivenByGroup(
  sql: Sql,
  id: string,
  { name, role }: GivenByGroup,
): Promise<UserRow> {
  const [row] = await sql<UserRow[]>`
    update users set role = ${role}, oidc_group = ${name} where id = ${id} and oidc_group is not null returning ${userColumns(sql)}`;
  return row ?? throwNotFound('user');
}

/** Takes away the account of a user by group, even of the last owner or operator: the provider decides. Sessions end. */
export async function deleteUserByGroup(sql: Sql, id: string): Promise<void> {
  await sql`delete from users where id = ${id} and oidc_group is not null`;
}

function listed(sql: Sql) {
  return sql`select ${listedGroupColumns(sql)} from oidc_groups g left join companies c on c.id = g.company_id`;
}

/** The columns of a ListedGroup, of a group `g` and its company `c`. */
export function listedGroupColumns(sql: Sql) {
  return sql`g.id, g.name, g.company_id, g.role, g.created_at, c.name as company_name,
    (select count(*)::integer from users u where u.oidc_group = g.name) as users`;
}
