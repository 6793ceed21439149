import { throwConflict } from '../domain/refusal.ts';
import * as schema from '../domain/settings/schema.ts';
import {
  COMPANY_ROW,
  type CompanyRow,
  findCompany,
  updateClosed,
} from '../store/company/company.ts';
import { deletePeople, type Erased } from '../store/company/erasure.ts';
import type { Sql } from '../store/connection/pool.ts';
import { leaveCompany, snapshot } from '../store/connection/tenant-role.ts';
import { archiveCompany } from '../store/usage/archive.ts';
import { EXPORT_MS } from '../store/usage/export.ts';
import * as resource from './frame/resources.ts';
import { get, type Operation, post } from './frame/row.ts';

/** How a company ends. The tenant role may neither close a company nor erase anything; only operators get here. */

interface Ended {
  readonly company: CompanyRow;
  /** It was so before: its time is the same. */
  readonly already: boolean;
}

/**
 * Closes a company: its keys get 401 within a second, and the database refuses every change of it.
 * @throws Refused missing
 */
export async function closeCompany(sql: Sql, id: string): Promise<Ended> {
  await leaveCompany(sql);
  const closed = await updateClosed(sql, id, true);
  return { company: closed ?? (await findCompany(sql, id)), already: closed === null };
}

/** Opens a company again, with the keys that were active. @throws Refused when it is unknown or was erased */
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
 * @throws Refused when the company is unknown, open, or has another name
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

const PATH = '/companies/{company}';

/** How a company ends: closed, exported, its people erased. */
export const companyEndOperations: readonly Operation[] = [
  post('closeCompany', `${PATH}/close`, {
    summary:
      'Close a company: every gateway refuses its keys within a second, and nothing of it can be changed',
    action: 'company.close',
    answer: COMPANY_ROW,
    run: async (sql, { company }) => (await closeCompany(sql, company)).company,
  }),
  post('reopenCompany', `${PATH}/reopen`, {
    summary: 'Open a closed company again, with the keys that were active',
    action: 'company.close',
    answer: COMPANY_ROW,
    run: async (sql, { company }) => (await reopenCompany(sql, company)).company,
  }),
  get('exportCompany', `${PATH}/export`, {
    summary:
      'All that is stored about a company, as of one instant: JSON Lines and manifest.json in a .tar.gz',
    action: 'company.export',
    file: {
      type: 'application/gzip',
      name: ({ company }) => `company-${company}.tar.gz`,
      write(db, { company }, write) {
        return snapshot(db, company, EXPORT_MS, async (sql) => {
          const { id, name } = await findCompany(sql, company);
          return archiveCompany(sql, { company: { id, name }, internal: false }, write);
        });
      },
    },
    run: (sql, { company }) => findCompany(sql, company),
  }),
  get('countErasure', `${PATH}/erasure`, {
    summary: 'What an erasure of a closed company would reach; nothing is changed',
    action: 'company.erase',
    answer: resource.erased,
    isLong: true,
    run: (sql, { company }) => eraseCompany(sql, company, null),
  }),
  post('eraseCompany', `${PATH}/erase`, {
    summary:
      'Erase the names and addresses of a closed company and its users. The ledger stays. This cannot be undone: export it first',
    action: 'company.erase',
    body: schema.object({
      name: { ...schema.presentName, description: "the company's present name, as a confirmation" },
    }),
    answer: resource.erased,
    isLong: true,
    run: (sql, { company, body }) => eraseCompany(sql, company, body.name),
  }),
];
