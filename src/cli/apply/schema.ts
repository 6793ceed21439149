import { COST_CENTER } from '../../domain/settings/cost-center.ts';
import { eachPrice, modelPrices, PRICED } from '../../domain/settings/model.ts';
import type { ObjectSchema, Schema, Value } from '../../domain/settings/schema.ts';
import * as schema from '../../domain/settings/schema.ts';
import { schemasOf } from '../../domain/settings/setting.ts';
import { COMPANY_ROLES, type Role } from '../../domain/user.ts';
import * as resource from '../../operations/frame/resources.ts';

/** The form of the file that `tollgate apply` reads. `make generate` writes it for editors as configuration.schema.json. */

const { array, object } = schema;

const absent: Schema<true> = {
  const: true,
  description: 'removes it; nothing is removed without this',
};
/** Where a secret is. */
export type SecretReference = { readonly env: string } | { readonly file: string };
const secret: Schema<SecretReference> = {
  type: 'object',
  additionalProperties: false,
  minProperties: 1,
  maxProperties: 1,
  properties: {
    env: schema.written('^[A-Za-z_][A-Za-z0-9_]*$', 'the name of an environment variable'),
    file: schema.written('^[^\\u0000]+$', 'the path of a file; a newline at its end is dropped'),
  },
  description: 'where a secret is: the file itself holds none',
};

/** A thing with a name of its own, whose other members are optional. */
function named<P extends Readonly<Record<string, Schema>>, N extends keyof P & string>(
  name: N,
  properties: P,
) {
  return object<P & { absent: typeof absent }, N>({ ...properties, absent }, [name]);
}

/** A price since a date. */
function dated(valid_from: Schema<string>) {
  return named('valid_from', { valid_from, ...schemasOf(PRICED) });
}

/** The prices until the first date. */
const present = eachPrice((_, { schema: price }) => ({
  ...price,
  description: `${price.description}; EUR per 1000 tokens until the first date of "prices"`,
})) as ReturnType<typeof schemasOf<Omit<typeof PRICED, 'rates'>>>;

const model = named('slug', {
  slug: schema.slug,
  ...resource.modelSettings,
  ...modelPrices(present),
  prices: array(
    dated(schema.moment),
    'prices that begin at a date; those that have begun may stay in the file',
  ),
  cost_prices: array(
    dated(schema.day),
    'what the operator pays from a day on, past or to come; companies never see it',
  ),
});
/** Why something is paused. */
const paused = {
  ...schema.orNull(schema.name),
  description: 'pauses it, and says why; null: it is not paused',
};
const id = { ...schema.id, description: 'only to rename it, or where two have the same name' };
const assistant = named('name', { id, ...resource.assistantSettings });
const key = named('name', {
  id,
  ...resource.keySettings,
  paused,
  value: {
    ...secret,
    description: `the key's text, needed for a key that does not exist yet; ${secret.description}`,
  },
});
const user = (roles: readonly Role[]) =>
  named('email', {
    email: schema.email,
    role: schema.oneOf(roles),
    password: {
      ...secret,
      description: `set when the user is created, and never changed; ${secret.description}`,
    },
  });
const group = (roles: readonly Role[]) =>
  named('name', {
    name: {
      ...schema.name,
      description: 'as the claim of the identity provider has it, every character of it',
    },
    role: schema.oneOf(roles),
  });
const costCenter = named('name', { name: schema.costCenter, ...schemasOf(COST_CENTER) });
const company = object(
  {
    id,
    ...resource.newCompany,
    paused,
    price_factors: array(
      named('valid_from', { valid_from: schema.moment, factor: schema.priceFactor }),
      'factors on its prices that begin at a date; those that have begun may stay in the file. "price_factor" holds until the first of them',
    ),
    models: array(model, 'models of this company alone'),
    assistants: array(assistant, 'assistants of this company'),
    keys: array(key, 'keys of this company that are neither revoked nor expired'),
    users: array(user(COMPANY_ROLES), 'users of this company'),
    cost_centers: array(
      costCenter,
      'budgets of cost centres of this company, which alerts tell of',
    ),
    oidc_groups: array(
      group(COMPANY_ROLES),
      'groups of the identity provider that give a role in this company, at each sign-in',
    ),
  },
  ['name'],
);

const file = object(
  {
    $schema: { type: 'string' },
    models: array(model, 'models shared by all companies'),
    companies: array(company, 'companies, by their names'),
    operators: array(user(['operator']), 'users who see everything'),
    oidc_groups: array(
      group(['operator']),
      'groups of the identity provider that make operators, at each sign-in',
    ),
  },
  [],
);

export const CONFIGURATION: ObjectSchema = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  title: 'Tollgate configuration',
  description: 'The wanted state for "tollgate apply". What the file does not name stays as it is.',
  ...file,
};

/** The wanted state, as the file tells it. Members that are left out stay as they are. */
export type Wanted = Value<typeof file>;
export type WantedCompany = Value<typeof company>;
export type WantedModel = Value<typeof model>;
/** A price since a date: an instant, or the beginning of a day in the billing time zone. */
export type WantedPrice = Value<ReturnType<typeof dated>>;
export type WantedAssistant = Value<typeof assistant>;
export type WantedKey = Value<typeof key>;
export type WantedUser = Value<ReturnType<typeof user>>;
export type WantedGroup = Value<ReturnType<typeof group>>;
export type WantedCostCenter = Value<typeof costCenter>;
export type Removable = Partial<Record<'absent', true>>;
