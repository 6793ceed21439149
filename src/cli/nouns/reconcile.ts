import type { Readable } from 'node:stream';
import { CsvError } from '../../domain/documents/read-csv.ts';
import {
  type BilledCall,
  EXPORT_COLUMNS,
  ofCompany,
  readExport,
  reconcile,
  spanOf,
} from '../../domain/documents/reconcile.ts';
import {
  exceeds,
  type ModelTotals,
  totalsByModel,
} from '../../domain/documents/reconcile-costs.ts';
import { reasonsOf } from '../../domain/documents/reconcile-reasons.ts';
import { FieldError, readText, readUuid } from '../../domain/field.ts';
import { findCompany } from '../../store/company/company.ts';
import { readCalls } from '../../store/statement/reconcile.ts';
import { command, Failure, optional, required } from '../frame/command.ts';
import { inputName, readInput } from '../frame/files.ts';
import { firstRows, listing, MOST_SHOWN, plainly, sections } from '../frame/text.ts';

/** The longest text that V8 can hold. */
const MOST_BYTES = 511 * 1_048_576;
const RATE = '1';
const TOLERANCE = '0.01';

/** Compares the upstream's bill with the ledger: calls, tokens, and EUR by model. */
export const reconcileCommand = command({
  name: 'ledger reconcile',
  summary: "compare with the upstream's bill; exits 1 on a difference",
  options: {
    upstream: required(
      '--upstream FILE.csv',
      readText,
      "the upstream's list of calls, or - for standard input",
    ),
    within: optional(
      '--within SECONDS',
      readSeconds,
      'most time between both records of a call; default: 60',
    ),
    company: optional(
      '--company ID',
      readUuid,
      'only calls of this company; the file may have others too',
    ),
    rate: optional(
      '--rate EUR',
      readRate,
      "EUR for 1 of the file's cost column; default: 1, for costs in EUR",
    ),
    tolerance: optional(
      '--tolerance EUR',
      readAmount,
      `largest difference of a model's costs that is no difference; default: ${TOLERANCE}`,
    ),
  },
  notes: `The file is CSV with a heading. Columns, in any order, and their possible names:
  internal model name       ${EXPORT_COLUMNS.model.join(', ')}
  prompt tokens             ${EXPORT_COLUMNS.prompt.join(', ')}
  completion tokens         ${EXPORT_COLUMNS.completion.join(', ')} (default 0)
  time in ISO 8601          ${EXPORT_COLUMNS.time.join(', ')}
  our request id, if known  ${EXPORT_COLUMNS.id.join(', ')}
  cost, if known            ${EXPORT_COLUMNS.cost.slice(0, 3).join(', ')},
                            ${EXPORT_COLUMNS.cost.slice(3).join(', ')}
The upstream gets our request id with every call, as x-request-id. Calls are paired by this id, or else by model, tokens and time. A call is "missing" if only the upstream has it, "extra" if only the ledger has it, and "differing" if their tokens differ.
Both sides are summed by model. With a cost column, what the upstream billed (its costs × --rate) is compared with what it should cost: the ledger's tokens × the model's cost price of the day ("tollgate model cost"). A dash stands where a call has no cost, or no cost price. CHARGED is what the companies pay. All amounts are exact.
Then why, by day and model: a call missing on one side, other tokens, a rate of another tier, length or hours, cache writes of an hour, another cost price, a rate of exchange that all calls of a day have in common, rounding to the file's decimals. Of several reasons that would fit, the first of this list. They add up to the difference; what none fits is "unexplained".
With --company, calls that the ledger has for other companies are left out; a missing call may be anybody's.`,
  async run(
    { read, stdin, config },
    { upstream: file, within = 60, company, rate = RATE, tolerance = TOLERANCE },
  ) {
    const billed = await readBill(file, stdin);
    if (billed.length === 0) throw new Failure(`${inputName(file)} lists no calls`);
    const isCosted = billed.some(({ cost }) => cost !== null);
    const slack = within * 1000;
    const [first, last] = spanOf(billed);
    const calls = await read(async (sql) => {
      if (company !== undefined) await findCompany(sql, company);
      return readCalls(sql, first - slack, last + slack, isCosted);
    });
    const all = reconcile(billed, calls, slack);
    const result = company === undefined ? all : ofCompany(all, company);
    const models = totalsByModel(result, rate);
    const off = models
      .filter(({ difference_eur }) => exceeds(difference_eur, tolerance))
      .map(({ model }) => model);
    const { same, missing, extra, differing } = result;
    const counts = `matched ${same.length}, missing ${missing.length}, extra ${extra.length}, differing ${differing.length}`;
    const rows = [
      ...missing.map((call) => ['missing', ...describe(call), '-']),
      ...extra.map((call) => ['extra', ...describe(call), '-']),
      ...differing.map((pair) => ['differing', ...describe(pair.upstream), tokensOf(pair.ledger)]),
    ];
    const list = firstRows(
      ['WHAT', 'CALL', 'MODEL', 'TIME', 'TOKENS', 'LEDGER'],
      rows,
      rows.length,
    );
    const reasons = isCosted ? reasonsOf(result, rate, dayIn(config.billingTimezone)) : [];
    const unexplained = reasons.filter(({ reason }) => reason === 'unexplained').length;
    const text = sections(
      counts,
      rows.length === 0 ? '' : `${list}${rows.length > MOST_SHOWN ? '; --json lists all' : ''}`,
      totalsText(models, isCosted),
      reasons.length === 0
        ? ''
        : listing(reasons, plainly('day', 'model', 'reason', 'calls', 'eur'), '', ['calls', 'eur']),
      off.length === 0
        ? ''
        : `The upstream billed more or less than it should for: ${off.join(', ')}.${unexplained === 0 ? '' : ' Some of it is unexplained.'}`,
    );
    const json = {
      matched: same.length,
      missing,
      extra,
      differing,
      models,
      reasons,
      models_off: off,
    };
    return { json, text, exit: rows.length + off.length === 0 ? 0 : 1 };
  },
});

