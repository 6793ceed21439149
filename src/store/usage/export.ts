import { type CsvForm, FORMULA } from '../../domain/documents/csv.ts';
import { COLUMN_PARTS, COST_PARTS, type CostPart, isListed } from '../../domain/pricing/parts.ts';
import type { ChargedPart } from '../../domain/pricing/prices.ts';
import { addDays, type DayRange, intervalsIn, monthsIn } from '../../domain/reports/day-range.ts';
import { RARE_DETAILS, type RareDetail } from '../../domain/usage.ts';
import { askedOfPrices } from '../company/price.ts';
import { DatabaseUnavailable } from '../connection/errors.ts';
import { dayBegins, utcMicrosecond } from '../connection/expressions.ts';
import type { ConnectionSql, Sql } from '../connection/pool.ts';
import { leaveCompany } from '../connection/tenant-role.ts';
import { partCost } from '../statement/cost.ts';
import { requireRows } from '../statement/moves.ts';
import { filteredColumns, type UsageFilters } from './cube.ts';

/** The parts of a cost, which add up to it. */
const costs = <P extends CostPart>(parts: readonly P[]) =>
  Object.fromEntries(
    parts.map((part) => [`cost_${part}`, `trim_scale(${partCost(part)})::text`]),
  ) as { readonly [K in `cost_${P}`]: string };

/** Columns that follow where some price ever asked for tokens of the cache. */
const OF_CACHE = {
  price_cache_read: 'trim_scale(price_cache_read)::text',
  price_cache_write: 'trim_scale(price_cache_write)::text',
  ...costs(COLUMN_PARTS),
};
const LISTED_COSTS = costs(COST_PARTS.filter(isListed));
/** Columns that follow, with those, where some price ever had a rate or another part. */
const OF_PARTS = {
  ...(Object.fromEntries(RARE_DETAILS.map((name) => [name, `${name}::float8`])) as {
    readonly [name in RareDetail]: string;
  }),
  rate: 'rate',
  parts: 'parts',
  ...LISTED_COSTS,
};

/**
 * The columns of `api_usage` (contract section 3) in the order of exports, as SQL expressions, with present names
 * beside ids. The names of removed keys and companies are null.
 */
const EXPRESSIONS = {
  billing_month: "to_char(billing_month, 'YYYY-MM-DD')",
  request_id: 'request_id',
  company_id: 'company_id',
  company_name: 'company_name',
  api_key_id: 'api_key_id',
  api_key_name: 'api_key_name',
  model_slug: 'model_slug',
  upstream_model: 'upstream_model',
  endpoint: 'endpoint',
  prompt_tokens: 'prompt_tokens::float8',
  completion_tokens: 'completion_tokens::float8',
  cost_eur: 'trim_scale(cost_eur)::text',
  price_input: 'trim_scale(price_input)::text',
  price_output: 'trim_scale(price_output)::text',
  usage_source: 'usage_source',
  outcome: 'outcome',
  occurred_at: utcMicrosecond('occurred_at'),
  cost_center: 'cost_center',
  cached_tokens: 'cached_tokens::float8',
  cache_write_tokens: 'cache_write_tokens::float8',
  audio_prompt_tokens: 'audio_prompt_tokens::float8',
  reasoning_tokens: 'reasoning_tokens::float8',
  audio_completion_tokens: 'audio_completion_tokens::float8',
  upstream_cost: 'trim_scale(cost)::text',
  upstream_currency: 'currency',
  ...OF_CACHE,
  ...OF_PARTS,
} as const;

type Column = keyof typeof EXPRESSIONS;
const ALL_COLUMNS = Object.keys(EXPRESSIONS) as Column[];
/** The longest that a file may take: milliseconds. */
export const EXPORT_MS = 30 * 60_000;

const CACHE_COLUMNS = ALL_COLUMNS.filter((name) => !(name in OF_PARTS));
/** The columns of exports. Where some price asked for more, the others follow. */
export const LEDGER_COLUMNS: readonly Column[] = CACHE_COLUMNS.filter(
  (name) => !(name in OF_CACHE),
);

