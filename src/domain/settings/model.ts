import {
  FieldError,
  MOST,
  oneOf,
  PRICE,
  readBoolean,
  readModelTokens,
  readName,
  readPrice,
} from '../field.ts';
import type { Words } from '../language/en.ts';
import { MODEL_KINDS, type ModelKind, type TokenInput } from '../model.ts';
import { HOURS_FORM } from '../pricing/hours.ts';
import { parseEur } from '../pricing/money.ts';
import { COST_PARTS, type CostPart } from '../pricing/parts.ts';
import { MOST_OVER } from '../pricing/prices.ts';
import { MOST_RATES, type RateTexts, rateName, TIER_FORM } from '../pricing/rates.ts';
import * as schema from './schema.ts';
import { type Needed, type New, neededOf, type Setting, type Values } from './setting.ts';

/** A price of a model: EUR per 1000 tokens as exact decimal text (spec section 2.9). */
interface Price {
  /** The tokens that it is of, for operators. */
  readonly tokens: string;
  /** The same in tables of commands. */
  readonly short: string;
}

/** A price that every model has. */
const needed = (part: CostPart, meaning: string, short: string, hint?: string) =>
  ({
    kind: 'price',
    schema: schema.price,
    option: `--${part}-price EUR`,
    meaning,
    read: readPrice,
    isNeeded: true,
    field: { name: part, label: labelOf(part), ...(hint !== undefined && { hint: () => hint }) },
    tokens: short === 'in' ? 'prompt' : 'completion',
    short,
  }) as Price & Needed<string>;

/** A price that a model may have. @param units what it is of @param instead what they cost without it */
const optional = (part: CostPart, units: string, instead: string, hint: string) =>
  ({
    kind: 'price',
    schema: schema.described(
      schema.orNull(schema.price),
      `${schema.price.description}; null: ${instead}`,
    ),
    option: `--${part.replaceAll('_', '-')}-price EUR`,
    meaning: `per 1000 ${units}; none: ${instead}`,
    read: readPrice,
    isNullable: true,
    field: { name: part, label: labelOf(part), hint: () => hint },
    tokens: part.replaceAll('_', ' '),
    short: part.replaceAll('_', ' '),
  }) as Price & Setting<string | null>;

const labelOf = (part: CostPart) => (words: Words) =>
  words.models.price['1k'](words.models.priced[part]);

/** The prices of a model, by their columns in `model_prices` and `model_cost_prices`. */
export const PRICES = {
  input: needed('input', 'per 1000 prompt tokens', 'in'),
  output: needed('output', 'per 1000 completion tokens', 'out', '0 for embeddings and reranking.'),
  cache_read: optional(
    'cache_read',
    'prompt tokens that are read from a cache',
    'the input price',
    'Prompt tokens that the provider reads from its cache. Empty: the input price.',
  ),
  cache_write: optional(
    'cache_write',
    'prompt tokens that are written to a cache',
    'the input price',
    'Prompt tokens that the provider writes to its cache. Empty: the input price.',
  ),
  cache_write_1h: optional(
    'cache_write_1h',
    'prompt tokens that are written to a cache for an hour',
    'the price of other cache writes',
    'Cache writes that the provider keeps for an hour, as coding agents ask for. Empty: the price of other cache writes.',
  ),
  audio_input: optional(
    'audio_input',
    'audio tokens of the prompt',
    'the input price',
    'Empty: the input price.',
  ),
  image_input: optional(
    'image_input',
    'image tokens of the prompt',
    'the input price',
    'Empty: the input price.',
  ),
  reasoning: optional(
    'reasoning',
    'completion tokens that are reasoning',
    'the output price',
    'Empty: the output price.',
  ),
  audio_output: optional(
    'audio_output',
    'audio tokens of the completion',
    'the output price',
    'Empty: the output price.',
  ),
  image_output: optional(
    'image_output',
    'image tokens of the completion',
    'the output price',
    'Empty: the output price.',
  ),
  search_unit: optional(
    'search_unit',
    'search units of a rerank',
    'nothing',
    'A search unit of most providers is a query with up to 100 documents. Empty: nothing.',
  ),
  request: optional('request', 'calls', 'nothing', 'Each call that is booked. Empty: nothing.'),
} satisfies Readonly<Record<CostPart, Setting>>;

