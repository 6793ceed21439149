import { digestBytes } from '../../domain/key.ts';
import { refusal, throwConflict, throwNotFound } from '../../domain/refusal.ts';
import * as schema from '../../domain/settings/schema.ts';
import { type CompanyRole, ROLES } from '../../domain/user.ts';
import { matching } from '../connection/columns.ts';
import { explaining } from '../connection/errors.ts';
import type { Sql } from '../connection/pool.ts';
import { rowsIn } from '../connection/rows.ts';
import { outside } from '../connection/tenant-role.ts';

const BY_GROUP = 'This user has the role by a group of the identity provider';

/** Members are columns of the table, without the hash of the password. */
export const USER = schema.object({
  id: schema.id,
  email: schema.email,
  company_id: schema.orNull(schema.id),
  role: schema.oneOf(ROLES),
  created_at: schema.time,
  oidc_group: schema.described(
    schema.textOrNull,
    'the group of the identity provider that gives the role; null: given by hand',
  ),
  second_factor_since: schema.described(
    schema.orNull(schema.time),
    'since when the password asks for a code too; null: it does not',
  ),
  erasure_asked_at: schema.described(
    schema.orNull(schema.time),
    'when the user asked to be erased; null: that did not happen',
  ),
});
export type UserRow = schema.Value<typeof USER>;

/** The address is in lower case; operators, and nobody else, have no company. */
export type NewUser = Pick<UserRow, 'email' | 'role' | 'company_id'>;

export const USERS = rowsIn<UserRow>({
  table: 'users',
  noun: 'user',
  columns: (sql) =>
    sql`id, email, company_id, role, created_at, oidc_group, second_factor_since, erasure_asked_at`,
});

/** Removes a user, whose sessions end. */
export const { remove: deleteUser, page: usersAfter, columns: userColumns } = USERS;

/**
 * @param hash of `hashPassword`; null for people who sign in by OpenID Connect
 * @throws Refused when the address is taken or the company does not exist
 */
export function insertUser(
  sql: Sql,
  { email, company_id, role }: NewUser,
  hash: string | null,
): Promise<UserRow> {
  return USERS.insert(
    sql,
    sql`(email, company_id, role, password_hash) values (${email}, ${company_id}, ${role}, ${hash})`,
    company_id,
    {
      users_email_key: () =>
        throwConflict('user', `There is a user ${email} already. Choose another address.`),
    },
  );
}

/** The user with an address (in lower case), and the hash of their password. */
export async function findUser(sql: Sql, email: string) {
  if (email.includes('\0')) return null; // the database would refuse to look for it
  const [row] = await sql<(UserRow & { readonly password_hash: string | null })[]>`
    select ${userColumns(sql)}, password_hash from users where email = ${email}`;
  return row ?? null;
}

/** A user with the name of the company; null for operators. @throws Refused missing */
export async function findUserById(sql: Sql, id: string) {
  const [row] = await sql<(UserRow & { readonly company_name: string | null })[]>`
    select u.id, email, company_id, role, u.created_at, oidc_group, second_factor_since, erasure_asked_at, c.name as company_name
    from users u left join companies c on c.id = company_id where u.id = ${id}`;
  return row ?? throwNotFound('user');
}

/**
 * @param hash of `hashPassword`
 * @param former the only hash that is replaced; null: any
 * @throws Refused missing; conflict for a user whose role comes from a group: a password would outlive it
 */
export async function updatePassword(
  sql: Sql,
  id: string,
  hash: string,
  former: string | null = null,
): Promise<void> {
  const { count } = await explaining(
    sql`
      update users set password_hash = ${hash}, reset_digest = null, reset_asked_at = null
      where id = ${id} and (${former}::text is null or password_hash = ${former})`,
    {
      users_by_group: () =>
        throwConflict('user', `${BY_GROUP}, and signs in there. There is no password to set.`),
    },
  );
  if (count === 0) throwNotFound('user');
}

/** Whether a person gets the summaries of the company's months. */
export async function wantsSummary(sql: Sql, id: string): Promise<boolean> {
  const [row] = await sql<[{ wants: boolean }?]>`
    select coalesce(monthly_summary, role = 'owner') as wants from users where id = ${id}`;
  return row?.wants ?? false;
}

export async function updateSummary(sql: Sql, id: string, wants: boolean): Promise<void> {
  await sql`update users set monthly_summary = ${wants} where id = ${id}`;
}

