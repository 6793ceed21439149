import { FieldError } from '../../domain/field.ts';
import { refusal, unknownCompany } from '../../domain/refusal.ts';
import { type DayRange, intervalOf } from '../../domain/reports/day-range.ts';
import * as schema from '../../domain/settings/schema.ts';
import type { Sql } from '../connection/pool.ts';
import { upToNow } from './company-usage.ts';
import {
  type Column,
  type Cube,
  type Fragment,
  NO_FILTERS,
  readCube,
  type UsageFilters,
} from './cube.ts';

/** One figure by two groups of one's choice, such as cost by model and key. Exact sums of the ledger. */

/** What usage is grouped by: of a company, and of all companies. */
export const COMPANY_GROUPS = [
  'model',
  'key',
  'endpoint',
  'cost_center',
  'outcome',
  'day',
  'month',
] as const;
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
  /** Also the largest fields by day or month, so many of them. */
  readonly over?: { readonly at: 'day' | 'month'; readonly most: number } | undefined;
}

/** A figure of a day or month ("2026-11-01"): of a field, or of all calls where row and column are null. */
export interface OverTime {
  readonly at: string;
  readonly r: string | null;
  readonly c: string | null;
  /** Exact decimal text. */
  readonly n: string;
}

/** A line or a column: its value is a slug, an id, a name, a day or a month. The name is null for a company or key that no longer exists. */
const heading = schema.object({
  value: schema.string,
  name: schema.textOrNull,
  total: schema.string,
});

export const USAGE_TABLE = schema.object({
  // by cost also where another figure is shown
  rows: schema.array(heading, 'the dearest first; days and months in order'),
  columns: schema.array(heading),
  cells: schema.array(schema.array(schema.string), 'by row and column, exact decimal text'),
  other_rows: schema.described(schema.count, 'how many more there are'),
  other_columns: schema.count,
  total: schema.string,
});

export type Heading = schema.Value<typeof heading>;
export interface UsageTable extends schema.Value<typeof USAGE_TABLE> {
  /** Where the question asks for it, in order of time. */
  readonly over?: readonly OverTime[];
}

const COLUMNS: Readonly<Record<Group, Column>> = {
  company: 'company_id',
  model: 'model_slug',
  key: 'api_key_id',
  endpoint: 'endpoint',
  cost_center: 'cost_center',
  outcome: 'outcome',
  day: 'day',
  month: 'billing_month',
};
export const isTime = (group: Group | null): group is 'day' | 'month' =>
  group === 'day' || group === 'month';

/** @throws FieldError for groups that cannot be together; Refused missing */
export async function readUsageTable(
  sql: Sql,
  companyId: string,
  filters: UsageFilters,
  query: TableQuery,
): Promise<UsageTable & { readonly company_name: string }> {
  checkGroups(query);
  const [company] = await sql<
    { name: string }[]
  >`select name from companies where id = ${companyId}`;
  if (company === undefined) unknownCompany(companyId);
  return {
    company_name: company.name,
    ...(await readTable(sql, query, { company: companyId, filters })),
  };
}

/** The same of all companies. @param model null: all @throws FieldError */
export async function readAllTable(
  sql: Sql,
  query: TableQuery,
  model: string | null = null,
): Promise<UsageTable> {
  checkGroups(query);
  const of = { company: null, filters: { ...NO_FILTERS, model } };
  return readTable(sql, query, of);
}

/** Refuses groups that cannot be together. @throws FieldError about the columns */
export function checkGroups({
  rows,
  columns,
  range,
}: Pick<TableQuery, 'rows' | 'columns' | 'range'>): void {
  if (rows === columns) throw new FieldError(refusal('sameGroup'));
  if ((rows === 'day' || columns === 'day') && intervalOf(range) === 'month')
    throw new FieldError(refusal('tooManyDays'));
}

interface Row {
  readonly rows: readonly Ranked[];
  readonly columns: readonly Ranked[];
  readonly cells: readonly { readonly r: string; readonly c: string; readonly n: string }[];
  readonly total: string;
  readonly over?: readonly OverTime[];
}

interface Ranked extends Heading {
  readonly count: number;
}

