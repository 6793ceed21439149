import {
  CsvError,
  type CsvLine,
  type CsvText,
  plainNumber,
  readCsv,
} from '../documents/read-csv.ts';
import { FieldError, orNone, type Read, readPresentName, readSlug } from '../field.ts';
import { type Moment, priceIn, readMoment, readPriceIn } from '../price.ts';
import { MODEL_SETTINGS, NEEDED_PRICES, type NewPrices, PRICE_NAMES, PRICES } from './model.ts';
import { namesOf } from './schema.ts';
import { eachSetting, type New, neededOf, type Setting } from './setting.ts';

/** One line of a file of models. */
export interface ImportedModel {
  readonly line: number;
  readonly slug: string;
  /** Name or id of the company whose own model it is; null: a shared model. */
  readonly company: string | null;
  readonly settings: New<typeof MODEL_SETTINGS>;
  readonly prices: NewPrices;
  /** When the prices begin; null: now. */
  readonly valid_from: Moment | null;
  /** The operator's cost price; null: it stays as it is. */
  readonly cost: NewPrices | null;
}

/** One mistake in a file. */
export interface ImportMistake {
  readonly line: number;
  /** The column, as its heading names it; null: the line as a whole. */
  readonly column: string | null;
  readonly message: string;
}

export const IMPORT_BYTES = 1 << 20;
const MAX_LINES = 1000;
const SETTINGS = namesOf(MODEL_SETTINGS);
const REQUIRED: readonly string[] = ['slug', ...neededOf(MODEL_SETTINGS)];
const OPTIONAL = [
  'company',
  ...SETTINGS.filter((column) => !REQUIRED.includes(column)),
  'valid_from',
];
const COSTS = PRICE_NAMES.map((name) => `cost_${name}` as const);
const NEEDED_COSTS = NEEDED_PRICES.map((name) => `cost_${name}` as const);
const OPTIONAL_PRICES = PRICE_NAMES.filter(
  (name) => !NEEDED_PRICES.some((needed) => needed === name),
);
/** "input_per_1m" */
const PRICE_HEADING = new RegExp(`^(${[...PRICE_NAMES, ...COSTS].join('|')})_per_1[km]$`);

/** What spreadsheets in English and German make of "true" and "false", and in German of a date. */
const TRUTHS: Readonly<Record<string, string>> = {
  true: 'true',
  wahr: 'true',
  false: 'false',
  falsch: 'false',
};
const GERMAN_DAY = /^(\d\d)\.(\d\d)\.(\d{4})$/;

/** The headings of a file, for people. */
export const IMPORT_COLUMNS = `${REQUIRED.join(', ')}, ${NEEDED_PRICES.map((name) => `${name}_per_1k or ${name}_per_1m`).join(', ')}; may be there: ${OPTIONAL.join(', ')}, ${[...NEEDED_COSTS, ...OPTIONAL_PRICES, ...OPTIONAL_PRICES.map((name) => `cost_${name}`)].map((name) => `${name}_per_1k`).join(', ')} (or _1m)`;

/** Reads a CSV file of models with a heading. All mistakes are found at once; with any, `models` is incomplete. */
export function readModels(text: string): { models: ImportedModel[]; mistakes: ImportMistake[] } {
  const mistakes: ImportMistake[] = [];
  const only = (line: number, message: string) => ({
    models: [],
    mistakes: [{ line, column: null, message }],
  });
  const file = readLines(text);
  if (file instanceof CsvError) return only(file.line, `is not CSV: ${file.message}`);
  const [heading, ...lines] = file.lines;
  if (heading === undefined) return only(1, 'is missing: the first line names the columns');
  const columns = readHeading(heading, file.separator, mistakes);
  if (mistakes.length > 0) return { models: [], mistakes };
  if (lines.length === 0) return only(heading.line + 1, 'is missing: there are no models');
  const surplus = lines[MAX_LINES];
  if (surplus !== undefined)
    return only(surplus.line, `is one too many: at most ${MAX_LINES} models`);
  const models = lines
    .map((line) => readModel(line, columns, mistakes))
    .filter((model) => model !== null);
  findContradictions(models, mistakes);
  return { models, mistakes: mistakes.sort((a, b) => a.line - b.line) };
}

function readLines(text: string): CsvText | CsvError {
  try {
    return readCsv(text);
  } catch (error) {
    if (error instanceof CsvError) return error;
    throw error;
  }
}

/** Where each value stands. */
interface Heading {
  readonly separator: CsvText['separator'];
  readonly names: readonly string[];
  readonly at: ReadonlyMap<string, number>;
}

