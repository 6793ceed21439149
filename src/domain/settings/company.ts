import {
  oneOf,
  readAboveZero,
  readAddressLines,
  readBoolean,
  readBudget,
  readName,
  readPriceFactor,
  readSlug,
  wholeNumber,
  wholeOrZero,
} from '../field.ts';
import { DISABLED_MODELS } from '../gate.ts';
import { LANGUAGE_NAMES, LANGUAGES, type Language, readLanguage } from '../languages.ts';
import { eachLimit, MOST_MEMBER_KEYS } from '../limits.ts';
import * as schema from './schema.ts';
import type { Needed, Setting, Settings } from './setting.ts';

const MOST_TIMES = 100;

/** What all budgets have: EUR as exact decimal text; null and "0": no limit (spec section 2.9). */
export const BUDGET = {
  kind: 'amount',
  schema: schema.described(
    schema.orNull(schema.eur),
    `${schema.eur.description}; null or "0": no limit`,
  ),
  read: readBudget,
  isNullable: true,
} as const;

/** What all ceilings of budgets have: EUR above 0; null: none. */
const ceiling = (description: string) =>
  ({
    kind: 'amount',
    schema: schema.orNull(
      schema.described(schema.aboveZero, `${schema.eur.description}: ${description}`),
    ),
    read: readAboveZero,
    isNullable: true,
  }) as const;

/** What all lines of a statement have; null: none. */
const line = (description: string) =>
  ({
    kind: 'text',
    schema: schema.described(schema.orNull(schema.name), description),
    read: readName,
    isNullable: true,
  }) as const;

/** Limits of companies and of keys: `domain/limits.ts` has their rows. */
export const LIMIT_SETTINGS = eachLimit(
  ({ most, meaning, description }, column): Setting<number | null> => ({
    kind: 'number',
    schema: schema.orNull(schema.whole(most, description)),
    option: `--${column.replaceAll('_', '-')} N`,
    meaning,
    read: wholeNumber(most),
    isNullable: true,
    field: { name: column, label: ({ limits }) => limits[column] },
  }),
);

/** What is told besides what was reached of budgets. */
export const UNUSUAL = {
  end_user_alerts: {
    kind: 'switch',
    schema: schema.described(
      schema.boolean,
      'people are told that end users used up their budgets',
    ),
    option: '--end-user-alerts',
    meaning: 'tell people that end users used 80 or 100 % of their budgets; default: true',
    read: readBoolean,
    field: {
      name: 'end_user_alerts',
      label: ({ endUsers }) => endUsers.alerts,
      hint: ({ endUsers }) => endUsers.alertsHint,
    },
  } as Setting<boolean>,
  unusual_times: {
    kind: 'number',
    schema: schema.orNull(
      schema.whole(MOST_TIMES, 'how many times as much as usual is unusual; null: nobody is told'),
    ),
    option: '--unusual-times N',
    meaning: 'how many times as much as usual is told as unusual; default: 3',
    changed: 'how many times as much as usual is told as unusual; none: nobody is told',
    read: wholeNumber(MOST_TIMES),
    isNullable: true,
    field: {
      name: 'unusual_times',
      label: ({ unusual }) => unusual.times,
      hint: ({ unusual }) => unusual.timesHint,
    },
  } as Setting<number | null>,
};

/** What members of a company may do, which its owners set. */
export const MEMBER_SETTINGS = {
  member_max_keys: {
    kind: 'number',
    schema: {
      type: 'integer',
      minimum: 0,
      maximum: MOST_MEMBER_KEYS,
      description:
        'the most active keys of their own that each member may have; those that exist stay when it is lowered',
    },
    option: '--member-max-keys N',
    meaning:
      'the most active keys of their own that each member may have; those that exist stay; default: 0',
    read: wholeOrZero(MOST_MEMBER_KEYS),
    field: {
      name: 'member_keys',
      label: ({ settings }) => settings.members.keys,
      hint: ({ settings }) => settings.members.keysHint,
    },
  } as Setting<number>,
  member_key_budget_eur: {
    ...ceiling(
      'the most that the monthly budget of such a key may be when it is made, above 0; null: any',
    ),
    option: '--member-key-budget EUR',
    meaning: 'the most that the monthly budget of such a key may be when it is made',
    field: {
      name: 'member_budget',
      label: ({ settings }) => settings.members.budget,
      hint: ({ settings }) => settings.members.budgetHint,
    },
  } as Setting<string | null>,
  member_playground: {
    kind: 'switch',
    schema: schema.described(schema.boolean, 'members may use the playground'),
    option: '--member-playground',
    meaning: 'let members use the playground',
    read: readBoolean,
    field: {
      name: 'member_playground',
      label: ({ settings }) => settings.members.playground,
      hint: ({ settings }) => settings.members.playgroundHint,
    },
  } as Setting<boolean>,
};

