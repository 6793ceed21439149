import {
  type AssistantChanges,
  type AssistantRow,
  findAssistant,
  insertAssistant,
  type NewAssistant,
  updateAssistant,
} from '../store/company/assistant.ts';
import { createOnce } from '../store/company/idempotent-form.ts';
import { lockRow } from '../store/company/last-change.ts';
import type { Sql } from '../store/connection/pool.ts';
import type { Caller } from './caller.ts';
import { unknownModels } from './model.ts';

const MODEL = 'model_slug';

/**
 * Creates an assistant. To be run in a transaction.
 * @param asked with the id of its form, which makes one assistant however often it is sent
 * @throws RefusedChange as `insertAssistant`; what the caller makes of an unknown model
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
 * @throws RefusedChange not_found; what the caller makes of an unknown model
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

export { deleteAssistant as removeAssistant } from '../store/company/assistant.ts';
