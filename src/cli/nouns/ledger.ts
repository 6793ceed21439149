import { type CsvForm, csvHeading, csvRows, decimal } from '../../domain/documents/csv.ts';
import { FieldError, readMonth, readUuid, wholeNumber } from '../../domain/field.ts';
import { ledgerName } from '../../store/company/company.ts';
import {
  type AwayMonth,
  attachMonth,
  detachMonth,
  monthsAway,
} from '../../store/statement/moves.ts';
import { SUMS } from '../../store/statement/sums.ts';
import {
  type Difference,
  MOST,
  type SealCheck,
  SUMS_NAMES,
  type SumsCheck,
  type SumsName,
  verifyLedger,
  verifySeals,
  verifyStill,
  verifySums,
} from '../../store/statement/verify.ts';
import {
  type StatementCheck,
  verifyCheckpoints,
  verifyStatements,
} from '../../store/statement/verify-statements.ts';
import {
  exportLedger,
  LEDGER_DECIMALS,
  type LedgerRow,
  ledgerColumns,
} from '../../store/usage/export.ts';
import { FEED_CURSOR, isFeedCursor, OTHER_LEDGER, readFeed } from '../../store/usage/feed.ts';
import { copyFocus, readFocus } from '../../store/usage/focus.ts';
import { command, Failure, flag, optional, required } from '../frame/command.ts';
import { csvForm, spreadsheet } from '../frame/spreadsheet.ts';
import { type Cell, firstRows, nowAndThen, table } from '../frame/text.ts';
import { reconcileCommand } from './reconcile.ts';

const MONTH = { shown: 'YYYY-MM', meaning: 'billing month', read: readMonth };
/** The highest --limit of the feed. */
const MOST_FED = 1e9;
const CHECK_MS = 60_000;

