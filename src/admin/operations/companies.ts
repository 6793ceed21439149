import { checkCeilings } from '../../domain/ceiling.ts';
import { RefusedChange } from '../../domain/refused-change.ts';
import { companiesAfter } from '../../store/after.ts';
import {
  type CompanyChanges,
  type CompanyRow,
  createCompany,
  findCompany,
  type NewCompany,
  setCompany,
} from '../../store/company.ts';
import { leaveCompany } from '../../store/tenant-role.ts';
import { type Operation, operation, type PageQuery, pageOf, type Resource } from './operation.ts';
import * as schema from './schemas.ts';

type Change = CompanyChanges & { readonly disabled_model_slugs?: readonly string[] };

const COMPANY: Resource = {
  table: 'companies',
  param: 'company',
  find: (sql, { params }) => findCompany(sql, params.company as string),
};
const PATH = '/companies/{company}';

export const companyOperations: readonly Operation[] = [
  operation<never, PageQuery & { readonly name?: string }>({
    id: 'listCompanies',
    method: 'get',
    path: '/companies',
    summary: 'List companies, ordered by id',
    action: 'company.list',
    query: schema.listQuery({ name: schema.companySettings.name }),
    answer: schema.pageOf(schema.company),
    status: 200,
    run: (sql, { query }) => pageOf(query, (after, limit) => companiesAfter(sql, query.name ?? null, { after, limit })),
  }),
  operation<NewCompany & Change>({
    id: 'createCompany',
    method: 'post',
    path: '/companies',
    summary: 'Create a company',
    action: 'company.create',
    body: schema.object({ ...schema.companySettings, ...schema.ceilings, disabled_model_slugs: schema.disabledSlugs }, [
      'name',
    ]),
    answer: schema.company,
    status: 201,
    async run(sql, { body: { disabled_model_slugs: disable = [], ...body } }) {
      const created = await createCompany(sql, body);
      return disable.length === 0 ? created : setCompany(sql, created.id, { disable });
    },
  }),
  operation({
    id: 'getCompany',
    method: 'get',
    path: PATH,
    summary: 'Read a company',
    action: 'company.read',
    answer: schema.company,
    status: 200,
    resource: COMPANY,
    run: COMPANY.find,
  }),
  operation<Change>({
    id: 'changeCompany',
    method: 'patch',
    path: PATH,
    summary: 'Change settings of a company; members that are left out stay as they are',
    action: 'company.set',
    memberActions: {
      name: 'company.rename',
      budget_mode: 'company.limit',
      requests_per_minute: 'company.limit',
      tokens_per_minute: 'company.limit',
      max_concurrent: 'company.limit',
      credit_limit_eur: 'company.limit',
      eu_locked: 'company.limit',
    },
    body: schema.changeOf({
      ...schema.companySettings,
      ...schema.ceilings,
      disabled_model_slugs: schema.disabledSlugs,
    }),
    answer: schema.company,
    status: 200,
    resource: COMPANY,
    async run(sql, { params, body: { disabled_model_slugs: slugs, ...changes } }) {
      const id = params.company as string;
      const company = await findCompany(sql, id);
      requireBelow(company, changes);
      const enable = slugs === undefined ? [] : company.disabled_model_slugs.filter((slug) => !slugs.includes(slug));
      // the tenant role may not set ceilings, and only operators get here with them
      if (changes.credit_limit_eur !== undefined || changes.eu_locked !== undefined) await leaveCompany(sql);
      return setCompany(sql, id, { ...changes, disable: slugs, enable });
    },
  }),
];

/** Refuses settings above the ceilings, which the same change may set. @throws RefusedChange conflict */
function requireBelow(company: CompanyRow, changes: CompanyChanges): void {
  const { credit_limit_eur = company.credit_limit_eur, eu_locked = company.eu_locked } = changes;
  const { budget, nonEu } = checkCeilings({ ...company, credit_limit_eur, eu_locked }, changes);
  if (budget !== null) throw new RefusedChange('conflict', 'company', `monthly_budget_eur ${budget}.`);
  if (nonEu !== null) throw new RefusedChange('conflict', 'company', `allow_non_eu_models ${nonEu}.`);
}
