import { type KeptEntry, keptEntries } from '../../domain/settings/kept.ts';
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
  const { words } = c.var.format;
  const { kept } = words;
  const cells = {
    [kept.what]: ({ what }: KeptEntry) => what,
    [kept.why]: ({ why }: KeptEntry) => why,
    [kept.howLong]: ({ until }: KeptEntry) => until,
  };
  const entries = keptEntries(words, kept.days(c.var.services.requestTrailDays));
  const body = html`${companyHeading(c, company)}<h1>${kept.title}</h1>
<p class="lead">${kept.lead}</p>
${table(kept.caption, entries, { cells }, true)}
<section class="card"><h2>${kept.whoSees}</h2><ul>
${[kept.people, kept.operator, kept.router, kept.backups].map((text) => html`<li>${text}</li>`)}</ul>
${
  may(c.var.session.user, 'company.export', company.id)
    ? html`<div class="actions"><a class="button" href="/companies/${company.id}/export.tar.gz" download>${words.settings.download}</a></div>`
    : ''
}</section>`;
  return page(c, kept.title, body);
}
