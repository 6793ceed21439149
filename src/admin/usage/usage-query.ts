import { FieldError, oneOf, type Read, readDay, readMonth, readSlug, readUuid, refuse } from '../../domain/field.ts';
import type { Words } from '../../domain/language/en.ts';
import { fieldText } from '../../domain/language/refusal-text.ts';
import { refusal } from '../../domain/refusal.ts';
import {
  addDays,
  addMonths,
  type DayRange,
  daysIn,
  isMonth,
  rangeBefore,
  readRange,
  wholeMonth,
} from '../../domain/reports/day-range.ts';
import { BOOKED_ENDPOINTS, endpointText } from '../../domain/wording/endpoint.ts';
import type { UsageFilters } from '../../store/usage/cube.ts';
import type { PageContext } from '../page/context.ts';
import { Form } from '../page/form.ts';
import type { Format } from '../page/format.ts';
import { type Html, html } from '../page/html.ts';

/** The query in the URL of a usage page: `?from=`, `&to=` or `?month=`, and filters. */
export interface UsageQuery {
  readonly range: DayRange;
  readonly filters: UsageFilters;
  /** Has the mistakes in `from` and `to`; the range is then the present month. */
  readonly form: Form;
  /** The page of other days and filters, relative to this one; absent: this one. */
  readonly page?: string;
}

/** Filters in the order of the page. */
export const FILTERS = ['model', 'key', 'endpoint', 'cost_center'] as const;
export type FilterName = (typeof FILTERS)[number];

const READERS: Readonly<Record<FilterName, Read<string>>> = {
  model: readSlug,
  key: (text) => readUuid(text).toLowerCase(),
  endpoint: oneOf(...BOOKED_ENDPOINTS),
  cost_center: readLabel,
};

/** In the URL a blank stands for calls without a cost centre: no cost centre begins with one. */
const UNLABELLED = ' ';

/** @throws FieldError for a month or a filter that cannot be */
export function readUsageQuery(c: PageContext): UsageQuery {
  const { calendar, clock } = c.var.services;
  const today = calendar.date(clock());
  const form = new Form(new URLSearchParams(c.req.query()), c.req.path, c.var.format.language);
  const query = (name: string): string | null => c.req.query(name) || null; // an empty field of a form is no wish
  const month = query('month');
  const range = month === null ? rangeOf(form, today) : wholeMonth(readMonth(month));
  const filter = (name: FilterName): string | null => {
    const text = query(name);
    return text === null ? null : READERS[name](text);
  };
  const filters = {
    model: filter('model'),
    key: filter('key'),
    endpoint: filter('endpoint'),
    cost_center: filter('cost_center'),
    keys: null,
  };
  return { range, filters, form };
}

/**
 * The query of a page that compares two times: `?from=`, `&to=` and filters as above, and `before_from`, `before_to`. By
 * default the last seven days that are over; and the days before the others, or the month before a month.
 */
export function readTimes(c: PageContext): { readonly query: UsageQuery; readonly before: DayRange } {
  const asked = readUsageQuery(c);
  const { form } = asked;
  const today = c.var.services.calendar.date(c.var.services.clock());
  const names = Object.keys(c.req.query());
  const isAsked = ['month', 'from', 'to'].some((name) => names.includes(name)) && form.messages.size === 0;
  const query = isAsked ? asked : { ...asked, range: { from: addDays(today, -7), to: addDays(today, -1) } };
  const before = readBefore(form);
  return { query, before: before ?? rangeBefore(query.range) };
}

/** null: none is asked for, or it is wrong. */
function readBefore(form: Form): DayRange | null {
  const [from, to] = [form.optional('before_from', readDay), form.optional('before_to', readDay)];
  if (form.messages.size > 0 || (from === null && to === null)) return null;
  try {
    return readRange(from ?? (to as string), to ?? (from as string));
  } catch (error) {
    if (!(error instanceof FieldError)) throw error;
    form.refuse('before_to', `${fieldText(form.words, error)}.`);
    return null;
  }
}

