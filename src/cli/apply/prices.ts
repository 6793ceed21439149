import { FieldError } from '../../domain/field.ts';
import { readMoment } from '../../domain/price.ts';
import { costPrices, removeCostPrice, setCostPrice } from '../../store/company/cost-price.ts';
import { datedPrice, schedulePrice, withdrawPrice } from '../../store/company/price.ts';
import type { Sql } from '../../store/connection/pool.ts';
import { differences } from './difference.ts';
import { type NoteMistake, refuseTwice } from './named.ts';
import type { WantedModel, WantedPrice } from './wanted.ts';

/** Prices since dates, as a file wants them. A date that is over is no change: its price holds already, or from now on. */

/** The model that prices belong to. */
interface Owner {
  readonly slug: string;
  readonly company_id: string | null;
}

/** What is to be done about one date. */
interface PriceStep {
  /** As it is printed: "price from 2027-01-01: none -> 0.002 and 0.008". */
  readonly change: string;
  run(): Promise<unknown>;
}

/**
 * The price that a file wants now: that of the last date of `prices` that is over, or else the one without a date. So
 * a file that was applied before a date means the same after it.
 */
export async function presentPrice(
  sql: Sql,
  owner: Owner,
  { prices = [], cost_eur_per_1k_input, cost_eur_per_1k_output }: WantedModel,
): Promise<Pick<WantedModel, 'cost_eur_per_1k_input' | 'cost_eur_per_1k_output'>> {
  let last: { readonly at: Date; readonly price: WantedPrice } | null = null;
  for (const price of prices) {
    const { at, passed } = await datedPrice(sql, owner, readMoment(price.valid_from));
    if (passed && !price.absent && (last === null || at > last.at)) last = { at, price };
  }
  if (last === null) return { cost_eur_per_1k_input, cost_eur_per_1k_output };
  return { cost_eur_per_1k_input: last.price.input, cost_eur_per_1k_output: last.price.output };
}

/** The instant when a price begins: a file may write it in several ways. */
async function startOf(sql: Sql, owner: Owner, { valid_from }: WantedPrice): Promise<string> {
  return (await datedPrice(sql, owner, readMoment(valid_from))).at.toISOString();
}

/** What the dates of a model's prices change. */
export async function priceSteps(
  sql: Sql,
  of: Owner,
  { prices = [], cost_prices = [] }: WantedModel,
  at: string,
  mistake: NoteMistake,
): Promise<PriceStep[]> {
  const steps: PriceStep[] = [];
  for (const [member, all, stepOf] of [
    ['prices', prices, priceStep],
    ['cost_prices', cost_prices, costStep],
  ] as const) {
    const starts = new Map<WantedPrice, string>();
    for (const price of all) starts.set(price, await startOf(sql, of, price));
    refuseTwice(
      mistake,
      all,
      ({ valid_from }) => valid_from,
      `${at}/${member}`,
      (price) => starts.get(price),
    );
    for (const [n, price] of all.entries()) {
      const place = `${at}/${member}/${n}`;
      const missing = (['input', 'output'] as const).filter((name) => price[name] === undefined);
      if (!price.absent && missing.length > 0) {
        mistake(place, `needs ${missing.join(', ')}`);
        continue;
      }
      try {
        const step = await stepOf(sql, of, price);
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
async function priceStep(
  sql: Sql,
  owner: Owner,
  { valid_from, absent, input, output }: WantedPrice,
): Promise<PriceStep | null> {
  const from = readMoment(valid_from);
  const { passed, late, price } = await datedPrice(sql, owner, from);
  if (passed || isSame(price, absent ? null : { input, output })) return null;
  if (late) throw new FieldError('is less than a minute away: give a later time');
  const change = `price from ${valid_from}: ${told(price)} -> ${told({ input, output })}`;
  if (!absent) return { change, run: () => schedulePrice(sql, { ...owner, input, output, from }) };
  return { change, run: () => withdrawPrice(sql, price?.id as string) };
}

/** @returns what a cost price of the file changes; null: nothing */
async function costStep(
  sql: Sql,
  owner: Owner,
  { valid_from, absent, input, output }: WantedPrice,
): Promise<PriceStep | null> {
  const all = await costPrices(sql, owner.slug);
  const now = all.find((cost) => cost.company_id === owner.company_id && cost.valid_from === valid_from) ?? null;
  if (isSame(now, absent ? null : { input, output })) return null;
  const change = `cost price from ${valid_from}: ${told(now)} -> ${told({ input, output })}`;
  if (absent) return { change, run: () => removeCostPrice(sql, now?.id as string) };
  return {
    change,
    run: () => setCostPrice(sql, { ...owner, input: input as string, output: output as string }, valid_from),
  };
}

/** Null, or without amounts: there is none. */
type Amounts = { readonly input?: string | null | undefined; readonly output?: string | null | undefined } | null;

function isSame(now: Amounts, wanted: Amounts): boolean {
  if (now === null || wanted === null) return now === wanted;
  const { input, output } = wanted;
  return differences(now, { input, output }).length === 0;
}

function told(amounts: Amounts): string {
  return amounts?.input == null ? 'none' : `${amounts.input} and ${amounts.output}`;
}
