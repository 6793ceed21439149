import { throwNotFound } from '../../domain/refusal.ts';
import type { Sql } from '../connection/pool.ts';

/** The counts of an erasure. */
export interface Erased {
  /** People whose addresses got pseudonyms. */
  readonly persons: number;
  /** Rows by table, without tables of which none was reached. */
  readonly rows: Readonly<Record<string, number>>;
}

/**
 * Erases the names and addresses of a company and its people (sql/schema/erasure.sql). Takes about as long as writing
 * its part of the audit log again; safe to repeat.
 * @param dryRun only counts, and changes nothing
 */
export async function deletePeople(sql: Sql, company: string, dryRun: boolean): Promise<Erased> {
  const [row] = await sql<
    [{ erased: Erased }]
  >`select erase_company(${company}, ${dryRun}) as erased`;
  // of an erased company nobody is left to read anything
  if (!dryRun) {
    await sql`update admin_tokens set revoked_at = now() where company_id = ${company} and revoked_at is null`;
  }
  return reached(row.erased);
}

/**
 * Erases one person: the address leaves every table and the audit log, and the person can no longer sign in. Reads the
 * whole audit log. Also finds the traces of a person whose user was removed before.
 * @param email in lower case
 * @param dryRun only counts, and changes nothing
 * @param company only in the rows and entries of this company; null: everywhere
 * @throws Refused when the address is found nowhere
 */
export async function erasePerson(
  sql: Sql,
  email: string,
  dryRun: boolean,
  company: string | null = null,
): Promise<Erased> {
  const [row] = await sql<
    [{ erased: Erased }]
  >`select erase_person(${email}, ${dryRun}, ${company}) as erased`;
  const erased = reached(row.erased);
  if (Object.keys(erased.rows).length === 0) {
    throwNotFound('user', `The address ${email} is stored nowhere.`);
  }
  return erased;
}

function reached({ persons, rows }: Erased): Erased {
  return {
    persons,
    rows: Object.fromEntries(Object.entries(rows).filter(([, count]) => count > 0)),
  };
}
