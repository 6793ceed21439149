import type { TokenCounts } from '../../json/usage.ts';
import { areWithin, type PartName } from '../../json/usage-counts.ts';
import type { Hours } from './hours.ts';
import { type Femto, formatDecimal, parseDecimal, parseEur } from './money.ts';
import { COST_PARTS, COUNTED_PARTS, type CostPart, isListed, PARTS, partOf } from './parts.ts';

/** Prices as they were written, exact decimal text in EUR per 1000 units; null: see `instead` of the part. */
export type PriceTexts = { readonly [part in CostPart]: string | null } & {
  readonly input: string;
  readonly output: string;
};
/** The same, where what is left out is null. */
export type SomeTexts = { readonly [part in CostPart]?: string | null | undefined } & {
  readonly input: string;
  readonly output: string;
};

/**
 * Prices that hold in place of the base price where all their conditions hold (contract section 4). The one with the most
 * conditions wins, then the highest `over`.
 */
export interface Rate {
  /** The prompt has more tokens. */
  readonly over: number | null;
  /** The tier served the call. */
  readonly tier: string | null;
  /** The call was admitted in these windows. */
  readonly hours: Hours | null;
  readonly prices: Prices;
}

/** Prices of one model in femto-EUR per 1000 units, with the rates that hold in their place. */
export interface Prices {
  readonly input: Femto;
  readonly output: Femto;
  /** The most that a prompt token, and a completion token, may cost. */
  readonly dearestInput: Femto;
  readonly dearestOutput: Femto;
  /** Of each call, and of each search unit. */
  readonly request: Femto;
  readonly searchUnit: Femto;
  /** What units of other parts cost more than those that they are among, below 0 for less; none without prices of their own. */
  readonly apart: readonly Apart[];
  /** Counts that have to fit into what they are among. */
  readonly fitted: readonly Among[];
  /** Whether a part is among them, or charged beside tokens, that a ledger row has no column for. */
  readonly isListed: boolean;
  /** As they were written, for the price snapshot of the ledger row. */
  readonly texts: PriceTexts;
  /** Empty: the prices hold always. */
  readonly rates: readonly Rate[];
  /** The rate that they are of, as the ledger names it: "priority over 272000"; null: the base price. */
  readonly rate: string | null;
  /** What is known of the one call that they are to bound; absent: nothing, they are a model's. */
  readonly facts?: CallFacts;
}

/** A count, and the part whose units it is among: the nearest one with a price, or that has to fit as well. */
interface Among {
  readonly part: CostPart;
  readonly count: PartName;
  readonly among: CostPart;
}

interface Apart extends Among {
  readonly more: Femto;
}

/** @throws RangeError when a price is not a plain decimal number */
export function parsePrices(
  input: string,
  output: string,
  others: Omit<SomeTexts, 'input' | 'output'> = {},
  rates: readonly Rate[] = [],
  rate: string | null = null,
): Prices {
  const some: SomeTexts = { ...others, input, output };
  const texts = Object.fromEntries(
    COST_PARTS.map((part) => [part, some[part] ?? null]),
  ) as PriceTexts;
  const femto = (part: CostPart): Femto => {
    const text = texts[part];
    if (text !== null) return parseEur(text);
    const { instead } = PARTS[part];
    return instead === null ? 0n : femto(instead);
  };
  /** The parts that `isOne`, but for wholes, each with the nearest other one, or whole, that it is among. */
  const counted = (isOne: (part: CostPart) => boolean): Among[] => {
    const among = (part: CostPart): CostPart => {
      const { instead } = PARTS[part];
      return instead === null || isOne(instead) ? (instead as CostPart) : among(instead);
    };
    return COST_PARTS.flatMap((part) => {
      const { within, count } = partOf(part);
      if (within === null || count === null || !isOne(part)) return [];
      return [{ part, count, among: among(part) }];
    });
  };
  const isPriced = (part: CostPart): boolean => texts[part] !== null;
  const isCachePriced = isPriced('cache_read') || isPriced('cache_write');
  const apart = counted(isPriced).map((each) => ({
    ...each,
    more: femto(each.part) - femto(each.among),
  }));
  const fitted = counted(
    (part) =>
      isPriced(part) || (isCachePriced && (part === 'cache_read' || part === 'cache_write')),
  );
  const dearest = (side: 'prompt' | 'completion') =>
    COST_PARTS.filter((part) => PARTS[part].within === side)
      .map(femto)
      .reduce((most, each) => (each > most ? each : most));
  return {
    input: femto('input'),
    output: femto('output'),
    dearestInput: dearest('prompt'),
    dearestOutput: dearest('completion'),
    request: femto('request'),
    searchUnit: femto('search_unit'),
    apart,
    fitted,
    isListed: COST_PARTS.some((part) => isListed(part) && texts[part] !== null),
    texts,
    rates,
    rate,
  };
}

