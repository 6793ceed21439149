import { readMoment } from '../../domain/price.ts';
import { RefusedChange } from '../../domain/refusal.ts';
import { PRICES } from '../../domain/settings/model.ts';
import * as schema from '../../domain/settings/schema.ts';
import { eachSetting, neededOf, schemasOf } from '../../domain/settings/setting.ts';
import { costsOf, removeCostPrice, schedulePrice, setCostPrice, withdrawPrice } from '../../operations/price.ts';
import { findModelById, type ModelRow } from '../../store/company/model.ts';
import { findPrice, pricesOfModel, pricesOn } from '../../store/company/price.ts';
import { readPage } from '../../store/connection/cursor.ts';
import type { Sql } from '../../store/connection/pool.ts';
import { noun } from './frame/noun.ts';
import {
  type ApiCall,
  type ApiOperation,
  get,
  getList,
  goneCursor,
  pageOfAll,
  post,
  remove,
} from './frame/operation.ts';

const amounts = schemasOf(PRICES);
const orNone = eachSetting(PRICES, (each) => (each.isNullable ? each.schema : schema.orNull(each.schema)));

const price = schema.object({
  id: schema.id,
  slug: schema.slug,
  company_id: schema.orNull(schema.id),
  company_name: schema.textOrNull,
  valid_from: schema.instant,
  ...orNone,
  input: schema.described(orNone.input, 'EUR per 1000 tokens; null: from then on there was no such model'),
  changed_by: schema.string,
  created_at: schema.instant,
  begun: { type: 'boolean', description: 'false: it can be withdrawn' },
});

const costPrice = schema.object({
  id: schema.id,
  slug: schema.slug,
  company_id: schema.orNull(schema.id),
  company_name: schema.textOrNull,
  valid_from: schema.day,
  ...amounts,
  changed_by: schema.string,
});

const answered = schema.object({
  from: { ...schema.instant, description: 'since when within the day, or the instant that was asked for' },
  valid_from: { ...schema.orNull(schema.instant), description: 'when this price began; null: there was no such model' },
  company_id: {
    ...schema.orNull(schema.id),
    description: 'the company whose own model it was; null: the shared model',
  },
  ...orNone,
  factor: {
    ...schema.orNull(schema.priceFactor),
    description: 'the factor of the company, which is in these prices; null: there was no such model',
  },
});

const PATH = '/models/{model}/prices';

const COSTS = '/models/{model}/cost-prices';

const prices = noun({
  name: 'Price',
  path: PATH,
  param: 'price',
  table: 'model_prices',
  answer: price,
  reads: 'model.read',
  writes: 'model.write',
  find: async (sql, model, id) => findPrice(sql, await findModelById(sql, model), id),
});

export const priceOperations: readonly ApiOperation[] = [
  prices.list({
    summary: 'The prices of a model: those to come, the present one and those before, the latest first',
    async read(sql, call, range) {
      const model = await modelOf(sql, call);
      return readPage(range, (most) => pricesOfModel(sql, model, most)).catch((error: unknown) => {
        throw error instanceof RefusedChange ? goneCursor() : error;
      });
    },
  }),
  prices.create({
    id: 'addPrice',
    summary:
      'Let a price begin at a date, five seconds from now or later, in place of one that was to begin then. A member that is left out stays as it is before',
    body: { ...schema.object({ valid_from: schema.moment, ...amounts }, ['valid_from']), minProperties: 2 },
    async run(sql, call) {
      const { slug, company_id } = await modelOf(sql, call);
      const { valid_from, ...amounts } = call.body;
      return schedulePrice(sql, call, { slug, company_id, from: readMoment(valid_from), ...amounts });
    },
  }),
  prices.get('Read a price of a model'),
  prices.remove({
    id: 'withdrawPrice',
    summary: 'Withdraw a price that has not begun',
    async run(sql, _call, model, id) {
      await findPrice(sql, await findModelById(sql, model), id);
      await withdrawPrice(sql, id);
    },
  }),
  get('getPricesOn', `${PATH}/on`, {
    summary: 'What a model cost on a day, one answer for each part of the day, or at an instant',
    action: 'model.read',
    query: schema.object(
      {
        at: schema.moment,
        company_id: { ...schema.id, description: 'what this company paid; default: one without a model of its own' },
      },
      ['at'],
    ),
    answer: schema.object({ data: schema.array(answered) }),
    async run(sql, call) {
      const { slug, company_id: own } = await modelOf(sql, call);
      const { at, company_id = own } = call.query;
      return { data: await pricesOn(sql, slug, company_id, readMoment(at)) };
    },
  }),
  getList('listCostPrices', COSTS, {
    summary: 'What the operator pays for a model, the latest first',
    action: 'cost.read',
    row: costPrice,
    read: async (sql, call, range) => pageOfAll(range, await costsOf(sql, await modelOf(sql, call))),
  }),
  post('setCostPrice', COSTS, {
    summary:
      'Set what the operator pays for a model from a day on, past or to come; default: today. Companies never see it',
    action: 'cost.write',
    body: schema.object({ valid_from: schema.day, ...amounts }, neededOf(PRICES)),
    answer: costPrice,
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
      await removeCostPrice(sql, await modelOf(sql, call), call.params.cost as string);
    },
  }),
];

function modelOf(sql: Sql, { params }: Pick<ApiCall, 'params'>): Promise<ModelRow> {
  return findModelById(sql, params.model as string);
}
