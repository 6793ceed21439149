/**
 * CSV as in RFC 4180, but with "\n" as the end of a line. Whatever is written holds text that others chose, and people
 * open it with spreadsheets.
 */

/** How a file is written. */
export interface CsvForm {
  readonly separator: ',' | ';';
  readonly decimal: '.' | ',';
  /** The byte order mark, without which Excel takes "ü" for two letters of another alphabet; empty: none. */
  readonly mark: string;
}

/** For programs. */
export const PLAIN_CSV: CsvForm = { separator: ',', decimal: '.', mark: '' };

/** For spreadsheets, by the separator of two cells. It is ";" in languages whose numbers have decimal commas. */
export const SPREADSHEETS = {
  comma: { separator: ',', decimal: '.', mark: '\ufeff' },
  semicolon: { separator: ';', decimal: ',', mark: '\ufeff' },
} as const satisfies Readonly<Record<string, CsvForm>>;
export type Spreadsheet = keyof typeof SPREADSHEETS;
export const SPREADSHEET_NAMES = Object.keys(SPREADSHEETS) as Spreadsheet[];

/** A number as exact decimal text. Everything else that is a string is text. */
export class Decimal {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** A cell with a number as decimal text; null: the cell is empty. */
export function decimal(text: string | null | undefined): Decimal | null {
  return text == null ? null : new Decimal(text);
}

type CsvCell = string | number | Decimal | null | undefined;
/** The columns of a table by their names. */
export type CsvColumns<T> = Readonly<Record<string, (row: T) => CsvCell>>;

/** The first line of a file. */
export function csvHeading(columns: readonly string[], { separator, mark }: CsvForm): string {
  return `${mark}${columns.join(separator)}\n`;
}

/** The lines of some rows. */
export function csvRows<T>(columns: CsvColumns<T>, rows: readonly T[], form: CsvForm): string {
  const cells = Object.values(columns);
  return rows
    .map((row) => `${cells.map((cell) => written(cell(row), form)).join(form.separator)}\n`)
    .join('');
}

/** A whole file. */
export function csvFile<T>(columns: CsvColumns<T>, rows: readonly T[], form: CsvForm): string {
  return csvHeading(Object.keys(columns), form) + csvRows(columns, rows, form);
}

function written(cell: CsvCell, { decimal }: CsvForm): string {
  if (cell == null) return '';
  if (typeof cell === 'number') return String(cell).replace('.', decimal);
  if (cell instanceof Decimal) return cell.text.replace('.', decimal);
  const text = harmless(cell);
  return /[",;\t\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** White space that a spreadsheet may ignore before a formula, and the quote. */
const IGNORED =
  '[\\t\\n\\v\\f\\r \\u0085\\u00a0\\u1680\\u2000-\\u200d\\u2028\\u2029\\u202f\\u205f\\u3000\\ufeff"]*';
/**
 * Where a cell could begin with a formula, as JavaScript and Postgres read it: at the beginning of a text, and behind
 * each character that separates cells or lines in any spreadsheet, because a quote within a line does not protect what
 * another separator cuts out of it. The last signs are those of a Japanese keyboard.
 */
export const FORMULA = `(^|[,;\\t\\r\\n])(${IGNORED})(?=[=+@\\uff1d\\uff0b\\uff20\\uff0d-])|^(?=[\\t\\r\\n])`;
const FORMULAS = new RegExp(FORMULA, 'g');

/** A text no part of which a spreadsheet takes for a formula, whatever it separates cells by. */
function harmless(text: string): string {
  return text.replace(FORMULAS, "$1$2'");
}
