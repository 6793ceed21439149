import { hashPassword } from '../domain/password.ts';
import { Refusal } from '../domain/refusal.ts';
import type { Role } from '../domain/user.ts';
import { unknownCompany } from './company.ts';
import type { Sql } from './database.ts';
import { explaining } from './violation.ts';

/** Members are columns of the table; the password's hash is not among them. */
export interface UserRow {
  readonly id: string;
  readonly email: string;
  readonly company_id: string | null;
  readonly role: Role;
  readonly created_at: Date;
}

export type NewUser = {
  /** In lower case. */
  readonly email: string;
  /** Plaintext, hashed here and forgotten; null for people who sign in elsewhere. */
  readonly password: string | null;
} & (
  | { readonly role: 'operator'; readonly company_id: null }
  | { readonly role: Exclude<Role, 'operator'>; readonly company_id: string }
);

/** @throws Refusal when the address is taken or the company does not exist */
export async function createUser(sql: Sql, user: NewUser): Promise<UserRow> {
  const hash = user.password === null ? null : await hashPassword(user.password);
  const [row] = await explaining(
    sql<UserRow[]>`
      insert into users (email, company_id, role, password_hash)
      values (${user.email}, ${user.company_id}, ${user.role}, ${hash})
      returning id, email, company_id, role, created_at`,
    {
      users_email_key: () => {
        throw new Refusal('conflict', 'user', `There is a user ${user.email} already.`);
      },
      users_company_id_fkey: () => unknownCompany(user.company_id as string),
    },
  );
  return row as UserRow;
}
