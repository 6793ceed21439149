import { csvLine, harmless } from '../domain/csv.ts';
import { type DayRange, isMonth, stepOf } from '../domain/day-range.ts';
import { FieldError } from '../domain/field.ts';
import { TOKEN_DETAILS, type UsageSums } from '../domain/usage.ts';
import { findCompany } from '../store/company.ts';
import { readUsage, type Usage, type UsageGroup } from '../store/company-usage.ts';
import { copyLedger } from '../store/export.ts';
import { type Quality, type QualityGroup, readQuality } from '../store/quality.ts';
import { type DetailSums, readUsageDetails, type UsageDetails } from '../store/usage-details.ts';
import { type PageContext, param, read, sharerOf } from './context.ts';
import { download, nameFile } from './download.ts';
import { readUsageAddress, type UsageAddress } from './usage-address.ts';

/** What the usage page shows as CSV: its sums, and the ledger rows behind them. */

const EXPORT_MS = 30 * 60_000;
const CSV = 'text/csv; charset=utf-8';

const HEADING = [
  ...['by', 'name', 'detail', 'requests', 'prompt_tokens', 'completion_tokens', 'cost_eur'],
  ...['estimated', 'unfinished', 'p50_ms', 'p95_ms', 'error_rate'],
  ...TOKEN_DETAILS,
];
/** How many columns have names; amounts may begin with a minus sign. */
const NAMES = 3;
/** Where the token details of a line begin. */
const DETAILS_AT = HEADING.length - TOKEN_DETAILS.length;

/** The sums of the page, all lines of its tables and exact. */
export async function downloadSums(c: PageContext): Promise<Response> {
  const id = param(c, 'company');
  const { range, filters } = addressOf(c);
  const { usage, quality, details } = await read(c, async (sql) => ({
    usage: await readUsage(sql, id, range, filters),
    quality: await readQuality(sql, id, range, filters),
    details: await readUsageDetails(sql, id, range, filters),
  }));
  nameFile(c, { name: `usage-${nameOf(range)}.csv`, company: usage.company_name, type: CSV });
  return c.body(sumsText(usage, quality, details, range));
}

function sumsText(usage: Usage, quality: Quality, details: UsageDetails | null, range: DayRange): string {
  const step = stepOf(range);
  const { by_model, by_key, by_endpoint } = quality;
  const ofModels = new Map(details?.by_model.map((sums) => [sums.model, sums]));
  const lines = [
    HEADING,
    detailed(['all', '', '', ...figures({ ...usage, cost_eur: usage.api_cost_eur })], details?.total),
    ...(usage.chat_cost_eur === null ? [] : [['chat', '', '', '', '', '', usage.chat_cost_eur]]),
    ...usage.by_time.map((line) => [step, line.at, line.model, ...figures(line)]),
    ...usage.by_model.lines.map((line) =>
      detailed(['model', line.name, '', ...counts(line, by_model.get(line.name))], ofModels.get(line.name)),
    ),
    ...usage.by_key.lines.map((line) => ['key', line.name ?? '', line.id, ...counts(line, by_key.get(line.id))]),
    ...usage.by_endpoint.lines.map((line) => ['endpoint', line.name, '', ...counts(line, by_endpoint.get(line.name))]),
    ...usage.by_cost_center.lines.map((line) => ['cost_center', line.name, '', ...counts(line)]),
    ...usage.by_ending.map((line) => ['ending', line.outcome, line.usage_source, ...figures(line)]),
  ];
  const cell = (text: string, at: number) => (at < NAMES ? harmless(text) : text);
  return lines.map((line) => `${csvLine(HEADING.map((_, at) => cell(line[at] ?? '', at)))}\n`).join('');
}

function figures({ requests, prompt_tokens, completion_tokens, cost_eur }: UsageSums): string[] {
  return [String(requests), String(prompt_tokens), String(completion_tokens), cost_eur];
}

/** @param measured undefined where nothing was */
function counts(line: Omit<UsageGroup, 'name'>, measured?: QualityGroup): string[] {
  const sums = [...figures(line), String(line.estimated), String(line.unfinished)];
  if (measured === undefined) return sums;
  const { p50, p95, error_rate } = measured;
  return [...sums, p50?.toFixed(0) ?? '', p95?.toFixed(0) ?? '', error_rate.toFixed(6)];
}

/** A line with its token details, where any were told. */
function detailed(line: readonly string[], sums: DetailSums | undefined): string[] {
  const padded = Array.from({ length: DETAILS_AT }, (_, at) => line[at] ?? '');
  return sums === undefined ? padded : [...padded, ...TOKEN_DETAILS.map((name) => String(sums[name]))];
}

/** The ledger rows behind the sums. */
export async function downloadLedger(c: PageContext): Promise<Response> {
  const companyId = param(c, 'company');
  const { range, filters } = addressOf(c);
  const asked = { companyId, range, filters, internal: c.var.session.user.role === 'operator' };
  const { name: company } = await read(c, (sql) => findCompany(sql, companyId));
  const file = { name: `ledger-${nameOf(range)}.csv`, company, type: CSV };
  return download(c, c.var.services, sharerOf(c), file, (write) =>
    read(c, (sql) => copyLedger(sql, asked, write), EXPORT_MS),
  );
}

/** @throws FieldError for what the page would show a message about */
function addressOf(c: PageContext): UsageAddress {
  const address = readUsageAddress(c);
  for (const message of address.form.messages.values()) throw new FieldError(message);
  return address;
}

/** "2026-11", "2026-11-21" or "2026-11-01-to-2026-11-07". */
function nameOf(range: DayRange): string {
  if (isMonth(range)) return range.from.slice(0, 7);
  return range.from === range.to ? range.from : `${range.from}-to-${range.to}`;
}
