import {
  type AssistantChanges,
  createAssistant,
  findAssistant,
  type NewAssistant,
  removeAssistant,
  setAssistant,
} from '../store/company/assistant.ts';
import { assistantsAfter, assistantsThatFit } from '../store/users/cursor-lists.ts';
import { unknownModels } from './model.ts';
import type { Operation, PageQuery, Resource } from './operation.ts';
import { get, getOne, pageOf, patch, post, remove } from './operation.ts';
import { refuse } from './problem.ts';
import * as schema from './schemas.ts';

const ASSISTANT: Resource = {
  table: 'assistants',
  param: 'assistant',
  find: (sql, { params }) => findAssistant(sql, params.company as string, params.assistant as string),
};
const LIST = '/companies/{company}/assistants';
const PATH = `${LIST}/{assistant}`;

export const assistantOperations: readonly Operation[] = [
  get<PageQuery>('listAssistants', LIST, {
    summary: 'List the assistants of a company, ordered by id',
    action: 'assistant.read',
    query: schema.listQuery(),
    answer: schema.pageOf(schema.assistant),
    run(sql, { params, query }) {
      const company = params.company as string;
      return pageOf(
        query,
        (range) => assistantsAfter(sql, company, range),
        (range) => assistantsThatFit(sql, company, range),
      );
    },
  }),
  post<Omit<NewAssistant, 'company_id'>>('createAssistant', LIST, {
    summary: 'Create an assistant',
    action: 'assistant.write',
    body: schema.object(schema.assistantSettings, ['name', 'system_prompt']),
    answer: schema.assistant,
    status: 201,
    async run(sql, { params, body }) {
      const { company: company_id = '' } = params;
      refuse(await unknownModels(sql, company_id, 'model_slug', body.model_slug));
      return createAssistant(sql, { ...body, company_id });
    },
  }),
  getOne('getAssistant', PATH, ASSISTANT, {
    summary: 'Read an assistant',
    action: 'assistant.read',
    answer: schema.assistant,
  }),
  patch<AssistantChanges>('changeAssistant', PATH, {
    summary: 'Change an assistant; members that are left out stay as they are',
    action: 'assistant.write',
    body: schema.changeOf(schema.assistantSettings),
    answer: schema.assistant,
    resource: ASSISTANT,
    async run(sql, { params, body }) {
      const { assistant: id = '', company = '' } = params;
      const { model_slug: before } = await findAssistant(sql, company, id);
      refuse(await unknownModels(sql, company, 'model_slug', body.model_slug, before));
      return setAssistant(sql, id, body, company);
    },
  }),
  remove('removeAssistant', PATH, {
    summary: 'Remove an assistant',
    action: 'assistant.write',
    resource: ASSISTANT,
    run: (sql, { params }) => removeAssistant(sql, params.assistant as string, params.company),
  }),
];
