import { companiesNamed } from '../../store/company/company.ts';
import { pageOfCompanies } from '../../store/lists/page.ts';
import { type PageContext, read } from './context.ts';
import { type FormState, field } from './field.ts';
import type { Form } from './form.ts';
import { type Html, html } from './html.ts';

/** The choice of a company by its name or id: there may be too many for a list. Suggests the first fifty. */
export async function companyPicker(c: PageContext, state: FormState, label: string, hint: string): Promise<Html> {
  const first = { search: '', sort: 'name', descending: false, page: 1 } as const;
  const { rows } = await read(c, (sql) => pageOfCompanies(sql, first));
  return html`${field(state, { name: 'company', label, hint, list: 'company-names' })}
<datalist id="company-names">${rows.map(({ name }) => html`<option value="${name}"></option>`)}</datalist>`;
}

/** The id of the company that was chosen; null when none was, or after a mistake. */
export async function readPickedCompany(c: PageContext, form: Form): Promise<string | null> {
  const text = form.optional('company', (typed) => typed.trim());
  if (text === null) return null;
  const [found, other] = await read(c, (sql) => companiesNamed(sql, [text]));
  if (found === undefined) form.refuse('company', 'is not known: give its whole name, or its id.');
  if (other !== undefined) form.refuse('company', 'is the name of several companies: give its id.');
  return found?.id ?? null;
}
