import { PLAIN_CSV } from '../../domain/documents/csv.ts';
import { monthCsv } from '../../domain/documents/month-end.ts';
import { statementCsv } from '../../domain/documents/statement.ts';
import type { Sql } from '../connection/pool.ts';
import { readCompanyMonths } from '../statement/month.ts';
import { readMonthOf } from '../statement/statement.ts';
import { addText, packed } from './archive.ts';
import type { Write } from './export.ts';

/** Letters of a company's name in the name of a file, which a file system may not take, and how many of the others. */
const NO_LETTERS = /[\p{C}/\\:*?"<>|]+/gu;
const MOST_LETTERS = 40;

/**
 * Writes the statements of a month as a .tar.gz: each as the document that was sealed and as CSV with names, and one CSV of
 * all companies. One statement is in memory at a time.
 * @param month its first day
 * @param write as for `archiveCompany`
 * @returns how many statements there are
 */
export async function archiveStatements(sql: Sql, month: string, write: Write): Promise<number> {
  const name = month.slice(0, 7);
  const all = await readCompanyMonths(sql, month);
  const closed = all.filter(({ number }) => number !== null);
  await packed(`statements-${name}`, write, async (add) => {
    await addText(add, `statements-${name}.csv`, monthCsv(name, all, PLAIN_CSV));
    for (const { company_id, company_name } of closed) {
      const { stored, statement, names } = await readMonthOf(sql, company_id, month);
      const letters = [...(company_name ?? 'removed').replaceAll(NO_LETTERS, ' ').trim()]
        .slice(0, MOST_LETTERS)
        .join('');
      const file = `${letters} ${company_id.slice(0, 8)} statement-${stored?.number}-${name}`;
      await addText(add, `${file}.json`, stored?.text as string);
      await addText(add, `${file}.csv`, statementCsv(statement, names, PLAIN_CSV));
    }
  });
  return closed.length;
}
