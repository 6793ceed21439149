import { FieldError, oneOf } from '../../domain/field.ts';
import { fieldText } from '../../domain/language/refusal-text.ts';
import { type DayRange, daysIn } from '../../domain/reports/day-range.ts';
import { endpointText } from '../../domain/wording/endpoint.ts';
import {
  COMPANY_GROUPS,
  checkGroups,
  type Group,
  type Heading,
  METRICS,
  type Metric,
  readUsageTable,
  restOf,
  type TableQuery,
  type UsageTable,
} from '../../store/usage/usage-table.ts';
import { type PageContext, param, type Route, read } from '../page/context.ts';
import { field, formState, select } from '../page/field.ts';
import { Form } from '../page/form.ts';
import type { Format } from '../page/format.ts';
import { type Html, html } from '../page/html.ts';
import { companyHeading, emptyText, exactSwitch, muted, page } from '../page/layout.ts';
import { FIRST_LINES, isWhole, withAllLines } from './first-lines.ts';
import { FILTERS, filterChips, inQuery, queryOf, rangeText, readUsageQuery, type UsageQuery } from './usage-query.ts';

/** One figure by two groups of one's choice, all of it in the address: `?rows=model&columns=key&metric=cost_eur`. */
export const usageGridRoutes: readonly Route[] = [
  { method: 'GET', path: '/companies/:company/usage/table', action: 'usage.read', handle: gridPage },
];

/** Lines and columns of a table that is asked for whole; more are one. A column for each day leaves room for fewer lines. */
const MOST = { rows: 50, columns: 12, cells: 800 };

async function gridPage(c: PageContext): Promise<Response> {
  const id = param(c, 'company');
  const query = readUsageQuery(c);
  const asked = readGridQuery(c, query, COMPANY_GROUPS, { rows: 'model', columns: 'key' });
  const table = await read(c, (sql) => readUsageTable(sql, id, query.filters, asked));
  const heading = companyHeading(c, { id, name: table.company_name });
  return showGrid(c, { query, asked, table, groups: COMPANY_GROUPS, heading, of: table.company_name, ofCompany: true });
}

/** The groups and the figure in the address; a mistake is noted in the form, and the defaults hold. */
export function readGridQuery(
  c: PageContext,
  { range, form }: UsageQuery,
  groups: readonly Group[],
  fallback: Pick<TableQuery, 'rows' | 'columns'>,
): TableQuery {
  const rows = form.optional('rows', oneOf(...groups)) as Group | null;
  const columns = form.optional('columns', oneOf(...groups)) as Group | null;
  const metric = form.optional('metric', oneOf(...METRICS)) as Metric | null;
  const query: TableQuery = {
    rows: rows ?? (columns === fallback.rows ? fallback.columns : fallback.rows),
    columns: columns ?? (rows === fallback.columns ? fallback.rows : fallback.columns),
    metric: metric ?? 'cost_eur',
    range,
    most: mostOf(range, columns ?? fallback.columns, isWhole(c, 'rows')),
  };
  try {
    checkGroups(query);
  } catch (error) {
    if (!(error instanceof FieldError)) throw error;
    form.refuse('columns', `${fieldText(form.words, error)}.`);
    return { ...query, ...fallback };
  }
  return query;
}

function mostOf(range: DayRange, columns: Group, isAll: boolean): TableQuery['most'] {
  return { rows: isAll ? mostRows(range, columns) : FIRST_LINES, columns: MOST.columns };
}

/** Lines of a table that is asked for whole. */
function mostRows(range: DayRange, columns: Group): number {
  const count = columns === 'day' ? daysIn(range) : MOST.columns;
  return Math.max(FIRST_LINES, Math.min(MOST.rows, Math.floor(MOST.cells / count)));
}

interface Shown {
  readonly query: UsageQuery;
  readonly asked: TableQuery;
  readonly table: UsageTable;
  readonly groups: readonly Group[];
  readonly heading: Html | string;
  /** Whose usage it is. */
  readonly of: string;
  /** Whether it is of one company, whose usage page has filters. */
  readonly ofCompany: boolean;
}

/** The page with the table. */
export async function showGrid(c: PageContext, shown: Shown): Promise<Response> {
  const { query, asked, table, heading, of } = shown;
  const { format } = c.var;
  const { grid: words, change, usage } = format.words;
  const when = rangeText(query.range, format);
  const { rows, columns, metric } = asked;
  const name = words.title({
    metric: words.metrics[metric],
    rows: words.groups[rows],
    columns: words.groups[columns],
    when,
  });
  const body = html`${heading}<div class="title-row"><h1>${name}</h1><a class="button quiet" href="../usage${queryOf(query)}">${change.usage}</a></div>
${choices(c, shown)}
${table.rows.length === 0 ? emptyText(usage.noCalls({ when, isFiltered: FILTERS.some((each) => query.filters[each] !== null) })) : wholeGrid(c, grid(name, shown, format), shown)}
<p class="muted foot">${words.foot} ${exactSwitch(c)}</p>`;
  if (query.form.messages.size > 0) c.status(422);
  return page(c, `${name}: ${of}`, body);
}

