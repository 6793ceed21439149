import { readFileSync } from 'node:fs';
import { FieldError, readMonth, readUuid } from '../domain/field.ts';
import { type BilledCall, EXPORT_COLUMNS, readExport, reconcile, spanOf } from '../domain/reconcile.ts';
import { findCompany } from '../store/company.ts';
import { exportLedger, LEDGER_COLUMNS, type LedgerRow } from '../store/export.ts';
import { readCalls } from '../store/reconcile.ts';
import {
  type Difference,
  type SealCheck,
  SUMS_NAMES,
  SUMS_TABLES,
  type SumsCheck,
  type SumsName,
  verifyLedger,
  verifySeals,
  verifySums,
} from '../store/verify.ts';
import { type Command, command, Failure, flag, optional, required, UsageError } from './command.ts';
import { csvLine } from './csv.ts';
import { table } from './text.ts';

/** Rows that a table in text output shows at most. */
const MOST_SHOWN = 50;

export const ledgerCommands: readonly Command[] = [
  command({
    name: 'ledger verify',
    summary: 'check counters and seals; exits 1 on a difference',
    options: {},
    notes:
      'Every counter of monthly_spend and every figure of usage_daily, usage_hourly, usage_monthly, usage_company_days, usage_key_months and usage_model_days must be the sum of its rows. Every batch of rows has a seal, chained to the seal before it; the command names rows that were edited or removed afterwards. Rows without a seal were written by another program or before seals existed; the command counts them.\nReads the whole ledger. Safe while gateways run.',
    async run({ read }) {
      const { checked, differences } = await read(verifyLedger);
      const sums: [SumsName, SumsCheck][] = [];
      for (const name of SUMS_NAMES) sums.push([name, await read((sql) => verifySums(sql, name))]);
      const seals = await read((sql) => verifySeals(sql));
      const texts = sums.map(([name, check]) => sumsText(name, check));
      const wrong = sums.reduce((total, [, check]) => total + check.total, differences.length + seals.total);
      const parts = [countersText(checked, differences), ...texts, sealsText(seals)];
      const json = { checked, differences, ...Object.fromEntries(sums), ...seals };
      return { json, text: parts.join('\n'), exit: wrong === 0 ? 0 : 1 };
    },
  }),
  command({
    name: 'ledger reconcile',
    summary: "compare with the upstream's bill; exits 1 on a difference",
    options: {
      upstream: required('--upstream FILE.csv', (text) => text, "the upstream's list of calls"),
      within: optional(
        '--within SECONDS',
        readSeconds,
        'largest time difference between both records of a call; default: 60',
      ),
    },
    notes: `The file is CSV with a heading. Columns, in any order, and their possible names:
  internal model name       ${EXPORT_COLUMNS.model.join(', ')}
  prompt tokens             ${EXPORT_COLUMNS.prompt.join(', ')}
  completion tokens         ${EXPORT_COLUMNS.completion.join(', ')} (default 0)
  time in ISO 8601          ${EXPORT_COLUMNS.time.join(', ')}
  our request id, if known  ${EXPORT_COLUMNS.id.join(', ')}
The upstream gets our request id with every call, as x-request-id. Calls are paired by this id, or else by model, tokens and time. A call is "missing" if only the upstream has it, "extra" if only the ledger has it, and "differing" if their tokens differ.`,
    async run({ read }, { upstream: file, within = 60 }) {
      const billed = readUpstream(file);
      if (billed.length === 0) throw new Failure(`${file} lists no calls`);
      const slack = within * 1000;
      const [first, last] = spanOf(billed);
      const calls = await read((sql) => readCalls(sql, first - slack, last + slack));
      const result = reconcile(billed, calls, slack);
      const { matched, missing, extra, differing } = result;
      const counts = `matched ${matched}, missing ${missing.length}, extra ${extra.length}, differing ${differing.length}`;
      const rows = [
        ...missing.map((call) => ['missing', ...describe(call), '-']),
        ...extra.map((call) => ['extra', ...describe(call), '-']),
        ...differing.map((pair) => ['differing', ...describe(pair.upstream), tokensOf(pair.ledger)]),
      ];
      const list = firstRows(['WHAT', 'CALL', 'MODEL', 'TIME', 'TOKENS', 'LEDGER'], rows, rows.length);
      const hint = rows.length > MOST_SHOWN ? '; --json lists all' : '';
      const text = rows.length === 0 ? counts : `${counts}\n\n${list}${hint}`;
      return { json: result, text, exit: rows.length === 0 ? 0 : 1 };
    },
  }),
  command({
    name: 'ledger export',
    summary: "print the ledger rows of a company's month, oldest first",
    options: {
      company: required('--company ID', readUuid, 'company of the rows'),
      month: required('--month YYYY-MM', readMonth, 'billing month'),
      csv: flag('--csv', 'print CSV with a heading; default: JSON, one object a line'),
    },
    notes:
      'EUR amounts are exact. In JSON they are strings, so that no parser rounds them. With --json all rows are one JSON array.',
    async run({ transact, json }, { company, month, csv }) {
      if (csv && json) throw new UsageError('--csv and --json exclude each other; choose one');
      await transact((sql) => findCompany(sql, company));
      const format = csv ? csvOf : json ? arrayOf : linesOf;
      return { pieces: (sql) => format(exportLedger(sql, company, month)), company };
    },
  }),
];

