import { archiveCompany } from '../../store/archive.ts';
import { closeCompany, findCompany, reopenCompany } from '../../store/company.ts';
import type { Sql } from '../../store/database.ts';
import { eraseCompany } from '../../store/erasure.ts';
import { leaveCompany, snapshot } from '../../store/tenant-role.ts';
import { type Call, type Operation, operation } from './operation.ts';
import * as schema from './schemas.ts';

const PATH = '/companies/{company}';
const EXPORT_MS = 30 * 60_000;
const count = { type: 'integer', minimum: 0 };
const erased = schema.object({
  persons: { ...count, description: 'people whose addresses are replaced by pseudonyms' },
  rows: { type: 'object', additionalProperties: count, description: 'rows by table' },
});

/** How a company ends: closed, exported, its people erased. */
export const companyEndOperations: readonly Operation[] = [
  operation({
    id: 'closeCompany',
    method: 'post',
    path: `${PATH}/close`,
    summary: 'Close a company: every gateway refuses its keys within a second, and nothing of it can be changed',
    action: 'company.close',
    answer: schema.company,
    status: 200,
    run: (sql, call) => asOperator(sql, call, async (id) => (await closeCompany(sql, id)).company),
  }),
  operation({
    id: 'reopenCompany',
    method: 'post',
    path: `${PATH}/reopen`,
    summary: 'Open a closed company again, with the keys that were active',
    action: 'company.close',
    answer: schema.company,
    status: 200,
    run: (sql, call) => asOperator(sql, call, async (id) => (await reopenCompany(sql, id)).company),
  }),
  operation({
    id: 'exportCompany',
    method: 'get',
    path: `${PATH}/export`,
    summary: 'All that is stored about a company, as of one instant: JSON Lines and manifest.json in a .tar.gz',
    action: 'company.export',
    answer: null,
    status: 200,
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
  operation({
    id: 'countErasure',
    method: 'get',
    path: `${PATH}/erasure`,
    summary: 'What an erasure of a closed company would reach; nothing is changed',
    action: 'company.erase',
    answer: erased,
    status: 200,
    isLong: true,
    run: (sql, call) => asOperator(sql, call, (id) => eraseCompany(sql, id, null)),
  }),
  operation<{ readonly name: string }>({
    id: 'eraseCompany',
    method: 'post',
    path: `${PATH}/erase`,
    summary:
      'Erase the names and addresses of a closed company and its people. The ledger stays. This cannot be undone: export it first',
    action: 'company.erase',
    body: schema.object({ name: { ...schema.name, description: "the company's present name, as a confirmation" } }),
    answer: erased,
    status: 200,
    isLong: true,
    run: (sql, call) => asOperator(sql, call, (id) => eraseCompany(sql, id, call.body.name)),
  }),
];

/** The tenant role may neither close a company nor erase anything; only operators get here. */
async function asOperator<T>(
  sql: Sql,
  { params }: Pick<Call, 'params'>,
  work: (company: string) => Promise<T>,
): Promise<T> {
  await leaveCompany(sql);
  return work(params.company as string);
}
