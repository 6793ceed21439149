import { ASSISTANT } from '../../domain/settings/assistant.ts';
import { namesOf } from '../../domain/settings/schema.ts';
import type { New, Values } from '../../domain/settings/setting.ts';
import { matching, namedColumns, settingColumns } from '../connection/columns.ts';
import type { Range } from '../connection/cursor.ts';
import type { Sql } from '../connection/pool.ts';
import { rowsIn } from '../connection/rows.ts';
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
export type NewAssistant = New<typeof ASSISTANT> &
  Pick<AssistantRow, 'company_id'> &
  Changes<Pick<AssistantRow, 'id'>>;

const SETTINGS = namesOf(ASSISTANT);
const { system_prompt: _, ...LISTED } = ASSISTANT;

const ROWS = rowsIn<AssistantRow>({
  table: 'assistants',
  noun: 'assistant',
  columns: (sql) => sql`id, company_id, ${settingColumns(sql, ASSISTANT)}, created_at`,
  missing: (id, company) => (company === null ? `There is no assistant ${id}.` : undefined),
});

export const { find: findAssistant, remove: deleteAssistant } = ROWS;

/** @throws Refused when the company does not exist */
export function insertAssistant(sql: Sql, assistant: NewAssistant): Promise<AssistantRow> {
  return ROWS.insert(
    sql,
    namedColumns(sql, assistant, ['id', 'company_id', ...SETTINGS]),
    assistant.company_id,
  );
}

/**
 * @param company if given, assistants of other companies count as not found
 * @throws Refused missing
 */
export function updateAssistant(
  sql: Sql,
  id: string,
  changes: AssistantChanges,
  company: string | null = null,
): Promise<AssistantRow> {
  return ROWS.update(
    sql,
    namedColumns(sql, changes, SETTINGS, { company_id: sql`company_id` }),
    id,
    company,
  );
}

/**
 * All assistants of a company, including those that the API does not show.
 * @param company null: of all companies
 * @throws Refused missing
 */
export async function listAssistants(sql: Sql, company: string | null): Promise<AssistantRow[]> {
  const rows = await ROWS.list(
    sql,
    sql`where true ${matching(sql, { company_id: company })} order by name, id`,
  );
  return rowsOf(sql, company, rows);
}

/** Assistants of these companies. */
export function assistantsOf(sql: Sql, companies: readonly string[]): Promise<AssistantRow[]> {
  return ROWS.list(sql, sql`where company_id in (select unnest(${[...companies]}::uuid[]))`);
}

/** Of a company, ordered by id. */
export function assistantsAfter(sql: Sql, company: string, range: Range) {
  return ROWS.page(sql, company, range, sql`octet_length(system_prompt)`);
}

/** Without the prompt, which may have 1 MiB: for lists. */
export function listedAssistantColumns(sql: Sql) {
  return sql`id, company_id, ${settingColumns(sql, LISTED)}, created_at`;
}
