import * as schema from '../../domain/settings/schema.ts';
import { unknownModels } from '../../operations/model.ts';
import { refuse } from '../../operations/problem.ts';
import { deleteAssistant, findAssistant, insertAssistant, updateAssistant } from '../../store/company/assistant.ts';
import { assistantsAfter, assistantsThatFit } from '../../store/users/cursor-lists.ts';
import type { ApiOperation, Resource } from './frame/operation.ts';
import { get, getOne, pageOf, patch, post, remove } from './frame/operation.ts';
import * as resource from './frame/resources.ts';

const ASSISTANT: Resource = {
  table: 'assistants',
  param: 'assistant',
  find: (sql, { params }) => findAssistant(sql, params.company as string, params.assistant as string),
};

const LIST = '/companies/{company}/assistants';

const PATH = `${LIST}/{assistant}`;

export const assistantOperations: readonly ApiOperation[] = [
  get('listAssistants', LIST, {
    summary: 'List the assistants of a company, ordered by id',
    action: 'assistant.read',
    query: resource.listQuery(),
    answer: resource.pageOf(resource.assistant),
    run(sql, { params, query }) {
      const company = params.company as string;
      return pageOf(
        query,
        (range) => assistantsAfter(sql, company, range),
        (range) => assistantsThatFit(sql, company, range),
      );
    },
  }),
  post('createAssistant', LIST, {
    summary: 'Create an assistant',
    action: 'assistant.write',
    body: schema.object(resource.assistantSettings, ['name', 'system_prompt']),
    answer: resource.assistant,
    status: 201,
    async run(sql, { params, body }) {
      const { company: company_id = '' } = params;
      refuse(await unknownModels(sql, company_id, 'model_slug', body.model_slug));
      return insertAssistant(sql, { ...body, company_id });
    },
  }),
  getOne('getAssistant', PATH, ASSISTANT, {
    summary: 'Read an assistant',
    action: 'assistant.read',
    answer: resource.assistant,
  }),
  patch('changeAssistant', PATH, {
    summary: 'Change an assistant; members that are left out stay as they are',
    action: 'assistant.write',
    body: schema.changeOf(resource.assistantSettings),
    answer: resource.assistant,
    resource: ASSISTANT,
    async run(sql, { params, body }) {
      const { assistant: id = '', company = '' } = params;
      const { model_slug: before } = await findAssistant(sql, company, id);
      refuse(await unknownModels(sql, company, 'model_slug', body.model_slug, before));
      return updateAssistant(sql, id, body, company);
    },
  }),
  remove('removeAssistant', PATH, {
    summary: 'Remove an assistant',
    action: 'assistant.write',
    resource: ASSISTANT,
    run: (sql, { params }) => deleteAssistant(sql, params.assistant as string, params.company),
  }),
];
