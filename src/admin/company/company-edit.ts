import { COMPANY } from '../../domain/settings/company.ts';
import { labelsOf, type Settings } from '../../domain/settings/setting.ts';
import { changeCompany } from '../../operations/company.ts';
import { type CompanyRow, findCompany } from '../../store/company/company.ts';
import { callerOf } from '../page/caller.ts';
import { change, type PageContext, param } from '../page/context.ts';
import type { Form } from '../page/form.ts';
import { lockEdited } from '../page/optimistic-lock.ts';

/**
 * Saves one form of the settings page.
 * @param settings those that the form edits
 * @param by default: under the tenant role
 * @throws ConfirmationNeeded when somebody else changed the same meanwhile, or a budget is used up already
 */
export async function saveCompany(
  c: PageContext,
  form: Form,
  settings: Settings,
  changes: Partial<CompanyRow>,
  by: typeof change = change,
): Promise<Response> {
  form.check();
  const id = param(c, 'company');
  const page = `/companies/${id}/settings`;
  const labels = labelsOf(settings, form.words);
  await by(c, async (sql) => {
    const find = () => findCompany(sql, id);
    await lockEdited(c, sql, form, { table: 'companies', id, company: id, labels, changes, find, page });
    await changeCompany(sql, callerOf(c, form, COMPANY), id, changes);
  });
  return c.redirect(`${page}?done=saved`, 303);
}
