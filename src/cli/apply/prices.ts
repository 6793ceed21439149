import { type Moment, readMoment } from '../../domain/price.ts';
import {
  NEEDED_PRICES,
  type NewPrices,
  priceTexts,
  type SomePrices,
} from '../../domain/settings/model.ts';
import {
  isSameFactor,
  schedulePriceFactor,
  withdrawPriceFactor,
} from '../../operations/company.ts';
import type { Caller } from '../../operations/frame/caller.ts';
import { costChange, type PriceChange, presentCosts, priceChange } from '../../operations/price.ts';
import type { ModelName } from '../../store/company/model.ts';
import { type DatedPrice, datedPrices } from '../../store/company/price.ts';
import { datedFactor } from '../../store/company/price-factor.ts';
import type { Sql } from '../../store/connection/pool.ts';
import { type NoteMistake, refuseTwice } from './named.ts';
import type { Removable, WantedCompany, WantedModel, WantedPrice } from './schema.ts';

/** Prices since dates, as a file wants them. A date that is over is no change: its price holds already, or from now on. */

/** An entry of a list of dates. */
type Since = Removable & { readonly valid_from: string };

const dateOf = ({ valid_from }: Since) => valid_from;

/**
 * Goes through a list of dates.
 * @param begins when each entry begins
 * @param stepOf what is to be done about an entry; null: nothing
 * @returns the last entry whose date is over, so that a file that was applied before a date means the same after it; and
 * what is to be done about the dates to come
 */
function eachDate<W extends Since, S>(
  all: readonly W[],
  begins: readonly Pick<DatedPrice, 'at' | 'passed' | 'late'>[],
  at: string,
  mistake: NoteMistake,
  stepOf: (entry: W, n: number) => S | null,
): { present: W | undefined; steps: S[] } {
  refuseTwice(mistake, all, dateOf, at, (_, n) => begins[n]?.at.getTime());
  const steps: S[] = [];
  const over: { readonly entry: W; readonly since: Date }[] = [];
  for (const [n, { at: since, passed, late }] of begins.entries()) {
    const entry = all[n] as W;
    const step = stepOf(entry, n);
    if (passed && !entry.absent) over.push({ entry, since });
    if (step === null || passed) continue;
    if (late) mistake(`${at}/${n}/valid_from`, 'is less than a minute away: give a later time');
    else steps.push(step);
  }
  const [last] = over.sort((one, other) => other.since.getTime() - one.since.getTime());
  return { present: last?.entry, steps };
}

/** Compares the dates of a model's prices with those that are there. @param callerAt the file, at an entry */
export async function wantedPrices(
  sql: Sql,
  callerAt: (at: string) => Pick<Caller, 'judge'>,
  of: ModelName,
  { prices = [], cost_prices = [] }: WantedModel,
  at: string,
  mistake: NoteMistake,
) {
  const since = prices.map(({ valid_from }) => ({ ...of, from: readMoment(valid_from) }));
  const dated = since.length === 0 ? [] : await datedPrices(sql, since);
  const { present, steps } = eachDate(prices, dated, `${at}/prices`, mistake, (price, n) => {
    const place = `${at}/prices/${n}`;
    if (!isWhole(price, place, mistake)) return null;
    const [from, now] = [since[n] as (typeof since)[number], dated[n] as DatedPrice];
    return stepOf('price', price, priceChange(sql, callerAt(place), from, now, pricesOf(price)));
  });
  const costs = cost_prices.length === 0 ? null : await presentCosts(sql, [of.slug]);
  refuseTwice(mistake, cost_prices, dateOf, `${at}/cost_prices`);
  for (const [n, price] of cost_prices.entries()) {
    const place = `${at}/cost_prices/${n}`;
    if (costs === null || !isWhole(price, place, mistake)) continue;
    const step = stepOf(
      'cost price',
      price,
      costChange(sql, callerAt(place), of, costs, price.valid_from, pricesOf(price)),
    );
    if (step !== null) steps.push(step);
  }
  return { present, steps };
}

/** Compares the dates of the factors of a company with those that are there. @param company null: it is to be created @param at of the list */
export async function wantedFactors(
  sql: Sql,
  caller: Pick<Caller, 'judge'>,
  company: string | null,
  factors: NonNullable<WantedCompany['price_factors']>,
  at: string,
  mistake: NoteMistake,
) {
  const since = factors.map(({ valid_from }) => readMoment(valid_from));
  const dated = await Promise.all(since.map((from) => datedFactor(sql, company, from)));
  return eachDate(factors, dated, at, mistake, ({ valid_from, factor, absent }, n) => {
    const from = since[n] as Moment;
    const now = dated[n]?.factor ?? null;
    const then = absent ? null : factor;
    if (then === undefined) mistake(`${at}/${n}`, 'needs factor');
    if (then === undefined || isSameFactor(now, then)) return null;
    const change = `price factor from ${valid_from}: ${now ?? 'none'} -> ${then ?? 'none'}`;
    const make = (id: string) =>
      then === null
        ? withdrawPriceFactor(sql, id, { from })
        : schedulePriceFactor(sql, caller, id, then, from);
    return { change, make };
  });
}

/** Whether a price has all that one needs; else that is noted. */
function isWhole(price: WantedPrice, at: string, mistake: NoteMistake): boolean {
  const missing = NEEDED_PRICES.filter((name) => price[name] === undefined);
  if (price.absent || missing.length === 0) return true;
  mistake(at, `needs ${missing.join(', ')}`);
  return false;
}

/** What is to be done, and as it is printed: "price from 2027-01-01: none -> 0.002 and 0.008". */
function stepOf(what: string, price: WantedPrice, found: PriceChange | null) {
  if (found === null) return null;
  const { now, make } = found;
  return {
    change: `${what} from ${price.valid_from}: ${pricesOrNone(now)} -> ${pricesOrNone(pricesOf(price))}`,
    make,
  };
}

function pricesOf({ valid_from: _, absent, ...prices }: WantedPrice): NewPrices | null {
  return absent ? null : (prices as NewPrices);
}

function pricesOrNone(prices: SomePrices | null): string {
  return prices === null ? 'none' : priceTexts(prices);
}
