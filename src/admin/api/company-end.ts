import * as schema from '../../domain/settings/schema.ts';
import { closeCompany, eraseCompany, reopenCompany } from '../../operations/company-end.ts';
import { COMPANY_ROW, findCompany } from '../../store/company/company.ts';
import { snapshot } from '../../store/connection/tenant-role.ts';
import { archiveCompany } from '../../store/usage/archive.ts';
import { EXPORT_MS } from '../page/download.ts';
import { type ApiOperation, get, post } from './frame/operation.ts';
import * as resource from './frame/resources.ts';

const PATH = '/companies/{company}';

/** How a company ends: closed, exported, its people erased. */
export const companyEndOperations: readonly ApiOperation[] = [
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
      name: ({ params }) => `company-${params.company}.tar.gz`,
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
