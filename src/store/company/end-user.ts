import type { Sql } from '../connection/pool.ts';
import { rowsIn } from '../connection/rows.ts';

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

const ROWS = rowsIn<EndUserRow>({
  table: 'end_users',
  noun: 'end user',
  columns: (sql) => sql`id, company_id, name, first_seen, last_seen, erased_at`,
  missing: (id) => `There is no end user ${id}.`,
});

/** Those that were erased are found and listed too. */
export const { find: findEndUser, page: pageOfEndUsers } = ROWS;

/** Those of these people that there are. */
export function endUsersById(sql: Sql, ids: readonly string[]): Promise<EndUserRow[]> {
  return ROWS.list(sql, sql`where id = any(${[...ids]}::uuid[])`);
}

/** Takes the name away (sql/schema/erasure.sql). The tenant role may not. */
export async function eraseEndUserName(sql: Sql, id: string): Promise<void> {
  await sql`select erase_end_user(${id})`;
}
