import type { Read } from '../field.ts';
import type { Words } from '../language/en.ts';
import type { Schema } from './schema.ts';

export declare const TYPES: unique symbol;

/**
 * A column that people set: all that pages, commands, HTTP, files and the audit log have to know of it. A setting is one
 * row of a table of its noun (company.ts, key.ts, …). Columns, schemas, options and fields are made from the rows.
 * @template T its values; null where it may be unset
 * @template G what it is given, where that is more than its values
 * @template J what a body or a file gives, where that is less
 */
export interface Setting<T = unknown, G = T, J = G> {
  /**
   * How its values are typed, compared and shown. amount: EUR as exact decimal text; price: EUR per 1000 tokens as exact
   * decimal text; factor: exact decimal text; switch: true or false; rates: a list of prices with conditions.
   */
  readonly kind:
    | 'text'
    | 'amount'
    | 'price'
    | 'factor'
    | 'number'
    | 'switch'
    | 'choice'
    | 'list'
    | 'instant'
    | 'rates';
  /** Of its member in a body or a file. */
  readonly schema: Schema<J>;
  /** Its option of a command: "--budget EUR"; of a switch the name alone. */
  readonly option: string;
  /** What its option does. */
  readonly meaning: string;
  /** What its option does in a change, where that is told differently. */
  readonly changed?: string;
  /** Reads a value that somebody typed; of a list one of its values. @throws FieldError */
  readonly read: Read<NonNullable<G> extends readonly (infer E)[] ? E : G>;
  /** The option also takes "none", and a field may be empty: null. */
  readonly isNullable?: true;
  /** Something new needs it. */
  readonly isNeeded?: true;
  /** The control in a form; operators' pages are in English. */
  readonly field: Field;
  /** Told to the compiler alone. */
  readonly [TYPES]?: { readonly stored: T; readonly given: G };
}

/** A setting that something new needs. */
export type Needed<T> = Setting<T> & { readonly isNeeded: true };

interface Field {
  readonly name: string;
  label(words: Words): string;
  hint?(words: Words): string;
  /** Of a choice that is a box: the values when it is off and on. */
  readonly box?: readonly [off: string, on: string];
  /**
   * Of a choice or a list: the texts of its values. Empty stands for null. Of a switch that something new needs: those
   * of true and false, of which nobody takes one but the person.
   */
  choices?(words: Words): readonly (readonly [string, string])[];
  /** Of a text of several lines, or of a list without choices, which has a value on each line. */
  readonly rows?: number;
  /** Of a number with decimals. */
  readonly inputmode?: 'decimal';
}

/** The settings of a noun, by their columns. */
export type Settings = Readonly<Record<string, Setting>>;

/** What a row of the table holds. */
export type Values<S> = {
  readonly [K in keyof S]: S[K] extends { readonly [TYPES]?: { stored: infer T } } ? T : never;
};

/** What a change may give. */
export type Given<S> = {
  readonly [K in keyof S]: S[K] extends { readonly [TYPES]?: { given: infer G } } ? G : never;
};

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
export function schemasOf<S extends Settings>(
  settings: S,
): { readonly [K in keyof S]: S[K]['schema'] } {
  return eachSetting(settings, ({ schema }) => schema);
}

type NeededOf<S> = {
  [K in keyof S]: S[K] extends { readonly isNeeded: true } ? K : never;
}[keyof S] &
  string;

/** The members that something new needs. */
export function neededOf<S extends Settings>(settings: S): NeededOf<S>[] {
  return Object.keys(settings).filter((column) => settings[column]?.isNeeded) as NeededOf<S>[];
}

/** What something new is given: all that it needs, and any other setting. */
export type New<S> = Pick<Given<S>, NeededOf<S> & keyof S> & {
  readonly [K in keyof S]?: Given<S>[K] | undefined;
};

/** The labels of the fields, by column, in the words of a language. */
export function labelsOf<S extends Settings>(
  settings: S,
  words: Words,
): { readonly [K in keyof S]: string } {
  return eachSetting(settings, ({ field }) => field.label(words));
}
