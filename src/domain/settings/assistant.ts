import type { Visibility } from '../assistant.ts';
import {
  MOST,
  readMaxTokens,
  readName,
  readSlug,
  readTemperature,
  readText,
  readUuid,
  readVisibility,
} from '../field.ts';
import * as schema from './schema.ts';
import type { Needed, Setting } from './setting.ts';

/** Every column of `assistants` that people set (spec section 2.6). */
export const ASSISTANT = {
  name: {
    kind: 'text',
    schema: schema.name,
    option: '--name NAME',
    meaning: 'name of the assistant',
    changed: 'new name',
    read: readName,
    isNeeded: true,
    field: { name: 'name', label: ({ assistants }) => assistants.labels.name },
  } as Needed<string>,
  system_prompt: {
    kind: 'text',
    schema: schema.text,
    option: '--system-prompt TEXT',
    meaning: 'system prompt of every run',
    read: readText,
    isNeeded: true,
    field: {
      name: 'system_prompt',
      label: ({ assistants }) => assistants.labels.system_prompt,
      hint: ({ assistants }) => assistants.promptHint,
      rows: 8,
    },
  } as Needed<string>,
  model_slug: {
    kind: 'choice',
    schema: schema.orNull(schema.slug),
    option: '--model SLUG',
    meaning: 'default model; without one every run must name a model',
    changed: 'default model',
    read: readSlug,
    isNullable: true,
    field: { name: 'model_slug', label: ({ assistants }) => assistants.labels.model_slug },
  } as Setting<string | null>,
  temperature: {
    kind: 'number',
    schema: { type: ['number', 'null'], minimum: 0, maximum: 2 },
    option: '--temperature T',
    meaning: '0 to 2',
    read: readTemperature,
    isNullable: true,
    field: {
      name: 'temperature',
      label: ({ assistants }) => assistants.labels.temperature,
      hint: ({ assistants }) => assistants.temperatureHint,
      inputmode: 'decimal',
    },
  } as Setting<number | null>,
  max_tokens: {
    kind: 'number',
    schema: schema.orNull(schema.whole(MOST.maxTokens, 'null: what the caller says')),
    option: '--max-tokens M',
    meaning: '1 to 32000',
    read: readMaxTokens,
    isNullable: true,
    field: {
      name: 'max_tokens',
      label: ({ assistants }) => assistants.labels.max_tokens,
      hint: ({ assistants }) => assistants.maxTokensHint,
    },
  } as Setting<number | null>,
  visibility: {
    kind: 'choice',
    schema: schema.oneOf(['company', 'private', 'persons', 'teams', 'projects']),
    option: '--visibility WHO',
    meaning: 'company (default), private, persons, teams or projects',
    changed: 'company, private, persons, teams or projects',
    read: readVisibility,
    field: {
      name: 'visibility',
      label: ({ assistants }) => assistants.labels.visibility,
      hint: ({ assistants }) => assistants.visibilityHint,
      choices: ({ assistants }) => Object.entries(assistants.visibilities),
    },
  } as Setting<Visibility>,
  project_id: {
    kind: 'text',
    schema: schema.orNull(schema.id),
    option: '--project ID',
    meaning: 'project of the assistant',
    read: readUuid,
    isNullable: true,
    field: {
      name: 'project_id',
      label: ({ assistants }) => assistants.labels.project_id,
      hint: ({ assistants }) => assistants.projectHint,
    },
  } as Setting<string | null>,
};
