import { EUR, MONTH, MOST, MOST_VALUES, PRICE, SLUG, UUID } from '../domain/field.ts';
import { LANGUAGES } from '../domain/language/language.ts';
import { eachLimit, MOST_MEMBER_KEYS } from '../domain/limits.ts';
import { SCOPES } from '../domain/scope.ts';
import { ROLES } from '../domain/user.ts';
import type { ObjectSchema, Schema } from './operation.ts';

/**
 * JSON Schemas of the things that administration over HTTP reads and writes: they check bodies and queries, and
 * openapi.json shows them. Their limits are those of `sql/`, so that the database accepts every value. Their patterns
 * mean the same to JavaScript with and without the flag u, Python, Go, Java and Rust, for clients check values by them.
 */

/** Control characters, within a class of a pattern. */
export const CONTROL = '\\x00-\\x1f\\x7f-\\x9f';

/** A text of some form. @param description what it is: a text of another form must be that */
export function written(pattern: string, description: string, format?: string): Schema {
  return { type: 'string', ...(format === undefined ? {} : { format }), pattern, description };
}

export const id = written(UUID.source, 'a UUID in lower case');
export const instant = written(
  '^[12]\\d{3}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d(\\.\\d{1,6})?(Z|[+-]\\d\\d:\\d\\d)$',
  'an instant such as 2027-01-31T18:00:00Z (RFC 3339)',
  'date-time',
);
export const day = written('^[12]\\d{3}-\\d\\d-\\d\\d$', 'a day of the billing time zone such as 2027-01-31', 'date');
/** The beginning of a day, or an instant. */
export const moment = written(
  '^[12]\\d{3}-\\d\\d-\\d\\d(T\\d\\d:\\d\\d:\\d\\d(\\.\\d{1,6})?(Z|[+-]\\d\\d:\\d\\d))?$',
  'a day of the billing time zone such as 2027-01-31, or an instant such as 2027-01-31T18:00:00Z',
  'moment',
);
/** The end of a day, or an instant. */
const end = {
  ...moment,
  description: 'its last day in the billing time zone such as 2027-01-31, or an instant such as 2027-01-31T18:00:00Z',
};
export const month = written(MONTH.source, 'a month such as 2026-11');
/** A name that something has already. */
export const presentName = written(
  `^[^${CONTROL}]{0,199}[^${CONTROL}\\s]$`,
  'one line of 1 to 200 characters that does not end in a space',
);
/** A name that something is given: without characters that nobody sees. */
export const name = { ...presentName, format: 'name' };
export const slug = written(SLUG.source, 'the name of a model: letters, digits and . _ : / @ + -');
const eur = written(EUR.source, 'an amount in EUR as exact decimal text, such as "99.50"');
export const price = written(PRICE.source, 'EUR per 1000 tokens as exact decimal text, such as "0.0025"');
export const text = written('^[^\\x00]*$', 'any text without NUL');
export const string: Schema = { type: 'string' };
export const textOrNull: Schema = { type: ['string', 'null'] };
export const createdBy: Schema = {
  ...textOrNull,
  description:
    'to an administration token of a company: “operator” for whoever never was one of its users or administration tokens',
};
export const boolean: Schema = { type: 'boolean' };
export const count: Schema = { type: 'integer', minimum: 0 };
/** A sum that an operation answers with. */
export const sum: Schema = { type: 'string', description: 'EUR as exact decimal text' };
const cidr = written('^[0-9a-fA-F:.]{2,45}(/\\d{1,3})?$', 'a network such as 10.0.0.0/8, or one address', 'cidr');

/** The schema, or null. */
export function orNull(schema: Schema): Schema {
  const { enum: values } = schema as { enum?: readonly unknown[] };
  return { ...schema, type: [schema.type, 'null'], ...(values === undefined ? {} : { enum: [...values, null] }) };
}

export function whole(maximum: number, description: string): Schema {
  return { type: 'integer', minimum: 1, maximum, description };
}

export function oneOf(values: readonly string[], description?: string): Schema {
  return { type: 'string', enum: [...values], ...(description === undefined ? {} : { description }) };
}

/** A list of an answer. */
export function array(items: Schema, description?: string): Schema {
  return { type: 'array', items, ...(description === undefined ? {} : { description }) };
}

/** A list of a body, which has a limit. */
export function listOf(items: Schema, maxItems = MOST_VALUES): Schema {
  return { type: 'array', items, maxItems };
}

/** An object without other members. @param required those that must be there; all by default */
export function object(properties: Readonly<Record<string, Schema>>, required = Object.keys(properties)): ObjectSchema {
  return { type: 'object', additionalProperties: false, required, properties };
}

/** The body of a change: any of the members, one at least. */
export function changeOf(properties: Readonly<Record<string, Schema>>): ObjectSchema {
  return { ...object(properties, []), minProperties: 1 };
}

/** A page of a list. */
export function pageOf(items: Schema): ObjectSchema {
  return object({ data: array(items), next_cursor: textOrNull });
}

/** A cursor that is a number, as text: `next_cursor` is one, too. */
export const numberCursor: Schema = { type: 'string', pattern: '^[1-9]\\d{0,14}$' };

/** The query of a list, with filters. */
export function listQuery(filters: Readonly<Record<string, Schema>> = {}, cursor: Schema = id): ObjectSchema {
  const next = { ...cursor, description: 'the next_cursor of the page before' };
  return object({ limit: { type: 'integer', minimum: 1, maximum: 200 }, cursor: next, ...filters }, []);
}

const limits = eachLimit(({ most, description }) => orNull(whole(most, description)));
const budget = orNull({ ...eur, description: `${eur.description}; null or "0": no limit` });

