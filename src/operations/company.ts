import { checkCeilings } from '../domain/ceiling.ts';
import { type Catalogue, modelState } from '../domain/gate.ts';
import { eachLimit } from '../domain/limits.ts';
import {
  type CompanyChanges,
  type CompanyRow,
  createCompany,
  findCompany,
  type NewCompany,
  setCompany,
} from '../store/company/company.ts';
import { lockRow } from '../store/company/last-change.ts';
import type { ModelRow } from '../store/company/model.ts';
import type { Sql } from '../store/connection/pool.ts';
import { leaveCompany } from '../store/connection/tenant-role.ts';
import { readCompany } from '../store/gateway/directory.ts';
import { companiesAfter, companiesThatFit, modelsAfter } from '../store/users/cursor-lists.ts';
import { unknownModels } from './model.ts';
import { get, getOne, type Operation, type PageQuery, pageOf, patch, post, type Resource } from './operation.ts';
import { type Mistake, refuse } from './problem.ts';
import * as schema from './schemas.ts';

type Change = CompanyChanges & { readonly disabled_model_slugs?: readonly string[] };
/** The settings of a company that is created, and the models that it may not use. */
export type CompanySettings = NewCompany & Change;

const COMPANY: Resource = {
  table: 'companies',
  param: 'company',
  find: (sql, { params }) => findCompany(sql, params.company as string),
};
const DISABLED = 'disabled_model_slugs';
/** Settings and ceilings of a company that has none yet. */
const NEW = { monthly_budget_eur: null, allow_non_eu_models: false, credit_limit_eur: null, eu_locked: false };
const PATH = '/companies/{company}';
const { upstream_model: _, ...shown } = schema.modelSettings;
const model = schema.object({
  id: schema.id,
  slug: schema.slug,
  ...shown,
  created_at: schema.instant,
  own: { type: 'boolean', description: 'it belongs to this company alone' },
  state: schema.oneOf(
    ['available', 'disabled', 'replaced', 'blocked'],
    'disabled: by the company; replaced: by a model of its own; blocked: by the EU gate',
  ),
  coming: schema.array(
    schema.object({ valid_from: schema.instant, input: schema.price, output: schema.price }),
    'prices that begin at a date',
  ),
});

export const companyOperations: readonly Operation[] = [
  get<PageQuery & { readonly name?: string }>('listCompanies', '/companies', {
    summary: 'List companies, ordered by id',
    action: 'company.list',
    query: schema.listQuery({ name: schema.presentName }),
    answer: schema.pageOf(schema.company),
    run(sql, { query }) {
      const name = query.name ?? null;
      return pageOf(
        query,
        (range) => companiesAfter(sql, name, range),
        (range) => companiesThatFit(sql, name, range),
      );
    },
  }),
  post<CompanySettings>('createCompany', '/companies', {
    summary: 'Create a company',
    action: 'company.create',
    body: schema.object(schema.newCompany, ['name']),
    answer: schema.company,
    status: 201,
    async run(sql, { body }) {
      const { company, mistakes } = await createWithModels(sql, body);
      refuse(mistakes);
      return company;
    },
  }),
  getOne('getCompany', PATH, COMPANY, { summary: 'Read a company', action: 'company.read', answer: schema.company }),
  patch<Change>('changeCompany', PATH, {
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
      ...schema.companySettings,
      ...schema.ceilings,
      disabled_model_slugs: schema.disabledSlugs,
    }),
    answer: schema.company,
    resource: COMPANY,
    async run(sql, { params, body: { disabled_model_slugs: slugs, ...changes } }) {
      const id = params.company as string;
      await lockRow(sql, COMPANY.table, id); // or two changes at once would add up their lists of slugs
      const company = await findCompany(sql, id);
      refuse([
        ...aboveCeilings(company, changes),
        ...(await unknownModels(sql, id, DISABLED, slugs, company.disabled_model_slugs)),
      ]);
      const enable = slugs === undefined ? [] : company.disabled_model_slugs.filter((slug) => !slugs.includes(slug));
      // the tenant role may not set ceilings, and only operators get here with them
      if (changes.credit_limit_eur !== undefined || changes.eu_locked !== undefined) await leaveCompany(sql);
      return setCompany(sql, id, { ...changes, disable: slugs, enable });
    },
  }),
  get<PageQuery>('listModelsOfCompany', `${PATH}/models`, {
    summary:
      'List the models that a company has, its own and shared ones, ordered by id: what each costs and whether the API serves it',
    action: 'company.read',
    query: schema.listQuery(),
    answer: schema.pageOf(model),
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

/**
 * Creates a company, in a transaction that has to be rolled back where there are mistakes.
 * @returns what the rules of a company have against its settings, all of it
 */
export async function createWithModels(
  sql: Sql,
  { disabled_model_slugs: disable = [], ...settings }: CompanySettings,
): Promise<{ readonly company: CompanyRow; readonly mistakes: readonly Mistake[] }> {
  const created = await createCompany(sql, settings);
  const mistakes = [...aboveCeilings(null, settings), ...(await unknownModels(sql, created.id, DISABLED, disable))];
  return { company: disable.length === 0 ? created : await setCompany(sql, created.id, { disable }), mistakes };
}

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

/**
 * The rule of settings that have a ceiling, which the same change may set. A page, a file that changes a company and
 * administration over HTTP refuse what is above it; a command warns, and so a file may create what another deployment
 * has: the ceiling holds.
 * @param company null: it is created
 */
export function aboveCeilings(company: CompanyRow | null, changes: CompanyChanges): Mistake[] {
  const present = company ?? NEW;
  const { credit_limit_eur = present.credit_limit_eur, eu_locked = present.eu_locked } = changes;
  const { budget, nonEu } = checkCeilings({ ...present, credit_limit_eur, eu_locked }, changes);
  return [
    ...(budget === null ? [] : [{ pointer: '#/monthly_budget_eur', detail: budget.text }]),
    ...(nonEu === null ? [] : [{ pointer: '#/allow_non_eu_models', detail: nonEu.text }]),
  ];
}
