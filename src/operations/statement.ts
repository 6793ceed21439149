import { RefusedChange, throwConflict, throwNotFound } from '../domain/refusal.ts';
import { ledgerName } from '../store/company/company.ts';
import type { Sql } from '../store/connection/pool.ts';
import { insertSummaries } from '../store/events/event.ts';
import { deleteGateways, type ForgottenGateway, hasGateway } from '../store/gateway/gateways.ts';
import {
  checkpointSeals,
  companiesToClose,
  insertStatement,
  isClosed,
  requireClosable,
} from '../store/statement/close.ts';
import type { StatementBound } from '../store/statement/statement.ts';

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
 * @throws RefusedChange not_found; conflict as `beginClosing` and `insertStatement`
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
 * @throws RefusedChange conflict as `beginClosing`
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
 * @throws RefusedChange conflict where the month is not over, or records are on their way
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
      if (!(error instanceof RefusedChange)) throw error;
      refused.push({ company_id, reason: error.message });
    }
  }
  return { closed, refused };
}

/**
 * Gives up the records of gateways that are gone: the months that waited for them may be closed then. Records that such a
 * gateway books later all the same become corrections.
 * @throws RefusedChange where none has the name, or those that have it were seen within a minute
 */
export async function forgetGateways(sql: Sql, name: string): Promise<ForgottenGateway[]> {
  const gone = await deleteGateways(sql, name);
  if (gone.length > 0) return gone;
  if (!(await hasGateway(sql, name))) throwNotFound('gateway', `There is no gateway ${name}.`);
  throwConflict('gateway', `${name} runs: it was seen within the last minute.`);
}
