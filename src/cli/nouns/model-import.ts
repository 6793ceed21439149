import { readText } from '../../domain/field.ts';
import { IMPORT_BYTES, IMPORT_COLUMNS, type ImportMistake, readModels } from '../../domain/settings/model-csv.ts';
import { type ImportedLine, importModels } from '../../operations/model-import.ts';
import { command, Failure, flag } from '../frame/command.ts';
import { inputName, readInput } from '../frame/files.ts';
import { listing } from '../frame/text.ts';

export const modelImportCommand = command({
  name: 'model import',
  summary: 'add and change models and their prices from a CSV file',
  operand: { shown: 'FILE.csv', meaning: 'a file with a heading, or - for standard input', read: readText },
  options: { dryRun: flag('--dry-run', 'show what would change, and change nothing') },
  notes: `Columns: ${IMPORT_COLUMNS}.
Prices are plain decimal numbers with a dot, in EUR per 1000 or 1,000,000 tokens as the heading says. A line with valid_from is a price that begins then; a line without it holds from now on. Lines of models that are as they should be change nothing, and models that the file does not name stay.`,
  async run({ transact, stdin }, { dryRun }, file) {
    const { models, mistakes } = readModels(await readInput(file, stdin, IMPORT_BYTES));
    refuse(file, mistakes);
    const result = await transact((sql) => importModels(sql, models, () => !dryRun));
    refuse(file, result.mistakes);
    return { json: { dry_run: dryRun, lines: result.lines }, text: show(result.lines, dryRun) };
  },
});

/** @throws Failure with all mistakes */
function refuse(file: string, mistakes: readonly ImportMistake[]): void {
  if (mistakes.length === 0) return;
  const lines = mistakes.map(
    ({ line, column, message }) => `${inputName(file)}:${line}: ${column === null ? 'the line' : column} ${message}`,
  );
  throw new Failure(...lines);
}

function show(lines: readonly ImportedLine[], dryRun: boolean): string {
  const count = (state: ImportedLine['state']) => lines.filter((line) => line.state === state).length;
  const columns = {
    LINE: ({ line }: ImportedLine) => line,
    MODEL: ({ slug }: ImportedLine) => slug,
    COMPANY: ({ company }: ImportedLine) => company ?? 'all',
    STATE: ({ state }: ImportedLine) => state,
    CHANGES: ({ changes }: ImportedLine) => changes.join('; ') || '-',
  };
  const sums = `${count('new')} new, ${count('changed')} changed, ${count('same')} the same.${dryRun ? ' Nothing was changed.' : ''}`;
  return `${listing(lines, columns, '', ['LINE'])}\n\n${sums}`;
}
