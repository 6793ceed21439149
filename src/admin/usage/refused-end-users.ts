import { type RefusedEndUser, readRefusedEndUsers } from '../../store/events/end-user.ts';
import { type PageContext, read } from '../page/context.ts';
import { type Html, html } from '../page/html.ts';

const MOST_NAMED = 20;

/** Whose calls are refused now because of their own budgets, by name; each company leads to all of its. @param company null: of all */
export async function refusedEndUsers(
  c: PageContext,
  company: string | null,
): Promise<Html | string> {
  const rows = await read(c, (sql) => readRefusedEndUsers(sql, company, MOST_NAMED));
  if (rows.length === 0) return '';
  const people = Map.groupBy(rows, (row) => row.company.id);
  const link = ({ id, name, company }: RefusedEndUser, at: number) =>
    html`${at === 0 ? '' : ', '}<a href="/companies/${company.id}/end-users/${id}">${name}</a>`;
  return html`<section class="card" aria-labelledby="used-up"><h2 id="used-up">${c.var.format.words.endUsers.refused}</h2>
<ul>${[...people].map(
    ([id, [first, ...others]]) =>
      html`<li><a href="/companies/${id}/end-users?show=reached">${first?.company.name}</a>: ${[first as RefusedEndUser, ...others].map(link)}</li>`,
  )}</ul></section>`;
}
