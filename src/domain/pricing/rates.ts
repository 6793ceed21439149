import { type Hours, overlaps, parseHours } from './hours.ts';
import { formatDecimal, parseDecimal } from './money.ts';
import { COST_PARTS } from './parts.ts';
import { type Prices, parsePrices, type Rate, rank, type SomeTexts } from './prices.ts';

/** A rate as it is stored, and told: a list of them is a column. Prices are decimal text; null: see `instead` of the part. */
export type RateTexts = {
  readonly over?: number;
  readonly tier?: string;
  readonly hours?: string;
} & SomeTexts;

/** Tiers that are the base price, whoever names them; null too. */
export const STANDARD_TIERS: ReadonlySet<unknown> = new Set([
  'auto',
  'default',
  'standard',
  'standard_only',
]);

/** A tier as rates have it: null for the standard one. */
export function tierOf(told: unknown): string | null {
  return typeof told === 'string' && told !== '' && !STANDARD_TIERS.has(told) ? told : null;
}

/** Of a tier in a rate. It is no word with which another condition begins. */
export const TIER_FORM = '^[a-z][a-z0-9_.-]{0,63}$';
const TIER = new RegExp(`(?!^over$)${TIER_FORM}`);
export const MOST_RATES = 64;

/** The tiers that a model has: those that its rates name. */
export function tiersOf({ rates }: Prices): ReadonlySet<string> {
  return rates.length === 0 ? NO_TIERS : new Set(rates.flatMap(({ tier }) => tier ?? []));
}
const NO_TIERS: ReadonlySet<string> = new Set();

/**
 * @param onUnread called for a rate that is left out, because a program wrote what cannot be read: a time zone that
 * nobody knows
 */
export function parseRates(
  texts: readonly RateTexts[] | null,
  onUnread: (name: string) => void = () => {},
): readonly Rate[] {
  return (texts ?? []).flatMap((each) => {
    const { over = null, tier = null, hours = null, input, output, ...others } = each;
    const name = rateName(each);
    try {
      const prices = parsePrices(input, output, others, [], name);
      return { over, tier, hours: hours === null ? null : parseHours(hours), prices };
    } catch {
      onUnread(name);
      return [];
    }
  });
}

/** Prices and rates as they are told. */
export function textsOf({ texts, rates }: Prices): Prices['texts'] & {
  readonly rates: readonly RateTexts[] | null;
} {
  const told = rates.map(({ over, tier, hours, prices }) => ({
    ...(over !== null && { over }),
    ...(tier !== null && { tier }),
    ...(hours !== null && { hours: hours.text }),
    ...prices.texts,
  }));
  return { ...texts, rates: told.length === 0 ? null : told };
}

/** The name of a rate: its conditions. */
export function rateName({
  over,
  tier,
  hours,
}: Pick<RateTexts, 'over' | 'tier' | 'hours'>): string {
  return [tier, hours, over === undefined ? undefined : `over ${over}`]
    .filter((each) => each !== undefined)
    .join(' ');
}

/** The conditions of which `rateName` made a name. */
export function conditionsOf(name: string): Pick<RateTexts, 'over' | 'tier' | 'hours'> {
  const [, tier, hours, over] =
    /^(?:([a-z][a-z0-9_.-]*)(?: (?!$)|$))??(?:((?:[A-Z]\S* )?\d\S* \S+))? ?(?:over (\d+))?$/.exec(
      name,
    ) ?? [];
  return {
    ...(tier !== undefined && { tier }),
    ...(hours !== undefined && { hours }),
    ...(over !== undefined && { over: Number(over) }),
  };
}

/**
 * Rates as they are stored: "none" is null, amounts have no zeros at their ends, members the order of conditions and
 * parts. Two lists that mean the same are the same text. @returns null: there are none
 */
