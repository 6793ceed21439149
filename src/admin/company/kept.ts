import { KEPT, type Kept, retentionOf } from '../../domain/text/kept.ts';
import { may } from '../../operations/permission.ts';
import { findCompany } from '../../store/company/company.ts';
import { type PageContext, param, type Route, read } from '../page/context.ts';
import { html } from '../page/html.ts';
import { companyHeading, page, table } from '../page/layout.ts';

const PATH = '/companies/:company/kept';

/** "What is kept about us": for everybody of the company, members too. */
export const keptRoutes: readonly Route[] = [{ method: 'GET', path: PATH, action: 'company.kept', handle: keptPage }];

async function keptPage(c: PageContext): Promise<Response> {
  const company = await read(c, (sql) => findCompany(sql, param(c, 'company')));
  const retention = retentionOf(c.var.services.requestTrailDays);
  const cells = {
    What: ({ what }: Kept) => sentence(what),
    Why: ({ why }: Kept) => why,
    'How long': (kept: Kept) => kept.until(retention),
    Where: ({ tables }: Kept) => html`${Object.keys(tables).map((name) => html`<code>${name}</code> `)}`,
  };
  const body = html`${companyHeading(c, company)}<h1>What is kept about us</h1>
<p class="lead">No prompt and no answer is stored, not even a part of one: they are in memory while their call lasts. What is stored is this; “where” names the tables of the database.</p>
${table(
  'What is kept',
  KEPT.filter(({ of }) => of === 'company'),
  { cells },
  true,
)}
<section class="card"><h2>Who sees it</h2><ul>
<li>Owners and administrators see the keys, assistants and usage of the company, owners its people and the log of changes too. Members see their own account.</li>
<li>The operator of this service sees all of it.</li>
<li>The model router gets prompts and the id of a request, and no name, address or key.</li>
<li>Backups hold what was removed until they expire: ask the operator how long that is.</li></ul>
${
  may(c.var.session.user, 'company.export', company.id)
    ? html`<div class="actions"><a class="button" href="/companies/${company.id}/export.tar.gz" download>Download everything</a></div>`
    : ''
}</section>`;
  return page(c, 'What is kept about us', body);
}

function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
