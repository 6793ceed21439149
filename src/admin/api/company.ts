import { type Catalogue, modelState } from '../../domain/gate.ts';
import { comingPrices } from '../../domain/model.ts';
import { LIMIT_SETTINGS, PRICE_FACTOR, STRICT_CEILINGS } from '../../domain/settings/company.ts';
import { eachPrice, OFFERED_MODEL, PRICES } from '../../domain/settings/model.ts';
import * as schema from '../../domain/settings/schema.ts';
import { eachSetting, schemasOf } from '../../domain/settings/setting.ts';
import { changeCompany, createCompany, pauseCompany, resumeCompany } from '../../operations/company.ts';
import { findCompany } from '../../store/company/company.ts';
import type { ModelRow } from '../../store/company/model.ts';
import { readCompany } from '../../store/gateway/directory.ts';
import { companiesAfter, modelsAfter } from '../../store/lists/cursor.ts';
import { noun } from './frame/noun.ts';
import { type ApiOperation, getList, post } from './frame/operation.ts';
import * as resource from './frame/resources.ts';

const companies = noun({
  name: 'Company',
  path: '/companies',
  param: 'company',
  table: 'companies',
  answer: resource.company,
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
      ...eachSetting({ ...LIMIT_SETTINGS, ...STRICT_CEILINGS, ...PRICE_FACTOR }, () => 'company.limit' as const),
    },
    body: schema.changeOf(resource.newCompany),
    run: (sql, call, _owner, id) => changeCompany(sql, call, id, call.body),
  }),
  post('pauseCompany', `${companies.one}/pause`, {
    summary:
      'Pause a company: every gateway refuses its keys with 403 within a second. Its users may still sign in, read why and change its settings',
    action: 'company.pause',
    body: resource.pause,
    answer: resource.company,
    run: (sql, { params, body }) => pauseCompany(sql, params.company as string, body.reason),
  }),
  post('resumeCompany', `${companies.one}/resume`, {
    summary: 'End the pause of a company; keys that are paused themselves stay so',
    action: 'company.pause',
    answer: resource.company,
    run: (sql, { params }) => resumeCompany(sql, params.company as string),
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
];

/** A model as its company may see it: without the name that the upstream knows it by. */
function modelOf(catalogue: Catalogue, row: ModelRow): object {
  const { upstream_model: _, company_id: company, ...model } = row;
  const models = company === null ? catalogue.sharedModels : catalogue.ownModels;
  const coming = [...comingPrices(models.get(row.slug))].map(({ from, model: { prices } }) => {
    return { valid_from: new Date(from), ...eachPrice((name) => prices.texts[name]) };
  });
  return { ...model, own: company !== null, state: modelState(catalogue, row.slug, company === null), coming };
}
