import { hashPassword } from '../domain/password.ts';
import { RefusedChange } from '../domain/refused-change.ts';
import type { Role } from '../domain/user.ts';
import { unknownCompany } from './company.ts';
import type { Sql } from './database.ts';
import { explaining } from './database-error.ts';

/** Members are columns of the table, without the hash of the password. */
export interface UserRow {
  readonly id: string;
  readonly email: string;
  readonly company_id: string | null;
  readonly role: Role;
  readonly created_at: Date;
}

/** The address is in lower case; operators, and nobody else, have no company. */
type NewUser = Pick<UserRow, 'email' | 'role' | 'company_id'>;

/**
 * @param user with a plaintext password, of which only the hash is stored; null for people who sign in by OpenID Connect
 * @throws RefusedChange when the address is taken or the company does not exist
 */
export async function createUser(sql: Sql, user: NewUser & { readonly password: string | null }): Promise<UserRow> {
  return insertUser(sql, user, user.password === null ? null : await hashPassword(user.password));
}

/**
 * @param hash of `hashPassword`; null for people who sign in by OpenID Connect
 * @throws RefusedChange when the address is taken or the company does not exist
 */
export async function insertUser(sql: Sql, user: NewUser, hash: string | null): Promise<UserRow> {
  const [row] = await explaining(
    sql<UserRow[]>`
      insert into users (email, company_id, role, password_hash)
      values (${user.email}, ${user.company_id}, ${user.role}, ${hash})
      returning id, email, company_id, role, created_at`,
    {
      users_email_key: () => new RefusedChange('conflict', 'user', `There is a user ${user.email} already.`),
      users_company_id_fkey: () => unknownCompany(user.company_id as string),
    },
  );
  return row as UserRow;
}

/** The user with an address (in lower case), and the hash of their password. */
export async function findUser(sql: Sql, email: string) {
  const [row] = await sql<{ readonly id: string; readonly password_hash: string | null }[]>`
    select id, password_hash from users where email = ${email}`;
  return row ?? null;
}

/** @param hash of `hashPassword` @throws RefusedChange not_found */
export async function setPasswordHash(sql: Sql, id: string, hash: string): Promise<void> {
  const { count } = await sql`update users set password_hash = ${hash} where id = ${id}`;
  if (count === 0) throw new RefusedChange('not_found', 'user', 'There is no such user.');
}

/** @throws RefusedChange not_found */
export async function removeUser(sql: Sql, id: string): Promise<UserRow> {
  const [row] = await sql<UserRow[]>`
    delete from users where id = ${id} returning id, email, company_id, role, created_at`;
  if (row === undefined) throw new RefusedChange('not_found', 'user', 'There is no such user.');
  return row;
}
