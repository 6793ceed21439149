import { DISABLED_MODELS } from '../../domain/gate.ts';
import { nameSpelling } from '../../domain/visible-text.ts';
import { type AssistantRow, assistantColumns } from '../company/assistant.ts';
import { type CompanyRow, companyColumns } from '../company/company.ts';
import { type KeyRow, keyColumns, listBytes } from '../company/key.ts';
import { type ModelRow, modelColumns } from '../company/model.ts';
import { matching, unpackedBytes } from '../connection/columns.ts';
import { pageById, type Range } from '../connection/cursor.ts';
import { KEY_STATE } from '../connection/expressions.ts';
import type { Sql } from '../connection/pool.ts';
import { type GroupRow, groupColumns } from '../users/group.ts';
import { type InvitationRow, invitationColumns } from '../users/invitation.ts';
import { type TokenRow, tokenColumns } from '../users/token.ts';
import { type CompanyUserRow, type UserRow, userColumns } from '../users/user.ts';

/** Lists for programs, ordered by id. */

export function companiesAfter(sql: Sql, name: string | null, range: Range) {
  const from = sql`from companies where true ${matching(sql, { name: nameSpelling(name) })}`;
  return pageById<CompanyRow>(sql, range, companyColumns(sql), from, unpackedBytes(sql, DISABLED_MODELS));
}

/** @param company models of this company and shared ones; null: all */
export function modelsAfter(sql: Sql, slug: string | null, company: string | null, range: Range) {
  const from = sql`from models where true ${matching(sql, { slug })}
    and (${company}::uuid is null or company_id is null or company_id = ${company})`;
  return pageById<ModelRow>(sql, range, modelColumns(sql), from);
}

/** The keys to list; default: all, dead ones included. */
export interface KeyFilter {
  readonly name?: string;
  readonly state?: KeyRow['state'];
}

/** Keys of a company. */
export function keysAfter(sql: Sql, company: string, { name, state }: KeyFilter, range: Range) {
  const from = sql`from api_keys where company_id = ${company} ${matching(sql, { name: nameSpelling(name) ?? null })}
    ${state === undefined ? sql`` : sql`and ${sql.unsafe(KEY_STATE)} = ${state}`}`;
  return pageById<KeyRow>(sql, range, keyColumns(sql), from, listBytes(sql));
}

export function assistantsAfter(sql: Sql, company: string, range: Range) {
  const from = sql`from assistants where company_id = ${company}`;
  return pageById<AssistantRow>(sql, range, assistantColumns(sql), from, sql`octet_length(system_prompt)`);
}

/** @param company users of this company; null: all, operators included */
export function usersAfter(sql: Sql, company: string | null, range: Range) {
  return pageById<UserRow>(sql, range, userColumns(sql), of(sql, 'users', company));
}

/** @param company groups that give roles in this company; null: all */
export function groupsAfter(sql: Sql, company: string | null, range: Range) {
  return pageById<GroupRow>(sql, range, groupColumns(sql), of(sql, 'oidc_groups', company));
}

/** @param company tokens of this company; null: all, of operators too */
export function tokensAfter(sql: Sql, company: string | null, range: Range) {
  return pageById<TokenRow>(sql, range, tokenColumns(sql), of(sql, 'admin_tokens', company));
}

/** Invitations of a company that were not used. */
export function invitationsAfter(sql: Sql, company: string, range: Range) {
  return pageById<InvitationRow>(sql, range, invitationColumns(sql), of(sql, 'invitations', company));
}

/** The people of a company. */
export function companyUsersAfter(sql: Sql, company: string, range: Range) {
  return pageById<CompanyUserRow>(sql, range, sql`${userColumns(sql)}, last_sign_in_at`, of(sql, 'users', company));
}

function of(sql: Sql, table: string, company: string | null) {
  return sql`from ${sql(table)} where true ${matching(sql, { company_id: company })}`;
}
