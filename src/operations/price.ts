import type { Moment } from '../domain/price.ts';
import { readMoment } from '../domain/price.ts';
import { type RateTexts, storedRates } from '../domain/pricing/rates.ts';
import { Refused, throwNotFound } from '../domain/refusal.ts';
import {
  eachPrice,
  modelPrices,
  type NewPrices,
  PRICED,
  type PriceTexts,
  pricesOf,
  priceTexts,
  type SomePrices,
} from '../domain/settings/model.ts';
import * as schema from '../domain/settings/schema.ts';
import { neededOf, schemasOf } from '../domain/settings/setting.ts';
import { actorName } from '../domain/wording/change-text.ts';
import { findCompany } from '../store/company/company.ts';
import {
  COST_PRICE,
  type CostPriceRow,
  costPrices,
  deleteCostPrice,
  insertCostPrice,
} from '../store/company/cost-price.ts';
import {
  findModel,
  findModelById,
  lockModel,
  type ModelChanges,
  type ModelName,
  type ModelRow,
} from '../store/company/model.ts';
import {
  type DatedPrice,
  datedPrice,
  deletePrice,
  findPrice,
  insertPrice,
  type NewPrice,
  noComingPrice,
  PRICE_ANSWER,
  PRICE_ROW,
  type PriceRow,
  priceBefore,
  priceHistory,
  pricesOfModel,
  pricesOn,
  deletePrice as withdrawPrice,
} from '../store/company/price.ts';
import { readPage } from '../store/connection/cursor.ts';
import { TODAY } from '../store/connection/expressions.ts';
import type { Sql } from '../store/connection/pool.ts';
import type { Caller } from './frame/caller.ts';
import { noun } from './frame/noun.ts';
import { type Mistake, type PresentPrices, type PricePreview, refuse } from './frame/refused.ts';
import {
  type Call,
  get,
  getList,
  goneCursor,
  type Operation,
  pageOfAll,
  post,
  remove,
} from './frame/row.ts';
import { type Asked, changeModel } from './model.ts';
import { newPrice, PRICE_PREVIEW, previewPrice } from './price-preview.ts';
import { isSamePrice, wrongRates } from './rate.ts';

/** The prices of one model: since when, and from when on. What has begun is never changed. */

/**
 * Lets a price begin at a date, in place of one that was to begin then.
 * @throws Refused when it cannot begin then, or there is no such model
 */
export async function schedulePrice(sql: Sql, caller: Asked, price: NewPrice): Promise<PriceRow> {
  const { passed } = await datedPrice(sql, price, price.from);
  const held = passed ? null : await priceBefore(sql, price, price.from);
  if (held !== null) caller.judge(await newPrice(sql, caller, price, price, held)); // before anything is locked
  await lockModel(sql, price); // or of two people who set a price for the same time the second would not learn of the first
  const { price: present } = await datedPrice(sql, price, price.from);
  const wrong = wrongRates(await priceBefore(sql, price, price.from), price, Date.now());
  caller.judge(wrong);
  const { slug, company_id, from } = price;
  const { rates } = price;
  const row = await insertPrice(
    sql,
    wrong.length > 0 // the caller collects mistakes, and takes everything back
      ? { slug, company_id, from }
      : { ...price, rates: rates === undefined ? rates : storedRates(rates) },
  );
  caller.judge(takesPlace(present, row));
  return row;
}

/**
 * Sets prices and rates of a model. What is left out stays as it is, but that rates are said where prices change.
 * @param rates null: none
 * @param from null: from now on
 * @throws Refused as `changeModel` and `schedulePrice`
 */
export function setPrices(
  sql: Sql,
  caller: Asked,
  model: ModelName,
  prices: Omit<SomePrices, 'rates'>,
  rates: readonly RateTexts[] | null | undefined,
  from: Moment | null,
): Promise<ModelRow | PriceRow> {
  const { slug, company_id } = model;
  return from === null
    ? changeModel(sql, caller, { slug, company_id }, {
        ...modelPrices(prices),
        rates,
      } as ModelChanges)
    : schedulePrice(sql, caller, { ...prices, slug, company_id, rates, from });
}

/** What the last month would have cost at another price of a model than the present one. @throws Refused missing, or as `wrongRates` */
export async function triedPrice(
  sql: Sql,
  name: ModelName,
  wanted: SomePrices,
): Promise<PricePreview> {
  const model = await findModel(sql, name);
  const present = { ...pricesOf(model), rates: model.rates };
  refuse(wrongRates(present, wanted, Date.now()));
  return previewPrice(sql, name, wanted, present);
}

/** Withdraws a price that has not begun. */
export { withdrawPrice };

/** Withdraws the price that would begin at a date. @throws as `deletePrice` */
export async function withdrawPriceFrom(
  sql: Sql,
  model: ModelName,
  from: Moment,
): Promise<PriceRow> {
  const { price } = await datedPrice(sql, model, from);
  return deletePrice(sql, price?.id ?? noComingPrice());
}

