import { randomBytes } from 'node:crypto';
import { type CompanyRole, companyMistake } from '../domain/user.ts';
import { emailSpelling } from '../domain/visible-text.ts';
import type { Sql } from '../store/connection/pool.ts';
import {
  deleteSession,
  deleteSessionsOf,
  insertSession,
  type NewSession,
} from '../store/users/session.ts';
import {
  deleteUser,
  findCompanyUser,
  findReader,
  insertUser,
  keepAnOwner,
  type NewUser,
  type Reader,
  type UserRow,
  updatePassword,
  updatePasswordByLink,
  updateReset,
  updateRole,
  updateView,
} from '../store/users/user.ts';
import type { Caller } from './caller.ts';
import { wrongAt } from './problem.ts';

/** Users: who may sign in, and with which role. */

/** Sessions end, all of a user by default, and get another token once the user gave a code: the old one is void. */
export {
  deleteSession as signOut,
  deleteSessionsOf as endSessions,
  updateSession as raiseSession,
} from '../store/users/session.ts';
/** The language of pages and e-mails, and whether a person gets the summaries of months. */
export {
  updateLanguage as changeLanguage,
  updateSummary as chooseSummary,
} from '../store/users/user.ts';

/** Views that one person keeps at most. */
export const MOST_VIEWS = 30;

/** Keeps a question of usage under a name. @returns whether there was room */
export function saveView(sql: Sql, user: string, name: string, address: string): Promise<boolean> {
  return updateView(sql, user, name, address, MOST_VIEWS);
}

export function removeView(sql: Sql, user: string, name: string): Promise<boolean> {
  return updateView(sql, user, name, null, MOST_VIEWS);
}

/**
 * Creates a user.
 * @param hash of `hashPassword`; null for people who sign in by OpenID Connect
 * @throws Problem 400 for an operator with a company, and anybody else without; RefusedChange as `insertUser`
 */
export function createUser(
  sql: Sql,
  { email, ...user }: NewUser,
  hash: string | null,
): Promise<UserRow> {
  const mistake = companyMistake(user.role, user.company_id);
  if (mistake !== null) throw wrongAt('#/company_id', mistake);
  return insertUser(sql, { ...user, email: emailSpelling(email) }, hash);
}

/** Removes a user, who is signed out. @throws RefusedChange not_found; conflict for the last operator */
export async function removeUser(sql: Sql, id: string): Promise<UserRow> {
  await keepAnOwner(sql, null, id);
  return deleteUser(sql, id);
}

/**
 * Removes a user of a company; operators alone may leave it without an owner.
 * @throws RefusedChange not_found; conflict for the last owner
 */
export async function removeUserOf(
  sql: Sql,
  { role }: Pick<Caller, 'role'>,
  company: string,
  id: string,
) {
  await findCompanyUser(sql, id, company);
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
  await deleteSessionsOf(sql, id, { keep });
}

/**
 * Makes a link for whoever has forgotten a password. To be called in a transaction.
 * @returns the reader of the e-mail, and the random part of the link; null in its place: the person signs in with the
 * organisation alone. null: there is no e-mail to send
 */
export async function askNewPassword(
  sql: Sql,
  email: string,
): Promise<(Reader & { token: string | null }) | null> {
  const token = randomBytes(32).toString('base64url');
  const made = await updateReset(sql, email, token);
  return made && { ...(await findReader(sql, made.id)), token: made.has_password ? token : null };
}

/** Stores the password that the user of a link chose, and ends the user's sessions. @returns whether the link worked */
export async function resetPassword(sql: Sql, token: string, hash: string): Promise<boolean> {
  const id = await updatePasswordByLink(sql, token, hash);
  if (id !== null) await deleteSessionsOf(sql, id);
  return id !== null;
}

/** Signs a user in. @param former the digest of the session that this browser had, which ends; null: none */
export async function beginSession(
  sql: Sql,
  session: NewSession,
  former: Buffer | null,
): Promise<void> {
  if (former !== null) await deleteSession(sql, former);
  await insertSession(sql, session);
}
