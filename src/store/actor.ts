import type { Database, Sql } from './database.ts';

/**
 * One transaction on behalf of somebody: the audit log names them for every change in it.
 * The name is the transaction's, not the connection's, so no pool carries it on.
 * @param actor an e-mail address, or "cli"
 */
export function actingAs<T>(
  db: Database,
  actor: string,
  deadlineMs: number,
  work: (sql: Sql) => PromiseLike<T>,
): Promise<T> {
  return db.transaction(deadlineMs, async (sql) => {
    await sql`select set_config('tollgate.actor', ${actor}, true)`;
    return work(sql);
  });
}