export const ledgerCommands = [
  command({
    name: 'ledger verify',
    summary: 'check counters, seals and statements; exits 1 on a difference',
    options: {},
    notes:
      'Every counter of monthly_spend and every figure of usage_daily, usage_company_days, usage_key_months, usage_model_days, usage_details, usage_end_user_days and upstream_cost_monthly must be the sum of its rows. Every batch of rows has a seal, chained to the seal before it; the command names rows that were edited or removed afterwards. Rows without a seal were written by another program or before seals existed; the command counts them. Every statement is proven from the rows it covers, and every row of a closed month must be in its statement or in a correction. A month that "ledger detach" took away counts with what was noted of it, and is named.\nReads the whole ledger. Safe while gateways run.',
    async run({ read, progress }) {
      const tell = nowAndThen((table) => progress(`checking ${table}`));
      const { checked, differences } = await verifyStill(read, verifyLedger);
      const sums: [SumsName, SumsCheck][] = [];
      for (const name of SUMS_NAMES) {
        tell(SUMS[name].table);
        sums.push([
          name,
          await verifyStill(read, (sql, since) => verifySums(sql, name, MOST, since)),
        ]);
      }
      tell('the seals');
      const seals = await verifyStill(read, verifySeals);
      tell('the statements');
      const statements = await verifyStill(read, (sql) => verifyStatements(sql));
      const checkpoints = await read((sql) => verifyCheckpoints(sql));
      const away = await read(monthsAway);
      const parts = [
        countersText(checked, differences),
        ...sums.map(([name, check]) => sumsText(name, check)),
        sealsText(seals),
        ...statementsText(statements, checkpoints),
        ...away.map(awayText),
      ];
      const found = [...sums.map(([, check]) => check), seals, statements].reduce(
        (sum, { total }) => sum + total,
        0,
      );
      const exit = found + differences.length + checkpoints.findings.length === 0 ? 0 : 1;
      const json = {
        checked,
        differences,
        ...Object.fromEntries(sums),
        ...seals,
        statements,
        checkpoints,
        away,
      };
      return { json, text: parts.join('\n'), exit };
    },
  }),
  reconcileCommand,
  command({
    name: 'ledger detach',
    summary: 'take a past month out of the ledger, to move or remove its tables',
    operand: MONTH,
    options: {
      anyway: flag(
        '--anyway',
        'also a month that is not closed for all companies, or for which records may come',
      ),
    },
    notes:
      'The rows stay in the tables api_usage_YYYY_MM and upstream_costs_YYYY_MM, which are yours from then on: keep them elsewhere with pg_dump --table, then drop them. The sums of the month are removed, and pages show the month no more; its counters, statements and seals stay. What each company had is noted with a digest of its rows, by which "ledger verify" goes on. Gateways may run. The ledger is locked for a moment; the command waits for that at most 1.5 seconds at a time, and tries again until it has it.',
    async run({ db, progress }, { anyway }, month) {
      const tables = await detachMonth(db, { month, anyway, onProgress: nowAndThen(progress) });
      const text = `The ledger is without ${month.slice(0, 7)}; its rows are in the tables ${tables.join(' and ')}.`;
      return { json: { month: month.slice(0, 7), tables }, text };
    },
  }),
  command({
    name: 'ledger attach',
    summary: 'bring a month back that was taken away',
    operand: MONTH,
    options: {},
    notes:
      'The tables api_usage_YYYY_MM and upstream_costs_YYYY_MM must be there again, with the rows that were taken away: others are refused. The sums of the month are made from them.',
    async run({ db, progress }, _, month) {
      const tables = await attachMonth(db, { month, onProgress: nowAndThen(progress) });
      return {
        json: { month: month.slice(0, 7), tables },
        text: `The rows of ${month.slice(0, 7)} are in the ledger again.`,
      };
    },
  }),
  command({
    name: 'ledger export',
    summary: "print the ledger rows of a company's month, oldest first",
    options: {
      company: required('--company ID', readUuid, 'company of the rows'),
      month: required('--month YYYY-MM', readMonth, 'billing month'),
      csv: flag('--csv', 'print CSV with a heading; default: JSON, one object a line'),
      spreadsheet,
    },
    notes:
      'EUR amounts are exact. In JSON they are strings, so that no parser rounds them. With --json all rows are one JSON array. What the upstream did not tell of the tokens and of its own cost is null, in CSV empty; the cost is in the currency beside it.',
    async run({ transact, read, json }, { company, month, csv, spreadsheet }) {
      const form = csvForm(csv, spreadsheet, json);
      await transact((sql) => ledgerName(sql, company));
      const print = (write: (piece: string) => Promise<boolean>) =>
        read(async (sql) => {
          const columns = await ledgerColumns(sql);
          const format = form !== null ? csvIn(form, columns) : json ? arrayOf : linesOf;
          const rows = exportLedger(sql, company, month, BATCH, columns);
          for await (const piece of format(rows)) if (!(await write(piece))) break;
        }, company);
      return { print };
    },
  }),
  command({
    name: 'ledger focus',
    summary: 'print a month as FOCUS 1.2, the format of FinOps programs, as CSV',
    options: {
      month: required('--month YYYY-MM', readMonth, 'billing month'),
      company: optional('--company ID', readUuid, 'this company only; default: all'),
    },
    notes:
      'A row for each day, model, key, cost centre, endpoint, part of the cost and unit price. BilledCost adds up to the statements of the month, to the last digit; of a company whose month is open, to what its statement would be now. Late calls of closed months are rows of their own (ChargeClass Correction). With --json all rows are one JSON array.',
    async run({ transact, snapshot, config: { brand }, json }, { month, company = null }) {
      if (company !== null) await transact((sql) => ledgerName(sql, company));
      const asked = { brand, month, company, role: 'operator' } as const;
      const print = (write: (piece: string | Buffer) => Promise<boolean>) =>
        snapshot(company, async (sql) => {
          if (!json) return copyFocus(sql, asked, write);
          for await (const piece of arrayOf(readFocus(sql, asked)))
            if (!(await write(piece))) break;
        });
      return { print };
    },
  }),
  command({
    name: 'ledger feed',
    summary: 'print the booked calls of all companies, each once, for programs that bill them',
    options: {
      after: optional(
        '--after CURSOR',
        readCursor,
        'go on behind the call with this cursor; default: from the first call',
      ),
      limit: optional(
        '--limit N',
        wholeNumber(MOST_FED),
        'how many calls at most; default: all that are booked',
      ),
    },
    notes: `One JSON object a line, with request_id and the cursor behind it. The order leaves no call out and tells none twice, whatever gateways, late records and other programs book meanwhile: keep the cursor of the last line that you handled, and go on behind it. .deploy/feed.md has programs that do. EUR amounts are exact, as strings. With --json all calls are one JSON array.`,
    async run({ db, json }, { after = null, limit = Number.POSITIVE_INFINITY }) {
      if (after !== null && !(await db.run(CHECK_MS, (sql) => isFeedCursor(sql, after))))
        throw new Failure(`--after ${OTHER_LEDGER}`);
      const format = json ? arrayOf : linesOf;
      const print = async (write: (piece: string) => Promise<boolean>) => {
        for await (const piece of format(readFeed(db, { after, limit })))
          if (!(await write(piece))) break;
      };
      return { print };
    },
  }),
];

