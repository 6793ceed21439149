import type { CsvForm } from '../../domain/documents/csv.ts';
import { amountInCents, type CompanyMonth, monthCsv } from '../../domain/documents/month-end.ts';
import {
  type PricedTokens,
  rowsOfParts,
  type Statement,
  type StatementTableRow,
  statementCsv,
  statementText,
  sumsBy,
} from '../../domain/documents/statement.ts';
import { readMonth, readUuid } from '../../domain/field.ts';
import { type CostPart, partOf } from '../../domain/pricing/parts.ts';
import {
  type ClosedEach,
  closeMonth,
  closeMonthOfAll,
  mailStatements,
} from '../../operations/statement.ts';
import { companyNames, ledgerName, REMOVED } from '../../store/company/company.ts';
import type { Sql } from '../../store/connection/pool.ts';
import { whyWait } from '../../store/statement/close.ts';
import { type MonthEnd, readCompanyMonths, readMonthEnd } from '../../store/statement/month.ts';
import {
  type LaterCalls,
  readMonthOf,
  type ShownMonth,
  type StatementRow,
  type StoredStatement,
  statementsOf,
} from '../../store/statement/statement.ts';
import { archiveStatements } from '../../store/usage/statement-archive.ts';
import {
  ArgumentError,
  type CommandResult,
  type Context,
  command,
  flag,
  optional,
  required,
} from '../frame/command.ts';
import { intoFile } from '../frame/files.ts';
import { csvForm, spreadsheet } from '../frame/spreadsheet.ts';
import { type Cell, card, listing, nowAndThen, plainly, sections } from '../frame/text.ts';
import { NUMBERS, SUMS } from './usage.ts';

const FOREVER = Number.POSITIVE_INFINITY;
const month = required('--month YYYY-MM', readMonth, 'billing month');
const csv = flag('--csv', 'print all lines as CSV with a heading');