/** The buyer, as statements show it; its owners set it. */
export const BUYER = {
  billing_name: {
    ...line('of the company on statements; null: its name'),
    option: '--billing-name NAME',
    meaning: 'name of the company on statements, where it is another one',
    field: {
      name: 'billing_name',
      label: ({ settings }) => settings.buyer.name,
      hint: ({ settings }) => settings.buyer.nameHint,
    },
  } as Setting<string | null>,
  billing_address: {
    kind: 'text',
    schema: schema.described(schema.orNull(schema.addressLines), 'on statements: one to six lines'),
    option: '--billing-address TEXT',
    meaning: 'its address on statements: one to six lines',
    read: readAddressLines,
    isNullable: true,
    field: { name: 'billing_address', label: ({ settings }) => settings.buyer.address, rows: 4 },
  } as Setting<string | null>,
  vat_id: {
    ...line('on statements'),
    option: '--vat-id ID',
    meaning: 'its VAT id on statements',
    field: { name: 'vat_id', label: ({ statements }) => statements.vatId },
  } as Setting<string | null>,
};

/** What an invoice program calls the company; operators set it. */
export const CUSTOMER_NUMBER = {
  customer_number: {
    ...line('of the company in the invoice program'),
    option: '--customer-number NUMBER',
    meaning: 'number of the company in the invoice program, on statements and in their CSV',
    field: { name: 'customer_number', label: ({ statements }) => statements.customerNumber },
  } as Setting<string | null>,
};

/** Ceilings of a company, which operators set, and how strictly its budget holds. */
export const CEILINGS = {
  credit_limit_eur: {
    ...ceiling('the most that the budget may be, above 0; null: no ceiling'),
    option: '--credit-limit EUR',
    meaning: 'the most that the monthly budget may be; holds without a budget too',
    field: {
      name: 'credit_limit',
      label: () => 'Credit limit in EUR a month',
      hint: () => 'Empty for none. A higher budget, or none, counts as this amount.',
    },
  } as Setting<string | null>,
  eu_locked: {
    kind: 'switch',
    schema: schema.described(
      schema.boolean,
      'models outside the EU are refused, whatever the company allows',
    ),
    option: '--eu-locked',
    meaning: 'refuse models outside the EU, whatever the company allows',
    read: readBoolean,
    field: {
      name: 'eu_locked',
      label: () => 'Lock the EU gate',
      hint: () => 'Models outside the EU are refused, also where they were allowed.',
    },
  } as Setting<boolean>,
};

/** How the prices of a company are made of the list's; operators set it, and nobody else sees it. */
export const PRICE_FACTOR = {
  price_factor: {
    kind: 'factor',
    schema: schema.priceFactor,
    option: '--price-factor N',
    meaning: 'multiplies every price that it pays, those of its own models included; default: 1',
    changed: 'multiplies every price that it pays, those of its own models included',
    read: readPriceFactor,
    field: {
      name: 'price_factor',
      label: () => 'Price factor',
      hint: () =>
        'Multiplies every price of the company, those of its own models included: 0.9 is 10% less than the list, 1.2 is 20% more.',
      inputmode: 'decimal',
    },
  } as Setting<string | null, string, string>,
};