/** What a price depends on. @see Rate */
export interface CallFacts {
  /** When the call was admitted, milliseconds since the epoch. */
  readonly at: number;
  /** The tier that served it, as the answer says, or else as the request asked for; null: none, or the standard one. */
  readonly tier: string | null;
}

/** The rate that holds for a call; null: the base price. @param promptTokens told, or else estimated */
export function rateOf(
  rates: readonly Rate[],
  facts: CallFacts,
  promptTokens: number,
): Rate | null {
  let best: Rate | null = null;
  for (const rate of rates) {
    const { over, tier, hours } = rate;
    if (over !== null && promptTokens <= over) continue;
    if (tier !== null && tier !== facts.tier) continue;
    if (hours !== null && !hours.holds(facts.at)) continue;
    if (best === null || rank(rate) > rank(best)) best = rate;
  }
  return best;
}

/** The highest limit of a length. */
export const MOST_OVER = 1_000_000_000;

/** The conditions count first, then the limit. */
export function rank({ over, tier, hours }: Pick<Rate, 'over' | 'tier' | 'hours'>): number {
  const conditions = Number(over !== null) + Number(tier !== null) + Number(hours !== null);
  return conditions * 2 * MOST_OVER + (over ?? -1);
}

const UNKNOWN: CallFacts = { at: 0, tier: null };

/** The prices of a model to bound one call by: those of tiers that it does not ask for are none of its. */
export function pricesToBound(prices: Prices, facts: CallFacts): Prices {
  return prices.rates.length === 0 ? prices : { ...prices, facts };
}

/** The prices of a call. @param promptTokens told, or else estimated */
export function ratedPrices(prices: Prices, facts: CallFacts, promptTokens: number): Prices {
  if (prices.rates.length === 0) return prices;
  return rateOf(prices.rates, facts, promptTokens)?.prices ?? prices;
}

/** Prices times a factor, exact: a product has at most 12 decimals (fits_factor in sql/schema/models.sql). @param factor decimal text */
export function timesFactor({ texts, rates, rate: name }: Prices, factor: string): Prices {
  const times = timesText(factor);
  const { input, output, ...others } = texts;
  const each = Object.entries(others).map(([part, text]) => [part, text && times(text)]);
  return parsePrices(
    times(input),
    times(output),
    Object.fromEntries(each),
    rates.map((rate) => ({ ...rate, prices: timesFactor(rate.prices, factor) })),
    name,
  );
}

/** A price times a factor, as exact decimal text. */
export function timesText(factor: string): (price: string) => string {
  const times = parseDecimal(factor, 6);
  return (price) => formatDecimal(parseDecimal(price, 12) * times, 18);
}

/** What a cost would be with another factor on the prices, to the nearest femto-EUR: exact where the prices fit it. */
export function costAtFactor(cost: Femto, was: string, factor: string): Femto {
  const [before, after] = [parseDecimal(was, 6), parseDecimal(factor, 6)];
  return (2n * cost * after + before) / (2n * before);
}

/** Counts of a call, of which some may not be told. */
export type SomeCounts = { readonly [count in PartName]?: number | null };

/**
 * Cost of one call in femto-EUR (spec section 8, rule 3): (prompt_tokens / 1000) × input price + (completion_tokens / 1000)
 * × output price; of units with a price of their own that price. In parts: `chargedParts`, and store/statement/cost.ts.
 * @param counts within the counts that they are part of (`partsWithin`)
 */
export function costOf(
  prices: Prices,
  promptTokens: number,
  completionTokens: number,
  counts: SomeCounts | null = null,
): Femto {
  let sum =
    BigInt(promptTokens) * prices.input + BigInt(completionTokens) * prices.output + prices.request;
  for (const { count, more } of prices.apart) sum += BigInt(counts?.[count] ?? 0) * more;
  if (prices.searchUnit !== 0n) sum += BigInt(counts?.searchUnits ?? 0) * prices.searchUnit;
  return sum / 1000n; // exact: a price has at most 12 decimals, so its femto amount divides by 1000
}

/**
 * Cost of a call at a price of its model, in femto-EUR, by the rate that holds for it.
 * @param of.length the length that chooses the rate; default: that of the prompt
 * @param of.calls of how many calls, all at one rate, these are the sums
 */
