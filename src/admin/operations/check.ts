import type { ObjectSchema, Operation, Schema } from './operation.ts';
import { type Mistake, Problem } from './problem.ts';
import * as validators from './validators.generated.ts';

/** A mistake as ajv tells it. */
export interface AjvError {
  readonly instancePath: string;
  /** Where the keyword stands in the schema, as a JSON Pointer. */
  readonly schemaPath: string;
  readonly keyword: string;
  readonly params: Readonly<Record<string, unknown>>;
  readonly message: string;
}
/** A function that ajv made of a schema. */
export type Validator = ((value: unknown) => boolean) & { readonly errors: readonly AjvError[] | null };

const VALIDATORS = validators as unknown as Readonly<Record<string, Validator>>;

/** Checks a body. @throws Problem 400 that names all mistakes */
export function checkBody({ id, body: schema }: Operation, body: unknown): unknown {
  return checked(`${id}Body`, schema as ObjectSchema, body, '#');
}

/** Checks a query; whole numbers are told as such. @throws Problem 400 that names all mistakes */
export function checkQuery(
  { id, query: schema }: Operation,
  given: Readonly<Record<string, readonly string[]>>,
): object {
  if (schema === undefined) return {};
  const twice = Object.keys(given).find((name) => (given[name] as string[]).length > 1);
  if (twice !== undefined) {
    throw new Problem(400, 'The query is not valid.', [
      { pointer: `?${twice.slice(0, 60)}`, detail: 'is given twice' },
    ]);
  }
  const query = Object.fromEntries(
    Object.entries(given).map(([name, [text = '']]) => {
      const isNumber = schema.properties[name]?.type === 'integer' && /^\d{1,15}$/.test(text);
      return [name, isNumber ? Number(text) : text];
    }),
  );
  return checked(`${id}Query`, schema, query, '?') as object;
}

function checked(name: string, schema: ObjectSchema, value: unknown, root: '#' | '?'): unknown {
  const validate = VALIDATORS[name] as Validator;
  if (validate(value)) return value;
  const mistakes = mistakesOf(validate.errors, schema, root);
  throw new Problem(400, root === '#' ? 'The body is not valid.' : 'The query is not valid.', mistakes);
}

/** What is wrong with a value, in words. @param errors what ajv's validator told */
export function mistakesOf(
  errors: readonly AjvError[] | null | undefined,
  schema: ObjectSchema,
  root: '#' | '?' = '#',
): Mistake[] {
  return (errors ?? []).map((error) => mistakeOf(error, schema, root));
}

function mistakeOf(error: AjvError, schema: ObjectSchema, root: '#' | '?'): Mistake {
  const { instancePath, keyword, params } = error;
  const at = root === '#' ? `#${instancePath}` : `?${instancePath.slice(1)}`;
  const child = (name: string): string => (root === '?' ? `?${name.slice(0, 60)}` : `${at}/${pointed(name)}`);
  if (keyword === 'required') return { pointer: child(params.missingProperty as string), detail: 'is missing' };
  if (keyword === 'additionalProperties')
    return { pointer: child(params.additionalProperty as string), detail: 'is not known' };
  if (keyword === 'minProperties') return { pointer: at, detail: 'must have a member that is to be changed' };
  if (keyword === 'enum') {
    const values = (params.allowedValues as unknown[]).map((each) => JSON.stringify(each));
    return { pointer: at, detail: `must be one of ${values.join(', ')}` };
  }
  const wanted = keyword === 'pattern' ? descriptionAt(error.schemaPath, schema) : undefined;
  return { pointer: at, detail: wanted === undefined ? error.message : `must be ${wanted}` };
}

/** The description beside a keyword of a schema. @param path such as "#/properties/name/pattern" */
function descriptionAt(path: string, schema: ObjectSchema): unknown {
  const parents = path.split('/').slice(1, -1);
  return parents.reduce<Schema | undefined>((part, name) => part?.[name] as Schema | undefined, schema)?.description;
}

/** A name as part of a JSON Pointer (RFC 6901), at most 60 characters of it. */
function pointed(name: string): string {
  return name.slice(0, 60).replaceAll('~', '~0').replaceAll('/', '~1');
}
