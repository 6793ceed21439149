import {
  type DayRange,
  type MonthDays,
  monthsIn,
  monthsLessDays,
} from '../../domain/reports/day-range.ts';
import { TOKEN_DETAILS } from '../../domain/usage.ts';
import { matching } from '../connection/columns.ts';
import { KEY_DAYS } from '../connection/expressions.ts';
import type { Sql } from '../connection/pool.ts';
import { API_SPEND, SOURCES, SUMS, type Sums, withZone } from '../statement/sums.ts';

/**
 * The one reader of the sums of the ledger (sql/schema/sums.sql): any figures of a range of days, by any columns, from
 * the smallest table that has them.
 */

/** Which calls; null: all. The empty cost centre is of calls that name none. */
export interface UsageFilters {
  readonly model: string | null;
  readonly key: string | null;
  readonly endpoint: string | null;
  readonly cost_center: string | null;
  /** Calls of these keys alone, such as those of a person; null: of all. */
  readonly keys: readonly string[] | null;
}

export const NO_FILTERS: UsageFilters = {
  model: null,
  key: null,
  endpoint: null,
  cost_center: null,
  keys: null,
};

/** Two times that are compared, in the billing time zone. They may overlap. */
export interface Times {
  readonly before: DayRange;
  readonly after: DayRange;
}

export type Column =
  | 'company_id'
  | 'billing_month'
  | 'day'
  | 'api_key_id'
  | 'model_slug'
  | 'endpoint'
  | 'cost_center'
  | 'outcome'
  | 'usage_source'
  | 'rate';

/** `estimated` counts requests with estimated tokens, `unfinished` those that did not complete. */
export type Measure =
  | 'requests'
  | 'prompt_tokens'
  | 'completion_tokens'
  | 'cost_eur'
  | 'estimated'
  | 'unfinished'
  | (typeof TOKEN_DETAILS)[number];

export const SUMMED = ['requests', 'prompt_tokens', 'completion_tokens', 'cost_eur'] as const;

export type Fragment = ReturnType<typeof conditions>;

export interface Cube {
  /** Of two times each row has its `time`, 0 before and 1 after. */
  readonly range: DayRange | Times;
  /** null: all together. */
  readonly company: string | null;
  readonly filters?: UsageFilters;
  /** A further condition on columns. */
  readonly where?: { readonly columns: readonly Column[]; readonly holds: Fragment } | undefined;
  readonly by: readonly Column[];
  readonly measures: readonly Measure[];
}

/** The sums of calls, the smallest first. */
const OF_CALLS: readonly Sums[] = [
  API_SPEND,
  SUMS.model_days,
  SUMS.key_months,
  SUMS.company_days,
  SUMS.daily,
];
/** The columns of the ledger that are read of calls: the tenant role may not read all of them. */
const OF_CALL = [
  ...SUMS.daily.by.split(', ').filter((column) => column !== 'day'),
  ...['occurred_at', 'prompt_tokens', 'completion_tokens', 'cost_eur', 'rate'],
  ...TOKEN_DETAILS,
];
/** The calls themselves: no sum has what the tokens of a key consist of. */
const BY_CALL: Sums = {
  ...SUMS.daily,
  table: `${SOURCES.cells(withZone(`(select ${OF_CALL.join(', ')} from api_usage)`))} as calls`,
  figures: {
    requests: 'sum(requests)',
    ...Object.fromEntries(TOKEN_DETAILS.map((name) => [name, `sum(${name})`])),
  },
};
/** The calls that had a rate of their price: no sum has it. */
const BY_RATE: Sums = {
  ...BY_CALL,
  table: `(select * from ${BY_CALL.table} where rate is not null) as rated`,
  by: `${BY_CALL.by}, rate`,
  figures: { ...SUMS.daily.figures, ...BY_CALL.figures },
};
/** Figures of tables that have no column for them. */
const COUNTED: Partial<Record<Measure, readonly [column: Column, sql: string]>> = {
  estimated: ['usage_source', "case when usage_source = 'estimated' then requests else 0 end"],
  unfinished: ['outcome', "case when outcome <> 'completed' then requests else 0 end"],
};

/**
 * `by` and `measures`, a row for each group with calls. A month that a range covers whole has all calls that were billed
 * in it, and a part of one those of its days. The query may stand in another one, or behind `explain`.
 */