/** Closing a month is a verb of its own, so that nobody closes one who only wants to look. */
export const statementCommands = [
  command({
    name: 'statement list',
    summary: 'list the statements of a company, and its months without one',
    options: { company: required('--company ID', readUuid, 'company of the statements') },
    async run({ read }, { company }) {
      const found = await read(async (sql) => {
        await ledgerName(sql, company);
        return statementsOf(sql, company);
      }, company);
      return { json: found, text: listText(found.statements, found.open_months) };
    },
  }),
  command({
    name: 'statement close',
    summary: 'close a month of a company, or of all, with a statement',
    options: {
      company: optional('--company ID', readUuid, 'company to close the month of'),
      all: flag(
        '--all-companies',
        'close it for every company that has calls in it, or late calls of earlier months',
      ),
      month,
      anyway: flag('--anyway', 'close it although records are known to be on their way'),
      mail: flag(
        '--mail',
        'send each statement by e-mail to the owners of its company, and to others who want it',
      ),
      csv,
      spreadsheet,
    },
    notes: `The month must be over in the billing time zone, and no gateway may still hold records of it, as far as the gateways have told. A company's months are closed in their order, as statements are numbered: while an earlier month with calls is open, the command refuses and names what to close first. This cannot be undone: what is booked for the month later becomes a correction on the company's next statement.
A month that is closed already stays as it is, and its statement is printed again. With --all-companies the command may be interrupted and run again. E-mails are sent by a gateway with SMTP_URL, once to each person.`,
    async run(context, { company, all, month, anyway, mail, csv, spreadsheet }) {
      if (all === (company !== undefined))
        throw new ArgumentError('give either --company or --all-companies');
      const form = csvForm(csv, spreadsheet, context.json);
      if (form !== null && all) throw new ArgumentError('--csv needs --company');
      if (company === undefined) return closeAll(context, { month, anyway, mail });
      await closeMonth((work) => context.transact(work, FOREVER), company, { month, anyway, mail });
      return show(context, company, month, form);
    },
  }),
  command({
    name: 'statement month',
    summary: 'a month of all companies, and what is still to do',
    options: {
      month,
      close: flag(
        '--close',
        'first close it for every company, as statement close --all-companies does',
      ),
      anyway: flag('--anyway', 'close it although records are known to be on their way'),
      mail: flag(
        '--mail',
        'then send the statements that there are to owners, and to others who want them, once to each',
      ),
      csv: flag('--csv', 'print one line for each company as CSV with a heading'),
      spreadsheet,
      archive: optional(
        '--archive FILE.tar.gz',
        (text) => text,
        'write all statements into one file, which must not exist yet',
      ),
    },
    notes: `Without --close and --mail it changes nothing. A company whose month is open has what its statement would say now, and no number. AMOUNT EUR is the exact total, rounded once to cents: what an invoice is for. OPENED is when an owner first opened or downloaded the statement on the pages.
The archive has each statement as the document that was sealed, and as CSV with names; and the CSV of all companies.`,
    async run(context, { month, close, anyway, mail, csv, spreadsheet, archive }) {
      const { read, transact, json } = context;
      const form = csvForm(csv, spreadsheet, json);
      if (anyway && !close) throw new ArgumentError('--anyway needs --close');
      const refused = close ? (await closeEveryone(context, { month, anyway })).refused : [];
      const mailed = mail ? await transact((sql) => mailStatements(sql, month, null), FOREVER) : 0;
      if (archive !== undefined) {
        await intoFile(archive, (write) => read((sql) => archiveStatements(sql, month, write)));
      }
      const [end, companies] = await read(async (sql) => {
        return [await readMonthEnd(sql, month), await readCompanyMonths(sql, month)] as const;
      });
      const name = month.slice(0, 7);
      if (form !== null) return { print: (write) => write(monthCsv(name, companies, form)) };
      const why = await read((sql) => whyWait(sql, month));
      const value = {
        month: name,
        on_its_way: why,
        ...end,
        companies: companies.map(withAmount),
        refused,
        mailed,
      };
      return {
        json: value,
        text: monthText(name, why, end, companies),
        exit: refused.length === 0 ? 0 : 1,
      };
    },
  }),
  command({
    name: 'statement',
    summary: "print a company's statement of a closed month, or a preview",
    options: {
      company: required('--company ID', readUuid, 'company of the statement'),
      month,
      csv,
      spreadsheet,
    },
    notes: `Changes nothing: "tollgate statement close" closes a month. While the month is open, a preview is printed: what the statement would hold now.
--json prints the document as it was sealed, always the same bytes: their SHA-256 is the digest of the statement, and the next statement names it as "previous". It has ids, and no names. The text shows the names that keys have today.`,
    async run(context, { company, month, csv, spreadsheet }) {
      return show(context, company, month, csvForm(csv, spreadsheet, context.json));
    },
  }),
];

async function show(
  { read, json }: Context,
  company: string,
  month: string,
  form: CsvForm | null,
): Promise<CommandResult> {
  const [name, shown] = await read(async (sql: Sql) => {
    return [await ledgerName(sql, company), await readMonthOf(sql, company, month)] as const;
  }, company);
  const { stored, statement, names } = shown;
  const raw =
    form !== null
      ? statementCsv(statement, names, form)
      : json
        ? (stored?.text ?? statementText(statement))
        : null;
  if (raw !== null) return { print: (write) => write(Buffer.from(raw)) };
  return { json: null, text: statementTables(shown, name) };
}

/** A company of a month with what its invoice is for. */
function withAmount(company: CompanyMonth) {
  return { ...company, amount_eur: amountInCents(company.total_eur) };
}

