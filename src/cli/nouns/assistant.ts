import { isEligible } from '../../domain/assistant.ts';
import { readUuid } from '../../domain/field.ts';
import { ASSISTANT } from '../../domain/settings/assistant.ts';
import { changeAssistant, createAssistant, removeAssistant } from '../../operations/assistant.ts';
import { type AssistantRow, listAssistants } from '../../store/company/assistant.ts';
import { type Command, command, required, someChange } from '../frame/command.ts';
import { callerOf, changeOptions, newOptions } from '../frame/setting.ts';
import { card, instant, listing, yesNo } from '../frame/text.ts';

const operand = { shown: 'ID', meaning: 'id of the assistant', read: readUuid };
const VISIBILITY_NOTE = 'The API runs an assistant only if its visibility is company and it has no project.';

export const assistantCommands: readonly Command[] = [
  command({
    name: 'assistant create',
    summary: 'create an assistant: a system prompt and settings',
    options: {
      company_id: required('--company ID', readUuid, 'company of the assistant'),
      ...newOptions(ASSISTANT, false),
    },
    notes: VISIBILITY_NOTE,
    async run(context, values) {
      const caller = callerOf(context, ASSISTANT);
      const assistant = await context.transact((sql) => createAssistant(sql, caller, values));
      return { json: assistant, text: show('Assistant created.', assistant) };
    },
  }),
  command({
    name: 'assistant set',
    summary: 'change an assistant',
    operand,
    options: changeOptions(ASSISTANT),
    notes: VISIBILITY_NOTE,
    async run(context, values, id) {
      const caller = callerOf(context, ASSISTANT);
      const changes = someChange(values);
      const assistant = await context.transact((sql) => changeAssistant(sql, caller, id, null, changes));
      return { json: assistant, text: show('Assistant changed.', assistant) };
    },
  }),
  command({
    name: 'assistant list',
    summary: 'list the assistants of a company',
    options: { company: required('--company ID', readUuid, 'company of the assistants') },
    async run({ transact }, { company }) {
      const assistants = await transact((sql) => listAssistants(sql, company));
      const text = listing(
        assistants,
        {
          ID: ({ id }) => id,
          NAME: ({ name }) => name,
          MODEL: ({ model_slug }) => model_slug,
          TEMPERATURE: ({ temperature }) => temperature,
          'MAX TOKENS': ({ max_tokens }) => max_tokens,
          VISIBILITY: ({ visibility }) => visibility,
          API: ({ visibility, project_id }) => yesNo(isEligible(visibility, project_id)),
        },
        'The company has no assistants; "tollgate assistant create" adds one.',
        ['TEMPERATURE', 'MAX TOKENS'],
      );
      return { json: assistants, text };
    },
  }),
  command({
    name: 'assistant remove',
    summary: 'remove an assistant',
    operand,
    options: {},
    async run({ transact }, _values, id) {
      const assistant = await transact((sql) => removeAssistant(sql, id, null));
      return { json: assistant, text: show('Assistant removed.', assistant) };
    },
  }),
];

function show(sentence: string, assistant: AssistantRow): string {
  return card(sentence, {
    id: assistant.id,
    company: assistant.company_id,
    name: assistant.name,
    model: assistant.model_slug,
    temperature: assistant.temperature,
    'max tokens': assistant.max_tokens,
    visibility: assistant.visibility,
    project: assistant.project_id,
    'API runs it': yesNo(isEligible(assistant.visibility, assistant.project_id)),
    created: instant(assistant.created_at),
  });
}
