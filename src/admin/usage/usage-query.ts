import {
  oneOf,
  type Read,
  readDay,
  readMonth,
  readSlug,
  readUuid,
  refuse,
} from '../../domain/field.ts';
import type { Words } from '../../domain/language/en.ts';
import { refusal } from '../../domain/refusal.ts';
import {
  addDays,
  type DayRange,
  daysIn,
  isMonth,
  namedRange,
  RANGE_NAMES,
  type RangeName,
  readRange,
  wholeMonth,
  withTimeBefore,
} from '../../domain/reports/day-range.ts';
import { BOOKED_ENDPOINTS, endpointText } from '../../domain/wording/endpoint.ts';
import type { Times, UsageFilters } from '../../store/usage/cube.ts';
import {
  checkGroups,
  type Group,
  isTime,
  METRICS,
  type Metric,
} from '../../store/usage/usage-table.ts';
import type { PageContext } from '../page/context.ts';
import { Form } from '../page/form.ts';
import type { Format } from '../page/format.ts';

/** The question in the address of a usage page, all of it: so it can be saved, and sent to others. */

/** `?range=` with a name or a month, `?month=`, or `?from=` and `&to=`; and filters. */
export interface UsageQuery {
  readonly range: DayRange;
  readonly filters: UsageFilters;
  /** Has the mistakes; what is wrong is then as if it were not asked for. */
  readonly form: Form;
  /** Of a range that means other days tomorrow; `days`: of those of two fields; null: the days were given. */
  readonly name: RangeName | 'days' | null;
  /** `&by=` and `&and=`: what the figures are grouped by; null: by each group alone, and by no second one. */
  readonly by: Group | null;
  readonly and: Group | null;
  /** `&figure=`: what is drawn, and what two groups are of. */
  readonly figure: Metric;
  /** `&against=before`, or `days` with `&before_from=` and `&before_to=`; null: nothing is compared. */
  readonly against: 'before' | DayRange | null;
  /** `&as=`; null: both. */
  readonly as: Look | null;
}

export const LOOKS = ['chart', 'table'] as const;
type Look = (typeof LOOKS)[number];

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

/**
 * @param groups by which figures may be grouped
 * @param center the cost centre, where the address does not have it
 * @throws FieldError for a month or a filter that cannot be
 */
export function readUsageQuery(
  c: PageContext,
  groups: readonly Group[] = [],
  center: string | null = null,
): UsageQuery {
  const form = new Form(new URLSearchParams(c.req.query()), c.req.path, c.var.format.language);
  const filter = (name: FilterName): string | null => {
    const text = c.req.query(name) || null; // an empty field of a form is no wish
    return text === null ? null : READERS[name](text);
  };
  const filters = {
    model: filter('model'),
    key: filter('key'),
    endpoint: filter('endpoint'),
    cost_center: center ?? filter('cost_center'),
    keys: null,
  };
  const days = readDays(c, form);
  return {
    ...days,
    filters,
    form,
    ...readGroups(form, groups, days.range),
    figure: form.optional('figure', oneOf(...METRICS)) ?? 'cost_eur',
    against: readAgainst(form, withTimeBefore(days.range, today(c)).before),
    as: form.optional('as', oneOf(...LOOKS)),
  };
}

function readDays(c: PageContext, form: Form): Pick<UsageQuery, 'range' | 'name'> {
  const day = today(c);
  const month = c.req.query('month') || /^\d{4}-.*/.exec(c.req.query('range') ?? '')?.[0];
  if (month) return { range: wholeMonth(readMonth(month)), name: null };
  const name = form.optional('range', oneOf(...RANGE_NAMES, 'days'));
  // the form of the page sends the days that were shown as well
  if (name !== null && name !== 'days') return { range: namedRange(name, day), name };
  const [from, to] = [form.optional('from', readDay), form.optional('to', readDay)];
  const last = to ?? day;
  const first = from ?? wholeMonth(last).from;
  const range =
    form.messages.size > 0 || (from === null && to === null)
      ? undefined
      : form.attempt('to', () => readRange(first, to === null && last < first ? first : last));
  return range === undefined
    ? {
        range: namedRange('month', day),
        name: name ?? (form.messages.size > 0 ? 'days' : 'month'),
      }
    : { range, name };
}