const ratePrice = schema.written(
  PRICE.source.replace('^', '^(none|').replace('$', ')$'),
  'EUR per 1000 units as exact decimal text, such as "0.005", or "none"',
);
const rate = {
  ...schema.object<schema.Properties, string>(
    {
      over: schema.whole(MOST_OVER, 'holds for prompts of more tokens'),
      tier: schema.written(TIER_FORM, 'holds for calls that this tier served, such as priority'),
      hours: schema.written(
        HOURS_FORM,
        'holds for calls admitted in windows of the week, such as Mon-Fri 01:00-04:00,06:00-10:00 UTC',
      ),
      ...Object.fromEntries(
        COST_PARTS.map((part) => [
          part,
          PRICES[part].isNullable ? schema.orNull(ratePrice) : PRICES[part].schema,
        ]),
      ),
    },
    ['input', 'output'],
  ),
  description:
    'prices in place of these where all its conditions hold: input, output, and every other part that they have, a price or null',
} as schema.Schema as schema.Schema<RateTexts>;

/** The prices that hold in place of others under conditions. */
export const RATES = {
  rates: {
    kind: 'rates',
    schema: {
      ...schema.orNull(schema.listOf(rate, MOST_RATES)),
      description: `prices that hold under conditions; the rate with the most conditions wins, then the highest "over"; null: none. Where there are rates, a change of prices says which hold with the new ones`,
    },
    option: '--rates FILE',
    meaning:
      'JSON file with a list of prices that hold under conditions, - for standard input; none: no rates',
    read: () => {
      throw new FieldError('is read from a file or a table');
    },
    isNullable: true,
    field: { name: 'rates', label: ({ models }: Words) => models.rates.title },
  } as Setting<readonly RateTexts[] | null>,
};

/** Prices, and the rates that hold in their place. */
export const PRICED = { ...PRICES, ...RATES };

export type PriceName = keyof typeof PRICES;
/** Exact decimal text, EUR per 1000 tokens; null: the input price. */
export type PriceTexts = Values<typeof PRICED>;
/** Prices of something new. */
export type NewPrices = New<typeof PRICED>;
/** The same where a price may be left out. */
export type SomePrices = { readonly [K in PriceName]?: string | null | undefined } & {
  readonly rates?: readonly RateTexts[] | null | undefined;
};

export const PRICE_NAMES = schema.namesOf(PRICES);
/** The prices that every model has. */
export const NEEDED_PRICES = neededOf(PRICES);

/** Whether two prices are the same number, or both are none. */
export function samePrice(
  one: string | null | undefined,
  other: string | null | undefined,
): boolean {
  return one == null || other == null
    ? (one ?? null) === (other ?? null)
    : parseEur(one) === parseEur(other);
}

/** The prices that every model has, and those that one of these has. */
export function pricesAmong(all: Iterable<SomePrices>): PriceName[] {
  const rows = [...all];
  return PRICE_NAMES.filter(
    (name) => PRICES[name].isNullable !== true || rows.some((row) => row[name] != null),
  );
}

/** Makes something of each price. */
export function eachPrice<T>(make: (name: PriceName, price: (typeof PRICES)[PriceName]) => T): {
  readonly [K in PriceName]: T;
} {
  return Object.fromEntries(PRICE_NAMES.map((name) => [name, make(name, PRICES[name])])) as Record<
    PriceName,
    T
  >;
}

/** Prices in one text, such as "0.002 and 0.008, cache read 0.0002; over 272000 0.005 and 0.0225". @param shown how each is written; default: as it is */
export function priceTexts(
  prices: SomePrices,
  shown: (price: string) => string = (price) => price,
): string {
  const needed = NEEDED_PRICES.map((name) => shown(prices[name] ?? 'none')).join(' and ');
  const more = pricesAmong([prices]).slice(NEEDED_PRICES.length);
  const base = [
    needed,
    ...more.map((name) => `${PRICES[name].tokens} ${shown(prices[name] as string)}`),
  ].join(', ');
  return [base, ...(prices.rates ?? []).map((each) => rateText(each, shown))].join('; ');
}

/** A rate in one text: "over 272000 0.005 and 0.0225". */
export function rateText(rate: RateTexts, shown?: (price: string) => string): string {
  return `${rateName(rate)} ${priceTexts({ ...rate, rates: null }, shown)}`;
}

/** The column of `models` with a price that holds now. */
const columnOf = <K extends PriceName>(name: K) => `cost_eur_per_1k_${name}` as const;
type ByColumn<P> = { readonly [K in keyof P & PriceName as `cost_eur_per_1k_${K}`]: P[K] };

/** Prices by the columns of `models`. */
export function modelPrices<const P extends { readonly [K in PriceName]?: unknown }>(
  prices: P,
): ByColumn<P> {
  return Object.fromEntries(
    PRICE_NAMES.map((name) => [columnOf(name), prices[name]]),
  ) as ByColumn<P>;
}

/** The prices of a model, or those that a change of it has, by their names. */
export function pricesOf<T>(model: { readonly [K in keyof ByColumn<PriceTexts>]?: T }): {
  readonly [K in PriceName]: T;
} {
  return eachPrice((name) => model[columnOf(name)] as T);
}

