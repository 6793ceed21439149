import type { Database, Sql, Work } from './pool.ts';

/**
 * One transaction on behalf of a person, whom the audit log names for every change in it. The name
 * is set for the transaction alone, so that a pooled connection does not keep it.
 * @param actor an e-mail address, or "cli"
 */
export function actingAs<T>(
  db: Database,
  actor: string,
  deadlineMs: number,
  work: Work<T>,
): Promise<T> {
  return db.transaction(deadlineMs, async (sql) => {
    await nameActor(sql, actor);
    return work(sql);
  });
}

/** Names the actor of a transaction. */
export async function nameActor(sql: Sql, actor: string): Promise<void> {
  await sql`select set_config('tollgate.actor', ${actor}, true)`;
}

/** Bytes that the transaction has written into the audit log so far (sql/schema/audit.sql). */
export async function auditedBytes(sql: Sql): Promise<number> {
  const [{ bytes }] = await sql<
    [{ bytes: string | null }]
  >`select current_setting('tollgate.audited', true) as bytes`;
  return Number(bytes);
}
