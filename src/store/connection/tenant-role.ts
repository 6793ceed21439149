import type { Role } from '../../domain/user.ts';
import type { Database, Sql, Work } from './pool.ts';

const CREATE_MS = 10_000;

/**
 * Switches the transaction to the tenant role, which row-level security restricts to one company's rows
 * (sql/schema/tenant.sql). One round trip. Has no effect where the role does not exist.
 * @param company a well-formed id
 * @param reader only to an operator do rows tell which person of the operator made them (actor.ts)
 */
export async function enterCompany(
  sql: Sql,
  company: string,
  reader: Role | null = null,
): Promise<void> {
  // row_security is on unless the database is set otherwise: then it refuses instead of filtering
  await sql`
    select enter_company(${company}), set_config('tollgate.reader', ${reader ?? ''}, true),
      set_config('row_security', 'on', true)`;
}

/** Switches the transaction back to the user it was opened by: for tables that the tenant role may not read. */
export async function leaveCompany(sql: Sql): Promise<void> {
  await sql`select set_config('role', 'none', true)`;
}

/**
 * Reads what the tenant role may not, such as list prices of which a company learns what it pays. What `work` returns is for
 * the program: whoever calls it leaves out what the reader may not know.
 */
export async function outside<T>(sql: Sql, work: () => PromiseLike<T>): Promise<T> {
  await sql`select set_config('tollgate.role', current_setting('role'), true), set_config('role', 'none', true)`;
  const found = await work();
  await sql`select set_config('role', coalesce(nullif(current_setting('tollgate.role', true), ''), 'none'), true)`;
  return found;
}

/** One transaction about one company, under the tenant role. @param company null: a query about any of them */
export function within<T>(
  db: Database,
  company: string | null,
  deadlineMs: number,
  work: Work<T>,
  reader?: Role,
): Promise<T> {
  if (company === null) return db.run(deadlineMs, work);
  return db.transaction(deadlineMs, async (sql) => {
    await enterCompany(sql, company, reader);
    return work(sql);
  });
}

/**
 * Reads as a company, in one snapshot: all of its statements see the same instant.
 * @param company null: all companies, with the rights of the operator
 * @param deadlineMs milliseconds; Infinity for none
 */
export function snapshot<T>(
  db: Database,
  company: string | null,
  deadlineMs: number,
  work: Work<T>,
): Promise<T> {
  return db.transaction(deadlineMs, async (sql) => {
    await sql`set transaction isolation level repeatable read, read only`;
    if (company !== null) await enterCompany(sql, company);
    return work(sql);
  });
}

/**
 * Creates the tenant role and its grants where they are missing: on a server where the role was made
 * by hand since the last start, or into which a dump was restored without grants.
 * @returns `tenantRoleAdvice`
 */
export async function ensureTenantRole(db: Database): Promise<string | null> {
  return db.transaction(CREATE_MS, async (sql) => {
    await sql`select case when tenant_wall_stands() then true else raise_tenant_wall() end`;
    return tenantRoleAdvice(sql);
  });
}

/** The statements that an administrator of the server has to run, as the database user may not; null: the role works. */
export async function tenantRoleAdvice(sql: Sql): Promise<string | null> {
  const [{ advice }] = await sql<[{ advice: string | null }]>`
    select case when not tenant_wall_stands() then concat_ws('; ',
      case when to_regrole('tollgate_tenant') is null then 'create role tollgate_tenant nologin' end,
      (select 'alter role tollgate_tenant nosuperuser nobypassrls' from pg_roles
        where rolname = 'tollgate_tenant' and (rolsuper or rolbypassrls)),
      format('grant tollgate_tenant to %I', session_user)) end as advice`;
  return advice;
}
