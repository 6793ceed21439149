import { nameSpelling } from '../../domain/visible-text.ts';
import { type AssistantRow, assistantColumns } from '../company/assistant.ts';
import { type CompanyRow, companyColumns } from '../company/company.ts';
import { type KeyRow, keyColumns, listBytes } from '../company/key.ts';
import { type ModelRow, modelColumns } from '../company/model.ts';
import { matching, PAGE_BYTES, unpackedBytes } from '../connection/columns.ts';
import { STATE_NOW } from '../connection/expressions.ts';
import type { Sql } from '../connection/pool.ts';
import { type GroupRow, groupColumns } from '../users/group.ts';
import { type InvitationRow, invitationColumns } from '../users/invitation.ts';
import { type TokenRow, tokenColumns } from '../users/token.ts';
import { type CompanyUserRow, type UserRow, userColumns } from '../users/user.ts';

/** Lists for programs: rows behind the last one that was read, so that a list that grows meanwhile skips and repeats none. */
interface After {
  /** The id of the last row that was read; null: from the first. */
  readonly after: string | null;
  readonly limit: number;
}

type Fragment = ReturnType<typeof keyColumns>;

export function companiesAfter(sql: Sql, name: string | null, after: After): PromiseLike<CompanyRow[]> {
  return sql<CompanyRow[]>`
    select ${companyColumns(sql)} from companies where true ${matching(sql, { name: nameSpelling(name) })} ${tail(sql, after)}`;
}

/** How many of these companies fit on a page with the models that they disabled. */
export function companiesThatFit(sql: Sql, name: string | null, after: After): Promise<number> {
  return thatFit(
    sql,
    sql`select id, ${unpackedBytes(sql, 'disabled_model_slugs')} as bytes
      from companies where true ${matching(sql, { name: nameSpelling(name) })} ${tail(sql, after)}`,
  );
}

/** @param company models of this company and shared ones; null: all */
export function modelsAfter(
  sql: Sql,
  { slug, company }: { readonly slug: string | null; readonly company: string | null },
  after: After,
): PromiseLike<ModelRow[]> {
  return sql<ModelRow[]>`
    select ${modelColumns(sql)} from models
    where true ${matching(sql, { slug })}
      and (${company}::uuid is null or company_id is null or company_id = ${company}) ${tail(sql, after)}`;
}

/** The keys to list; default: all, dead ones included. */
export interface KeyFilter {
  readonly name?: string;
  readonly state?: KeyRow['state'];
}

function keysOf(sql: Sql, company: string, { name, state }: KeyFilter) {
  return sql`from api_keys where company_id = ${company} ${matching(sql, { name: nameSpelling(name) ?? null })}
    ${state === undefined ? sql`` : sql`and ${sql.unsafe(STATE_NOW)} = ${state}`}`;
}

/** Keys of a company. */
export function keysAfter(sql: Sql, company: string, filter: KeyFilter, after: After): PromiseLike<KeyRow[]> {
  return sql<KeyRow[]>`select ${keyColumns(sql)} ${keysOf(sql, company, filter)} ${tail(sql, after)}`;
}

/** How many of these keys fit on a page with their models and networks. */
export function keysThatFit(sql: Sql, company: string, filter: KeyFilter, after: After): Promise<number> {
  return thatFit(sql, sql`select id, ${listBytes(sql)} as bytes ${keysOf(sql, company, filter)} ${tail(sql, after)}`);
}

export function assistantsAfter(sql: Sql, company: string, after: After): PromiseLike<AssistantRow[]> {
  return sql<AssistantRow[]>`
    select ${assistantColumns(sql)} from assistants where company_id = ${company} ${tail(sql, after)}`;
}

/** How many of these assistants fit on a page with their prompts. */
export function assistantsThatFit(sql: Sql, company: string, after: After): Promise<number> {
  return thatFit(
    sql,
    sql`select id, octet_length(system_prompt) as bytes from assistants where company_id = ${company} ${tail(sql, after)}`,
  );
}

/** @param company users of this company; null: all, operators included */
export function usersAfter(sql: Sql, company: string | null, after: After): PromiseLike<UserRow[]> {
  return sql<UserRow[]>`
    select ${userColumns(sql)} from users
    where true ${matching(sql, { company_id: company })} ${tail(sql, after)}`;
}

/** @param company groups that give roles in this company; null: all */
export function groupsAfter(sql: Sql, company: string | null, after: After): PromiseLike<GroupRow[]> {
  return sql<GroupRow[]>`
    select ${groupColumns(sql)} from oidc_groups
    where true ${matching(sql, { company_id: company })} ${tail(sql, after)}`;
}

/** @param company tokens of this company; null: all, of operators too */
export function tokensAfter(sql: Sql, company: string | null, after: After): PromiseLike<TokenRow[]> {
  return sql<TokenRow[]>`
    select ${tokenColumns(sql)} from admin_tokens
    where true ${matching(sql, { company_id: company })} ${tail(sql, after)}`;
}

/** Invitations of a company that were not used. */
export function invitationsAfter(sql: Sql, company: string, after: After): PromiseLike<InvitationRow[]> {
  return sql<InvitationRow[]>`
    select ${invitationColumns(sql)} from invitations where company_id = ${company} ${tail(sql, after)}`;
}

/** The people of a company. */
export function companyUsersAfter(sql: Sql, company: string, after: After): PromiseLike<CompanyUserRow[]> {
  return sql<CompanyUserRow[]>`
    select ${userColumns(sql)}, last_sign_in_at from users
    where company_id = ${company} ${tail(sql, after)}`;
}

/** How many rows have `PAGE_BYTES` together at most, from one on: the first always fits. @param rows their ids and bytes */
async function thatFit(sql: Sql, rows: Fragment): Promise<number> {
  const [row] = await sql<[{ count: number }]>`
    select greatest(count(*), 1)::integer as count from (
      select row_number() over place as place, sum(bytes) over place as so_far from (${rows}) listed
      window place as (order by id)) placed
    where place = 1 or so_far <= ${PAGE_BYTES}`;
  return row.count;
}

function tail(sql: Sql, { after, limit }: After): Fragment {
  return sql`and (${after}::uuid is null or id > ${after}) order by id limit ${limit}`;
}
