import { isEligible } from '../../domain/assistant.ts';
import { readUuid } from '../../domain/field.ts';
import { ASSISTANT } from '../../domain/settings/assistant.ts';
import { changeAssistant, createAssistant, removeAssistant } from '../../operations/assistant.ts';
import { type AssistantRow, listAssistants } from '../../store/company/assistant.ts';
import { required, someChange } from '../frame/command.ts';
import { commandsOf } from '../frame/noun.ts';
import { changeOptions, newOptions } from '../frame/setting.ts';
import { instant, plainly, yesNo } from '../frame/text.ts';

const operand = { shown: 'ID', meaning: 'id of the assistant', read: readUuid };
const VISIBILITY_NOTE =
  'The API runs an assistant only if its visibility is company and it has no project.';

const { system_prompt: _, ...SHOWN } = ASSISTANT;
const assistants = commandsOf('assistant', SHOWN, (assistant: AssistantRow) => ({
  id: assistant.id,
  company: assistant.company_id,
  created: instant(assistant.created_at),
  'API runs it': yesNo(isEligible(assistant.visibility, assistant.project_id)),
}));

export const assistantCommands = [
  assistants.create({
    summary: 'create an assistant: a system prompt and settings',
    options: {
      company_id: required('--company ID', readUuid, 'company of the assistant'),
      ...newOptions(ASSISTANT, false),
    },
    notes: VISIBILITY_NOTE,
    change: createAssistant,
  }),
  assistants.set({
    summary: 'change an assistant',
    operand,
    options: changeOptions(ASSISTANT),
    notes: VISIBILITY_NOTE,
    change: (sql, caller, values, id) => changeAssistant(sql, caller, id, null, someChange(values)),
  }),
  assistants.list({
    summary: 'list the assistants of a company',
    options: { company: required('--company ID', readUuid, 'company of the assistants') },
    read: (sql, { company }) => listAssistants(sql, company),
    columns: () => ({
      ...plainly('id', 'name'),
      MODEL: ({ model_slug }) => model_slug,
      ...plainly('temperature', 'max_tokens', 'visibility'),
      API: ({ visibility, project_id }) => yesNo(isEligible(visibility, project_id)),
    }),
    empty: 'The company has no assistants; "tollgate assistant create" adds one.',
    right: ['TEMPERATURE', 'MAX TOKENS'],
  }),
  assistants.remove({
    summary: 'remove an assistant',
    operand,
    options: {},
    change: (sql, _caller, _values, id) => removeAssistant(sql, id, null),
  }),
];
