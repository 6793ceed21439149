import { IS_ACTIVE } from '../connection/expressions.ts';
import type { Sql } from '../connection/pool.ts';

/** One of the people of a company, whose keys are meant. */
export interface KeyHolder {
  readonly company_id: string;
  readonly user_id: string;
  /** An e-mail address: that of a playground key is its `created_by`. */
  readonly email: string;
}

/** The limits of a company for its members' own keys, and one member's use of them. */
export interface OwnKeyAllowance {
  /** The most active keys of their own; 0: none. */
  readonly most: number;
  /** The most that the monthly budget of a new one may be: exact decimal text in EUR; null: any. */
  readonly budget: string | null;
  /** Active keys of the person, without that of the playground. */
  readonly active: number;
}

/** Ids of all keys of a person in a company: dead ones and those of the playground too. */
export async function ownKeyIds(
  sql: Sql,
  { company_id, user_id, email }: KeyHolder,
): Promise<string[]> {
  const rows = await sql<{ id: string }[]>`
    select id from api_keys where company_id = ${company_id} and user_id = ${user_id}
    union all
    select id from api_keys where company_id = ${company_id} and purpose = 'playground' and created_by = ${email}`;
  return rows.map(({ id }) => id);
}

/**
 * Keeps a person as one of the company until the transaction ends: of two keys that are made at once the second waits
 * for the first, and so does whoever removes the person.
 * @returns whether the person belongs to the company
 */
export async function lockHolder(sql: Sql, { company_id, user_id }: KeyHolder): Promise<boolean> {
  const rows =
    await sql`select from users where id = ${user_id} and company_id = ${company_id} for update`;
  return rows.length > 0;
}

/** Reads the allowance of one of the people of a company that exists. */
export async function readAllowance(
  sql: Sql,
  { company_id, user_id }: KeyHolder,
): Promise<OwnKeyAllowance> {
  const [row] = await sql<OwnKeyAllowance[]>`
    select member_max_keys as most, trim_scale(member_key_budget_eur)::text as budget,
      (select count(*)::integer from api_keys where user_id = ${user_id} and ${sql.unsafe(IS_ACTIVE)}) as active
    from companies where id = ${company_id}`;
  return row as OwnKeyAllowance;
}
