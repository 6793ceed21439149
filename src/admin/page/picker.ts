import { companiesNamed } from '../../store/company/company.ts';
import { firstCompanyNames } from '../../store/lists/page.ts';
import { companiesLike } from '../../store/lists/search.ts';
import { type PageContext, read } from './context.ts';
import { type FormState, field } from './field.ts';
import type { Form } from './form.ts';
import { type Html, html } from './html.ts';

/** The choice of a company by its name or id: there may be too many for a list. Suggests the first fifty. */
export async function companyPicker(
  c: PageContext,
  state: FormState,
  label: string,
  hint: string,
): Promise<Html> {
  const names = await read(c, firstCompanyNames);
  return html`${field(state, { name: 'company', label, hint, list: 'company-names' })}
<datalist id="company-names">${names.map((name) => html`<option value="${name}"></option>`)}</datalist>`;
}

/** The id of the company that was chosen, by id, name or a part of it that no other has; null when none was, or after a mistake. */
export async function readPickedCompany(c: PageContext, form: Form): Promise<string | null> {
  const text = form.optional('company', (typed) => typed.trim());
  if (text === null) return null;
  const [named, like] = await read(
    c,
    async (sql) => [await companiesNamed(sql, [text]), await companiesLike(sql, text)] as const,
  );
  const exact = like.filter(({ is_whole }) => is_whole);
  const [found, other] = [named, exact, like].find((each) => each.length > 0) ?? [];
  if (found === undefined) form.refuse('company', 'is not known.');
  if (other !== undefined)
    form.refuse('company', 'is the name of several companies: give more of it, or an id.');
  return found?.id ?? null;
}