/**
 * Sets what the operator pays for a model from a day on, past or to come, in place of what was set for that day.
 * @param day null: today in the billing time zone
 * @throws Refused missing for a company that is not known
 */
export async function setCostPrice(
  sql: Sql,
  caller: Pick<Caller, 'judge'>,
  price: ModelName & NewPrices,
  day: string | null,
): Promise<CostPriceRow> {
  await lockModel(sql, price);
  const { costs, today } = await presentCosts(sql, [price.slug]);
  const before = costs.filter(({ company_id: own }) => own === price.company_id);
  const held = before.find(({ valid_from }) => valid_from <= (day ?? today)) ?? null;
  const whole = { ...eachPrice((name) => price[name] ?? null), rates: price.rates };
  const wrong = wrongRates(held, whole, Date.now());
  caller.judge(wrong);
  const rates = wrong.length > 0 ? null : price.rates === undefined ? held?.rates : price.rates;
  const row = await insertCostPrice(sql, { ...price, rates: storedRates(rates) }, day);
  const present = before.find(({ valid_from }) => valid_from === row.valid_from) ?? null;
  caller.judge([...(await neverThere(sql, price)), ...takesPlace(present, row)]);
  return row;
}

/** Removes a cost price of a model. @throws Refused missing */
export async function removeCostPrice(sql: Sql, model: ModelName, id: string): Promise<void> {
  if (!(await costsOf(sql, model)).some((cost) => cost.id === id)) {
    throwNotFound('price', 'There is no such cost price.');
  }
  await deleteCostPrice(sql, id);
}

/** The cost prices of one model, the latest first. Each was set by hand, so they are few. */
export async function costsOf(
  sql: Sql,
  { slug, company_id: own }: ModelName,
): Promise<CostPriceRow[]> {
  return (await costPrices(sql, [slug])).filter(({ company_id }) => company_id === own);
}

/**
 * The rule of a price that takes the place of another one for the same time. A page asks first, and a command says whose
 * it was; a file prints both, and administration over HTTP means it.
 * @param present null: there is none
 */
export function takesPlace(
  present: (SomePrices & { readonly changed_by: string }) | null,
  mine: SomePrices,
): Mistake[] {
  if (present === null || isSamePrice(present, mine)) return [];
  const by = actorName(present.changed_by);
  const asked: PresentPrices = { present, mine, by };
  const passed = `it takes the place of ${priceTexts(present)}, set by ${by}`;
  return [
    { pointer: '#/valid_from', detail: 'has a price already', severity: 'ask', passed, asked },
  ];
}

/** A price that a file wants, where there is another one or none. */
export interface PriceChange {
  readonly now: PriceTexts | null;
  make(): Promise<unknown>;
}

/**
 * What a price of a model since a moment changes.
 * @param dated the price that begins then
 * @param wanted null: none is to begin then; a price that it leaves out stays as it is
 * @returns null: it is so already
 */
export function priceChange(
  sql: Sql,
  caller: Pick<Caller, 'judge'>,
  since: ModelName & { readonly from: Moment },
  { price: now }: Pick<DatedPrice, 'price'>,
  wanted: NewPrices | null,
): PriceChange | null {
  if (isSame(now, wanted)) return null;
  if (wanted === null) return { now, make: () => deletePrice(sql, now?.id as string) };
  return { now, make: () => schedulePrice(sql, caller, { ...since, ...wanted }) };
}

export type PresentCosts = Awaited<ReturnType<typeof presentCosts>>;

/** The cost prices of slugs, the latest first, and today in the billing time zone. */
export async function presentCosts(sql: Sql, slugs: readonly string[]) {
  const [{ today }] = await sql<[{ today: string }]>`select (${sql.unsafe(TODAY)})::text as today`;
  return { costs: await costPrices(sql, slugs), today };
}

/** As `priceChange`, of a cost price. @param day null: that of today, which may have begun before */
export function costChange(
  sql: Sql,
  caller: Pick<Caller, 'judge'>,
  model: ModelName,
  { costs, today }: PresentCosts,
  day: string | null,
  wanted: NewPrices | null,
): PriceChange | null {
  const { slug, company_id: own } = model;
  const isThen = (begin: string) => (day === null ? begin <= today : begin === day);
  const now =
    costs.find(
      (cost) => cost.slug === slug && cost.company_id === own && isThen(cost.valid_from),
    ) ?? null;
  if (isSame(now, wanted)) return null;
  if (wanted === null) return { now, make: () => removeCostPrice(sql, model, now?.id as string) };
  const prices = eachPrice((name) =>
    wanted[name] === undefined ? (now?.[name] ?? null) : wanted[name],
  );
  const whole = { ...prices, rates: wanted.rates } as NewPrices;
  return { now, make: () => setCostPrice(sql, caller, { ...model, ...whole }, day) };
}

