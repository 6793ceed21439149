import type { Sql } from '../connection/pool.ts';

/** Tables whose rows people edit in forms. */
export type EditedTable =
  | 'companies'
  | 'models'
  | 'api_keys'
  | 'assistants'
  | 'end_users'
  | 'cost_center_budgets';

/** Keeps a row as it is until the transaction ends: what is read next is what is changed. */
export async function lockRow(sql: Sql, table: string, id: string): Promise<void> {
  await sql`select from ${sql(table)} where id = ${id} for update`;
}

/** When and by whom a row was changed last; null when the audit log does not say. */
export interface LastChange {
  readonly at: Date;
  readonly actor: string;
  /** The actor is a user whom the reader may see: under the tenant role, one of the company. */
  readonly is_colleague: boolean;
}

/** @param company whose row it is; null for shared models. The index of the audit log is by company. */
export async function lastChange(
  sql: Sql,
  table: EditedTable,
  id: string,
  company: string | null,
): Promise<LastChange | null> {
  const [row] = await sql<LastChange[]>`
    select at, actor, exists (select 1 from users where email = actor) as is_colleague from audit_log
    where subject = ${table} and subject_id = ${id} and ${company === null ? sql`company_id is null` : sql`company_id = ${company}`}
    order by id desc limit 1`;
  return row ?? null;
}
