import type { Sql } from '../store/connection/pool.ts';
import { asOwnersSee, pageOfAudit } from '../store/lists/audit.ts';
import { type Call, get, type Operation, type PageQuery } from './operation.ts';
import * as schema from './schemas.ts';

type Query = PageQuery & { readonly search?: string };

const change = schema.object({
  id: { type: 'integer' },
  at: schema.instant,
  actor: schema.string,
  action: schema.oneOf(['insert', 'update', 'delete', 'truncate', 'erase']),
  subject: { type: 'string', description: 'the table' },
  subject_id: schema.textOrNull,
  company_id: schema.textOrNull,
  company_name: schema.textOrNull,
  before: {
    type: ['object', 'null'],
    description:
      'amounts are exact decimal text; an update leaves out what is longer than 200 characters and did not change',
  },
  after: { type: ['object', 'null'] },
});
const LOG = {
  query: schema.listQuery({ search: schema.text }, schema.numberCursor),
  answer: schema.pageOf(change),
} as const;

/** Who changed what. */
export const auditOperations: readonly Operation[] = [
  get<Query>('listChanges', '/audit', {
    ...LOG,
    summary: 'The audit log, newest first',
    action: 'audit.read',
    run: list,
  }),
  get<Query>('listChangesOfCompany', '/companies/{company}/audit', {
    ...LOG,
    summary: 'The audit log of a company as its owners see it, newest first',
    action: 'company-audit.read',
    run: list,
  }),
];

async function list(sql: Sql, { params, query: { cursor, limit, search = '' } }: Call<never, Query>): Promise<object> {
  const { company = null } = params;
  const { rows, next } = await pageOfAudit(sql, {
    search,
    newestFirst: true,
    from: cursor === undefined ? null : Number(cursor),
    company,
    ...(limit !== undefined && { limit }),
  });
  const told = company === null ? rows : rows.map(asOwnersSee);
  return { data: told.map(({ db_role: _, ...row }) => row), next_cursor: next === null ? null : String(next) };
}
