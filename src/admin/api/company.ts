import { type Catalogue, modelState } from '../../domain/gate.ts';
import { eachLimit } from '../../domain/limits.ts';
import { OFFERED_MODEL, PRICES } from '../../domain/settings/model.ts';
import * as schema from '../../domain/settings/schema.ts';
import { schemasOf } from '../../domain/settings/setting.ts';
import { changeCompany, createCompany } from '../../operations/company.ts';
import { findCompany } from '../../store/company/company.ts';
import type { ModelRow } from '../../store/company/model.ts';
import { readCompany } from '../../store/gateway/directory.ts';
import { companiesAfter, companiesThatFit, modelsAfter } from '../../store/lists/cursor.ts';
import { type ApiOperation, get, getOne, pageOf, patch, post, type Resource } from './frame/operation.ts';
import * as resource from './frame/resources.ts';

const COMPANY: Resource = {
  table: 'companies',
  param: 'company',
  find: (sql, { params }) => findCompany(sql, params.company as string),
};

const PATH = '/companies/{company}';

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
  get('listCompanies', '/companies', {
    summary: 'List companies, ordered by id',
    action: 'company.list',
    query: resource.listQuery({ name: schema.presentName }),
    answer: resource.pageOf(resource.company),
    run(sql, { query }) {
      const name = query.name ?? null;
      return pageOf(
        query,
        (range) => companiesAfter(sql, name, range),
        (range) => companiesThatFit(sql, name, range),
      );
    },
  }),
  post('createCompany', '/companies', {
    summary: 'Create a company',
    action: 'company.create',
    body: schema.object(resource.newCompany, ['name']),
    answer: resource.company,
    status: 201,
    run: (sql, call) => createCompany(sql, call, call.body),
  }),
  getOne('getCompany', PATH, COMPANY, { summary: 'Read a company', action: 'company.read', answer: resource.company }),
  patch('changeCompany', PATH, {
    summary: 'Change settings of a company; members that are left out stay as they are',
    action: 'company.set',
    memberActions: {
      name: 'company.rename',
      budget_mode: 'company.limit',
      ...eachLimit(() => 'company.limit' as const),
      credit_limit_eur: 'company.limit',
      eu_locked: 'company.limit',
    },
    body: schema.changeOf({
      ...resource.companySettings,
      ...resource.ceilings,
      disabled_model_slugs: resource.disabledSlugs,
    }),
    answer: resource.company,
    resource: COMPANY,
    run: (sql, call) => changeCompany(sql, call, call.params.company as string, call.body),
  }),
  get('listModelsOfCompany', `${PATH}/models`, {
    summary:
      'List the models that a company has, its own and shared ones, ordered by id: what each costs and whether the API serves it',
    action: 'company.read',
    query: resource.listQuery(),
    answer: resource.pageOf(model),
    async run(sql, { params, query }) {
      const id = params.company as string;
      const catalogue = await readCompany(sql, id);
      const { data, next_cursor } = await pageOf(query, (range) =>
        modelsAfter(sql, { slug: null, company: id }, range),
      );
      return { data: data.map((row) => modelOf(catalogue, row)), next_cursor };
    },
  }),
];

/** A model as its company may see it: without the name that the upstream knows it by. */
function modelOf(catalogue: Catalogue, row: ModelRow): object {
  const { upstream_model: _, company_id: company, ...model } = row;
  const models = company === null ? catalogue.sharedModels : catalogue.ownModels;
  const coming: object[] = [];
  for (let next = models.get(row.slug)?.next; next != null; next = next.model.next) {
    const { inputText: input, outputText: output } = next.model.prices;
    coming.push({ valid_from: new Date(next.from), input, output });
  }
  return { ...model, own: company !== null, state: modelState(catalogue, row.slug, company === null), coming };
}
