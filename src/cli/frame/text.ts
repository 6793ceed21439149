import type { WriteStream } from 'node:tty';
import { TOKEN_DETAILS } from '../../domain/usage.ts';
import { actorName } from '../../domain/wording/change-text.ts';
import type { Erased } from '../../store/company/erasure.ts';
import { cut } from '../../store/connection/cursor.ts';

/** Text for people at a terminal. */

const PROGRESS_MS = 5000;
/** Rows that `firstRows` shows. */
export const MOST_SHOWN = 50;

/** The most rows that a list prints of an endless log. */
export const MOST_LISTED = 1000;

/** Before each cell of a table until `fitted` draws it: a control character, which no cell has. */
const CELL = '\u001f';
/** Marks before the heading of a table, and before a line that says what is wrong: `fitted` draws them. */
const HEADING = '\u001e';
const WRONG = '\u001d';

const LOOKS = { heading: '1', wrong: '31', warning: '33' } as const;
const NUMBER = /^-?\d+(\.\d+)?$/;

/** Draws a text as what it is. */
export type Paint = (text: string, look: keyof typeof LOOKS) => string;
const plain: Paint = (text) => text;
const colored: Paint = (text, look) =>
  text === '' ? '' : `\u001b[${LOOKS[look]}m${text}\u001b[0m`;

/** How a stream is drawn on: a pipe has neither width nor colours, and NO_COLOR and TERM=dumb ask for none. */
export function terminalOf(stream: object, env: Readonly<Record<string, string | undefined>>) {
  const { columns, isTTY } = stream as Partial<WriteStream>;
  const isColored = isTTY === true && !env.NO_COLOR && env.TERM !== 'dumb';
  return { columns: columns || undefined, paint: isColored ? colored : plain }; // some terminals say 0
}

/** Lines that say what is wrong, which stand out in a terminal. */
export function alarm(text: string): string {
  return text.replace(/^(?=.)/gm, WRONG);
}

/** One letter on a terminal, which may have several characters. Made when first needed: 8 ms of a start. */
let letters: Intl.Segmenter | null = null;
const PLAIN = /^[ -~]*$/;
const MARKS = /^[\p{M}\p{Cf}]+$/u;
const WIDE =
  /^(?:\p{RGI_Emoji}|\p{Emoji_Presentation}|[[\p{sc=Han}\p{sc=Hangul}\p{sc=Yi}\u3000-\u303e\u3040-\u33ff\ufe30-\ufe6b\uff01-\uff60\uffe0-\uffe6]--[\uff61-\uffdc]])/v;

/** A value in a table or on a card; a dash stands for none. */
export type Cell = string | number | null | undefined;

/**
 * An aligned table with a heading, for `fitted` to draw. Columns of numbers are aligned to the right, and those named in
 * `right`, which have words among them.
 */
export function table(
  heading: readonly string[],
  rows: readonly (readonly Cell[])[],
  right: readonly string[] = [],
) {
  const isRight = heading.map(
    (name, at) => right.includes(name) || isNumbers(rows.map((row) => row[at])),
  );
  const lines = [heading, ...rows].map((row) => row.map(printable));
  const widths = heading.map((_, at) =>
    lines.reduce((most, line) => Math.max(most, width(line[at] as string)), 0),
  );
  const padded = (cell: string, column: number): string => {
    const space = ' '.repeat((widths[column] as number) - width(cell));
    return CELL + (isRight[column] ? space + cell : cell + space);
  };
  return HEADING + lines.map((line) => line.map(padded).join('')).join('\n');
}

/** Whether a column has numbers, and else nothing: amounts too, which are exact text. */
function isNumbers(cells: readonly Cell[]): boolean {
  const filled = cells.filter((cell) => cell != null && cell !== '-');
  return filled.length > 0 && filled.every((cell) => NUMBER.test(`${cell}`));
}

/**
 * Draws the tables of a text. Where one is wider than the terminal, its lines go on below, indented: all at the same
 * columns, so that values stay below their names. Only of the last column do short values stay where they fit.
 */
export function fitted(
  text: string,
  columns: number = Number.POSITIVE_INFINITY,
  paint: Paint = plain,
): string {
  const lines = text.split('\n').flatMap((marked) => {
    const look = marked.includes(HEADING) ? 'heading' : marked.includes(WRONG) ? 'wrong' : null;
    const row = look === null ? marked : marked.replace(look === 'heading' ? HEADING : WRONG, '');
    const painted = (line: string) => (look === null ? line : paint(line, look));
    const [words, first, ...cells] = row.split(CELL) as [string, ...string[]];
    if (first === undefined) return painted(words);
    const drawn = [first];
    for (const [k, cell] of cells.entries()) {
      const longer = `${drawn.at(-1)}  ${cell}`;
      const isLast = k === cells.length - 1;
      if (width(isLast ? longer.trimEnd() : longer) > columns) drawn.push(`    ${cell}`);
      else drawn[drawn.length - 1] = longer;
    }
    return drawn.map((line) => painted(line.trimEnd()));
  });
  return lines.join('\n');
}

/** A sentence, then names and values, one pair a line. */
export function card(sentence: string, members: Readonly<Record<string, Cell>>): string {
  const longest = Math.max(...Object.keys(members).map(width));
  const lines = Object.entries(members).map(
    ([name, value]) => `  ${name.padEnd(longest)}  ${printable(value)}`,
  );
  return [...sentence.split('\n').map(printable), '', ...lines].join('\n');
}