/** Minutes for which the link of an e-mail works by which a person chooses a new password. */
export const RESET_MINUTES = 60;
/** No other one is made within so many. */
const RESET_PAUSE_MINUTES = 15;

/** The link works, and the person has a password. */
const IS_RESET = `reset_asked_at > now() - make_interval(mins => ${RESET_MINUTES}) and password_hash is not null`;

/**
 * Makes the link by which the user with an address (in lower case) chooses a new password; an earlier one ends.
 * @returns the user's id, and whether there is a password; null: nobody has the address, or the last link is too young
 */
export async function updateReset(sql: Sql, email: string, token: string) {
  const [row] = await sql<{ id: string; has_password: boolean }[]>`
    update users set reset_digest = ${digestBytes(token)}, reset_asked_at = now()
    where email = ${email} and (reset_asked_at is null or reset_asked_at < now() - make_interval(mins => ${RESET_PAUSE_MINUTES}))
    returning id, password_hash is not null as has_password`;
  return row ?? null;
}

/** The user of a link; null when it was used, or its time is over, or there is a newer one. */
export async function findReset(
  sql: Sql,
  token: string,
): Promise<Pick<UserRow, 'id' | 'email'> | null> {
  const [row] = await sql<Pick<UserRow, 'id' | 'email'>[]>`
    select id, email from users where reset_digest = ${digestBytes(token)} and ${sql.unsafe(IS_RESET)}`;
  return row ?? null;
}

/** Stores the password that the user of a link chose, once. @returns the user's id; null as `findReset` */
export async function updatePasswordByLink(
  sql: Sql,
  token: string,
  hash: string,
): Promise<string | null> {
  const [row] = await sql<{ id: string }[]>`
    update users set password_hash = ${hash}, reset_digest = null, reset_asked_at = null
    where reset_digest = ${digestBytes(token)} and ${sql.unsafe(IS_RESET)} returning id`;
  return row?.id ?? null;
}

/** Not in the audit log, as signing in is not. */
export async function updateLanguage(sql: Sql, id: string, language: string): Promise<void> {
  await sql`update users set language = ${language} where id = ${id}`;
}

/** A question of usage that a person keeps, and the address of its page. */
export interface SavedView {
  readonly name: string;
  readonly address: string;
}

/** By name. */
export async function listViews(sql: Sql, user: string): Promise<readonly SavedView[]> {
  const [row] = await sql<{ views: SavedView[] }[]>`
    select (select coalesce(jsonb_agg(v order by v ->> 'name'), '[]') from jsonb_array_elements(saved_views) v) as views
    from users where id = ${user}`;
  return row?.views ?? [];
}

/** Saves a view in place of one of the same name, or removes that. @param address null: removes @returns whether there was room */
export async function updateView(
  sql: Sql,
  user: string,
  name: string,
  address: string | null,
  most: number,
) {
  const others = sql`(select coalesce(jsonb_agg(v), '[]') from jsonb_array_elements(saved_views) v where v ->> 'name' <> ${name})`;
  const saved =
    address === null
      ? sql``
      : sql`|| jsonb_build_object('name', ${name}::text, 'address', ${address}::text)`;
  const { count } = await sql`
    update users set saved_views = ${others} ${saved}
    where id = ${user} and (${address === null} or jsonb_array_length(${others}) < ${most})`;
  return count === 1;
}

/** Whether there is anybody who sees all companies. */
export async function hasOperator(sql: Sql): Promise<boolean> {
  const [row] = await sql<
    [{ found: boolean }]
  >`select exists (select 1 from users where role = 'operator') as found`;
  return row.found;
}

/** The most owners of a company that `ownersOf` names. */
const MOST_OWNERS = 3;

/** A query of companies with `emails`, the addresses of their first owners as JSON. @param companies a query of their ids */
export function ownersOf(sql: Sql, companies: ReturnType<Sql>) {
  return sql`
    select company_id, jsonb_agg(email order by created_at, id) as emails from (
      select *, row_number() over (partition by company_id order by created_at, id) as nth from users
      where role = 'owner' and company_id = any(array(${companies}))) o
    where nth <= ${MOST_OWNERS} group by 1`;
}

/** One of the people of a company. */
export interface CompanyUserRow extends UserRow {
  readonly role: CompanyRole;
  /** null: never. */
  readonly last_sign_in_at: Date | null;
}

