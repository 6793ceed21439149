import { randomUUID } from 'node:crypto';
import type { Database, Sql } from '../../src/store/connection/pool.ts';
import { checkpointSeals, insertStatement } from '../../src/store/statement/close.ts';
import type { StatementBound } from '../../src/store/statement/statement.ts';

/** Closes a month, whether it is over or not. @param month its first day */
export async function closeStatement(
  db: Database,
  company: string,
  month: string,
  bound?: StatementBound,
  ms = 20_000,
) {
  const seals = await db.run(ms, checkpointSeals);
  return db.transaction(ms, (sql) =>
    insertStatement(sql, { company, month, seals, ...(bound && { bound }) }),
  );
}

/** Puts a row into each table of statements, without a month that they close. */
export async function addStatementRows(sql: Sql, company: string): Promise<void> {
  await sql`insert into late_usage (company_id, billing_month, request_id) values (${company}, '2020-01-01', ${randomUUID()})`;
  await sql`insert into statement_rows values (${company}, 1, '2020-01-01', 0, ${[randomUUID()]}::uuid[], ''::bytea)`;
  await sql`insert into statements (company_id, number, billing_month, requests, cost_eur, corrections, total_eur, content, previous, digest)
    values (${company}, 1, '2020-01-01', 0, 0, 0, 0, '{}', '', sha256('{}'))`;
}