export function readCube(sql: Sql, asked: Cube): Fragment {
  const { range, by, measures } = asked;
  const sums = sql.unsafe(measures.map((name) => `sum(${name}) as ${name}`).join(', '));
  const counted = sql`having sum(requests) > 0`;
  if (!('before' in range)) {
    const columns = sql.unsafe(by.join(', '));
    return sql`select ${columns}, ${sums} from (${rowsOf(sql, asked, range)}) r group by ${columns} ${counted}`;
  }
  const columns = sql.unsafe(['time', ...by].join(', '));
  const [before, after] = [rowsOf(sql, asked, range.before), rowsOf(sql, asked, range.after)];
  return sql`select ${columns}, ${sums} from (
      select 0 as time, b.* from (${before}) b union all select 1, a.* from (${after}) a) r group by ${columns} ${counted}`;
}

/** Of each group what it cost `before` and `after`, where that differs. */
export function readMoves(
  sql: Sql,
  asked: Omit<Cube, 'measures'> & { readonly range: Times },
): Fragment {
  const cube = { ...asked, measures: ['cost_eur'] } as const;
  const [before, after] = [sourcesOf(cube, asked.range.before), sourcesOf(cube, asked.range.after)];
  // rows of a month are read once for both
  const rows = Map.groupBy([...before, ...after], ({ of, costs }, at) =>
    costs !== null && 'month' in of ? of.month : at,
  );
  const selected = [...rows.values()].map((sources) => {
    const cost = (of: readonly Source[]) =>
      sources
        .filter((source) => of.includes(source))
        .map(costOf)
        .join(' + ') || '0';
    const [first, second] = sources as [Source, Source?];
    const costs = first.costs && [...first.costs, ...(second?.costs ?? [])];
    return select(sql, cube, { ...first, costs }, [
      `${cost(before)} as before`,
      `${cost(after)} as after`,
    ]);
  });
  const columns = sql.unsafe(asked.by.join(', '));
  return sql`select ${columns}, sum(before) as before, sum(after) as after from (${union(sql, selected)}) r
    group by ${columns} having sum(before) <> sum(after)`;
}

/**
 * Groups rows in several ways at once: a row has the number of its way as `of`, the columns of all, of which the other
 * ways' are null, and the sums.
 */
export function grouped(
  sql: Sql,
  ways: readonly (readonly string[])[],
  sums: Fragment,
  rows: Fragment,
): Fragment {
  const columns = [...new Set(ways.flat())];
  // of a column that a way does not have, `grouping` has a bit, the last column the lowest
  const bits = (way: readonly string[]) =>
    columns.reduce((all, column) => all * 2 + (way.includes(column) ? 0 : 1), 0);
  const of = ways.map((way, at) => `when ${bits(way)} then ${at}`).join(' ');
  const sets = ways.map((way) => `(${way.join(', ')})`).join(', ');
  return sql`select ${sql.unsafe(`case grouping(${columns}) ${of} end as of, ${columns}`)}, ${sums} from ${rows}
    group by grouping sets (${sql.unsafe(sets)})`;
}

/** Sums over rows with columns of the same names. */
export function sumsOf(sql: Sql) {
  return sql.unsafe(SUMMED.map((name) => `sum(${name}) as ${name}`).join(', '));
}

/** The members of UsageSums, over the same rows: the cost as text, as a number of JSON would be rounded. */
export function usageSums(sql: Sql) {
  return sql`sum(requests)::float8 as requests, sum(prompt_tokens)::float8 as prompt_tokens,
    sum(completion_tokens)::float8 as completion_tokens, trim_scale(sum(cost_eur))::text as cost_eur`;
}

/** Rows of a table that a range consists of. */
interface Source {
  readonly table: Sums;
  /** Whole months, or some days of one. */
  readonly of: readonly string[] | MonthDays;
  /** Days that are taken from a month have "-". */
  readonly sign: '' | '-';
  /** The columns of these days in the rows of their month; null: the rows of days are read. */
  readonly costs: readonly string[] | null;
}

/** Rows of the columns and figures that are asked for. */
function rowsOf(sql: Sql, asked: Cube, range: DayRange): Fragment {
  const measures = [...new Set([...asked.measures, 'requests' as const])];
  const rows = sourcesOf(asked, range).map((source) => {
    const { table, sign, costs } = source;
    const figure = (name: Measure) => (costs === null ? `${sign}${figureOf(table, name)}` : '1');
    return select(
      sql,
      asked,
      source,
      measures.map((name) => `${name === 'cost_eur' ? costOf(source) : figure(name)} as ${name}`),
    );
  });
  return union(sql, rows);
}