function monthText(
  month: string,
  why: string | null,
  end: MonthEnd,
  companies: readonly CompanyMonth[],
): string {
  const { sums, before_eur, earlier, free_models } = end;
  const left = sums.companies - sums.closed;
  const todo = [
    ...earlier.map(
      ({ month, open }) =>
        `- ${month} is open for ${open} ${open === 1 ? 'company' : 'companies'}: close it first.`,
    ),
    ...(why === null ? [] : [`- ${why}`]),
    ...free_models.map(
      (slug) => `- The calls of ${slug} had tokens and cost nothing: it may lack a price.`,
    ),
    ...(left === 0
      ? []
      : [`- ${left} to close: tollgate statement month --month ${month} --close`]),
  ];
  const head = card(`Month-end of ${month}`, {
    'EUR of all statements': sums.total_eur,
    'EUR of the month before': before_eur ?? '-',
    requests: sums.requests,
    'late calls of earlier months': sums.corrections,
    closed: `${sums.closed} of ${sums.companies}`,
    opened: sums.opened,
  });
  const table = listing(
    companies.map(withAmount),
    {
      COMPANY: ({ company_name }) => company_name ?? REMOVED,
      STATEMENT: ({ number }) => number ?? 'open',
      ...plainly('requests', 'corrections', 'total_eur', 'amount_eur'),
      OPENED: ({ opened_at }) => opened_at?.toISOString(),
      ID: ({ company_id }) => company_id,
    },
    'No company has calls in the month.',
    ['STATEMENT', 'REQUESTS', 'CORRECTIONS', 'TOTAL EUR', 'AMOUNT EUR'],
  );
  return sections(
    head,
    todo.length === 0 ? 'Nothing is left to do.' : `To do:\n${todo.join('\n')}`,
    table,
  );
}

/** Closes a month of every company that needs it, with progress. */
async function closeEveryone(
  { transact, progress }: Context,
  closing: Parameters<typeof closeMonthOfAll>[1],
): Promise<ClosedEach> {
  const tell = nowAndThen(progress);
  let all = 0;
  const told = (count: number) => `${count} of ${all} companies closed`;
  const done = await closeMonthOfAll(
    (work) => transact(work, FOREVER),
    closing,
    (count, companies) => {
      all = companies;
      tell(told(count));
      return true;
    },
  );
  if (all > 0) progress(told(done.closed.length));
  return done;
}

async function closeAll(
  context: Context,
  closing: Parameters<typeof closeMonthOfAll>[1],
): Promise<CommandResult> {
  const { month } = closing;
  const { closed, refused } = await closeEveryone(context, closing);
  const ids = [...closed, ...refused].map(({ company_id }) => company_id);
  const names = await context.read((sql) => companyNames(sql, ids));
  const nameOf = ({ company_id }: { company_id: string }) => names.get(company_id) ?? REMOVED;
  const done = listing(
    closed,
    {
      COMPANY: nameOf,
      STATEMENT: ({ number }) => number,
      ID: ({ company_id }) => company_id,
    },
    refused.length === 0
      ? `All calls of ${month.slice(0, 7)} are on statements already.`
      : 'No month was closed.',
    ['STATEMENT'],
  );
  const left = listing(
    refused,
    { COMPANY: nameOf, ID: ({ company_id }) => company_id, 'NOT CLOSED': ({ reason }) => reason },
    '',
  );
  return {
    json: { month: month.slice(0, 7), closed, refused },
    text: sections(done, left),
    exit: refused.length === 0 ? 0 : 1,
  };
}

function listText(statements: readonly StatementRow[], open: readonly string[]): string {
  const rows = listing(
    statements,
    {
      ...plainly('number', 'month', 'requests'),
      'MONTH EUR': ({ cost_eur }) => cost_eur,
      ...plainly('corrections', 'total_eur'),
      'CAME LATER': ({ later }) => laterText(later),
      DIGEST: ({ digest }) => digest.slice(0, 16),
    },
    'The company has no statements.',
    ['NUMBER', 'REQUESTS', 'MONTH EUR', 'CORRECTIONS', 'TOTAL EUR'],
  );
  return open.length === 0
    ? rows
    : `${rows}\n\nMonths with calls and without a statement: ${open.join(', ')}.`;
}

