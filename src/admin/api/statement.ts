import { parseStatement } from '../../domain/documents/statement.ts';
import { throwNotFound } from '../../domain/refusal.ts';
import * as schema from '../../domain/settings/schema.ts';
import { closeMonth } from '../../operations/statement.ts';
import { findCompany } from '../../store/company/company.ts';
import { cut } from '../../store/connection/cursor.ts';
import { leaveCompany } from '../../store/connection/tenant-role.ts';
import { PAGE_ROWS } from '../../store/lists/page.ts';
import {
  listStatements,
  openMonths,
  SHARED_BOUND,
  STATEMENT,
  type StoredStatement,
  statementOf,
} from '../../store/statement/statement.ts';
import { type ApiOperation, get, post } from './frame/operation.ts';
import * as resource from './frame/resources.ts';

const statement = schema.object({
  ...STATEMENT.properties,
  document: {
    type: 'object',
    description:
      'the sealed document: as one line of JSON with a line feed behind it, its SHA-256 is the digest',
  },
});

const LIST = '/companies/{company}/statements';

export const statementOperations: readonly ApiOperation[] = [
  get('listStatements', LIST, {
    summary: 'List the statements of a company, the latest first, and the months that wait for one',
    action: 'statement.read',
    query: resource.listQuery({}, resource.numberCursor),
    answer: schema.object({
      ...resource.pageOf(STATEMENT).properties,
      open_months: {
        ...schema.array(schema.month),
        description: 'months that are over, have calls and are not closed, whatever the page',
      },
    }),
    async run(sql, { company, query: { limit = PAGE_ROWS, cursor } }) {
      await findCompany(sql, company);
      const before = cursor === undefined ? null : Number(cursor);
      const found = await listStatements(sql, company, { before, limit: limit + 1 });
      const { rows: data, next: next_cursor } = cut(found, limit, ({ number }) => String(number));
      return { data, next_cursor, open_months: await openMonths(sql, company) };
    },
  }),
  get('getStatement', `${LIST}/month`, {
    summary: 'Read the statement of a closed month',
    action: 'statement.read',
    query: schema.object({ month: schema.month }),
    answer: statement,
    async run(sql, { company, query }) {
      const stored = await statementOf(sql, company, `${query.month}-01`, SHARED_BOUND);
      if (stored !== null) return told(stored);
      await findCompany(sql, company);
      throwNotFound('statement', `${query.month} of the company is not closed.`);
    },
  }),
  post('closeStatement', LIST, {
    summary:
      'Close a month with a statement, for good, after all earlier months with calls. A month that is closed already answers with its statement',
    action: 'statement.close',
    isLong: true,
    body: schema.object(
      {
        month: schema.month,
        anyway: {
          type: 'boolean',
          description: 'close it although records are known to be on their way',
        },
        mail: {
          type: 'boolean',
          description: 'send it by e-mail to the owners, and to others who want it',
        },
      },
      ['month'],
    ),
    answer: statement,
    status: 201,
    async run(sql, { company, body }) {
      await leaveCompany(sql); // operators alone get here, and the tenant role may not write statements
      const { anyway = false, mail = false } = body;
      const closing = { month: `${body.month}-01`, anyway, mail, bound: SHARED_BOUND };
      await closeMonth((work) => work(sql), company, closing);
      return told(
        (await statementOf(sql, company, closing.month, SHARED_BOUND)) as StoredStatement,
      );
    },
  }),
];

function told({ text, ...row }: StoredStatement): object {
  return { ...row, document: parseStatement(text) };
}
