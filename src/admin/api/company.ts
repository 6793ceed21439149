import type { Company } from '../../domain/company.ts';
import { modelState } from '../../domain/gate.ts';
import { comingPrices } from '../../domain/model.ts';
import { readMoment } from '../../domain/price.ts';
import { LIMIT_SETTINGS, PRICE_FACTOR, STRICT_CEILINGS } from '../../domain/settings/company.ts';
import { eachPrice, modelPrices, OFFERED_MODEL, PRICES } from '../../domain/settings/model.ts';
import * as schema from '../../domain/settings/schema.ts';
import { eachSetting, schemasOf } from '../../domain/settings/setting.ts';
import {
  changeCompany,
  createCompany,
  pauseCompany,
  previewPriceFactor,
  priceFactors,
  resumeCompany,
  schedulePriceFactor,
  withdrawPriceFactor,
} from '../../operations/company.ts';
import { COMPANY_ROW, companiesAfter, findCompany } from '../../store/company/company.ts';
import { type ModelRow, modelsAfter } from '../../store/company/model.ts';
import { DATED_FACTOR } from '../../store/company/price-factor.ts';
import { readCompany } from '../../store/gateway/directory.ts';
import { noun } from './frame/noun.ts';
import { type ApiOperation, get, getList, pageOfAll, post, remove } from './frame/operation.ts';
import * as resource from './frame/resources.ts';

const companies = noun({
  name: 'Company',
  path: '/companies',
  param: 'company',
  table: 'companies',
  answer: COMPANY_ROW,
  reads: 'company.read',
  writes: 'company.set',
  find: (sql, _owner, id) => findCompany(sql, id),
});

const model = schema.object({
  id: schema.id,
  slug: schema.slug,
  ...schemasOf(OFFERED_MODEL),
  created_at: schema.instant,
  own: { type: 'boolean', description: 'it belongs to this company alone' },
  state: schema.oneOf(
    ['available', 'disabled', 'replaced', 'blocked'],
    'disabled: by the company; replaced: by a model of its own; blocked: by the EU gate',
  ),
  coming: schema.array(
    schema.object({ valid_from: schema.instant, ...schemasOf(PRICES) }),
    'prices that begin at a date',
  ),
});

const FACTORS = `${companies.one}/price-factors`;

export const companyOperations: readonly ApiOperation[] = [
  companies.list({
    id: 'listCompanies',
    summary: 'List companies, ordered by id',
    action: 'company.list',
    filters: { name: schema.presentName },
    read: (sql, { query: { name = null } }, range) => companiesAfter(sql, name, range),
  }),
  companies.create({
    summary: 'Create a company',
    action: 'company.create',
    body: schema.object(resource.newCompany, ['name']),
    run: (sql, call) => createCompany(sql, call, call.body),
  }),
  companies.get('Read a company'),
  companies.change({
    summary: 'Change settings of a company; members that are left out stay as they are',
    memberActions: {
      name: 'company.rename',
      ...eachSetting(
        { ...LIMIT_SETTINGS, ...STRICT_CEILINGS, ...PRICE_FACTOR },
        () => 'company.limit' as const,
      ),
    },
    body: schema.changeOf(resource.newCompany),
    run: (sql, call, _owner, id) => changeCompany(sql, call, id, call.body),
  }),
  post('pauseCompany', `${companies.one}/pause`, {
    summary:
      'Pause a company: every gateway refuses its keys with 403 within a second. Its users may still sign in, read why and change its settings',
    action: 'company.pause',
    body: resource.pause,
    answer: COMPANY_ROW,
    run: (sql, { company, body }) => pauseCompany(sql, company, body.reason),
  }),
  post('resumeCompany', `${companies.one}/resume`, {
    summary: 'End the pause of a company; keys that are paused themselves stay so',
    action: 'company.pause',
    answer: COMPANY_ROW,
    run: (sql, { company }) => resumeCompany(sql, company),
  }),
  getList('listModelsOfCompany', `${companies.one}/models`, {
    summary:
      'List the models that a company has, its own and shared ones, ordered by id: what each costs and whether the API serves it',
    action: 'company.read',
    row: model,
    async read(sql, _call, range, id) {
      const catalogue = await readCompany(sql, id);
      const { rows, next } = await modelsAfter(sql, null, id, range);
      return { rows: rows.map((row) => modelOf(catalogue, row)), next };
    },
  }),
  getList('listPriceFactors', FACTORS, {
    summary:
      'The factors on the prices of a company: those to come, the present one and those before, the latest first. None: always 1',
    action: 'model.read',
    row: DATED_FACTOR,
    read: async (sql, _call, range, id) => pageOfAll(range, await priceFactors(sql, id)),
  }),
  post('addPriceFactor', FACTORS, {
    summary:
      'Let a factor on the prices of a company begin at a date, five seconds from now or later, in place of one that was to begin then',
    action: 'company.limit',
    body: schema.object({ valid_from: schema.moment, factor: schema.priceFactor }),
    answer: DATED_FACTOR,
    status: 201,
    run: (sql, call) =>
      schedulePriceFactor(
        sql,
        call,
        call.company,
        call.body.factor,
        readMoment(call.body.valid_from),
      ),
  }),
  get('previewPriceFactor', `${FACTORS}/preview`, {
    summary:
      'What the API calls of the last month would have cost a company with another factor on its prices',
    action: 'model.read',
    query: schema.object({ factor: schema.priceFactor }),
    answer: schema.object({
      month: schema.month,
      cost_eur: schema.sum,
      with_factor_eur: schema.sum,
    }),
    run: (sql, call) => previewPriceFactor(sql, call.company, call.query.factor),
  }),
  remove('withdrawPriceFactor', `${FACTORS}/{factor}`, {
    summary: 'Withdraw a price factor that has not begun',
    action: 'company.limit',
    run: (sql, { company, params }) =>
      withdrawPriceFactor(sql, company, { id: params.factor as string }),
  }),
];

/** A model as its company may see it: without the name that the upstream knows it by, at the prices that it pays. */
function modelOf(catalogue: Company, row: ModelRow): object {
  const { upstream_model: _, company_id: company, ...model } = row;
  const models = company === null ? catalogue.sharedModels : catalogue.ownModels;
  const paid = catalogue.factors === null ? undefined : models.get(row.slug)?.prices.texts;
  const coming = [...comingPrices(models.get(row.slug))].map(({ from, model: { prices } }) => {
    return { valid_from: new Date(from), ...eachPrice((name) => prices.texts[name]) };
  });
  return {
    ...model,
    ...(paid && modelPrices(paid)),
    own: company !== null,
    state: modelState(catalogue, row.slug, company === null),
    coming,
  };
}
