import { formatExact, ONE, parseExact, readCost } from '../documents/exact-amount.ts';
import { PRICE } from '../field.ts';
import { generates, type ModelKind } from '../model.ts';
import { COST_PARTS, type CostPart, PARTS } from '../pricing/parts.ts';
import { MOST_OVER, type SomeTexts } from '../pricing/prices.ts';
import { type RateTexts, rateName } from '../pricing/rates.ts';
import { type Row, textIn } from './litellm-rows.ts';

/**
 * Prices as LiteLLM's public format has them, of a file or of a router: members of an entry, each in USD for one unit.
 * Everything is read from the decimal text of the JSON, so that no digit is lost.
 */

/** The parts by what LiteLLM calls the price of one unit. Suffixes say when it holds: `conditionsOf`. */
const MEMBERS: Readonly<Record<string, CostPart>> = Object.fromEntries(
  COST_PARTS.map((part) => [PARTS[part].catalogue, part]),
);
/** Another name of the same price, for models of DeepSeek. */
const CACHE_HIT = 'input_cost_per_token_cache_hit';

/** The kinds by LiteLLM's `mode`. */
export const KINDS: Readonly<Record<string, ModelKind>> = {
  chat: 'chat',
  completion: 'chat',
  responses: 'chat',
  embedding: 'embedding',
  rerank: 'rerank',
};

/** A member of an entry that does not come, and why. */
export interface Unsaid {
  readonly name: string;
  readonly why: string;
}

/** The price of an entry in EUR per 1000 units, as exact decimal text of at most 12 decimals. */
export interface CataloguePrice {
  readonly prices: SomeTexts;
  readonly rates: readonly RateTexts[];
  /** Members without a counterpart that some call here would pay, and amounts that had to be rounded: it is not exact. */
  readonly inexact: readonly Unsaid[];
  /** Members that no call here pays. */
  readonly aside: readonly Unsaid[];
}

/** EUR for an amount in USD, exact. @param usd decimal text, with or without an exponent */
export type Convert = (usd: string) => bigint;

/** @param eur what one USD is worth, as plain decimal text */
export function convertBy(eur: string): Convert {
  const rate = parseExact(eur);
  return (usd) => (parseExact(readCost(usd) ?? '0') * rate) / ONE;
}

const PLACES = ONE / 10n ** 12n; // of a price

/** An exact amount as a price, to the nearest of 12 decimals. */
export function priceText(amount: bigint): string {
  return formatExact(((amount + PLACES / 2n) / PLACES) * PLACES);
}

/** The amount of a member, as decimal text; null: nobody says. Below 0 is none. */
export function amountIn(value: unknown): string | null {
  const text = typeof value === 'number' ? String(value) : textIn(value);
  return text === null || text.startsWith('-') ? null : readCost(text);
}

const DIGITS = 15; // which a binary number keeps: whoever writes more has computed in binary

/** An amount without the digits that binary arithmetic left, such as the last of 0.000015000020000000002. */
function withoutResidue(amount: string): string {
  const [, zeros, digits] = /^(0\.0*)(\d+)$/.exec(amount) ?? [];
  if (digits === undefined || digits.length <= DIGITS) return amount;
  const decimals = (zeros as string).length - 2 + DIGITS;
  const unit = ONE / 10n ** BigInt(decimals);
  return formatExact(((parseExact(amount) + unit / 2n) / unit) * unit);
}

/** Whether a member is a price, or changes one. */
export function isCost(name: string): boolean {
  return /cost|pricing|price|multiplier|^provider_specific_entry$/.test(name);
}

interface Conditions {
  readonly over?: number;
  readonly tier?: string;
}

/** When a member holds, by the suffixes of its name, in any order; null: it is of no part, or of a batch. */
function conditionsOf(name: string): (Conditions & { readonly part: CostPart }) | null {
  let rest = name;
  const found: { over?: number; tier?: string } = {};
  while (MEMBERS[rest] === undefined) {
    const [suffix, limit, tier] = /(?:_above_(\d+)k_tokens|_(priority|flex))$/.exec(rest) ?? [];
    if (suffix === undefined) return null;
    if (limit !== undefined) found.over ??= Number(limit) * 1000;
    if (tier !== undefined) found.tier ??= tier;
    rest = rest.slice(0, -suffix.length);
  }
  return { part: MEMBERS[rest] as CostPart, ...found };
}

