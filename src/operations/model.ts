import { refusal } from '../domain/input/refusal.ts';
import {
  createModel,
  findModelById,
  type ModelChanges,
  type NewModel,
  removeModel,
  setModel,
  unknownSlugs,
} from '../store/company/model.ts';
import type { Sql } from '../store/connection/pool.ts';
import { modelsAfter } from '../store/users/cursor-lists.ts';
import type { Operation, PageQuery, Resource } from './operation.ts';
import { get, getOne, pageOf, patch, post, remove } from './operation.ts';
import type { Mistake } from './problem.ts';
import * as schema from './schemas.ts';

/** A slug that names no model of its company. */
export interface UnknownModel extends Mistake {
  readonly slug: string;
}

/**
 * The rule of every setting that names models: a company's disabled ones, a key's, an assistant's. A slug has to be
 * that of a model of the company, but for those that were there before: their model may have been removed. Pages, files
 * and administration over HTTP refuse others; a command warns, because its operator may create the model afterwards.
 * @param member of the change
 * @param wanted what it is to be: a slug, or a list of them
 * @param before what it is
 */
export async function unknownModels(
  sql: Sql,
  company: string,
  member: string,
  wanted: Slugs,
  before: Slugs = null,
): Promise<UnknownModel[]> {
  const slugs = [wanted ?? []].flat();
  const kept = new Set([before ?? []].flat());
  const added = slugs.filter((slug) => !kept.has(slug));
  if (added.length === 0) return [];
  const unknown = await unknownSlugs(sql, company, added);
  return unknown.map((slug) => ({
    slug,
    pointer: `#/${member}${Array.isArray(wanted) ? `/${slugs.indexOf(slug)}` : ''}`,
    detail: refusal('notOfCompany', { slug }).text,
  }));
}

type Slugs = string | readonly string[] | null | undefined;

const MODEL: Resource = {
  table: 'models',
  param: 'model',
  find: (sql, { params }) => findModelById(sql, params.model as string),
};
const PATH = '/models/{model}';
const { token_input: _, ...needed } = schema.modelSettings;

export const modelOperations: readonly Operation[] = [
  get<PageQuery & { readonly slug?: string; readonly company_id?: string }>('listModels', '/models', {
    summary: 'List models, ordered by id',
    action: 'model.read',
    query: schema.listQuery({ slug: schema.slug, company_id: schema.id }),
    answer: schema.pageOf(schema.model),
    run: (sql, { query: { slug = null, company_id: company = null, ...query } }) =>
      pageOf(query, (range) => modelsAfter(sql, { slug, company }, range)),
  }),
  post<Omit<NewModel, 'company_id'> & { readonly company_id?: string | null }>('createModel', '/models', {
    summary: 'Create a model, shared or of one company',
    action: 'model.write',
    body: schema.object({ slug: schema.slug, company_id: schema.modelOwner, ...schema.modelSettings }, [
      'slug',
      ...Object.keys(needed),
    ]),
    answer: schema.model,
    status: 201,
    run: (sql, { body: { company_id = null, ...body } }) => createModel(sql, { ...body, company_id }),
  }),
  getOne('getModel', PATH, MODEL, { summary: 'Read a model', action: 'model.read', answer: schema.model }),
  patch<ModelChanges>('changeModel', PATH, {
    summary: 'Change a model; members that are left out stay as they are',
    action: 'model.write',
    body: schema.changeOf(schema.modelSettings),
    answer: schema.model,
    resource: MODEL,
    async run(sql, { params, body }) {
      const { slug, company_id } = await findModelById(sql, params.model as string);
      return setModel(sql, slug, company_id, body);
    },
  }),
  remove('removeModel', PATH, {
    summary: 'Remove a model',
    action: 'model.write',
    resource: MODEL,
    async run(sql, { params }) {
      const { slug, company_id } = await findModelById(sql, params.model as string);
      await removeModel(sql, slug, company_id);
    },
  }),
];
