import { isMonth, namedRange, RANGE_NAMES } from '../../domain/reports/day-range.ts';
import { type Group, METRICS } from '../../store/usage/usage-table.ts';
import type { PageContext } from '../page/context.ts';
import { type Choices, field, formState, hiddenInputs, options, select } from '../page/field.ts';
import { Form } from '../page/form.ts';
import { type Html, html, raw } from '../page/html.ts';
import { usageAddress } from './reach.ts';
import {
  FILTERS,
  type FilterName,
  filterName,
  inQuery,
  isSame,
  LOOKS,
  queryOf,
  questionParams,
  timesOf,
  today,
  type UsageQuery,
} from './usage-query.ts';

/** Values of the filters that a page has, with their texts. */
export type Known = Partial<Readonly<Record<FilterName, Choices>>>;

/**
 * Above the figures: which days and calls are shown, by what, and compared with what; and the ways to others.
 * @param months their first days, newest first
 */
export function usageBar(
  c: PageContext,
  query: UsageQuery,
  groups: readonly Group[],
  known: Known,
  months: readonly string[],
): Html {
  const path = usageAddress(c);
  const { usage: words } = c.var.format.words;
  const preset = (name: (typeof RANGE_NAMES)[number]) => {
    const range = namedRange(name, today(c));
    return html`<a href="${queryOf({ ...query, range }, { name })}"${isSame(range, query.range) ? raw(' aria-current="page"') : ''}>${words.presets[name]}</a>`;
  };
  const isOpen = query.form.messages.size > 0;
  return html`<div class="usage-bar">
<nav class="presets" aria-label="${words.days}">${RANGE_NAMES.map(preset)}</nav>
${monthForm(c, path, isMonth(query.range) ? query.range.from : null, months, hidden(query, ['range', 'from', 'to']))}
<details class="fold wide-open"${isOpen ? raw(' open') : ''}><summary>${words.question}</summary>${questionForm(c, query, groups, known)}</details>
${filterChips(c, query, known)}</div>`;
}

/** The parameters of a question as hidden fields, but for some. */
function hidden(query: UsageQuery, left: readonly string[]): Html[] {
  return hiddenInputs([...questionParams(query)].filter(([name]) => !left.includes(name)));
}

/** The choice of a month. @param shown its first day; null: other days are shown @param known the months that have calls */
export function monthForm(
  c: PageContext,
  path: string,
  shown: string | null,
  known: readonly string[],
  kept: readonly Html[] = [],
): Html {
  const { format } = c.var;
  const { usage: words } = format.words;
  const months = [...new Set([...known, ...(shown === null ? [] : [shown])])].sort().reverse();
  const other = shown === null ? [['', words.otherDays] as const] : [];
  const choices = [
    ...other,
    ...months.map((month) => [month.slice(0, 7), format.month(month)] as const),
  ];
  return html`<form method="get" action="${path}" class="months">${kept}<label for="month">${words.month}</label>
<select id="month" name="month">${options(choices, shown?.slice(0, 7) ?? '')}</select><button>${words.show}</button></form>`;
}

function questionForm(
  c: PageContext,
  query: UsageQuery,
  groups: readonly Group[],
  known: Known,
): Html {
  const { usage: words, grid, change } = c.var.format.words;
  const { range, form, by, and, figure, against, as } = query;
  const path = usageAddress(c);
  const state = formState(
    form.messages.size > 0 ? form : new Form(undefined, null, form.language),
    path,
  );
  const day = (name: string, label: string, value: string) =>
    field(state, { name, label, type: 'date', value });
  const texts = groups.map((group) => [group, grid.groups[group]] as const);
  const open = FILTERS.filter(
    (name) => query.filters[name] === null && (known[name]?.length ?? 0) > 1,
  );
  const before = against === null || against === 'before' ? null : timesOf(c, query)?.before;
  const kept = hidden(query, [
    'from',
    'to',
    'by',
    'and',
    'figure',
    'against',
    'as',
    'before_from',
    'before_to',
  ]);
  return html`<form method="get" action="${path}" class="filters">${kept}
${day('from', words.firstDay, range.from)}${day('to', words.lastDay, range.to)}
${open.map((name) => select(state, { name, label: words.filterNames[name], choices: [['', words.all], ...(known[name] as Choices)], value: '' }))}
${select(state, { name: 'by', label: grid.by, choices: [['', grid.each], ...texts], value: by ?? '' })}
${select(state, { name: 'and', label: grid.and, choices: [['', grid.noSecond], ...texts], value: and ?? '' })}
${select(state, { name: 'figure', label: grid.figure, choices: METRICS.map((name) => [name, grid.metrics[name]]), value: figure })}
${select(state, {
  name: 'against',
  label: change.against,
  choices: [
    ['', change.nothing],
    ['before', change.timeBefore],
    ['days', change.otherDays],
  ],
  value: against === null ? '' : before === null ? 'before' : 'days',
})}
${before == null ? '' : html`${day('before_from', change.fields.before_from, before.from)}${day('before_to', change.fields.before_to, before.to)}`}
${select(state, { name: 'as', label: grid.as, choices: [['', grid.both], ...LOOKS.map((look) => [look, grid.looks[look]] as const)], value: as ?? '' })}
<button>${words.apply}</button></form>`;
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
