import { parseStatement } from '../domain/documents/statement.ts';
import { Refused, throwConflict, throwNotFound } from '../domain/refusal.ts';
import * as schema from '../domain/settings/schema.ts';
import { findCompany, ledgerName } from '../store/company/company.ts';
import { cut } from '../store/connection/cursor.ts';
import type { Sql } from '../store/connection/pool.ts';
import { leaveCompany } from '../store/connection/tenant-role.ts';
import { insertSummaries } from '../store/events/event.ts';
import { deleteGateways, type ForgottenGateway, hasGateway } from '../store/gateway/gateways.ts';
import { PAGE_ROWS } from '../store/lists/page.ts';
import {
  checkpointSeals,
  companiesToClose,
  insertStatement,
  isClosed,
  requireClosable,
} from '../store/statement/close.ts';
import type { StatementBound } from '../store/statement/statement.ts';
import {
  listStatements,
  openMonths,
  SHARED_BOUND,
  STATEMENT,
  type StoredStatement,
  statementOf,
} from '../store/statement/statement.ts';
import * as resource from './frame/resources.ts';
import { get, type Operation, post } from './frame/row.ts';

export { insertSummaries as mailStatements } from '../store/events/event.ts';
/** Notes once that an owner has seen a statement. */
export { updateOpened as markOpened } from '../store/statement/month.ts';

/** How a face runs one transaction: each company is closed in one of its own, which reads all rows of its month. */
type Transact = <T>(work: (sql: Sql) => Promise<T>) => Promise<T>;

/** A month that is to be closed with statements, for good. */
interface Closing {
  /** Its first day. */
  readonly month: string;
  /** Close it although records are on their way: they become corrections. */
  readonly anyway?: boolean;
  /** Send the statement by e-mail to the people of the company who want it. */
  readonly mail?: boolean;
  /** None if absent. */
  readonly bound?: StatementBound;
}

/**
 * Closes a month of one company. One that is closed already stays as it is; its statement is sent to whom it was not.
 * @throws Refused missing; conflict as `beginClosing` and `insertStatement`
 */
export async function closeMonth(
  transact: Transact,
  company: string,
  closing: Closing,
): Promise<void> {
  const already = await transact(async (sql) => {
    await ledgerName(sql, company);
    const isOver = await isClosed(sql, company, closing.month);
    if (isOver && closing.mail) await insertSummaries(sql, closing.month, company);
    return isOver;
  });
  if (already) return;
  const close = await beginClosing(transact, closing);
  await close(company);
}

/**
 * Closes a month of all companies that need a statement of it, one by one.
 * @param goesOn asked before each, with how many are closed, and of how many; false leaves the rest as they are
 * @throws Refused conflict as `beginClosing`
 */
export async function closeMonthOfAll(
  transact: Transact,
  closing: Closing,
  goesOn: (closed: number, all: number) => boolean,
): Promise<ClosedEach> {
  const close = await beginClosing(transact, closing);
  const companies = await transact((sql) => companiesToClose(sql, closing.month));
  return closeEach(companies, close, (closed) => goesOn(closed, companies.length));
}

/**
 * Takes a checkpoint of the seals, for the statements that are closed next.
 * @returns closes the month of one company
 * @throws Refused conflict where the month is not over, or records are on their way
 */
async function beginClosing(transact: Transact, { month, anyway, mail, bound }: Closing) {
  const seals = await transact(async (sql) => {
    await requireClosable(sql, month, anyway);
    return checkpointSeals(sql);
  });
  return (company: string) =>
    transact(async (sql) => {
      const made = await insertStatement(sql, {
        company,
        month,
        seals,
        ...(bound !== undefined && { bound }),
      });
      if (mail) await insertSummaries(sql, month, company);
      return made;
    });
}

/** The result for each company. */
export interface ClosedEach {
  readonly closed: { readonly company_id: string; readonly number: number }[];
  readonly refused: { readonly company_id: string; readonly reason: string }[];
}

/** Closes companies one by one; one that is refused stops no other. @param goesOn as for `closeMonthOfAll` */
export async function closeEach(
  companies: readonly string[],
  close: (company: string) => Promise<{ readonly number: number }>,
  goesOn: (closed: number) => boolean,
): Promise<ClosedEach> {
  const closed: ClosedEach['closed'] = [];
  const refused: ClosedEach['refused'] = [];
  for (const company_id of companies) {
    if (!goesOn(closed.length)) break;
    try {
      const { number } = await close(company_id);
      closed.push({ company_id, number });
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      refused.push({ company_id, reason: error.message });
    }
  }
  return { closed, refused };
}

/**
 * Gives up the records of gateways that are gone: the months that waited for them may be closed then. Records that such a
 * gateway books later all the same become corrections.
 * @throws Refused where none has the name, or those that have it were seen within a minute
 */
export async function forgetGateways(sql: Sql, name: string): Promise<ForgottenGateway[]> {
  const gone = await deleteGateways(sql, name);
  if (gone.length > 0) return gone;
  if (!(await hasGateway(sql, name))) throwNotFound('gateway', `There is no gateway ${name}.`);
  throwConflict('gateway', `${name} runs: it was seen within the last minute.`);
}

const statement = schema.object({
  ...STATEMENT.properties,
  document: {
    type: 'object',
    description:
      'the sealed document: as one line of JSON with a line feed behind it, its SHA-256 is the digest',
  },
});

const LIST = '/companies/{company}/statements';

export const statementOperations: readonly Operation[] = [
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
      if (stored !== null) return withoutText(stored);
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
      return withoutText(
        (await statementOf(sql, company, closing.month, SHARED_BOUND)) as StoredStatement,
      );
    },
  }),
];

function withoutText({ text, ...row }: StoredStatement): object {
  return { ...row, document: parseStatement(text) };
}
