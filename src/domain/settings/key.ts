import { readEndUsers, readName, readScope, readSlug } from '../field.ts';
import { ALLOWED_MODELS } from '../gate.ts';
import { END_USERS, type EndUsers, SCOPES, type Scope, USUAL_SCOPES } from '../key.ts';
import { type End, readMoment } from '../price.ts';
import { readCidr } from '../request/cidr.ts';
import { BUDGET, LIMIT_SETTINGS } from './company.ts';
import * as schema from './schema.ts';
import type { Needed, Setting, Values } from './setting.ts';

const name = {
  kind: 'text',
  schema: schema.name,
  option: '--name NAME',
  meaning: 'purpose of the key, such as its user or service',
  changed: 'new name',
  read: readName,
  isNeeded: true,
  field: { name: 'name', label: ({ keys }) => keys.name, hint: ({ keys }) => keys.nameHint },
} as Needed<string>;

const scopes = {
  kind: 'list',
  schema: { ...schema.listOf(schema.oneOf(SCOPES), SCOPES.length), minItems: 1 },
  option: '--scope SCOPE',
  meaning: 'chat, embeddings, assistants or rerank',
  changed: 'its scopes from now on',
  read: readScope,
  isNeeded: true,
  field: {
    name: 'scope',
    label: ({ keys }) => keys.may,
    choices: ({ keys }) => SCOPES.map((scope) => [scope, keys.scopeTexts[scope]]),
  },
} as Needed<readonly Scope[]>;

const expires_at = {
  kind: 'instant',
  schema: schema.described(schema.orNull(schema.end), `${schema.end.description}; null: never`),
  option: '--expires ISO_TIME',
  meaning:
    'when the key expires, such as 2027-01-31T18:00:00Z; a date is its last day, in the billing time zone; default: never',
  changed: 'when the key expires; a date is its last day, in the billing time zone',
  read: readMoment,
  isNullable: true,
  field: {
    name: 'expires',
    label: ({ keys }) => keys.lastDay,
    hint: ({ keys }) => keys.lastDayHint,
  },
} as Setting<Date | null, End | null, string | null>;

const monthly_budget_eur = {
  ...BUDGET,
  option: '--budget EUR',
  meaning: 'monthly budget of the key alone',
  field: {
    name: 'budget',
    label: ({ restrictions }) => restrictions.budget,
    hint: ({ restrictions }) => restrictions.budgetHint,
  },
} as Setting<string | null>;

const daily_budget_eur = {
  ...BUDGET,
  option: '--daily-budget EUR',
  meaning: 'budget of each day of the key alone',
  field: {
    name: 'daily_budget',
    label: ({ restrictions }) => restrictions.dailyBudget,
    hint: ({ restrictions }) => restrictions.dailyBudgetHint,
  },
} as Setting<string | null>;

const allowed_models = {
  kind: 'list',
  schema: schema.described(
    schema.orNull({ ...schema.listOf(schema.slug), minItems: 1 }),
    'null: every model of the company',
  ),
  option: '--model SLUG',
  meaning: 'the only models that the key lists and calls',
  read: readSlug,
  isNullable: true,
  field: {
    name: 'model',
    label: ({ restrictions }) => restrictions.models,
    hint: ({ restrictions }) => restrictions.slugsHint,
    rows: 5,
  },
} as Setting<readonly string[] | null>;

const allowed_cidrs = {
  kind: 'list',
  schema: schema.described(
    schema.orNull({ ...schema.listOf(schema.cidr), minItems: 1 }),
    'networks it may be used from; null: any',
  ),
  option: '--cidr CIDR',
  meaning: 'the only networks or addresses that may use the key',
  read: readCidr,
  isNullable: true,
  field: {
    name: 'cidrs',
    label: ({ restrictions }) => restrictions.networks,
    hint: ({ restrictions }) => restrictions.networksHint,
    rows: 3,
  },
} as Setting<readonly string[] | null>;

const end_users = {
  kind: 'choice',
  schema: schema.oneOf(
    END_USERS,
    'where calls name the person behind the key: nowhere, in a header, or in a header and else in the body',
  ),
  option: '--end-users off|header|body',
  meaning: 'where calls name the person behind the key; whoever holds the key can name anybody',
  read: readEndUsers,
  field: {
    name: 'end_users',
    label: ({ restrictions }) => restrictions.endUsers,
    hint: ({ restrictions }) => restrictions.endUsersHint,
    choices: ({ restrictions }) => END_USERS.map((each) => [each, restrictions.endUsersIn[each]]),
  },
} as Setting<EndUsers>;

const end_user_budget_eur = {
  ...BUDGET,
  option: '--end-user-budget EUR',
  meaning:
    'the most that each of its end users may cost in a month; a call that names nobody is not held back',
  field: {
    name: 'end_user_budget',
    label: ({ restrictions }) => restrictions.endUserBudget,
    hint: ({ restrictions }) => restrictions.endUserBudgetHint,
  },
} as Setting<string | null>;

/** The settings in the groups of forms. */
export const SCOPED = { scopes };
export const PURPOSE = { name, ...SCOPED };
export const KEY_MONTH_BUDGET = { monthly_budget_eur };
export const KEY_DAY_BUDGET = { daily_budget_eur };
export const KEY_MODELS = { [ALLOWED_MODELS]: allowed_models };
export const NETWORKS = { allowed_cidrs };
export const END_USER = { end_users, end_user_budget_eur };

/** What a key may do less than its company (contract section 5), in the order of options. null: nothing less. */
export const RESTRICTIONS = {
  ...LIMIT_SETTINGS,
  ...KEY_MODELS,
  ...KEY_MONTH_BUDGET,
  ...KEY_DAY_BUDGET,
  ...NETWORKS,
};
export type RestrictionColumns = Values<typeof RESTRICTIONS>;

/** The same, in the order of forms and answers, and what its calls tell of people. */
const RESTRICTED = {
  ...LIMIT_SETTINGS,
  ...KEY_MONTH_BUDGET,
  ...KEY_DAY_BUDGET,
  ...KEY_MODELS,
  ...NETWORKS,
  ...END_USER,
};

/** What a form changes of a key. */
export const EDITED = { ...PURPOSE, ...RESTRICTED };

/** Every column of `api_keys` that people set. */
export const KEY = { ...PURPOSE, expires_at, ...RESTRICTED };

/** What a new key has, unless somebody says otherwise. */
export const NEW_KEY = { scopes: USUAL_SCOPES, end_users: END_USERS[0] };

/** A key that may do all, to try it out. */
export const TRIAL_KEY = { ...NEW_KEY, scopes: SCOPES };

/** What a key may do. */
export const scopesOf = (key: Values<typeof SCOPED>) => key.scopes;
