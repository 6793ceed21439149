import { ASSISTANT } from '../../domain/settings/assistant.ts';
import * as schema from '../../domain/settings/schema.ts';
import { neededOf } from '../../domain/settings/setting.ts';
import { changeAssistant, createAssistant, removeAssistant } from '../../operations/assistant.ts';
import { assistantsAfter, findAssistant } from '../../store/company/assistant.ts';
import { noun } from './frame/noun.ts';
import * as resource from './frame/resources.ts';

const assistants = noun({
  name: 'Assistant',
  path: '/companies/{company}/assistants',
  param: 'assistant',
  table: 'assistants',
  answer: resource.assistant,
  reads: 'assistant.read',
  writes: 'assistant.write',
  find: (sql, company, id) => findAssistant(sql, id, company),
});

export const assistantOperations = [
  assistants.list({
    summary: 'List the assistants of a company, ordered by id',
    read: (sql, _call, range, company) => assistantsAfter(sql, company, range),
  }),
  assistants.create({
    summary: 'Create an assistant',
    body: schema.object(resource.assistantSettings, neededOf(ASSISTANT)),
    run: (sql, call, company_id) => createAssistant(sql, call, { ...call.body, company_id }),
  }),
  assistants.get('Read an assistant'),
  assistants.change({
    summary: 'Change an assistant; members that are left out stay as they are',
    body: schema.changeOf(resource.assistantSettings),
    run: (sql, call, company, id) => changeAssistant(sql, call, id, company, call.body),
  }),
  assistants.remove({
    summary: 'Remove an assistant',
    run: (sql, _call, company, id) => removeAssistant(sql, id, company),
  }),
];