function readCursor(text: string): string {
  if (!FEED_CURSOR.test(text))
    throw new FieldError('must be the cursor of a call of the feed', text);
  return text;
}

function countersText(checked: number, differences: readonly Difference[]): string {
  if (differences.length === 0)
    return `monthly_spend is the sum of its rows; months of companies compared: ${checked}.`;
  const rows = cells(differences, 'company_id', 'month', 'counter', 'counted', 'rows');
  return table(['COMPANY', 'MONTH', 'COUNTER', 'COUNTED', 'ROWS'], rows, ['COUNTED', 'ROWS']);
}

function sumsText(name: SumsName, { checked, total, differences }: SumsCheck): string {
  const { table, period } = SUMS[name];
  if (total === 0) return `${table} is the sum of its rows; groups of calls compared: ${checked}.`;
  const rows = cells(differences, 'company_id', period, 'model_slug', 'counter', 'counted', 'rows');
  const heading = ['COMPANY', period.toUpperCase(), 'MODEL', 'COUNTER', 'COUNTED', 'ROWS'];
  return firstRows(heading, rows, total, ['COUNTED', 'ROWS']);
}

function sealsText({ seals, rows, unsealed, total, findings }: SealCheck): string {
  const without = unsealed === 0 ? '' : `Rows without a seal: ${unsealed}.`;
  if (total === 0)
    return `Every sealed row is as it was written; rows: ${rows}, seals: ${seals}. ${without}`.trimEnd();
  const lines = cells(findings, 'what', 'month', 'request_id', 'writer', 'number');
  return `${firstRows(['WHAT', 'MONTH', 'REQUEST', 'WRITER', 'SEAL'], lines, total, ['SEAL'])}\n${without}`.trimEnd();
}

function awayText({ month, companies, requests, cost_eur, since }: AwayMonth): string {
  return `The rows of ${month} are away since ${since}; calls: ${requests}, companies: ${companies}, EUR: ${cost_eur}.`;
}

function statementsText(
  { statements, rows, late, total, findings }: StatementCheck,
  { checkpoints, findings: ofCheckpoints }: Awaited<ReturnType<typeof verifyCheckpoints>>,
): string[] {
  const parts: string[] = [];
  if (total > 0) {
    const lines = cells(findings, 'what', 'company_id', 'number', 'month', 'request_id');
    parts.push(
      firstRows(['WHAT', 'COMPANY', 'STATEMENT', 'MONTH', 'REQUEST'], lines, total, ['STATEMENT']),
    );
  } else if (statements > 0) {
    const waiting = late === 0 ? '' : ` Late rows for the next statements: ${late}.`;
    parts.push(
      `Every statement is proven by its rows; rows: ${rows}, statements: ${statements}.${waiting}`,
    );
  }
  if (ofCheckpoints.length > 0) {
    const lines = cells(ofCheckpoints, 'what', 'checkpoint', 'writer', 'number');
    parts.push(
      firstRows(['WHAT', 'CHECKPOINT', 'WRITER', 'SEAL'], lines, lines.length, [
        'CHECKPOINT',
        'SEAL',
      ]),
    );
  } else if (checkpoints > 0)
    parts.push(`Every checkpoint of the seals is as it was taken; checkpoints: ${checkpoints}.`);
  return parts;
}

function cells<T extends object>(rows: readonly T[], ...members: (keyof T)[]): Cell[][] {
  return rows.map((row) => members.map((name) => row[name] as Cell));
}

/** Rows that are read at once. */
const BATCH = 1000;

type Batches = AsyncIterable<readonly object[]>;

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

/** A list of parts is JSON in its cell. */
const textOf = (value: NonNullable<LedgerRow[keyof LedgerRow]> | null) =>
  typeof value === 'object' && value !== null ? JSON.stringify(value) : value;

function csvIn(form: CsvForm, columns: Awaited<ReturnType<typeof ledgerColumns>>) {
  const cells = Object.fromEntries(
    columns.map((name) => [
      name,
      (row: LedgerRow) =>
        LEDGER_DECIMALS.includes(name)
          ? decimal(row[name] as string | null)
          : textOf(row[name] ?? null),
    ]),
  );
  return async function* (batches: Batches): AsyncGenerator<string> {
    yield csvHeading(columns, form);
    for await (const rows of batches) yield csvRows(cells, rows, form);
  };
}