function totalsText(models: readonly ModelTotals[], isCosted: boolean): string {
  const costs = {
    'BILLED EUR': ({ billed_eur }: ModelTotals) => billed_eur,
    'SHOULD COST EUR': ({ expected_eur }: ModelTotals) => expected_eur,
    'DIFFERENCE EUR': ({ difference_eur }: ModelTotals) => difference_eur,
  };
  const columns = {
    ...plainly('model', 'upstream_calls', 'ledger_calls', 'upstream_tokens', 'ledger_tokens'),
    ...(isCosted ? costs : {}),
    'CHARGED EUR': ({ charged_eur }: ModelTotals) => charged_eur,
  };
  return listing(models, columns, '', Object.keys(columns).slice(1));
}

/** @throws Failure when the file cannot be read */
async function readBill(file: string, stdin: Readable): Promise<BilledCall[]> {
  const text = await readInput(file, stdin, MOST_BYTES);
  try {
    return readExport(text);
  } catch (error) {
    if (!(error instanceof CsvError)) throw error;
    throw new Failure(`${inputName(file)}: line ${error.line}: ${error.message}`);
  }
}

function readSeconds(text: string): number {
  if (!/^\d{1,6}$/.test(text)) throw new FieldError('must be a whole number of seconds');
  return Number(text);
}

function readAmount(text: string): string {
  if (!/^\d{1,9}(\.\d{1,12})?$/.test(text))
    throw new FieldError('must be a plain number such as 0.92, with 12 decimals at most');
  return text;
}

/** A rate of 0 would compare a bill of zero with the expected costs. */
function readRate(text: string): string {
  const rate = readAmount(text);
  if (!/[1-9]/.test(rate)) throw new FieldError('must be above 0');
  return rate;
}

function describe(call: BilledCall): [string, string, string, string] {
  return [call.name, call.model, new Date(call.at).toISOString(), tokensOf(call)];
}

function tokensOf({ promptTokens, completionTokens }: BilledCall): string {
  return `${promptTokens}+${completionTokens}`;
}

/** The day of an instant in a time zone. */
function dayIn(timeZone: string): (at: number) => string {
  const format = new Intl.DateTimeFormat('en-CA', { timeZone, dateStyle: 'short' });
  return (at) => format.format(at);
}