/** Members that no call here pays. */
const ASIDE: readonly [RegExp, string][] = [
  [/_batches$/, 'of batches, which are not served here'],
  [/^search_context_cost_per_query$/, "of the provider's web search, which is refused here"],
  [
    /^(code_interpreter|file_search|vector_store|computer_use)_/,
    'of tools that store state at the provider, which are refused here',
  ],
  [/_dbu_cost_/, "the same price in the provider's own unit"],
  [
    /^regional_processing_uplift_/,
    "of a region of the provider's: set the price of the region that is used",
  ],
  [/^provider_specific_entry$/, 'times the price for request members that are refused here'],
  [/^tiered_pricing$/, 'of results of a search, which is not served here'],
];
const OF_IMAGES = /^(input_cost_per_(image|character)|input_cost_per_(video|audio)_per_second)/;

/** Why a call's price cannot be said, by the name of its member. */
const INEXACT: readonly [RegExp, string][] = [
  [/_per_second/, 'a price by the second: calls tell no seconds'],
  [/_per_(image|pixel)/, 'a price by the image: calls tell tokens of images, and no images'],
  [/_per_character/, 'a price by the character: calls tell tokens'],
  [/video/, 'a price of video: calls tell no tokens of video'],
  [/^citation_/, 'a price of citations: calls tell no tokens of them'],
];

/** Lists of these say "N and more", so that the limit is one less. */
const AND_MORE = /(^|[/.])grok-/;

/**
 * The price of an entry.
 * @param members null and absent ones say nothing
 * @param name as the entry is called, for what its list means
 * @returns null: it says no price of a call
 */
