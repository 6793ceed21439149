import { type CsvColumns, type CsvForm, csvFile, decimal } from '../../domain/documents/csv.ts';
import { FieldError, oneOf } from '../../domain/field.ts';
import { type DayRange, intervalOf, isMonth } from '../../domain/reports/day-range.ts';
import { shownDetails, type UsageSums } from '../../domain/usage.ts';
import { snapshot } from '../../store/connection/tenant-role.ts';
import {
  type CompanyUsage,
  readCompanyUsage,
  type UsageGroup,
} from '../../store/usage/company-usage.ts';
import { readTokenDetails, type TokenDetails } from '../../store/usage/details.ts';
import { copyLedger, EXPORT_MS } from '../../store/usage/export.ts';
import { copyFocus } from '../../store/usage/focus.ts';
import { type Quality, type QualityGroup, readQuality } from '../../store/usage/quality.ts';
import { isTime } from '../../store/usage/usage-table.ts';
import {
  companyOf,
  type PageContext,
  param,
  presentCompany,
  read,
  sharerOf,
} from '../page/context.ts';
import { CSV, download, downloadRead, nameFile } from '../page/download.ts';
import { hiddenInputs, options } from '../page/field.ts';
import { type Html, html } from '../page/html.ts';
import { spreadsheetOf, spreadsheetSelect } from '../page/spreadsheet.ts';
import { keysInReach, usagePath } from './reach.ts';
import { daysOf, readUsageQuery, type UsageQuery } from './usage-query.ts';

/** The data of the usage page as CSV: each of its tables, and the ledger rows behind them. */

interface Shown {
  readonly usage: CompanyUsage;
  readonly quality: Quality;
  readonly details: TokenDetails | null;
  readonly range: DayRange;
}

const SUMS: CsvColumns<UsageSums> = {
  requests: ({ requests }) => requests,
  prompt_tokens: ({ prompt_tokens }) => prompt_tokens,
  completion_tokens: ({ completion_tokens }) => completion_tokens,
  cost_eur: ({ cost_eur }) => decimal(cost_eur),
};
const COUNTS: CsvColumns<Omit<UsageGroup, 'name'>> = {
  ...SUMS,
  estimated: ({ estimated }) => estimated,
  unfinished: ({ unfinished }) => unfinished,
};

/** The tables by their names in URLs. The lines of each add up to the sums on the page. */
const TABLES = {
  model({ usage, quality, details }, form) {
    const told = new Map(details?.by_model.map((sums) => [sums.model, sums]));
    const detailed = shownDetails(details?.total).map(
      (each) => [each, ({ name }: UsageGroup) => told.get(name)?.[each]] as const,
    );
    const measured = measuredBy(quality.by_model, ({ name }: UsageGroup) => name);
    const columns = { model: nameOfGroup, ...COUNTS, ...measured, ...Object.fromEntries(detailed) };
    return csvFile(columns, usage.by_model.lines, form);
  },
  key({ usage, quality }, form) {
    type Line = CompanyUsage['by_key']['lines'][number];
    const key = ({ id }: Line) => id;
    const names = {
      key,
      key_name: ({ name }: Line) => name,
      key_prefix: ({ prefix }: Line) => prefix,
    };
    return csvFile(
      { ...names, ...COUNTS, ...measuredBy(quality.by_key, key) },
      usage.by_key.lines,
      form,
    );
  },
  endpoint({ usage, quality }, form) {
    const measured = measuredBy(quality.by_endpoint, ({ name }: UsageGroup) => name);
    return csvFile(
      { endpoint: nameOfGroup, ...COUNTS, ...measured },
      usage.by_endpoint.lines,
      form,
    );
  },
  cost_center: ({ usage }, form) =>
    csvFile({ cost_center: nameOfGroup, ...COUNTS }, usage.by_cost_center.lines, form),
  time({ usage, range }, form) {
    type Line = CompanyUsage['by_time'][number];
    const columns = {
      [intervalOf(range)]: ({ at }: Line) => at,
      model: ({ model }: Line) => model,
    };
    return csvFile({ ...columns, ...SUMS }, usage.by_time, form);
  },
  ending({ usage }, form) {
    type Line = CompanyUsage['by_ending'][number];
    const columns = {
      outcome: ({ outcome }: Line) => outcome,
      usage_source: (line: Line) => line.usage_source,
    };
    return csvFile({ ...columns, ...SUMS }, usage.by_ending, form);
  },
  total(
    { usage: { requests, prompt_tokens, completion_tokens, api_cost_eur, chat_cost_eur } },
    form,
  ) {
    const api = { part: 'api', requests, prompt_tokens, completion_tokens, cost_eur: api_cost_eur };
    const parts: readonly Part[] =
      chat_cost_eur === null ? [api] : [api, { part: 'chat', cost_eur: chat_cost_eur }];
    return csvFile<Part>(
      { part: ({ part }) => part, ...(SUMS as CsvColumns<Partial<UsageSums>>) },
      parts,
      form,
    );
  },
} satisfies Readonly<Record<string, (shown: Shown, form: CsvForm) => string>>;
type TableName = keyof typeof TABLES;
const TABLE_NAMES = Object.keys(TABLES) as readonly TableName[];
const readTable = oneOf(...TABLE_NAMES);

