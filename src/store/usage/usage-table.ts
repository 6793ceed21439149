import { FieldError } from '../../domain/field.ts';
import { refusal } from '../../domain/input/refusal.ts';
import { formatEur, parseEur } from '../../domain/money.ts';
import { type DayRange, intervalOf } from '../../domain/text/day-range.ts';
import { unknownCompany } from '../../domain/text/refused-change.ts';
import type { Sql } from '../connection/pool.ts';
import { companyCosts } from './all-usage.ts';
import {
  chosenRows,
  dailyRows,
  isOfAllKeys,
  keyCosts,
  monthlyRows,
  type UsageFilters,
  upToNow,
} from './company-usage.ts';

/** One figure by two groups of one's choice, such as cost by model and key. Exact sums of the ledger. */

/** What usage is grouped by: of a company, and of all companies. */
export const COMPANY_GROUPS = ['model', 'key', 'endpoint', 'cost_center', 'outcome', 'day', 'month'] as const;
export const ALL_GROUPS = ['company', 'model', 'day', 'month'] as const;
export type Group = (typeof COMPANY_GROUPS)[number] | (typeof ALL_GROUPS)[number];
export const METRICS = ['cost_eur', 'requests', 'prompt_tokens', 'completion_tokens'] as const;
export type Metric = (typeof METRICS)[number];

export interface TableQuery {
  readonly rows: Group;
  readonly columns: Group;
  readonly metric: Metric;
  readonly range: DayRange;
  /** The most lines and columns; the rest is counted in one. Days and months are all there. */
  readonly most: { readonly rows: number; readonly columns: number };
}

/** A line or a column: its value is a slug, an id, a name, a day or a month. */
export interface Heading {
  readonly value: string;
  /** Of a company or key; null for one that no longer exists. */
  readonly name: string | null;
  /** Exact decimal text. */
  readonly total: string;
}

export interface UsageTable {
  /** Those that cost most first, whatever the figure; days and months in order. */
  readonly rows: readonly Heading[];
  readonly columns: readonly Heading[];
  /** By row and column; exact decimal text. */
  readonly cells: readonly (readonly string[])[];
  /** How many more there are. */
  readonly other_rows: number;
  readonly other_columns: number;
  readonly total: string;
}

const EXPRESSIONS: Readonly<Record<Group, string>> = {
  company: 'company_id::text',
  model: 'model_slug',
  key: 'api_key_id::text',
  endpoint: 'endpoint',
  cost_center: 'cost_center',
  outcome: 'outcome',
  day: "to_char(day, 'YYYY-MM-DD')",
  month: "to_char(billing_month, 'YYYY-MM-DD')",
};
const isTime = (group: Group): boolean => group === 'day' || group === 'month';

type Fragment = ReturnType<typeof chosenRows>;

/** What a table is made of. */
interface Source {
  /** Rows of `r`, `c`, `n` and `cost` that are added up; of the shown ones alone where there is a long group. */
  readonly cells: Fragment;
  /** The group with too many values to read all of their rows: its costs, by id; and sums of the other group. */
  readonly long: { readonly of: Group; readonly costs: Fragment; readonly margin: Fragment } | null;
}

/** @throws FieldError for groups that cannot be together; RefusedChange not_found */
export async function readUsageTable(
  sql: Sql,
  companyId: string,
  filters: UsageFilters,
  query: TableQuery,
): Promise<UsageTable & { readonly company_name: string }> {
  checkGroups(query);
  const { rows, columns, metric, range } = query;
  const [company] = await sql<{ name: string }[]>`select name from companies where id = ${companyId}`;
  if (company === undefined) unknownCompany(companyId);
  const chosen = chosenRows(sql, companyId, filters);
  const select = (r: Group, c: Group, table: string, sign = '') =>
    sql`select ${sql.unsafe(`${EXPRESSIONS[r]} as r, ${EXPRESSIONS[c]} as c, ${sign}${metric} as n, ${sign}cost_eur as cost from ${table}`)} where ${chosen}`;
  if ((rows !== 'key' && columns !== 'key') || !isOfAllKeys(filters)) {
    const table = isOfAllKeys(filters) && rows !== 'key' && columns !== 'key' ? 'usage_company_days' : 'usage_daily';
    const source = { cells: dailyRows(sql, range, select(rows, columns, table)), long: null };
    return { company_name: company.name, ...(await readTable(sql, query, source)) };
  }
  const other = rows === 'key' ? columns : rows;
  const shown = sql`and api_key_id = any(array(select id from shown))`;
  const ofKeys = (table: string, sign = '') => sql`${select(rows, columns, table, sign)} ${shown}`;
  const cells =
    other === 'day'
      ? dailyRows(sql, range, ofKeys('usage_daily'))
      : monthlyRows(sql, range, {
          months: ofKeys('usage_monthly'),
          added: ofKeys('usage_daily'),
          taken: ofKeys('usage_daily', '-'),
        });
  const costs = sql`select api_key_id as id, cost from (${keyCosts(sql, companyId, range, filters)}) k`;
  const margin = dailyRows(sql, range, select(other, other, 'usage_company_days'));
  return {
    company_name: company.name,
    ...(await readTable(sql, query, { cells, long: { of: 'key', costs, margin } })),
  };
}

