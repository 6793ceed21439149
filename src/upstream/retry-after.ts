const SECONDS = /^\d{1,6}(?:\.\d+)?$/;
/** RFC 9110, section 5.6.7: "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994". */
const DATE = /^[A-Z][a-z]{2}, (\d\d) ([A-Z][a-z]{2}) (\d{4}) (\d\d:\d\d:\d\d) GMT$/;
const DATE_850 = /^[A-Z][a-z]{5,8}, (\d\d)-([A-Z][a-z]{2})-(\d\d) (\d\d:\d\d:\d\d) GMT$/;
const DATE_ASCTIME = /^[A-Z][a-z]{2} ([A-Z][a-z]{2}) ([ \d]\d) (\d\d:\d\d:\d\d) (\d{4})$/;
/** The longest wait that is told. */
const LONGEST = 999_999;

/**
 * The wait that a header `retry-after` tells, in whole seconds, rounded up; undefined: none. Some servers write
 * fractions of a second; a date may have each of the three forms of HTTP.
 * @param now in milliseconds since the epoch
 */
export function retryAfterSeconds(value: string, now: number): number | undefined {
  const seconds = SECONDS.test(value) ? Number(value) : (timeOf(value, now) - now) / 1000;
  return seconds <= LONGEST ? Math.max(0, Math.ceil(seconds)) : undefined;
}

/** The time of a date, in milliseconds since the epoch; NaN: it is none. */
function timeOf(value: string, now: number): number {
  const [, day, month, year, time] = DATE.exec(value) ?? DATE_850.exec(value) ?? [];
  if (day !== undefined)
    return Date.parse(`${day} ${month} ${wholeYear(year as string, now)} ${time} GMT`);
  const [, month2, day2, time2, year2] = DATE_ASCTIME.exec(value) ?? [];
  return Date.parse(`${day2} ${month2} ${year2} ${time2} GMT`);
}

/** A year of two digits is at most 50 years ahead. */
function wholeYear(year: string, now: number): number {
  if (year.length > 2) return Number(year);
  const present = new Date(now).getUTCFullYear();
  const same = present - (present % 100) + Number(year);
  return same > present + 50 ? same - 100 : same;
}
