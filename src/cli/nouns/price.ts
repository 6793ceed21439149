import { readDay, readPrice, readSlug, readUuid } from '../../domain/field.ts';
import { readMoment } from '../../domain/price.ts';
import { actorName } from '../../domain/text/change-text.ts';
import { takesPlace } from '../../operations/price.ts';
import { rowsOf } from '../../store/company/company.ts';
import { costPrices, setCostPrice } from '../../store/company/cost-price.ts';
import {
  datedPrice,
  noComingPrice,
  type PriceAnswer,
  type PriceRow,
  priceHistory,
  pricesOn,
  withdrawPrice,
} from '../../store/company/price.ts';
import type { Sql } from '../../store/connection/pool.ts';
import { type Command, type Context, command, optional, required } from '../frame/command.ts';
import { card, listing, zoned } from '../frame/text.ts';

/** The model that a command is about. */
export const slug = { shown: 'SLUG', meaning: 'public name of the model', read: readSlug };
const NUMBERS = ['EUR/1K IN', 'EUR/1K OUT'];

/** Prices of models with their dates, and cost prices of the operator. */
export const priceCommands: readonly Command[] = [
  command({
    name: 'model price',
    summary: 'show the present, past and coming prices of a model',
    operand: slug,
    options: {
      company: optional('--company ID', readUuid, 'what this company pays: the price of its own model, if it has one'),
      at: optional(
        '--at DATE',
        readMoment,
        'on this day of the billing time zone, or at this ISO time; default: the whole history',
      ),
    },
    notes:
      'Prices are exact, in EUR per 1000 tokens. A call costs the price of the moment in which it is admitted. Times are those of BILLING_TIMEZONE; with --json they are in UTC.',
    async run({ transact, config }, { company = null, at }, slug) {
      const zone = config.billingTimezone;
      if (at !== undefined) {
        const answers = await transact(async (sql) => known(sql, company, await pricesOn(sql, slug, company, at)));
        return { json: answers, text: showAnswers(answers, zone) };
      }
      const rows = await transact(async (sql) => known(sql, company, await priceHistory(sql, slug, company)));
      return { json: rows.map(priceJson), text: showHistory(rows, zone) };
    },
  }),
  command({
    name: 'model withdraw',
    summary: 'withdraw a price that has not begun',
    operand: slug,
    options: {
      from: required('--from DATE', readMoment, 'when it would begin, as "tollgate model price" shows it'),
      company: optional('--company ID', readUuid, "a price of this company's own model instead of the shared one"),
    },
    async run({ transact, config }, { from, company = null }, slug) {
      const price = await transact(async (sql) => {
        const { price } = await datedPrice(sql, { slug, company_id: company }, from);
        return withdrawPrice(sql, price?.id ?? noComingPrice());
      });
      return { json: priceJson(price), text: showPrice('The price is withdrawn.', price, config.billingTimezone) };
    },
  }),
  command({
    name: 'model cost',
    summary: 'set what the operator pays for a model, for "tollgate usage margin"',
    operand: slug,
    options: {
      input: required('--input-price EUR', readPrice, 'per 1000 prompt tokens'),
      output: required('--output-price EUR', readPrice, 'per 1000 completion tokens'),
      from: optional('--from DATE', readDay, 'first day, past or to come, in the billing time zone; default: today'),
      company: optional('--company ID', readUuid, "for this company's own model instead of the shared one"),
    },
    notes: 'Companies never see it.',
    async run(context, { input, output, from = null, company = null }, slug) {
      const price = { slug, company_id: company, input, output };
      const { before, since, prices } = await context.transact(async (sql) => {
        const costs = await costPrices(sql, slug);
        const { valid_from: since } = await setCostPrice(sql, price, from);
        const before = costs.find((cost) => cost.company_id === company && cost.valid_from === since) ?? null;
        return { before, since, prices: await known(sql, company, await priceHistory(sql, slug, company)) };
      });
      if (prices.every(({ company_id }) => company_id !== company)) {
        const what = company === null ? 'shared model' : 'model of the company alone';
        context.warn(`there was never a ${what} ${slug}; its cost price is kept in case one is created`);
      }
      warnOfReplaced(context, before, price);
      return { json: { ...price, valid_from: since }, text: priceCard('Cost price set.', price, since) };
    },
  }),
];

/** Says whose price a new one takes the place of, if it does. */
export function warnOfReplaced(
  { warn }: Context,
  before: Replaced | null,
  price: Parameters<typeof takesPlace>[1],
): void {
  if (before === null || !takesPlace(before, price)) return;
  warn(`it takes the place of ${before.input} and ${before.output}, set by ${actorName(before.changed_by)}`);
}

type Replaced = Readonly<Record<'input' | 'output' | 'changed_by', string>>;

/** Prices for a company. One that is gone has those of its own models. @throws RefusedChange not_found */
async function known<T extends Pick<PriceAnswer, 'company_id'>>(sql: Sql, company: string | null, prices: T[]) {
  const own = prices.filter(({ company_id }) => company_id === company);
  await rowsOf(sql, company, own);
  return prices;
}

/** A price with its members named as the columns of `model_prices`. */
export function priceJson({ slug, company_id, valid_from, input, output, changed_by, begun }: PriceRow) {
  return { slug, company_id, valid_from, input, output, changed_by, begun };
}

export function showPrice(sentence: string, price: PriceRow, zone: string): string {
  return priceCard(sentence, price, zoned(price.valid_from, zone));
}

function priceCard(
  sentence: string,
  { slug, company_id, input, output }: Pick<PriceRow, 'slug' | 'company_id' | 'input' | 'output'>,
  from: string,
): string {
  const prices = { 'EUR per 1000 in': input, 'EUR per 1000 out': output };
  return card(sentence, { slug, company: company_id ?? 'all', ...prices, from });
}

function showHistory(rows: readonly PriceRow[], zone: string): string {
  const columns = {
    FROM: ({ valid_from }: PriceRow) => zoned(valid_from, zone),
    'EUR/1K IN': ({ input }: PriceRow) => input ?? 'removed',
    'EUR/1K OUT': ({ output }: PriceRow) => output ?? 'removed',
    COMPANY: ({ company_id }: PriceRow) => company_id ?? 'all',
    STATE: ({ begun }: PriceRow) => (begun ? 'begun' : 'to come'),
    BY: ({ changed_by }: PriceRow) => actorName(changed_by),
  };
  return listing(rows, columns, 'There was never a model of this name.', NUMBERS);
}

function showAnswers(answers: readonly PriceAnswer[], zone: string): string {
  const columns = {
    AT: ({ from }: PriceAnswer) => zoned(from, zone),
    'EUR/1K IN': ({ input }: PriceAnswer) => input ?? 'no model',
    'EUR/1K OUT': ({ output }: PriceAnswer) => output ?? 'no model',
    MODEL: ({ company_id, input }: PriceAnswer) =>
      input === null ? '-' : company_id === null ? 'shared' : "the company's own",
    SINCE: ({ valid_from }: PriceAnswer) => valid_from && zoned(valid_from, zone),
  };
  return listing(answers, columns, '', NUMBERS);
}
