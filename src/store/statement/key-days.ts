import { type DayRange, wholeMonth } from '../../domain/text/day-range.ts';

/** A column of `usage_key_months`: what the days from `first` to `last` of a month cost. */
export interface KeyDays {
  readonly name: string;
  readonly first: number;
  readonly last: number;
}

const two = (day: number) => String(day).padStart(2, '0');
const DAYS: readonly KeyDays[] = Array.from({ length: 31 }, (_, at) => ({
  name: `day_${two(at + 1)}`,
  first: at + 1,
  last: at + 1,
}));
/** The last one is of all days that are left of a month. */
const FIVES: readonly KeyDays[] = [1, 6, 11, 16, 21, 26].map((first) => {
  const last = first === 26 ? 31 : first + 4;
  return { name: `days_${two(first)}_${two(last)}`, first, last };
});

/** The columns with costs, in the order of the table. */
export const KEY_DAYS: readonly KeyDays[] = [...DAYS, ...FIVES];

/**
 * The columns whose sum is the cost of some days of a month. A column of five days is used where all five are asked
 * for.
 */
export function costColumns({ from, to }: DayRange): string[] {
  const first = Number(from.slice(8));
  // no calls are on days that a month does not have
  const last = to === wholeMonth(to).to ? 31 : Number(to.slice(8));
  const fives = FIVES.filter((five) => first <= five.first && five.last <= last);
  const days = DAYS.filter(
    (day) =>
      first <= day.first && day.last <= last && !fives.some((five) => five.first <= day.first && day.last <= five.last),
  );
  return [...fives, ...days].map(({ name }) => name);
}