/** The present month where no days are asked for, and after a mistake. */
function rangeOf(form: Form, today: string): DayRange {
  const [from, to] = [form.optional('from', readDay), form.optional('to', readDay)];
  if (form.messages.size > 0 || (from === null && to === null)) return wholeMonth(today);
  const last = to ?? today;
  const first = from ?? wholeMonth(last).from;
  try {
    return readRange(first, to === null && last < first ? first : last);
  } catch (error) {
    if (!(error instanceof FieldError)) throw error;
    form.refuse('to', `${fieldText(form.words, error)}.`);
    return wholeMonth(today);
  }
}

/** A cost centre of an address. @throws FieldError */
export function readLabel(text: string): string {
  if (text.length > 128 || /\p{Cc}/u.test(text)) refuse(refusal('costCenter'), text);
  return text.trim();
}

/** The query of another range or filter; a filter that is null is removed. Relative to the page: it begins with "?". */
export function queryOf(
  { range, filters }: Pick<UsageQuery, 'range' | 'filters'>,
  more: Partial<DayRange & UsageFilters> = {},
): string {
  const { from, to, ...chosen } = { ...range, ...filters, ...more };
  const query = new URLSearchParams({ from, to });
  for (const name of FILTERS) {
    const value = chosen[name];
    if (value !== null) query.set(name, inQuery(value));
  }
  return `?${query}`;
}

/** The page of another range or filter. As `queryOf`. */
export function linkOf(query: UsageQuery, more: Partial<DayRange & UsageFilters> = {}): string {
  return `${query.page ?? ''}${queryOf(query, more)}`;
}

/** The page of the requests behind figures, relative to the usage page. There `to` is the first moment left out. */
export function requestsOf(query: UsageQuery, more: Partial<UsageFilters>, hour: DayRange | null = null): string {
  const { from, to } = query.range;
  return `requests${queryOf(query, { ...more, ...(hour ?? { from, to: addDays(to, 1) }) })}`;
}

/** The page of the requests of these days and filters that got an error. */
export function requestsWith(query: UsageQuery, code: string): string {
  return `${requestsOf(query, {})}&code=${encodeURIComponent(code)}`;
}

/** A filter in words, where nothing more is known of it than the address tells. */
export function filterName(words: Words, name: FilterName, value: string): string {
  if (name === 'endpoint') return endpointText(words.endpoints, value);
  return value || words.usage.noCostCenter;
}

/** The filters that are set, each with a link that removes it. @param addressOf the page with other filters */
export function filterChips(
  { filters }: UsageQuery,
  words: Words,
  addressOf: (more: Partial<UsageFilters>) => string,
  textOf: (name: FilterName, value: string) => string = (name, value) => filterName(words, name, value),
): Html | string {
  const { filters: title, filterNames, removeFilter } = words.usage;
  const set = FILTERS.filter((name) => filters[name] !== null);
  if (set.length === 0) return '';
  return html`<ul class="chips" aria-label="${title}">${set.map((name) => {
    const text = textOf(name, filters[name] as string);
    return html`<li><a class="chip" href="${addressOf({ [name]: null })}" aria-label="${removeFilter(`${filterNames[name]}: ${text}`)}">${filterNames[name]}: <strong>${text}</strong> <span aria-hidden="true">×</span></a></li>`;
  })}</ul>`;
}

/** A filter as the URL and forms have it. */
export function inQuery(filter: string): string {
  return filter === '' ? UNLABELLED : filter;
}

/** Ranges with a name. */
export function presets(words: Words['usage']['presets'], today: string): readonly (readonly [string, DayRange])[] {
  const yesterday = addDays(today, -1);
  return [
    [words.today, { from: today, to: today }],
    [words.yesterday, { from: yesterday, to: yesterday }],
    [words.week, { from: addDays(today, -6), to: today }],
    [words.month, wholeMonth(today)],
    [words.lastMonth, wholeMonth(addMonths(today, -1))],
  ];
}

/** "in November 2026", "on 21 November 2026" or "from 1 – 7 November 2026". */
export function rangeText({ from, to }: DayRange, format: Format): string {
  const words = format.words.usage;
  if (isMonth({ from, to })) return words.inMonth(format.month(from));
  const range = format.range(from, to);
  return daysIn({ from, to }) === 1 ? words.on(range) : words.from(range);
}
