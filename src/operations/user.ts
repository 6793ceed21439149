import { type CompanyRole, companyMistake } from '../domain/user.ts';
import type { Sql } from '../store/connection/pool.ts';
import { deleteSession, deleteSessionsOf, insertSession, type NewSession } from '../store/users/session.ts';
import {
  deleteUser,
  findCompanyUser,
  insertUser,
  keepAnOwner,
  type NewUser,
  type UserRow,
  updatePassword,
  updateRole,
} from '../store/users/user.ts';
import type { Caller } from './caller.ts';
import { wrongAt } from './problem.ts';

/** Users: who may sign in, and with which role. No rule is about these: */
export {
  deleteSession as signOut,
  deleteSessionById as endSession,
  deleteSessionsOf as endSessions,
  updateSession as raiseSession,
} from '../store/users/session.ts';
export { deleteUser as removeUser, updateLanguage as changeLanguage } from '../store/users/user.ts';

/**
 * Creates a user.
 * @param hash of `hashPassword`; null for people who sign in by OpenID Connect
 * @throws Problem 400 for an operator with a company, and anybody else without; RefusedChange as `insertUser`
 */
export function createUser(sql: Sql, { email, ...user }: NewUser, hash: string | null): Promise<UserRow> {
  const mistake = companyMistake(user.role, user.company_id);
  if (mistake !== null) throw wrongAt('#/company_id', mistake);
  return insertUser(sql, { ...user, email: email.toLowerCase() }, hash);
}

/**
 * Removes a user of a company; operators alone may leave it without an owner.
 * @throws RefusedChange not_found; conflict for the last owner
 */
export async function removeUserOf(sql: Sql, { role }: Pick<Caller, 'role'>, company: string, id: string) {
  await findCompanyUser(sql, company, id);
  if (role !== 'operator') await keepAnOwner(sql, company, id);
  return deleteUser(sql, id);
}

/** Gives a user of a company another role. @throws RefusedChange as `removeUserOf`; conflict for who has it by a group */
export async function changeRole(
  sql: Sql,
  { role: by }: Pick<Caller, 'role'>,
  company: string,
  id: string,
  role: CompanyRole,
): Promise<void> {
  if (role !== 'owner' && by !== 'operator') await keepAnOwner(sql, company, id);
  await updateRole(sql, company, id, role);
}

/**
 * Stores a user's new password, and ends the user's sessions.
 * @param hash of `hashPassword`
 * @param former as of `updatePassword`
 * @param keep the digest of the session that stays; null: none
 */
export async function changePassword(
  sql: Sql,
  id: string,
  hash: string,
  former: string | null = null,
  keep: Buffer | null = null,
): Promise<void> {
  await updatePassword(sql, id, hash, former);
  await deleteSessionsOf(sql, id, keep);
}

/** Signs a user in. @param former the digest of the session that this browser had, which ends; null: none */
export async function beginSession(sql: Sql, session: NewSession, former: Buffer | null): Promise<void> {
  if (former !== null) await deleteSession(sql, former);
  await insertSession(sql, session);
}