/** The groups that can be together; one by time has a second one. */
function readGroups(
  form: Form,
  groups: readonly Group[],
  range: DayRange,
): Pick<UsageQuery, 'by' | 'and'> {
  if (groups.length === 0) return { by: null, and: null };
  const [asked, second] = ['by', 'and'].map((name) => form.optional(name, oneOf(...groups)));
  const other = groups.find((group) => group !== (asked ?? second)) ?? null;
  const and = second ?? (isTime(asked ?? null) ? other : null);
  const by = asked ?? (and === null ? null : other);
  const checked = form.attempt('and', () => {
    if (by !== null && and !== null) checkGroups({ rows: by, columns: and, range });
    return { by, and };
  });
  return checked ?? { by: null, and: null };
}

/** @param usual the time before, where other days are asked for and not told */
function readAgainst(form: Form, usual: DayRange): UsageQuery['against'] {
  const [from, to] = [form.optional('before_from', readDay), form.optional('before_to', readDay)];
  const asked = form.optional('against', oneOf('before', 'days'));
  if (asked === 'before') return asked;
  if (from === null && to === null) return asked === null ? null : usual;
  return (
    form.attempt('before_to', () => readRange(from ?? (to as string), to ?? (from as string))) ??
    usual
  );
}

/** The present day in the billing time zone. */
export function today(c: PageContext): string {
  const { calendar, clock } = c.var.services;
  return calendar.date(clock());
}

/** The first day of the present month in the billing time zone. */
export function presentMonth(c: PageContext): string {
  return wholeMonth(today(c)).from;
}

/** The month of the address or of a form, by its first day; the present one where there is none. @throws FieldError */
export function monthAsked(c: PageContext, asked = c.req.query('month')): string {
  return asked ? readMonth(asked) : presentMonth(c);
}

/** The two times that are compared; null: nothing is. */
export function timesOf(c: PageContext, { range, against }: UsageQuery): Times | null {
  if (against === null) return null;
  const times = withTimeBefore(range, today(c));
  return against === 'before' ? times : { ...times, before: against };
}

/** A cost centre of an address. @throws FieldError */
function readLabel(text: string): string {
  if (text.length > 128 || /\p{Cc}/u.test(text)) refuse(refusal('costCenter'), text);
  return text.trim();
}

/** What may differ in the question of a link; days in place of a named range. */
type Other = Partial<
  DayRange & UsageFilters & Pick<UsageQuery, 'name' | 'by' | 'and' | 'figure' | 'against' | 'as'>
>;

/** Days and filters as an address has them; a filter that is null is left out. */
export function daysOf(
  days: Readonly<Record<string, string>>,
  filters: UsageFilters,
): URLSearchParams {
  const query = new URLSearchParams(days);
  for (const name of FILTERS) {
    const value = filters[name];
    if (value !== null) query.set(name, inQuery(value));
  }
  return query;
}

/** The address of another question, relative to the page: it begins with "?". */
export function queryOf(asked: Omit<UsageQuery, 'form'>, more: Other = {}): string {
  return `?${questionParams(asked, more)}`;
}

export function questionParams(asked: Omit<UsageQuery, 'form'>, more: Other = {}): URLSearchParams {
  const { from, to, name, by, and, figure, against, as, ...filters } = {
    ...asked.range,
    ...asked,
    ...asked.filters,
    ...(more.from !== undefined && { name: null }),
    ...more,
  };
  const days = name === null || name === 'days' ? { from, to } : {};
  const query = daysOf({ ...(name !== null && { range: name }), ...days }, filters);
  const isDays = against !== null && against !== 'before';
  const rest = {
    by,
    and,
    figure: figure === 'cost_eur' ? null : figure,
    against: isDays ? 'days' : against,
    ...(isDays && { before_from: against.from, before_to: against.to }),
    as,
  };
  for (const [key, value] of Object.entries(rest)) if (value !== null) query.set(key, value);
  return query;
}

/** The page of the requests behind figures, relative to the usage page. There `to` is the first moment left out. */
export function requestsOf(
  query: UsageQuery,
  more: Partial<UsageFilters>,
  hour: DayRange | null = null,
): string {
  const { from, to } = hour ?? { from: query.range.from, to: addDays(query.range.to, 1) };
  return `requests?${daysOf({ from, to }, { ...query.filters, ...more })}`;
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

/** A filter as the URL and forms have it. */
export function inQuery(filter: string): string {
  return filter === '' ? UNLABELLED : filter;
}

/** "in November 2026", "on 21 November 2026" or "from 1 – 7 November 2026". */
export function rangeText({ from, to }: DayRange, format: Format): string {
  const words = format.words.usage;
  if (isMonth({ from, to })) return words.inMonth(format.month(from));
  const range = format.range(from, to);
  return daysIn({ from, to }) === 1
    ? words.on(range)
    : words.from(range.replace(/\s*–\s*/, ` ${words.until} `));
}