/** The same of all companies. @throws FieldError */
export async function readAllTable(sql: Sql, query: TableQuery): Promise<UsageTable> {
  checkGroups(query);
  const { rows, columns, metric, range } = query;
  const select = (r: Group, c: Group, table: string, where = sql`true`) =>
    sql`select ${sql.unsafe(`${EXPRESSIONS[r]} as r, ${EXPRESSIONS[c]} as c, ${metric} as n, cost_eur as cost from ${table}`)} where ${where}`;
  if (rows !== 'company' && columns !== 'company')
    return readTable(sql, query, {
      cells: dailyRows(sql, range, select(rows, columns, 'usage_model_days')),
      long: null,
    });
  const other = rows === 'company' ? columns : rows;
  const shown = sql`company_id = any(array(select id from shown))`;
  const cells = dailyRows(sql, range, select(rows, columns, 'usage_company_days', shown));
  const costs = sql`select company_id as id, cost from (${companyCosts(sql, await upToNow(sql, range))}) k`;
  const margin = dailyRows(sql, range, select(other, other, 'usage_model_days'));
  return readTable(sql, query, { cells, long: { of: 'company', costs, margin } });
}

/** Refuses groups that cannot be together. @throws FieldError about the columns */
export function checkGroups({ rows, columns, range }: Pick<TableQuery, 'rows' | 'columns' | 'range'>): void {
  if (rows === columns) throw new FieldError(refusal('sameGroup'));
  if ((rows === 'day' || columns === 'day') && intervalOf(range) === 'month')
    throw new FieldError(refusal('tooManyDays'));
}

interface Row {
  readonly rows: readonly Ranked[];
  readonly columns: readonly Ranked[];
  readonly cells: readonly { readonly r: string; readonly c: string; readonly n: string }[];
  readonly total: string;
}

interface Ranked extends Heading {
  readonly count: number;
}

async function readTable(sql: Sql, query: TableQuery, { cells, long }: Source): Promise<UsageTable> {
  const { rows, columns, most } = query;
  await sql`select set_config('work_mem', '32MB', true)`;
  const mostOf = (group: Group, given: number) => (isTime(group) ? Number.MAX_SAFE_INTEGER : given);
  const mostShown = long?.of === rows ? most.rows : most.columns;
  const [row] = await sql<[Row]>`
    with costs as materialized (${long?.costs ?? sql`select null::uuid as id, 0::numeric as cost where false`}),
    shown as materialized (select * from costs order by cost desc, id limit ${mostShown}),
    cells as materialized (select r, c, sum(n) as n, sum(cost) as cost from (${cells}) d group by 1, 2 having sum(n) <> 0 or sum(cost) <> 0),
    margin as materialized (${
      long === null
        ? sql`select r as value, n, cost from cells`
        : sql`select r as value, sum(n) as n, sum(cost) as cost from (${long.margin}) m group by 1`
    }),
    row_list as materialized (${ranked(sql, rows, sql`r`, long?.of ?? null)}),
    column_list as materialized (${ranked(sql, columns, sql`c`, long?.of ?? null)}),
    shown_rows as materialized (select * from row_list order by place limit ${mostOf(rows, most.rows)}),
    shown_columns as materialized (select * from column_list order by place limit ${mostOf(columns, most.columns)})
    select ${headings(sql, rows, sql`shown_rows`)} as rows, ${headings(sql, columns, sql`shown_columns`)} as columns,
      (select coalesce(jsonb_agg(jsonb_build_object('r', r, 'c', c, 'n', trim_scale(n)::text)), '[]') from cells
        where r in (select value from shown_rows) and c in (select value from shown_columns)) as cells,
      (select trim_scale(coalesce(sum(n), 0))::text from margin) as total`;
  return tableOf(row);
}

/** The values of a group with `n`, their `count` and their `place`. @param column of the table `cells` */
function ranked(sql: Sql, group: Group, column: Fragment, long: Group | null): Fragment {
  const order = isTime(group) ? sql`value` : sql`cost desc, value`;
  const ofCells = sql`select ${column} as value, sum(n) as n, sum(cost) as cost from cells group by 1`;
  const from =
    long === null
      ? ofCells
      : long === group
        ? sql`select id::text as value, coalesce(n, 0) as n, s.cost from shown s left join (${ofCells}) t on t.value = s.id::text`
        : sql`select value, n, cost from margin where n <> 0 or cost <> 0`;
  const count = long === group ? sql`(select count(*) from costs)` : sql`count(*) over ()`;
  return sql`select value, n, ${count} as count, row_number() over (order by ${order}) as place from (${from}) v`;
}

/** The headings as JSON, with the names of companies and keys. */
function headings(sql: Sql, group: Group, from: Fragment): Fragment {
  const name =
    group === 'company'
      ? sql`(select name from companies where id = value::uuid)`
      : group === 'key'
        ? sql`(select k.name || ' (' || k.prefix || '…)' from api_keys k where k.id = value::uuid)`
        : sql`null`;
  return sql`(
    select coalesce(jsonb_agg(jsonb_build_object('value', value, 'name', ${name}, 'total', trim_scale(n)::text, 'count', count) order by place), '[]')
    from ${from})`;
}

function tableOf({ rows, columns, cells, total }: Row): UsageTable {
  const places = { r: placesOf(rows), c: placesOf(columns) };
  const grid = rows.map(() => columns.map(() => '0'));
  for (const { r, c, n } of cells) {
    const line = grid[places.r.get(r) as number] as string[];
    line[places.c.get(c) as number] = n;
  }
  const plain = (headings: readonly Ranked[]) => headings.map(({ count: _, ...heading }) => heading);
  const others = (headings: readonly Ranked[]) => (headings[0]?.count ?? 0) - headings.length;
  return {
    rows: plain(rows),
    columns: plain(columns),
    cells: grid,
    other_rows: others(rows),
    other_columns: others(columns),
    total,
  };
}

function placesOf(headings: readonly Heading[]): ReadonlyMap<string, number> {
  return new Map(headings.map(({ value }, at) => [value, at]));
}

/** What is left of a total without some parts; exact. */
export function restOf(total: string, parts: readonly string[]): string {
  return formatEur(parts.reduce((rest, part) => rest - parseEur(part), parseEur(total)));
}