/** @param of whose calls */
async function readTable(
  sql: Sql,
  { rows, columns, metric, range, most, over }: TableQuery,
  of: Pick<Cube, 'company' | 'filters'>,
): Promise<UsageTable> {
  await sql`select set_config('work_mem', '32MB', true)`;
  const mostOf = (group: Group, given: number) => (isTime(group) ? Number.MAX_SAFE_INTEGER : given);
  // too many values to read all of their rows: those that cost most are found first
  const many = of.company === null ? 'company' : 'key';
  const long = rows === many || columns === many ? many : null;
  const mostShown = long === rows ? most.rows : most.columns;
  const measures = [...new Set([metric, 'cost_eur' as const])];
  const by = [COLUMNS[rows], COLUMNS[columns]] as const;
  const id = COLUMNS[many];
  const costs = readCube(sql, {
    ...of,
    range: await upToNow(sql, range),
    by: [id],
    measures: ['cost_eur'],
  });
  const shown = {
    columns: [id],
    holds: sql`${sql(id)} = any(array(select id from shown))`,
  } as const;
  const cells = readCube(sql, {
    ...of,
    range,
    where: long === null ? undefined : shown,
    by,
    measures,
  });
  const other = COLUMNS[long === rows ? columns : rows];
  const sums = (from: Fragment) =>
    sql`select ${sql(other)}::text as value, ${sql(metric)} as n, cost_eur as cost from (${from}) m`;
  // tables of the WITH clause: one that is spread over servers is not joined with another
  const overTime = ({ at, most }: NonNullable<TableQuery['over']>) => {
    const ofField = readCube(sql, {
      ...of,
      range,
      where: long === null ? undefined : shown,
      by: [COLUMNS[at], ...by],
      measures,
    });
    const ofAll = readCube(sql, { ...of, range, by: [COLUMNS[at]], measures });
    const time = sql.unsafe(COLUMNS[at]);
    // a month may have calls of days beside it, which no bar shows
    const isShown =
      at === 'day' ? sql`where day between ${range.from}::date and ${range.to}::date` : sql``;
    return sql`,
    of_field as materialized (
      select ${time} as at, ${sql(by[0])}::text as r, ${sql(by[1])}::text as c, ${sql(metric)} as n from (${ofField}) d ${isShown}
    ),
    of_all as materialized (select ${time} as at, ${sql(metric)} as n from (${ofAll}) d ${isShown}),
    picked as materialized (
      select r, c from cells where r in (select value from shown_rows) and c in (select value from shown_columns)
      order by n desc, cost desc, r, c limit ${most}
    )`;
  };
  const [row] = await sql<[Row]>`
    with costs as materialized (${
      long === null
        ? sql`select null::uuid as id, 0::numeric as cost where false`
        : sql`select ${sql(id)} as id, cost_eur as cost from (${costs}) k`
    }),
    shown as materialized (select * from costs order by cost desc, id limit ${mostShown}),
    cells as materialized (
      select ${sql(by[0])}::text as r, ${sql(by[1])}::text as c, ${sql(metric)} as n, cost_eur as cost from (${cells}) d
      where ${sql(metric)} <> 0 or cost_eur <> 0
    ),
    margin as materialized (${
      long === null
        ? sql`select r as value, n, cost from cells`
        : sums(readCube(sql, { ...of, range, by: [other], measures }))
    }),
    row_list as materialized (${ranked(sql, rows, sql`r`, long)}),
    column_list as materialized (${ranked(sql, columns, sql`c`, long)}),
    shown_rows as materialized (select * from row_list order by place limit ${mostOf(rows, most.rows)}),
    shown_columns as materialized (select * from column_list order by place limit ${mostOf(columns, most.columns)})
    ${over === undefined ? sql`` : overTime(over)}
    select ${headings(sql, rows, sql`shown_rows`)} as rows, ${headings(sql, columns, sql`shown_columns`)} as columns,
      (select coalesce(jsonb_agg(jsonb_build_object('r', r, 'c', c, 'n', trim_scale(n)::text)), '[]') from cells
        where r in (select value from shown_rows) and c in (select value from shown_columns)) as cells,
      (select trim_scale(coalesce(sum(n), 0))::text from margin) as total
      ${over === undefined ? sql`` : drawnOver(sql)}`;
  return tableOf(row);
}

const drawnOver = (sql: Sql) => sql`, (
  select coalesce(jsonb_agg(jsonb_build_object('at', to_char(at, 'YYYY-MM-DD'), 'r', r, 'c', c, 'n', trim_scale(n)::text) order by at, r, c), '[]')
  from (select at, r, c, n from of_field join picked using (r, c) union all select at, null, null, n from of_all) o) as over`;

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

function tableOf({ rows, columns, cells, total, over }: Row): UsageTable {
  const places = { r: placesOf(rows), c: placesOf(columns) };
  const grid = rows.map(() => columns.map(() => '0'));
  for (const { r, c, n } of cells) {
    const line = grid[places.r.get(r) as number] as string[];
    line[places.c.get(c) as number] = n;
  }
  const plain = (headings: readonly Ranked[]) =>
    headings.map(({ count: _, ...heading }) => heading);
  const others = (headings: readonly Ranked[]) => (headings[0]?.count ?? 0) - headings.length;
  return {
    rows: plain(rows),
    columns: plain(columns),
    cells: grid,
    other_rows: others(rows),
    other_columns: others(columns),
    total,
    ...(over && { over }),
  };
}

function placesOf(headings: readonly Heading[]): ReadonlyMap<string, number> {
  return new Map(headings.map(({ value }, at) => [value, at]));
}
