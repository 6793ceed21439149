import { readDay, readSlug, readUuid } from '../../domain/field.ts';
import { readMoment } from '../../domain/price.ts';
import {
  eachPrice,
  PRICED,
  PRICES,
  type PriceName,
  pricesAmong,
  type SomePrices,
} from '../../domain/settings/model.ts';
import { actorName } from '../../domain/wording/change-text.ts';
import { setCostPrice, withdrawPriceFrom } from '../../operations/price.ts';
import { rowsOf } from '../../store/company/company.ts';
import type { ModelName } from '../../store/company/model.ts';
import {
  type PriceAnswer,
  type PriceRow,
  priceHistory,
  pricesOn,
} from '../../store/company/price.ts';
import type { Sql } from '../../store/connection/pool.ts';
import { command, optional, required } from '../frame/command.ts';
import { callerOf, newOptions, ratesText, withFiles } from '../frame/setting.ts';
import { card, listing, zoned } from '../frame/text.ts';

/** The model that a command is about. */
export const slug = { shown: 'SLUG', meaning: 'public name of the model', read: readSlug };
const HEADINGS = eachPrice((_, { short }) => `EUR/1K ${short.toUpperCase()}`);
export const PRICE_HEADINGS = Object.values(HEADINGS);

/** The columns of the prices that rows have. @param none of a row without an input price */
export function priceColumns<T>(
  rows: readonly T[],
  pricesOf: (row: T) => SomePrices,
  none = 'none',
): Record<string, (row: T) => string> {
  const shown = (prices: SomePrices, name: PriceName) =>
    prices[name] ?? (prices.input === null ? none : 'none');
  const names = pricesAmong(rows.map(pricesOf));
  const cells = names.map((name) => [HEADINGS[name], (row: T) => shown(pricesOf(row), name)]);
  return {
    ...Object.fromEntries(cells),
    ...(rows.some((row) => pricesOf(row).rates != null) && {
      RATES: (row) => ratesText(pricesOf(row).rates ?? []) || '-',
    }),
  };
}

/** The lines of prices in a card. */
export function priceCells(prices: SomePrices): Record<string, string | null> {
  const names = pricesAmong([prices]);
  const cells = names.map((name) => [`EUR per 1000 ${PRICES[name].short}`, prices[name] ?? null]);
  return { ...Object.fromEntries(cells), rates: ratesText(prices.rates ?? []) || null };
}

/** Prices of models with their dates, and cost prices of the operator. */
export const priceCommands = [
  command({
    name: 'model price',
    summary: 'show the present, past and coming prices of a model',
    operand: slug,
    options: {
      company: optional(
        '--company ID',
        readUuid,
        'what this company pays: the price of its own model, if it has one; with --at times its price factor',
      ),
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
        const answers = await transact(async (sql) =>
          known(sql, company, await pricesOn(sql, slug, company, at)),
        );
        return { json: answers, text: showAnswers(answers, zone) };
      }
      const rows = await transact(async (sql) =>
        known(sql, company, await priceHistory(sql, slug, company)),
      );
      return { json: rows.map(priceJson), text: showHistory(rows, zone) };
    },
  }),
  command({
    name: 'model withdraw',
    summary: 'withdraw a price that has not begun',
    operand: slug,
    options: {
      from: required(
        '--from DATE',
        readMoment,
        'when it would begin, as "tollgate model price" shows it',
      ),
      company: optional(
        '--company ID',
        readUuid,
        "a price of this company's own model instead of the shared one",
      ),
    },
    async run({ transact, config }, { from, company: company_id = null }, slug) {
      const price = await transact((sql) => withdrawPriceFrom(sql, { slug, company_id }, from));
      return {
        json: priceJson(price),
        text: showPrice('The price is withdrawn.', price, config.billingTimezone),
      };
    },
  }),
  command({
    name: 'model cost',
    summary: 'set what the operator pays for a model, for "tollgate usage margin"',
    operand: slug,
    options: {
      ...newOptions(PRICED),
      from: optional(
        '--from DATE',
        readDay,
        'first day, past or to come, in the billing time zone; default: today',
      ),
      company: optional(
        '--company ID',
        readUuid,
        "for this company's own model instead of the shared one",
      ),
    },
    notes: 'Companies never see it.',
    async run(context, { from = null, company: company_id = null, ...prices }, slug) {
      const price = { slug, company_id, ...(await withFiles(context, prices)) };
      const caller = callerOf(context, PRICED);
      const { valid_from } = await context.transact((sql) =>
        setCostPrice(sql, caller, price, from),
      );
      return {
        json: { ...price, valid_from },
        text: priceCard('Cost price set.', price, valid_from),
      };
    },
  }),
];

/** Prices for a company. One that is gone has those of its own models. @throws Refused missing */
async function known<T extends Pick<PriceAnswer, 'company_id'>>(
  sql: Sql,
  company: string | null,
  prices: T[],
) {
  const own = prices.filter(({ company_id }) => company_id === company);
  await rowsOf(sql, company, own);
  return prices;
}

/** A price with its members named as the columns of `model_prices`. */
export function priceJson({ id: _, company_name: _name, created_at: _at, ...price }: PriceRow) {
  return price;
}

export function showPrice(sentence: string, price: PriceRow, zone: string): string {
  return priceCard(sentence, price, zoned(price.valid_from, zone));
}

function priceCard(
  sentence: string,
  { slug, company_id, ...prices }: ModelName & SomePrices,
  from: string,
): string {
  return card(sentence, { slug, company: company_id ?? 'all', ...priceCells(prices), from });
}

function showHistory(rows: readonly PriceRow[], zone: string): string {
  const columns = {
    FROM: ({ valid_from }: PriceRow) => zoned(valid_from, zone),
    ...priceColumns(rows, (row) => row, 'removed'),
    COMPANY: ({ company_id }: PriceRow) => company_id ?? 'all',
    STATE: ({ begun }: PriceRow) => (begun ? 'begun' : 'to come'),
    BY: ({ changed_by }: PriceRow) => actorName(changed_by),
  };
  return listing(rows, columns, 'There was never a model of this name.', PRICE_HEADINGS);
}

function showAnswers(answers: readonly PriceAnswer[], zone: string): string {
  const columns = {
    AT: ({ from }: PriceAnswer) => zoned(from, zone),
    ...priceColumns(answers, (row) => row, 'no model'),
    ...(answers.some(({ factor }) => factor !== null && factor !== '1') && {
      FACTOR: ({ factor }: PriceAnswer) => factor,
    }),
    MODEL: ({ company_id, input }: PriceAnswer) =>
      input === null ? '-' : company_id === null ? 'shared' : "the company's own",
    SINCE: ({ valid_from }: PriceAnswer) => valid_from && zoned(valid_from, zone),
  };
  return listing(answers, columns, '', [...PRICE_HEADINGS, 'FACTOR']);
}
