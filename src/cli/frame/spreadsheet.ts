import {
  type CsvForm,
  PLAIN_CSV,
  SPREADSHEET_NAMES,
  SPREADSHEETS,
  type Spreadsheet,
} from '../../domain/documents/csv.ts';
import { oneOf } from '../../domain/field.ts';
import { ArgumentError, optional } from './command.ts';

/** The option of every command that prints CSV. */
export const spreadsheet = optional(
  `--spreadsheet ${SPREADSHEET_NAMES.join('|')}`,
  oneOf(...SPREADSHEET_NAMES),
  'CSV to be opened with a spreadsheet, with a byte order mark: "comma" for numbers like 1234.56, "semicolon" for those like 1234,56',
);

/** How the CSV that was asked for is written; null: none was. @throws ArgumentError */
export function csvForm(
  csv: boolean,
  spreadsheet: Spreadsheet | undefined,
  json: boolean,
): CsvForm | null {
  if (!csv && spreadsheet === undefined) return null;
  if (json) throw new ArgumentError('--csv and --json exclude each other; choose one');
  return spreadsheet === undefined ? PLAIN_CSV : SPREADSHEETS[spreadsheet];
}