function readHeading(
  { line, cells }: CsvLine,
  separator: Heading['separator'],
  mistakes: ImportMistake[],
): Heading {
  const names = cells.slice(0, lengthOf(cells)).map((cell) => cell.toLowerCase());
  const at = new Map<string, number>();
  const wrong = (column: string, message: string) => mistakes.push({ line, column, message });
  for (const [index, name] of names.entries()) {
    const [, price] = PRICE_HEADING.exec(name) ?? [];
    const key = price ?? name;
    if (at.has(key))
      wrong(name, price === undefined ? 'stands twice' : `gives the ${key} price a second time`);
    else if (price === undefined && ![...REQUIRED, ...OPTIONAL].includes(name))
      wrong(name, `is not known; the columns are ${IMPORT_COLUMNS}`);
    at.set(key, index);
  }
  for (const name of REQUIRED) if (!at.has(name)) wrong(name, 'is missing');
  for (const name of NEEDED_PRICES) {
    if (!at.has(name)) wrong(name, `is missing: ${name}_per_1k, or ${name}_per_1m`);
  }
  const hasCosts = COSTS.some((name) => at.has(name));
  if (hasCosts && !NEEDED_COSTS.every((name) => at.has(name)))
    wrong(NEEDED_COSTS[0] as string, TOGETHER);
  return { separator, names, at };
}

const TOGETHER = `and ${NEEDED_COSTS.slice(1).join(', ')} go together`;

/** Of a line without its empty last columns, which spreadsheets add or leave out. */
function lengthOf(cells: readonly string[]): number {
  return cells.findLastIndex((cell) => cell !== '') + 1;
}

function readModel(
  { line, cells }: CsvLine,
  { separator, names, at }: Heading,
  mistakes: ImportMistake[],
): ImportedModel | null {
  const before = mistakes.length;
  const wrong = (column: string | null, message: string) =>
    mistakes.push({ line, column, message });
  const isShort = [...REQUIRED, ...NEEDED_PRICES].some(
    (name) => (at.get(name) as number) >= cells.length,
  );
  if (lengthOf(cells) > names.length || isShort) {
    wrong(null, `has ${cells.length} values, and the heading ${names.length}`);
    return null;
  }
  const headingOf = (key: string) => names[at.get(key) as number] as string;
  const cellOf = (key: string): string => cells[at.get(key) ?? cells.length] ?? '';
  const optional = <T>(key: string, read: Read<T>): T | null => {
    const text = cellOf(key);
    if (text === '') return null;
    try {
      return read(text);
    } catch (error) {
      if (!(error instanceof FieldError)) throw error;
      wrong(headingOf(key), error.message);
      return null;
    }
  };
  const required = <T>(key: string, read: Read<T>): T => {
    if (cellOf(key) === '') wrong(headingOf(key), 'is missing');
    return optional(key, read) as T;
  };
  const price = (key: string) => (text: string) => {
    const read = readPriceIn(headingOf(key).endsWith('1m') ? '1M' : '1k');
    return priceIn('1k', read(plainNumber(text, separator))); // without trailing zeros
  };
  /** undefined: it is left out */
  const orLeft = (key: string, { isNullable }: Pick<Setting, 'isNullable'>, read: Read<unknown>) =>
    cellOf(key) === '' ? undefined : optional(key, isNullable ? orNone(read) : read);
  const given = (key: string, setting: Setting, read: Read<unknown>) =>
    setting.isNeeded ? required(key, read) : orLeft(key, setting, read);
  const costs = eachSetting(PRICES, (setting, name) =>
    orLeft(`cost_${name}`, setting, price(`cost_${name}`)),
  );
  const slug = required('slug', readSlug);
  const settings = eachSetting(MODEL_SETTINGS, (setting, column) => {
    const { kind, read } = setting;
    return given(
      column,
      setting,
      kind === 'switch' ? (text) => read(TRUTHS[text.toLowerCase()] ?? text) : read,
    );
  });
  const company = optional('company', readPresentName);
  const prices = eachSetting(PRICES, (setting, name) => given(name, setting, price(name)));
  const valid_from = optional('valid_from', (text) =>
    readMoment(text.replace(GERMAN_DAY, '$3-$2-$1')),
  );
  const cost = NEEDED_PRICES.every((name) => costs[name] != null) ? costs : null;
  if (mistakes.length === before) {
    const hasCosts = PRICE_NAMES.some((name) => costs[name] !== undefined);
    if (hasCosts && cost === null) wrong(NEEDED_COSTS[0] as string, TOGETHER);
    else if (cost !== null && valid_from !== null && 'at' in valid_from) {
      wrong(
        headingOf('valid_from'),
        'must be a date where there are cost prices, which begin with a day',
      );
    }
  }
  return mistakes.length > before
    ? null
    : ({ line, slug, company, settings, prices, valid_from, cost } as ImportedModel);
}

/** Lines that say the same twice, or different things of one model. */
export function findContradictions(
  models: readonly ImportedModel[],
  mistakes: ImportMistake[],
): void {
  const wrong = ({ line }: ImportedModel, column: string, message: string) =>
    mistakes.push({ line, column, message });
  const first = new Map<string, ImportedModel>();
  const dated = new Map<string, ImportedModel>();
  for (const model of models) {
    const name = JSON.stringify([model.slug, model.company]);
    const when = JSON.stringify([name, model.valid_from]);
    const same = dated.get(when);
    if (same !== undefined) {
      wrong(model, 'slug', `is the model of line ${same.line}, from the same moment`);
      continue;
    }
    dated.set(when, model);
    const other = first.get(name);
    first.set(name, other ?? model);
    for (const column of SETTINGS) {
      if (other !== undefined && other.settings[column] !== model.settings[column]) {
        wrong(model, column, `differs from line ${other.line}, which is the same model`);
      }
    }
  }
}
