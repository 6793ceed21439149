import { ASSISTANT as SETTINGS } from '../../domain/settings/assistant.ts';
import * as schema from '../../domain/settings/schema.ts';
import { neededOf } from '../../domain/settings/setting.ts';
import { changeAssistant, createAssistant, removeAssistant } from '../../operations/assistant.ts';
import { findAssistant } from '../../store/company/assistant.ts';
import { assistantsAfter, assistantsThatFit } from '../../store/lists/cursor.ts';
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
    body: schema.object(resource.assistantSettings, neededOf(SETTINGS)),
    answer: resource.assistant,
    status: 201,
    run: (sql, call) => createAssistant(sql, call, { ...call.body, company_id: call.params.company as string }),
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
    run(sql, call) {
      const { assistant: id = '', company = '' } = call.params;
      return changeAssistant(sql, call, id, company, call.body);
    },
  }),
  remove('removeAssistant', PATH, {
    summary: 'Remove an assistant',
    action: 'assistant.write',
    resource: ASSISTANT,
    run: (sql, { params }) => removeAssistant(sql, params.assistant as string, params.company as string),
  }),
];
