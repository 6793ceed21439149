import { readMoment } from '../../domain/price.ts';
import { RefusedChange } from '../../domain/refusal.ts';
import { PRICES } from '../../domain/settings/model.ts';
import * as schema from '../../domain/settings/schema.ts';
import { neededOf, schemasOf } from '../../domain/settings/setting.ts';
import {
  costsOf,
  removeCostPrice,
  schedulePrice,
  setCostPrice,
  withdrawPrice,
} from '../../operations/price.ts';
import { COST_PRICE } from '../../store/company/cost-price.ts';
import { findModelById, type ModelRow } from '../../store/company/model.ts';
import {
  findPrice,
  PRICE_ANSWER,
  PRICE_ROW,
  pricesOfModel,
  pricesOn,
} from '../../store/company/price.ts';
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
  find: async (sql, model, id) => findPrice(sql, await findModelById(sql, model), id),
});

export const priceOperations: readonly ApiOperation[] = [
  prices.list({
    summary:
      'The prices of a model: those to come, the present one and those before, the latest first',
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
    body: schema.object({ valid_from: schema.day, ...amounts }, neededOf(PRICES)),
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
      await removeCostPrice(sql, await modelOf(sql, call), call.params.cost as string);
    },
  }),
];

function modelOf(sql: Sql, { params }: Pick<ApiCall, 'params'>): Promise<ModelRow> {
  return findModelById(sql, params.model as string);
}