export async function ledgerColumns(sql: Sql): Promise<readonly Column[]> {
  const { cached, listed } = await askedOfPrices(sql);
  return listed ? ALL_COLUMNS : cached ? CACHE_COLUMNS : LEDGER_COLUMNS;
}

/** Columns for operators alone. The two of the upstream's cost are of `upstream_costs`, which the tenant role may not read. */
const INTERNAL: readonly Column[] = ['upstream_model', 'upstream_cost', 'upstream_currency'];
/** What a program reads that gets the calls of all companies: nothing of what stands behind them. */
const fedColumns = (columns: readonly Column[]) =>
  columns.filter((name) => !INTERNAL.includes(name));
const WITH_COSTS =
  'api_usage left join upstream_costs using (company_id, billing_month, request_id)';
/** Columns of text that others chose: spreadsheets must not take a part of one for a formula. */
const TEXTS: readonly Column[] = [
  ...([
    'company_name',
    'api_key_name',
    'model_slug',
    'upstream_model',
    'cost_center',
    'upstream_currency',
  ] as const),
];
/** Columns of numbers with decimals. */
export const LEDGER_DECIMALS: readonly Column[] = [
  ...([
    'cost_eur',
    'price_input',
    'price_output',
    'price_cache_read',
    'price_cache_write',
    'upstream_cost',
  ] as const),
  ...(Object.keys({ ...costs(COLUMN_PARTS), ...LISTED_COSTS }) as Column[]),
];

/** The ledger rows with these ids, with the columns of a company's export and its end user. In no order. */
export async function readFed(sql: Sql, months: readonly string[], ids: readonly string[]) {
  const { listed } = await askedOfPrices(sql);
  const columns = fedColumns(listed ? ALL_COLUMNS : CACHE_COLUMNS);
  return sql<FedRow[]>`
    with called as materialized (
      select * from api_usage where billing_month = any(${[...months]}::date[]) and request_id = any(${[...ids]}::uuid[])),
    named as (select called.*, k.name as api_key_name, c.name as company_name
      from called left join api_keys k on k.id = api_key_id left join companies c on c.id = called.company_id)
    select ${sql.unsafe(expressions(columns))}, end_user_id from named`;
}

/** Takes a piece of an export; resolves false when nobody reads any more. */
export type Write = (bytes: Buffer) => Promise<boolean>;

/**
 * One ledger row. Tokens are numbers; amounts are exact decimal text, days and instants ISO 8601 in UTC. What the
 * upstream did not tell is null.
 */
export type LedgerRow = {
  readonly [K in Column]?: string | number | null | readonly ChargedPart[];
};

/** A row of the feed, without its cursor. */
export type FedRow = LedgerRow & {
  readonly request_id: string;
  readonly billing_month: string;
  readonly end_user_id: string | null;
};

/**
 * One company's month with all columns, for operators: it leaves the tenant role. Oldest first, in batches from a
 * cursor, so that it takes the memory of one batch. It is one snapshot. Leaving the loop closes the cursor.
 * @param month its first day, "2026-11-01"
 * @param columns from `ledgerColumns`, which is asked by default
 */
export async function* exportLedger(
  sql: Sql,
  companyId: string,
  month: string,
  batch = 1000,
  columns?: readonly Column[],
): AsyncGenerator<readonly LedgerRow[]> {
  await leaveCompany(sql);
  await requireRows(sql, [month]);
  const chosenColumns = columns ?? (await ledgerColumns(sql));
  yield* sql<LedgerRow[]>`
    with ${sql.unsafe(namesOf(companyId))} select ${sql.unsafe(expressions(chosenColumns))}
    from ${sql.unsafe(WITH_COSTS)} ${sql.unsafe(WITH_NAMES)} where billing_month = ${month} and company_id = ${companyId}
    order by api_usage.occurred_at, request_id`.cursor(batch);
}

interface LedgerSelection {
  readonly companyId: string;
  readonly range: DayRange;
  readonly filters: UsageFilters;
  /** Whether to include the columns for operators: then it leaves the tenant role, which may not read all of them. */
  readonly internal: boolean;
  readonly form: CsvForm;
}

