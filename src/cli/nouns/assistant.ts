import { isEligible } from '../../domain/assistant.ts';
import {
  orNone,
  readMaxTokens,
  readName,
  readSlug,
  readTemperature,
  readText,
  readUuid,
  readVisibility,
} from '../../domain/field.ts';
import { unknownModels } from '../../operations/model.ts';
import {
  type AssistantRow,
  deleteAssistant,
  findAssistant,
  insertAssistant,
  listAssistants,
  updateAssistant,
} from '../../store/company/assistant.ts';
import { type Command, type Context, command, optional, required, someChange } from '../frame/command.ts';
import { card, instant, listing, yesNo } from '../frame/text.ts';

const operand = { shown: 'ID', meaning: 'id of the assistant', read: readUuid };
const VISIBILITY_NOTE = 'The API runs an assistant only if its visibility is company and it has no project.';
const WHO = 'private, persons, teams or projects';

export const assistantCommands: readonly Command[] = [
  command({
    name: 'assistant create',
    summary: 'create an assistant: a system prompt and settings',
    options: {
      company_id: required('--company ID', readUuid, 'company of the assistant'),
      name: required('--name NAME', readName, 'name of the assistant'),
      system_prompt: required('--system-prompt TEXT', readText, 'system prompt of every run'),
      model_slug: optional('--model SLUG', readSlug, 'default model; without one every run must name a model'),
      temperature: optional('--temperature T', readTemperature, '0 to 2'),
      max_tokens: optional('--max-tokens M', readMaxTokens, '1 to 32000'),
      visibility: optional('--visibility WHO', readVisibility, `company (default), ${WHO}`),
      project_id: optional('--project ID', readUuid, 'project of the assistant'),
    },
    notes: VISIBILITY_NOTE,
    async run(context, values) {
      const assistant = await context.transact((sql) => insertAssistant(sql, values));
      await warnOfModel(context, assistant);
      return { json: assistant, text: show('Assistant created.', assistant) };
    },
  }),
  command({
    name: 'assistant set',
    summary: 'change an assistant',
    operand,
    options: {
      name: optional('--name NAME', readName, 'new name'),
      system_prompt: optional('--system-prompt TEXT', readText, 'system prompt of every run'),
      model_slug: optional('--model SLUG|none', orNone(readSlug), 'default model'),
      temperature: optional('--temperature T|none', orNone(readTemperature), '0 to 2'),
      max_tokens: optional('--max-tokens M|none', orNone(readMaxTokens), '1 to 32000'),
      visibility: optional('--visibility WHO', readVisibility, `company, ${WHO}`),
      project_id: optional('--project ID|none', orNone(readUuid), 'project of the assistant'),
    },
    notes: VISIBILITY_NOTE,
    async run(context, values, id) {
      const changes = someChange(values);
      const [before, assistant] = await context.transact(async (sql) => [
        await findAssistant(sql, null, id),
        await updateAssistant(sql, id, changes),
      ]);
      await warnOfModel(context, assistant, before.model_slug);
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
      const assistant = await transact((sql) => deleteAssistant(sql, id));
      return { json: assistant, text: show('Assistant removed.', assistant) };
    },
  }),
];

/** @param before the model that it had */
async function warnOfModel({ transact, warn }: Context, assistant: AssistantRow, before: string | null = null) {
  const { company_id: company, model_slug: model } = assistant;
  for (const { slug } of await transact((sql) => unknownModels(sql, company, 'model_slug', model, before))) {
    warn(`the company has no model ${slug}; runs that name no model get 404`);
  }
}

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
