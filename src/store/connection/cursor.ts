import { PAGE_BYTES, type unpackedBytes } from './columns.ts';
import type { Sql } from './pool.ts';

/**
 * Pages of a list that are read one after another: each begins behind the last row of the one before, so that a list
 * that grows meanwhile skips and repeats none.
 */

/** Which page. */
export interface Range {
  /** The cursor of the last row that was read; null: from the first. */
  readonly after: string | null;
  /** The most rows of the page. */
  readonly limit: number;
}

/** A page, and the cursor with which the next one is read; null at the end. */
export interface CursorPage<T, C = string> {
  readonly rows: readonly T[];
  readonly next: C | null;
}

type Fragment = ReturnType<typeof unpackedBytes>;

/** The page that rows begin, of which one more was read than it has. */
export function cut<T, C>(
  rows: readonly T[],
  limit: number,
  cursorOf: (row: T) => C,
): CursorPage<T, C> {
  const page = rows.slice(0, limit);
  return { rows: page, next: rows.length > limit ? cursorOf(page.at(-1) as T) : null };
}

/** @param read reads as many rows as it is told, and no more */
export async function readPage<T extends { readonly id: string }>(
  { after, limit }: Range,
  read: (range: Range) => PromiseLike<readonly T[]>,
): Promise<CursorPage<T>> {
  return cut(await read({ after, limit: limit + 1 }), limit, ({ id }) => id);
}

/**
 * A page of rows that are ordered by id.
 * @param from "from … where …"
 * @param bytes of a row, where rows may be long: those of a page have `PAGE_BYTES` together at most, but for the first
 */
export async function pageById<T extends { readonly id: string }>(
  sql: Sql,
  { after, limit }: Range,
  columns: Fragment,
  from: Fragment,
  bytes: Fragment | null = null,
): Promise<CursorPage<T>> {
  const rows = (most: number) =>
    sql`${from} and (${after}::uuid is null or id > ${after}) order by id limit ${most}`;
  const read = (most: number) => sql<T[]>`select ${columns} ${rows(most)}`;
  if (bytes === null) return readPage({ after, limit }, (range) => read(range.limit));
  const [{ most }] = await sql<[{ most: number }]>`
    select greatest(count(*), 1)::integer as most from (
      select row_number() over place as place, sum(bytes) over place as so_far
      from (select id, ${bytes} as bytes ${rows(limit)}) listed window place as (order by id)) placed
    where place = 1 or so_far <= ${PAGE_BYTES}`;
  return readPage({ after, limit: most }, (range) => read(range.limit));
}
