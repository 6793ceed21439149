import { type DayRange, daysIn, intervalOf } from '../../domain/reports/day-range.ts';
import { restOf } from '../../domain/usage.ts';
import { endpointText } from '../../domain/wording/endpoint.ts';
import {
  type Group,
  type Heading,
  isTime,
  type TableQuery,
  type UsageTable,
} from '../../store/usage/usage-table.ts';
import { MAX_SERIES } from '../page/chart.ts';
import type { PageContext } from '../page/context.ts';
import type { Format } from '../page/format.ts';
import { type Html, html } from '../page/html.ts';
import { muted } from '../page/layout.ts';
import { FIRST_LINES, isWhole, MAX_LINES, withAllLines } from './first-lines.ts';
import { queryOf, type UsageQuery } from './usage-query.ts';

/** A figure by two groups, as a table. */

/** Lines and columns of a table that is asked for whole; more are one. A column for each day leaves room for fewer lines. */
const MOST = { rows: MAX_LINES, columns: 12, cells: 800 };

/** The question of a table of two groups, which is drawn over days, or over months where they are many. */
export function tableQuery(
  c: PageContext,
  { range, figure }: UsageQuery,
  [rows, columns]: readonly [Group, Group],
): TableQuery {
  const most = {
    rows: isWhole(c, 'rows') ? mostRows(range, columns) : FIRST_LINES,
    columns: MOST.columns,
  };
  const at = intervalOf(range) === 'month' ? 'month' : 'day';
  const over = isTime(rows) || isTime(columns) ? undefined : ({ at, most: MAX_SERIES } as const);
  return { rows, columns, metric: figure, range, most, over };
}

/** Lines of a table that is asked for whole. */
function mostRows(range: DayRange, columns: Group): number {
  const count = columns === 'day' ? daysIn(range) : MOST.columns;
  return Math.max(FIRST_LINES, Math.min(MOST.rows, Math.floor(MOST.cells / count)));
}

/** The table with the way to all of its lines. @param filters of the page, to which lines lead */
export function wholeGrid(
  c: PageContext,
  query: UsageQuery,
  table: UsageTable,
  filters: readonly string[],
): Html {
  const { grid: words } = c.var.format.words;
  const [rows, columns] = [query.by as Group, query.and as Group];
  if (table.rows.length === 0) return html``;
  const title = words.title({
    metric: words.metrics[query.figure],
    rows: words.groups[rows],
    columns: words.groups[columns],
  });
  const count = table.rows.length + table.other_rows;
  const most = Math.min(count, mostRows(query.range, columns));
  const shown = grid(title, [rows, columns], query, table, filters, c.var.format);
  return html`<h2>${title}</h2>${withAllLines(c, 'rows', { count, most }, shown)}<p class="muted foot">${words.foot}</p>`;
}

/** Steps of the shade of a field. */
const SHADES = 4;

function grid(
  title: string,
  [rows, columns]: readonly [Group, Group],
  query: UsageQuery,
  table: UsageTable,
  filters: readonly string[],
  format: Format,
): Html {
  const { grid: words, tables } = format.words;
  const highest = Math.max(...table.cells.flat().map(Number));
  const cell = (value: string, isTotal: boolean) => {
    const shade =
      isTotal || highest <= 0 ? 0 : Math.ceil((Math.max(0, Number(value)) / highest) * SHADES);
    const text = query.figure === 'cost_eur' ? format.amount(value) : format.count(Number(value));
    return html`<td class="figure${shade === 0 ? '' : ` shade-${shade}`}">${/[1-9]/.test(value) ? text : '–'}</td>`;
  };
  const line = (name: Html | string, total: string, cells: readonly string[], isTotal = false) => {
    const rest = table.other_columns > 0 ? [restOf(total, cells)] : [];
    return html`<tr><th scope="row">${name}</th>${cell(total, true)}${[...cells, ...rest].map((value) => cell(value, isTotal))}</tr>`;
  };
  const totals = table.columns.map(({ total }) => total);
  const otherTotal = restOf(
    table.total,
    table.rows.map(({ total }) => total),
  );
  const others = table.columns.map(({ total }, at) =>
    restOf(
      total,
      table.cells.map((cells) => cells[at] as string),
    ),
  );
  const head = (heading: Heading) =>
    html`<th scope="col" class="figure">${headingText(columns, heading, format)}</th>`;
  return html`<div class="scroll" role="region" aria-label="${title}" tabindex="0"><table class="plain grid"><caption class="sr">${title}</caption>
<thead><tr><th scope="col">${words.groups[rows]}</th><th scope="col" class="figure">${words.all}</th>${table.columns.map(head)}${table.other_columns > 0 ? html`<th scope="col" class="figure">${tables.others(table.other_columns, format.count(table.other_columns))}</th>` : ''}</tr></thead>
<tbody>${line(words.all, table.total, totals, true)}${table.rows.map((heading, at) =>
    line(
      linkOf(rows, heading, query, filters, format),
      heading.total,
      table.cells[at] as readonly string[],
    ),
  )}${table.other_rows > 0 ? line(muted(tables.others(table.other_rows, format.count(table.other_rows))), otherTotal, others) : ''}</tbody></table></div>`;
}

/** A line leads to the usage that it counts, in the same days, where there is a page of it. */
function linkOf(
  group: Group,
  heading: Heading,
  query: UsageQuery,
  filters: readonly string[],
  format: Format,
): Html {
  const { value, name } = heading;
  const isGone = name === null && (group === 'company' || group === 'key');
  const text =
    isGone || value === ''
      ? muted(headingText(group, heading, format))
      : headingText(group, heading, format);
  const plain = { ...query, by: null, and: null, against: null, as: null };
  if (group === 'company' && name !== null)
    return html`<a href="/companies/${value}/usage${queryOf(plain)}">${text}</a>`;
  if (group === 'day')
    return html`<a href="${queryOf(plain, { from: value, to: value })}">${text}</a>`;
  return filters.includes(group)
    ? html`<a href="${queryOf(plain, { [group]: value })}">${text}</a>`
    : html`${text}`;
}

export function headingText(group: Group, { value, name }: Heading, format: Format): string {
  switch (group) {
    case 'company':
    case 'key':
      return name ?? format.words.grid.gone(value.slice(0, 8));
    case 'endpoint':
      return endpointText(format.words.endpoints, value);
    case 'outcome':
      return (format.words.tables.outcomes as Readonly<Record<string, string>>)[value] ?? value;
    case 'day':
      return format.shortDay(value);
    case 'month':
      return format.month(value);
    default:
      return value || format.words.grid.none;
  }
}
