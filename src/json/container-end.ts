import {
  CLOSE_BRACE,
  CLOSE_BRACKET,
  CR,
  LF,
  OPEN_BRACE,
  OPEN_BRACKET,
  QUOTE,
  SPACE,
  scalarEnd,
  stringEnd,
  TAB,
} from './bytes.ts';

/** The end of the value that begins at i, or -1. Nothing in it is looked at. */
export function valueEnd(b: Buffer, i: number, end: number, lineEnds: boolean): number {
  if (i >= end) return -1;
  const first = b[i];
  if (first === OPEN_BRACE || first === OPEN_BRACKET) return containerEnd(b, i, end, lineEnds);
  if (first !== QUOTE) return scalarEnd(b, i, end);
  const last = stringEnd(b, i + 1, end);
  return last < 0 ? -1 : last + 1;
}

/** The end of the object or array that begins at `start`, or -1. Counts brackets and leaves the rest to JSON.parse. */
export function containerEnd(b: Buffer, start: number, end: number, lineEnds: boolean): number {
  let depth = 1; // open brackets
  for (let i = start + 1; i < end; i++) {
    const c = b[i] as number;
    if (c === QUOTE) {
      i = stringEnd(b, i + 1, end);
      if (i < 0) return -1;
    } else if (c === OPEN_BRACE || c === OPEN_BRACKET) depth++;
    else if (c === CLOSE_BRACE || c === CLOSE_BRACKET) {
      if (--depth > 0) continue;
      try {
        JSON.parse(b.toString('utf8', start, i + 1));
        return i + 1;
      } catch {
        return -1;
      }
    } else if (!lineEnds && (c === LF || c === CR)) return -1;
  }
  return -1;
}

/** The offset of the first byte at or after i that is not whitespace, or end. */
export function spaceEnd(b: Buffer, i: number, end: number, lineEnds: boolean): number {
  for (; i < end; i++) {
    const c = b[i] as number;
    if (c > SPACE) return i;
    if (c !== SPACE && c !== TAB && !(lineEnds && (c === LF || c === CR))) return i;
  }
  return end;
}
