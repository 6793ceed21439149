import type { Sql } from './database.ts';

/** One change. Members are columns of `audit_log`; rows before and after are without secrets. */
export interface AuditRow {
  readonly id: number;
  readonly at: Date;
  readonly actor: string;
  readonly db_role: string;
  readonly action: 'insert' | 'update' | 'delete' | 'truncate';
  readonly subject: string;
  readonly subject_id: string | null;
  readonly company_id: string | null;
  /** The company's present name; null for a deleted company and for changes that concern none. */
  readonly company_name: string | null;
  readonly before: Readonly<Record<string, unknown>> | null;
  readonly after: Readonly<Record<string, unknown>> | null;
}

/** Newest first. @param before entries older than this id; null begins with the newest */
export async function listAudit(
  sql: Sql,
  { company, before, limit }: { company: string | null; before: number | null; limit: number },
): Promise<AuditRow[]> {
  return sql<AuditRow[]>`
    select a.id, a.at, a.actor, a.db_role, a.action, a.subject, a.subject_id, a.company_id, c.name as company_name,
      a.before, a.after
    from audit_log a left join companies c on c.id = a.company_id
    where (${company}::uuid is null or a.company_id = ${company}) and (${before}::bigint is null or a.id < ${before})
    order by a.id desc limit ${limit}`;
}
