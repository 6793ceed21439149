import { FieldError, readDay, readInstant } from '../../domain/field.ts';
import type { Moment } from '../../domain/price.ts';
import { refusal } from '../../domain/refusal.ts';
import { addDays } from '../../domain/reports/day-range.ts';
import type { PageContext } from './context.ts';

/** Times as people read and write them: in the billing time zone. */

const LOCAL = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d)?)?$/;

/**
 * An instant: a date or time on the clock of a zone, as forms send it, or an ISO time with its offset.
 * @throws FieldError
 */
export function readLocal(text: string, timeZone: string): Date {
  if (!LOCAL.test(text)) {
    if (text.includes('T')) return readInstant(text);
    throw new FieldError(refusal('time'));
  }
  const clock = readInstant(text.includes('T') ? `${text}Z` : text).getTime();
  // twice, because the offset may have changed in between
  const about = clock - offsetAt(clock, timeZone);
  const at = clock - offsetAt(about, timeZone);
  // clocks skip some times, midnight in some zones: such a time is the later of both readings, as Postgres reads it
  return new Date(at + offsetAt(at, timeZone) === clock ? at : Math.max(at, about));
}

/** Reads when a price begins, as `readLocal` does. */
export function momentReader(c: PageContext): (text: string) => Moment {
  return (text) => ({ at: readLocal(text, c.var.services.calendar.timeZone) });
}

/** The instant at which a day ends on the clock of a zone. @throws FieldError also for a day that is over */
export function readLastDay(day: string, timeZone: string, now: number): Date {
  const end = readLocal(addDays(readDay(day), 1), timeZone);
  if (end.getTime() <= now) throw new FieldError(refusal('over'));
  return end;
}

/** "2026-11-22T10:00" on the clock of a zone, as an input of the type datetime-local takes it. */
export function localText(at: Date, timeZone: string): string {
  return new Date(at.getTime() + offsetAt(at.getTime(), timeZone)).toISOString().slice(0, 16);
}

/** Milliseconds that a time zone is ahead of UTC: its clock, read as if it were UTC, less the time. */
function offsetAt(at: number, timeZone: string): number {
  const format = new Intl.DateTimeFormat('sv-SE', {
    timeZone,
    dateStyle: 'short',
    timeStyle: 'medium',
  });
  const clock = format.format(at).replace(' ', 'T').padStart(19, '0'); // years before 1000 have fewer digits
  return Date.parse(`${clock}Z`) - Math.floor(at / 1000) * 1000;
}
