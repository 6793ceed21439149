import { FieldError } from '../field.ts';
import { dayOf } from '../iso.ts';
import { refusal } from '../refusal.ts';

/** Ranges of calendar days, "2026-11-21", both ends in them. */
export interface DayRange {
  readonly from: string;
  readonly to: string;
}

/** The interval of one bar in the chart of a range. */
export type Interval = 'hour' | 'day' | 'month';

const DAY_MS = 86_400_000;
/** Longer ranges are drawn in months. */
const MAX_DAYS_DRAWN = 62;
/** Five years: as many bars as the longest range that is drawn in days. */
const MAX_DAYS = 1827;

/** @throws FieldError about the last day */
export function readRange(from: string, to: string): DayRange {
  if (to < from) throw new FieldError(refusal('lastDay'));
  if (daysIn({ from, to }) > MAX_DAYS) throw new FieldError(refusal('fiveYears'));
  return { from, to };
}

/** The day so many days later. */
export function addDays(day: string, days: number): string {
  return dayOf(Date.parse(`${day}T00:00:00Z`) + days * DAY_MS);
}

/** The first day of the month so many months later. */
export function addMonths(day: string, months: number): string {
  const at = new Date(`${day.slice(0, 7)}-01T00:00:00Z`);
  at.setUTCMonth(at.getUTCMonth() + months);
  return dayOf(at.getTime());
}

/** The whole month of a day. */
export function wholeMonth(day: string): DayRange {
  return { from: `${day.slice(0, 7)}-01`, to: addDays(addMonths(day, 1), -1) };
}

export function daysIn({ from, to }: DayRange): number {
  return (Date.parse(`${to}T00:00:00Z`) - Date.parse(`${from}T00:00:00Z`)) / DAY_MS + 1;
}

/** Whether a range is exactly one month. */
export function isMonth({ from, to }: DayRange): boolean {
  return wholeMonth(from).from === from && wholeMonth(from).to === to;
}

/** The range before another: the month before a month, otherwise as many days as the range has. */
export function rangeBefore(range: DayRange): DayRange {
  if (isMonth(range)) return wholeMonth(addMonths(range.from, -1));
  return { from: addDays(range.from, -daysIn(range)), to: addDays(range.from, -1) };
}

/**
 * The range with which another is compared: the days that the reader chose (one day alone is both ends), or else the
 * range before it. @throws FieldError
 */
export function readBefore(
  range: DayRange,
  from: string | undefined,
  to: string | undefined,
): DayRange {
  const [first = to, last = from] = [from, to];
  return first === undefined || last === undefined ? rangeBefore(range) : readRange(first, last);
}

/** Named ranges, such as `7d`, which are counted from today. Today belongs to them although it is not over. */
export const RANGE_NAMES = ['today', 'yesterday', '7d', '30d', 'month', 'last-month'] as const;
export type RangeName = (typeof RANGE_NAMES)[number];

export function namedRange(name: RangeName, today: string): DayRange {
  const yesterday = addDays(today, -1);
  return {
    today: { from: today, to: today },
    yesterday: { from: yesterday, to: yesterday },
    '7d': { from: addDays(today, -6), to: today },
    '30d': { from: addDays(today, -29), to: today },
    month: wholeMonth(today),
    'last-month': wholeMonth(addMonths(today, -1)),
  }[name];
}

/**
 * A range and the time before it. Days to come are left out: the present month up to today is compared with the same days
 * of the month before.
 */
export function withTimeBefore(
  range: DayRange,
  today: string,
): { readonly before: DayRange; readonly after: DayRange } {
  const isRunning = range.from <= today && today < range.to;
  const after = isRunning ? { from: range.from, to: today } : range;
  if (after.from === wholeMonth(today).from && after.to === today) return monthSoFar(today);
  return { before: rangeBefore(after), after };
}

/** Days of a month up to a day, and the same days of the month before, as far as it has them. */
export function monthSoFar(day: string): { readonly before: DayRange; readonly after: DayRange } {
  const last = wholeMonth(addMonths(day, -1));
  const same = addDays(last.from, Number(day.slice(8)) - 1);
  return {
    before: { from: last.from, to: same < last.to ? same : last.to },
    after: { from: wholeMonth(day).from, to: day },
  };
}

export function intervalOf(range: DayRange): Interval {
  const days = daysIn(range);
  return days === 1 ? 'hour' : days <= MAX_DAYS_DRAWN ? 'day' : 'month';
}

/** The days or months of a range; a month is its first day. */
export function intervalsIn(range: DayRange, interval: 'day' | 'month'): string[] {
  const intervals: string[] = [];
  const first = interval === 'day' ? range.from : wholeMonth(range.from).from;
  for (let at = first; at <= range.to; at = interval === 'day' ? addDays(at, 1) : addMonths(at, 1))
    intervals.push(at);
  return intervals;
}

/** The months of a range by their first days: the months that it covers whole, and the covered days of the others. */
export function monthsIn(range: DayRange): { whole: string[]; parts: MonthDays[] } {
  const whole: string[] = [];
  const parts: MonthDays[] = [];
  for (const month of intervalsIn(range, 'month')) {
    const { from, to } = wholeMonth(month);
    if (range.from <= from && to <= range.to) whole.push(month);
    else
      parts.push({
        month,
        from: from < range.from ? range.from : from,
        to: to > range.to ? range.to : to,
      });
  }
  return { whole, parts };
}

/** Days of a month, which is named by its first day. */
export type MonthDays = DayRange & { readonly month: string };

/**
 * A range written as whole months less some days, where that reads fewer days: 1 to 21 November is November less the days
 * from the 22nd on. The subtracted days reach to infinity, because a billing month may have calls of days outside it.
 */
export function monthsLessDays(range: DayRange): {
  months: string[];
  added: MonthDays[];
  taken: MonthDays[];
} {
  const { whole, parts } = monthsIn(range);
  const isMost = (part: MonthDays) => daysIn(part) * 2 > daysIn(wholeMonth(part.month));
  const most = parts.filter(isMost);
  return {
    months: [...whole, ...most.map(({ month }) => month)],
    added: parts.filter((part) => !isMost(part)),
    taken: most.flatMap(({ month, from, to }) => [
      { month, from: '-infinity', to: addDays(from, -1) },
      { month, from: addDays(to, 1), to: 'infinity' },
    ]),
  };
}