/** The column that says whether a model runs in the EU. */
export const EU_HOSTED = 'eu_hosted';

/** Columns of a model that people set, but for its prices. */
export const MODEL_SETTINGS = {
  upstream_model: {
    kind: 'text',
    schema: schema.described(schema.name, 'the name that the upstream knows the model by'),
    option: '--upstream NAME',
    meaning: 'internal name that the upstream gets and no client sees',
    read: readName,
    isNeeded: true,
    field: {
      name: 'upstream',
      label: () => 'Internal name',
      hint: () => 'What the model is called upstream.',
    },
  } as Needed<string>,
  kind: {
    kind: 'choice',
    schema: schema.oneOf(MODEL_KINDS),
    option: `--kind ${MODEL_KINDS.join('|')}`,
    meaning: 'endpoint that it serves',
    read: oneOf(...MODEL_KINDS),
    isNeeded: true,
    field: {
      name: 'kind',
      label: () => 'Kind',
      choices: () => [
        ['chat', 'Chat'],
        ['embedding', 'Embedding'],
        ['rerank', 'Reranking'],
      ],
    },
  } as Needed<ModelKind>,
  [EU_HOSTED]: {
    kind: 'switch',
    schema: schema.boolean,
    option: '--eu-hosted',
    meaning: 'whether the model runs in the EU',
    read: readBoolean,
    isNeeded: true,
    field: {
      name: 'eu_hosted',
      label: () => 'Hosted in the EU',
      hint: () => 'Companies that forbid models outside the EU get those hosted in it alone.',
      choices: () => [
        ['true', 'Yes, in the EU'],
        ['false', 'No, or not known'],
      ],
    },
  } as Needed<boolean>,
  token_input: {
    kind: 'choice',
    schema: schema.oneOf(
      ['accept', 'refuse'],
      'whether embedding calls and text completions may send token ids',
    ),
    option: '--token-input accept|refuse',
    meaning:
      'whether embeddings and text completions take token ids in place of text; default: refuse',
    read: oneOf('accept', 'refuse'),
    field: {
      name: 'token_input',
      label: () => 'Takes token ids',
      hint: () =>
        'For embeddings and text completions: whether clients may send token ids in place of text. They have to use the vocabulary of this model.',
      box: ['refuse', 'accept'],
    },
  } as Setting<TokenInput>,
  context_length: {
    kind: 'number',
    schema: schema.orNull(
      schema.whole(MOST.modelTokens, 'tokens of prompt and answer together; null: not told'),
    ),
    option: '--context-length TOKENS',
    meaning: 'tokens of prompt and answer together, as GET /models tells them',
    read: readModelTokens,
    isNullable: true,
    field: {
      name: 'context_length',
      label: () => 'Context length',
      hint: () => 'Tokens of prompt and answer together. GET /models tells clients.',
    },
  } as Setting<number | null>,
  max_output_tokens: {
    kind: 'number',
    schema: schema.orNull(
      schema.whole(MOST.modelTokens, 'the most tokens of an answer; null: not told'),
    ),
    option: '--max-output-tokens TOKENS',
    meaning: 'most tokens of an answer: GET /models tells them, and a strict budget reserves them',
    read: readModelTokens,
    isNullable: true,
    field: {
      name: 'max_output_tokens',
      label: () => 'Most output tokens',
      hint: () => 'Of one answer. A strict budget reserves them for calls that set no limit.',
    },
  } as Setting<number | null>,
};

const { upstream_model, token_input, context_length, max_output_tokens, ...settings } =
  MODEL_SETTINGS;
/** How much a model takes and generates. Routers tell it of some. */
export const SIZES = { context_length, max_output_tokens };
/** What few models need. */
export const FURTHER = { token_input, ...SIZES };
/** What is asked of each of several new models. */
export const KIND = { kind: MODEL_SETTINGS.kind };
export const HOSTED = { eu_hosted: MODEL_SETTINGS.eu_hosted };
/** What every model has. */
export const FIRST = { upstream_model, ...KIND, ...HOSTED };
/** What companies know of their models: all but the internal name (spec section 1, rule 5). */
export const OFFERED_MODEL = {
  ...settings,
  ...modelPrices(PRICES),
  ...RATES,
  token_input,
  ...SIZES,
};
/** Every column of `models` that people set. */
export const MODEL = { upstream_model, ...OFFERED_MODEL };
/** The columns of its own model that a company may see in the log of changes. */
export const OWN_MODEL_COLUMNS: readonly string[] = [
  'name',
  'slug',
  'created_at',
  ...schema.namesOf(OFFERED_MODEL),
];
