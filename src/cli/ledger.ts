import { readMonth, readUuid } from '../domain/field.ts';
import { findCompany } from '../store/company.ts';
import { exportLedger, LEDGER_COLUMNS, type LedgerRow } from '../store/export.ts';
import { verifyLedger } from '../store/verify.ts';
import { type Command, command, flag, required, UsageError } from './command.ts';
import { table } from './text.ts';

export const ledgerCommands: readonly Command[] = [
  command({
    name: 'ledger verify',
    summary: 'compare monthly_spend with the rows it stands for; exits 1 where they differ',
    options: {},
    notes: 'Reads the whole ledger in one snapshot; safe while gateways run.',
    async run({ read }) {
      const result = await read(verifyLedger);
      const { checked, differences } = result;
      const rows = differences.map((each) => [each.company_id, each.month, each.counter, each.counted, each.rows]);
      const text =
        rows.length === 0
          ? `monthly_spend is the sum of its rows; months of companies compared: ${checked}.`
          : table(['COMPANY', 'MONTH', 'COUNTER', 'COUNTED', 'ROWS'], rows, ['COUNTED', 'ROWS']);
      return { json: result, text, exit: rows.length === 0 ? 0 : 1 };
    },
  }),
  command({
    name: 'ledger export',
    summary: "every ledger row of a company's month, oldest first",
    options: {
      company: required('ID', readUuid, 'whose rows'),
      month: required('YYYY-MM', readMonth, 'billing month'),
      csv: flag('CSV with a heading; JSON, one object a line, unless given'),
    },
    notes:
      'EUR amounts are exact; in JSON they are strings, so that no reader rounds them.\nWith --json all rows are one JSON array.',
    async run({ transact, json }, { company, month, csv }) {
      if (csv && json) throw new UsageError('--csv and --json exclude each other; choose one');
      await transact((sql) => findCompany(sql, company));
      const format = csv ? csvOf : json ? arrayOf : linesOf;
      return { pieces: (sql) => format(exportLedger(sql, company, month)) };
    },
  }),
];

type Batches = AsyncIterable<readonly LedgerRow[]>;

async function* linesOf(batches: Batches): AsyncGenerator<string> {
  for await (const rows of batches) yield rows.map((row) => `${JSON.stringify(row)}\n`).join('');
}

async function* arrayOf(batches: Batches): AsyncGenerator<string> {
  let before = '[';
  for await (const rows of batches) {
    if (rows.length === 0) continue;
    yield before + rows.map((row) => JSON.stringify(row)).join(',\n');
    before = ',\n';
  }
  yield before === '[' ? '[]\n' : ']\n';
}

/** RFC 4180, with the line ends of the system the tools around it run on. */
async function* csvOf(batches: Batches): AsyncGenerator<string> {
  yield `${LEDGER_COLUMNS.join(',')}\n`;
  for await (const rows of batches) {
    yield rows.map((row) => `${LEDGER_COLUMNS.map((column) => csvCell(String(row[column]))).join(',')}\n`).join('');
  }
}

function csvCell(text: string): string {
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
