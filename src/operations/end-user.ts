import { type EndUserRow, eraseEndUserName, findEndUser } from '../store/company/end-user.ts';
import type { Sql } from '../store/connection/pool.ts';
import { leaveCompany } from '../store/connection/tenant-role.ts';

/**
 * Erases the name of a person behind a key: who comes with it again is somebody new. What the person cost stays, by an id
 * that nothing leads to. Somebody who was erased already stays so.
 * @param company if given, people of other companies count as not found
 * @throws RefusedChange not_found
 */
export async function eraseEndUser(
  sql: Sql,
  id: string,
  company: string | null,
): Promise<EndUserRow> {
  const { company_id } = await findEndUser(sql, id, company);
  if (company !== null) await leaveCompany(sql);
  await eraseEndUserName(sql, id);
  return findEndUser(sql, id, company_id);
}
