import type { Database, Sql } from './database.ts';

const RAISE_MS = 10_000;

/**
 * Until the transaction ends, its statements see and change this company's rows alone, even
 * with a WHERE forgotten: it goes on under a role that row-level security holds back
 * (sql/0020_tenant_wall.sql). One round trip. Where the wall does not stand, nothing changes.
 * @param company a well-formed id
 */
export async function enterCompany(sql: Sql, company: string): Promise<void> {
  await sql`select enter_company(${company})`;
}

/** One transaction about one company, behind the wall. */
export function within<T>(
  db: Database,
  company: string,
  deadlineMs: number,
  work: (sql: Sql) => PromiseLike<T>,
): Promise<T> {
  return db.transaction(deadlineMs, async (sql) => {
    await enterCompany(sql, company);
    return work(sql);
  });
}

/**
 * Raises the wall where it does not stand: on a server where the role was made by hand since
 * the last start, or into which a dump was restored without grants.
 * @returns whether it stands; false where the database user may neither make nor take the role
 */
export async function ensureTenantRole(db: Database): Promise<boolean> {
  return db.transaction(RAISE_MS, async (sql) => {
    const [wall] = await sql<[{ stands: boolean }]>`
      select case when tenant_wall_stands() then true else raise_tenant_wall() end as stands`;
    return wall.stands;
  });
}
