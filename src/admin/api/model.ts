import { MODEL } from '../../domain/settings/model.ts';
import * as schema from '../../domain/settings/schema.ts';
import { neededOf } from '../../domain/settings/setting.ts';
import { changeModel, createModel, removeModel } from '../../operations/model.ts';
import { findModelById, modelsAfter } from '../../store/company/model.ts';
import { noun } from './frame/noun.ts';
import * as resource from './frame/resources.ts';

const models = noun({
  name: 'Model',
  path: '/models',
  param: 'model',
  table: 'models',
  answer: resource.model,
  reads: 'model.read',
  writes: 'model.write',
  find: (sql, _owner, id) => findModelById(sql, id),
});

export const modelOperations = [
  models.list({
    summary: 'List models, ordered by id',
    filters: { slug: schema.slug, company_id: schema.id },
    read: (sql, { query: { slug = null, company_id = null } }, range) =>
      modelsAfter(sql, slug, company_id, range),
  }),
  models.create({
    summary: 'Create a model, shared or of one company',
    body: schema.object(
      { slug: schema.slug, company_id: resource.modelOwner, ...resource.modelSettings },
      ['slug', ...neededOf(MODEL)],
    ),
    run: (sql, call) => createModel(sql, call, { company_id: null, ...call.body }),
  }),
  models.get('Read a model'),
  models.change({
    summary: 'Change a model; members that are left out stay as they are',
    body: schema.changeOf(resource.modelSettings),
    run: async (sql, call, _owner, id) =>
      changeModel(sql, call, await findModelById(sql, id), call.body),
  }),
  models.remove({
    summary: 'Remove a model',
    run: async (sql, _call, _owner, id) => removeModel(sql, await findModelById(sql, id)),
  }),
];