/** From which tables a range is read: the smallest that have the columns and figures. */
function sourcesOf(
  { company, filters = NO_FILTERS, where, by, measures }: Cube,
  range: DayRange,
): Source[] {
  const matched = Object.entries({
    company_id: company,
    ...filteredColumns(filters),
    api_key_id: filters.keys ?? filters.key,
  });
  const filtered = matched.flatMap(([column, value]) => (value === null ? [] : [column]));
  const needed = [...by, ...filtered, ...(where?.columns ?? [])];
  const has = (table: Sums, columns: readonly string[]) =>
    columns.every((column) => columnsOf(table).includes(column));
  const tables = by.includes('rate')
    ? [BY_RATE]
    : measures.some((name) => TOKEN_DETAILS.some((detail) => detail === name))
      ? [SUMS.details, BY_CALL]
      : OF_CALLS;
  const smallest = (columns: readonly string[]) =>
    tables.find(
      (table) => has(table, columns) && measures.every((name) => figureOf(table, name) !== null),
    ) as Sums;
  const days = smallest([...needed, 'day']);
  const months = by.includes('day') ? days : smallest(needed);
  const { whole, parts } = monthsIn(range);
  const source = (table: Sums, sign: Source['sign'], of: Source['of']): Source => ({
    table,
    of,
    sign,
    costs: null,
  });
  if (parts.length === 0 || months === days)
    return [source(months, '', whole), ...parts.map((part) => source(days, '', part))];
  if (measures.every((name) => name === 'cost_eur') && has(SUMS.key_months, needed)) {
    const costs = ({ from, to }: MonthDays) =>
      KEY_DAYS.slice(Number(from.slice(8)) - 1, Number(to.slice(8)));
    return [
      source(months, '', whole),
      ...parts.map((of): Source => ({ ...source(SUMS.key_months, '', of), costs: costs(of) })),
    ];
  }
  const { months: most, added, taken } = monthsLessDays(range);
  return [
    source(months, '', most),
    ...added.map((part) => source(days, '', part)),
    ...taken.map((part) => source(days, '-', part)),
  ];
}

function costOf({ table, sign, costs }: Source): string {
  if (costs === null) return `${sign}${figureOf(table, 'cost_eur')}`;
  return costs.map((name) => `coalesce(${name}, 0)`).join(' + ');
}

function select(
  sql: Sql,
  { company, filters = NO_FILTERS, where, by }: Cube,
  source: Source,
  figures: readonly string[],
): Fragment {
  const { table, of, costs } = source;
  const days =
    'month' in of
      ? sql`billing_month = ${of.month}::date and ${costs === null ? sql`day between ${of.from}::date and ${of.to}::date` : sql`coalesce(${sql.unsafe(costs.join(', '))}) is not null`}`
      : sql`billing_month = any(${[...of]}::date[])`;
  const more = where === undefined ? sql`` : sql`and ${where.holds}`;
  return sql`select ${sql.unsafe([...by, ...figures].join(', '))} from ${sql.unsafe(table.table)}
    where ${conditions(sql, company, filters)} ${more} and ${days}`;
}

function union(sql: Sql, rows: readonly Fragment[]): Fragment {
  return rows.reduce((all, each) => sql`${all} union all ${each}`);
}

/** What is chosen of a table. */
export function conditions(sql: Sql, company: string | null, { keys, ...filters }: UsageFilters) {
  return sql`true ${matching(sql, { company_id: company, ...filteredColumns(filters) })} ${ofKeys(sql, keys)}`;
}

/** " and …" for calls of some keys alone. */
export function ofKeys(sql: Sql, keys: UsageFilters['keys']) {
  return keys === null ? sql`` : sql`and api_key_id = any(${[...keys]}::uuid[])`;
}

/** The columns of the filters that are one value, with their values. */
export function filteredColumns({ model, key, endpoint, cost_center }: Omit<UsageFilters, 'keys'>) {
  return { model_slug: model, api_key_id: key, endpoint, cost_center };
}

function columnsOf({ by }: Sums): readonly string[] {
  return by.split(', ');
}

/** SQL of a figure of a row; null where the table does not tell it. */
function figureOf(table: Sums, name: Measure): string | null {
  if (name in table.figures) return name;
  if (name === 'cost_eur' && 'api_cost_eur' in table.figures) return 'api_cost_eur';
  const [column, figure] = COUNTED[name] ?? [];
  return column !== undefined && columnsOf(table).includes(column) ? (figure as string) : null;
}
