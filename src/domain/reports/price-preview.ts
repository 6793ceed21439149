import type { PartName } from '../../json/usage-counts.ts';
import { turnsOf } from '../pricing/hours.ts';
import { formatDecimal, formatEur, parseDecimal, parseEur } from '../pricing/money.ts';
import {
  COST_PARTS,
  COUNTED_PARTS,
  type CostPart,
  PARTS,
  type PartCounts,
} from '../pricing/parts.ts';
import { listCost, type Prices, parsePrices } from '../pricing/prices.ts';
import { conditionsOf, parseRates, tiersOf } from '../pricing/rates.ts';
import { eachPrice, PRICES, type PriceTexts, type SomePrices } from '../settings/model.ts';

/** What calls of the ledger would have cost at other prices: each group of calls is priced as the gateway prices one. */

/** Calls of a billing month to a model which cost alike: all that a price depends on is the same for them. */
export interface PastCalls extends PartCounts {
  readonly slug: string;
  readonly company_id: string;
  readonly calls: number;
  readonly prompt: number;
  readonly completion: number;
  /** The longest of their prompts. */
  readonly longest: number;
  /** When the first of them was admitted, milliseconds since the epoch. */
  readonly at: number;
  /** The name of the rate that held. */
  readonly rate: string | null;
  /** The factor of the company, and what they cost in EUR, as decimal text. */
  readonly factor: string;
  readonly cost: string;
  /** The prompt or completion tokens, or else the number, of those that told no such count, in the order of `Depends.counts`. */
  readonly untold: readonly number[];
}

/** What the prices depend on that calls are to be counted at. */
export interface Depends {
  /** Lengths of a prompt beyond which another price holds. */
  readonly overs: readonly number[];
  /** Instants since which another price holds. */
  readonly instants: readonly Date[];
  /** Counts that have prices of their own, or to which these are cut. */
  readonly counts: readonly PartName[];
  /** There is no other price under any condition, and of no part but what is read from a cache: sums of days say all. */
  readonly isPlain: boolean;
}

/** What a company paid for a model, and would have paid. */
export interface PastSum {
  readonly slug: string;
  readonly company: string;
  calls: number;
  /** In femto-EUR. */
  cost: bigint;
  /** In 10⁻²¹ EUR: a factor has six decimals. */
  would: bigint;
  /** Tokens of calls that told no such count, or such calls, as `PastCalls` has them. */
  readonly untold: Map<PartName, number>;
}

/** The prices of which there are texts. */
export function pricesIn(prices: SomePrices): Prices {
  const { input, output, rates, ...others } = prices as PriceTexts;
  return parsePrices(input, output, others, parseRates(rates));
}

/** What the calls of a month are to be told apart by. @param month its first day */
export function dependsOn(all: readonly Prices[], month: string): Depends {
  const rates = all.flatMap((prices) => prices.rates);
  const begin = Date.parse(month);
  const hours = new Map(
    rates.flatMap(({ hours }) => (hours === null ? [] : [[hours.text, hours]])),
  );
  return {
    isPlain: all.every(isPlain),
    counts: countsOf(all.flatMap(allOf)),
    overs: [...new Set(rates.flatMap(({ over }) => over ?? []))],
    instants: [...hours.values()].flatMap(
      (each) => turnsOf(each, begin - DAY_MS, begin + 32 * DAY_MS), // a month of any time zone
    ),
  };
}

const DAY_MS = 86_400_000;

/** A price, and those of its rates. */
const allOf = (prices: Prices): Prices[] => [prices, ...prices.rates.map((rate) => rate.prices)];

/** The counts that prices ask for: those of their parts, and those before them that may leave less for them. */
function countsOf(all: readonly Prices[]): PartName[] {
  const asked = all.flatMap(({ fitted, texts }) => {
    const isPriced = (part: CostPart) => texts[part] !== null;
    const before = fitted.filter(({ part }, n) =>
      fitted
        .slice(n)
        .some((each) => isPriced(each.part) && PARTS[each.part].within === PARTS[part].within),
    );
    return [...before.map(({ part }) => part), ...COST_PARTS.filter(isPriced)];
  });
  return COUNTED_PARTS.flatMap(({ part, count }) => (asked.includes(part) ? count : []));
}

/** Whether the sums of days say what calls cost. */
export function isPlain(prices: Prices): boolean {
  return prices.rates.length === 0 && countsOf([prices]).every((count) => count === 'cached');
}

/** Adds what some calls cost, and what they would have cost. @param counts as `Depends` has them */
export function addCalls(
  sums: Map<string, PastSum>,
  group: PastCalls,
  prices: Prices,
  counts: readonly PartName[],
): void {
  const { slug, company_id: company, calls, rate, longest, untold } = group;
  const name = `${company} ${slug}`;
  const sum = sums.get(name) ?? { slug, company, calls: 0, cost: 0n, would: 0n, untold: new Map() };
  sums.set(name, sum);
  const tier = rate === null ? null : (conditionsOf(rate).tier ?? null);
  const cost = listCost(prices, { ...group, tier }, group, { length: longest, calls });
  sum.calls += calls;
  sum.cost += parseEur(group.cost);
  sum.would += cost * parseDecimal(group.factor, FACTOR_DECIMALS);
  for (const [n, count] of counts.entries())
    sum.untold.set(count, (sum.untold.get(count) ?? 0) + (untold[n] ?? 0));
}

const FACTOR_DECIMALS = 6;

/** The sum of some of them, as exact decimal text. */
export function pastFigures(sums: readonly PastSum[]) {
  const total = (of: 'cost' | 'would') => sums.reduce((all, each) => all + each[of], 0n);
  return {
    calls: sums.reduce((all, { calls }) => all + calls, 0),
    cost_eur: formatEur(total('cost')),
    would_eur: formatDecimal(total('would'), 15 + FACTOR_DECIMALS),
  };
}

/** A price with what it leaves out as it is before. */
export function wholePrice(
  { rates, ...wanted }: SomePrices,
  before: SomePrices | null,
): SomePrices {
  const prices = eachPrice((name) => (wanted[name] === undefined ? before?.[name] : wanted[name]));
  return { ...prices, rates: (rates === undefined ? before?.rates : rates) ?? null };
}

/** What the ledger does not say of the calls, and how they were counted. @param before null: the model is new */
export function notesOf(
  prices: Prices,
  sums: readonly PastSum[],
  before: SomePrices | null,
): string[] {
  const { calls } = pastFigures(sums);
  const untold = COUNTED_PARTS.flatMap(({ part, count }) => {
    const of = sums.reduce((all, sum) => all + (sum.untold.get(count) ?? 0), 0);
    if (of === 0 || allOf(prices).every(({ texts }) => texts[part] === null)) return [];
    const { within, instead } = PARTS[part];
    const what = PRICES[part].tokens;
    return within === null
      ? `${of} of ${calls} calls do not tell their ${what}s, which cost nothing here`
      : `${of} ${within} tokens are of calls that do not tell how many were ${what}: they count at the ${(instead ?? part).replaceAll('_', ' ')} price`;
  });
  const known = tiersOf(pricesIn(before ?? { input: '0', output: '0' }));
  const tiers = [...tiersOf(prices)].filter((tier) => !known.has(tier));
  return calls === 0 || tiers.length === 0
    ? untold
    : [
        ...untold,
        `which calls ${tiers.join(' and ')} served was not recorded, as no price depended on it: all count as standard`,
      ];
}
