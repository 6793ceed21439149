import { checkEmail, checkVisible, FieldError, readInstant } from '../../domain/field.ts';
import { Refused } from '../../domain/refusal.ts';
import { readCidr } from '../../domain/request/cidr.ts';
import { readBudgetedCostCenter } from '../../domain/request/cost-center.ts';
import type { Violation } from '../../domain/request/request.ts';
import type { ObjectSchema, Schema } from '../../domain/settings/schema.ts';
import type { Mistake } from '../../operations/frame/refused.ts';
import type { Operation } from '../../operations/frame/row.ts';
import * as validators from './validators.generated.ts';

interface AjvError extends Violation {
  /** Where the keyword stands in the schema, as a JSON Pointer. */
  readonly schemaPath: string;
  readonly message: string;
}
/** A function that ajv made of a schema. */
export type Validator = ((value: unknown) => boolean) & {
  readonly errors: readonly AjvError[] | null;
};

const VALIDATORS = validators as unknown as Readonly<Record<string, Validator>>;

/** @throws Refused wrong, which names all mistakes */
export function checkBody({ id, body: schema }: Operation, body: unknown): unknown {
  const mistakes = mistakesIn(body, VALIDATORS[`${id}Body`] as Validator, schema as ObjectSchema);
  if (mistakes.length > 0) throw new Refused('wrong', 'The body is not valid.', mistakes);
  return body;
}

/** Checks a query; whole numbers are told as such. @throws Refused wrong, which names all mistakes */
export function checkQuery(
  { id, query: schema }: Operation,
  given: Readonly<Record<string, readonly string[]>>,
): object {
  if (schema === undefined) return {};
  const twice = Object.keys(given).filter((name) => (given[name] as string[]).length > 1);
  const query = Object.fromEntries(
    Object.entries(given).map(([name, [text = '']]) => {
      const isNumber = schema.properties[name]?.type === 'integer' && /^\d{1,15}$/.test(text);
      return [name, isNumber ? Number(text) : text];
    }),
  );
  const repeated = twice.map((name) => ({
    pointer: `?${name.slice(0, 60)}`,
    detail: 'is given twice',
  }));
  const mistakes = [
    ...repeated,
    ...mistakesIn(query, VALIDATORS[`${id}Query`] as Validator, schema, '?'),
  ];
  if (mistakes.length > 0) throw new Refused('wrong', 'The query is not valid.', mistakes);
  return query;
}

/** All that is wrong with a value, in words; empty when nothing is. */
export function mistakesIn(
  value: unknown,
  isValid: Validator,
  schema: ObjectSchema,
  root: '#' | '?' = '#',
): Mistake[] {
  const ofSchema = isValid(value)
    ? []
    : (isValid.errors ?? []).map((error) => mistakeOf(error, schema, root));
  const told = new Set(ofSchema.map(({ pointer }) => pointer));
  return [
    ...ofSchema,
    ...formatMistakes(value, schema, root).filter(({ pointer }) => !told.has(pointer)),
  ];
}

/** What a pattern cannot say of a text, such as that a month has no 31st day; by the format of its schema. */
const FORMATS: Readonly<Record<string, (text: string) => unknown>> = {
  'date-time': readInstant,
  date: readInstant,
  moment: readInstant,
  cidr: readCidr,
  email: checkEmail,
  name: checkVisible,
  'cost-center': readBudgetedCostCenter,
};

function formatMistakes(value: unknown, schema: Schema, pointer: string): Mistake[] {
  const { format, items, properties } = schema as Partial<ObjectSchema> & {
    format?: string;
    items?: Schema;
  };
  if (typeof value === 'string') {
    // half of a surrogate pair, of which the database would make another character
    if (!value.isWellFormed()) return [{ pointer, detail: 'has half a character' }];
    try {
      if (format !== undefined) FORMATS[format]?.(value);
      return [];
    } catch (error) {
      if (!(error instanceof FieldError)) throw error;
      return [{ pointer, detail: error.message }];
    }
  }
  if (typeof value !== 'object' || value === null) return [];
  const separator = pointer === '?' ? '' : '/';
  return Object.entries(value).flatMap(([name, each]) => {
    const part = Array.isArray(value)
      ? items
      : Object.hasOwn(properties ?? {}, name)
        ? properties?.[name]
        : undefined;
    return part === undefined
      ? []
      : formatMistakes(each, part, `${pointer}${separator}${pointed(name)}`);
  });
}

function mistakeOf(error: AjvError, schema: ObjectSchema, root: '#' | '?'): Mistake {
  const { instancePath, keyword, params } = error;
  const at = root === '#' ? `#${instancePath}` : `?${instancePath.slice(1)}`;
  const child = (name: string): string =>
    root === '?' ? `?${name.slice(0, 60)}` : `${at}/${pointed(name)}`;
  if (keyword === 'required')
    return { pointer: child(params.missingProperty as string), detail: 'is missing' };
  if (keyword === 'additionalProperties')
    return { pointer: child(params.additionalProperty as string), detail: 'is not known' };
  if (keyword === 'minProperties')
    return { pointer: at, detail: 'must have a member that is to be changed' };
  if (keyword === 'enum') {
    const values = (params.allowedValues as unknown[]).map((each) => JSON.stringify(each));
    return { pointer: at, detail: `must be one of ${values.join(', ')}` };
  }
  const { pattern, description } = partAt(error.schemaPath, schema) ?? {};
  // with a pattern, the description names the form of the text
  if (
    pattern !== undefined &&
    description !== undefined &&
    (keyword === 'pattern' || keyword === 'type' || keyword === 'not')
  )
    return { pointer: at, detail: `must be ${description}` };
  if (keyword === 'type')
    return { pointer: at, detail: `must be ${[params.type].flat().map(typeText).join(' or ')}` };
  return { pointer: at, detail: error.message };
}

const TYPES: Readonly<Record<string, string>> = {
  string: 'a text',
  boolean: 'true or false',
  integer: 'a whole number',
  number: 'a number',
  array: 'a list',
  object: 'an object',
};

function typeText(type: unknown): string {
  return TYPES[type as string] ?? String(type);
}

/** The schema that a keyword is of. @param path such as "#/properties/name/pattern" */
function partAt(path: string, schema: ObjectSchema): Schema | undefined {
  const parents = path.split('/').slice(1, -1);
  return parents.reduce<Schema | undefined>(
    (part, name) => part?.[name] as Schema | undefined,
    schema,
  );
}

/** A name as part of a JSON Pointer (RFC 6901), at most 60 characters of it. */
function pointed(name: string): string {
  return name.slice(0, 60).replaceAll('~', '~0').replaceAll('/', '~1');
}