/** A table with a row for each item, or the sentence `empty` when there are none. @param columns cells by heading */
export function listing<T>(
  items: readonly T[],
  columns: Readonly<Record<string, (item: T) => Cell>>,
  empty: string,
  right: readonly string[] = [],
): string {
  const rows = items.map((item) => Object.values(columns).map((cell) => cell(item)));
  return rows.length === 0 ? empty : table(Object.keys(columns), rows, right);
}

/** Columns that are called as their members: "COST EUR" of `cost_eur`, "CREATED (UTC)" of `created_at`. */
export function plainly<M extends string>(...members: readonly M[]) {
  return Object.fromEntries(
    members.map((member) => [
      `${labelOf(member)}${/_(?:at|seen)$/.test(member) ? ' (UTC)' : ''}`.toUpperCase(),
      ({ [member]: value }: { readonly [K in M]: unknown }) => cellOf(member, value),
    ]),
  );
}

/** "company" of `company_id`, and of `company_name`. */
export function labelOf(member: string): string {
  return member.replace(/(?<=company)_(?:id|name)$|_(?:at|slug)$/, '').replaceAll('_', ' ');
}

/** A member of a thing as people read it. @param time how an instant is written */
export function cellOf(member: string, value: unknown, time: (at: Date) => string = minute): Cell {
  if (value == null) return member.startsWith('company_') ? 'all' : null;
  if (value instanceof Date) return time(value);
  if (member.endsWith('_by')) return actorName(value as string);
  return typeof value === 'boolean' ? yesNo(value) : (value as Cell);
}

/** Prints a line every five seconds at most, and none at the beginning: how far a command is. @param clock milliseconds */
export function nowAndThen(
  progress: (line: string) => void,
  clock = () => performance.now(),
): (line: string) => void {
  let next = clock() + PROGRESS_MS;
  return (line) => {
    if (clock() < next) return;
    next = clock() + PROGRESS_MS;
    progress(line);
  };
}

/** Sections with an empty line between them, without those that are empty. */
export function sections(...texts: readonly string[]): string {
  return texts.filter((text) => text !== '').join('\n\n');
}

/** A table of the first rows, and how many more there are. */
export function firstRows(
  heading: readonly string[],
  rows: readonly (readonly Cell[])[],
  total: number,
  right: readonly string[] = [],
): string {
  const shown = rows.slice(0, MOST_SHOWN);
  return (
    table(heading, shown, right) +
    (total > shown.length ? `\nand ${total - shown.length} more` : '')
  );
}

/** The newest rows for a list, of which one more was read. Warns where older ones are left out. */
export function newest<T>(
  found: readonly T[],
  warn: (line: string) => void,
  narrower: string,
): readonly T[] {
  const { rows, next } = cut(found, MOST_LISTED, () => true);
  if (next !== null) warn(`only the newest ${MOST_LISTED} are printed; ${narrower}`);
  return rows;
}

/** The counts of an erasure, by table. @param sentence says whether it was done */
export function erasedText(sentence: string, { persons, rows }: Erased): string {
  const counts = Object.entries(rows).map(([table, count]) => [`rows of ${table}`, count]);
  return card(sentence, { persons, ...Object.fromEntries(counts) });
}

/** The token details of a row, by their names in words such as "cached tokens". */
export function tokenDetails<T>(
  row: Readonly<Record<(typeof TOKEN_DETAILS)[number], T>>,
  names: readonly (typeof TOKEN_DETAILS)[number][] = TOKEN_DETAILS,
): Record<string, T> {
  return Object.fromEntries(names.map((column) => [column.replaceAll('_', ' '), row[column]]));
}

/** "2026-11-21 09:41 UTC". */
export function instant(at: Date): string {
  return `${minute(at)} UTC`;
}

/** "2026-11-21 09:41", for columns whose heading names the zone; a dash for null. */
export function minute(at: Date | null): string {
  return at === null ? '-' : at.toISOString().slice(0, 16).replace('T', ' ');
}

/** "2027-01-01T00:00:00.000+01:00": an instant by the clock of a zone, exact. In UTC it ends in Z. */
export function zoned(at: Date, timeZone: string): string {
  if (timeZone === 'UTC') return at.toISOString();
  const day = { year: 'numeric', month: '2-digit', day: '2-digit' } as const;
  const time = {
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
    fractionalSecondDigits: 3,
  } as const;
  const format = new Intl.DateTimeFormat('sv-SE', {
    timeZone,
    ...day,
    ...time,
    timeZoneName: 'longOffset',
  });
  return format
    .format(at)
    .replace(' GMT', '')
    .replace(' ', 'T')
    .replace(',', '.')
    .replace('\u2212', '-');
}

export function yesNo(value: boolean): string {
  return value ? 'yes' : 'no';
}

/**
 * Replaces control characters, and those that turn the direction of a line: anyone may have written the names in the
 * database, and no name may control the terminal.
 */
export function printable(cell: Cell): string {
  return String(cell ?? '-').replace(/[\p{Cc}\u202a-\u202e\u2066-\u2069]/gu, '\u{fffd}');
}

/** Columns of a terminal that a text takes: two for an East Asian letter or an emoji, none for marks by themselves. */
function width(text: string): number {
  if (PLAIN.test(text)) return text.length;
  let columns = 0;
  letters ??= new Intl.Segmenter('en');
  for (const { segment } of letters.segment(text))
    columns += MARKS.test(segment) ? 0 : WIDE.test(segment) ? 2 : 1;
  return columns;
}