/**
 * The ledger rows that `readCompanyUsage` sums up for the same range and filters, as CSV with a heading, oldest first. The
 * database writes it, from one snapshot.
 * @throws DatabaseUnavailable when the reader left, and the connection with it
 * @throws Refused when rows of it are away
 */
export async function copyLedger(
  sql: ConnectionSql,
  asked: LedgerSelection,
  write: Write,
): Promise<void> {
  const { internal, form, range } = asked;
  await requireRows(sql, intervalsIn(range, 'month'));
  const columns = (await ledgerColumns(sql)).filter((name) => internal || !INTERNAL.includes(name));
  const rows = internal ? WITH_COSTS : 'api_usage';
  const text = `copy (with ${namesOf(asked.companyId)} select ${expressions(columns, form)} from ${rows} ${WITH_NAMES}
    where ${conditionOf(asked)} order by api_usage.occurred_at, request_id)
    to stdout with (format csv, header, delimiter ${constant(form.separator)})`;
  if (internal) await leaveCompany(sql);
  if (form.mark !== '' && !(await write(Buffer.from(form.mark)))) throwAbandoned();
  await copyOut(sql, text, write);
}

/**
 * Runs a "copy … to stdout" and passes its output on.
 * @throws DatabaseUnavailable when the reader left, and the connection with it
 */
export async function copyOut(sql: ConnectionSql, text: string, write: Write): Promise<void> {
  for await (const bytes of sql.copyOut(text)) {
    if (!(await write(bytes))) throwAbandoned();
  }
}

function throwAbandoned(): never {
  throw new DatabaseUnavailable('ABANDONED', 'the reader left');
}

/** The present names of a company and its keys. Materialized: the ledger may be on other servers. */
function namesOf(company: string): string {
  return `key_names as materialized (select id as key_id, name as api_key_name from api_keys where company_id = ${constant(company)}),
    company_names as materialized (select id as name_of, name as company_name from companies where id = ${constant(company)})`;
}

const WITH_NAMES =
  'left join key_names on key_id = api_key_id left join company_names on name_of = company_id';

/** COPY takes no parameters. */
function conditionOf({ companyId, range, filters }: LedgerSelection): string {
  const { whole, parts } = monthsIn(range);
  const begins = (day: string) => dayBegins(constant(day));
  const months = [
    ...(whole.length === 0 ? [] : [`billing_month in (${whole.map(constant)})`]),
    ...parts.map(
      ({ month, from, to }) =>
        `(billing_month = ${constant(month)} and occurred_at >= ${begins(from)} and occurred_at < ${begins(addDays(to, 1))})`,
    ),
  ];
  const chosen = Object.entries(filteredColumns(filters))
    .filter(([, value]) => value !== null)
    .map(([column, value]) => ` and ${column} = ${constant(value as string)}`);
  const keys =
    filters.keys === null ? '' : ` and api_key_id = any('{${filters.keys.join()}}'::uuid[])`;
  return `company_id = ${constant(companyId)} and (${months.join(' or ')})${keys}${chosen.join('')}`;
}

/** A constant of SQL. @throws TypeError for a text that Postgres cannot hold */
export function constant(text: string): string {
  if (text.includes('\0')) throw new TypeError('a NUL in a text');
  // with an escape string, a backslash means the same whatever the setting of the server
  return `E'${text.replaceAll('\\', '\\\\').replaceAll("'", "''")}'`;
}

/** A text of which a spreadsheet takes no part for a formula. @param text an expression */
export function withoutFormula(text: string): string {
  return `regexp_replace(${text}, ${constant(FORMULA)}, ${constant("\\1\\2'")}, 'g')`;
}

/** @param form how CSV is written; without it values are as they are */
function expressions(columns: readonly Column[], form?: CsvForm): string {
  const shown = (name: Column): string => {
    if (form !== undefined && TEXTS.includes(name)) return withoutFormula(EXPRESSIONS[name]);
    if (form !== undefined && form.decimal !== '.' && LEDGER_DECIMALS.includes(name))
      return `replace(${EXPRESSIONS[name]}, '.', ${constant(form.decimal)})`;
    return EXPRESSIONS[name];
  };
  return columns.map((name) => `${shown(name)} as ${name}`).join(', ');
}
