import { assistantsAfter } from '../../store/after.ts';
import {
  type AssistantChanges,
  createAssistant,
  type NewAssistant,
  removeAssistant,
  setAssistant,
} from '../../store/assistant.ts';
import { findAssistant } from '../../store/page.ts';
import { type Operation, operation, type PageQuery, pageOf, type Resource } from './operation.ts';
import * as schema from './schemas.ts';

const ASSISTANT: Resource = {
  table: 'assistants',
  param: 'assistant',
  find: (sql, { params }) => findAssistant(sql, params.company as string, params.assistant as string),
};
const LIST = '/companies/{company}/assistants';
const PATH = `${LIST}/{assistant}`;

export const assistantOperations: readonly Operation[] = [
  operation<never, PageQuery>({
    id: 'listAssistants',
    method: 'get',
    path: LIST,
    summary: 'List the assistants of a company, ordered by id',
    action: 'assistant.read',
    query: schema.listQuery(),
    answer: schema.pageOf(schema.assistant),
    status: 200,
    run: (sql, { params, query }) =>
      pageOf(query, (after, limit) => assistantsAfter(sql, params.company as string, { after, limit })),
  }),
  operation<Omit<NewAssistant, 'company_id'>>({
    id: 'createAssistant',
    method: 'post',
    path: LIST,
    summary: 'Create an assistant',
    action: 'assistant.write',
    body: schema.object(schema.assistantSettings, ['name', 'system_prompt']),
    answer: schema.assistant,
    status: 201,
    run: (sql, { params, body }) => createAssistant(sql, { ...body, company_id: params.company as string }),
  }),
  operation({
    id: 'getAssistant',
    method: 'get',
    path: PATH,
    summary: 'Read an assistant',
    action: 'assistant.read',
    answer: schema.assistant,
    status: 200,
    resource: ASSISTANT,
    run: ASSISTANT.find,
  }),
  operation<AssistantChanges>({
    id: 'changeAssistant',
    method: 'patch',
    path: PATH,
    summary: 'Change an assistant; members that are left out stay as they are',
    action: 'assistant.write',
    body: schema.changeOf(schema.assistantSettings),
    answer: schema.assistant,
    status: 200,
    resource: ASSISTANT,
    run: (sql, { params, body }) => setAssistant(sql, params.assistant as string, body, params.company),
  }),
  operation({
    id: 'removeAssistant',
    method: 'delete',
    path: PATH,
    summary: 'Remove an assistant',
    action: 'assistant.write',
    answer: null,
    status: 204,
    resource: ASSISTANT,
    async run(sql, { params }) {
      await removeAssistant(sql, params.assistant as string, params.company);
      return null;
    },
  }),
];
