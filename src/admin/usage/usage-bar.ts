import type { Words } from '../../domain/language/en.ts';
import { isMonth } from '../../domain/reports/day-range.ts';
import type { CompanyUsage } from '../../store/usage/company-usage.ts';
import type { PageContext } from '../page/context.ts';
import { type FormState, field, formState, options, select } from '../page/field.ts';
import { Form } from '../page/form.ts';
import { type Html, html, raw } from '../page/html.ts';
import {
  FILTERS,
  type FilterName,
  filterChips,
  filterName,
  inQuery,
  presets,
  queryOf,
  type UsageQuery,
} from './usage-query.ts';

/** Above the figures: which days and calls are shown, and the ways to others. */
export function usageBar(c: PageContext, path: string, query: UsageQuery, usage: CompanyUsage): Html {
  const { services, format } = c.var;
  const { range, filters, form } = query;
  const state = formState(form.messages.size > 0 ? form : new Form(undefined, null, form.language), path);
  const words = format.words.usage;
  const today = services.calendar.date(services.clock());
  const preset = ([text, { from, to }]: ReturnType<typeof presets>[number]) =>
    html`<a href="${queryOf(query, { from, to })}"${from === range.from && to === range.to ? raw(' aria-current="page"') : ''}>${text}</a>`;
  const set = FILTERS.filter((name) => filters[name] !== null);
  const kept = set.map(
    (name) => html`<input type="hidden" name="${name}" value="${inQuery(filters[name] as string)}">`,
  );
  const months = [...new Set([...usage.months, ...(isMonth(range) ? [range.from] : [])])].sort().reverse();
  const choices = [
    ...(isMonth(range) ? [] : [['', words.otherDays] as const]),
    ...months.map((month) => [month.slice(0, 7), format.month(month)] as const),
  ];
  return html`<div class="usage-bar">
<nav class="presets" aria-label="${words.days}">${presets(words.presets, today).map(preset)}</nav>
<form method="get" action="${path}" class="months">${kept}<label for="month">${words.month}</label>
<select id="month" name="month">${options(choices, isMonth(range) ? range.from.slice(0, 7) : '')}</select><button>${words.show}</button></form>
<form method="get" action="${path}" class="filters">${kept}
${field(state, { name: 'from', label: words.firstDay, type: 'date', value: range.from })}${field(state, { name: 'to', label: words.lastDay, type: 'date', value: range.to })}
${FILTERS.map((name) => (filters[name] === null ? filterPicker(state, name, usage) : ''))}
<button>${words.apply}</button></form>
${filterChips(
  query,
  format.words,
  (more) => queryOf(query, more),
  (name, value) => filterText(format.words, name, value, usage),
)}</div>`;
}

/** The choice of one of the dearest; others are in the tables or the URL. */
function filterPicker(state: FormState, name: FilterName, usage: CompanyUsage): Html {
  const { usage: words } = state.words;
  const choices = optionsOf(state.words, name, usage);
  if (choices.length < 2) return html``;
  return select(state, { name, label: words.filterNames[name], choices: [['', words.all], ...choices], value: '' });
}

function optionsOf(words: Words, name: FilterName, usage: CompanyUsage): (readonly [string, string])[] {
  if (name === 'key') return usage.by_key.lines.map(({ id, name, prefix }) => [id, keyText(words, id, name, prefix)]);
  const { lines } = { model: usage.by_model, endpoint: usage.by_endpoint, cost_center: usage.by_cost_center }[name];
  return lines.map((line) => [inQuery(line.name), filterText(words, name, line.name, usage)]);
}

function filterText(words: Words, name: FilterName, value: string, { by_key }: CompanyUsage): string {
  if (name !== 'key') return filterName(words, name, value);
  const key = by_key.lines.find(({ id }) => id === value);
  return keyText(words, value, key?.name ?? null, key?.prefix ?? null);
}

function keyText(words: Words, id: string, name: string | null, prefix: string | null): string {
  return name === null ? words.usage.keyOf(id) : `${name} (${prefix}…)`;
}
