import { throwNotFound } from '../../domain/refusal.ts';
import { matching } from '../connection/columns.ts';
import { pageById, type Range } from '../connection/cursor.ts';
import type { Sql } from '../connection/pool.ts';

/** A person whom calls of a key named. Members are columns of end_users. */
export interface EndUserRow {
  readonly id: string;
  readonly company_id: string;
  /** As calls give it; null: erased. */
  readonly name: string | null;
  readonly first_seen: Date;
  /** To the hour. */
  readonly last_seen: Date;
  readonly erased_at: Date | null;
}

/** @param company if given, people of other companies count as not found @throws RefusedChange not_found */
export async function findEndUser(sql: Sql, id: string, company: string | null = null): Promise<EndUserRow> {
  const [row] = await sql<EndUserRow[]>`
    select ${endUserColumns(sql)} from end_users where id = ${id} ${matching(sql, { company_id: company })}`;
  return row ?? throwNotFound('end user', `There is no end user ${id}.`);
}

/** The people of a company, those that were erased too, ordered by id. */
export function pageOfEndUsers(sql: Sql, company: string, range: Range) {
  return pageById<EndUserRow>(sql, range, endUserColumns(sql), sql`from end_users where company_id = ${company}`);
}

/** Those of these people that there are. */
export async function endUsersById(sql: Sql, ids: readonly string[]): Promise<EndUserRow[]> {
  return sql<EndUserRow[]>`select ${endUserColumns(sql)} from end_users where id = any(${[...ids]}::uuid[])`;
}

/** Takes the name away (sql/schema/erasure.sql). The tenant role may not. */
export async function eraseEndUserName(sql: Sql, id: string): Promise<void> {
  await sql`select erase_end_user(${id})`;
}

function endUserColumns(sql: Sql) {
  return sql`id, company_id, name, first_seen, last_seen, erased_at`;
}