/** Members of a company that can be set, in the order of commands and answers; ceilings and limits are tables of their own. */
export const COMPANY_SETTINGS = {
  name: {
    kind: 'text',
    schema: schema.name,
    option: '--name NAME',
    meaning: 'name of the company',
    changed: 'new name',
    read: readName,
    isNeeded: true,
    field: { name: 'name', label: () => 'Company name' },
  } as Needed<string>,
  monthly_budget_eur: {
    ...BUDGET,
    option: '--budget EUR',
    meaning: 'monthly budget; none and 0 are no limit',
    field: {
      name: 'budget',
      label: ({ settings }) => settings.budget,
      hint: ({ settings }) => settings.budgetHint(''),
    },
  } as Setting<string | null>,
  daily_budget_eur: {
    ...BUDGET,
    option: '--daily-budget EUR',
    meaning: 'budget of each day, beside that of the month; none and 0 are no limit',
    field: {
      name: 'daily_budget',
      label: ({ settings }) => settings.dailyBudget,
      hint: ({ settings }) => settings.dailyBudgetHint,
    },
  } as Setting<string | null>,
  budget_mode: {
    kind: 'choice',
    schema: schema.oneOf(
      ['standard', 'strict'],
      'strict: each request reserves what it can cost at most',
    ),
    option: '--budget-mode standard|strict',
    meaning:
      'strict: each request first reserves the most it can cost, so the budget is never exceeded',
    read: oneOf('standard', 'strict'),
    field: {
      name: 'strict',
      label: () => 'Strict budget',
      hint: () =>
        'Each call first reserves the most it can cost, so that the budget is never passed.',
      box: ['standard', 'strict'],
    },
  } as Setting<'standard' | 'strict'>,
  allow_non_eu_models: {
    kind: 'switch',
    schema: schema.boolean,
    option: '--allow-non-eu',
    meaning: 'allow models hosted outside the EU',
    read: readBoolean,
    field: {
      name: 'allow_non_eu',
      label: ({ settings }) => settings.nonEu,
      hint: ({ settings }) => settings.nonEuHint,
    },
  } as Setting<boolean>,
  language: {
    kind: 'choice',
    schema: schema.orNull(
      schema.oneOf(
        LANGUAGES,
        'of pages and e-mails for its users who chose none; null: that of each browser, English in e-mails',
      ),
    ),
    option: `--language ${LANGUAGES.join('|')}`,
    meaning:
      'language of pages and e-mails for its users who chose none; none: that of each browser, English in e-mails',
    read: readLanguage,
    isNullable: true,
    field: {
      name: 'company_language',
      label: ({ settings }) => settings.language,
      hint: ({ settings }) => settings.languageHint,
      choices: ({ settings }) => [
        ['', settings.ofReader],
        ...LANGUAGES.map((each) => [each, LANGUAGE_NAMES[each]] as const),
      ],
    },
  } as Setting<Language | null>,
  ...UNUSUAL,
  ...MEMBER_SETTINGS,
  ...BUYER,
  ...CUSTOMER_NUMBER,
};

const { name, monthly_budget_eur, daily_budget_eur, budget_mode, allow_non_eu_models, language } =
  COMPANY_SETTINGS;
const { credit_limit_eur, eu_locked } = CEILINGS;
/** The settings in the groups of forms. */
export const NAME = { name, ...CUSTOMER_NUMBER };
export const MONTH_BUDGET = { monthly_budget_eur };
export const DAY_BUDGET = { daily_budget_eur };
export const EU_GATE = { allow_non_eu_models };
export const PROFILE = { language };
/** What a new company is asked for: what is taken for granted is not among it, since an empty field would end it. */
export const NEW_COMPANY = {
  ...NAME,
  ...MONTH_BUDGET,
  ...DAY_BUDGET,
  ...EU_GATE,
  ...PROFILE,
};
/** What the owners of a company set, but for what its members may do. */
export const OWNERS_SETTINGS = {
  ...MONTH_BUDGET,
  ...DAY_BUDGET,
  ...UNUSUAL,
  ...EU_GATE,
  ...PROFILE,
};
/** The ceilings, with how strictly the budget holds. */
export const STRICT_CEILINGS = { credit_limit_eur, budget_mode, eu_locked };

/** The models that a company may not use, told as a whole. */
export const DISABLED = {
  [DISABLED_MODELS]: {
    kind: 'list',
    schema: schema.listOf(schema.slug),
    option: '--disable-model SLUG',
    meaning: 'a shared model that it may not use',
    read: readSlug,
    field: {
      name: 'disabled',
      label: () => 'Models that it may not use',
      hint: () => 'One slug a line. It may use all others, and those that are offered later.',
      rows: 4,
    },
  } as Setting<readonly string[]>,
};

/** Every column of `companies` that people set, but for its disabled models. */
export const COMPANY = { ...COMPANY_SETTINGS, ...LIMIT_SETTINGS, ...CEILINGS, ...PRICE_FACTOR };
/** Those that its owners may know. */
export const TOLD_TO_OWNERS: Settings = { ...COMPANY_SETTINGS, ...LIMIT_SETTINGS, ...CEILINGS };
