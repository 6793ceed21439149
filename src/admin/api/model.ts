import * as schema from '../../domain/settings/schema.ts';
import { createModel, findModelById, removeModel, setModel } from '../../store/company/model.ts';
import { modelsAfter } from '../../store/users/cursor-lists.ts';
import type { ApiOperation, Resource } from './frame/operation.ts';
import { get, getOne, pageOf, patch, post, remove } from './frame/operation.ts';
import * as resource from './frame/resources.ts';

const MODEL: Resource = {
  table: 'models',
  param: 'model',
  find: (sql, { params }) => findModelById(sql, params.model as string),
};

const PATH = '/models/{model}';

const { token_input: _, ...needed } = resource.modelSettings;

export const modelOperations: readonly ApiOperation[] = [
  get('listModels', '/models', {
    summary: 'List models, ordered by id',
    action: 'model.read',
    query: resource.listQuery({ slug: schema.slug, company_id: schema.id }),
    answer: resource.pageOf(resource.model),
    run: (sql, { query: { slug = null, company_id: company = null, ...query } }) =>
      pageOf(query, (range) => modelsAfter(sql, { slug, company }, range)),
  }),
  post('createModel', '/models', {
    summary: 'Create a model, shared or of one company',
    action: 'model.write',
    body: schema.object({ slug: schema.slug, company_id: resource.modelOwner, ...resource.modelSettings }, [
      'slug',
      ...schema.namesOf(needed),
    ]),
    answer: resource.model,
    status: 201,
    run: (sql, { body: { company_id = null, ...body } }) => createModel(sql, { ...body, company_id }),
  }),
  getOne('getModel', PATH, MODEL, { summary: 'Read a model', action: 'model.read', answer: resource.model }),
  patch('changeModel', PATH, {
    summary: 'Change a model; members that are left out stay as they are',
    action: 'model.write',
    body: schema.changeOf(resource.modelSettings),
    answer: resource.model,
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
