/**
 * Windows of the week in which a rate holds (contract section 4), such as "Mon-Fri 01:00-04:00,06:00-10:00 UTC":
 * half-open, across midnight where the end is not behind the beginning, in the zone that is named. Without days: every day.
 * At most 12 windows, so that the name of a rate has room in a ledger row. A window belongs to the day on which it begins.
 * At a change of the clock, what clocks on the wall show counts.
 */
export interface Hours {
  readonly text: string;
  /** Whether an instant is within. @param at milliseconds since the epoch */
  holds(at: number): boolean;
  /** Which minutes of the week are within, from Sunday on: 1, else 0. */
  readonly within: Uint8Array;
  /** The minute of the week that clocks of its zone show at an instant. */
  minuteAt(at: number): number;
}

const DAYS = ['Sun', 'Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat'] as const;
const DAY = `(?:${DAYS.join('|')})`;
const CLOCK = '(?:[01]\\d|2[0-3]):[0-5]\\d';
const FORM = new RegExp(
  `^(?:(${DAY}(?:-${DAY})?(?:,${DAY}(?:-${DAY})?){0,6}) )?(${CLOCK}-(?:${CLOCK}|24:00)(?:,${CLOCK}-(?:${CLOCK}|24:00)){0,11}) ([A-Za-z][\\w+/-]{0,63})$`,
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
  return { text, within, minuteAt, holds: (at) => within[minuteAt(at)] === 1 };
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

const MINUTE_MS = 60_000;
const SLOT_MS = 900_000; // offsets are multiples of 15 minutes, so the clock runs evenly within a slot

/** The minute of the week, from Sunday on, that clocks of a zone show at an instant. @throws RangeError for an unknown zone */
function clockOf(timeZone: string): (at: number) => number {
  const clock = new Intl.DateTimeFormat('en-US', {
    timeZone,
    weekday: 'short',
    hour: '2-digit',
    minute: '2-digit',
    hourCycle: 'h23',
  });
  let slot = Number.NaN;
  let minute = 0;
  return (at) => {
    const now = Math.floor(at / SLOT_MS);
    if (now !== slot) {
      const parts = Object.fromEntries(
        clock.formatToParts(now * SLOT_MS).map(({ type, value }) => [type, value]),
      );
      const day = DAYS.indexOf(parts.weekday as (typeof DAYS)[number]);
      minute = day * 24 * 60 + Number(parts.hour) * 60 + Number(parts.minute);
      slot = now;
    }
    return (minute + Math.floor((at - now * SLOT_MS) / MINUTE_MS)) % WEEK;
  };
}

const DAY_SLOTS = 96;
const WEEK_SLOTS = 7 * DAY_SLOTS;
const YEAR_SLOTS = 366 * DAY_SLOTS;
const SLOT = SLOT_MS / MINUTE_MS;

/**
 * Whether some instant is within both. Windows of one zone are compared for a week, those of two for a year, in which
 * each zone changes its clocks. What is known of a zone is kept: a list of rates compares each with each.
 * @param from where the year begins, milliseconds since the epoch
 */
export function overlaps(from: number): (one: Hours, other: Hours) => boolean {
  const years = new Map<string, Uint16Array>();
  const masks = new Map<string, Uint16Array>();
  const yearOf = (hours: Hours) => memoized(years, zoneOf(hours), () => slotsOfYear(hours, from));
  const masksOf = (hours: Hours) => memoized(masks, hours.text, () => minutesOfSlots(hours));
  return (one, other) => {
    const [a, b] = [masksOf(one), masksOf(other)];
    if (zoneOf(one) === zoneOf(other)) return a.some((minutes, n) => (minutes & at(b, n)) !== 0);
    const [mine, others] = [yearOf(one), yearOf(other)];
    return mine.some((slot, n) => (at(a, slot) & at(b, at(others, n))) !== 0);
  };
}

/** The instants at which hours begin or end. @param from and to: milliseconds since the epoch, less than a year apart */
export function turnsOf(hours: Hours, from: number, to: number): Date[] {
  const first = Math.floor(from / SLOT_MS) * SLOT_MS;
  const slots = slotsOfYear(hours, from);
  const turns: Date[] = [];
  let was = hours.within[at(slots, 0) * SLOT];
  for (let minute = 0; first + minute * MINUTE_MS < to; minute++) {
    const is = hours.within[at(slots, Math.floor(minute / SLOT)) * SLOT + (minute % SLOT)];
    if (is !== was) turns.push(new Date(first + minute * MINUTE_MS));
    was = is;
  }
  return turns;
}

/** For each slot of 15 minutes of the week, its minutes that are within: a bit each. */
function minutesOfSlots({ within }: Hours): Uint16Array {
  const masks = new Uint16Array(WEEK_SLOTS);
  for (const [minute, isWithin] of within.entries())
    masks[Math.floor(minute / SLOT)] =
      at(masks, Math.floor(minute / SLOT)) | (isWithin << (minute % SLOT));
  return masks;
}

/** The slots of the week that clocks of a zone show one after another. Days on which they run evenly ask them once. */
function slotsOfYear({ minuteAt }: Hours, from: number): Uint16Array {
  const first = Math.floor(from / SLOT_MS);
  const slotAt = (n: number) => minuteAt((first + n) * SLOT_MS) / SLOT;
  const slots = new Uint16Array(YEAR_SLOTS);
  let next = slotAt(0);
  for (let day = 0; day < YEAR_SLOTS; day += DAY_SLOTS) {
    const begins = next;
    next = slotAt(day + DAY_SLOTS);
    const isEven = next === (begins + DAY_SLOTS) % WEEK_SLOTS;
    for (let n = 0; n < DAY_SLOTS; n++)
      slots[day + n] = isEven ? (begins + n) % WEEK_SLOTS : slotAt(day + n);
  }
  return slots;
}

const at = (of: Uint16Array, n: number): number => of[n] as number;

function memoized<T>(values: Map<string, T>, name: string, make: () => T): T {
  const value = values.get(name) ?? make();
  values.set(name, value);
  return value;
}

const zoneOf = ({ text }: Hours): string => text.slice(text.lastIndexOf(' ') + 1);
