import { MODEL as SETTINGS } from '../../domain/settings/model.ts';
import * as schema from '../../domain/settings/schema.ts';
import { neededOf } from '../../domain/settings/setting.ts';
import { changeModel, createModel, removeModel } from '../../operations/model.ts';
import { findModelById } from '../../store/company/model.ts';
import { modelsAfter } from '../../store/lists/cursor.ts';
import type { ApiOperation, Resource } from './frame/operation.ts';
import { get, getOne, pageOf, patch, post, remove } from './frame/operation.ts';
import * as resource from './frame/resources.ts';

const MODEL: Resource = {
  table: 'models',
  param: 'model',
  find: (sql, { params }) => findModelById(sql, params.model as string),
};

const PATH = '/models/{model}';

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
      ...neededOf(SETTINGS),
    ]),
    answer: resource.model,
    status: 201,
    run: (sql, call) => createModel(sql, call, { company_id: null, ...call.body }),
  }),
  getOne('getModel', PATH, MODEL, { summary: 'Read a model', action: 'model.read', answer: resource.model }),
  patch('changeModel', PATH, {
    summary: 'Change a model; members that are left out stay as they are',
    action: 'model.write',
    body: schema.changeOf(resource.modelSettings),
    answer: resource.model,
    resource: MODEL,
    async run(sql, call) {
      return changeModel(sql, call, await findModelById(sql, call.params.model as string), call.body);
    },
  }),
  remove('removeModel', PATH, {
    summary: 'Remove a model',
    action: 'model.write',
    resource: MODEL,
    async run(sql, { params }) {
      await removeModel(sql, await findModelById(sql, params.model as string));
    },
  }),
];
