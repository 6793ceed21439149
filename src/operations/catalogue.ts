import type { Moment } from '../domain/price.ts';
import { parseEur } from '../domain/pricing/money.ts';
import { COST_PARTS, type CostPart, PARTS } from '../domain/pricing/parts.ts';
import { type Prices, type Rate, ratedPrices, rateOf } from '../domain/pricing/prices.ts';
import { mistakesOf } from '../domain/pricing/rates.ts';
import { pastFigures, pricesIn } from '../domain/reports/price-preview.ts';
import type { Convert, Unsaid } from '../domain/settings/catalogue.ts';
import { type CatalogueEntry, entryOf, priceOf } from '../domain/settings/catalogue-entry.ts';
import { eachPrice, pricesOf, type SomePrices } from '../domain/settings/model.ts';
import type { ModelSizes } from '../domain/settings/model-sizes.ts';
import { lastMonth } from '../store/company/last-month.ts';
import { type ModelRow, sharedModels } from '../store/company/model.ts';
import type { Sql } from '../store/connection/pool.ts';
import type { Caller } from './frame/caller.ts';
import { changeModel } from './model.ts';
import { presentCosts, setPrices } from './price.ts';
import { lastMonthAt } from './price-preview.ts';
import { isSamePrice } from './rate.ts';

/** What a catalogue says of a shared model, beside what is set. */
export interface CataloguePriced {
  readonly slug: string;
  /** The name of its entry. */
  readonly entry: string;
  readonly now: SomePrices;
  readonly wanted: SomePrices;
  /** Sizes that differ. */
  readonly sizes: ModelSizes;
  readonly isPriceNew: boolean;
  /** The calls of the last month, what they cost, and what they would have cost: EUR as exact decimal text. */
  readonly last_month: ReturnType<typeof pastFigures>;
  /** Prices that would be below the cost price, in words. */
  readonly below_cost: readonly string[];
  readonly inexact: readonly Unsaid[];
  readonly aside: readonly Unsaid[];
  readonly notes: readonly string[];
}

export interface CatalogueComparison {
  readonly models: readonly CataloguePriced[];
  /** Models that the catalogue says no price of, and why. */
  readonly left: readonly { readonly slug: string; readonly why: string }[];
}

/**
 * Compares shared models with a catalogue, by their upstream names. Reads each call of the last month once.
 * @param slugs null: all shared models
 * @param now milliseconds since the epoch
 */
export async function compareCatalogue(
  sql: Sql,
  entries: ReadonlyMap<string, CatalogueEntry>,
  slugs: readonly string[] | null,
  convert: Convert,
  now: number,
): Promise<CatalogueComparison> {
  const left: { slug: string; why: string }[] = [];
  const models = await sharedModels(sql, slugs);
  const { costs, today } = await presentCosts(
    sql,
    models.map(({ slug }) => slug),
  );
  for (const slug of slugs ?? [])
    if (!models.some((model) => model.slug === slug))
      left.push({ slug, why: 'is no shared model' });
  const found = models.flatMap((model) => {
    const wanted = wantedOf(model, entries, convert, now);
    if (typeof wanted !== 'string') return { model, ...wanted };
    left.push({ slug: model.slug, why: wanted });
    return [];
  });
  const sums = await lastMonthAt(
    sql,
    await lastMonth(sql),
    new Map(found.map(({ model, wanted }) => [model.slug, pricesIn(wanted)])),
  );
  const compared = found.map(({ model, entry, wanted, ...told }): CataloguePriced => {
    const set = { ...pricesOf<string | null>(model), rates: model.rates };
    const cost = costs.find(
      ({ slug, company_id, valid_from }) =>
        slug === model.slug && company_id === null && valid_from <= today,
    );
    return {
      slug: model.slug,
      entry: entry.name,
      now: set,
      wanted,
      isPriceNew: !isSamePrice(set, wanted),
      sizes: Object.fromEntries(
        Object.entries(entry.sizes).filter(
          ([size, value]) => model[size as keyof ModelSizes] !== value,
        ),
      ),
      last_month: pastFigures(sums.filter(({ slug }) => slug === model.slug)),
      below_cost: cost === undefined ? [] : belowCost(pricesIn(wanted), pricesIn(cost), now),
      ...told,
    };
  });
  return { models: compared, left };
}

/** Sets what a catalogue says. To be run in a transaction. @param from when prices begin; null: now. Sizes have no date */
export async function acceptCatalogue(
  sql: Sql,
  { judge }: Pick<Caller, 'judge'>, // what each price changes was told
  { models }: CatalogueComparison,
  from: Moment | null,
): Promise<void> {
  for (const { slug, wanted, sizes, isPriceNew } of models) {
    const model = { slug, company_id: null };
    const { rates, ...prices } = wanted;
    if (isPriceNew) await setPrices(sql, { judge }, model, prices, rates, from);
    if (Object.keys(sizes).length > 0) await changeModel(sql, { judge }, model, sizes);
  }
}

/** @returns why there is none */
function wantedOf(
  { kind, upstream_model }: ModelRow,
  entries: ReadonlyMap<string, CatalogueEntry>,
  convert: Convert,
  now: number,
) {
  const entry = entryOf(entries, upstream_model);
  if (entry === undefined) return 'is not in the catalogue';
  if (entry.kind !== null && entry.kind !== kind) return `is of another kind there: ${entry.kind}`;
  const price = priceOf(entry, kind, convert);
  if (price === null) return 'has no price of a call there';
  const [mistake] = mistakesOf(price.rates, price.prices, now);
  if (mistake !== undefined) return `has rates that cannot be set: ${mistake.message}`;
  const { prices, rates, ...told } = price;
  const wanted = {
    ...eachPrice((part) => prices[part] ?? null),
    rates: rates.length === 0 ? null : rates,
  };
  return { entry, wanted: wanted as SomePrices, ...told };
}

/** Where a price is below what the operator pays, at the base price and at each rate of either. */
function belowCost(price: Prices, cost: Prices, now: number): string[] {
  const conditions: Pick<Rate, 'over' | 'tier' | 'hours'>[] = [
    { over: null, tier: null, hours: null },
    ...price.rates,
    ...cost.rates,
  ];
  const found = conditions.flatMap(({ over, tier, hours }) => {
    const facts = { at: instantIn(hours, now), tier };
    const prompt = over === null ? 0 : over + 1;
    const [mine, paid] = [ratedPrices(price, facts, prompt), ratedPrices(cost, facts, prompt)];
    const name =
      rateOf(price.rates, facts, prompt)?.prices.rate ??
      rateOf(cost.rates, facts, prompt)?.prices.rate;
    return COST_PARTS.flatMap((part) => {
      const [sold, bought] = [amountOf(mine, part), amountOf(paid, part)];
      if (parseEur(sold) >= parseEur(bought)) return [];
      return `${part} ${sold}, cost price ${bought}${name == null ? '' : ` (${name})`}`;
    });
  });
  return [...new Set(found)];
}

/** What units of a part cost, with or without a price of their own. */
function amountOf(prices: Prices, part: CostPart): string {
  const { instead } = PARTS[part];
  return prices.texts[part] ?? (instead === null ? '0' : amountOf(prices, instead));
}

const MINUTE_MS = 60_000;
const WEEK_MINUTES = 7 * 24 * 60;

/** The first instant from now on that is within hours, or now. */
function instantIn(hours: Rate['hours'], now: number): number {
  for (let minute = 0; hours !== null && minute <= WEEK_MINUTES; minute++)
    if (hours.holds(now + minute * MINUTE_MS)) return now + minute * MINUTE_MS;
  return now;
}
