import { readMoment } from '../../domain/price.ts';
import {
  modelPrices,
  NEEDED_PRICES,
  type NewPrices,
  priceTexts,
  type SomePrices,
} from '../../domain/settings/model.ts';
import type { Caller } from '../../operations/caller.ts';
import { isSameFactor, schedulePriceFactor, withdrawPriceFactor } from '../../operations/company.ts';
import { costChange, type PriceChange, presentCosts, priceChange } from '../../operations/price.ts';
import type { ModelChanges, ModelName } from '../../store/company/model.ts';
import { datedPrices } from '../../store/company/price.ts';
import { datedFactor } from '../../store/company/price-factor.ts';
import type { Sql } from '../../store/connection/pool.ts';
import { type NoteMistake, refuseTwice } from './named.ts';
import type { WantedCompany, WantedModel, WantedPrice } from './schema.ts';

/** Prices since dates, as a file wants them. A date that is over is no change: its price holds already, or from now on. */

/** What is to be done about one date. */
interface PriceStep {
  /** As it is printed: "price from 2027-01-01: none -> 0.002 and 0.008". */
  readonly change: string;
  make(): Promise<unknown>;
}

/** What a file wants of the prices of a model. */
interface WantedPrices {
  /**
   * The price now: that of the last date of `prices` that is over; empty: the one without a date. So a file that was
   * applied before a date means the same after it.
   */
  readonly present: ModelChanges;
  readonly steps: readonly PriceStep[];
}

const dateOf = ({ valid_from }: WantedPrice) => valid_from;

/** Compares the dates of a model's prices with those that are there. */
export async function wantedPrices(
  sql: Sql,
  caller: Pick<Caller, 'judge'>,
  of: ModelName,
  { prices = [], cost_prices = [] }: WantedModel,
  at: string,
  mistake: NoteMistake,
): Promise<WantedPrices> {
  const steps: PriceStep[] = [];
  const since = prices.map((price) => ({ ...of, from: readMoment(price.valid_from), price }));
  const found = since.length === 0 ? [] : await datedPrices(sql, since);
  const dates = found.map((dated, n) => ({ ...(since[n] as (typeof since)[number]), dated }));
  refuseTwice(mistake, prices, dateOf, `${at}/prices`, (_, n) => found[n]?.at.getTime());
  for (const [n, { price, from, dated }] of dates.entries()) {
    const place = `${at}/prices/${n}`;
    if (!isWhole(price, place, mistake)) continue;
    const change = priceChange(sql, caller, { ...of, from }, dated, pricesOf(price));
    if (change === null || dated.passed) continue;
    if (dated.late) mistake(`${place}/valid_from`, 'is less than a minute away: give a later time');
    else steps.push(stepOf('price', price, change));
  }
  const costs = cost_prices.length === 0 ? null : await presentCosts(sql, [of.slug]);
  refuseTwice(mistake, cost_prices, dateOf, `${at}/cost_prices`);
  for (const [n, price] of cost_prices.entries()) {
    if (costs === null || !isWhole(price, `${at}/cost_prices/${n}`, mistake)) continue;
    const change = costChange(sql, caller, of, costs, price.valid_from, pricesOf(price));
    if (change !== null) steps.push(stepOf('cost price', price, change));
  }
  const over = dates.filter(({ price, dated }) => dated.passed && !price.absent);
  const [last] = over.sort((one, other) => other.dated.at.getTime() - one.dated.at.getTime());
  return { present: last === undefined ? {} : modelPrices(last.price), steps };
}

/** What a file wants of the factors on the prices of a company. */
export interface WantedFactors {
  /** The factor now: that of the last date that is over; absent: the one without a date. */
  readonly present: { readonly price_factor?: string | undefined };
  /** What is to be done about a date. */
  readonly steps: readonly { readonly change: string; make(company: string): Promise<unknown> }[];
}

/** Compares the dates of the factors of a company with those that are there. @param company null: it is to be created */
export async function wantedFactors(
  sql: Sql,
  caller: Pick<Caller, 'judge'>,
  company: string | null,
  wanted: NonNullable<WantedCompany['price_factors']>,
  at: string,
  mistake: NoteMistake,
): Promise<WantedFactors> {
  const dates = await Promise.all(
    wanted.map(async (each) => {
      const from = readMoment(each.valid_from);
      return { ...each, from, dated: await datedFactor(sql, company, from) };
    }),
  );
  refuseTwice(
    mistake,
    wanted,
    ({ valid_from }) => valid_from,
    `${at}/price_factors`,
    (_, n) => dates[n]?.dated.at.getTime(),
  );
  const steps: WantedFactors['steps'][number][] = [];
  for (const [n, { valid_from, factor = null, absent, from, dated }] of dates.entries()) {
    const place = `${at}/price_factors/${n}`;
    const [now, then] = [dated.factor, absent ? null : factor];
    if (!absent && factor === null) mistake(place, 'needs factor');
    else if (dated.passed || isSameFactor(now, then)) continue;
    else if (dated.late) mistake(`${place}/valid_from`, 'is less than a minute away: give a later time');
    else {
      const change = `price factor from ${valid_from}: ${now ?? 'none'} -> ${then ?? 'none'}`;
      const make = (id: string) =>
        then === null ? withdrawPriceFactor(sql, id, { from }) : schedulePriceFactor(sql, caller, id, then, from);
      steps.push({ change, make });
    }
  }
  const over = dates.filter(({ dated, absent }) => dated.passed && !absent);
  const last = over.sort((one, other) => other.dated.at.getTime() - one.dated.at.getTime())[0];
  return { present: last === undefined ? {} : { price_factor: last.factor }, steps };
}

/** Whether a price has all that one needs; else that is noted. */
function isWhole(price: WantedPrice, at: string, mistake: NoteMistake): boolean {
  const missing = NEEDED_PRICES.filter((name) => price[name] === undefined);
  if (price.absent || missing.length === 0) return true;
  mistake(at, `needs ${missing.join(', ')}`);
  return false;
}

function stepOf(what: string, price: WantedPrice, { now, make }: PriceChange): PriceStep {
  return { change: `${what} from ${price.valid_from}: ${told(now)} -> ${told(pricesOf(price))}`, make };
}

function pricesOf({ valid_from: _, absent, ...prices }: WantedPrice): NewPrices | null {
  return absent ? null : (prices as NewPrices);
}

function told(prices: SomePrices | null): string {
  return prices === null ? 'none' : priceTexts(prices);
}
