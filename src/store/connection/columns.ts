import type { Setting, Settings } from '../../domain/settings/setting.ts';
import { nameSpelling } from '../../domain/visible-text.ts';
import type { Sql } from './pool.ts';

/** The most bytes that several rows of one answer have together: long ones would fill the memory of the pages' process. */
export const PAGE_BYTES = 2 << 20;

/** The bytes of a list before compression: Postgres compresses a long stored list, but not the result of `||`. */
export function unpackedBytes(sql: Sql, column: string) {
  return sql`pg_column_size(${sql(column)} || '{}')`;
}

/**
 * The columns that some values name, for `insert into … ${}` and `update … set ${}`: another one gets its default, or keeps
 * its value.
 * @param more columns with values in SQL
 */
export function namedColumns<T extends object>(
  sql: Sql,
  values: T,
  columns: readonly (keyof T & string)[],
  more: object = {},
) {
  const named = columns
    .filter((column) => values[column] !== undefined)
    .map((column) => [
      column,
      column === 'name' ? nameSpelling(values[column] as string) : values[column],
    ]);
  return sql({ ...Object.fromEntries(named), ...more } as Record<string, string>);
}

/** The columns of settings, for `select`: amounts as exact decimal text. */
export function settingColumns(sql: Sql, settings: Settings) {
  const columns = Object.entries(settings).map(([column, { kind }]) => {
    const value = EXPRESSIONS[kind]?.(column);
    return value === undefined ? column : `${value} as ${column}`;
  });
  return sql.unsafe(columns.join(', '));
}

/** Values that the driver does not read as they are. */
const EXPRESSIONS: { readonly [kind in Setting['kind']]?: (column: string) => string } = {
  amount: (column) => `trim_scale(${column})::text`,
  price: (column) => `trim_scale(${column})::text`,
  factor: (column) => `trim_scale(${column})::text`,
  number: (column) => `${column}::float8`, // all are below 2 ** 53
  list: (column) => `${column}::text[]`, // of networks, too
  instant: (column) => `nullif(${column}, 'infinity')`, // plain SQL may say so for never, which is no Date
};

/** " and column = value" for each column whose value is not null. */
export function matching(sql: Sql, values: Readonly<Record<string, string | null>>) {
  let conditions = sql``;
  for (const [column, value] of Object.entries(values)) {
    if (value !== null) conditions = sql`${conditions} and ${sql(column)} = ${value}`;
  }
  return conditions;
}
