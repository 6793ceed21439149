import {
  COLON,
  CR,
  equals,
  LF,
  OPEN_BRACE,
  OPEN_BRACKET,
  QUOTE,
  SPACE,
  TAB,
} from '../json/bytes.ts';

const DATA = Buffer.from('data:');
const EVENT = Buffer.from('event:');
const ERROR = Buffer.from('error:');
const LESS_THAN = 0x3c;

/** Bytes of an upstream's error that are quoted in a reason. */
const MAX_QUOTED = 500;

/** Where the value of the data line [start, end) begins; -1 if it is another line. One space before it is skipped. */
export function dataStart(b: Buffer, start: number, end: number): number {
  return isField(b, start, end, DATA) ? valueStart(b, start, end, DATA) : -1;
}

/** Whether the line [start, end) names the event. */
export function isEventName(b: Buffer, start: number, end: number): boolean {
  return isField(b, start, end, EVENT);
}

/** Where the value of the `event` line [start, end) begins. */
export function nameStart(b: Buffer, start: number, end: number): number {
  return valueStart(b, start, end, EVENT);
}

/** The offset behind the `event` line at i and its line end; i if it is another line, and `end` if the line is cut. */
export function eventNameEnd(b: Buffer, i: number, end: number): number {
  if (!startsWith(b, i, end, EVENT)) return i;
  let at = i + EVENT.length;
  while (at < end && b[at] !== LF && b[at] !== CR) at++;
  if (b[at] === CR && b[at + 1] === LF) at++;
  return Math.min(at + 1, end);
}

/** The offset behind the line end at i and the blank line after it; 0 if they are not there. */
export function blankLineEnd(b: Buffer, i: number): number {
  const length = b.length;
  let next = i;
  for (let lines = 0; lines < 2; lines++) {
    if (next >= length) return 0;
    const c = b[next++];
    if (c === CR) {
      if (next < length && b[next] === LF) next++;
    } else if (c !== LF) return 0;
  }
  return next;
}

/** Why a line that is no field of an event breaks the stream, and where its error begins; null if it does not. */
export function faultOf(
  b: Buffer,
  start: number,
  end: number,
): { what: string; start: number } | null {
  if (isField(b, start, end, ERROR))
    return { what: 'an error line', start: valueStart(b, start, end, ERROR) };
  const content = skipBlank(b, start, end);
  const first = content < end ? b[content] : SPACE;
  if (first === OPEN_BRACE || first === OPEN_BRACKET || first === QUOTE || first === LESS_THAN) {
    return { what: 'a line that is not part of an event', start: content };
  }
  return null;
}

/** Types of objects and names of events that tell a failure: error, server_error, exception. */
export const FAILURE = /(?:error|exception)$/i;
/** Members that say what went wrong, in an object that has nothing of an answer: detail, message, msg, errorCode. */
const FAULTS = /^(?:err|fault|exception|detail|message$|msg$)/i;

/**
 * Whether a JSON object without choices is an error itself, in the shapes of servers and routers:
 * {"object":"error","message":"…","code":500}, {"detail":"…"}, {"success":false}.
 */
export function isError(b: Buffer, start: number, end: number): boolean {
  const event = JSON.parse(b.toString('utf8', start, end));
  if ([event.object, event.type].some((name) => typeof name === 'string' && FAILURE.test(name)))
    return true;
  if (event.usage != null) return false;
  return (
    event.success === false ||
    Object.keys(event).some((name) => FAULTS.test(name) && isTold(event[name]))
  );
}

/** Whether a member says something: it is not null, false, 0, "", [] or {}. */
function isTold(value: unknown): boolean {
  return Boolean(value) && (typeof value !== 'object' || Object.keys(value as object).length > 0);
}

export function quoted(b: Buffer, start: number, end: number): string {
  return b.toString('utf8', start, Math.min(end, start + MAX_QUOTED));
}

export function startsWith(b: Buffer, start: number, end: number, prefix: Buffer): boolean {
  return end - start >= prefix.length && equals(b, start, prefix.length, prefix);
}

/** The offset of the first byte at or after i that is not a space, tab or LF, or end. */
export function skipBlank(b: Buffer, i: number, end: number): number {
  while (i < end) {
    const c = b[i];
    if (c !== SPACE && c !== TAB && c !== LF) return i;
    i++;
  }
  return end;
}

/** Whether the line is a field with this name, given with its colon. A line may be the name alone. */
function isField(b: Buffer, start: number, end: number, name: Buffer): boolean {
  const length = name.length - 1;
  if (end - start < length) return false;
  for (let i = 0; i < length; i++) if (b[start + i] !== name[i]) return false;
  return end - start === length || b[start + length] === COLON;
}

function valueStart(b: Buffer, start: number, end: number, name: Buffer): number {
  const value = Math.min(start + name.length, end);
  return value < end && b[value] === SPACE ? value + 1 : value;
}