function countersText(checked: number, differences: readonly Difference[]): string {
  if (differences.length === 0)
    return `monthly_spend is the sum of its rows; months of companies compared: ${checked}.`;
  const rows = cells(differences, 'company_id', 'month', 'counter', 'counted', 'rows');
  return table(['COMPANY', 'MONTH', 'COUNTER', 'COUNTED', 'ROWS'], rows, ['COUNTED', 'ROWS']);
}

function sumsText(name: SumsName, { checked, total, differences }: SumsCheck): string {
  const { table, period } = SUMS_TABLES[name];
  if (total === 0) return `${table} is the sum of its rows; groups of calls compared: ${checked}.`;
  const rows = cells(differences, 'company_id', period, 'model_slug', 'counter', 'counted', 'rows');
  const heading = ['COMPANY', period.toUpperCase(), 'MODEL', 'COUNTER', 'COUNTED', 'ROWS'];
  return firstRows(heading, rows, total, ['COUNTED', 'ROWS']);
}

function sealsText({ seals, rows, unsealed, total, findings }: SealCheck): string {
  const without = unsealed === 0 ? '' : `Rows without a seal: ${unsealed}.`;
  if (total === 0) return `Every sealed row is as it was written: ${rows} rows, ${seals} seals. ${without}`.trimEnd();
  const lines = cells(findings, 'what', 'month', 'request_id', 'writer', 'number');
  return `${firstRows(['WHAT', 'MONTH', 'REQUEST', 'WRITER', 'SEAL'], lines, total, ['SEAL'])}\n${without}`.trimEnd();
}

function cells<T extends object>(rows: readonly T[], ...members: (keyof T)[]): string[][] {
  return rows.map((row) => members.map((name) => String(row[name] ?? '-')));
}

/** A table of the first rows, and how many more there are. */
function firstRows(heading: string[], rows: readonly string[][], total: number, right: string[] = []): string {
  const shown = rows.slice(0, MOST_SHOWN);
  return table(heading, shown, right) + (total > shown.length ? `\nand ${total - shown.length} more` : '');
}

/** @throws Failure when the file cannot be read */
function readUpstream(file: string): BilledCall[] {
  try {
    return readExport(readFileSync(file, 'utf8'));
  } catch (error) {
    throw new Failure(`${file}: ${(error as Error).message}`);
  }
}

function readSeconds(text: string): number {
  if (!/^\d{1,6}$/.test(text)) throw new FieldError('must be a whole number of seconds');
  return Number(text);
}

function describe(call: BilledCall): [string, string, string, string] {
  return [call.name, call.model, new Date(call.at).toISOString(), tokensOf(call)];
}

function tokensOf({ promptTokens, completionTokens }: BilledCall): string {
  return `${promptTokens}+${completionTokens}`;
}

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

/** CSV as in RFC 4180, but with "\n" as line end, for Unix tools. */
async function* csvOf(batches: Batches): AsyncGenerator<string> {
  yield `${LEDGER_COLUMNS.join(',')}\n`;
  for await (const rows of batches) {
    yield rows.map((row) => `${csvLine(LEDGER_COLUMNS.map((column) => String(row[column])))}\n`).join('');
  }
}
