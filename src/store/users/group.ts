import { refusal, throwConflict, throwNotFound, unknownCompany } from '../../domain/refusal.ts';
import type { CompanyRole, Role } from '../../domain/user.ts';
import { matching } from '../connection/columns.ts';
import { explaining } from '../connection/errors.ts';
import type { Sql } from '../connection/pool.ts';
import { type UserRow, userColumns } from './user.ts';

/** What a group of the identity provider gives: a role in a company; an operator has none. */
export interface GivenByGroup {
  /** As the provider's claim has it. */
  readonly name: string;
  readonly company_id: string | null;
  readonly role: Role;
}

/** A group of the identity provider and what it gives. Members are columns of `oidc_groups`. */
export interface GroupRow extends GivenByGroup {
  readonly id: string;
  readonly created_at: Date;
}

/** A group with the name of its company, null for operators, and how many users have their role by it. */
export type ListedGroup = GroupRow & { readonly company_name: string | null; readonly users: number };

/** @throws RefusedChange when any company has a group of this name, or the company does not exist */
export async function insertGroup(sql: Sql, { name, company_id, role }: GivenByGroup): Promise<GroupRow> {
  const [row] = await explaining(
    sql<GroupRow[]>`
      insert into oidc_groups (name, company_id, role) values (${name}, ${company_id}, ${role}) returning ${groupColumns(sql)}`,
    {
      oidc_groups_name_key: () =>
        throwConflict('group', `The group ${name} gives a role already. Remove it there first.`),
      oidc_groups_company_id_fkey: () => unknownCompany(company_id as string),
    },
  );
  return row as GroupRow;
}

/** @throws RefusedChange not_found */
export async function findGroup(sql: Sql, id: string): Promise<ListedGroup> {
  const [row] = await sql<ListedGroup[]>`${listed(sql)} where g.id = ${id}`;
  return row ?? throwNotFound('group');
}

/** The groups of these names, whatever they give. */
export function groupsNamed(sql: Sql, names: readonly string[]): PromiseLike<GroupRow[]> {
  return sql<
    GroupRow[]
  >`select ${groupColumns(sql)} from oidc_groups where name = any(${names as string[]}) order by name`;
}

/** Groups of a company, or all of them; those of operators first. */
export function listGroups(sql: Sql, company: string | null): PromiseLike<ListedGroup[]> {
  return sql<ListedGroup[]>`
    ${listed(sql)} where true ${matching(sql, { company_id: company })} order by company_name nulls first, company_id, g.name`;
}

/** The users who have their role by the group get it too. @throws RefusedChange not_found */
export async function updateGroup(sql: Sql, id: string, role: CompanyRole): Promise<GroupRow> {
  const [row] = await sql<GroupRow[]>`
    update oidc_groups set role = ${role} where id = ${id} returning ${groupColumns(sql)}`;
  return row ?? throwNotFound('group');
}

/** Users who have their role by the group are removed with it, and signed out. @throws RefusedChange not_found */
export async function deleteGroup(sql: Sql, id: string): Promise<GroupRow> {
  const [row] = await sql<GroupRow[]>`delete from oidc_groups where id = ${id} returning ${groupColumns(sql)}`;
  return row ?? throwNotFound('group');
}

/** Makes the account that a group gives. @throws RefusedChange when the address got an account meanwhile */
export async function insertUserByGroup(sql: Sql, email: string, { name, company_id, role }: GivenByGroup) {
  const [row] = await explaining(
    sql<UserRow[]>`
      insert into users (email, company_id, role, oidc_group) values (${email}, ${company_id}, ${role}, ${name})
      returning ${userColumns(sql)}`,
    { users_email_key: () => throwConflict('user', refusal('accountJustNow')) },
  );
  return row as UserRow;
}

/** Gives a user by group what a group of the same company gives. */
export async function updateGivenByGroup(sql: Sql, id: string, { name, role }: GivenByGroup): Promise<UserRow> {
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

/** The columns of a GroupRow. */
export function groupColumns(sql: Sql) {
  return sql`id, name, company_id, role, created_at`;
}
