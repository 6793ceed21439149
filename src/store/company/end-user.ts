import { END_USER_BUDGET, type EndUserBudget } from '../../domain/settings/end-user.ts';
import * as schema from '../../domain/settings/schema.ts';
import { schemasOf } from '../../domain/settings/setting.ts';
import { namedColumns, settingColumns } from '../connection/columns.ts';
import type { Sql } from '../connection/pool.ts';
import { rowsIn } from '../connection/rows.ts';

/** A person whom calls of a key named. Members are columns of end_users. */
export const PERSON = schema.object({
  id: schema.id,
  name: schema.described(schema.textOrNull, 'as calls give it; null: erased'),
  erased_at: schema.orNull(schema.time),
  company_id: schema.id,
  first_seen: schema.time,
  // to the hour
  last_seen: schema.time,
  ...schemasOf(END_USER_BUDGET),
});
export type EndUserRow = schema.Value<typeof PERSON>;

const ROWS = rowsIn<EndUserRow>({
  table: 'end_users',
  noun: 'end user',
  columns: (sql) =>
    sql`id, company_id, name, first_seen, last_seen, erased_at, ${settingColumns(sql, END_USER_BUDGET)}`,
  missing: (id) => `There is no end user ${id}.`,
});

/** Finds and lists end users, erased ones too. */
export const { find: findEndUser, page: pageOfEndUsers } = ROWS;

/** @param company if given, people of other companies count as not found @throws Refused missing */
export function updateEndUser(
  sql: Sql,
  id: string,
  company: string | null,
  changes: EndUserBudget,
): Promise<EndUserRow> {
  return ROWS.update(sql, namedColumns(sql, changes, schema.namesOf(END_USER_BUDGET)), id, company);
}

/** The end users with these ids, as far as they exist. */
export function endUsersById(sql: Sql, ids: readonly string[]): Promise<EndUserRow[]> {
  return ROWS.list(sql, sql`where id = any(${[...ids]}::uuid[])`);
}

/** Erases the name of an end user (sql/schema/erasure.sql); the tenant role has no right to do so. */
export async function eraseEndUserName(sql: Sql, id: string): Promise<void> {
  await sql`select erase_end_user(${id})`;
}
