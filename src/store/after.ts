import { type TokenRow, columns as tokenColumns } from './admin-token.ts';
import { type AssistantRow, columns as assistantColumns } from './assistant.ts';
import { type CompanyRow, columns as companyColumns } from './company.ts';
import type { Sql } from './database.ts';
import { type InvitationRow, columns as invitationColumns } from './invitation.ts';
import { type KeyRow, columns as keyColumns } from './key.ts';
import { type ModelRow, columns as modelColumns } from './model.ts';
import { type PersonRow, type UserRow, columns as userColumns } from './user.ts';

/** Lists for programs: rows behind the last one that was read, so that a list that grows meanwhile skips and repeats none. */
interface After {
  /** The id of the last row that was read; null: from the first. */
  readonly after: string | null;
  readonly limit: number;
}

const PAGE_BYTES = 2 << 20;

type Fragment = ReturnType<typeof keyColumns>;

export function companiesAfter(sql: Sql, name: string | null, after: After): PromiseLike<CompanyRow[]> {
  return sql<CompanyRow[]>`
    select ${companyColumns(sql)} from companies where (${name}::text is null or name = ${name}) ${tail(sql, after)}`;
}

/** @param company models of this company and shared ones; null: all */
export function modelsAfter(
  sql: Sql,
  { slug, company }: { readonly slug: string | null; readonly company: string | null },
  after: After,
): PromiseLike<ModelRow[]> {
  return sql<ModelRow[]>`
    select ${modelColumns(sql)} from models
    where (${slug}::text is null or slug = ${slug})
      and (${company}::uuid is null or company_id is null or company_id = ${company}) ${tail(sql, after)}`;
}

/** Keys of a company, dead ones included. @param name keys of this name alone; null: all */
export function keysAfter(sql: Sql, company: string, name: string | null, after: After): PromiseLike<KeyRow[]> {
  return sql<KeyRow[]>`
    select ${keyColumns(sql)} from api_keys
    where company_id = ${company} and (${name}::text is null or name = ${name}) ${tail(sql, after)}`;
}

export function assistantsAfter(sql: Sql, company: string, after: After): PromiseLike<AssistantRow[]> {
  return sql<AssistantRow[]>`
    select ${assistantColumns(sql)} from assistants where company_id = ${company} ${tail(sql, after)}`;
}

/** How many of these assistants a page can have: their prompts have 2 MiB together at most, or it is one. */
export async function assistantsThatFit(sql: Sql, company: string, after: After): Promise<number> {
  const [row] = await sql<[{ count: number }]>`
    select count(*)::integer as count from (
      select row_number() over place as place, sum(octet_length(system_prompt)) over place as bytes
      from (select id, system_prompt from assistants where company_id = ${company} ${tail(sql, after)}) listed
      window place as (order by id)) placed
    where place = 1 or bytes <= ${PAGE_BYTES}`;
  return row.count;
}

/** @param company users of this company; null: all, operators included */
export function usersAfter(sql: Sql, company: string | null, after: After): PromiseLike<UserRow[]> {
  return sql<UserRow[]>`
    select ${userColumns(sql)} from users
    where (${company}::uuid is null or company_id = ${company}) ${tail(sql, after)}`;
}

/** @param company tokens of this company; null: all, of operators too */
export function tokensAfter(sql: Sql, company: string | null, after: After): PromiseLike<TokenRow[]> {
  return sql<TokenRow[]>`
    select ${tokenColumns(sql)} from admin_tokens
    where (${company}::uuid is null or company_id = ${company}) ${tail(sql, after)}`;
}

/** Invitations of a company that were not used. */
export function invitationsAfter(sql: Sql, company: string, after: After): PromiseLike<InvitationRow[]> {
  return sql<InvitationRow[]>`
    select ${invitationColumns(sql)} from invitations where company_id = ${company} ${tail(sql, after)}`;
}

/** The people of a company. */
export function peopleAfter(sql: Sql, company: string, after: After): PromiseLike<PersonRow[]> {
  return sql<PersonRow[]>`
    select ${userColumns(sql)}, last_sign_in_at from users
    where company_id = ${company} ${tail(sql, after)}`;
}

function tail(sql: Sql, { after, limit }: After): Fragment {
  return sql`and (${after}::uuid is null or id > ${after}) order by id limit ${limit}`;
}
