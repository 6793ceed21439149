import { type CsvErrorCode, parse } from 'csv-parse/sync';

/** One record of a CSV file. */
export interface CsvLine {
  /** The last of its lines in the file, from 1. */
  readonly line: number;
  readonly cells: readonly string[];
}

/** A mistake in a line of a CSV file. */
export class CsvError extends Error {
  readonly line: number;

  constructor(line: number, message: string) {
    super(message);
    this.line = line;
  }
}

const MALFORMED: Readonly<Partial<Record<CsvErrorCode, string>>> = {
  CSV_QUOTE_NOT_CLOSED: 'a quote is not closed',
  CSV_INVALID_CLOSING_QUOTE: 'text follows a closing quote',
  INVALID_OPENING_QUOTE: 'a quote stands within a value',
};

/** A file as it was separated: spreadsheets write ";" where numbers have decimal commas, and a tab in any language. */
export interface CsvText {
  readonly separator: ',' | ';' | '\t';
  readonly lines: readonly CsvLine[];
}

/** Reads CSV as in RFC 4180, without empty lines and without the blanks around values. @throws CsvError */
export function readCsv(text: string): CsvText {
  const heading = /^.*/.exec(text)?.[0] ?? '';
  const separator = heading.includes(',')
    ? ','
    : heading.includes(';')
      ? ';'
      : heading.includes('\t')
        ? '\t'
        : ',';
  const options = {
    bom: true,
    info: true,
    relax_column_count: true,
    skip_empty_lines: true,
    trim: true,
  } as const;
  try {
    const records = parse(text, {
      ...options,
      delimiter: separator,
      record_delimiter: ['\r\n', '\n', '\r'],
    });
    const read = records as unknown as { record: string[]; info: { lines: number } }[];
    return {
      separator,
      lines: read.map(({ record, info }) => ({ line: info.lines, cells: record })),
    };
  } catch (error) {
    const { lines = 1, code } = error as { lines?: number; code?: CsvErrorCode };
    if (code === undefined) throw error;
    throw new CsvError(lines, MALFORMED[code] ?? 'it cannot be read');
  }
}
