import { isMonth, RANGE_NAMES } from '../../domain/reports/day-range.ts';
import { type Group, METRICS } from '../../store/usage/usage-table.ts';
import type { PageContext } from '../page/context.ts';
import {
  type Choices,
  type FormState,
  field,
  formState,
  hiddenInputs,
  options,
  select,
} from '../page/field.ts';
import type { Form } from '../page/form.ts';
import { type Html, html, raw } from '../page/html.ts';
import { usageAddress } from './reach.ts';
import {
  FILTERS,
  type FilterName,
  filterName,
  inQuery,
  LOOKS,
  queryOf,
  questionParams,
  type UsageQuery,
} from './usage-query.ts';
import { savedViews } from './usage-views.ts';

/** Values of the filters that a page has, with their texts. */
export type Known = Partial<Readonly<Record<FilterName, Choices>>>;

/** What the form behind the button asks. */
const BREAKDOWN = ['figure', 'by', 'and', 'as'] as const;
/** What the form of the line asks, besides filters. */
const TIMES = ['range', 'from', 'to', 'against', 'before_from', 'before_to'];

/**
 * Above the figures, in one line: the days, with what they are compared, and which calls alone; behind a button by what
 * they are broken down, and views that are saved. With script the forms are sent when something is chosen from a list.
 * @param months their first days, newest first
 * @param form that was sent to the page, to save a view
 */
export async function usageBar(
  c: PageContext,
  query: UsageQuery,
  groups: readonly Group[],
  known: Known,
  months: readonly string[],
  form: Form,
): Promise<Html> {
  const state = formState(query.form, usageAddress(c));
  const views = await savedViews(c, query, form);
  const asked = questionParams(query);
  const isOpen =
    views.isSent || BREAKDOWN.some((name) => asked.has(name) || query.form.messages.has(name));
  return html`<div class="usage-bar">${barForm(c, query, TIMES, questionFields(c, query, state, known, months))}
<details class="fold"${raw(isOpen ? ' open' : '')}><summary class="button">${c.var.format.words.grid.breakDown}</summary>${barForm(c, query, BREAKDOWN, breakdownFields(c, query, state, groups))}${views.isKept ? '' : views.fold}</details>
${views.isKept ? views.fold : ''}${filterChips(c, query, known)}</div>`;
}

/** A form that asks for other values of some parameters of the question. */
function barForm(c: PageContext, query: UsageQuery, asked: readonly string[], fields: Html): Html {
  const kept = [...questionParams(query)].filter(([name]) => !asked.includes(name));
  return html`<form method="get" action="${usageAddress(c)}" class="filters" autocomplete="off" data-sends>${hiddenInputs(kept)}
${fields}<button>${c.var.format.words.usage.apply}</button></form>`;
}

/** Days, comparison and filters. Days that have no name have two fields. */
function questionFields(
  c: PageContext,
  query: UsageQuery,
  state: FormState,
  known: Known,
  months: readonly string[],
): Html {
  const { usage: words, change } = c.var.format.words;
  const { range, against } = query;
  const month = isMonth(range) ? range.from : null;
  const period = query.name ?? month?.slice(0, 7) ?? 'days';
  const before = against === 'before' ? null : against;
  const day = (name: string, label: string, value: string) =>
    field(state, { name, label, type: 'date', value });
  const open = FILTERS.filter(
    (name) => query.filters[name] === null && (known[name]?.length ?? 0) > 1,
  );
  return html`${select(state, {
    name: 'range',
    label: words.period,
    choices: [
      ...RANGE_NAMES.map((name) => [name, words.presets[name]] as const),
      ...monthChoices(c, months, month),
      ['days', words.otherDays],
    ],
    value: period,
  })}
${period === 'days' ? html`${day('from', words.firstDay, range.from)}${day('to', words.lastDay, range.to)}` : hiddenInputs(Object.entries(range))}
${select(state, {
  name: 'against',
  label: change.against,
  choices: [
    ['', change.nothing],
    ['before', change.timeBefore],
    ['days', change.otherDays],
  ],
  value: before === null ? (against === null ? '' : 'before') : 'days',
})}
${before === null ? '' : html`${day('before_from', change.fields.before_from, before.from)}${day('before_to', change.fields.before_to, before.to)}`}
${open.length === 0 ? '' : html`<details class="fold"><summary class="button">+ ${words.filter}</summary><div class="filters">${open.map((name) => select(state, { name, label: words.filterNames[name], choices: [['', words.all], ...(known[name] as Choices)], value: '' }))}</div></details>`}`;
}

/** Which figure, by what it is broken down, and how it is shown. */
function breakdownFields(
  c: PageContext,
  { figure, by, and, as }: UsageQuery,
  state: FormState,
  groups: readonly Group[],
): Html {
  const { grid } = c.var.format.words;
  const texts = groups.map((group) => [group, grid.groups[group]] as const);
  return html`${select(state, { name: 'figure', label: grid.figure, choices: METRICS.map((name) => [name, grid.metrics[name]]), value: figure })}
${select(state, { name: 'by', label: grid.by, choices: [['', grid.each], ...texts], value: by ?? '' })}
${select(state, { name: 'and', label: grid.and, choices: [['', grid.noSecond], ...texts], value: and ?? '' })}
${select(state, { name: 'as', label: grid.as, choices: [['', grid.both], ...LOOKS.map((look) => [look, grid.looks[look]] as const)], value: as ?? '' })}`;
}

/** Months with their names, newest first. @param known those that have calls @param shown its first day */
function monthChoices(c: PageContext, known: readonly string[], shown: string | null): Choices {
  const months = [...new Set([...known, ...(shown === null ? [] : [shown])])].sort().reverse();
  return months.map((month) => [month.slice(0, 7), c.var.format.month(month)]);
}

/** The choice of a month. @param shown its first day @param known the months that have calls */
export function monthForm(
  c: PageContext,
  path: string,
  shown: string,
  known: readonly string[],
): Html {
  const { usage: words } = c.var.format.words;
  return html`<form method="get" action="${path}" class="months"><label for="month">${words.month}</label>
<select id="month" name="month">${options(monthChoices(c, known, shown), shown.slice(0, 7))}</select><button>${words.show}</button></form>`;
}

/** The filters that are set, each with a link that removes it. */
function filterChips(c: PageContext, query: UsageQuery, known: Known): Html | string {
  const { words } = c.var.format;
  const { filters: title, filterNames, removeFilter } = words.usage;
  const set = FILTERS.filter((name) => query.filters[name] !== null);
  if (set.length === 0) return '';
  return html`<ul class="chips" aria-label="${title}">${set.map((name) => {
    const value = query.filters[name] as string;
    const [, its] = known[name]?.find(([each]) => each === inQuery(value)) ?? [];
    const text =
      its ?? (name === 'key' ? words.usage.keyOf(value) : filterName(words, name, value));
    return html`<li><a class="chip" href="${queryOf(query, { [name]: null })}" aria-label="${removeFilter(`${filterNames[name]}: ${text}`)}">${filterNames[name]}: <strong>${text}</strong> <span aria-hidden="true">×</span></a></li>`;
  })}</ul>`;
}