/** The cost centre that gets a budget; `readBudgetedCostCenter` decides. */
export const costCenter = written(
  `^[^${CONTROL}]{1,512}$`,
  'the name of a cost centre as calls give it: at most 64 printable characters that do not begin with =, +, - or @',
  'cost-center',
);
/** An amount above 0. */
export const aboveZero = {
  ...eur,
  not: { type: 'string', pattern: '^0+(\\.0+)?$' },
  description: `${eur.description}, above 0`,
};

/** Members of a company that can be set. */
export const companySettings = {
  name,
  monthly_budget_eur: budget,
  budget_mode: oneOf(['standard', 'strict'], 'strict: each request reserves what it can cost at most'),
  allow_non_eu_models: boolean,
  language: orNull(
    oneOf(
      LANGUAGES,
      'of pages and e-mails for its users who chose none; null: that of each browser, English in e-mails',
    ),
  ),
  member_max_keys: {
    type: 'integer',
    minimum: 0,
    maximum: MOST_MEMBER_KEYS,
    description:
      'the most active keys of their own that each member may have; those that exist stay when it is lowered',
  },
  member_key_budget_eur: orNull({
    ...aboveZero,
    description: `${eur.description}: the most that the monthly budget of such a key may be when it is made, above 0; null: any`,
  }),
  member_playground: { ...boolean, description: 'members may use the playground' },
  ...limits,
};
/** Ceilings of a company, which operators set. */
export const ceilings = {
  credit_limit_eur: orNull({
    ...aboveZero,
    description: `${eur.description}: the most that the budget may be, above 0; null: no ceiling`,
  }),
  eu_locked: { ...boolean, description: 'models outside the EU are refused, whatever the company allows' },
};
export const disabledSlugs = listOf(slug);
/** Members of a company that is created. */
export const newCompany = { ...companySettings, ...ceilings, disabled_model_slugs: disabledSlugs };
export const company = object({
  id,
  ...companySettings,
  ...ceilings,
  effective_budget_eur: orNull({ ...eur, description: 'what holds of budget and credit limit; null: unlimited' }),
  disabled_model_slugs: disabledSlugs,
  created_at: instant,
  closed_at: orNull({ ...instant, description: `${instant.description}; null: it is open` }),
  erased_at: orNull({ ...instant, description: `${instant.description}; null: its people were not erased` }),
});

/** Members of a model that can be changed. */
export const modelSettings = {
  upstream_model: { ...name, description: 'the name that the upstream knows the model by' },
  kind: oneOf(['chat', 'embedding']),
  eu_hosted: boolean,
  cost_eur_per_1k_input: price,
  cost_eur_per_1k_output: price,
  token_input: oneOf(['accept', 'refuse'], 'whether embedding calls may send token ids'),
};
export const modelOwner = orNull({ ...id, description: 'the company that the model belongs to; null: shared by all' });
export const model = object({ id, slug, company_id: modelOwner, ...modelSettings, created_at: instant });

/** Members of a key that can be set. */
export const keySettings = {
  name,
  scopes: { ...listOf(oneOf(SCOPES), SCOPES.length), minItems: 1 },
  expires_at: orNull({ ...end, description: `${end.description}; null: never` }),
  ...limits,
  monthly_budget_eur: budget,
  allowed_model_slugs: orNull({ ...listOf(slug), minItems: 1, description: 'null: every model of the company' }),
  allowed_cidrs: orNull({ ...listOf(cidr), minItems: 1, description: 'networks it may be used from; null: any' }),
};
export const key = object({
  id,
  company_id: id,
  ...keySettings,
  expires_at: orNull({ ...instant, description: `${instant.description}; null: never` }),
  prefix: { type: 'string', description: 'the first 8 characters' },
  created_at: instant,
  created_by: createdBy,
  last_used_at: orNull(instant),
  revoked_at: orNull(instant),
  user_id: orNull({ ...id, description: 'the user whose key it is; null: of the company, or of a playground' }),
  person: {
    ...textOrNull,
    description: 'the e-mail address of that user; null: nobody, or somebody who is not there any more',
  },
  purpose: orNull(oneOf(['playground'], 'null: for programs; playground: of a user who tries models on the pages')),
  state: oneOf(['active', 'expired', 'revoked']),
});
export const mintedKey = object({
  ...key.properties,
  key: {
    type: ['string', 'null'],
    description: 'the key itself, shown once; null in a repeated answer after a minute',
  },
});

/** Members of an assistant that can be set. */
export const assistantSettings = {
  name,
  system_prompt: text,
  model_slug: orNull(slug),
  temperature: { type: ['number', 'null'], minimum: 0, maximum: 2 },
  max_tokens: orNull(whole(MOST.maxTokens, 'null: what the caller says')),
  visibility: oneOf(['company', 'private', 'persons', 'teams', 'projects']),
  project_id: orNull(id),
};
export const assistant = object({ id, company_id: id, ...assistantSettings, created_at: instant });

export const email = written(
  `^[^\\s${CONTROL}@<>"]{1,120}@[^\\s${CONTROL}@<>"]{1,120}$`,
  'an address such as ada@example.com',
  'email',
);
export const role = oneOf(ROLES);
export const user = object({
  id,
  email,
  company_id: orNull(id),
  role,
  created_at: instant,
  oidc_group: {
    ...textOrNull,
    description: 'the group of the identity provider that gives the role; null: given by hand',
  },
  second_factor_since: orNull({
    ...instant,
    description: 'since when the password asks for a code too; null: it does not',
  }),
  erasure_asked_at: orNull({
    ...instant,
    description: 'when the user asked to be erased; null: that did not happen',
  }),
});
/** What an erasure reached, or would reach. */
export const erased = object({
  persons: { ...count, description: 'people whose addresses are replaced by pseudonyms' },
  rows: { type: 'object', additionalProperties: count, description: 'rows by table' },
});
