import { type CompanyRow, findCompany, updateCompany } from '../../store/company/company.ts';
import type { Sql } from '../../store/connection/pool.ts';
import { change, type PageContext, param } from '../page/context.ts';
import type { Form } from '../page/form.ts';
import { lockEdited, type RowChange } from '../page/optimistic-lock.ts';

interface CompanyChange extends Pick<RowChange<CompanyRow>, 'labels' | 'changes'> {
  /** May throw a ConfirmationNeeded. */
  readonly ask?: (sql: Sql, present: CompanyRow) => Promise<void> | void;
  /** Default: under the tenant role. */
  readonly by?: typeof change;
}

/** Saves one form of the settings page. @throws ConfirmationNeeded when somebody else changed the same meanwhile */
export async function saveCompany(c: PageContext, form: Form, companyChange: CompanyChange): Promise<Response> {
  const { labels, changes, ask = () => {}, by = change } = companyChange;
  const id = param(c, 'company');
  const page = `/companies/${id}/settings`;
  await by(c, async (sql) => {
    const find = () => findCompany(sql, id);
    const present = await lockEdited(c, sql, form, {
      table: 'companies',
      id,
      company: id,
      labels,
      changes,
      find,
      page,
    });
    await ask(sql, present);
    await updateCompany(sql, id, changes);
  });
  return c.redirect(`${page}?done=saved`, 303);
}
