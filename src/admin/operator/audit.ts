import { actorName, minuteIn, NOUNS, nameIn } from '../../domain/text/change-text.ts';
import { findCompany } from '../../store/company/company.ts';
import { AUDIT_WINDOW, type AuditRow, asOwnersSee, pageOfAudit } from '../../store/lists/audit.ts';
import { companyOf, type PageContext, type Route, read } from '../page/context.ts';
import { type Html, html } from '../page/html.ts';
import { badge, companyHeading, companyLink, emptyText, muted, page, table } from '../page/layout.ts';
import { listQuery, listUrl, searchBar, toNext } from '../page/list.ts';

/** The log of changes by page, command line or SQL: of all for operators, of a company for its owners. */
export const auditRoutes: readonly Route[] = [
  { method: 'GET', path: '/audit', action: 'audit.read', handle: auditPage },
  { method: 'GET', path: '/companies/:company/audit', action: 'company-audit.read', handle: companyAuditPage },
];

const SORTS = { '-id': 'Newest first', id: 'Oldest first' };
const MAX_VALUE = 300; // characters

const ACTIONS = {
  insert: ['good', 'created'],
  update: ['plain', 'changed'],
  delete: ['bad', 'removed'],
  truncate: ['bad', 'emptied'],
  erase: ['bad', 'erased persons'],
} as const;

async function auditPage(c: PageContext): Promise<Response> {
  const body = html`<h1>Audit log</h1>
<p class="lead">Every change by page, command line or SQL. Its entries cannot be removed, or changed by anything but an erasure of persons, and they never contain keys or passwords.</p>
${await log(c, '/audit')}`;
  return page(c, 'Audit log', body);
}

async function companyAuditPage(c: PageContext): Promise<Response> {
  const company = await read(c, (sql) => findCompany(sql, companyOf(c) as string));
  const body = html`${companyHeading(c, company)}<h1>Audit log</h1>
<p class="lead">Every change to this company, its people, keys, assistants and own models. Its entries cannot be removed, or changed by anything but an erasure of persons, and they never contain keys or passwords. “operator” stands for whoever runs this service.</p>
${await log(c, `/companies/${company.id}/audit`)}`;
  return page(c, `Audit log of ${company.name}`, body);
}

/**
 * Search, entries and the link to the next page. Under a company's path it shows the entries that the owner may see.
 */
async function log(c: PageContext, path: string): Promise<Html> {
  const { format } = c.var;
  const company = companyOf(c);
  const { search, sort, descending } = listQuery(c, SORTS);
  const asked = c.req.query('from') ?? '';
  const from = /^\d{1,15}$/.test(asked) ? Number(asked) : null;
  const found = await read(c, (sql) => pageOfAudit(sql, { search, newestFirst: descending, from, company }));
  const rows = company === null ? found.rows : found.rows.map(asOwnersSee);
  const whose = {
    Company: (row: AuditRow) => companyLink(row),
  };
  const cells = {
    When: ({ at }: AuditRow) => format.instant(at),
    Who: who,
    What: what,
    ...(company === null && whose),
    'Before and after': changes,
  };
  const searched = found.next === null ? 'Nothing' : `None of ${format.count(AUDIT_WINDOW)} changes`;
  const empty = search === '' ? 'Nothing has changed yet.' : `${searched} matches the search.`;
  const more = { from: String(found.next) };
  return html`${searchBar(path, SORTS, { search, sort, descending })}
${rows.length === 0 ? emptyText(empty) : table('Changes', rows, { cells }, true)}
${found.next === null ? '' : toNext(listUrl(path, { search, sort, descending }, more), `${descending ? 'Older' : 'Newer'} changes`)}`;
}

function who({ actor, db_role }: AuditRow): Html {
  if (actor === db_role) return html`${actor}<br>${muted('by SQL')}`;
  return html`${actorName(actor)}`;
}

function what({ action, subject, subject_id, company_id, company_name, before, after }: AuditRow): Html {
  const [tone, verb] = ACTIONS[action];
  const name = html`<strong>${nameIn(after ?? before ?? {})}</strong>`;
  // of all audited things, only keys are almost never removed
  const isKept = subject === 'api_keys' && action !== 'delete' && subject_id !== null && company_name !== null;
  return html`${badge(tone, verb)} ${NOUNS[subject] ?? subject}<br>${isKept ? html`<a href="/companies/${company_id}/access/${subject_id}">${name}</a>` : name}`;
}

/** The values that differ; all values of a row that was created or removed. */
function changes({ before, after }: AuditRow): Html {
  const { id: _, company_id: __, ...values } = { ...before, ...after };
  const differs = (name: string) => JSON.stringify(before?.[name] ?? null) !== JSON.stringify(after?.[name] ?? null);
  const differing = Object.keys(values).filter(differs);
  if (differing.length === 0) return html``;
  const list = html`<dl class="diff">${differing.map(
    (name) => html`<dt>${name}</dt><dd>${difference(name, before, after)}</dd>`,
  )}</dl>`;
  return before !== null && after !== null
    ? list
    : html`<details><summary>${differing.length === 1 ? '1 value' : `${differing.length} values`}</summary>${list}</details>`;
}

/** For two lists the removed and the added values; otherwise the old value and the new one. */
function difference(name: string, before: AuditRow['before'], after: AuditRow['after']): Html {
  const [old, present] = [before?.[name], after?.[name]];
  if (Array.isArray(old) && Array.isArray(present)) {
    const kept = old.filter((each) => present.includes(each));
    const left = old.filter((each) => !kept.includes(each));
    const came = present.filter((each) => !kept.includes(each));
    return html`${[
      kept.length > 0 && html`${shown(kept, name)} `,
      left.length > 0 && html`<del>${shown(left, name)}</del> `,
      came.length > 0 && html`<ins>${shown(came, name)}</ins>`,
    ]}`;
  }
  return html`${before === null ? '' : html`<del>${shown(old, name)}</del>`}${
    after === null ? '' : html` <ins>${shown(present, name)}</ins>`
  }`;
}

/** JSON in words. */
function inWords(value: unknown): string {
  if (value === null) return 'none';
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (Array.isArray(value)) return value.map(inWords).join(', ') || 'none';
  if (typeof value !== 'object') return minuteIn(String(value));
  return (
    Object.entries(value)
      .map(([name, each]) => `${name}: ${inWords(each)}`)
      .join(', ') || 'none'
  );
}

/** A key without a list may use everything. */
function shown(value: unknown, name: string): string {
  if (value === undefined || value === null) return name.startsWith('allowed_') ? 'all' : 'none';
  const text = inWords(value);
  return text.length > MAX_VALUE ? `${text.slice(0, MAX_VALUE)}…` : text;
}
