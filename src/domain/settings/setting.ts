import type { Read } from '../field.ts';
import type { Words } from '../language/en.ts';
import type { Schema } from './schema.ts';

/**
 * A column that people set: all that pages, commands, HTTP, files and the audit log have to know of it. A setting is one
 * row of a table of its noun (company.ts, key.ts, …). Columns, schemas, options and fields are made from the rows.
 * @template T its values; null where it may be unset
 */
export interface Setting<T = unknown> {
  /** How its values are typed, compared and shown. amount: EUR as exact decimal text; switch: true or false. */
  readonly kind: 'text' | 'amount' | 'number' | 'switch' | 'choice' | 'list' | 'instant';
  /** Of its member in a body or a file. */
  readonly schema: Schema<T>;
  /** Its option of a command: "--budget EUR"; of a switch the name alone. */
  readonly option: string;
  /** What its option does. */
  readonly meaning: string;
  /** Reads a value that somebody typed. @throws FieldError */
  readonly read: Read<T>;
  /** The option also takes "none", and a field may be empty: null. */
  readonly isNullable?: true;
  /** The control in a form; operators' pages are in English. */
  readonly field: Field;
}

interface Field {
  readonly name: string;
  label(words: Words): string;
  hint?(words: Words): string;
  /** Of a choice that is a box: the values when it is off and on. */
  readonly box?: readonly [off: string, on: string];
  /** Of a choice: the texts of its values. Empty stands for null. */
  choices?(words: Words): readonly (readonly [string, string])[];
}

/** The settings of a noun, by their columns. */
export type Settings = Readonly<Record<string, Setting>>;

/** What a row of the table holds. */
export type Values<S> = { readonly [K in keyof S]: S[K] extends Setting<infer T> ? T : never };

/** Makes something of each setting, such as its schema. */
export function eachSetting<S extends Settings, T>(
  settings: S,
  make: (setting: Setting, column: keyof S & string) => T,
): { readonly [K in keyof S]: T } {
  return Object.fromEntries(
    Object.entries(settings).map(([column, setting]) => [column, make(setting, column)]),
  ) as Record<keyof S, T>;
}

/** The schemas of the members. */
export function schemasOf<S extends Settings>(settings: S): { readonly [K in keyof S]: S[K]['schema'] } {
  return eachSetting(settings, ({ schema }) => schema);
}

/** The labels of the fields, by column, in the words of a language. */
export function labelsOf<S extends Settings>(settings: S, words: Words): { readonly [K in keyof S]: string } {
  return eachSetting(settings, ({ field }) => field.label(words));
}
