import { EUR, FACTOR, MONTH, MOST_VALUES, PRICE, SLUG, UUID } from '../field.ts';

/**
 * JSON Schemas of values. They check bodies, queries and files, and openapi.json shows them. Their limits are those of
 * `sql/`, so that the database accepts every value. Their patterns mean the same to JavaScript with and without the flag u,
 * Python, Go, Java and Rust, for clients check values by them.
 */

/** A JSON Schema, as OpenAPI 3.1 and ajv read it. @template T the values that it accepts; told to the compiler alone */
export interface Schema<T = unknown> extends Readonly<Record<string, unknown>> {
  readonly '~value'?: T;
}

/** The values that a schema accepts. */
export type Value<S> = S extends { readonly '~value'?: infer T } ? T : never;

export type Properties = Readonly<Record<string, Schema>>;
/** The members of an object: those of `R` are always there. */
export type Members<P extends Properties, R extends keyof P> = {
  readonly [K in R]: Value<P[K]>;
} & {
  readonly [K in Exclude<keyof P, R>]?: Value<P[K]>;
};

/** An object without members other than those named. */
export interface ObjectSchema<T = unknown, P extends Properties = Properties> extends Schema<T> {
  readonly type: 'object';
  readonly properties: P;
}

/** Control characters, within a class of a pattern. */
export const CONTROL = '\\x00-\\x1f\\x7f-\\x9f';

/** A text of some form. @param description what it is: a text of another form must be that */
export function written(pattern: string, description: string, format?: string): Schema<string> {
  return { type: 'string', ...(format === undefined ? {} : { format }), pattern, description };
}

export const id = written(UUID.source, 'a UUID in lower case');
const INSTANT = {
  type: 'string',
  format: 'date-time',
  pattern: '^[12]\\d{3}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d(\\.\\d{1,6})?(Z|[+-]\\d\\d:\\d\\d)$',
  description: 'an instant such as 2027-01-31T18:00:00Z (RFC 3339)',
};
export const instant: Schema<string> = INSTANT;
/** An instant of a row, which JSON tells as text. */
export const time: Schema<Date> = INSTANT;
export const day = written(
  '^[12]\\d{3}-\\d\\d-\\d\\d$',
  'a day of the billing time zone such as 2027-01-31',
  'date',
);
/** The beginning of a day, or an instant. */
export const moment = written(
  '^[12]\\d{3}-\\d\\d-\\d\\d(T\\d\\d:\\d\\d:\\d\\d(\\.\\d{1,6})?(Z|[+-]\\d\\d:\\d\\d))?$',
  'a day of the billing time zone such as 2027-01-31, or an instant such as 2027-01-31T18:00:00Z',
  'moment',
);
/** The end of a day, or an instant. */
export const end: Schema<string> = {
  ...moment,
  description:
    'its last day in the billing time zone such as 2027-01-31, or an instant such as 2027-01-31T18:00:00Z',
};
export const month = written(MONTH.source, 'a month such as 2026-11');
/** A name that something has already. */
export const presentName = written(
  `^[^${CONTROL}]{0,199}[^${CONTROL}\\s]$`,
  'one line of 1 to 200 characters that does not end in a space',
);
/** A name that something is given: without characters that nobody sees. */
export const name: Schema<string> = { ...presentName, format: 'name' };
export const slug = written(SLUG.source, 'the name of a model: letters, digits and . _ : / @ + -');
export const eur = written(EUR.source, 'an amount in EUR as exact decimal text, such as "99.50"');
/** An amount above 0. */
export const aboveZero: Schema<string> = {
  ...eur,
  not: { type: 'string', pattern: '^0+(\\.0+)?$' },
  description: `${eur.description}, above 0`,
};
export const price = written(
  PRICE.source,
  'EUR per 1000 tokens as exact decimal text, such as "0.0025"',
);
export const priceFactor: Schema<string> = {
  ...written(
    FACTOR.source,
    'multiplies every price of the company: above 0, 1000 at most, as exact decimal text, such as "0.9"',
  ),
  not: { type: 'string', pattern: '^0+(\\.0+)?$' },
};
/** Lines of an address as it is printed. */
export const addressLines = written(
  '^[^\\x00-\\x1f\\x7f]{1,200}(\\n[^\\x00-\\x1f\\x7f]{1,200}){0,5}$',
  'one to six lines',
);
export const text = written('^[^\\x00]*$', 'any text without NUL');
export const string: Schema<string> = { type: 'string' };
export const textOrNull: Schema<string | null> = { type: ['string', 'null'] };
export const boolean: Schema<boolean> = { type: 'boolean' };
export const count: Schema<number> = { type: 'integer', minimum: 0 };
/** A sum that an operation answers with. */
export const sum: Schema<string> = { type: 'string', description: 'EUR as exact decimal text' };
export const cidr = written(
  '^[0-9a-fA-F:.]{2,45}(/\\d{1,3})?$',
  'a network such as 10.0.0.0/8, or one address',
  'cidr',
);
/** The cost centre that gets a budget; `readBudgetedCostCenter` decides. */
export const costCenter = written(
  `^[^${CONTROL}]{1,512}$`,
  'the name of a cost centre as calls give it: at most 64 printable characters that do not begin with =, +, - or @',
  'cost-center',
);
/** An e-mail address; `checkEmail` decides, which names a character that nobody sees. */
export const email = written(
  `^[^ ${CONTROL}@<>"]{1,64}@[^ ${CONTROL}@<>"]{1,189}$`,
  'an address such as ada@example.com',
  'email',
);

/** The same values, with another description. */
export function described<T>(schema: Schema<T>, description: string): Schema<T> {
  return { ...schema, description };
}

/** The schema, or null. */
export function orNull<T>(schema: Schema<T>): Schema<T | null> {
  const { enum: values } = schema as { enum?: readonly unknown[] };
  return {
    ...schema,
    type: [schema.type, 'null'],
    ...(values === undefined ? {} : { enum: [...values, null] }),
  };
}

export function whole(maximum: number, description: string): Schema<number> {
  return { type: 'integer', minimum: 1, maximum, description };
}

export function oneOf<const T extends string>(
  values: readonly T[],
  description?: string,
): Schema<T> {
  return {
    type: 'string',
    enum: [...values],
    ...(description === undefined ? {} : { description }),
  };
}

/** A list of an answer. */
export function array<T>(items: Schema<T>, description?: string): Schema<readonly T[]> {
  return { type: 'array', items, ...(description === undefined ? {} : { description }) };
}

/** A list of a body, which has a limit. */
export function listOf<T>(items: Schema<T>, maxItems = MOST_VALUES): Schema<readonly T[]> {
  return { type: 'array', items, maxItems };
}

/** The names of the members. */
export function namesOf<P extends object>(members: P): (keyof P & string)[] {
  return Object.keys(members) as (keyof P & string)[];
}

/** An object without other members. @param required those that must be there; all by default */
export function object<P extends Properties, R extends keyof P & string = keyof P & string>(
  properties: P,
  required: readonly R[] = namesOf(properties) as R[],
): ObjectSchema<Members<P, R>, P> {
  return { type: 'object', additionalProperties: false, required, properties };
}

/** The body of a change: any of the members, one at least. */
export function changeOf<P extends Properties>(properties: P): ObjectSchema<Members<P, never>, P> {
  return { ...object<P, never>(properties, []), minProperties: 1 };
}
