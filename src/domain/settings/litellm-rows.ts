import { readName } from '../field.ts';
import { unseenIn } from '../visible-text.ts';

/** Rows of a LiteLLM database, and what its router tells of models, as JSON: members may be absent, null or of any type. */
export type Row = Readonly<Record<string, unknown>>;

/** The tables that are read, by what their rows are. */
export interface LitellmTables {
  readonly keys: readonly Row[];
  /** Keys that were rotated, and work until `revoke_at`. */
  readonly oldKeys: readonly Row[];
  readonly teams: readonly Row[];
  readonly users: readonly Row[];
  readonly budgets: readonly Row[];
  /** Of `litellm_params`, whose texts are encrypted, only the numbers. */
  readonly models: readonly Row[];
  /** How many rows other tables have that could matter, by name. */
  readonly others: Readonly<Record<string, number>>;
}

/** Something of theirs that does not come, and why. */
export interface Left {
  readonly what: string;
  readonly why: string;
}

/**
 * JSON whose numbers keep their digits: whole ones are numbers, such as sizes are, and all others are their decimal text.
 * @throws SyntaxError
 */
export function readJson(text: string): unknown {
  const reviver = (_: string, value: unknown, context?: { readonly source?: string }): unknown =>
    typeof value === 'number' && !/^\d{1,15}(\.0+)?$/.test(context?.source ?? '')
      ? context?.source
      : value;
  return JSON.parse(text, reviver as Parameters<typeof JSON.parse>[1]);
}

export function textIn(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null;
}

/** A number, which JSON may have as text. */
export function numberIn(value: unknown): number | null {
  const number = textIn(value) === null ? value : Number(value);
  return typeof number === 'number' && Number.isFinite(number) ? number : null;
}

export function textsIn(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((each) => typeof each === 'string') : [];
}

/** A JSON object, which some versions have written as text. */
export function objectIn(value: unknown): Row {
  if (typeof value === 'string') {
    try {
      return objectIn(readJson(value));
    } catch {
      return {};
    }
  }
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Row) : {};
}

/** A list of JSON objects, which some versions have written as text. */
export function objectsIn(value: unknown): Row[] {
  const { list } = typeof value === 'string' ? objectIn(`{"list":${value}}`) : { list: value };
  return Array.isArray(list) ? list.map(objectIn) : [];
}

/** The first of some texts as a name that something may have here, without characters that nobody sees. */
export function nameFrom(...texts: readonly unknown[]): string {
  for (const text of texts) {
    const whole = textIn(text) ?? '';
    const seen = Array.from(whole.replace(/\s+/g, ' ')).filter(
      (letter) => unseenIn(letter) === null,
    );
    for (const name of [whole, seen.join('').slice(0, 200).toWellFormed()]) {
      try {
        return readName(name);
      } catch {
        // the next one
      }
    }
  }
  return 'without a name';
}

/** Members of a row that say something, and of which nothing comes; those of `metadata` each by itself. */
export function without(row: Row, known: readonly string[]): string[] {
  const names = Object.entries(row).flatMap(([column, value]) => {
    if (known.includes(column) || isNothing(value)) return [];
    if (column !== 'metadata') return [column];
    return Object.entries(objectIn(value)).flatMap(([member, held]) =>
      isNothing(held) ? [] : [`metadata.${nameFrom(member)}`],
    );
  });
  return names.length === 0 ? [] : [`no counterpart: ${names.join(', ')}`];
}

function isNothing(value: unknown): boolean {
  if (typeof value === 'object' && value !== null) return Object.keys(value).length === 0;
  return (
    value === null ||
    value === undefined ||
    value === false ||
    value === '' ||
    value === 0 ||
    value === '{}'
  );
}
