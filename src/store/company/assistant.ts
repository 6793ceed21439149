import { throwNotFound, unknownCompany } from '../../domain/refusal.ts';
import { ASSISTANT } from '../../domain/settings/assistant.ts';
import { namesOf } from '../../domain/settings/schema.ts';
import type { New, Values } from '../../domain/settings/setting.ts';
import { given, matching, settingColumns } from '../connection/columns.ts';
import { explaining } from '../connection/errors.ts';
import type { Sql } from '../connection/pool.ts';
import { type Changes, rowsOf } from './company.ts';

/** Members are the columns of the table (contract section 3): those that people set, and these. */
export interface AssistantRow extends Values<typeof ASSISTANT> {
  readonly id: string;
  readonly company_id: string;
  readonly created_at: Date;
}

export type ListedAssistant = Omit<AssistantRow, 'system_prompt'>;
export type AssistantChanges = Changes<Values<typeof ASSISTANT>>;
/** A new assistant; its id is random unless given. */
export type NewAssistant = New<typeof ASSISTANT> & Pick<AssistantRow, 'company_id'> & Changes<Pick<AssistantRow, 'id'>>;

const SETTINGS = namesOf(ASSISTANT);
const { system_prompt: _, ...LISTED } = ASSISTANT;

/** @throws RefusedChange when the company does not exist */
export async function insertAssistant(sql: Sql, assistant: NewAssistant): Promise<AssistantRow> {
  const [row] = await explaining(
    sql<AssistantRow[]>`
      insert into assistants ${given(sql, assistant, ['id', 'company_id', ...SETTINGS])} returning ${assistantColumns(sql)}`,
    { assistants_company_id_fkey: () => unknownCompany(assistant.company_id) },
  );
  return row as AssistantRow;
}

/**
 * @param company if given, assistants of other companies count as not found
 * @throws RefusedChange not_found
 */
export async function updateAssistant(
  sql: Sql,
  id: string,
  changes: AssistantChanges,
  company: string | null = null,
): Promise<AssistantRow> {
  const [row] = await sql<AssistantRow[]>`
    update assistants set ${given(sql, changes, SETTINGS, { company_id: sql`company_id` })}
    where id = ${id} ${matching(sql, { company_id: company })}
    returning ${assistantColumns(sql)}`;
  return row ?? unknownAssistant(id);
}

/**
 * All assistants of a company, including those that the API does not show.
 * @param company null: of all companies
 * @throws RefusedChange not_found
 */
export async function listAssistants(sql: Sql, company: string | null): Promise<AssistantRow[]> {
  const rows = await sql<AssistantRow[]>`
    select ${assistantColumns(sql)} from assistants where true ${matching(sql, { company_id: company })} order by name, id`;
  return rowsOf(sql, company, rows);
}

/** Assistants of these companies. */
export async function assistantsOf(sql: Sql, companies: readonly string[]): Promise<AssistantRow[]> {
  return sql<AssistantRow[]>`
    select ${assistantColumns(sql)} from assistants where company_id in (select unnest(${[...companies]}::uuid[]))`;
}

/** @param company if given, assistants of other companies count as not found @throws RefusedChange not_found */
export async function findAssistant(sql: Sql, company: string | null, id: string): Promise<AssistantRow> {
  const [row] = await sql<AssistantRow[]>`
    select ${assistantColumns(sql)} from assistants where id = ${id} ${matching(sql, { company_id: company })}`;
  return row ?? (company === null ? unknownAssistant(id) : throwNotFound('assistant'));
}

/**
 * @param company if given, assistants of other companies count as not found
 * @throws RefusedChange not_found
 */
export async function deleteAssistant(sql: Sql, id: string, company: string | null = null): Promise<AssistantRow> {
  const [row] = await sql<AssistantRow[]>`
    delete from assistants where id = ${id} ${matching(sql, { company_id: company })}
    returning ${assistantColumns(sql)}`;
  return row ?? unknownAssistant(id);
}

function unknownAssistant(id: string): never {
  throwNotFound('assistant', `There is no assistant ${id}.`);
}

export function assistantColumns(sql: Sql) {
  return sql`id, company_id, ${settingColumns(sql, ASSISTANT)}, created_at`;
}

/** Without the prompt, which may have 1 MiB: for lists. */
export function listedAssistantColumns(sql: Sql) {
  return sql`id, company_id, ${settingColumns(sql, LISTED)}, created_at`;
}