export function catalogue(
  members: Row,
  kind: ModelKind,
  name: string,
  convert: Convert,
): CataloguePrice | null {
  const inexact: Unsaid[] = [];
  const aside: Unsaid[] = [];
  const shift = AND_MORE.test(name) || members.litellm_provider === 'xai' ? 1 : 0;
  const found = new Map<string, { conditions: Conditions; usd: Map<CostPart, string> }>();
  const put = (conditions: Conditions, part: CostPart, usd: string): void => {
    const key = `${conditions.tier ?? ''} ${conditions.over ?? ''}`;
    const rate = found.get(key) ?? { conditions, usd: new Map() };
    rate.usd.set(part, usd);
    found.set(key, rate);
  };
  for (const [member, value] of Object.entries(members)) {
    if (!isCost(member) || isNothing(value)) continue;
    const { part, over, ...tier } = conditionsOf(member) ?? {};
    const amount = amountIn(value);
    if (part !== undefined && amount !== null && isOf(part, kind)) {
      put({ ...tier, ...(over !== undefined && { over: over - shift }) }, part, amount);
    } else if (member === CACHE_HIT && amount !== null) {
      if (amountIn(members.cache_read_input_token_cost) === null) put({}, 'cache_read', amount);
    } else if (
      member === 'search_context_cost_per_query' &&
      members.litellm_provider === 'perplexity'
    ) {
      // each call searches, with the smallest context where the request asks for none
      const least = amountIn((value as Row).search_context_size_low);
      if (least !== null && amountIn(members.input_cost_per_request) === null)
        put({}, 'request', least);
    } else if (Array.isArray(value) && value.every(isRange)) {
      for (const range of value) inexact.push(...putRange(range as Row, shift, put));
    } else if (amount === null || Number(amount) !== 0) {
      const why =
        ASIDE.find(([form]) => form.test(member))?.[1] ??
        (kind === 'embedding' && OF_IMAGES.test(member)
          ? 'of images, characters, sound and video: embeddings here are of tokens of text'
          : null);
      if (why !== null) aside.push({ name: member, why });
      else {
        const reason = INEXACT.find(([form]) => form.test(member))?.[1];
        inexact.push({ name: member, why: reason ?? 'has no counterpart' });
      }
    }
  }
  for (const { usd } of found.values()) {
    for (const [part, amount] of usd) {
      const short = withoutResidue(amount);
      if (short === amount) continue;
      usd.set(part, short);
      aside.push({
        name: part,
        why: `${amount} USD, the residue of binary arithmetic, is read as ${short}`,
      });
    }
  }
  const base = found.get(' ')?.usd ?? new Map<CostPart, string>();
  if (!generates(kind) && !base.has('output')) base.set('output', '0');
  if (kind === 'rerank' && base.has('search_unit') && !base.has('input')) base.set('input', '0');
  if (!base.has('input') || !base.has('output')) return null;
  const eur = (usd: string, part: string): string => {
    const exact = convert(usd) * 1000n;
    const price = priceText(exact);
    if (parseExact(price) !== exact) {
      const why = `has more than 12 decimals in EUR per 1000: ${formatExact(exact)} is rounded to ${price}`;
      inexact.push({ name: part, why });
    }
    if (!PRICE.test(price)) inexact.push({ name: part, why: 'is above all bounds' });
    return price;
  };
  // a price that says the same as none is left out, so that a rate's own input and output count for it
  const needed = (usd: ReadonlyMap<CostPart, string>) =>
    new Map([...usd].filter(([part, amount]) => amount !== insteadOf(part, usd)));
  const texts = (usd: ReadonlyMap<CostPart, string>): SomeTexts =>
    Object.fromEntries(
      COST_PARTS.flatMap((part) => {
        const amount = usd.get(part);
        return amount === undefined ? [] : [[part, eur(amount, part)]];
      }),
    ) as unknown as SomeTexts;
  const own = needed(base);
  const prices = texts(own);
  const rates = [...found.values()].flatMap(({ conditions, usd }): RateTexts[] => {
    const { over, tier } = conditions;
    if (over === undefined && tier === undefined) return [];
    // what a rate leaves out costs what it costs without the length, or else without the tier: so LiteLLM computes it
    const otherwise = new Map([...own, ...(found.get(`${tier ?? ''} `)?.usd ?? [])]);
    for (const part of otherwise.keys()) {
      if (usd.has(part)) continue;
      aside.push({
        name: `${part} of ${rateName(conditions)}`,
        why: 'is not said: it costs as without this condition',
      });
    }
    const whole = needed(new Map([...otherwise, ...usd]));
    const none = [...own.keys()].filter((part) => !whole.has(part)).map((part) => [part, null]);
    return [{ ...conditions, ...Object.fromEntries(none), ...texts(whole) }];
  });
  rates.sort((a, b) => (a.tier ?? '').localeCompare(b.tier ?? '') || (a.over ?? 0) - (b.over ?? 0));
  return { prices, rates, inexact, aside };
}

const isNothing = (value: unknown): boolean =>
  value === null ||
  value === undefined ||
  (Array.isArray(value) && value.length === 0) ||
  (typeof value === 'object' &&
    Object.values(value).every((each) => typeof each !== 'object' && amountIn(each) === null));

/** What units of a part cost without a price of their own; undefined: nobody says. */
function insteadOf(part: CostPart, usd: ReadonlyMap<CostPart, string>): string | undefined {
  if (part === 'input' || part === 'output') return undefined;
  const { instead } = PARTS[part];
  return instead === null ? '0' : (usd.get(instead) ?? insteadOf(instead, usd));
}

/** Whether calls of a kind have units of a part. */
function isOf(part: CostPart, kind: ModelKind): boolean {
  return part === 'search_unit' ? kind === 'rerank' : true;
}

function isRange(value: unknown): boolean {
  const range = (value as Row | null)?.range;
  return Array.isArray(range) && Number.isInteger(range[0]) && (range[0] as number) < MOST_OVER;
}

/** The prices of a length of the prompt: `{"range":[32000,128000], …}` is of more than 32,000 tokens. */
function putRange(
  { range, ...members }: Row,
  shift: number,
  put: (conditions: Conditions, part: CostPart, usd: string) => void,
): Unsaid[] {
  const from = (range as readonly number[])[0] as number;
  return Object.entries(members).flatMap(([member, value]) => {
    const part = MEMBERS[member];
    const amount = amountIn(value);
    if (part === undefined || amount === null)
      return [{ name: `tiered_pricing.${member}`, why: 'has no counterpart' }];
    put(from === 0 ? {} : { over: from - shift }, part, amount);
    return [];
  });
}