export function storedRates(rates: readonly RateTexts[] | null | undefined): RateTexts[] | null {
  if (rates == null || rates.length === 0) return null;
  return rates.map(({ over, tier, hours, ...prices }) => {
    const parts = COST_PARTS.filter((part) => prices[part] !== undefined);
    const texts = parts.map((part) => {
      const text = prices[part] ?? 'none';
      return [part, text === 'none' ? null : formatDecimal(parseDecimal(text, 12), 12)];
    });
    return {
      ...(over !== undefined && { over }),
      ...(tier !== undefined && { tier }),
      ...(hours !== undefined && { hours }),
      ...Object.fromEntries(texts),
    };
  });
}

/** Whether two lists of rates mean the same. */
export function sameRates(
  one: readonly RateTexts[] | null | undefined,
  other: readonly RateTexts[] | null | undefined,
): boolean {
  return JSON.stringify(storedRates(one)) === JSON.stringify(storedRates(other));
}

/** Why a list of rates is refused: which of them, which member, and a sentence that continues its name. */
export interface RateMistake {
  readonly at: number;
  readonly member: string;
  readonly message: string;
}

/**
 * What is wrong with a list of rates whose values have the right form: conditions that cannot be read, two that could win
 * at once, and a part of the base price that one leaves out.
 * @param base the parts of the base price
 * @param now milliseconds since the epoch
 */
export function mistakesOf(
  rates: readonly RateTexts[],
  base: SomeTexts,
  now: number,
): RateMistake[] {
  const mistakes: RateMistake[] = [];
  const wrong = (at: number, member: string, message: string) =>
    mistakes.push({ at, member, message });
  const conditions = rates.map((rate, at) => {
    const { over = null, tier = null, hours = null } = rate;
    if (over === null && tier === null && hours === null) {
      wrong(
        at,
        'over',
        'or tier or hours must be there: a rate without a condition is the base price',
      );
    }
    if (tier !== null && STANDARD_TIERS.has(tier)) {
      wrong(at, 'tier', `must not be ${[...STANDARD_TIERS].join(', ')}, which are the base price`);
    } else if (tier !== null && !TIER.test(tier)) {
      wrong(at, 'tier', 'must be the name of a tier in lower case, such as priority');
    }
    for (const part of COST_PARTS) {
      if ((base[part] ?? null) !== null && rate[part] === undefined) {
        wrong(at, part, 'must be there, a price or "none": the base price has this part');
      }
    }
    return {
      over,
      tier,
      hours: hours === null ? null : readHours(hours, () => wrong(at, 'hours', HOURS)),
    };
  });
  if (mistakes.length > 0) return mistakes;
  const meet = overlaps(now);
  for (const [at, one] of conditions.entries()) {
    const before = conditions
      .slice(0, at)
      .findIndex((other) => isTie(one, other, conditions, meet));
    if (before >= 0) {
      const names = [at, before].map((n) => `"${rateName(rates[n] as RateTexts)}"`).join(' and ');
      const message = `${names} could hold at once: a rate with the conditions of both must say which price counts`;
      wrong(at, one.hours === null ? 'tier' : 'hours', message);
    }
  }
  return mistakes;
}

const HOURS =
  'must be at most 12 windows of the week with their time zone, such as Mon-Fri 01:00-04:00,06:00-10:00 UTC';

type Conditions = Pick<Rate, 'over' | 'tier' | 'hours'>;

function readHours(text: string, refuse: () => void): Hours | null {
  try {
    return parseHours(text);
  } catch {
    refuse();
    return null;
  }
}

/** Whether some call could have both, neither wins, and no third rate has the conditions of both. */
function isTie(
  one: Conditions,
  other: Conditions,
  all: readonly Conditions[],
  meet: ReturnType<typeof overlaps>,
): boolean {
  if (rank(one) !== rank(other)) return false;
  if (one.tier !== null && other.tier !== null && one.tier !== other.tier) return false;
  if (one.hours !== null && other.hours !== null && !meet(one.hours, other.hours)) return false;
  const tier = one.tier ?? other.tier;
  const hours = [one.hours, other.hours].flatMap((each) => each?.text ?? []);
  return !all.some(
    (third) =>
      rank(third) > rank(one) &&
      (third.tier ?? tier) === tier &&
      (third.over ?? -1) <= (one.over ?? -1) &&
      (third.hours === null || hours.includes(third.hours.text)),
  );
}