/** API calls, or in-app chat, of which only the cost is known. */
type Part = Partial<UsageSums> & { readonly part: string };

function nameOfGroup({ name }: UsageGroup): string {
  return name;
}

/** The columns of measured values, empty where nothing was measured. */
function measuredBy<T>(
  groups: ReadonlyMap<string, QualityGroup>,
  nameOf: (row: T) => string,
): CsvColumns<T> {
  return {
    p50_ms: (row) => decimal(groups.get(nameOf(row))?.p50?.toFixed(0)),
    p95_ms: (row) => decimal(groups.get(nameOf(row))?.p95?.toFixed(0)),
    error_rate: (row) => decimal(groups.get(nameOf(row))?.error_rate.toFixed(6)),
  };
}

/** The choice of a file behind a button: which table, for which spreadsheet, or the ledger rows. */
export function exportFold(
  c: PageContext,
  company: string,
  { range, filters, by }: UsageQuery,
): Html {
  const sums = `${usagePath(c, company)}.csv`;
  const { exports: words } = c.var.format.words;
  const choices = TABLE_NAMES.map((name) => [name, words.tables[name]] as const);
  return html`<details class="fold" id="export"><summary class="button quiet">${words.title}</summary>
<form method="get" action="${sums}" class="filters">${hiddenInputs(daysOf({ ...range }, filters))}
<div class="field"><label for="by">${words.sumsBy}</label><select id="by" name="by">${options(choices, by === 'outcome' ? 'ending' : isTime(by) ? 'time' : (by ?? 'model'))}</select></div>
${spreadsheetSelect(c)}
<button>${words.sums}</button><button formaction="${sums.replace(/usage\.csv$/, 'ledger.csv')}">${words.rows}</button></form>
<p class="small muted">${words.text}</p></details>`;
}

/** One table, all its lines and exact. */
export async function downloadSums(c: PageContext): Promise<Response> {
  const id = param(c, 'company');
  const { range, filters } = usageQueryOf(c);
  const by = readTable(c.req.query('by') ?? 'model');
  const form = spreadsheetOf(c);
  const { usage, quality, details } = await read(c, async (sql) => {
    const chosen = { ...filters, keys: await keysInReach(c, sql, id) };
    return {
      usage: await readCompanyUsage(sql, id, range, chosen),
      quality: await readQuality(sql, id, range, chosen),
      details: await readTokenDetails(sql, id, range, chosen),
    };
  });
  const name = `usage-by-${by.replace('_', '-')}-${nameOf(range)}.csv`;
  nameFile(c, { name, company: usage.company_name, type: CSV });
  return c.body(TABLES[by]({ usage, quality, details, range }, form));
}

/** The ledger rows behind the sums. */
export async function downloadLedger(c: PageContext): Promise<Response> {
  const companyId = param(c, 'company');
  const { range, filters } = usageQueryOf(c);
  const internal = c.var.session.user.role === 'operator';
  const { name: company } = presentCompany(c);
  const keys = await read(c, (sql) => keysInReach(c, sql, companyId));
  const asked = {
    companyId,
    range,
    filters: { ...filters, keys },
    internal,
    form: spreadsheetOf(c),
  };
  const file = { name: `ledger-${nameOf(range)}.csv`, company, type: CSV };
  return downloadRead(c, file, (sql, write) => copyLedger(sql, asked, write));
}

/** The charges of a month, closed or not, for FinOps programs: of the company of the path, or of all. @param month its first day */
export async function downloadFocus(c: PageContext, month: string): Promise<Response> {
  const company = companyOf(c);
  const asked = { brand: c.var.services.brand, month, company, role: c.var.session.user.role };
  const file = {
    name: `focus-${month.slice(0, 7)}.csv`,
    ...(company !== null && { company: presentCompany(c).name }),
    type: CSV,
  };
  const { services } = c.var;
  return download(c, services, sharerOf(c), file, (write) =>
    snapshot(services.db, company, EXPORT_MS, (sql) => copyFocus(sql, asked, write)),
  );
}

/** @throws FieldError for mistakes about which the page shows a message */
function usageQueryOf(c: PageContext): UsageQuery {
  const query = readUsageQuery(c);
  for (const message of query.form.messages.values()) throw new FieldError(message);
  return query;
}

/** "2026-11", "2026-11-21" or "2026-11-01-to-2026-11-07". */
function nameOf(range: DayRange): string {
  if (isMonth(range)) return range.from.slice(0, 7);
  return range.from === range.to ? range.from : `${range.from}-to-${range.to}`;
}
