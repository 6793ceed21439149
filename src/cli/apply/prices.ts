import { FieldError } from '../../domain/field.ts';
import { readMoment } from '../../domain/price.ts';
import {
  modelPrices,
  NEEDED_PRICES,
  type NewPrices,
  priceTexts,
  type SomePrices,
} from '../../domain/settings/model.ts';
import type { Caller } from '../../operations/caller.ts';
import { costChange, type PriceChange, priceChange } from '../../operations/price.ts';
import type { ModelChanges, ModelName } from '../../store/company/model.ts';
import { datedPrice } from '../../store/company/price.ts';
import type { Sql } from '../../store/connection/pool.ts';
import { type NoteMistake, refuseTwice } from './named.ts';
import type { WantedModel, WantedPrice } from './schema.ts';

/** Prices since dates, as a file wants them. A date that is over is no change: its price holds already, or from now on. */

/** What is to be done about one date. */
interface PriceStep {
  /** As it is printed: "price from 2027-01-01: none -> 0.002 and 0.008". */
  readonly change: string;
  make(): Promise<unknown>;
}

/**
 * The price that a file wants now: that of the last date of `prices` that is over, or else the one without a date. So
 * a file that was applied before a date means the same after it.
 */
export async function presentPrice(sql: Sql, owner: ModelName, { prices = [] }: WantedModel): Promise<ModelChanges> {
  let last: { readonly at: Date; readonly price: WantedPrice } | null = null;
  for (const price of prices) {
    const { at, passed } = await datedPrice(sql, owner, readMoment(price.valid_from));
    if (passed && !price.absent && (last === null || at > last.at)) last = { at, price };
  }
  return last === null ? {} : modelPrices(last.price);
}

/** The instant when a price begins: a file may write it in several ways. */
async function startOf(sql: Sql, owner: ModelName, { valid_from }: WantedPrice): Promise<string> {
  return (await datedPrice(sql, owner, readMoment(valid_from))).at.toISOString();
}

const dateOf = ({ valid_from }: WantedPrice) => valid_from;

/** What the dates of a model's prices change. */
export async function priceSteps(
  sql: Sql,
  caller: Judging,
  of: ModelName,
  { prices = [], cost_prices = [] }: WantedModel,
  at: string,
  mistake: NoteMistake,
): Promise<PriceStep[]> {
  const steps: PriceStep[] = [];
  for (const [member, all, stepFor] of [
    ['prices', prices, priceStep],
    ['cost_prices', cost_prices, costStep],
  ] as const) {
    const starts = new Map<WantedPrice, string>();
    for (const price of all) starts.set(price, await startOf(sql, of, price));
    refuseTwice(mistake, all, dateOf, `${at}/${member}`, (price) => starts.get(price));
    for (const [n, price] of all.entries()) {
      const place = `${at}/${member}/${n}`;
      const missing = NEEDED_PRICES.filter((name) => price[name] === undefined);
      if (!price.absent && missing.length > 0) {
        mistake(place, `needs ${missing.join(', ')}`);
        continue;
      }
      try {
        const step = await stepFor(sql, caller, of, price);
        if (step !== null) steps.push(step);
      } catch (error) {
        if (!(error instanceof FieldError)) throw error;
        mistake(`${place}/valid_from`, error.message);
      }
    }
  }
  return steps;
}

/** @returns what a price of the file changes; null: nothing @throws FieldError when it cannot begin any more */
async function priceStep(sql: Sql, caller: Judging, owner: ModelName, price: WantedPrice): Promise<PriceStep | null> {
  const change = await priceChange(sql, caller, owner, readMoment(price.valid_from), pricesOf(price));
  if (change === null || change.passed) return null;
  if (change.late) throw new FieldError('is less than a minute away: give a later time');
  return stepOf('price', price, change);
}

/** @returns what a cost price of the file changes; null: nothing */
async function costStep(sql: Sql, caller: Judging, owner: ModelName, price: WantedPrice): Promise<PriceStep | null> {
  const change = await costChange(sql, caller, owner, price.valid_from, pricesOf(price));
  return change && stepOf('cost price', price, change);
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

type Judging = Pick<Caller, 'judge'>;