export const { find: findCompanyUser, page: companyUsersAfter } = rowsIn<CompanyUserRow>({
  table: 'users',
  noun: 'user',
  columns: (sql) => sql`${userColumns(sql)}, last_sign_in_at`,
});

/**
 * Refuses to take away the last owner of a company, or the last operator. Of two changes at once the second waits for
 * the first. To be called in the transaction of the change.
 * @param company null: of operators
 * @param id of the user who is removed, or gets another role
 * @throws Refused conflict
 */
export async function keepAnOwner(sql: Sql, company: string | null, id: string): Promise<void> {
  const owners = await sql<{ id: string }[]>`
    select id from users where ${company === null ? sql`role = 'operator'` : sql`company_id = ${company} and role = 'owner'`}
    order by id for update`;
  if (owners.length === 1 && owners[0]?.id === id) {
    const operator = 'This is the last operator. Make somebody else an operator first.';
    throwConflict('user', company === null ? operator : refusal('lastOwner'));
  }
}

/**
 * Notes that a person asks to be erased, or takes it back.
 * @returns whether the person had not asked before, nor in the last day and taken it back
 * @throws Refused missing
 */
export async function setErasureAsked(sql: Sql, id: string, asks: boolean): Promise<boolean> {
  const at = asks ? sql`coalesce(erasure_asked_at, now())` : sql`null`;
  const asked = await outside(
    sql,
    () => sql`
      select from audit_log l join users u on u.id = l.subject_id
      where l.subject = 'users' and l.subject_id = ${id} and l.at > now() - interval '1 day'
        and (l.company_id = u.company_id or l.company_id is null and u.company_id is null)
        and l.before ->> 'erasure_asked_at' is not null limit 1`,
  );
  const [row] = await sql<{ is_news: boolean }[]>`
    with before as (
      select erasure_asked_at is null and ${asked.length === 0} as is_news from users where id = ${id} for update
    )
    update users set erasure_asked_at = ${at} from before where id = ${id} returning is_news`;
  return row?.is_news ?? throwNotFound('user');
}

/** An address, and the language of e-mails to it. */
export interface Reader {
  readonly email: string;
  readonly language: string | null;
}

/** The language of e-mails to the user `u` of the company `c`: what the person chose, the company, or the person's first page was in. */
export const LANGUAGE_OF_MAILS = 'coalesce(u.language, c.language, u.page_language)';

/** The owners of a company; operators with null. */
export async function listOwners(sql: Sql, company: string | null): Promise<Reader[]> {
  return sql<Reader[]>`
    select email, ${sql.unsafe(LANGUAGE_OF_MAILS)} as language from users u left join companies c on c.id = company_id
    where ${company === null ? sql`role = 'operator'` : sql`company_id = ${company} and role = 'owner'`} order by email`;
}

/** A user as the receiver of e-mails. @throws Refused missing */
export async function findReader(sql: Sql, id: string): Promise<Reader> {
  const [row] = await sql<Reader[]>`
    select email, ${sql.unsafe(LANGUAGE_OF_MAILS)} as language from users u left join companies c on c.id = company_id
    where u.id = ${id}`;
  return row ?? throwNotFound('user');
}

/** @throws Refused missing; conflict for a user whose role comes from a group */
export async function updateRole(
  sql: Sql,
  company: string,
  id: string,
  role: CompanyRole,
): Promise<void> {
  const { count } = await sql`
    update users set role = ${role} where id = ${id} and company_id = ${company} and oidc_group is null`;
  if (count > 0) return;
  const { oidc_group } = await findCompanyUser(sql, id, company);
  throwConflict('user', refusal('roleByGroup', { group: oidc_group as string }));
}

/** Users of a company, or all of them, by company and address; operators first. */
export async function listUsers(sql: Sql, company: string | null) {
  type Listed = UserRow &
    Pick<CompanyUserRow, 'last_sign_in_at'> & { readonly company_name: string | null };
  return sql<Listed[]>`
    select u.id, email, company_id, role, u.created_at, oidc_group, second_factor_since, erasure_asked_at, last_sign_in_at, c.name as company_name
    from users u left join companies c on c.id = company_id
    where true ${matching(sql, { company_id: company })} order by c.name nulls first, company_id, email`;
}
