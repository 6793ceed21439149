import * as schema from '../../domain/settings/schema.ts';
import { closeCompany, findCompany, reopenCompany } from '../../store/company/company.ts';
import { eraseCompany } from '../../store/company/erasure.ts';
import type { Sql } from '../../store/connection/pool.ts';
import { leaveCompany, snapshot } from '../../store/connection/tenant-role.ts';
import { archiveCompany } from '../../store/usage/archive.ts';
import { type ApiCall, type ApiOperation, get, post } from './frame/operation.ts';
import * as resource from './frame/resources.ts';

const PATH = '/companies/{company}';

const EXPORT_MS = 30 * 60_000;

/** How a company ends: closed, exported, its people erased. */
export const companyEndOperations: readonly ApiOperation[] = [
  post('closeCompany', `${PATH}/close`, {
    summary: 'Close a company: every gateway refuses its keys within a second, and nothing of it can be changed',
    action: 'company.close',
    answer: resource.company,
    run: (sql, call) => asOperator(sql, call, async (id) => (await closeCompany(sql, id)).company),
  }),
  post('reopenCompany', `${PATH}/reopen`, {
    summary: 'Open a closed company again, with the keys that were active',
    action: 'company.close',
    answer: resource.company,
    run: (sql, call) => asOperator(sql, call, async (id) => (await reopenCompany(sql, id)).company),
  }),
  get('exportCompany', `${PATH}/export`, {
    summary: 'All that is stored about a company, as of one instant: JSON Lines and manifest.json in a .tar.gz',
    action: 'company.export',
    file: {
      type: 'application/gzip',
      name: ({ params }) => `company-${params.company}.tar.gz`,
      write(db, { params }, write) {
        return snapshot(db, params.company as string, EXPORT_MS, async (sql) => {
          const { id, name } = await findCompany(sql, params.company as string);
          return archiveCompany(sql, { company: { id, name }, internal: false }, write);
        });
      },
    },
    run: (sql, { params }) => findCompany(sql, params.company as string),
  }),
  get('countErasure', `${PATH}/erasure`, {
    summary: 'What an erasure of a closed company would reach; nothing is changed',
    action: 'company.erase',
    answer: resource.erased,
    isLong: true,
    run: (sql, call) => asOperator(sql, call, (id) => eraseCompany(sql, id, null)),
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
    run: (sql, call) => asOperator(sql, call, (id) => eraseCompany(sql, id, call.body.name)),
  }),
];

/** The tenant role may neither close a company nor erase anything; only operators get here. */
async function asOperator<T>(
  sql: Sql,
  { params }: Pick<ApiCall, 'params'>,
  work: (company: string) => Promise<T>,
): Promise<T> {
  await leaveCompany(sql);
  return work(params.company as string);
}
