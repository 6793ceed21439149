/**
 * Windows of the week in which a rate holds (contract section 4), such as "Mon-Fri 01:00-04:00,06:00-10:00 UTC":
 * half-open, across midnight where the end is not behind the beginning, in the zone that is named. Without days: every day.
 * A window belongs to the day on which it begins. At a change of the clock, what clocks on the wall show counts.
 */
export interface Hours {
  readonly text: string;
  /** Whether an instant is within. @param at milliseconds since the epoch */
  holds(at: number): boolean;
}

const DAYS = ['Sun', 'Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat'] as const;
const DAY = `(?:${DAYS.join('|')})`;
const CLOCK = '(?:[01]\\d|2[0-3]):[0-5]\\d';
const FORM = new RegExp(
  `^(?:(${DAY}(?:-${DAY})?(?:,${DAY}(?:-${DAY})?)*) )?(${CLOCK}-(?:${CLOCK}|24:00)(?:,${CLOCK}-(?:${CLOCK}|24:00))*) ([A-Za-z][\\w+/-]{0,63})$`,
);
/** The same as every client of the API reads patterns. */
export const HOURS_FORM = FORM.source.replaceAll('(?:', '(');
const WEEK = 7 * 24 * 60;

/** @throws RangeError when it is not of the form, names no time zone, or has an empty window */
export function parseHours(text: string): Hours {
  const [, days, windows, zone] = (FORM.exec(text) ?? []) as (string | undefined)[];
  if (windows === undefined || zone === undefined) throw new RangeError('not hours of a week');
  const within = new Uint8Array(WEEK);
  for (const day of daysOf(days)) {
    for (const window of windows.split(',')) {
      const [from, to] = window.split('-').map(minuteOf) as [number, number];
      if (from === to) throw new RangeError('a window begins and ends at once');
      const minutes = to > from ? to - from : to + 24 * 60 - from;
      for (let n = 0; n < minutes; n++) within[(day * 24 * 60 + from + n) % WEEK] = 1;
    }
  }
  const minuteAt = clockOf(zone);
  return { text, holds: (at) => within[minuteAt(at)] === 1 };
}

function minuteOf(clock: string): number {
  const [hour, minute] = clock.split(':').map(Number) as [number, number];
  return hour * 60 + minute;
}

function* daysOf(text: string | undefined): Generator<number> {
  if (text === undefined) return yield* DAYS.keys();
  for (const range of text.split(',')) {
    const [first, last = first] = range.split('-') as [string, string?];
    const from = DAYS.indexOf(first as (typeof DAYS)[number]);
    const days = (DAYS.indexOf(last as (typeof DAYS)[number]) - from + 7) % 7;
    for (let n = 0; n <= days; n++) yield (from + n) % 7;
  }
}

const SLOT_MS = 900_000; // offsets are multiples of 15 minutes, so the clock runs evenly within a slot

/** The minute of the week, from Sunday on, that clocks of a zone show at an instant. @throws RangeError for an unknown zone */
function clockOf(timeZone: string): (at: number) => number {
  const shown = new Intl.DateTimeFormat('en-US', {
    timeZone,
    weekday: 'short',
    hour: '2-digit',
    minute: '2-digit',
    hourCycle: 'h23',
  });
  let slot = Number.NaN;
  let minute = 0;
  return (at) => {
    const asked = Math.floor(at / SLOT_MS);
    if (asked !== slot) {
      const parts = Object.fromEntries(
        shown.formatToParts(asked * SLOT_MS).map(({ type, value }) => [type, value]),
      );
      const day = DAYS.indexOf(parts.weekday as (typeof DAYS)[number]);
      minute = day * 24 * 60 + Number(parts.hour) * 60 + Number(parts.minute);
      slot = asked;
    }
    return (minute + Math.floor((at - asked * SLOT_MS) / 60_000)) % WEEK;
  };
}

const DAY_MS = 86_400_000;

/**
 * Whether some instant is within both. Windows of one zone are compared for a week, those of two for a year, in which
 * each zone changes its clocks.
 * @param from where the year begins, milliseconds since the epoch
 */
export function overlap(one: Hours, other: Hours, from: number): boolean {
  const days = zoneOf(one) === zoneOf(other) ? 8 : 366;
  for (let at = from; at < from + days * DAY_MS; at += 60_000) {
    if (one.holds(at) && other.holds(at)) return true;
  }
  return false;
}

const zoneOf = ({ text }: Hours): string => text.slice(text.lastIndexOf(' ') + 1);
