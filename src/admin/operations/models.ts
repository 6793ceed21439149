import { modelsAfter } from '../../store/after.ts';
import { createModel, type ModelChanges, type NewModel, removeModel, setModel } from '../../store/model.ts';
import { findModelById } from '../../store/page.ts';
import { type Operation, operation, type PageQuery, pageOf, type Resource } from './operation.ts';
import * as schema from './schemas.ts';

const MODEL: Resource = {
  table: 'models',
  param: 'model',
  find: (sql, { params }) => findModelById(sql, params.model as string),
};
const PATH = '/models/{model}';
const { token_input: _, ...needed } = schema.modelSettings;

export const modelOperations: readonly Operation[] = [
  operation<never, PageQuery & { readonly slug?: string; readonly company_id?: string }>({
    id: 'listModels',
    method: 'get',
    path: '/models',
    summary: 'List models, ordered by id',
    action: 'model.read',
    query: schema.listQuery({ slug: schema.slug, company_id: schema.id }),
    answer: schema.pageOf(schema.model),
    status: 200,
    run: (sql, { query: { slug = null, company_id: company = null, ...query } }) =>
      pageOf(query, (after, limit) => modelsAfter(sql, { slug, company }, { after, limit })),
  }),
  operation<Omit<NewModel, 'company_id'> & { readonly company_id?: string | null }>({
    id: 'createModel',
    method: 'post',
    path: '/models',
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
  operation({
    id: 'getModel',
    method: 'get',
    path: PATH,
    summary: 'Read a model',
    action: 'model.read',
    answer: schema.model,
    status: 200,
    resource: MODEL,
    run: MODEL.find,
  }),
  operation<ModelChanges>({
    id: 'changeModel',
    method: 'patch',
    path: PATH,
    summary: 'Change a model; members that are left out stay as they are',
    action: 'model.write',
    body: schema.changeOf(schema.modelSettings),
    answer: schema.model,
    status: 200,
    resource: MODEL,
    async run(sql, { params, body }) {
      const { slug, company_id } = await findModelById(sql, params.model as string);
      return setModel(sql, slug, company_id, body);
    },
  }),
  operation({
    id: 'removeModel',
    method: 'delete',
    path: PATH,
    summary: 'Remove a model',
    action: 'model.write',
    answer: null,
    status: 204,
    resource: MODEL,
    async run(sql, { params }) {
      const { slug, company_id } = await findModelById(sql, params.model as string);
      await removeModel(sql, slug, company_id);
      return null;
    },
  }),
];