function choices(c: PageContext, { query, asked, groups }: Shown): Html {
  const { range, form, filters } = query;
  const { grid: words, usage } = c.var.format.words;
  const state = formState(form.messages.size > 0 ? form : new Form(undefined, null, form.language), c.req.path);
  const texts = groups.map((group) => [group, words.groups[group]] as const);
  const kept = FILTERS.filter((name) => filters[name] !== null);
  return html`<div class="usage-bar"><form method="get" action="${c.req.path}" class="filters">
${kept.map((name) => html`<input type="hidden" name="${name}" value="${inQuery(filters[name] as string)}">`)}
${select(state, { name: 'metric', label: words.figure, choices: Object.entries(words.metrics), value: asked.metric })}
${select(state, { name: 'rows', label: words.rows, choices: texts, value: asked.rows })}
${select(state, { name: 'columns', label: words.columns, choices: texts, value: asked.columns })}
${field(state, { name: 'from', label: usage.firstDay, type: 'date', value: range.from })}${field(state, { name: 'to', label: usage.lastDay, type: 'date', value: range.to })}
<button>${usage.show}</button></form>
${filterChips(query, c.var.format.words, (more) => gridAddress(query, asked, more))}</div>`;
}

/** The address of a table, relative to the page. */
function gridAddress(
  query: UsageQuery,
  { rows, columns, metric }: TableQuery,
  more: Parameters<typeof queryOf>[1],
): string {
  return `${queryOf(query, more)}&${new URLSearchParams({ rows, columns, metric })}`;
}

/** The table with the way to all of its lines. */
function wholeGrid(c: PageContext, table: Html, { asked, table: { rows, other_rows } }: Shown): Html {
  const count = rows.length + other_rows;
  return withAllLines(c, 'rows', { count, most: Math.min(count, mostRows(asked.range, asked.columns)) }, table);
}

/** Steps of the shade of a field. */
const SHADES = 4;

function grid(title: string, shown: Shown, format: Format): Html {
  const { asked, table } = shown;
  const { rows, columns, metric } = asked;
  const { grid: words, tables } = format.words;
  const highest = Math.max(...table.cells.flat().map(Number));
  const cell = (value: string, isTotal: boolean) => {
    const shade = isTotal || highest <= 0 ? 0 : Math.ceil((Math.max(0, Number(value)) / highest) * SHADES);
    const text = metric === 'cost_eur' ? format.amount(value) : format.count(Number(value));
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
  const head = (heading: Heading) => html`<th scope="col" class="figure">${nameOf(columns, heading, format)}</th>`;
  return html`<div class="scroll" role="region" aria-label="${title}" tabindex="0"><table class="plain grid"><caption class="sr">${title}</caption>
<thead><tr><th scope="col">${words.groups[rows]}</th><th scope="col" class="figure">${words.all}</th>${table.columns.map(head)}${table.other_columns > 0 ? html`<th scope="col" class="figure">${tables.others(table.other_columns, format.count(table.other_columns))}</th>` : ''}</tr></thead>
<tbody>${line(words.all, table.total, totals, true)}${table.rows.map((heading, at) =>
    line(linkOf(rows, heading, shown, format), heading.total, table.cells[at] as readonly string[]),
  )}${table.other_rows > 0 ? line(muted(tables.others(table.other_rows, format.count(table.other_rows))), otherTotal, others) : ''}</tbody></table></div>`;
}

/** A line leads to the usage that it counts, in the same days, where there is a page of it. */
function linkOf(
  group: Group,
  heading: Heading,
  { query, ofCompany }: Pick<Shown, 'query' | 'ofCompany'>,
  format: Format,
): Html {
  const { value, name } = heading;
  const text = nameOf(group, heading, format);
  if (group === 'company' && name !== null)
    return html`<a href="/companies/${value}/usage${queryOf(query)}">${text}</a>`;
  if (group === 'day') return html`<a href="../usage${queryOf(query, { from: value, to: value })}">${text}</a>`;
  const isFilter = (FILTERS as readonly string[]).includes(group) && ofCompany;
  return isFilter ? html`<a href="../usage${queryOf(query, { [group]: value })}">${text}</a>` : html`${text}`;
}

function nameOf(group: Group, { value, name }: Heading, format: Format): Html | string {
  switch (group) {
    case 'company':
    case 'key':
      return name ?? muted(format.words.grid.gone(value.slice(0, 8)));
    case 'endpoint':
      return endpointText(format.words.endpoints, value);
    case 'outcome':
      return (format.words.tables.outcomes as Readonly<Record<string, string>>)[value] ?? value;
    case 'day':
      return format.shortDay(value);
    case 'month':
      return format.month(value);
    default:
      return value || muted(format.words.grid.none);
  }
}