function laterText(later: readonly LaterCalls[]): string {
  const texts = later.map(({ statement, requests, cost_eur }) => {
    return `${requests} ${requests === 1 ? 'call' : 'calls'}, ${cost_eur} EUR: on ${statement === null ? 'the next statement' : `statement ${statement}`}`;
  });
  return texts.join('; ') || '-';
}

function statementTables({ statement, stored, names }: ShownMonth, company: string): string {
  const { month, lines, corrections, total_eur } = statement;
  const keyText = (id: string) => {
    const key = names.get(id);
    return key === undefined ? id : `${key.name} (${key.prefix}…)`;
  };
  const title =
    stored === null
      ? `PREVIEW of ${month}: the month is not closed, and this is no statement.`
      : `Statement ${stored.number}: ${month}`;
  const head = card(title, {
    company: `${company} (${statement.company_id})`,
    requests: statement.requests,
    'prompt tokens': statement.prompt_tokens,
    'completion tokens': statement.completion_tokens,
    'EUR of the month': statement.cost_eur,
    'EUR with corrections': total_eur,
    ...(stored === null ? {} : sealsOf(statement, stored)),
  });
  return sections(
    head,
    sums('MODEL', sumsBy(lines, 'model'), (name) => name),
    rates(statement.charges ?? []),
    sums('KEY', sumsBy(lines, 'key'), keyText),
    sums('COST CENTRE', sumsBy(lines, 'cost_center'), (name) => name || '(none)'),
    listing(
      corrections,
      {
        'CORRECTION OF': ({ month, statement }) => `${month}, statement ${statement}`,
        ...SUMS,
        'REQUEST IDS': ({ request_ids: ids }) =>
          `${ids[0]}${ids.length > 1 ? ` and ${ids.length - 1} more` : ''}`,
      },
      '',
      NUMBERS,
    ),
  );
}

function sealsOf({ opening_seals, closing_seals, previous }: Statement, stored: StoredStatement) {
  const checkpoint = (seals: Statement['opening_seals']) =>
    seals === null ? '-' : `checkpoint ${seals.checkpoint}, ${seals.digest.slice(0, 16)}…`;
  return {
    'closed at': stored.closed_at,
    digest: stored.digest,
    'digest before': previous ?? '-',
    'opening seals': checkpoint(opening_seals),
    'closing seals': checkpoint(closing_seals),
    'came later': laterText(stored.later),
  };
}

const partText = (part: CostPart) => part.replaceAll('_', ' ');

/** What each model charged at each price, where a rate held or more than tokens was charged. */
function rates(charges: readonly PricedTokens[]): string {
  if (charges.every(({ part, rate }) => rate === undefined && partOf(part).within !== null))
    return '';
  return listing(
    charges,
    {
      'MODEL AND PRICE': ({ model }) => model,
      PART: ({ part }) => partText(part),
      RATE: ({ rate }) => rate,
      'EUR PER 1000': ({ price }) => price,
      UNITS: ({ tokens }) => tokens,
      EUR: ({ cost_eur }) => cost_eur,
    },
    '',
    ['EUR PER 1000', 'UNITS', 'EUR'],
  );
}

function sums(
  title: string,
  rows: ReturnType<typeof sumsBy>,
  shown: (name: string) => string,
): string {
  const text = ({ name, part, units }: StatementTableRow) =>
    part === null ? shown(name) : `  ${partText(part)}${units === null ? '' : `: ${units}`}`;
  const columns = SUMS as Readonly<Record<string, (row: StatementTableRow) => Cell>>;
  const all = rows.flatMap((row) => rowsOfParts(row));
  return listing(
    all,
    { [title]: text, ...columns, REQUESTS: ({ requests }) => requests ?? '' },
    '',
    NUMBERS,
  );
}
