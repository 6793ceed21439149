import { isEligible, type Visibility } from '../domain/assistant.ts';
import { ASSISTANT } from '../domain/settings/assistant.ts';
import * as schema from '../domain/settings/schema.ts';
import { neededOf } from '../domain/settings/setting.ts';
import {
  type AssistantChanges,
  type AssistantRow,
  assistantsAfter,
  findAssistant,
  insertAssistant,
  listAssistants,
  type NewAssistant,
  deleteAssistant as removeAssistant,
  updateAssistant,
} from '../store/company/assistant.ts';
import { createOnce } from '../store/company/idempotent-form.ts';
import { lockRow } from '../store/company/last-change.ts';
import type { Sql } from '../store/connection/pool.ts';
import type { Caller } from './frame/caller.ts';
import { noun } from './frame/noun.ts';
import * as resource from './frame/resources.ts';
import { unknownModels } from './model.ts';

const MODEL = 'model_slug';

/**
 * Creates an assistant. To be run in a transaction.
 * @param asked with the id of its form, which makes one assistant however often it is sent
 * @throws Refused as `insertAssistant`; what the caller makes of an unknown model
 */
export async function createAssistant(
  sql: Sql,
  caller: Pick<Caller, 'judge'>,
  asked: NewAssistant,
): Promise<AssistantRow> {
  const { company_id, id } = asked;
  caller.judge(await unknownModels(sql, company_id, MODEL, asked[MODEL]));
  const make = () => insertAssistant(sql, asked);
  if (id === undefined) return make();
  return (await createOnce(sql, 'assistants', id, make)) ?? findAssistant(sql, id, company_id);
}

/**
 * Changes settings of an assistant.
 * @param company if given, assistants of other companies count as not found
 * @throws Refused missing; what the caller makes of an unknown model
 */
export async function changeAssistant(
  sql: Sql,
  caller: Pick<Caller, 'judge'>,
  id: string,
  company: string | null,
  changes: AssistantChanges,
): Promise<AssistantRow> {
  await lockRow(sql, 'assistants', id);
  const { company_id, [MODEL]: before } = await findAssistant(sql, id, company);
  caller.judge(await unknownModels(sql, company_id, MODEL, changes[MODEL], before));
  return updateAssistant(sql, id, changes, company);
}

export { removeAssistant };

const assistants = noun({
  name: 'Assistant',
  path: '/companies/{company}/assistants',
  param: 'assistant',
  table: 'assistants',
  answer: resource.assistant,
  reads: 'assistant.read',
  writes: 'assistant.write',
  find: (sql, { company, id }) => findAssistant(sql, id, company),
  command: {
    noun: 'assistant',
    settings: ASSISTANT,
    takesNone: false,
    hidden: ['system_prompt'],
    notes: 'The API runs an assistant only if its visibility is company and it has no project.',
    more: ({ visibility, project_id }) => ({
      'API runs it': isEligible(visibility as Visibility, project_id as string | null),
    }),
  },
});

export const assistantOperations = [
  assistants.list({
    summary: 'List the assistants of a company, ordered by id',
    read: (sql, { company }, range) => assistantsAfter(sql, company, range),
    command: {
      all: (sql, { company = '' }) => listAssistants(sql, company),
      columns: [
        'id',
        'name',
        'model_slug',
        'temperature',
        'max_tokens',
        'visibility',
        'API runs it',
      ],
      empty: 'The company has no assistants; "tollgate assistant create" adds one.',
    },
  }),
  assistants.create({
    summary: 'Create an assistant',
    body: schema.object(resource.assistantSettings, neededOf(ASSISTANT)),
    command: {},
    run: (sql, call) => createAssistant(sql, call, { ...call.body, company_id: call.company }),
  }),
  assistants.get('Read an assistant'),
  assistants.change({
    summary: 'Change an assistant; members that are left out stay as they are',
    body: schema.changeOf(resource.assistantSettings),
    command: {},
    run: (sql, call) => changeAssistant(sql, call, call.id, call.company, call.body),
  }),
  assistants.remove({
    summary: 'Remove an assistant',
    command: {},
    run: (sql, { company, id }) => removeAssistant(sql, id, company),
  }),
];
