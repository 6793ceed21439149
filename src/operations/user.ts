import { randomBytes } from 'node:crypto';
import * as schema from '../domain/settings/schema.ts';
import { COMPANY_ROLES, type CompanyRole, companyMistake } from '../domain/user.ts';
import { emailSpelling } from '../domain/visible-text.ts';
import type { Sql } from '../store/connection/pool.ts';
import {
  deleteSession,
  deleteSessionsOf,
  insertSession,
  type NewSession,
} from '../store/users/session.ts';
import {
  companyUsersAfter,
  deleteUser,
  findCompanyUser,
  findReader,
  findUserById,
  insertUser,
  keepAnOwner,
  type NewUser,
  type Reader,
  USER,
  type UserRow,
  updatePassword,
  updatePasswordByLink,
  updateReset,
  updateRole,
  updateView,
  usersAfter,
} from '../store/users/user.ts';
import type { Caller } from './frame/caller.ts';
import { noun } from './frame/noun.ts';
import { wrongAt } from './frame/refused.ts';

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
 * @throws Refused wrong for an operator with a company, and anybody else without; Refused as `insertUser`
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

/** Removes a user, who is signed out. @throws Refused missing; conflict for the last operator */
export async function removeUser(sql: Sql, id: string): Promise<UserRow> {
  await keepAnOwner(sql, null, id);
  return deleteUser(sql, id);
}

/**
 * Removes a user of a company; operators alone may leave it without an owner.
 * @throws Refused missing; conflict for the last owner
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

/** Gives a user of a company another role. @throws Refused as `removeUserOf`; conflict for who has it by a group */
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

const company_id = {
  ...schema.orNull(schema.id),
  description: 'null: for an operator, and for nobody else',
};

const role = schema.oneOf(COMPANY_ROLES);

const companyUser = schema.object({
  ...USER.properties,
  role,
  last_sign_in_at: { ...schema.orNull(schema.instant), description: 'null: never, or not known' },
});

const users = noun({
  name: 'User',
  path: '/users',
  param: 'user',
  table: 'users',
  answer: USER,
  reads: 'user.read',
  writes: 'user.write',
  async find(sql, { id }) {
    const { company_name: _, ...user } = await findUserById(sql, id);
    return user;
  },
});

const companyUsers = noun({
  name: 'CompanyUser',
  path: '/companies/{company}/users',
  param: 'user',
  table: 'users',
  answer: companyUser,
  reads: 'company-user.read',
  writes: 'company-user.write',
  find: (sql, { company, id }) => findCompanyUser(sql, id, company),
});

/** Who may sign in: all users, for operators, and those of one company, for its owners too. */
export const userOperations = [
  users.list({
    summary: 'List users, ordered by id',
    filters: { company_id: schema.id },
    read: (sql, { query: { company_id = null } }, range) => usersAfter(sql, company_id, range),
  }),
  users.create({
    summary:
      'Create a user without a password, who signs in by OpenID Connect or gets a password later',
    body: schema.object({ email: schema.email, role: USER.properties.role, company_id }, [
      'email',
      'role',
    ]),
    run: (sql, { body: { company_id = null, ...user } }) =>
      createUser(sql, { ...user, company_id }, null),
  }),
  users.get('Read a user'),
  users.remove({
    summary: 'Remove a user, who is signed out at once. The last operator cannot be removed',
    run: (sql, { id }) => removeUser(sql, id),
  }),
  companyUsers.list({
    summary: 'List the users of a company, ordered by id',
    read: (sql, { company }, range) => companyUsersAfter(sql, company, range),
  }),
  companyUsers.get('Read a user of a company'),
  companyUsers.change({
    summary: "Change the role of a user of a company. A company's token leaves it an owner",
    body: schema.object({ role }),
    async run(sql, call) {
      const { company, id } = call;
      await changeRole(sql, call, company, id, call.body.role);
      return findCompanyUser(sql, id, company);
    },
  }),
  companyUsers.remove({
    summary:
      "Remove a user of a company, who is signed out at once. A company's token leaves it an owner",
    run: (sql, call) => removeUserOf(sql, call, call.company, call.id),
  }),
];
