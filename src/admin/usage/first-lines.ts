import type { PageContext } from '../page/context.ts';
import { type Html, html } from '../page/html.ts';
import { type Columns, table } from '../page/layout.ts';

/** Tables of a usage page show the first of their lines; the address asks for one of them whole: `?all=key`. */

/** Lines that a table shows unless it is asked for whole. */
export const FIRST_LINES = 10;
/** Of a table of sentences. */
const FIRST_REASONS = 5;
/** Most lines of one that is asked for whole. */
export const MAX_LINES = 50;
const WHOLE = 'all';

/** Tables, named after the subject of their lines. */
export type TableName =
  | 'model'
  | 'key'
  | 'endpoint'
  | 'cost_center'
  | 'company'
  | 'rows'
  | 'details'
  | 'reasons';

/** Whether the address asks for all lines of a table. */
export function isWhole(c: PageContext, name: TableName): boolean {
  return c.req.query(WHOLE) === name;
}

function shortOf(name: TableName): number {
  return name === 'reasons' ? FIRST_REASONS : FIRST_LINES;
}

/** The lines of a table that are shown, dearest first. */
export function firstLines<T>(c: PageContext, name: TableName, lines: readonly T[]): readonly T[] {
  return isWhole(c, name) ? lines : lines.slice(0, shortOf(name));
}

/**
 * A table with the way to all of its lines, or back to the first ones; the table alone where there are no more.
 * @param most lines that the whole table has, of `count`
 */
export function withAllLines(
  c: PageContext,
  name: TableName,
  { count, most }: { count: number; most: number },
  shown: Html,
): Html {
  const short = shortOf(name);
  if (most <= short) return shown;
  const { format } = c.var;
  const { things, whole, firstOf, firstOnly } = format.words.tables;
  const query = new URL(c.req.url).searchParams;
  const isAll = isWhole(c, name);
  if (isAll) query.delete(WHOLE);
  else query.set(WHOLE, name);
  const counts = { things: things[name], count: format.count(count), most: format.count(most) };
  const text = isAll
    ? firstOnly(format.count(short))
    : count > most
      ? firstOf(counts)
      : whole(counts);
  return html`<div id="by-${name}">${shown}<p class="more"><a href="${c.req.path}${query.size === 0 ? '' : html`?${query}`}#by-${name}">${text}</a></p></div>`;
}

/** A table of figures behind their name, the dearest first. @param count how many lines there are in all */
export function firstTable<T>(
  c: PageContext,
  name: TableName,
  caption: string,
  lines: readonly T[],
  cells: Columns<T>['cells'],
  count = lines.length,
): Html {
  const most = lines.slice(0, MAX_LINES);
  const shown = table(caption, firstLines(c, name, most), { cells }, false, 'sums');
  return withAllLines(c, name, { count, most: most.length }, shown);
}