export function listCost(
  list: Prices,
  call: CallFacts & TokenCounts,
  counts: SomeCounts,
  { length = call.prompt, calls = 1 } = {},
): Femto {
  const prices = ratedPrices(list, call, length);
  const further = (BigInt(calls - 1) * prices.request) / 1000n;
  return further + costOf(prices, call.prompt, call.completion, partsWithin(prices, call, counts));
}

/**
 * The most that so many tokens can cost, whatever they consist of: by the dearest rate that the call can still get, and
 * by no dearer one.
 */
export function mostCost(
  prices: Prices,
  promptTokens: number,
  completionTokens: number,
  searchUnits = 0,
): Femto {
  const most = (of: Prices, prompt: number): Femto =>
    (BigInt(prompt) * of.dearestInput +
      BigInt(completionTokens) * of.dearestOutput +
      BigInt(searchUnits) * of.searchUnit +
      of.request) /
    1000n;
  if (prices.rates.length === 0) return most(prices, promptTokens);
  // within a length the price grows with the tokens: the last one before each limit is the dearest
  const lengths = [promptTokens, ...prices.rates.flatMap(({ over }) => over ?? [])];
  const { at, tier: asked } = prices.facts ?? UNKNOWN;
  const tiers = new Set([asked, null]); // an answer may say that it was served as standard
  let dearest = 0n;
  for (const length of lengths) {
    const prompt = Math.min(length, promptTokens);
    for (const tier of tiers) {
      const cost = most(ratedPrices(prices, { at, tier }, prompt), prompt);
      if (cost > dearest) dearest = cost;
    }
  }
  return dearest;
}

/** A part of what a call costs. */
export interface ChargedPart {
  readonly part: CostPart;
  readonly units: number;
  /** EUR per 1000 units, exact decimal text. */
  readonly price: string;
}

/**
 * The parts of a call, where one was charged that a ledger row has no column for; null: its columns say all.
 * @param counts within the counts that they are part of
 */
export function chargedParts(
  prices: Prices,
  tokens: TokenCounts,
  counts: SomeCounts | null,
): readonly ChargedPart[] | null {
  if (!prices.isListed) return null;
  const units: Partial<Record<CostPart, number>> = {
    input: tokens.prompt,
    output: tokens.completion,
  };
  for (const { part, count, among } of prices.apart) {
    const taken = counts?.[count] ?? 0;
    units[part] = taken;
    units[among] = (units[among] ?? 0) - taken;
  }
  if (prices.texts.search_unit !== null) units.search_unit = counts?.searchUnits ?? 0;
  if (prices.texts.request !== null) units.request = 1;
  const charged = COST_PARTS.filter((part) => (units[part] ?? 0) > 0);
  if (!charged.some(isListed)) return null;
  return charged.map((part) => ({
    part,
    units: units[part] as number,
    price: prices.texts[part] as string,
  }));
}

/**
 * The counts of the parts with prices of their own cut so that they fit into the tokens that they are part of: the later
 * ones of COST_PARTS first. A count without a price that is larger than its whole cannot be right, and is left out.
 * @returns the same object where all fit
 */
export function partsWithin<T extends SomeCounts>(
  prices: Prices,
  tokens: { readonly prompt: number | null; readonly completion: number | null },
  counts: T,
): T {
  const areAll = areWithin(counts, tokens.prompt, tokens.completion);
  if (areAll && prices.fitted.length === 0) return counts; // nearly always
  let fitting: Record<string, number | null> | null = null;
  const set = (count: PartName, value: number | null) => {
    fitting ??= { ...(counts as Record<string, number | null>) };
    fitting[count] = value;
  };
  fit(prices.fitted, tokens, counts, set);
  for (const { part, count } of areAll ? [] : COUNTED_PARTS) {
    const { within } = PARTS[part];
    const whole = within === null ? null : tokens[within];
    const isFitted = prices.fitted.some((each) => each.part === part);
    if (!isFitted && whole !== null && (counts[count] ?? 0) > whole) set(count, null);
  }
  return (fitting as T | null) ?? counts;
}

/** @param set takes what a count is cut to */
function fit(
  fitted: readonly Among[],
  tokens: { readonly prompt: number | null; readonly completion: number | null },
  counts: SomeCounts,
  set: (count: PartName, value: number) => void,
): void {
  const left: Partial<Record<CostPart, number | null>> = {
    input: tokens.prompt,
    output: tokens.completion,
  };
  for (const { part, count, among } of fitted) {
    const told = counts[count] ?? null;
    const whole = tokens[PARTS[part].within as 'prompt' | 'completion'];
    if (told === null || whole === null) continue;
    const room = left[among] ?? 0; // nothing was told of what it is among
    const taken = Math.min(told, room);
    if (taken !== told) set(count, taken);
    left[among] = room - taken;
    left[part] = taken;
  }
}
