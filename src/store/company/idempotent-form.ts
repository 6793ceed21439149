import type { Sql } from '../connection/pool.ts';

/**
 * Creates a row, unless the same request did before. To be run in a transaction; the second of two at once waits for
 * the first.
 * @param id of the row, the same in each repetition of the request
 * @returns null: the row is there already
 */
export async function createOnce<T>(
  sql: Sql,
  table: 'admin_tokens' | 'assistants' | 'companies',
  id: string,
  create: () => Promise<T>,
): Promise<T | null> {
  await lockName(sql, id);
  const { count } = await sql`select from ${sql(table)} where id = ${id}`;
  return count > 0 ? null : create();
}

/** Waits for the lock of this name, which nobody else then has until the transaction ends. @param name an id, or any text */
export async function lockName(sql: Sql, name: string): Promise<void> {
  await sql`select pg_advisory_xact_lock(hashtextextended(${name}, 0))`;
}