/** Whether nothing is to change. @param wanted what it leaves out stays as it is */
function isSame(now: SomePrices | null, wanted: SomePrices | null): boolean {
  return now === null || wanted === null ? now === wanted : isSamePrice(now, wanted);
}

/** The rule of a cost price of a model that there never was: a command warns of it. */
async function neverThere(sql: Sql, { slug, company_id: company }: ModelName): Promise<Mistake[]> {
  const history = await priceHistory(sql, slug, company);
  if (history.some(({ company_id }) => company_id === company)) return [];
  if (company !== null) await findCompany(sql, company);
  const what = company === null ? 'shared model' : 'model of the company alone';
  const passed = `there was never a ${what} ${slug}; its cost price is kept in case one is created`;
  return [{ pointer: '#/slug', detail: 'names no model', severity: 'ask', passed }];
}

const amounts = schemasOf(PRICED);

const PATH = '/models/{model}/prices';

const COSTS = '/models/{model}/cost-prices';

const prices = noun({
  name: 'Price',
  path: PATH,
  param: 'price',
  table: 'model_prices',
  answer: PRICE_ROW,
  reads: 'model.read',
  writes: 'model.write',
  find: async (sql, call) => findPrice(sql, await modelOf(sql, call), call.id),
});

export const priceOperations: readonly Operation[] = [
  prices.list({
    summary:
      'The prices of a model: those to come, the present one and those before, the latest first',
    async read(sql, call, range) {
      const model = await modelOf(sql, call);
      return readPage(range, (most) => pricesOfModel(sql, model, most)).catch((error: unknown) => {
        throw error instanceof Refused ? goneCursor() : error;
      });
    },
  }),
  prices.create({
    id: 'addPrice',
    summary:
      'Let a price begin at a date, five seconds from now or later, in place of one that was to begin then. A member that is left out stays as it is before',
    body: {
      ...schema.object({ valid_from: schema.moment, ...amounts }, ['valid_from']),
      minProperties: 2,
    },
    async run(sql, call) {
      const { slug, company_id } = await modelOf(sql, call);
      const { valid_from, ...amounts } = call.body;
      return schedulePrice(sql, call, {
        slug,
        company_id,
        from: readMoment(valid_from),
        ...amounts,
      });
    },
  }),
  post('previewPrice', `${PATH}/preview`, {
    summary:
      'What the API calls of the last month would have cost at another price, in all and by company. A member that is left out is as it is now',
    action: 'model.read',
    isReading: true,
    isLong: true,
    body: { ...schema.object(amounts, []), minProperties: 1 },
    answer: PRICE_PREVIEW,
    async run(sql, call) {
      const model = await modelOf(sql, call);
      return triedPrice(sql, model, call.body);
    },
  }),
  prices.get('Read a price of a model'),
  prices.remove({
    id: 'withdrawPrice',
    summary: 'Withdraw a price that has not begun',
    async run(sql, call) {
      await findPrice(sql, await modelOf(sql, call), call.id);
      await withdrawPrice(sql, call.id);
    },
  }),
  get('getPricesOn', `${PATH}/on`, {
    summary: 'What a model cost on a day, one answer for each part of the day, or at an instant',
    action: 'model.read',
    query: schema.object(
      {
        at: schema.moment,
        company_id: {
          ...schema.id,
          description: 'what this company paid; default: one without a model of its own',
        },
      },
      ['at'],
    ),
    answer: schema.object({ data: schema.array(PRICE_ANSWER) }),
    async run(sql, call) {
      const { slug, company_id: own } = await modelOf(sql, call);
      const { at, company_id = own } = call.query;
      return { data: await pricesOn(sql, slug, company_id, readMoment(at)) };
    },
  }),
  getList('listCostPrices', COSTS, {
    summary: 'What the operator pays for a model, the latest first',
    action: 'cost.read',
    row: COST_PRICE,
    read: async (sql, call, range) =>
      pageOfAll(range, await costsOf(sql, await modelOf(sql, call))),
  }),
  post('setCostPrice', COSTS, {
    summary:
      'Set what the operator pays for a model from a day on, past or to come; default: today. Companies never see it',
    action: 'cost.write',
    body: schema.object({ valid_from: schema.day, ...amounts }, neededOf(PRICED)),
    answer: COST_PRICE,
    status: 201,
    async run(sql, call) {
      const { slug, company_id } = await modelOf(sql, call);
      const { valid_from = null, ...amounts } = call.body;
      return setCostPrice(sql, call, { slug, company_id, ...amounts }, valid_from);
    },
  }),
  remove('removeCostPrice', `${COSTS}/{cost}`, {
    summary: 'Remove a cost price: the margin of its days is then computed with the one before it',
    action: 'cost.write',
    async run(sql, call) {
      await removeCostPrice(sql, await modelOf(sql, call), call.id);
    },
  }),
];

function modelOf(sql: Sql, { params }: Pick<Call, 'params'>): Promise<ModelRow> {
  return findModelById(sql, params.model as string);
}
