import { throwConflict } from '../domain/refusal.ts';
import { type CompanyRow, findCompany, updateClosed } from '../store/company/company.ts';
import { deletePeople, type Erased } from '../store/company/erasure.ts';
import type { Sql } from '../store/connection/pool.ts';
import { leaveCompany } from '../store/connection/tenant-role.ts';

/** How a company ends. The tenant role may neither close a company nor erase anything; only operators get here. */

interface Ended {
  readonly company: CompanyRow;
  /** It was so before: its time is the same. */
  readonly already: boolean;
}

/**
 * Closes a company: its keys get 401 within a second, and the database refuses every change of it.
 * @throws RefusedChange not_found
 */
export async function closeCompany(sql: Sql, id: string): Promise<Ended> {
  await leaveCompany(sql);
  const closed = await updateClosed(sql, id, true);
  return { company: closed ?? (await findCompany(sql, id)), already: closed === null };
}

/** Opens a company again, with the keys that were active. @throws RefusedChange when it is unknown or was erased */
export async function reopenCompany(sql: Sql, id: string): Promise<Ended> {
  await leaveCompany(sql);
  const open = await updateClosed(sql, id, false);
  const company = open ?? (await findCompany(sql, id));
  if (company.erased_at !== null) {
    const text =
      'The people and assistants of this company were erased: it stays closed. Create a new company instead.';
    throwConflict('company', text);
  }
  return { company, already: open === null };
}

/**
 * Erases the names and addresses of a closed company and its people. The ledger, its sums and its seals stay.
 * @param name its present name, as a confirmation; null: only counts, and changes nothing
 * @throws RefusedChange when the company is unknown, open, or has another name
 */
export async function eraseCompany(sql: Sql, id: string, name: string | null): Promise<Erased> {
  await leaveCompany(sql);
  const company = await findCompany(sql, id);
  if (company.closed_at === null) {
    throwConflict('company', `The company is open: run "tollgate company close ${id}" first.`);
  }
  if (name !== null && name.trim() !== company.name.trim()) {
    throwConflict(
      'company',
      `The company's name is ${JSON.stringify(company.name)}: give it to confirm.`,
    );
  }
  return deletePeople(sql, id, name === null);
}
