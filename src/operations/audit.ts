import * as schema from '../domain/settings/schema.ts';
import { AUDITED } from '../domain/wording/change-text.ts';
import type { Range } from '../store/connection/cursor.ts';
import type { Sql } from '../store/connection/pool.ts';
import { asOwnersSee, pageOfAudit } from '../store/lists/audit.ts';
import * as resource from './frame/resources.ts';
import { type Call, getList, type Operation } from './frame/row.ts';

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

/** Days of the filters are those of the billing time zone. */
const LOG = {
  filters: {
    search: schema.text,
    subject: schema.oneOf(AUDITED, 'the table'),
    actor: { ...schema.text, description: 'who changed it, as the log names them' },
    from: { ...schema.day, description: 'the first day' },
    to: { ...schema.day, description: 'the last day' },
  },
  cursor: resource.numberCursor,
  row: change,
  read: changes,
} as const;

/** The audit log: changes and their actors. */
export const auditOperations: readonly Operation[] = [
  getList('listChanges', '/audit', {
    ...LOG,
    summary: 'The audit log, newest first',
    action: 'audit.read',
  }),
  getList('listChangesOfCompany', '/companies/{company}/audit', {
    ...LOG,
    summary: 'The audit log of a company as its owners see it, newest first',
    action: 'company-audit.read',
  }),
];

async function changes(
  sql: Sql,
  { params, query }: Call<unknown, schema.Members<typeof LOG.filters, never>>,
  { after, limit }: Range,
) {
  const { company = null } = params;
  const { search = '', subject = null, actor = null, from = null, to = null } = query;
  const { rows, next } = await pageOfAudit(sql, {
    search,
    newestFirst: true,
    from: after === null ? null : Number(after),
    company,
    subject,
    actor,
    firstDay: from,
    lastDay: to,
    limit,
  });
  const visibleRows = company === null ? rows : rows.map(asOwnersSee);
  return { rows: visibleRows.map(({ db_role: _, ...row }) => row), next };
}
